//! Modifiers of instructions that this project's compiler does not emit but that occur in PTX from other compilers.

use super::walk::Modifiers;
use crate::extended::BarReduction;
use crate::instruction::Opcode;
use crate::types::Type;

pub(super) fn modifiers(op: &mut Opcode, m: &mut impl Modifiers) {
    match op {
        Opcode::Carry { takes: _, gives, ty, .. } => {
            m.flag(gives, "cc");
            m.required(ty);
        }
        Opcode::Bfind { shift_amount, ty } => {
            m.flag(shift_amount, "shiftamt");
            m.required(ty);
        }
        Opcode::PrmtMode(mode) => {
            m.literal("b32");
            m.required(mode);
        }
        Opcode::CopySign(ty) | Opcode::Sad(ty) => m.required(ty),
        Opcode::Dp4a { a, b } => {
            m.required(a);
            m.required(b);
        }
        Opcode::Match { all, ty } => {
            m.either(all, ["all", "any"]);
            m.literal("sync");
            m.required(ty);
        }
        Opcode::SetpWith { cmp, with, ty } => {
            m.required(cmp);
            m.required(with);
            m.required(ty);
        }
        Opcode::Set { cmp, to, from } => {
            m.required(cmp);
            m.required(to);
            m.required(from);
        }
        Opcode::Slct { ty, by } => {
            m.required(ty);
            m.required(by);
        }
        Opcode::Mul24 { half, ty } | Opcode::Mad24 { half, ty } => {
            m.required(half);
            m.required(ty);
        }
        Opcode::CvtPack { to, with } => {
            m.required(to);
            m.literal("s32");
            m.flag(with, "b32");
        }
        Opcode::BarRed { op, .. } => {
            m.required(op);
            m.literal(if *op == BarReduction::Popc { "u32" } else { "pred" });
        }
        Opcode::Dp2a { high, a, b } => {
            m.either(high, ["hi", "lo"]);
            m.required(a);
            m.required(b);
        }
        Opcode::TestP { what, ty } => {
            m.required(what);
            m.required(ty);
        }
        Opcode::Cnot(ty) => m.required(ty),
        Opcode::Lop3With(with) => {
            m.required(with);
            m.literal("b32");
        }
        Opcode::XorSign { max: _, nan, ty } => {
            m.flag(nan, "NaN");
            m.literal("xorsign.abs");
            m.required(ty);
        }
        Opcode::CvtFinite { rnd, to } => {
            m.optional(rnd);
            m.literal("satfinite");
            m.required(to);
            m.literal("f32");
            // For 8-bit floats, `.satfinite` is part of every conversion and has another opcode.
            m.reject_if(matches!(to, Type::E4m3x2 | Type::E5m2x2));
        }
        Opcode::Video { op: _, parts: _, merge, d, a, b } => {
            [d, a, b].into_iter().for_each(|ty| m.required(ty));
            m.optional(merge);
        }
        Opcode::VideoSet { parts: _, add, cmp, a, b } => {
            m.required(a);
            m.required(b);
            m.required(cmp);
            m.flag(add, "add");
        }
        // The remaining opcodes have only a stem.
        _ => {}
    }
}
