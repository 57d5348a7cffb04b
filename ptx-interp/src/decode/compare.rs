//! Comparisons and selections.

use ptx_gemm_ptx::instruction::{Compare, Operand};
use ptx_gemm_ptx::types::Type;

use super::Decoder;
use crate::op::{Cmp, Op, Scalar, ScalarFn, Slot};

impl Decoder<'_> {
    pub(super) fn set_predicate(&mut self, cmp: Compare, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a, b] = operands else { return Err("setp takes three operands".into()) };
        let (cmp, swapped) =
            comparison(cmp, ty).ok_or_else(|| format!("setp.{} of .{} does not exist", cmp.name(), ty.name()))?;
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        let (d, q) = match d {
            Operand::Pair(pair) => (self.dp(&pair.0)?, self.dp(&pair.1)?),
            d => (self.dp(d)?, self.sink),
        };
        match ty.bits() {
            32 => Ok(Op::Set32 { cmp, d, q, a: self.r32(a, ty)?, b: self.r32(b, ty)? }),
            64 => Ok(Op::Set64 { cmp, d, q, a: self.r64(a, ty)?, b: self.r64(b, ty)? }),
            16 if q == self.sink => {
                let sink = Slot::P(self.sink);
                let sources = [self.source(a, ty)?, self.source(b, ty)?, sink, sink];
                self.code.scalars.push(Scalar { f: ScalarFn::Compare { cmp, ty }, d: Slot::P(d), sources, arity: 2 });
                Ok(Op::Scalar { index: self.code.scalars.len() as u32 - 1 })
            }
            _ => Err(format!("setp of .{} is not supported", ty.name())),
        }
    }

    pub(super) fn select(&mut self, ty: Type, operands: &[Operand]) -> Result<Op, String> {
        let [d, a, b, p] = operands else { return Err("selp takes four operands".into()) };
        let (a, b, p) = match p {
            Operand::NotReg(reg) => (b, a, self.pred(&Operand::Reg(*reg))?),
            p => (a, b, self.pred(p)?),
        };
        match ty.bits() {
            1 => Ok(Op::SelectPred { d: self.dp(d)?, a: self.pred(a)?, b: self.pred(b)?, p }),
            64 => Ok(Op::Select64 { d: self.d64(d)?, a: self.r64(a, ty)?, b: self.r64(b, ty)?, p }),
            128 => Err("selp of 128 bits does not exist".into()),
            _ => Ok(Op::Select32 { d: self.d32(d)?, a: self.r32(a, ty)?, b: self.r32(b, ty)?, p }),
        }
    }
}

/// The comparison, and whether its operands are swapped.
pub(super) fn comparison(cmp: Compare, ty: Type) -> Option<(Cmp, bool)> {
    let float = ty.is_float();
    let signed = ty.is_signed();
    let ordered = |float_cmp, signed_cmp, unsigned_cmp| {
        if float {
            float_cmp
        } else if signed {
            signed_cmp
        } else {
            unsigned_cmp
        }
    };
    Some(match cmp {
        Compare::Eq => (if float { Cmp::EqF } else { Cmp::Eq }, false),
        Compare::Ne => (if float { Cmp::NeF } else { Cmp::Ne }, false),
        Compare::Lt => (ordered(Cmp::LtF, Cmp::LtS, Cmp::LtU), false),
        Compare::Le => (ordered(Cmp::LeF, Cmp::LeS, Cmp::LeU), false),
        Compare::Gt => (ordered(Cmp::LtF, Cmp::LtS, Cmp::LtU), true),
        Compare::Ge => (ordered(Cmp::LeF, Cmp::LeS, Cmp::LeU), true),
        Compare::Lo if !float => (Cmp::LtU, false),
        Compare::Ls if !float => (Cmp::LeU, false),
        Compare::Hi if !float => (Cmp::LtU, true),
        Compare::Hs if !float => (Cmp::LeU, true),
        Compare::Equ if float => (Cmp::EquF, false),
        Compare::Neu if float => (Cmp::NeuF, false),
        Compare::Ltu if float => (Cmp::LtuF, false),
        Compare::Leu if float => (Cmp::LeuF, false),
        Compare::Gtu if float => (Cmp::LtuF, true),
        Compare::Geu if float => (Cmp::LeuF, true),
        Compare::Num if float => (Cmp::NumF, false),
        Compare::Nan if float => (Cmp::NanF, false),
        _ => return None,
    })
}
