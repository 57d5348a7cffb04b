//! Conversions between data types, each rounded once, to nearest even; integers and 8-bit floats saturate.
//!
//! Every target converts f16. Conversions of bf16 are instructions from sm_80 on (from f64: sm_90). On older targets
//! the bits are shifted and rounded as integers.

use ptx_gemm_ptx::instruction::{Compare, Opcode, Operand, Reg, Rounding};
use ptx_gemm_ptx::types::Type;

use super::{Emitter, scalar_type};
use crate::kernel::{self, Type as Data, Value};

impl Emitter<'_> {
    /// Converts a value to the type of `dst`.
    pub(super) fn convert(&mut self, dst: kernel::Reg, arg: &Value) {
        let to = self.kernel.ty(dst);
        let from = match arg {
            Value::Reg(reg) => self.kernel.ty(*reg),
            Value::Const(_) => to,
        };
        let (source, dst) = (self.value(arg, scalar_type(from)), self.reg(dst));
        match (from, to) {
            (from, to) if from == to => self.entry.emit(Opcode::Mov(scalar_type(to)), [dst.into(), source]),
            (Data::Bf16, Data::F32) => self.widen_bf16(dst, source),
            (Data::Bf16, _) => {
                let single = self.scratch(Data::F32);
                self.widen_bf16(single, source);
                self.narrow_or_widen((Data::F32, single.into()), (to, dst));
            }
            (Data::E4m3 | Data::E5m2, _) => {
                let half = self.widen_byte(from, source);
                self.narrow_or_widen((Data::F16, half), (to, dst));
            }
            _ => self.narrow_or_widen((from, source), (to, dst)),
        }
    }

    /// An 8-bit float as the f16 of the same value: `cvt` widens two at once.
    fn widen_byte(&mut self, from: Data, source: Operand) -> Operand {
        let (both, half) = (self.scratch(Data::Word), self.scratch(Data::F16));
        let op = Opcode::Cvt { rnd: Rounding::Rn, sat: false, to: Type::F16x2, from: converted(from) };
        self.entry.emit(op, [both.into(), source]);
        let parts = Operand::Vector(vec![half.into(), Operand::Sink].into());
        self.entry.emit(Opcode::Mov(Type::B32), [parts, both.into()]);
        half.into()
    }

    /// Rounds an f32 to an 8-bit float; what exceeds its largest number becomes that. `cvt` narrows two at once, the first one
    /// to the upper byte.
    fn narrow_to_byte(&mut self, dst: Reg, to: Data, source: Operand) {
        let op = Opcode::Cvt { rnd: Rounding::Rn, sat: true, to: converted(to), from: Type::F32 };
        self.entry.emit(op, [dst.into(), Operand::from(0f32), source]);
    }

    /// Converts two f32 to a 16-bit type; the instruction takes the upper half first.
    pub(super) fn convert_pair(&mut self, dst: kernel::Reg, to: Data, args: &[Value]) {
        let to = match to {
            Data::F16 => Type::F16x2,
            Data::Bf16 => Type::Bf16x2,
            other => unreachable!("two elements of {other:?} in one register"),
        };
        let halves = args.iter().rev().map(|arg| self.value(arg, Type::F32));
        let operands: Vec<Operand> = [self.reg(dst).into()].into_iter().chain(halves).collect();
        self.entry.emit(Opcode::Cvt { rnd: Rounding::Rn, sat: false, to, from: Type::F32 }, operands);
    }

    fn narrow_or_widen(&mut self, (from, source): (Data, Operand), (to, dst): (Data, Reg)) {
        match (from, to) {
            (Data::F64, Data::Bf16) => {
                let single = self.round_to_odd(source);
                self.narrow_to_bf16(dst, single);
            }
            (Data::F32, Data::Bf16) => self.narrow_to_bf16(dst, source),
            (Data::F64, Data::E4m3 | Data::E5m2) => {
                let single = self.round_to_odd(source);
                self.narrow_to_byte(dst, to, single);
            }
            (Data::F32, Data::E4m3 | Data::E5m2) => self.narrow_to_byte(dst, to, source),
            (from, to) if from == to => self.entry.emit(Opcode::Mov(scalar_type(to)), [dst.into(), source]),
            (from, to) => {
                // A widening conversion is exact and takes no rounding mode (PTX ISA, cvt).
                let exact = matches!((from, to), (Data::F32, Data::F64) | (Data::F16, Data::F32 | Data::F64));
                let rnd = match to {
                    _ if exact || from.is_byte() || to.is_byte() => Rounding::None,
                    Data::S32 => Rounding::Rni,
                    _ => Rounding::Rn,
                };
                // Integers beyond 8 bits become the nearest of 8 bits.
                let op = Opcode::Cvt { rnd, sat: to.is_byte(), to: converted(to), from: converted(from) };
                self.entry.emit(op, [dst.into(), source]);
                if to == Data::S8 {
                    // The sign is extended, and bytes are packed by their registers' zeros.
                    self.entry.emit(Opcode::And(Type::B16), [dst.into(), dst.into(), Operand::Int(0xff)]);
                }
            }
        }
    }

    /// bf16 is the upper half of an f32.
    fn widen_bf16(&mut self, dst: Reg, source: Operand) {
        self.entry.emit(Opcode::Mov(Type::B32), [dst.into(), Operand::Vector(vec![Operand::Int(0), source].into())]);
    }

    /// Rounds an f32 to bf16.
    fn narrow_to_bf16(&mut self, dst: Reg, source: Operand) {
        if self.target.capability >= 80 {
            let op = Opcode::Cvt { rnd: Rounding::Rn, sat: false, to: Type::Bf16, from: Type::F32 };
            return self.entry.emit(op, [dst.into(), source]);
        }
        // To nearest even: below a half nothing carries into the upper half, above it something does, and at exactly a
        // half only if the upper half is odd. A number that rounds up from the largest one becomes infinity.
        let [bits, odd, sum, rounded] = [(); 4].map(|()| self.scratch(Data::U32));
        let (upper, nan) = (self.scratch(Data::Bf16), self.scratch(Data::Pred));
        self.entry.emit(Opcode::Mov(Type::B32), [bits.into(), source.clone()]);
        self.entry.emit(Opcode::Shr(Type::U32), [odd.into(), bits.into(), Operand::Int(16)]);
        self.entry.emit(Opcode::And(Type::B32), [odd.into(), odd.into(), Operand::Int(1)]);
        self.entry.emit(Opcode::Add { rnd: Rounding::None, ty: Type::U32 }, [sum.into(), bits.into(), odd.into()]);
        let half = Operand::Int(0x7fff);
        self.entry.emit(Opcode::Add { rnd: Rounding::None, ty: Type::U32 }, [rounded.into(), sum.into(), half]);
        let parts = Operand::Vector(vec![Operand::Sink, upper.into()].into());
        self.entry.emit(Opcode::Mov(Type::B32), [parts, rounded.into()]);
        self.entry.emit(Opcode::Setp { cmp: Compare::Nan, ty: Type::F32 }, [nan.into(), source.clone(), source]);
        self.entry.emit(Opcode::Selp(Type::B16), [dst.into(), Operand::Int(0x7fff), upper.into(), nan.into()]);
    }

    /// An f64 as an f32 that rounds to the same bf16: truncated, with the last bit set if something was lost, so that
    /// the second rounding cannot see a tie where there was none (S. Boldo and G. Melquiond, "Emulation of FMA and
    /// correctly rounded sums: proved algorithms using rounding to odd", 2008).
    fn round_to_odd(&mut self, source: Operand) -> Operand {
        let (truncated, back, lost) = (self.scratch(Data::F32), self.scratch(Data::F64), self.scratch(Data::Pred));
        let (odd, result) = (self.scratch(Data::U32), self.scratch(Data::F32));
        let op = Opcode::Cvt { rnd: Rounding::Rz, sat: false, to: Type::F32, from: Type::F64 };
        self.entry.emit(op, [truncated.into(), source.clone()]);
        let op = Opcode::Cvt { rnd: Rounding::None, sat: false, to: Type::F64, from: Type::F32 };
        self.entry.emit(op, [back.into(), truncated.into()]);
        self.entry.emit(Opcode::Setp { cmp: Compare::Ne, ty: Type::F64 }, [lost.into(), back.into(), source]);
        self.entry.emit(Opcode::Or(Type::B32), [odd.into(), truncated.into(), Operand::Int(1)]);
        self.entry.emit(Opcode::Selp(Type::B32), [result.into(), odd.into(), truncated.into(), lost.into()]);
        result.into()
    }
}

/// The type that a conversion names.
fn converted(ty: Data) -> Type {
    match ty {
        Data::E4m3 => Type::E4m3x2,
        Data::E5m2 => Type::E5m2x2,
        Data::S8 => Type::S8,
        Data::U8 => Type::U8,
        Data::F16 => Type::F16,
        Data::Bf16 => Type::Bf16,
        ty => scalar_type(ty),
    }
}
