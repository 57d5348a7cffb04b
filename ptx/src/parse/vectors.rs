//! Moves of whole special registers, `mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid;`, which become a move of each component.

use super::entry::Body;
use super::{Parser, Result};
use crate::instruction::{Guard, Instruction, Opcode, Operand, Special};
use crate::lexer::TokenKind;
use crate::module::Statement;
use crate::types::Type;

impl<'a> Parser<'a> {
    /// Reads the operands of such a move, if the instruction is one. Returns whether it was.
    pub(super) fn vector_move(
        &mut self,
        guard: Option<Guard>,
        mnemonic: &str,
        line: u32,
        body: &mut Body<'a>,
    ) -> Result<bool> {
        let Some(ty) = mnemonic.strip_prefix("mov.v4.").and_then(Type::from_name) else { return Ok(false) };
        let op = Opcode::Mov(ty);
        self.expect_punct(b'{')?;
        let parts = self.elements(&op, &body.names)?;
        self.expect_punct(b',')?;
        let name = self.expect(TokenKind::Word, "a special register")?;
        let component = |axis: &str| Special::from_name(&format!("{}.{axis}", name.text)).map(Operand::Special);
        let (Some(x), Some(y), Some(z), 4) = (component("x"), component("y"), component("z"), parts.len()) else {
            let message = "a move of a vector needs four registers and a special register of three components";
            return Err(self.error_at(name.position, message.to_owned()));
        };
        self.expect_punct(b';')?;
        // The fourth component of each is zero.
        for (part, from) in parts.into_iter().zip([x, y, z, Operand::Int(0)]) {
            if part != Operand::Sink {
                self.count_statement()?;
                let operands = vec![part, from];
                body.push(Statement::Instruction(Instruction { guard, op: op.clone(), operands, note: None }), line);
            }
        }
        Ok(true)
    }
}
