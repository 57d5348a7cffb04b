//! Loads, stores, atomics and asynchronous copies.

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::{Atomic, Base, Cache, Opcode, Operand, Order};
use ptx_gemm_ptx::module::{Entry, Statement};
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use crate::address::StateSpace;
use crate::op::{Access, AsyncCopy, AtomicElement, AtomicOp, Constant, Op, Shape, Slot, Strong};

/// Whether an entry may store to shared memory strongly.
pub(super) fn stores_shared_flags(entry: &Entry) -> bool {
    let shared = |space: Space| state_space(space).is_none_or(StateSpace::is_shared);
    entry.body.iter().any(|statement| match statement {
        Statement::Instruction(instruction) => match *instruction.op.unhinted() {
            Opcode::St { order, space, .. } => order != Order::Weak && shared(space),
            Opcode::Atom { space, .. } | Opcode::Red { space, .. } => shared(space),
            _ => false,
        },
        _ => false,
    })
}

impl Decoder<'_> {
    pub(super) fn memory(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match (opcode, operands) {
            (&Opcode::Ld { order, space, cache, vector, ty, .. }, [values, address]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.read_only = cache == Cache::Nc;
                self.elements(&mut access, values, (vector, ty), |decoder, value| decoder.destination(value))?;
                // If no instruction of the entry stores to shared memory strongly, a vector of shared words holds no
                // flags, and a thread learns nothing from it. Reading it is then a weak read, and as fast as one.
                let no_flags =
                    access.space.is_some_and(StateSpace::is_shared) && access.count > 1 && !self.shared_flags;
                access.strong = access.strong.filter(|strong| strong.acquires || !no_flags);
                Ok(Op::Load { index: self.add_access(access) })
            }
            (&Opcode::St { order, space, vector, ty, .. }, [address, values]) => {
                let mut access = self.access(address, space, order, ty)?;
                self.elements(&mut access, values, (vector, ty), |decoder, value| decoder.stored(value, ty))?;
                Ok(Op::Store { index: self.add_access(access) })
            }
            (&Opcode::Atom { order, space, op, ty }, [d, address, rest @ ..]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.strong = Some(Strong::of_atomic(order));
                self.atomic(access, (op, ty), d, rest)
            }
            (&Opcode::Red { order, space, op, ty }, [address, rest @ ..]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.strong = Some(Strong::of_atomic(order));
                self.atomic(access, (op, ty), &Operand::Sink, rest)
            }
            (&Opcode::AtomVector { order, space, op, ty, .. }, [d, address, b]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.strong = Some(Strong::of_atomic(order));
                self.atomic_vector(access, (op, ty), d, b)
            }
            (&Opcode::RedVector { order, space, op, ty, .. }, [address, b]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.strong = Some(Strong::of_atomic(order));
                self.atomic_vector(access, (op, ty), &Operand::Sink, b)
            }
            (Opcode::CpAsync { .. }, [to, from, size, rest @ ..]) => self.async_copy(to, from, size, rest),
            _ => Err("the operands do not fit the instruction".into()),
        }
    }

    fn add_access(&mut self, access: Access) -> u32 {
        self.code.accesses.push(access);
        self.code.accesses.len() as u32 - 1
    }

    /// A stored register may be wider than the stored type.
    fn stored(&mut self, value: &Operand, ty: Type) -> Result<Slot, String> {
        match value {
            Operand::Reg(reg) => self.register(*reg),
            other => self.source(other, ty),
        }
    }

    fn elements(
        &mut self,
        access: &mut Access,
        values: &Operand,
        (vector, ty): (u8, Type),
        mut slot: impl FnMut(&mut Self, &Operand) -> Result<Slot, String>,
    ) -> Result<(), String> {
        let values = match values {
            Operand::Vector(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        if let ([one], Type::B128) = (values, ty) {
            for (slot, half) in access.values.iter_mut().zip(self.halves(one)?) {
                *slot = half.into();
            }
            (access.count, access.shape) = (2, Shape::Doubles);
            return Ok(());
        }
        if values.len() != usize::from(vector.max(1)) || values.len() > access.values.len() {
            return Err(format!("{} registers do not fit the vector width {vector}", values.len()));
        }
        for (slot_of, value) in access.values.iter_mut().zip(values) {
            *slot_of = slot(self, value)?;
            if matches!(slot_of, Slot::P(_)) {
                return Err("a predicate cannot be stored in memory".into());
            }
        }
        access.count = values.len() as u8;
        let elements = &access.values[..values.len()];
        access.shape = match access.bytes {
            // The fast paths handle up to 16 bytes.
            _ if access.span() > 16 => Shape::Odd,
            4 if elements.iter().all(|slot| matches!(slot, Slot::R32(_))) => Shape::Words,
            8 if elements.iter().all(|slot| matches!(slot, Slot::R64(_))) => Shape::Doubles,
            _ => Shape::Odd,
        };
        Ok(())
    }

    fn access(&mut self, address: &Operand, space: Space, order: Order, ty: Type) -> Result<Access, String> {
        let space = state_space(space);
        let (base, offset) = self.address(address, space)?;
        // Both halves of 128 bits are accessed at once.
        let ty = if ty == Type::B128 { Type::B64 } else { ty };
        if !matches!(ty.bits(), 8 | 16 | 32 | 64) {
            return Err(format!("accesses of .{} are not supported", ty.name()));
        }
        Ok(Access {
            space,
            base,
            offset,
            bytes: ty.bytes() as u8,
            signed: ty.is_signed(),
            read_only: false,
            strong: Strong::of(order),
            values: [Slot::P(self.sink()); 8],
            count: 1,
            shape: Shape::Odd,
            atomic: None,
            copy: None,
        })
    }

    /// Base register and offset; a name becomes a base that holds its address.
    pub(super) fn address(&mut self, operand: &Operand, space: Option<StateSpace>) -> Result<(Slot, i64), String> {
        let Operand::Address(address) = operand else { return Err("expected an address".into()) };
        let (base, offset) = &**address;
        let start = match base {
            Base::Reg(reg) => match self.register(*reg)? {
                Slot::P(_) => return Err("a predicate cannot be an address".into()),
                slot => slot,
            },
            Base::None => self.absolute(0, space),
            Base::Symbol(name) => self.symbol_in(name, 0, space)?,
        };
        Ok((start, *offset))
    }

    /// The address of a variable plus an offset: in the space that an access names, or generic.
    pub(super) fn symbol_in(&mut self, name: &str, offset: i64, space: Option<StateSpace>) -> Result<Slot, String> {
        let symbol = self.symbols.get(name).ok_or_else(|| format!("`{name}` has no address in this interpreter"))?;
        let address = symbol.address.wrapping_add_signed(offset);
        let generic = || address.wrapping_add(symbol.space.window());
        Ok(match space {
            None | Some(StateSpace::Global) if symbol.space == StateSpace::Global => {
                Slot::R64(self.constant64(Constant::Global(symbol.address as u32, offset)))
            }
            None if symbol.space == StateSpace::Shared => Slot::R64(self.constant64(Constant::Shared(generic()))),
            None => self.absolute(generic(), space),
            Some(space) if space.is_shared() && symbol.space == StateSpace::Shared => {
                Slot::R32(self.constant32(Constant::Shared(address)))
            }
            Some(of) if of == symbol.space => self.absolute(address, space),
            Some(space) => return Err(format!("`{name}` is not in {} space", space.name())),
        })
    }

    fn absolute(&mut self, address: u64, space: Option<StateSpace>) -> Slot {
        match space.is_some_and(StateSpace::is_shared) {
            true => Slot::R32(self.constant32(Constant::Value(address))),
            false => Slot::R64(self.constant64(Constant::Value(address))),
        }
    }

    fn atomic(
        &mut self,
        mut access: Access,
        (op, ty): (Atomic, Type),
        d: &Operand,
        sources: &[Operand],
    ) -> Result<Op, String> {
        let (b, c) = match (op, sources) {
            (Atomic::Cas, [b, c]) => (b, c),
            (Atomic::Cas, _) => return Err("cas takes two values".into()),
            (_, [b]) => (b, b),
            _ => return Err("the operation takes one value".into()),
        };
        let mut elements = ArrayVec::new();
        if ty == Type::B128 {
            let [d, b, c] = [self.halves(d)?, self.halves(b)?, self.halves(c)?].map(|halves| halves.map(Slot::from));
            elements.extend([0, 1].map(|half| AtomicElement { d: d[half], b: b[half], c: c[half] }));
            access.count = 2;
        } else {
            let (d, b, c) = (self.destination(d)?, self.source(b, ty)?, self.source(c, ty)?);
            elements.push(AtomicElement { d, b, c });
        }
        if !matches!(access.space, None | Some(StateSpace::Global | StateSpace::Shared | StateSpace::Cluster)) {
            return Err("atomics work on global and shared memory only".into());
        }
        access.atomic = Some(Box::new(AtomicOp { op, ty, elements }));
        Ok(Op::Atomic { index: self.add_access(access) })
    }

    /// Atomics on consecutive elements; the access as a whole is aligned to its size.
    fn atomic_vector(
        &mut self,
        mut access: Access,
        (op, ty): (Atomic, Type),
        d: &Operand,
        b: &Operand,
    ) -> Result<Op, String> {
        let sinks = [const { Operand::Sink }; 8];
        let (Operand::Vector(b), d) = (b, if let Operand::Vector(d) = d { d.as_slice() } else { &sinks }) else {
            return Err("expected a vector".into());
        };
        let mut elements = ArrayVec::new();
        for (d, b) in d.iter().zip(b) {
            let (d, b) = (self.destination(d)?, self.source(b, ty)?);
            let element = AtomicElement { d, b, c: b };
            elements.try_push(element).map_err(|_| "the vector is too long")?;
        }
        if !matches!(elements.len(), 2 | 4 | 8) || elements.len() != b.len() {
            return Err(format!("{} registers do not fit the vector", b.len()));
        }
        if !matches!(access.space, None | Some(StateSpace::Global)) {
            return Err("vectors of atomics work on global memory only".into());
        }
        access.count = elements.len() as u8;
        access.atomic = Some(Box::new(AtomicOp { op, ty, elements }));
        Ok(Op::Atomic { index: self.add_access(access) })
    }

    fn async_copy(&mut self, to: &Operand, from: &Operand, size: &Operand, rest: &[Operand]) -> Result<Op, String> {
        let &Operand::Int(bytes @ (4 | 8 | 16)) = size else {
            return Err("cp.async copies 4, 8 or 16 bytes".into());
        };
        let mut access = self.access(to, Space::Shared, Order::Weak, Type::B32)?;
        let (source, source_offset) = self.address(from, Some(StateSpace::Global))?;
        let source_bytes = match rest {
            [] => None,
            [Operand::Reg(reg)] => Some(self.register(*reg)?),
            [bytes] => Some(self.source(bytes, Type::U32)?),
            _ => return Err("cp.async takes at most four operands".into()),
        };
        access.bytes = bytes as u8;
        access.copy = Some(AsyncCopy {
            source,
            source_offset,
            source_space: Some(StateSpace::Global),
            bytes: bytes as u8,
            source_bytes,
        });
        Ok(Op::CpAsync { index: self.add_access(access) })
    }
}

pub(super) fn state_space(space: Space) -> Option<StateSpace> {
    match space {
        Space::Generic => None,
        Space::Global => Some(StateSpace::Global),
        Space::Shared | Space::SharedCta => Some(StateSpace::Shared),
        Space::SharedCluster => Some(StateSpace::Cluster),
        Space::Local => Some(StateSpace::Local),
        Space::Param => Some(StateSpace::Param),
        Space::Const => Some(StateSpace::Const),
    }
}
