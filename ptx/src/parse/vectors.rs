//! Moves of vectors, which become a move of each component: `mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid;`, and the same with
//! vector registers on either side.

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
        let of = |lanes: &str| mnemonic.strip_prefix(lanes).and_then(Type::from_name);
        let (lanes, ty) = match (of("mov.v2."), of("mov.v4.")) {
            (Some(ty), _) => (2, ty),
            (_, Some(ty)) => (4, ty),
            _ => return Ok(false),
        };
        let op = Opcode::Mov(ty);
        let position = self.token.position;
        let to = self.operand(&op, &body.names)?;
        self.expect_punct(b',')?;
        let from = match self.components(lanes) {
            Some(components) => {
                self.next()?;
                components
            }
            None => match self.operand(&op, &body.names)? {
                Operand::Vector(from) => from.into_iter().collect(),
                _ => Vec::new(),
            },
        };
        self.expect_punct(b';')?;
        let Operand::Vector(to) = to else { return Err(self.error_at(position, unfit(lanes))) };
        if to.len() != lanes || from.len() != lanes {
            return Err(self.error_at(position, unfit(lanes)));
        }
        let mut moves: Vec<(Operand, Operand)> =
            to.into_iter().zip(from).filter(|(to, _)| *to != Operand::Sink).collect();
        // A register is written after its old value was read.
        while !moves.is_empty() {
            let is_read_later = |at: usize| (0..moves.len()).any(|other| other != at && moves[other].1 == moves[at].0);
            let Some(next) = (0..moves.len()).find(|at| !is_read_later(*at)) else {
                // Every register is still to be read. The first value is kept elsewhere until its turn.
                let (_, from) = &mut moves[0];
                let Some(kept) = body.names.scratch(ty).map(Operand::Reg) else {
                    return Err(self.error_at(position, "more than 65536 register families".to_owned()));
                };
                let from = std::mem::replace(from, kept.clone());
                self.count_statement()?;
                let operands = vec![kept, from];
                body.push(Statement::Instruction(Instruction { guard, op: op.clone(), operands, note: None }), line);
                continue;
            };
            let (to, from) = moves.remove(next);
            self.count_statement()?;
            let operands = vec![to, from];
            body.push(Statement::Instruction(Instruction { guard, op: op.clone(), operands, note: None }), line);
        }
        Ok(true)
    }

    /// The components of the special register that the current token names; a fourth one is zero.
    fn components(&self, lanes: usize) -> Option<Vec<Operand>> {
        if self.token.kind != TokenKind::Word || lanes != 4 {
            return None;
        }
        let component = |axis: &str| Special::from_name(&format!("{}.{axis}", self.token.text)).map(Operand::Special);
        Some(vec![component("x")?, component("y")?, component("z")?, Operand::Int(0)])
    }
}

fn unfit(lanes: usize) -> String {
    format!("a move of a vector needs {lanes} registers, and as many values or a special register of three components")
}
