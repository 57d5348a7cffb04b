//! Rows of instructions that this project's compiler does not emit but that occur in PTX from other compilers.

use super::{
    AMPERE, BARRIER, BINARY, BITS, BITS_32, CONVERT, CONVERT_EXACT, CONVERT_PAIR, COUNT, FLOATS, HALVES, HOPPER,
    INTEGERS, OWN, RAW, TERNARY, UNARY, WORDS, row as row_of,
};
use crate::asynchronous::CacheHint;
use crate::extended::{BarReduction, CarryOf, Parts, Video};
use crate::instruction::{Compare, Opcode, Rounding};
use crate::signature::{Class, Row, Since, Slot, Types};
use crate::types::Type;
use crate::warp::Alignment;

/// PTX ISA, "match.sync".
const VOLTA: Since = Since::sm(70, (6, 0));

const BYTES: Types = Types::of(&[Type::U32, Type::S32]);
const SET: Types = BYTES.and(HALVES).and(Types::of(&[Type::F32, Type::U16, Type::S16]));
const PACKED: Types = Types::of(&[Type::U8, Type::S8, Type::U16, Type::S16]);

const VIDEO: &[Slot] = &[Slot::Write(COUNT), Slot::Read(COUNT), Slot::Read(COUNT), Slot::Read(COUNT)];

/// Rows of these instructions; an unknown one has an empty row.
pub(super) fn row(op: &Opcode) -> Row {
    match op {
        Opcode::Modified { op, relu, .. } => {
            let row = row_of(op);
            let since = match **op {
                _ if !*relu => row.since,
                Opcode::Min { .. } | Opcode::Max { .. } => row.since.with(Since::sm(90, (8, 0))),
                _ => row.since.with(AMPERE),
            };
            row.since(since)
        }
        Opcode::Hinted { op, hints } => {
            let row = row_of(op);
            let since = if hints.policy == CacheHint::L2 { Since::sm(80, (7, 4)) } else { Since::sm(75, (7, 4)) };
            row.since(row.since.with(since))
        }
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
        Opcode::Dp2a { a, b, .. } => {
            let slots: &[Slot] = &[Slot::Write(COUNT), Slot::Read(OWN), Slot::Read(Class::Type(1)), Slot::Read(COUNT)];
            Row::typed("dp2a", *a, BYTES, slots).types([*a, *b, *a, *a])
        }
        Opcode::TestP { ty, .. } => {
            Row::typed("testp", *ty, FLOATS, &[Slot::Write(Class::Is(Type::Pred)), Slot::Read(OWN)])
        }
        Opcode::Cnot(ty) => Row::typed("cnot", *ty, BITS, UNARY),
        Opcode::Lop3With(_) => {
            const LOOKUP: &[Slot] = &[
                Slot::SinkWithPredicate(OWN),
                Slot::Read(OWN),
                Slot::Read(OWN),
                Slot::Read(OWN),
                Slot::Constant { min: 0, max: 255, step: 1 },
                Slot::Condition,
            ];
            Row::plain("lop3", LOOKUP).since(Since::sm(75, (8, 2)))
        }
        Opcode::XorSign { max, ty, .. } => {
            let stem = if *max { "max" } else { "min" };
            Row::typed(stem, *ty, HALVES.and(Types::of(&[Type::F32])), BINARY).since(Since::sm(86, (7, 2)))
        }
        Opcode::CvtFinite { rnd, to } => {
            const FINITE: Types = HALVES.and(Types::of(&[Type::Tf32]));
            let packs = matches!(to, Type::F16x2 | Type::Bf16x2);
            let since = match to {
                Type::Tf32 if *rnd != Rounding::Rna => Since::sm(100, (8, 6)),
                Type::F16 => Since::sm(75, (8, 1)),
                _ => Since::sm(80, (8, 1)),
            };
            let slots = match to {
                _ if packs => CONVERT_PAIR,
                Type::Tf32 | Type::Bf16 => CONVERT_EXACT,
                _ => CONVERT,
            };
            Row::typed("cvt", *to, FINITE, slots).types([*to, Type::F32, *to, Type::F32]).since(since)
        }
        Opcode::Video { op, parts, d, a, b, .. } => {
            let stem = match (op, parts) {
                (Video::AbsDiff, Parts::Halves) => "vabsdiff2",
                (Video::AbsDiff, Parts::Bytes) => "vabsdiff4",
                (Video::Add, Parts::Halves) => "vadd2",
                (Video::Add, Parts::Bytes) => "vadd4",
                (Video::Avrg, Parts::Halves) => "vavrg2",
                (Video::Avrg, Parts::Bytes) => "vavrg4",
                (Video::Max, Parts::Halves) => "vmax2",
                (Video::Max, Parts::Bytes) => "vmax4",
                (Video::Min, Parts::Halves) => "vmin2",
                (Video::Min, Parts::Bytes) => "vmin4",
                (Video::Sub, Parts::Halves) => "vsub2",
                (Video::Sub, Parts::Bytes) => "vsub4",
            };
            Row::typed(stem, *d, BYTES, VIDEO).types([*d, *a, *b, *d])
        }
        Opcode::VideoSet { parts, a, b, .. } => {
            let stem = if *parts == Parts::Halves { "vset2" } else { "vset4" };
            Row::typed(stem, *a, BYTES, VIDEO).types([*a, *a, *b, *a])
        }
        Opcode::MovMatrix => Row::plain("movmatrix.sync.aligned.m8n8.trans.b16", UNARY).since(Since::sm(75, (7, 8))),
        Opcode::Match { all: false, ty } => {
            Row::typed("match", *ty, RAW, &[Slot::Write(BITS_32), Slot::Read(OWN), Slot::Read(BITS_32)]).since(VOLTA)
        }
        Opcode::Match { all: true, ty } => {
            Row::typed("match", *ty, RAW, &[Slot::WithPredicate(BITS_32), Slot::Read(OWN), Slot::Read(BITS_32)])
                .since(VOLTA)
        }
        Opcode::SetpWith { ty, .. } => {
            const ONE: &[Slot] =
                &[Slot::Write(Class::Is(Type::Pred)), Slot::Read(OWN), Slot::Read(OWN), Slot::Condition];
            const PAIR: &[Slot] = &[Slot::Predicates, Slot::Read(OWN), Slot::Read(OWN), Slot::Condition];
            let slots = if matches!(ty, Type::F16 | Type::Bf16) { ONE } else { PAIR };
            let plain = row_of(&Opcode::Setp { cmp: Compare::Eq, ty: *ty });
            Row { slots, ..plain }
        }
        Opcode::Set { to, from, .. } => {
            let slots = &[Slot::Write(OWN), Slot::Read(Class::Type(1)), Slot::Read(Class::Type(1))];
            let since = match from {
                Type::Bf16 | Type::Bf16x2 => HOPPER,
                Type::F16 | Type::F16x2 => Since::sm(53, (6, 5)),
                _ => Since::ALWAYS,
            };
            Row::typed("set", *to, SET, slots).types([*to, *from, *to, *from]).since(since)
        }
        Opcode::Slct { ty, by } => {
            let slots = &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(Class::Type(1))];
            Row::typed("slct", *ty, BITS.and(INTEGERS).and(FLOATS), slots).types([*ty, *by, *ty, *by])
        }
        Opcode::Fns => Row::plain("fns.b32", TERNARY),
        Opcode::Mul24 { ty, .. } => Row::typed("mul24", *ty, BYTES, BINARY),
        Opcode::Mad24 { ty, .. } => Row::typed("mad24", *ty, BYTES, TERNARY),
        Opcode::CvtPack { to, with } => {
            const ALL: &[Slot] = &[
                Slot::Write(BITS_32),
                Slot::Read(Class::Is(Type::S32)),
                Slot::Read(Class::Is(Type::S32)),
                Slot::Read(BITS_32),
            ];
            let slots = if *with { ALL } else { &ALL[..3] };
            Row::typed("cvt.pack.sat", *to, PACKED, slots).since(Since::sm(75, (6, 5)))
        }
        Opcode::BarRed { op, alignment } => {
            let stem = if *alignment == Alignment::Aligned { "bar.red" } else { "barrier.red" };
            let d = if *op == BarReduction::Popc { Type::U32 } else { Type::Pred };
            let slots = &[Slot::Write(OWN), BARRIER, Slot::ThreadsOrCondition, Slot::Condition];
            Row::typed(stem, d, Types::ALL, slots).optional(1)
        }
        _ => Row::plain("", &[]),
    }
}
