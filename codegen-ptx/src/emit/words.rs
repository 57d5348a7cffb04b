//! Accesses with more elements than a vector has registers: two 16-bit elements share one word.
//!
//! A vector access has at most four elements (PTX ISA, `ld`, "Vectors"), so eight elements of two bytes are four words.

use ptx_gemm_ptx::instruction::{Opcode, Operand, Reg};
use ptx_gemm_ptx::types::Type;

use super::{Emitter, scalar_type};
use crate::kernel::{self, Guard, Math, Value};

/// Most elements of a vector access.
const MOST: usize = 4;

impl Emitter<'_> {
    /// Registers for the words of an access that has more elements than a vector.
    pub(super) fn words(&mut self, elements: &[kernel::Reg]) -> Vec<Reg> {
        let count = if elements.len() > MOST { elements.len() / 2 } else { 0 };
        (0..count).map(|_| self.scratch(kernel::Type::Pair)).collect()
    }

    /// The type and the number of the registers that an access moves.
    pub(super) fn accessed(&self, elements: &[kernel::Reg], words: &[Reg]) -> (Type, u8) {
        match words {
            [] => (scalar_type(self.kernel.ty(elements[0])), elements.len() as u8),
            words => (Type::B32, words.len() as u8),
        }
    }

    /// The registers of an access.
    pub(super) fn data(&self, elements: &[kernel::Reg], words: &[Reg]) -> Operand {
        match (elements, words) {
            ([one], []) => self.reg(*one).into(),
            (many, []) => Operand::Vector(many.iter().map(|reg| self.reg(*reg).into()).collect()),
            (_, words) => Operand::Vector(words.iter().map(|word| Operand::Reg(*word)).collect()),
        }
    }

    /// Splits loaded words into elements.
    pub(super) fn unpack(&mut self, words: &[Reg], elements: &[kernel::Reg], guard: Option<Guard>) {
        for (word, pair) in words.iter().zip(elements.chunks(2)) {
            let parts = self.pair(pair);
            self.emit(guard, Opcode::Mov(Type::B32), [parts, Operand::Reg(*word)]);
        }
    }

    /// Packs elements into the words of a store.
    pub(super) fn pack(&mut self, elements: &[kernel::Reg], words: &[Reg]) {
        for (word, pair) in words.iter().zip(elements.chunks(2)) {
            let parts = self.pair(pair);
            self.entry.emit(Opcode::Mov(Type::B32), [Operand::Reg(*word), parts]);
        }
    }

    /// Packs a pair, or extracts one of its elements.
    pub(super) fn pairs(&mut self, op: Math, dst: kernel::Reg, args: &[Value]) {
        let dst = Operand::Reg(self.reg(dst));
        let vector = |parts: Vec<Operand>| Operand::Vector(parts.into());
        let args: Vec<Operand> = args.iter().map(|arg| self.value(arg, Type::B32)).collect();
        let operands = match (op, args.as_slice()) {
            (Math::First, [pair]) => [vector(vec![dst, Operand::Sink]), pair.clone()],
            (Math::Second, [pair]) => [vector(vec![Operand::Sink, dst]), pair.clone()],
            _ => [dst, vector(args)],
        };
        self.entry.emit(Opcode::Mov(Type::B32), operands);
    }

    fn pair(&self, elements: &[kernel::Reg]) -> Operand {
        Operand::Vector(elements.iter().map(|reg| self.reg(*reg).into()).collect())
    }
}
