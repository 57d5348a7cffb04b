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
                None => Err(format!("unknown label `{label}`")),
            },
            (&Opcode::BraIndexed { uniform }, [index, Operand::Label(name)]) => {
                let list = self.list(name)?;
                Ok(Op::BranchIndexed { index: self.r32(index, Type::U32)?, list, uniform })
            }
            (Opcode::BarSync | Opcode::BarrierSync, [id, count @ ..]) if count.len() < 2 => {
                let count = count.first().map(|count| self.r32(count, Type::U32)).transpose()?;
                let aligned = *opcode == Opcode::BarSync;
                Ok(Op::Barrier { id: self.r32(id, Type::U32)?, count, aligned })
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

    /// The number of a list of labels.
    fn list(&mut self, name: &str) -> Result<u32, String> {
        let (labels, number) = self.lists.get_mut(name).ok_or_else(|| format!("unknown list of labels `{name}`"))?;
        if let Some(number) = number {
            return Ok(*number);
        }
        let target = |label: &String| match self.labels.get(label.as_str()) {
            Some(target) => Ok(*target),
            None => Err(format!("unknown label `{label}`")),
        };
        let targets = labels.iter().map(target).collect::<Result<Vec<u32>, String>>()?;
        self.code.targets.push(targets);
        Ok(*number.insert(self.code.targets.len() as u32 - 1))
    }
}
