//! Instructions that this project's compiler does not emit: combined comparisons, reducing barriers, and some arithmetic.

use ptx_gemm_ptx::extended::{BarReduction, Combine};
use ptx_gemm_ptx::instruction::{Half, Opcode, Operand};
use ptx_gemm_ptx::types::Type;

use super::Decoder;
use super::compare::comparison;
use crate::op::{BarrierReduce, BinPred, Condition, Op, Rare, ScalarFn};

impl Decoder<'_> {
    pub(super) fn rare(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        use Type::{B32, S32, U32};
        match (opcode, operands) {
            (&Opcode::SetpWith { cmp, with, ty }, [d, a, b, c]) => {
                let (cmp, swapped) = comparison(cmp, ty)
                    .ok_or_else(|| format!("setp.{} of .{} does not exist", cmp.name(), ty.name()))?;
                if matches!(ty, Type::F16x2 | Type::Bf16x2) {
                    return Err(format!("setp of .{} is not supported", ty.name()));
                }
                let (a, b) = if swapped { (b, a) } else { (a, b) };
                let (d, q) = match d {
                    Operand::Pair(pair) => (self.dp(&pair.0)?, self.dp(&pair.1)?),
                    d => (self.dp(d)?, self.sink()),
                };
                let (sources, c) = ([self.source(a, ty)?, self.source(b, ty)?], self.condition(c)?);
                let with = combination(with);
                Ok(self.add_rare(Rare::SetWith { cmp, ty, with, d, q, sources, c }))
            }
            (&Opcode::Lop3With(with), [Operand::Pair(pair), a, b, c, Operand::Int(table), q]) => {
                let d = if pair.0 == Operand::Sink { self.sink32() } else { self.d32(&pair.0)? };
                let sources = [self.r32(a, B32)?, self.r32(b, B32)?, self.r32(c, B32)?];
                let (p, c) = (self.dp(&pair.1)?, self.condition(q)?);
                let with = combination(with);
                Ok(self.add_rare(Rare::Lookup { d, p, sources, table: *table as u8, with, c }))
            }
            (&Opcode::Set { cmp, to, from }, _) => {
                let (cmp, swapped) = comparison(cmp, from)
                    .ok_or_else(|| format!("set.{} of .{} does not exist", cmp.name(), from.name()))?;
                self.scalar(ScalarFn::Set { cmp, swapped, to, from }, to, operands, &[from; 2])
            }
            (&Opcode::Slct { ty, by }, _) => {
                self.scalar(ScalarFn::SelectBySign { by, ftz: false }, ty, operands, &[ty, ty, by])
            }
            (Opcode::Fns, _) => self.scalar(ScalarFn::NthSet, B32, operands, &[B32, B32, S32]),
            (&Opcode::Mul24 { half, ty }, _) => {
                self.scalar(ScalarFn::Product24 { high: half == Half::Hi, ty }, ty, operands, &[ty; 2])
            }
            (&Opcode::Mad24 { half, ty }, _) => {
                self.scalar(ScalarFn::Product24 { high: half == Half::Hi, ty }, ty, operands, &[ty; 3])
            }
            (&Opcode::CvtPack { to, with }, _) => {
                let types = [S32, S32, B32];
                self.scalar(ScalarFn::PackSaturated { to }, B32, operands, if with { &types } else { &types[..2] })
            }
            (Opcode::MbarrierPendingCount, _) => self.scalar(ScalarFn::PendingCount, U32, operands, &[Type::B64]),
            (&Opcode::BarRed { op, .. }, [d, id, rest @ .., condition]) => {
                let count = match rest {
                    [] => None,
                    [count] => Some(self.r32(count, U32)?),
                    _ => return Err("the operands do not fit the instruction".into()),
                };
                let d = match op {
                    BarReduction::Popc => self.d32(d)?.into(),
                    BarReduction::And | BarReduction::Or => self.dp(d)?.into(),
                };
                let (id, condition) = (self.r32(id, U32)?, self.condition(condition)?);
                self.code.reductions.push(BarrierReduce { id, count, op, d, condition });
                Ok(Op::BarrierReduce { index: self.code.reductions.len() as u32 - 1 })
            }
            _ => Err("the operands do not fit the instruction".into()),
        }
    }

    pub(super) fn add_rare(&mut self, rare: Rare) -> Op {
        self.code.rare.push(rare);
        Op::Rare { index: self.code.rare.len() as u32 - 1 }
    }

    /// A predicate as a source, which may be negated.
    pub(super) fn condition(&mut self, operand: &Operand) -> Result<Condition, String> {
        match operand {
            Operand::NotReg(reg) => Ok(Condition { p: self.pred(&Operand::Reg(*reg))?, negated: true }),
            operand => Ok(Condition { p: self.pred(operand)?, negated: false }),
        }
    }
}

fn combination(with: Combine) -> BinPred {
    match with {
        Combine::And => BinPred::And,
        Combine::Or => BinPred::Or,
        Combine::Xor => BinPred::Xor,
    }
}
