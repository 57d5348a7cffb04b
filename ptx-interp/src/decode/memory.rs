//! Loads, stores, atomics and asynchronous copies.

use ptx_gemm_ptx::instruction::{Atomic, Base, Opcode, Operand, Order};
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use crate::address::Place;
use crate::op::{Access, AsyncCopy, AtomicOp, Constant, Op, Shape, Slot, Strong};

impl Decoder<'_> {
    pub(super) fn memory(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match (opcode, operands) {
            (&Opcode::Ld { order, space, vector, ty, .. }, [values, address]) => {
                let mut access = self.access(address, space, order, ty)?;
                self.elements(&mut access, values, vector, |decoder, value| decoder.destination(value))?;
                Ok(Op::Load { index: self.add_access(access) })
            }
            (&Opcode::St { order, space, vector, ty, .. }, [address, values]) => {
                let mut access = self.access(address, space, order, ty)?;
                self.elements(&mut access, values, vector, |decoder, value| decoder.stored(value, ty))?;
                Ok(Op::Store { index: self.add_access(access) })
            }
            (&Opcode::Atom { order, space, op, ty }, [d, address, rest @ ..]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.strong = Some(Strong::of_atomic(order));
                access.values[0] = self.destination(d)?;
                self.atomic(access, op, ty, rest)
            }
            (&Opcode::Red { order, space, op, ty }, [address, rest @ ..]) => {
                let mut access = self.access(address, space, order, ty)?;
                access.strong = Some(Strong::of_atomic(order));
                access.values[0] = self.destination(&Operand::Sink)?;
                self.atomic(access, op, ty, rest)
            }
            (Opcode::CpAsync { .. }, [to, from, size, rest @ ..]) => self.async_copy(to, from, size, rest),
            _ => Err("the operands do not fit the instruction".into()),
        }
    }

    fn add_access(&mut self, access: Access) -> u32 {
        self.code.accesses.push(access);
        self.code.accesses.len() as u32 - 1
    }

    /// A stored register may be wider than what is stored of it.
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
        vector: u8,
        mut slot: impl FnMut(&mut Self, &Operand) -> Result<Slot, String>,
    ) -> Result<(), String> {
        let values = match values {
            Operand::Vector(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        if values.len() != usize::from(vector.max(1)) || values.len() > access.values.len() {
            return Err(format!("{} registers do not fit the vector width {vector}", values.len()));
        }
        for (place, value) in access.values.iter_mut().zip(values) {
            *place = slot(self, value)?;
            if matches!(place, Slot::P(_)) {
                return Err("a predicate has no place in memory".into());
            }
        }
        access.count = values.len() as u8;
        let elements = &access.values[..values.len()];
        access.shape = match access.bytes {
            4 if elements.iter().all(|slot| matches!(slot, Slot::R32(_))) => Shape::Words,
            8 if elements.iter().all(|slot| matches!(slot, Slot::R64(_))) => Shape::Doubles,
            _ => Shape::Odd,
        };
        Ok(())
    }

    fn access(&mut self, address: &Operand, space: Space, order: Order, ty: Type) -> Result<Access, String> {
        let place = place(space);
        let (base, offset) = self.address(address, place)?;
        if !matches!(ty.bits(), 8 | 16 | 32 | 64) {
            return Err(format!("accesses of .{} are not supported", ty.name()));
        }
        Ok(Access {
            place,
            base,
            offset,
            bytes: ty.bytes() as u8,
            signed: ty.is_signed(),
            strong: Strong::of(order),
            values: [Slot::P(self.sink()); 4],
            count: 1,
            shape: Shape::Odd,
            atomic: None,
            copy: None,
        })
    }

    /// Base register and offset; a name becomes a base that holds its address.
    pub(super) fn address(&mut self, operand: &Operand, place: Option<Place>) -> Result<(Slot, i64), String> {
        let Operand::Address(address) = operand else { return Err("an address is expected here".into()) };
        let (base, offset) = &**address;
        let start = match base {
            Base::Reg(reg) => match self.register(*reg)? {
                Slot::P(_) => return Err("a predicate is no address".into()),
                slot => return Ok((slot, *offset)),
            },
            Base::None => 0,
            Base::Symbol(name) => {
                let symbol = self.symbols.get(name).ok_or_else(|| format!("`{name}` is not laid out here"))?;
                match place {
                    None | Some(Place::Global) if symbol.place == Place::Global => {
                        return Ok((Slot::R64(self.constant64(Constant::Global(symbol.address as u32))), *offset));
                    }
                    None => symbol.place.window() + symbol.address,
                    Some(place) if place == symbol.place => symbol.address,
                    Some(place) => return Err(format!("`{name}` does not lie in {} space", place.name())),
                }
            }
        };
        if place == Some(Place::Shared) {
            return Ok((Slot::R32(self.constant32(Constant::Value(start))), *offset));
        }
        Ok((Slot::R64(self.constant64(Constant::Value(start))), *offset))
    }

    fn atomic(&mut self, mut access: Access, op: Atomic, ty: Type, sources: &[Operand]) -> Result<Op, String> {
        let (b, c) = match (op, sources) {
            (Atomic::Cas, [b, c]) => (self.source(b, ty)?, self.source(c, ty)?),
            (Atomic::Cas, _) => return Err("cas takes two values".into()),
            (_, [b]) => {
                let b = self.source(b, ty)?;
                (b, b)
            }
            _ => return Err("the operation takes one value".into()),
        };
        if !matches!(access.place, None | Some(Place::Global | Place::Shared)) {
            return Err("atomics work on global and shared memory only".into());
        }
        access.atomic = Some(AtomicOp { op, ty, b, c });
        Ok(Op::Atomic { index: self.add_access(access) })
    }

    fn async_copy(&mut self, to: &Operand, from: &Operand, size: &Operand, rest: &[Operand]) -> Result<Op, String> {
        let &Operand::Int(bytes @ (4 | 8 | 16)) = size else {
            return Err("cp.async copies 4, 8 or 16 bytes".into());
        };
        let mut access = self.access(to, Space::Shared, Order::Weak, Type::B32)?;
        let (source, source_offset) = self.address(from, Some(Place::Global))?;
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
            source_place: Some(Place::Global),
            bytes: bytes as u8,
            source_bytes,
        });
        Ok(Op::CpAsync { index: self.add_access(access) })
    }
}

pub(super) fn place(space: Space) -> Option<Place> {
    match space {
        Space::Generic => None,
        Space::Global => Some(Place::Global),
        Space::Shared | Space::SharedCta | Space::SharedCluster => Some(Place::Shared),
        Space::Local => Some(Place::Local),
        Space::Param => Some(Place::Param),
        Space::Const => Some(Place::Const),
    }
}
