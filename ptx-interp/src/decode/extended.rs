//! Instructions that this project's compiler does not emit: carries, `.ftz`, `.sat`, and some on bytes and signs.

use ptx_gemm_ptx::asynchronous::CacheHint;
use ptx_gemm_ptx::extended::CarryOf;
use ptx_gemm_ptx::hints::Hints;
use ptx_gemm_ptx::instruction::{Instruction, Opcode, Operand, Rounding};
use ptx_gemm_ptx::types::Type;

use super::Decoder;
use super::compare::comparison;
use crate::op::{Arith, Carry, Inexact, Modified, Op, P, ScalarFn, Slot};

impl Decoder<'_> {
    pub(super) fn extended(&mut self, instruction: &Instruction) -> Result<Op, String> {
        let operands = instruction.operands.as_slice();
        if let Opcode::Modified { op, .. } = &instruction.op
            && let Opcode::Approx { function, ty: ty @ Type::F64 } = **op
        {
            return self.scalar(ScalarFn::ApproxUpper { function }, ty, operands, &[ty]);
        }
        match &instruction.op {
            Opcode::Modified { op, .. } if pair_of_singles(op).is_some() => {
                let (op, rounding) = pair_of_singles(op).unwrap_or((Arith::Add, Rounding::Rn));
                let sources = [Type::F32x2; 3];
                let count = if op == Arith::Fma { 3 } else { 2 };
                self.scalar(ScalarFn::Singles { op, rounding, ftz: true }, Type::F32x2, operands, &sources[..count])
            }
            Opcode::Modified { op, .. } if matches!(**op, Opcode::Slct { .. }) => {
                let Opcode::Slct { ty, by } = **op else { return Err("the instruction is not supported".into()) };
                self.scalar(ScalarFn::SelectBySign { by, ftz: true }, ty, operands, &[ty, ty, by])
            }
            Opcode::Modified { op, sat: true, .. } if saturating(op).is_some() => {
                let f = ScalarFn::Saturating { op: saturating(op).unwrap_or(Arith::Add) };
                self.scalar(f, Type::S32, operands, &[Type::S32; 2])
            }
            Opcode::Modified { op, sat: true, .. } if matches!(**op, Opcode::MadInt { .. }) => {
                self.scalar(ScalarFn::MadHiSaturating, Type::S32, operands, &[Type::S32; 3])
            }
            Opcode::Modified { op, ftz, .. } if matches!(**op, Opcode::XorSign { .. }) => {
                self.xor_sign(op, *ftz, operands)
            }
            Opcode::Modified { op, ftz, sat, relu } => self.modified(instruction, op, [*ftz, *sat, *relu]),
            Opcode::Hinted { op, hints } => self.hinted(instruction, op, *hints),
            Opcode::Carry { of, takes, gives, ty } => self.carry(*of, [*takes, *gives], *ty, operands),
            Opcode::CopySign(ty) => self.scalar(ScalarFn::CopySign { ty: *ty }, *ty, operands, &[*ty; 2]),
            Opcode::Sad(ty) => self.scalar(ScalarFn::Distance { ty: *ty }, *ty, operands, &[*ty; 3]),
            Opcode::Dp4a { a, b } => {
                let f = ScalarFn::Dot { a: a.is_signed(), b: b.is_signed() };
                self.scalar(f, Type::B32, operands, &[Type::B32; 3])
            }
            Opcode::Dp2a { high, a, b } => {
                let f = ScalarFn::Dot2 { high: *high, a: a.is_signed(), b: b.is_signed() };
                self.scalar(f, Type::B32, operands, &[Type::B32; 3])
            }
            &Opcode::TestP { what, ty } => self.scalar(ScalarFn::TestFloat { what, ty }, Type::Pred, operands, &[ty]),
            Opcode::Cnot(ty) => self.scalar(ScalarFn::IsZero, *ty, operands, &[*ty]),
            op @ Opcode::XorSign { .. } => self.xor_sign(op, false, operands),
            &Opcode::Video { op, parts, merge, d, a, b } => {
                let f = ScalarFn::Video { op, parts, merge, types: [d, a, b] };
                self.scalar(f, Type::B32, operands, &[Type::B32; 3])
            }
            &Opcode::VideoSet { parts, add, cmp, a, b } => {
                // Parts are compared as numbers, whatever their signs.
                let (cmp, swapped) =
                    comparison(cmp, Type::S32).ok_or_else(|| format!("vset.{} does not exist", cmp.name()))?;
                let mut operands = operands.to_vec();
                let mut types = [a, b];
                if swapped && operands.len() == 4 {
                    operands.swap(1, 2);
                    types.swap(0, 1);
                }
                let f = ScalarFn::VideoSet { parts, add, cmp, types };
                self.scalar(f, Type::B32, &operands, &[Type::B32; 3])
            }
            &Opcode::CvtFinite { rnd, to } => {
                let sources = if matches!(to, Type::F16x2 | Type::Bf16x2) { 2 } else { 1 };
                let f = ScalarFn::ConvertFinite { to, rounding: rnd };
                self.scalar(f, to, operands, &[Type::F32; 2][..sources])
            }
            _ => Err("the instruction is not supported".into()),
        }
    }

    /// Unlike an ordinary instruction with `.ftz`, it depends on the sign of a NaN.
    fn xor_sign(&mut self, op: &Opcode, ftz: bool, operands: &[Operand]) -> Result<Op, String> {
        let &Opcode::XorSign { max, nan, ty } = op else { return Err("the instruction is not supported".into()) };
        let op = match (max, nan) {
            (false, false) => Arith::Min,
            (false, true) => Arith::MinNan,
            (true, false) => Arith::Max,
            (true, true) => Arith::MaxNan,
        };
        self.scalar(ScalarFn::XorSign { op, ty, ftz }, ty, operands, &[ty; 2])
    }

    /// An access with hints, which do nothing here, and possibly a cache policy as the last operand.
    fn hinted(&mut self, instruction: &Instruction, op: &Opcode, hints: Hints) -> Result<Op, String> {
        let mut plain = Instruction { op: op.clone(), ..instruction.clone() };
        if hints.policy == CacheHint::L2 && plain.operands.pop().is_none() {
            return Err("the cache policy is missing".into());
        }
        self.op(&plain)
    }

    fn modified(&mut self, instruction: &Instruction, op: &Opcode, [ftz, sat, relu]: [bool; 3]) -> Result<Op, String> {
        let (to, from) = types(op, relu);
        let inner = self.op(&Instruction { op: op.clone(), ..instruction.clone() })?;
        let [d, sources @ ..] = instruction.operands.as_slice() else {
            return Err("the instruction has no operands".into());
        };
        let mut flushed = [None; 3];
        if ftz && flushes(from) {
            // The predicate that a comparison is combined with is not a float.
            let floats =
                if matches!(op, Opcode::SetpWith { .. }) { sources.get(..2).unwrap_or(sources) } else { sources };
            for (entry, source) in flushed.iter_mut().zip(floats) {
                *entry = Some((self.source(source, from)?, from));
            }
        }
        let result = match d {
            Operand::Reg(_) => match self.destination(d)? {
                slot @ Slot::R32(_) => Some((slot, to)),
                slot @ Slot::R64(_) if flushes(to) => Some((slot, to)),
                _ => None,
            },
            _ => None,
        };
        let inexact = match inexact(op) {
            Some((op, rounding)) if ftz && flushes(to) && result.is_some() => {
                let mut slots = [Slot::P(self.sink()); 3];
                for (slot, source) in slots.iter_mut().zip(sources) {
                    *slot = self.source(source, from)?;
                }
                Some(Inexact { op, rounding, sources: slots, from })
            }
            _ => None,
        };
        self.code.modified.push(Modified { op: inner, flushed, result, ftz, inexact, sat, relu });
        Ok(Op::Modified { index: self.code.modified.len() as u32 - 1 })
    }

    fn carry(&mut self, of: CarryOf, [takes, gives]: [bool; 2], ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let none = Slot::P(self.sink());
        let carry = self.condition_code();
        let (d, a, b, c) = match (of, operands) {
            (CarryOf::Add | CarryOf::Sub, [d, a, b]) => (d, a, b, none),
            (CarryOf::MadLo | CarryOf::MadHi, [d, a, b, c]) => (d, a, b, self.source(c, ty)?),
            _ => return Err("the operands do not fit the instruction".into()),
        };
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let d = if ty.bits() == 64 { self.d64(d)?.into() } else { self.d32(d)?.into() };
        self.code.carries.push(Carry { of, ty, d, a, b, c, carry, takes, gives });
        Ok(Op::Carry { index: self.code.carries.len() as u32 - 1 })
    }

    /// The carry flag of the condition code, which has no name in the text.
    fn condition_code(&mut self) -> P {
        const NAME: &str = "CC.CF";
        let known = self.names_pred.iter().position(|name| name == NAME);
        P(known.unwrap_or_else(|| {
            self.names_pred.push(NAME.into());
            self.names_pred.len() - 1
        }) as u32)
    }
}

fn saturating(op: &Opcode) -> Option<Arith> {
    match op {
        Opcode::Add { ty: Type::S32, .. } => Some(Arith::Add),
        Opcode::Sub { ty: Type::S32, .. } => Some(Arith::Sub),
        _ => None,
    }
}

fn flushes(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
}

/// The operation and rounding of an instruction that may have an inexact subnormal result. Sums never have one.
fn inexact(op: &Opcode) -> Option<(Option<Arith>, Rounding)> {
    match *op {
        Opcode::Mul { rnd, .. } => Some((Some(Arith::Mul), rnd)),
        Opcode::Fma { rnd, .. } => Some((Some(Arith::Fma), rnd)),
        Opcode::Div { rnd, .. } => Some((Some(Arith::Div), rnd)),
        Opcode::Rcp { rnd, .. } => Some((Some(Arith::Rcp), rnd)),
        Opcode::Cvt { rnd, from: Type::F64, .. } => Some((None, rnd)),
        _ => None,
    }
}

/// The types of an instruction's result and of its sources.
fn types(op: &Opcode, relu: bool) -> (Type, Type) {
    match op {
        Opcode::Cvt { to, .. } if relu => (*to, Type::B32),
        Opcode::CvtFinite { to, .. } => (*to, Type::B32),
        Opcode::Set { from, .. } => (Type::B32, *from),
        Opcode::Add { ty, .. }
        | Opcode::Sub { ty, .. }
        | Opcode::Mul { ty, .. }
        | Opcode::Fma { ty, .. }
        | Opcode::Div { ty, .. }
        | Opcode::DivFast { ty, .. }
        | Opcode::Min { ty, .. }
        | Opcode::Max { ty, .. }
        | Opcode::Abs(ty)
        | Opcode::Neg(ty)
        | Opcode::Rcp { ty, .. }
        | Opcode::Sqrt { ty, .. }
        | Opcode::Approx { ty, .. } => (*ty, *ty),
        Opcode::Setp { ty, .. } | Opcode::SetpWith { ty, .. } => (Type::Pred, *ty),
        Opcode::Cvt { to: Type::F32, from: Type::F64, .. } => (Type::F32, Type::F64),
        // Conversions flush only single precision and, as measured on an H200, not even that when converting to f16.
        Opcode::Cvt { to: Type::F16, from: Type::F32, .. } => (Type::B32, Type::B32),
        Opcode::Cvt { to, from, .. } => {
            let single = |ty: Type| if ty == Type::F32 { ty } else { Type::B32 };
            (single(*to), single(*from))
        }
        _ => (Type::B32, Type::B32),
    }
}

/// The operation and rounding of arithmetic on two f32 in one register.
fn pair_of_singles(op: &Opcode) -> Option<(Arith, Rounding)> {
    match *op {
        Opcode::Add { rnd, ty: Type::F32x2 } => Some((Arith::Add, rnd)),
        Opcode::Sub { rnd, ty: Type::F32x2 } => Some((Arith::Sub, rnd)),
        Opcode::Mul { rnd, ty: Type::F32x2 } => Some((Arith::Mul, rnd)),
        Opcode::Fma { rnd, ty: Type::F32x2 } => Some((Arith::Fma, rnd)),
        _ => None,
    }
}
