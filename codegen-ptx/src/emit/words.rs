//! Accesses with more elements than a vector has registers: two elements of 16 bits or four of 8 share one word.
//!
//! A vector access has at most four elements (PTX ISA, `ld`, "Vectors"), so 16 bytes of narrow elements are four words.

use ptx_gemm_ptx::instruction::{Opcode, Operand, Reg};
use ptx_gemm_ptx::types::Type;

use super::{Emitter, scalar_type};
use crate::kernel::{self, Guard, Math, Value};

/// Most elements of a vector access.
const MOST: usize = 4;

/// Elements of 8 bits in a word.
const BYTES: usize = 4;

impl Emitter<'_> {
    /// Registers for the words of an access that has more elements than a vector.
    pub(super) fn words(&mut self, elements: &[kernel::Reg]) -> Vec<Reg> {
        let count = if elements.len() > MOST { elements.len() / self.per_word(elements) } else { 0 };
        (0..count).map(|_| self.scratch(kernel::Type::Word)).collect()
    }

    /// The type and the number of the registers that an access moves.
    pub(super) fn accessed(&self, elements: &[kernel::Reg], words: &[Reg]) -> (Type, u8) {
        match words {
            [] if self.per_word(elements) == BYTES => (Type::B8, elements.len() as u8),
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
        let per_word = self.per_word(elements);
        for (word, part) in words.iter().zip(elements.chunks(per_word)) {
            if per_word == BYTES {
                for (index, element) in (0..).zip(part) {
                    let byte = self.reg(*element);
                    self.byte(byte, Operand::Reg(*word), index, guard);
                }
                continue;
            }
            let parts = self.pair(part);
            self.emit(guard, Opcode::Mov(Type::B32), [parts, Operand::Reg(*word)]);
        }
    }

    /// Packs elements into the words of a store.
    pub(super) fn pack(&mut self, elements: &[kernel::Reg], words: &[Reg]) {
        let per_word = self.per_word(elements);
        for (word, part) in words.iter().zip(elements.chunks(per_word)) {
            if per_word == BYTES {
                let bytes: Vec<Operand> = part.iter().map(|reg| self.reg(*reg).into()).collect();
                self.four(*word, &bytes);
                continue;
            }
            let parts = self.pair(part);
            self.entry.emit(Opcode::Mov(Type::B32), [Operand::Reg(*word), parts]);
        }
    }

    /// Elements of an access that share a word.
    fn per_word(&self, elements: &[kernel::Reg]) -> usize {
        if self.kernel.ty(elements[0]).is_byte() { BYTES } else { 2 }
    }

    /// Four bytes, each in the lower half of a register, as a word.
    pub(super) fn four(&mut self, word: Reg, bytes: &[Operand]) {
        let mut halves = Vec::new();
        for pair in bytes.chunks(2) {
            let (high, half) = (self.scratch(kernel::Type::U8), self.scratch(kernel::Type::U8));
            self.entry.emit(Opcode::Shl(Type::B16), [high.into(), pair[1].clone(), Operand::Int(8)]);
            self.entry.emit(Opcode::Or(Type::B16), [half.into(), high.into(), pair[0].clone()]);
            halves.push(Operand::Reg(half));
        }
        self.entry.emit(Opcode::Mov(Type::B32), [Operand::Reg(word), Operand::Vector(halves.into())]);
    }

    /// A byte of a word, with zeros above it.
    pub(super) fn byte(&mut self, byte: Reg, word: Operand, index: u32, guard: Option<Guard>) {
        let half = self.scratch(kernel::Type::U8);
        let parts = match index / 2 {
            0 => vec![half.into(), Operand::Sink],
            _ => vec![Operand::Sink, half.into()],
        };
        self.emit(guard, Opcode::Mov(Type::B32), [Operand::Vector(parts.into()), word]);
        let op = if index.is_multiple_of(2) { Opcode::And(Type::B16) } else { Opcode::Shr(Type::U16) };
        let by = if index.is_multiple_of(2) { 0xff } else { 8 };
        self.emit(guard, op, [byte.into(), half.into(), Operand::Int(by)]);
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
