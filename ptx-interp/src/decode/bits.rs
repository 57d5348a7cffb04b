//! Bit fields, permutations, funnel shifts, and tests of addresses.

use ptx_gemm_ptx::instruction::{Opcode, Operand, Special};
use ptx_gemm_ptx::types::{Space, Type};
use ptx_gemm_ptx::warp::{Direction, ShiftMode};

use super::Decoder;
use crate::address::StateSpace;
use crate::op::{Bits, Op, ScalarFn};

impl Decoder<'_> {
    pub(super) fn bits(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        use Type::{B32, Pred, U32, U64};
        let (op, to, types): (Bits, Type, &[Type]) = match *opcode {
            Opcode::Bfe(ty) => return self.bits_of(Bits::Extract, ty, ty, operands, &[ty, U32, U32]),
            Opcode::Bfi(ty) => return self.bits_of(Bits::Insert, ty, ty, operands, &[ty, ty, U32, U32]),
            Opcode::Popc(ty) => return self.bits_of(Bits::Count, ty, U32, operands, &[ty]),
            Opcode::Clz(ty) => return self.bits_of(Bits::LeadingZeros, ty, U32, operands, &[ty]),
            Opcode::Brev(ty) => return self.bits_of(Bits::Reverse, ty, ty, operands, &[ty]),
            Opcode::PrmtMode(mode) => (Bits::PermuteMode(mode), B32, &[B32, B32, B32]),
            Opcode::Bfind { shift_amount, ty } => {
                return self.bits_of(Bits::Highest { shift_amount }, ty, U32, operands, &[ty]);
            }
            Opcode::Prmt => (Bits::Permute, B32, &[B32, B32, B32]),
            Opcode::Lop3 => (Bits::Table, B32, &[B32, B32, B32, B32]),
            Opcode::Shf { direction, mode } => {
                let (left, clamp) = (direction == Direction::Left, mode == ShiftMode::Clamp);
                (Bits::Funnel { left, clamp }, B32, &[B32, B32, U32])
            }
            Opcode::Bmsk(mode) => (Bits::Ones { clamp: mode == ShiftMode::Clamp }, B32, &[U32, U32]),
            Opcode::Szext { mode, ty } => {
                return self.bits_of(Bits::Low { clamp: mode == ShiftMode::Clamp }, ty, ty, operands, &[ty, U32]);
            }
            Opcode::IsSpaceP(space) => {
                let space = match space {
                    Space::Global => StateSpace::Global,
                    Space::Local => StateSpace::Local,
                    Space::Const => StateSpace::Const,
                    Space::Param => StateSpace::Param,
                    Space::Shared | Space::SharedCta => StateSpace::Shared,
                    Space::SharedCluster => StateSpace::Cluster,
                    Space::Generic => return Err("isspacep without a space".into()),
                };
                let [p, a] = operands else { return Err("isspacep takes two operands".into()) };
                let operands = [p.clone(), a.clone(), Operand::Special(Special::ClusterCtaRank)];
                return self.scalar(ScalarFn::IsSpace { space }, Pred, &operands, &[U64, U32]);
            }
            _ => return Err("the instruction is not supported".into()),
        };
        self.bits_of(op, B32, to, operands, types)
    }

    fn bits_of(&mut self, op: Bits, ty: Type, to: Type, operands: &[Operand], from: &[Type]) -> Result<Op, String> {
        self.scalar(ScalarFn::Bits { op, ty }, to, operands, from)
    }
}
