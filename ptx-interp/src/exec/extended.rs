//! Carries, and floats with flushed subnormals or saturation.

use ptx_gemm_ptx::extended::CarryOf;
use ptx_gemm_ptx::types::Type;

use super::round::{add_to_odd, divide_to_odd, is_tiny, round_mode, to_f64};
use super::{Lanes, nan};
use crate::env::Env;
use crate::op::{Arith, Carry, Inexact, Modified, Op, Slot};
use crate::row::{LANES, lanes};
use crate::warp::Warp;

impl Warp {
    #[inline(never)]
    pub(super) fn carry<const WATCH: bool>(&mut self, op: &Carry, active: u32) {
        for lane in lanes(active) {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| u128::from(self.regs.get(slot, lane)));
            let carry = if op.takes { u128::from(self.regs.get(Slot::P(op.carry), lane)) } else { 0 };
            let (value, out) = with_carry(op, [a, b, c], carry);
            self.regs.set(op.d, lane, value);
            if op.gives {
                self.regs.set(Slot::P(op.carry), lane, out);
            }
        }
        if WATCH {
            let at = |slot| self.taint.at(slot);
            let (d, carry) = (at(op.d), at(Slot::P(op.carry)));
            let third = if matches!(op.of, CarryOf::MadLo | CarryOf::MadHi) { at(op.c) } else { at(op.a) };
            let last = if op.takes { carry } else { third };
            let sources = [at(op.a), at(op.b), third, last];
            // The destination may be one of the sources.
            if op.gives {
                let tainted = sources.iter().fold(0, |all, source| all | self.taint.mask(*source));
                let from = sources.into_iter().find(|source| self.taint.mask(*source) & active != 0);
                self.taint.flow(d, sources, active);
                self.taint.assign(carry, tainted, from.unwrap_or(sources[0]), active);
            } else {
                self.taint.flow(d, sources, active);
            }
        }
    }

    /// Runs the plain instruction on flushed sources, restores the sources, and adjusts the result, which may be in the
    /// register of a source.
    #[inline(never)]
    pub(super) fn modified<const WATCH: bool>(&mut self, env: &Env, op: &Modified, all: Lanes) {
        let kept = op.flushed.map(|source| match source {
            Some((Slot::R32(slot), ty)) => {
                let row = &mut self.regs.r32[slot.0 as usize];
                let before = row.0;
                row.0 = before.map(|bits| flush_source(ty, bits));
                Some((slot, before))
            }
            _ => None,
        });
        let given = op.inexact.map(|inexact| inexact.sources.map(|slot| self.row_of(slot)));
        match op.op {
            Op::Scalar { index } => self.scalar::<WATCH>(&env.code.scalars[index as usize], all.active),
            Op::Rare { index } => self.rare::<WATCH>(&env.code.rare[index as usize], all.active),
            inner => self.row::<WATCH>(inner, all),
        }
        let result = op.result.map(|(slot, _)| match slot {
            Slot::R32(slot) => self.regs.r32[slot.0 as usize].0,
            slot => self.row_of(slot).map(|bits| bits as u32),
        });
        // A register that occurs twice as a source was flushed on its first occurrence, so the first saved copy is the
        // original.
        for (slot, before) in kept.into_iter().flatten().rev() {
            self.regs.r32[slot.0 as usize].0 = before;
        }
        let (Some(values), Some((slot, ty))) = (result, op.result) else { return };
        let mut changed = values;
        for (lane, bits) in changed.iter_mut().enumerate() {
            if op.sat {
                *bits = saturate(ty, *bits);
            }
            if op.relu {
                *bits = relu(ty, *bits);
            }
            if op.ftz {
                *bits = flush(ty, *bits);
            }
            if let (Some(inexact), Some(rows)) = (&op.inexact, &given) {
                *bits = flush_rounded(inexact, ty, *bits, [0, 1, 2].map(|source: usize| rows[source][lane]));
            }
        }
        match slot {
            Slot::R32(slot) => self.regs.put32(slot, changed, all),
            slot => lanes(all.active).for_each(|lane| self.regs.set(slot, lane, changed[lane].into())),
        }
    }
}

impl Warp {
    fn row_of(&self, slot: Slot) -> [u64; LANES] {
        std::array::from_fn(|lane| self.regs.get(slot, lane))
    }
}

fn with_carry(op: &Carry, [a, b, c]: [u128; 3], carry: u128) -> (u64, u64) {
    let bits = op.ty.bits();
    let ones = (1u128 << bits) - 1;
    let (a, b, c) = (a & ones, b & ones, c & ones);
    let sum = match op.of {
        CarryOf::Add => a + b + carry,
        // The flag has one meaning in every chain: the carry out of a + !b + 1, which means that there was no borrow.
        CarryOf::Sub if op.takes => a + (!b & ones) + carry,
        CarryOf::Sub => a + (!b & ones) + 1,
        CarryOf::MadLo => ((a * b) & ones) + c + carry,
        CarryOf::MadHi if op.ty.is_signed() => {
            let extend = |value: u128| (value << (128 - bits)) as i128 >> (128 - bits);
            (((extend(a) * extend(b)) >> bits) as u128 & ones) + c + carry
        }
        CarryOf::MadHi => ((a * b) >> bits) + c + carry,
    };
    ((sum & ones) as u64, u64::from(sum >> bits != 0))
}

/// An operand as seen by an instruction with `.ftz`. A single-precision NaN becomes the canonical one, which only
/// matters for conversions to double precision (measured on an H200: they multiply by 1 first).
fn flush_source(ty: Type, bits: u32) -> u32 {
    if ty == Type::F32 && f32::from_bits(bits).is_nan() { nan::canonical(ty) as u32 } else { flush(ty, bits) }
}

/// Replaces subnormals by zeros of the same sign.
pub(super) fn flush(ty: Type, bits: u32) -> u32 {
    let half = |bits: u32| if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits };
    let other_half = |bits: u32| if bits & 0x7f80 == 0 { bits & 0x8000 } else { bits };
    match ty {
        Type::F32 if bits & 0x7f80_0000 == 0 => bits & 0x8000_0000,
        Type::F16 => half(bits),
        Type::F16x2 => half(bits & 0xffff) | half(bits >> 16) << 16,
        Type::Bf16 => other_half(bits),
        Type::Bf16x2 => other_half(bits & 0xffff) | other_half(bits >> 16) << 16,
        _ => bits,
    }
}

/// Replaces the smallest normal number by zero if the exact result was subnormal before rounding.
fn flush_rounded(inexact: &Inexact, ty: Type, bits: u32, sources: [u64; 3]) -> u32 {
    let half = |shift: u32| {
        let part = bits >> shift & 0xffff;
        let sources = sources.map(|source| source >> shift & 0xffff);
        if part & 0x7fff == 0x0400 && was_tiny(inexact, Type::F16, sources) { part & 0x8000 } else { part }
    };
    match ty {
        Type::F32 if bits & 0x7fff_ffff == 0x0080_0000 && was_tiny(inexact, ty, sources) => bits & 0x8000_0000,
        Type::F16 => half(0),
        Type::F16x2 => half(0) | half(16) << 16,
        _ => bits,
    }
}

/// Whether the exact result of an operation, rounded to the type's precision, is subnormal.
fn was_tiny(inexact: &Inexact, ty: Type, sources: [u64; 3]) -> bool {
    let from = if inexact.from == Type::F64 { Type::F64 } else { ty };
    let [x, y, z] = sources.map(|bits| to_f64(from, bits));
    let value = match inexact.op {
        None => x,
        Some(Arith::Fma) => add_to_odd(x * y, z),
        Some(Arith::Div) => divide_to_odd(x, y),
        Some(Arith::Rcp) => divide_to_odd(1.0, x),
        // All bits of a product of two factors.
        _ => x * y,
    };
    is_tiny(ty, value, round_mode(inexact.rounding))
}

/// Replaces negative numbers by zero, and a NaN by the canonical one.
fn relu(ty: Type, bits: u32) -> u32 {
    let half = |bits: u32, infinity: u32| match bits & 0x7fff {
        magnitude if magnitude > infinity => 0x7fff,
        _ if bits & 0x8000 != 0 => 0,
        _ => bits,
    };
    match ty {
        Type::F16 => half(bits & 0xffff, 0x7c00),
        Type::Bf16 => half(bits & 0xffff, 0x7f80),
        Type::F16x2 => half(bits & 0xffff, 0x7c00) | half(bits >> 16, 0x7c00) << 16,
        Type::Bf16x2 => half(bits & 0xffff, 0x7f80) | half(bits >> 16, 0x7f80) << 16,
        Type::S16x2 => [0, 16].map(|at| if bits >> at & 0x8000 != 0 { 0 } else { bits & 0xffff << at }).iter().sum(),
        // Conversions to 8 bits make no NaN with a sign.
        Type::E4m3x2 | Type::E5m2x2 => {
            [0, 8].map(|at| if bits >> at & 0x80 != 0 { 0 } else { bits & 0xff << at }).iter().sum()
        }
        Type::S32 => bits & !((bits as i32 >> 31) as u32),
        // Measured on an H200: it is the NaN of the conversion.
        Type::Tf32 if f32::from_bits(bits).is_nan() => bits,
        _ if f32::from_bits(bits).is_nan() => nan::canonical(Type::F32) as u32,
        _ if bits >> 31 != 0 => 0,
        _ => bits,
    }
}

/// Clamps to [0, 1]; NaN and negative zero become 0.
fn saturate(ty: Type, bits: u32) -> u32 {
    // Positive floats have the same order as their bits.
    let clamp = |bits: u32, sign: u32, infinity: u32, one: u32| match bits {
        bits if bits & (sign - 1) > infinity || bits & sign != 0 => 0,
        bits => bits.min(one),
    };
    let half = |bits: u32| clamp(bits, 0x8000, 0x7c00, 0x3c00);
    match ty {
        Type::F32 => clamp(bits, 0x8000_0000, 0x7f80_0000, 0x3f80_0000),
        Type::F16 => half(bits),
        Type::F16x2 => half(bits & 0xffff) | half(bits >> 16) << 16,
        _ => bits,
    }
}
