//! Arithmetic on data.

use ptx_gemm_ptx::instruction::{Approx, Compare, Half, Opcode, Operand, Rounding};
use ptx_gemm_ptx::types::Type;
use ptx_gemm_ptx::warp::{Direction, ShiftMode};

use super::{Emitter, scalar_type};
use crate::kernel::{self, Math, Value};

/// The instruction with `.ftz`.
fn flushed(op: Opcode) -> Opcode {
    Opcode::Modified { op: Box::new(op), ftz: true, sat: false, relu: false }
}

impl Emitter<'_> {
    pub(super) fn value(&self, value: &Value, ty: Type) -> Operand {
        match (value, ty) {
            (Value::Reg(reg), _) => self.reg(*reg).into(),
            (Value::Const(c), Type::F64) => Operand::from(*c),
            (Value::Const(c), Type::S32) => Operand::Int(*c as i64),
            // Zero is the only constant of a narrow type or of a word.
            (Value::Const(_), Type::B16 | Type::B32) => Operand::Int(0),
            (Value::Const(c), _) => Operand::from(*c as f32),
        }
    }

    pub(super) fn math(&mut self, op: Math, dst: kernel::Reg, args: &[Value]) {
        let ty = scalar_type(self.kernel.ty(dst));
        let operands: Vec<Operand> =
            [self.reg(dst).into()].into_iter().chain(args.iter().map(|arg| self.value(arg, ty))).collect();
        let integer = ty == Type::S32;
        let rnd = if integer { Rounding::None } else { Rounding::Rn };
        let opcode = match op {
            Math::Mov => Opcode::Mov(ty),
            Math::Add => Opcode::Add { rnd, ty },
            Math::Sub => Opcode::Sub { rnd, ty },
            Math::Mul if integer => Opcode::MulInt { half: Half::Lo, ty },
            Math::Mul => Opcode::Mul { rnd, ty },
            Math::Fma if integer => Opcode::MadInt { half: Half::Lo, ty },
            Math::Fma => Opcode::Fma { rnd, ty },
            Math::Div => Opcode::Div { rnd, ty },
            Math::Neg => Opcode::Neg(ty),
            Math::Abs => Opcode::Abs(ty),
            Math::CopySign => Opcode::CopySign(ty),
            Math::Exp2 => Opcode::Approx { function: Approx::Ex2, ty },
            Math::Exp2OrZero => flushed(Opcode::Approx { function: Approx::Ex2, ty }),
            Math::Reciprocal => flushed(Opcode::Approx { function: Approx::Rcp, ty }),
            Math::Min => return self.extremum(|nan| Opcode::Min { nan, ty }, dst, [&args[0], &args[1]]),
            Math::Max => return self.extremum(|nan| Opcode::Max { nan, ty }, dst, [&args[0], &args[1]]),
            Math::ConvertPair(to) => return self.convert_pair(dst, to, args),
            Math::Convert => return self.convert(dst, &args[0]),
            Math::Pair | Math::First | Math::Second => return self.pairs(op, dst, args),
            Math::Four => {
                let bytes: Vec<Operand> = args.iter().map(|arg| self.value(arg, Type::B16)).collect();
                let word = self.reg(dst);
                return self.four(word, &bytes);
            }
            Math::Byte(index) => {
                let (byte, word) = (self.reg(dst), self.value(&args[0], Type::B32));
                return self.byte(byte, word, index, None);
            }
            Math::Across => Opcode::Shf { direction: Direction::Right, mode: ShiftMode::Wrap },
            Math::Tf32 => Opcode::Cvt { rnd: Rounding::Rna, sat: false, to: Type::Tf32, from: Type::F32 },
        };
        self.entry.emit(opcode, operands);
    }

    /// `min` and `max` that propagate NaN: one instruction for f32 from sm_80 on (PTX ISA, `max`), otherwise an
    /// additional comparison.
    fn extremum(&mut self, opcode: impl Fn(bool) -> Opcode, dst: kernel::Reg, args: [&Value; 2]) {
        let own = self.kernel.ty(dst);
        let ty = scalar_type(own);
        let native = ty == Type::S32 || (ty == Type::F32 && self.target.capability >= 80);
        let dst = Operand::from(self.reg(dst));
        let [x, y] = args.map(|arg| self.value(arg, ty));
        if native {
            return self.entry.emit(opcode(ty == Type::F32), [dst, x, y]);
        }
        let (unordered, nan, result) = (self.scratch(kernel::Type::Pred), self.scratch(own), self.scratch(own));
        self.entry.emit(Opcode::Setp { cmp: Compare::Nan, ty }, [unordered.into(), x.clone(), y.clone()]);
        // The sum of a NaN and anything is a NaN.
        self.entry.emit(Opcode::Add { rnd: Rounding::Rn, ty }, [nan.into(), x.clone(), y.clone()]);
        self.entry.emit(opcode(false), [result.into(), x, y]);
        self.entry.emit(Opcode::Selp(ty), [dst, nan.into(), result.into(), unordered.into()]);
    }

    pub(super) fn is_zero(&mut self, dst: kernel::Reg, src: kernel::Reg) {
        let ty = scalar_type(self.kernel.ty(src));
        let zero = self.value(&Value::Const(0.0), ty);
        let operands = [self.reg(dst).into(), self.reg(src).into(), zero];
        self.entry.emit(Opcode::Setp { cmp: Compare::Eq, ty }, operands);
    }

    pub(super) fn select(&mut self, dst: kernel::Reg, pred: kernel::Reg, yes: &Value, no: &Value) {
        let ty = scalar_type(self.kernel.ty(dst));
        let operands = [self.reg(dst).into(), self.value(yes, ty), self.value(no, ty), self.reg(pred).into()];
        self.entry.emit(Opcode::Selp(ty), operands);
    }
}
