//! Instructions by which the lanes of a warp exchange values.

use ptx_gemm_ptx::instruction::{Atomic, Opcode, Operand};
use ptx_gemm_ptx::types::Type;
use ptx_gemm_ptx::warp::Vote;

use super::Decoder;
use crate::op::{Collective, CollectiveKind, Condition, Constant, Op, P, R32, Slot};

impl Decoder<'_> {
    pub(super) fn collective(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        let zero = self.constant32(Constant::Value(0));
        let sink = self.sink();
        let plain = |kind, d, a, mask| Collective { kind, d, p: sink, a, b: zero, c: zero, inverted: false, mask };
        let collective = match (opcode, operands) {
            (Opcode::Shfl(mode) | Opcode::ShflActive(mode), [d, a, b, c, mask @ ..]) => {
                let (d, p) = self.pair(d)?;
                let (a, mask) = (self.r32(a, Type::B32)?, self.mask(mask)?);
                let (b, c) = (self.r32(b, Type::B32)?, self.r32(c, Type::B32)?);
                let kind = CollectiveKind::Shuffle(*mode);
                Collective { kind, d: d.into(), p, a: a.into(), b, c, inverted: false, mask }
            }
            (Opcode::Vote(vote) | Opcode::VoteActive(vote), [d, a, mask @ ..]) => {
                let d = match vote {
                    Vote::Ballot => Slot::R32(self.d32(d)?),
                    _ => Slot::P(self.dp(d)?),
                };
                let (Condition { p, negated }, mask) = (self.condition(a)?, self.mask(mask)?);
                Collective { inverted: negated, ..plain(CollectiveKind::Vote(*vote), d, p.into(), mask) }
            }
            (Opcode::ActiveMask, [d]) => plain(CollectiveKind::ActiveMask, self.d32(d)?.into(), zero.into(), None),
            (&Opcode::Redux { op, abs, nan, ty }, [d, a, mask]) => {
                let kind = match ty {
                    Type::F32 => CollectiveKind::ReduceFloats { max: op == Atomic::Max, abs, nan },
                    _ => CollectiveKind::Reduce { op, signed: ty.is_signed() },
                };
                let (a, mask) = (self.r32(a, ty)?, self.r32(mask, Type::B32)?);
                plain(kind, self.d32(d)?.into(), a.into(), Some(mask))
            }
            (&Opcode::Match { all, ty }, [d, a, mask]) => {
                let (d, p) = self.pair(d)?;
                let (a, mask) = (self.source(a, ty)?, Some(self.r32(mask, Type::B32)?));
                Collective { p, ..plain(CollectiveKind::Match { all }, d.into(), a, mask) }
            }
            (Opcode::MovMatrix, [d, a]) => {
                let (d, a) = (self.d32(d)?, self.r32(a, Type::B32)?);
                let mask = self.constant32(Constant::Value(u32::MAX.into()));
                plain(CollectiveKind::Transpose, d.into(), a.into(), Some(mask))
            }
            (Opcode::Elect, [d, mask]) => {
                let (d, p) = self.pair(d)?;
                let mask = Some(self.r32(mask, Type::B32)?);
                Collective { p, ..plain(CollectiveKind::Elect, d.into(), zero.into(), mask) }
            }
            _ => return Err("the operands do not fit the instruction".into()),
        };
        self.code.collectives.push(collective);
        Ok(Op::Collective { index: self.code.collectives.len() as u32 - 1 })
    }

    /// The participating lanes; without an operand, those that are active.
    fn mask(&mut self, operands: &[Operand]) -> Result<Option<R32>, String> {
        match operands {
            [] => Ok(None),
            [mask] => self.r32(mask, Type::B32).map(Some),
            _ => Err("the operands do not fit the instruction".into()),
        }
    }

    /// `d|p`, or `d` alone; either may be `_`.
    fn pair(&mut self, operand: &Operand) -> Result<(R32, P), String> {
        let (d, p) = match operand {
            Operand::Pair(pair) => (&pair.0, self.dp(&pair.1)?),
            d => (d, self.sink()),
        };
        let d = if let Operand::Sink = d { self.sink32() } else { self.d32(d)? };
        Ok((d, p))
    }
}
