//! Arithmetic, comparisons, conversions and moves.

use ptx_gemm_ptx::instruction::{Half, Opcode, Operand, Rounding};
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use super::operand::is_clock;
use crate::address::StateSpace;
use crate::op::{Arith, Bin32, BinPred, Constant, Op, P, R32, Rare, Scalar, ScalarFn, Shift, Slot, Un32};

impl Decoder<'_> {
    pub(super) fn alu(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match *opcode {
            Opcode::Mov(ty) => self.mov(ty, operands),
            Opcode::Add { rnd, ty } => self.arith(Arith::Add, ty, rnd, operands),
            Opcode::Sub { rnd, ty } => self.arith(Arith::Sub, ty, rnd, operands),
            Opcode::Mul { rnd, ty } => self.arith(Arith::Mul, ty, rnd, operands),
            Opcode::Fma { rnd, ty } => self.arith(Arith::Fma, ty, rnd, operands),
            Opcode::Div { rnd, ty } => self.arith(Arith::Div, ty, rnd, operands),
            Opcode::Rem(ty) => self.arith(Arith::Rem, ty, Rounding::None, operands),
            Opcode::Max { nan, ty } if operands.len() == 4 => {
                let op = if nan { Arith::MaxNan } else { Arith::Max };
                self.scalar(ScalarFn::OfThree { op, ty }, ty, operands, &[ty; 3])
            }
            Opcode::Min { nan, ty } if operands.len() == 4 => {
                let op = if nan { Arith::MinNan } else { Arith::Min };
                self.scalar(ScalarFn::OfThree { op, ty }, ty, operands, &[ty; 3])
            }
            Opcode::Min { nan, ty } => {
                let op = if nan { Arith::MinNan } else { Arith::Min };
                self.arith(op, ty, Rounding::None, operands)
            }
            Opcode::Max { nan, ty } => {
                let op = if nan { Arith::MaxNan } else { Arith::Max };
                self.arith(op, ty, Rounding::None, operands)
            }
            Opcode::DivFast { ty, .. } => self.arith(Arith::Div, ty, Rounding::None, operands),
            Opcode::Rcp { rnd, ty } => {
                self.scalar(ScalarFn::Directed { op: Arith::Rcp, ty, rounding: rnd }, ty, operands, &[ty])
            }
            Opcode::Sqrt { rnd, ty } => {
                self.scalar(ScalarFn::Directed { op: Arith::Sqrt, ty, rounding: rnd }, ty, operands, &[ty])
            }
            Opcode::Abs(ty) => self.arith(Arith::Abs, ty, Rounding::None, operands),
            Opcode::Neg(ty) => self.arith(Arith::Neg, ty, Rounding::None, operands),
            Opcode::MulInt { half, ty } => self.multiply(half, ty, operands),
            Opcode::MadInt { half, ty } => self.multiply_add(half, ty, operands),
            Opcode::And(ty) => self.logic(Arith::And, ty, operands),
            Opcode::Or(ty) => self.logic(Arith::Or, ty, operands),
            Opcode::Xor(ty) => self.logic(Arith::Xor, ty, operands),
            Opcode::Not(ty) => self.logic(Arith::Not, ty, operands),
            Opcode::Shl(ty) => self.shift(Arith::Shl, ty, operands),
            Opcode::Shr(ty) => self.shift(Arith::Shr, ty, operands),
            Opcode::Setp { cmp, ty } => self.set_predicate(cmp, ty, operands),
            Opcode::Selp(ty) => self.select(ty, operands),
            Opcode::Cvt { rnd, sat, to, from } => self.convert(rnd, sat, to, from, operands),
            Opcode::Cvta { to, space, ty } => self.convert_address(to, space, ty, operands),
            Opcode::Approx { function, ty } => self.scalar(ScalarFn::Approx { function, ty }, ty, operands, &[ty]),
            ref other => Err(format!("{other:?} is not supported")),
        }
    }

    /// A rarer operation with sources of the given types.
    pub(super) fn scalar(&mut self, f: ScalarFn, to: Type, operands: &[Operand], types: &[Type]) -> Result<Op, String> {
        let [d, rest @ ..] = operands else { return Err("the destination is missing".into()) };
        if rest.len() != types.len() {
            return Err(format!("{} sources instead of {}", rest.len(), types.len()));
        }
        let d = match (self.destination(d)?, to.bits()) {
            (slot @ Slot::P(_), 1) | (slot @ Slot::R64(_), 64) => slot,
            (slot @ Slot::R32(_), bits) if bits <= 32 && bits > 1 => slot,
            _ => return Err(format!("the destination does not have the width of .{}", to.name())),
        };
        let mut sources = [Slot::P(self.sink); 4];
        for ((slot, operand), ty) in sources.iter_mut().zip(rest).zip(types) {
            *slot = self.source(operand, *ty)?;
        }
        self.code.scalars.push(Scalar { f, d, sources, arity: types.len() as u8 });
        Ok(Op::Scalar { index: self.code.scalars.len() as u32 - 1 })
    }

    /// Arithmetic with one type for the sources and the result.
    fn arith(&mut self, op: Arith, ty: Type, rnd: Rounding, operands: &[Operand]) -> Result<Op, String> {
        let nearest = matches!(rnd, Rounding::None | Rounding::Rn);
        let arity = match op {
            Arith::Abs | Arith::Neg => 1,
            Arith::Fma => 3,
            _ => 2,
        };
        if operands.len() != arity + 1 {
            return Err(format!("{} operands instead of {}", operands.len(), arity + 1));
        }
        let types = &[ty; 3][..arity];
        match ty {
            Type::F32x2 => {
                return self.scalar(ScalarFn::Singles { op, rounding: rnd, ftz: false }, ty, operands, types);
            }
            Type::F32 | Type::F64 if !nearest => {
                return self.scalar(ScalarFn::Directed { op, ty, rounding: rnd }, ty, operands, types);
            }
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 if nearest => {
                return self.scalar(ScalarFn::Half { op, ty }, ty, operands, types);
            }
            Type::B16 | Type::U16 | Type::S16 | Type::U8 | Type::S8 | Type::U16x2 | Type::S16x2 if op != Arith::Fma => {
                return self.scalar(ScalarFn::Int { op, ty }, ty, operands, types);
            }
            _ => {}
        }
        let row = row_operation(op, ty).ok_or_else(|| format!("{op:?} of .{} is not supported", ty.name()))?;
        let wide = ty.bits() == 64;
        Ok(match row {
            RowOp::Unary(f) if wide => Op::Un64 { f, d: self.d64(&operands[0])?, a: self.r64(&operands[1], ty)? },
            RowOp::Unary(f) => Op::Un32 { f, d: self.d32(&operands[0])?, a: self.r32(&operands[1], ty)? },
            RowOp::Binary(f) if wide => {
                let (a, b) = (self.r64(&operands[1], ty)?, self.r64(&operands[2], ty)?);
                Op::Bin64 { f, d: self.d64(&operands[0])?, a, b }
            }
            RowOp::Binary(f) => {
                let (a, b) = (self.r32(&operands[1], ty)?, self.r32(&operands[2], ty)?);
                Op::Bin32 { f, d: self.d32(&operands[0])?, a, b }
            }
            RowOp::Fma if wide => {
                let (a, b) = (self.r64(&operands[1], ty)?, self.r64(&operands[2], ty)?);
                Op::Fma64 { d: self.d64(&operands[0])?, a, b, c: self.r64(&operands[3], ty)? }
            }
            RowOp::Fma => {
                let (a, b) = (self.r32(&operands[1], ty)?, self.r32(&operands[2], ty)?);
                Op::Fma32 { d: self.d32(&operands[0])?, a, b, c: self.r32(&operands[3], ty)? }
            }
        })
    }

    fn multiply(&mut self, half: Half, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a, b] = operands else { return Err("mul takes three operands".into()) };
        let signed = ty.is_signed();
        match (half, ty.bits()) {
            (Half::Lo, 32 | 64) => self.arith(Arith::Mul, ty, Rounding::None, operands),
            (Half::Hi, 32) => {
                let f = if signed { Bin32::MulHiS } else { Bin32::MulHiU };
                Ok(Op::Bin32 { f, d: self.d32(d)?, a: self.r32(a, ty)?, b: self.r32(b, ty)? })
            }
            (Half::Hi, 64) => {
                let f = if signed { Bin32::MulHiS } else { Bin32::MulHiU };
                Ok(Op::Bin64 { f, d: self.d64(d)?, a: self.r64(a, ty)?, b: self.r64(b, ty)? })
            }
            (Half::Wide, 32) => Ok(Op::MulWide { signed, d: self.d64(d)?, a: self.r32(a, ty)?, b: self.r32(b, ty)? }),
            (Half::Wide, 16) => self.scalar(ScalarFn::Int { op: Arith::MulWide, ty }, Type::B32, operands, &[ty; 2]),
            (Half::Lo, 16) => self.scalar(ScalarFn::Int { op: Arith::Mul, ty }, ty, operands, &[ty; 2]),
            (Half::Hi, 16) => self.scalar(ScalarFn::Int { op: Arith::MulHi, ty }, ty, operands, &[ty; 2]),
            _ => Err(format!("mul.{} of .{} does not exist", half.name(), ty.name())),
        }
    }

    fn multiply_add(&mut self, half: Half, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a, b, c] = operands else { return Err("mad takes four operands".into()) };
        match (half, ty.bits()) {
            (Half::Lo, 32) => {
                let (a, b, c) = (self.r32(a, ty)?, self.r32(b, ty)?, self.r32(c, ty)?);
                Ok(Op::Mad32 { d: self.d32(d)?, a, b, c })
            }
            (Half::Lo, 64) => {
                let (a, b, c) = (self.r64(a, ty)?, self.r64(b, ty)?, self.r64(c, ty)?);
                Ok(Op::Mad64 { d: self.d64(d)?, a, b, c })
            }
            (Half::Wide, 32) => {
                let (a, b) = (self.r32(a, ty)?, self.r32(b, ty)?);
                Ok(Op::MadWide { signed: ty.is_signed(), d: self.d64(d)?, a, b, c: self.r64(c, Type::B64)? })
            }
            (Half::Wide, 16) => {
                self.scalar(ScalarFn::Int { op: Arith::MadWide, ty }, Type::B32, operands, &[ty, ty, Type::B32])
            }
            (Half::Lo, 16) => self.scalar(ScalarFn::Int { op: Arith::Mad, ty }, ty, operands, &[ty; 3]),
            (Half::Hi, _) => self.scalar(ScalarFn::Int { op: Arith::MadHi, ty }, ty, operands, &[ty; 3]),
            _ => Err(format!("mad.{} of .{} does not exist", half.name(), ty.name())),
        }
    }

    fn logic(&mut self, op: Arith, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        match (op, ty.bits(), operands) {
            (Arith::Not, 1, [d, a]) => Ok(Op::MovPred { negated: true, d: self.dp(d)?, a: self.pred(a)? }),
            (_, 1, [d, a, b]) => {
                let f = match op {
                    Arith::And => BinPred::And,
                    Arith::Or => BinPred::Or,
                    _ => BinPred::Xor,
                };
                Ok(Op::BinPred { f, d: self.dp(d)?, a: self.pred(a)?, b: self.pred(b)? })
            }
            (Arith::Not, 64, [d, a]) => Ok(Op::Un64 { f: Un32::Not, d: self.d64(d)?, a: self.r64(a, ty)? }),
            (Arith::Not, 32, [d, a]) => Ok(Op::Un32 { f: Un32::Not, d: self.d32(d)?, a: self.r32(a, ty)? }),
            (Arith::Not, 16, _) => self.scalar(ScalarFn::Int { op, ty }, ty, operands, &[ty]),
            (_, 16, _) => self.scalar(ScalarFn::Int { op, ty }, ty, operands, &[ty; 2]),
            (_, 32 | 64, _) => self.arith(op, ty, Rounding::None, operands),
            _ => Err("the operands do not fit the instruction".into()),
        }
    }

    /// The amount has 32 bits for every type.
    fn shift(&mut self, op: Arith, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a, b] = operands else { return Err("a shift takes three operands".into()) };
        let signed = ty.is_signed();
        match ty.bits() {
            32 => {
                let f = match op {
                    Arith::Shl => Bin32::Shl,
                    _ if signed => Bin32::ShrS,
                    _ => Bin32::ShrU,
                };
                Ok(Op::Bin32 { f, d: self.d32(d)?, a: self.r32(a, ty)?, b: self.r32(b, Type::U32)? })
            }
            64 => {
                let f = match op {
                    Arith::Shl => Shift::Left,
                    _ if signed => Shift::RightS,
                    _ => Shift::RightU,
                };
                Ok(Op::Shift64 { f, d: self.d64(d)?, a: self.r64(a, ty)?, b: self.r32(b, Type::U32)? })
            }
            _ => self.scalar(ScalarFn::Int { op, ty }, ty, operands, &[ty, Type::U32]),
        }
    }

    fn convert(&mut self, rnd: Rounding, sat: bool, to: Type, from: Type, operands: &[Operand]) -> Result<Op, String> {
        if matches!(to, Type::E4m3x2 | Type::E5m2x2) {
            let sources = if from == Type::F32 { 2 } else { 1 };
            return self.scalar(ScalarFn::ToEighths { to, from }, to, operands, &[from; 2][..sources]);
        }
        if matches!(from, Type::E4m3x2 | Type::E5m2x2) {
            return self.scalar(ScalarFn::FromEighths { from }, to, operands, &[from]);
        }
        if let [_, _, _] = operands {
            return self.scalar(ScalarFn::ConvertPair { to, rounding: rnd }, to, operands, &[from; 2]);
        }
        let [d, a] = operands else { return Err("cvt takes two operands".into()) };
        let integers = !to.is_float() && !from.is_float() && !sat;
        // The source may be wider than its type: the lower bits of a register.
        if let Operand::Reg(reg) = a
            && !from.is_float()
            && from.bits() < 64
            && matches!(self.register(*reg)?, Slot::R64(_))
        {
            let wide = matches!(self.destination(d)?, Slot::R64(_));
            let f = ScalarFn::Convert { to, from, rounding: rnd, saturate: sat };
            return self.scalar(f, if wide { Type::B64 } else { to }, operands, &[Type::B64]);
        }
        match (integers, from.bits(), to.bits()) {
            (true, 32, 64) => Ok(Op::Widen { signed: from.is_signed(), d: self.d64(d)?, a: self.r32(a, from)? }),
            (true, 64, 32) => Ok(Op::Narrow { d: self.d32(d)?, a: self.r64(a, from)? }),
            (true, 32, 32) => Ok(Op::Un32 { f: Un32::Mov, d: self.d32(d)?, a: self.r32(a, from)? }),
            (true, 64, 64) => Ok(Op::Un64 { f: Un32::Mov, d: self.d64(d)?, a: self.r64(a, from)? }),
            _ => {
                // A destination may be wider than the type; the value is extended to it.
                let wide = matches!(self.destination(d)?, Slot::R64(_)) && to.bits() < 64;
                let f = ScalarFn::Convert { to, from, rounding: rnd, saturate: sat };
                self.scalar(f, if wide { Type::B64 } else { to }, operands, &[from])
            }
        }
    }

    fn convert_address(&mut self, to: bool, space: Space, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a] = operands else { return Err("cvta takes two operands".into()) };
        if ty.bits() != 64 {
            return Err("cvta of 32-bit addresses is not supported".into());
        }
        let (d, a) = (self.d64(d)?, self.r64(a, ty)?);
        let space = match space {
            Space::Global => return Ok(Op::Un64 { f: Un32::Mov, d, a }),
            space if space.is_shared() => StateSpace::Shared,
            Space::Local => StateSpace::Local,
            Space::Param => StateSpace::Param,
            Space::Const => StateSpace::Const,
            _ => return Err("cvta without a space".into()),
        };
        let b = self.constant64(Constant::Value(space.window()));
        Ok(Op::Bin64 { f: if to { Bin32::Sub } else { Bin32::Add }, d, a, b })
    }

    fn mov(&mut self, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a] = operands else { return Err("mov takes two operands".into()) };
        if ty.bits() == 128 {
            let (d, a) = (self.halves(d)?, self.halves(a)?);
            return Ok(self.add_rare(Rare::Move128 { d, a }));
        }
        match (d, a) {
            (Operand::Vector(parts), a) => return self.unpack(parts, a, ty),
            (d, Operand::Vector(parts)) => return self.pack(d, parts, ty),
            (d, Operand::Special(special)) if is_clock(*special) => {
                use ptx_gemm_ptx::instruction::Special::{ClockHi, GlobalTimerHi};
                let high = matches!(special, ClockHi | GlobalTimerHi);
                return Ok(Op::Clock { d: self.destination(d)?, high });
            }
            _ => {}
        }
        match ty.bits() {
            1 => match a {
                Operand::NotReg(reg) => {
                    let a = self.pred(&Operand::Reg(*reg))?;
                    Ok(Op::MovPred { negated: true, d: self.dp(d)?, a })
                }
                a => Ok(Op::MovPred { negated: false, d: self.dp(d)?, a: self.pred(a)? }),
            },
            64 => Ok(Op::Un64 { f: Un32::Mov, d: self.d64(d)?, a: self.r64(a, ty)? }),
            _ => Ok(Op::Un32 { f: Un32::Mov, d: self.d32(d)?, a: self.r32(a, ty)? }),
        }
    }

    fn unpack(&mut self, parts: &[Operand], a: &Operand, ty: Type) -> Result<Op, String> {
        if let ([a0, a1, a2, a3], 64) = (parts, ty.bits()) {
            let parts = [self.half(a0)?, self.half(a1)?, self.half(a2)?, self.half(a3)?];
            let a = self.r64(a, ty)?;
            return Ok(self.add_rare(Rare::Unpack4 { parts, a }));
        }
        let [low, high] = parts else { return Err("unpacking into four bytes is not supported".into()) };
        let (low, high) = (self.half(low)?, self.half(high)?);
        match ty.bits() {
            64 => Ok(Op::Unpack { low, high, a: self.r64(a, ty)? }),
            32 => Ok(Op::Split { low, high, a: self.r32(a, ty)? }),
            _ => Err(format!("unpacking .{} is not supported", ty.name())),
        }
    }

    /// A part's destination; `_` becomes a slot that is never read.
    fn half(&mut self, operand: &Operand) -> Result<R32, String> {
        match operand {
            Operand::Sink => Ok(self.sink32()),
            operand => self.d32(operand),
        }
    }

    fn pack(&mut self, d: &Operand, parts: &[Operand], ty: Type) -> Result<Op, String> {
        if let ([_, _, _, _], 64) = (parts, ty.bits()) {
            let operands: Vec<Operand> = std::iter::once(d).chain(parts).cloned().collect();
            return self.scalar(ScalarFn::Pack4, ty, &operands, &[Type::B16; 4]);
        }
        let [low, high] = parts else { return Err("packing of four bytes is not supported".into()) };
        match ty.bits() {
            64 => {
                let (low, high) = (self.r32(low, Type::B32)?, self.r32(high, Type::B32)?);
                Ok(Op::Pack { d: self.d64(d)?, low, high })
            }
            32 => {
                let operands = [d.clone(), low.clone(), high.clone()];
                self.scalar(ScalarFn::Pack16, ty, &operands, &[Type::B16; 2])
            }
            _ => Err(format!("packing .{} is not supported", ty.name())),
        }
    }

    /// A slot for results that are discarded.
    pub(super) fn sink(&self) -> P {
        self.sink
    }
}

/// Operations that work on rows.
enum RowOp {
    Unary(Un32),
    Binary(Bin32),
    Fma,
}

fn row_operation(op: Arith, ty: Type) -> Option<RowOp> {
    use RowOp::{Binary, Unary};
    let float = matches!(ty, Type::F32 | Type::F64);
    let signed = ty.is_signed();
    let pick = |float_op, signed_op, unsigned_op| {
        Some(Binary(if float {
            float_op
        } else if signed {
            signed_op
        } else {
            unsigned_op
        }))
    };
    if !matches!(ty.bits(), 32 | 64) || ty.is_float() != float {
        return None;
    }
    match op {
        Arith::Add => pick(Bin32::AddF, Bin32::Add, Bin32::Add),
        Arith::Sub => pick(Bin32::SubF, Bin32::Sub, Bin32::Sub),
        Arith::Mul => pick(Bin32::MulF, Bin32::Mul, Bin32::Mul),
        Arith::Div => pick(Bin32::DivF, Bin32::DivS, Bin32::DivU),
        Arith::Min => pick(Bin32::MinF, Bin32::MinS, Bin32::MinU),
        Arith::Max => pick(Bin32::MaxF, Bin32::MaxS, Bin32::MaxU),
        Arith::Rem if !float => pick(Bin32::RemS, Bin32::RemS, Bin32::RemU),
        Arith::MinNan if float => Some(Binary(Bin32::MinNanF)),
        Arith::MaxNan if float => Some(Binary(Bin32::MaxNanF)),
        Arith::And if !float => Some(Binary(Bin32::And)),
        Arith::Or if !float => Some(Binary(Bin32::Or)),
        Arith::Xor if !float => Some(Binary(Bin32::Xor)),
        Arith::Neg => Some(Unary(if float { Un32::NegF } else { Un32::Neg })),
        Arith::Abs => Some(Unary(if float { Un32::AbsF } else { Un32::Abs })),
        Arith::Fma if float => Some(RowOp::Fma),
        _ => None,
    }
}
