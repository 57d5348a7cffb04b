//! Rows of instructions that this project's compiler does not emit but that occur in PTX from other compilers.

use super::{BINARY, BITS_32, COUNT, FLOATS, INTEGERS, OWN, RAW, TERNARY, WORDS, row as row_of};
use crate::extended::CarryOf;
use crate::instruction::Opcode;
use crate::signature::{Class, Row, Slot, Types};
use crate::types::Type;

const BYTES: Types = Types::of(&[Type::U32, Type::S32]);

/// Rows of these instructions; an unknown one has an empty row.
pub(super) fn row(op: &Opcode) -> Row {
    match op {
        Opcode::Modified { op, .. } => row_of(op),
        Opcode::Carry { of, takes, ty, .. } => {
            let (stem, slots) = match (of, takes) {
                (CarryOf::Add, false) => ("add", BINARY),
                (CarryOf::Add, true) => ("addc", BINARY),
                (CarryOf::Sub, false) => ("sub", BINARY),
                (CarryOf::Sub, true) => ("subc", BINARY),
                (CarryOf::MadLo, false) => ("mad.lo", TERNARY),
                (CarryOf::MadLo, true) => ("madc.lo", TERNARY),
                (CarryOf::MadHi, false) => ("mad.hi", TERNARY),
                (CarryOf::MadHi, true) => ("madc.hi", TERNARY),
            };
            Row::typed(stem, *ty, WORDS, slots)
        }
        Opcode::Bfind { ty, .. } => Row::typed("bfind", *ty, WORDS, &[Slot::Write(COUNT), Slot::Read(OWN)]),
        Opcode::PrmtMode(_) => Row::plain("prmt", TERNARY),
        Opcode::CopySign(ty) => Row::typed("copysign", *ty, FLOATS, BINARY),
        Opcode::Sad(ty) => Row::typed("sad", *ty, INTEGERS, TERNARY),
        Opcode::Dp4a { a, b } => {
            let slots: &[Slot] = &[Slot::Write(COUNT), Slot::Read(OWN), Slot::Read(Class::Type(1)), Slot::Read(COUNT)];
            Row::typed("dp4a", *a, BYTES, slots).types([*a, *b, *a, *a])
        }
        Opcode::Match { all: false, ty } => {
            Row::typed("match", *ty, RAW, &[Slot::Write(BITS_32), Slot::Read(OWN), Slot::Read(BITS_32)])
        }
        Opcode::Match { all: true, ty } => {
            Row::typed("match", *ty, RAW, &[Slot::WithPredicate(BITS_32), Slot::Read(OWN), Slot::Read(BITS_32)])
        }
        _ => Row::plain("", &[]),
    }
}
