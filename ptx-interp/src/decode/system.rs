//! Calls: functions with a body are part of the entry, so only CUDA's own are left.

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::Operand;
use ptx_gemm_ptx::parse::DEEPER;
use ptx_gemm_ptx::print;
use ptx_gemm_ptx::types::Type;

use super::Decoder;
use crate::address::StateSpace;
use crate::op::{Argument, Op, System, SystemFunction};

impl Decoder<'_> {
    /// A call with this mnemonic.
    pub(super) fn call(&mut self, word: &str, operands: &[Operand]) -> Result<Op, String> {
        let name = operands.first().map_or(String::new(), |name| print::operand(name, self.entry));
        let (function, types): (_, &[Type]) = match (word, name.as_str()) {
            (DEEPER, _) => (SystemFunction::Deeper, &[]),
            (_, "vprintf") => (SystemFunction::Print, &[Type::B32, Type::B64, Type::B64]),
            (_, "__assertfail") => (SystemFunction::Assert, &[Type::B64, Type::B64, Type::B32, Type::B64, Type::B64]),
            // Calls of the module's own functions through a register come before this one.
            _ if matches!(operands.first(), Some(Operand::Reg(_))) => (SystemFunction::Stray, &[]),
            _ => return Err(format!("`{name}` cannot be called: it has no body in this module")),
        };
        let given = if let SystemFunction::Stray = function { &[] } else { operands.get(1..).unwrap_or_default() };
        if given.len() != types.len() {
            return Err(format!(
                "`{name}` has {} results and parameters, and the call has {}",
                types.len(),
                given.len()
            ));
        }
        let mut arguments = ArrayVec::new();
        for (operand, ty) in given.iter().zip(types) {
            arguments.push(match operand {
                Operand::Address(_) => {
                    let (base, offset) = self.address(operand, Some(StateSpace::Local))?;
                    Argument::Memory { base, offset }
                }
                Operand::Sink => Argument::Value(self.sink().into()),
                operand => Argument::Value(self.source(operand, *ty)?),
            });
        }
        self.code.systems.push(System { function, arguments, name });
        Ok(Op::System { index: self.code.systems.len() as u32 - 1 })
    }
}
