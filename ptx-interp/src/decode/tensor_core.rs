//! Instructions of the tensor cores.

use ptx_gemm_ptx::instruction::{Base, Opcode, Operand};
use ptx_gemm_ptx::matrix::{Element, Overflow, Part, Transpose};
use ptx_gemm_ptx::module::Statement;
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use super::memory::state_space;
use crate::op::{
    DoubleMultiply, Factor, Factors, GroupMultiply, GroupRegisters, Left, Major, Matrices, Multiply, Narrow, Op, Other,
    Pointer, R32, Slot, Sum, Way,
};

pub(super) const UNFIT: &str = "the operands do not fit the instruction";

impl Decoder<'_> {
    pub(super) fn tensor_core(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match (opcode, operands) {
            (&Opcode::LdMatrix { matrices, transpose, space }, [values, address]) => {
                self.matrices(Way::Load, matrices, transpose, space, [values, address])
            }
            (&Opcode::StMatrix { matrices, transpose, space }, [address, values]) => {
                self.matrices(Way::Store, matrices, transpose, space, [values, address])
            }
            (&Opcode::Mma { shape, d: Element::F64, .. }, [to, left, right, from]) => {
                if !matches!((shape.m, shape.n, shape.k), (8, 8, 4) | (16, 8, 4 | 8 | 16)) {
                    return Err(UNFIT.into());
                }
                let multiply = DoubleMultiply {
                    rows: shape.m as u8,
                    k: shape.k as u8,
                    d: self.fragment(to, Decoder::d64)?,
                    a: self.fragment(left, |decoder, value| decoder.r64(value, Type::F64))?,
                    b: self.fragment(right, |decoder, value| decoder.r64(value, Type::F64))?,
                    c: self.fragment(from, |decoder, value| decoder.r64(value, Type::F64))?,
                };
                self.code.double_multiplies.push(multiply);
                Ok(Op::DoubleMultiply { index: self.code.double_multiplies.len() as u32 - 1 })
            }
            (&Opcode::Mma { shape, overflow, d, a, b, c }, [to, left, right, from]) => {
                // The extent along k in units of 16 bits.
                let depth = u32::from(shape.k) * a.bits() / 16;
                let (factors, sum) = types([a, b], d, overflow)
                    .filter(|_| c == d && matches!((shape.m, shape.n, depth), (16, 8, 8 | 16) | (8, 8, 8)))
                    .ok_or_else(|| {
                        format!("mma.sync of .{} with accumulators in .{} is not supported", a.name(), d.name())
                    })?;
                let multiply = Multiply {
                    factors,
                    sum,
                    rows: shape.m as u8,
                    depth: depth as u8,
                    d: self.fragment(to, Decoder::d32)?,
                    a: self.fragment(left, |decoder, value| decoder.r32(value, Type::B32))?,
                    b: self.fragment(right, |decoder, value| decoder.r32(value, Type::B32))?,
                    c: self.fragment(from, |decoder, value| decoder.r32(value, d.register()))?,
                };
                self.code.multiplies.push(multiply);
                Ok(Op::Multiply { index: self.code.multiplies.len() as u32 - 1 })
            }
            (&Opcode::Wgmma { shape, overflow, d, a, b }, [to, left, right, scale_d, signs @ ..]) => {
                let (factors, sum) = types([a, b], d, overflow)
                    .filter(|(factors, _)| u64::from(shape.k) == factors.per_row())
                    .ok_or_else(|| {
                        format!("wgmma of .{} with accumulators in .{} is not supported", a.name(), d.name())
                    })?;
                let (negate, majors) = match factors {
                    Factors::Half(_) => signs_and_majors(signs)?,
                    // These operands are contiguous along k.
                    Factors::Other(_) => {
                        let of_a = if let Operand::Vector(_) = left { None } else { Some(Major::K) };
                        let [first, second] = [Some(Major::K), of_a];
                        (self::signs(signs)?, [first, second])
                    }
                };
                let Operand::Vector(registers) = to else { return Err(UNFIT.into()) };
                let d = registers.iter().map(|register| self.d32(register)).collect::<Result<Vec<R32>, String>>()?;
                let (a, b_major) = match (left, majors) {
                    (Operand::Vector(_), [b_major, None]) => {
                        let registers = self.fragment(left, |decoder, value| decoder.r32(value, Type::B32))?;
                        (Left::Registers(registers), b_major)
                    }
                    (left, [major, Some(b_major)]) => {
                        let descriptor = self.r64(left, Type::B64)?;
                        (Left::Descriptor { descriptor, major: major.unwrap_or(Major::K) }, Some(b_major))
                    }
                    _ => return Err(UNFIT.into()),
                };
                let multiply = GroupMultiply {
                    factors,
                    sum,
                    n: shape.n,
                    d,
                    a,
                    b: self.r64(right, Type::B64)?,
                    b_major: b_major.ok_or(UNFIT)?,
                    scale_d: self.pred(scale_d)?,
                    negate,
                };
                self.code.group_multiplies.push(multiply);
                Ok(Op::GroupMultiply { index: self.code.group_multiplies.len() as u32 - 1 })
            }
            (&Opcode::WmmaLoad { part, layout, shape, space, element }, [values, address, stride @ ..]) => {
                self.wmma_access((Way::Load, part), (layout, shape, space, element), [address, values], stride)
            }
            (&Opcode::WmmaStore { layout, shape, space, element }, [address, values, stride @ ..]) => {
                self.wmma_access((Way::Store, Part::D), (layout, shape, space, element), [address, values], stride)
            }
            (Opcode::WmmaMultiply { .. } | Opcode::WmmaBits { .. }, [d, a, b, c]) => {
                self.wmma_multiply(opcode, [d, a, b, c])
            }
            (Opcode::WgmmaFence, []) => Ok(Op::GroupFence),
            (Opcode::WgmmaCommit, []) => Ok(Op::GroupCommit),
            (Opcode::WgmmaWait, &[Operand::Int(pending)]) => {
                Ok(Op::GroupWait { pending: u32::try_from(pending).map_err(|_| "a negative number of groups")? })
            }
            _ => Err(UNFIT.into()),
        }
    }

    fn matrices(
        &mut self,
        way: Way,
        count: u8,
        transpose: Transpose,
        space: Space,
        [values, address]: [&Operand; 2],
    ) -> Result<Op, String> {
        let values = match way {
            Way::Load => self.fragment(values, Decoder::d32)?,
            Way::Store => self.fragment(values, |decoder, value| decoder.r32(value, Type::B32))?,
        };
        let space = state_space(space);
        let (base, offset) = self.address(address, space)?;
        let address = Pointer { space, base, offset };
        self.code.matrices.push(Matrices { way, count, transposed: transpose == Transpose::Yes, address, values });
        Ok(Op::Matrices { index: self.code.matrices.len() as u32 - 1 })
    }

    /// The registers of a fragment; a shorter one repeats its last register.
    fn fragment<R: Copy, const N: usize>(
        &mut self,
        operand: &Operand,
        mut slot: impl FnMut(&mut Self, &Operand) -> Result<R, String>,
    ) -> Result<[R; N], String> {
        let values = match operand {
            Operand::Vector(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut slots = Vec::with_capacity(N);
        for value in values {
            slots.push(slot(self, value)?);
        }
        let last = *slots.last().ok_or(UNFIT)?;
        slots.resize(N.max(slots.len()), last);
        slots.try_into().map_err(|_| UNFIT.into())
    }

    /// Finds the registers that multiplications of a warp group use, and the other instructions that use them.
    pub(super) fn group_registers(&self) -> GroupRegisters {
        let mut registers = GroupRegisters::default();
        if self.code.group_multiplies.is_empty() {
            return registers;
        }
        let mut numbers = vec![None; self.names32.len()];
        let of_groups = self.code.group_multiplies.iter().flat_map(|multiply| {
            let of_a = if let Left::Registers(a) = &multiply.a { a.as_slice() } else { &[] };
            multiply.d.iter().chain(of_a)
        });
        for slot in of_groups {
            let number = &mut numbers[slot.0 as usize];
            if number.is_none() {
                *number = Some(registers.slots.len() as u32);
                registers.slots.push(*slot);
            }
        }
        registers.numbers = numbers;
        for statement in &self.entry.body {
            let Statement::Instruction(instruction) = statement else { continue };
            let first = registers.used.len() as u32;
            if !matches!(instruction.op, Opcode::Wgmma { .. }) {
                self.used(&instruction.operands, &mut registers);
            }
            registers.by_instruction.push(first..registers.used.len() as u32);
        }
        registers
    }

    fn used(&self, operands: &[Operand], registers: &mut GroupRegisters) {
        for operand in operands {
            match operand {
                Operand::Vector(elements) => self.used(elements, registers),
                Operand::Pair(pair) => self.used(&[pair.0.clone(), pair.1.clone()], registers),
                Operand::Reg(reg) => registers.used.extend(self.of_groups(&Base::Reg(*reg), registers)),
                Operand::Address(address) => registers.used.extend(self.of_groups(&address.0, registers)),
                Operand::TensorAddress(address) => {
                    registers.used.extend(self.of_groups(&address.0, registers));
                    self.used(&address.1, registers);
                }
                _ => {}
            }
        }
    }

    fn of_groups(&self, base: &Base, registers: &GroupRegisters) -> Option<u32> {
        let Base::Reg(reg) = base else { return None };
        let Some(Slot::R32(slot)) = self.registers.get(&(reg.family, reg.index)) else { return None };
        registers.numbers.get(slot.0 as usize).copied().flatten()
    }
}

/// The types of a product, except double precision.
fn types([a, b]: [Element; 2], sum: Element, overflow: Overflow) -> Option<(Factors, Sum)> {
    let narrow = |element: Element| match element {
        Element::E4m3 => Some(Narrow::E4m3),
        Element::E5m2 => Some(Narrow::E5m2),
        _ => None,
    };
    let signed = |element: Element| match element {
        Element::S8 => Some(true),
        Element::U8 => Some(false),
        _ => None,
    };
    let factors = match (a, b) {
        (Element::F16, Element::F16) => Factors::Half(Factor::F16),
        (Element::Bf16, Element::Bf16) => Factors::Half(Factor::Bf16),
        (Element::Tf32, Element::Tf32) => Factors::Other(Other::Tf32),
        (Element::S8 | Element::U8, _) => {
            let signed = [signed(a)?, signed(b)?];
            Factors::Other(Other::Bytes { signed, saturates: overflow == Overflow::Satfinite })
        }
        _ => Factors::Other(Other::Narrow([narrow(a)?, narrow(b)?])),
    };
    let sum = match sum {
        Element::F32 => Sum::F32,
        Element::F16 => Sum::F16,
        Element::S32 => Sum::S32,
        _ => return None,
    };
    let whole = matches!(factors, Factors::Other(Other::Bytes { .. }));
    (whole == (sum == Sum::S32)).then_some((factors, sum))
}

/// `scale-a, scale-b`, or nothing.
fn signs(operands: &[Operand]) -> Result<[bool; 2], String> {
    match operands {
        [] => Ok([false; 2]),
        [Operand::Int(a), Operand::Int(b)] => Ok([*a < 0, *b < 0]),
        _ => Err(UNFIT.into()),
    }
}

/// `scale-a, scale-b, [trans-a,] trans-b`.
fn signs_and_majors(operands: &[Operand]) -> Result<([bool; 2], [Option<Major>; 2]), String> {
    let number = |operand: &Operand| match operand {
        Operand::Int(value) => Ok(*value),
        _ => Err(UNFIT.to_owned()),
    };
    let major = |operand: &Operand| Ok::<_, String>(Some(if number(operand)? == 0 { Major::K } else { Major::Mn }));
    let (signs, majors) = match operands {
        [a, b, first] => ([a, b], [major(first)?, None]),
        [a, b, first, second] => ([a, b], [major(first)?, major(second)?]),
        _ => return Err(UNFIT.into()),
    };
    Ok(([number(signs[0])? < 0, number(signs[1])? < 0], majors))
}
