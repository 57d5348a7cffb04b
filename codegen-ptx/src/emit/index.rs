//! Index expressions as integer instructions: shifts and masks for powers of two, fused multiply-adds, wide products.

use ptx_gemm_ptx::instruction::{Compare, Half, Opcode, Operand, Reg, Rounding, Special};
use ptx_gemm_ptx::types::Type;

use super::{Emitter, scalar_type, shared_name};
use crate::kernel::build::expr_type;
use crate::kernel::{self, Expr, Type as Index};

impl Emitter<'_> {
    /// Evaluates an expression as an operand: an immediate, an existing register, or a scratch register.
    fn operand(&mut self, value: &Expr, ty: Index) -> Operand {
        match value {
            Expr::Const(c) => Operand::Int(*c as i64),
            Expr::Reg(reg, _) if self.kernel.ty(*reg) == ty => self.reg(*reg).into(),
            _ => {
                let dst = self.scratch(ty);
                self.set(dst, ty, value);
                dst.into()
            }
        }
    }

    fn index_type(&self, value: &Expr) -> Index {
        expr_type(value, self.kernel)
    }

    /// Evaluates an expression into `dst`, a register of type `ty`.
    pub(super) fn set(&mut self, dst: Reg, ty: Index, value: &Expr) {
        let scalar = scalar_type(ty);
        match value {
            Expr::Const(_) | Expr::Reg(..) if ty == Index::Pred => self.copy_truth(dst, value),
            Expr::Const(_) | Expr::Reg(..) => {
                let source = self.operand(value, ty);
                self.entry.emit(Opcode::Mov(scalar), [dst.into(), source]);
            }
            Expr::Tid(_) => self.entry.emit(Opcode::Mov(scalar), [dst.into(), Special::TidX.into()]),
            Expr::Block => self.entry.emit(Opcode::Mov(scalar), [dst.into(), Special::CtaidX.into()]),
            Expr::Blocks => self.entry.emit(Opcode::Mov(scalar), [dst.into(), Special::NctaidX.into()]),
            Expr::SharedBase => {
                self.entry.emit(Opcode::Mov(scalar), [dst.into(), Operand::symbol(shared_name(self.kernel))])
            }
            Expr::Wide(x) => {
                let x = self.operand(x, Index::U32);
                let op = Opcode::Cvt { rnd: Rounding::None, sat: false, to: Type::U64, from: Type::U32 };
                self.entry.emit(op, [dst.into(), x]);
            }
            Expr::Add(x, y) => self.sum(dst, x, y, ty),
            Expr::Sub(x, y) => self.two(Opcode::Sub { rnd: Rounding::None, ty: scalar }, dst, x, y, ty),
            Expr::Mul(x, y) => self.product(dst, x, y, ty),
            Expr::Div(x, y) => match power_of_two(y) {
                Some(log) => self.two(Opcode::Shr(scalar), dst, x, &Expr::Const(log), ty),
                None => self.two(Opcode::Div { rnd: Rounding::None, ty: scalar }, dst, x, y, ty),
            },
            Expr::Mod(x, y) => match power_of_two(y) {
                Some(log) => self.two(Opcode::And(bits(ty)), dst, x, &Expr::Const((1 << log) - 1), ty),
                None => self.two(Opcode::Rem(scalar), dst, x, y, ty),
            },
            Expr::Min(x, y) => self.two(Opcode::Min { nan: false, ty: scalar }, dst, x, y, ty),
            Expr::Max(x, y) => self.two(Opcode::Max { nan: false, ty: scalar }, dst, x, y, ty),
            Expr::Xor(x, y) => self.two(Opcode::Xor(bits(ty)), dst, x, y, ty),
            Expr::Compare(compare, x, y) => self.compare(dst, *compare, x, y),
            Expr::And(x, y) => self.two(Opcode::And(Type::Pred), dst, x, y, Index::Pred),
            Expr::Swizzle(x, swizzle) => {
                let x = self.operand(x, ty);
                let mask = i64::from(swizzle.bits());
                // The XOR takes bits from three positions above the bits that it changes.
                let (above, low) = (self.scratch(ty), self.scratch(ty));
                self.entry.emit(Opcode::Shr(scalar), [above.into(), x.clone(), Operand::Int(3)]);
                self.entry.emit(Opcode::And(bits(ty)), [low.into(), above.into(), Operand::Int(mask)]);
                self.entry.emit(Opcode::Xor(bits(ty)), [dst.into(), x, low.into()]);
            }
            Expr::Not(x) => {
                let x = self.operand(x, Index::Pred);
                self.entry.emit(Opcode::Not(Type::Pred), [dst.into(), x]);
            }
            Expr::Select(cond, x, y) => {
                let cond = self.operand(cond, Index::Pred);
                let (x, y) = (self.operand(x, ty), self.operand(y, ty));
                self.entry.emit(Opcode::Selp(scalar), [dst.into(), x, y, cond]);
            }
        }
    }

    fn copy_truth(&mut self, dst: Reg, value: &Expr) {
        match value {
            // A register in a conjunction with itself.
            Expr::Reg(reg, _) => {
                let reg = Operand::from(self.reg(*reg));
                self.entry.emit(Opcode::And(Type::Pred), [dst.into(), reg.clone(), reg]);
            }
            other => {
                let cmp = if other.is(0) { Compare::Ne } else { Compare::Eq };
                let zero = self.scratch(Index::U32);
                self.entry.emit(Opcode::Mov(Type::U32), [zero.into(), Operand::Int(0)]);
                self.entry.emit(Opcode::Setp { cmp, ty: Type::U32 }, [dst.into(), zero.into(), zero.into()]);
            }
        }
    }

    fn two(&mut self, op: Opcode, dst: Reg, x: &Expr, y: &Expr, ty: Index) {
        let (x, y) = (self.operand(x, ty), self.operand(y, ty));
        self.entry.emit(op, [dst.into(), x, y]);
    }

    /// `x + y`; a product among the operands is fused.
    fn sum(&mut self, dst: Reg, x: &Expr, y: &Expr, ty: Index) {
        let (product, rest) = match (x, y) {
            (Expr::Mul(p, q), rest) | (rest, Expr::Mul(p, q)) => ((p, q), rest),
            _ => return self.two(Opcode::Add { rnd: Rounding::None, ty: scalar_type(ty) }, dst, x, y, ty),
        };
        if let Some((p, q)) = narrow(product.0, product.1) {
            let (p, q) = (self.operand(p, Index::U32), Operand::Int(q as i64));
            let rest = self.operand(rest, ty);
            let op = Opcode::MadInt { half: Half::Wide, ty: Type::U32 };
            return self.entry.emit(op, [dst.into(), p, q, rest]);
        }
        let (p, q) = (self.operand(product.0, ty), self.operand(product.1, ty));
        let rest = self.operand(rest, ty);
        self.entry.emit(Opcode::MadInt { half: Half::Lo, ty: scalar_type(ty) }, [dst.into(), p, q, rest]);
    }

    fn product(&mut self, dst: Reg, x: &Expr, y: &Expr, ty: Index) {
        if let Some((x, y)) = narrow(x, y) {
            let x = self.operand(x, Index::U32);
            let op = Opcode::MulInt { half: Half::Wide, ty: Type::U32 };
            return self.entry.emit(op, [dst.into(), x, Operand::Int(y as i64)]);
        }
        match power_of_two(y) {
            Some(log) => {
                let x = self.operand(x, ty);
                self.entry.emit(Opcode::Shl(bits(ty)), [dst.into(), x, Operand::Int(log as i64)]);
            }
            None => self.two(Opcode::MulInt { half: Half::Lo, ty: scalar_type(ty) }, dst, x, y, ty),
        }
    }

    fn compare(&mut self, dst: Reg, compare: kernel::Compare, x: &Expr, y: &Expr) {
        let ty = match (self.index_type(x), self.index_type(y)) {
            (Index::U64, _) | (_, Index::U64) => Index::U64,
            (ty, _) => ty,
        };
        // The constant comes second.
        let (cmp, x, y) = match (compare, x) {
            (kernel::Compare::Lt, Expr::Const(_)) => (Compare::Gt, y, x),
            (kernel::Compare::Ge, Expr::Const(_)) => (Compare::Le, y, x),
            (kernel::Compare::Lt, _) => (Compare::Lt, x, y),
            (kernel::Compare::Ge, _) => (Compare::Ge, x, y),
            (kernel::Compare::Eq, _) => (Compare::Eq, x, y),
            (kernel::Compare::Ne, _) => (Compare::Ne, x, y),
        };
        self.two(Opcode::Setp { cmp, ty: scalar_type(ty) }, dst, x, y, ty);
    }
}

/// The operands of a product that is one wide multiplication: a widened 32-bit value times a 32-bit constant.
fn narrow<'e>(x: &'e Expr, y: &'e Expr) -> Option<(&'e Expr, u64)> {
    match (x, y) {
        (Expr::Wide(x), Expr::Const(c)) if *c <= u64::from(u32::MAX) => Some((x, *c)),
        _ => None,
    }
}

fn power_of_two(value: &Expr) -> Option<u64> {
    match value {
        Expr::Const(c) if c.is_power_of_two() => Some(u64::from(c.trailing_zeros())),
        _ => None,
    }
}

/// The untyped type of the same size, as left shifts and bitwise operations require.
fn bits(ty: Index) -> Type {
    match ty {
        Index::U64 | Index::F64 => Type::B64,
        Index::Pred => Type::Pred,
        Index::U32 | Index::S32 | Index::F32 | Index::Word => Type::B32,
        Index::S8 | Index::U8 | Index::E4m3 | Index::E5m2 | Index::F16 | Index::Bf16 => Type::B16,
    }
}
