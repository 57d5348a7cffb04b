//! Branches, barriers, fences and waits.

use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::types::Type;

use super::Decoder;
use crate::op::Op;

impl Decoder<'_> {
    pub(super) fn control(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match (opcode, operands) {
            (&Opcode::Bra { uniform }, [Operand::Label(label)]) => match self.labels.get(label.as_str()) {
                Some(&target) => Ok(Op::Branch { target, uniform }),
                None => Err(format!("there is no label `{label}`")),
            },
            (Opcode::BarSync | Opcode::BarrierSync, [id]) => {
                Ok(Op::Barrier { id: self.r32(id, Type::U32)?, count: None })
            }
            (Opcode::BarSync | Opcode::BarrierSync, [id, count]) => {
                let count = Some(self.r32(count, Type::U32)?);
                Ok(Op::Barrier { id: self.r32(id, Type::U32)?, count })
            }
            (Opcode::BarArrive | Opcode::BarrierArrive, [id, count]) => {
                Ok(Op::BarrierArrive { id: self.r32(id, Type::U32)?, count: self.r32(count, Type::U32)? })
            }
            (Opcode::BarWarpSync, [mask]) => Ok(Op::WarpSync { mask: self.r32(mask, Type::B32)? }),
            (Opcode::Ret | Opcode::Exit, []) => Ok(Op::Exit),
            (Opcode::Trap, []) => Ok(Op::Trap),
            (Opcode::CpAsyncCommit, []) => Ok(Op::CpAsyncCommit),
            (Opcode::CpAsyncWait, &[Operand::Int(pending)]) => {
                Ok(Op::CpAsyncWait { pending: u32::try_from(pending).map_err(|_| "a negative number of groups")? })
            }
            (Opcode::CpAsyncWaitAll, []) => Ok(Op::CpAsyncWaitAll),
            (&Opcode::Fence { order, scope }, []) => Ok(Op::Fence { order, scope: crate::op::scope(scope) }),
            _ => Err("the operands do not fit the instruction".into()),
        }
    }
}
