//! Arithmetic on rows: 32 lanes at a time.
//!
//! Everything here is inlined into the warp loop, which is compiled once per instruction set: there, a plain loop over
//! 32 lanes becomes vector instructions, and `mul_add` becomes the fused instruction.

use super::nan;
use crate::op::{Arith, Bin32, Cmp, Shift, Un32};
use crate::row::LANES;

type Words = [u32; LANES];
type Doubles = [u64; LANES];

#[inline(always)]
pub(super) fn map1<A: Copy, T: Copy + Default>(a: &[A; LANES], f: impl Fn(A) -> T) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(a[lane]);
    }
    out
}

#[inline(always)]
pub(super) fn map2<A: Copy, B: Copy, T: Copy + Default>(
    a: &[A; LANES],
    b: &[B; LANES],
    f: impl Fn(A, B) -> T,
) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(a[lane], b[lane]);
    }
    out
}

#[inline(always)]
pub(super) fn map3<A: Copy, B: Copy, C: Copy, T: Copy + Default>(
    a: &[A; LANES],
    b: &[B; LANES],
    c: &[C; LANES],
    f: impl Fn(A, B, C) -> T,
) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(a[lane], b[lane], c[lane]);
    }
    out
}

#[inline(always)]
pub(super) fn fma32(a: &Words, b: &Words, c: &Words) -> Words {
    map3(a, b, c, |a, b, c| canonical(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c))))
}

#[inline(always)]
pub(super) fn mad32(a: &Words, b: &Words, c: &Words) -> Words {
    map3(a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c))
}

#[inline(always)]
pub(super) fn fma64(a: &Doubles, b: &Doubles, c: &Doubles) -> Doubles {
    let f = |a, b, c| f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits();
    let mut out = map3(a, b, c, f);
    nan::replace(&mut out, Arith::Fma, |lane| [a[lane], b[lane], c[lane]]);
    out
}

#[inline(always)]
pub(super) fn un32(f: Un32, a: &Words) -> Words {
    match f {
        Un32::Mov => *a,
        Un32::Not => map1(a, |a| !a),
        Un32::Neg => map1(a, u32::wrapping_neg),
        Un32::Abs => map1(a, |a| (a as i32).wrapping_abs() as u32),
        // Measured on an H200: negation is an addition of -0, with the NaN of an addition.
        Un32::NegF => map1(a, |a| canonical(-f32::from_bits(a))),
        Un32::AbsF => map1(a, |a| canonical(f32::from_bits(a).abs())),
    }
}

#[inline(always)]
pub(super) fn un64(f: Un32, a: &Doubles) -> Doubles {
    match f {
        Un32::Mov => *a,
        Un32::Not => map1(a, |a| !a),
        Un32::Neg => map1(a, u64::wrapping_neg),
        Un32::Abs => map1(a, |a| (a as i64).wrapping_abs() as u64),
        Un32::NegF => map1(a, |a| if nan::is_nan(a) { a | nan::QUIET } else { a ^ 1 << 63 }),
        Un32::AbsF => map1(a, |a| if nan::is_nan(a) { a | nan::QUIET } else { a & !(1 << 63) }),
    }
}

/// The bits of a single-precision result: every NaN is PTX's canonical one, whatever the host produces.
#[inline(always)]
fn canonical(value: f32) -> u32 {
    if value.is_nan() { NAN32 } else { value.to_bits() }
}

/// Applies an f32 function to bit patterns.
#[inline(always)]
fn f32s(a: &Words, b: &Words, f: impl Fn(f32, f32) -> f32) -> Words {
    map2(a, b, |a, b| canonical(f(f32::from_bits(a), f32::from_bits(b))))
}

/// Applies an f64 function to bit patterns.
#[inline(always)]
fn f64s(op: Arith, a: &Doubles, b: &Doubles, f: impl Fn(f64, f64) -> f64) -> Doubles {
    let mut out = map2(a, b, |a, b| f(f64::from_bits(a), f64::from_bits(b)).to_bits());
    nan::replace(&mut out, op, |lane| [a[lane], b[lane], 0]);
    out
}

#[inline(always)]
pub(super) fn bin32(f: Bin32, a: &Words, b: &Words) -> Words {
    match f {
        Bin32::Add => map2(a, b, u32::wrapping_add),
        Bin32::Sub => map2(a, b, u32::wrapping_sub),
        Bin32::Mul => map2(a, b, u32::wrapping_mul),
        Bin32::MulHiU => map2(a, b, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        Bin32::MulHiS => map2(a, b, |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
        // The manual leaves division by zero undefined. Measured on an H200: 32-bit quotients and remainders have every
        // bit set. The machine code that ptxas emits for 16 and 64 bits also sets every bit.
        Bin32::DivU => map2(a, b, |a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        Bin32::DivS => map2(a, b, |a, b| if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 }),
        Bin32::RemU => map2(a, b, |a, b| a.checked_rem(b).unwrap_or(u32::MAX)),
        Bin32::RemS => map2(a, b, |a, b| if b == 0 { u32::MAX } else { (a as i32).wrapping_rem(b as i32) as u32 }),
        Bin32::MinU => map2(a, b, u32::min),
        Bin32::MaxU => map2(a, b, u32::max),
        Bin32::MinS => map2(a, b, |a, b| (a as i32).min(b as i32) as u32),
        Bin32::MaxS => map2(a, b, |a, b| (a as i32).max(b as i32) as u32),
        Bin32::And => map2(a, b, |a, b| a & b),
        Bin32::Or => map2(a, b, |a, b| a | b),
        Bin32::Xor => map2(a, b, |a, b| a ^ b),
        Bin32::Shl => map2(a, b, |a, b| if b > 31 { 0 } else { a << b }),
        Bin32::ShrU => map2(a, b, |a, b| if b > 31 { 0 } else { a >> b }),
        Bin32::ShrS => map2(a, b, |a, b| ((a as i32) >> b.min(31)) as u32),
        Bin32::AddF => f32s(a, b, |a, b| a + b),
        Bin32::SubF => f32s(a, b, |a, b| a - b),
        Bin32::MulF => f32s(a, b, |a, b| a * b),
        Bin32::DivF => f32s(a, b, |a, b| a / b),
        Bin32::MinF => map2(a, b, |a, b| minmax32(a, b, false, false)),
        Bin32::MaxF => map2(a, b, |a, b| minmax32(a, b, true, false)),
        Bin32::MinNanF => map2(a, b, |a, b| minmax32(a, b, false, true)),
        Bin32::MaxNanF => map2(a, b, |a, b| minmax32(a, b, true, true)),
    }
}

#[inline(always)]
pub(super) fn bin64(f: Bin32, a: &Doubles, b: &Doubles) -> Doubles {
    match f {
        Bin32::Add => map2(a, b, u64::wrapping_add),
        Bin32::Sub => map2(a, b, u64::wrapping_sub),
        Bin32::Mul => map2(a, b, u64::wrapping_mul),
        Bin32::MulHiU => map2(a, b, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        Bin32::MulHiS => map2(a, b, |a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64),
        Bin32::DivU => map2(a, b, |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
        Bin32::DivS => map2(a, b, |a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 }),
        Bin32::RemU => map2(a, b, |a, b| a.checked_rem(b).unwrap_or(u64::MAX)),
        Bin32::RemS => map2(a, b, |a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_rem(b as i64) as u64 }),
        Bin32::MinU => map2(a, b, u64::min),
        Bin32::MaxU => map2(a, b, u64::max),
        Bin32::MinS => map2(a, b, |a, b| (a as i64).min(b as i64) as u64),
        Bin32::MaxS => map2(a, b, |a, b| (a as i64).max(b as i64) as u64),
        Bin32::And => map2(a, b, |a, b| a & b),
        Bin32::Or => map2(a, b, |a, b| a | b),
        Bin32::Xor => map2(a, b, |a, b| a ^ b),
        // 64-bit shifts have a 32-bit amount: see `shift64`.
        Bin32::Shl | Bin32::ShrU | Bin32::ShrS => *a,
        Bin32::AddF => f64s(Arith::Add, a, b, |a, b| a + b),
        Bin32::SubF => f64s(Arith::Sub, a, b, |a, b| a - b),
        Bin32::MulF => f64s(Arith::Mul, a, b, |a, b| a * b),
        Bin32::DivF => f64s(Arith::Div, a, b, |a, b| a / b),
        Bin32::MinF => map2(a, b, |a, b| minmax64(a, b, false, false)),
        Bin32::MaxF => map2(a, b, |a, b| minmax64(a, b, true, false)),
        Bin32::MinNanF => map2(a, b, |a, b| minmax64(a, b, false, true)),
        Bin32::MaxNanF => map2(a, b, |a, b| minmax64(a, b, true, true)),
    }
}

#[inline(always)]
pub(super) fn shift64(f: Shift, a: &Doubles, b: &Words) -> Doubles {
    match f {
        Shift::Left => map2(a, b, |a, b| if b > 63 { 0 } else { a << b }),
        Shift::RightU => map2(a, b, |a, b| if b > 63 { 0 } else { a >> b }),
        Shift::RightS => map2(a, b, |a, b| ((a as i64) >> b.min(63)) as u64),
    }
}

/// PTX's canonical NaN.
const NAN32: u32 = 0x7fff_ffff;

/// min and max: -0 is less than +0; if one operand is NaN the result is the other one, unless `propagate`; two NaNs
/// give NaN.
#[inline(always)]
fn minmax32(a: u32, b: u32, max: bool, propagate: bool) -> u32 {
    let (nan_a, nan_b) = (f32::from_bits(a).is_nan(), f32::from_bits(b).is_nan());
    // Sign-magnitude to two's complement, which orders floats like integers.
    let key = |bits: u32| bits as i32 ^ ((bits as i32 >> 31) as u32 >> 1) as i32;
    let picked = if (key(a) < key(b)) != max { a } else { b };
    match (nan_a, nan_b) {
        (false, false) => picked,
        (true, true) => NAN32,
        _ if propagate => NAN32,
        (true, false) => b,
        (false, true) => a,
    }
}

#[inline(always)]
fn minmax64(a: u64, b: u64, max: bool, propagate: bool) -> u64 {
    let (nan_a, nan_b) = (f64::from_bits(a).is_nan(), f64::from_bits(b).is_nan());
    let key = |bits: u64| bits as i64 ^ ((bits as i64 >> 63) as u64 >> 1) as i64;
    let picked = if (key(a) < key(b)) != max { a } else { b };
    match (nan_a, nan_b) {
        (false, false) => picked,
        // Measured on an H200.
        (true, true) => b | nan::QUIET,
        _ if propagate => nan::of_double(Arith::Min, [a, b, 0]),
        (true, false) => b,
        (false, true) => a,
    }
}

/// One bit per lane.
#[inline(always)]
fn bits<A: Copy>(a: &[A; LANES], b: &[A; LANES], f: impl Fn(A, A) -> bool) -> u32 {
    let mut out = 0;
    for lane in 0..LANES {
        out |= u32::from(f(a[lane], b[lane])) << lane;
    }
    out
}

#[inline(always)]
pub(super) fn set32(cmp: Cmp, a: &Words, b: &Words) -> u32 {
    match cmp {
        Cmp::Eq => bits(a, b, |a, b| a == b),
        Cmp::Ne => bits(a, b, |a, b| a != b),
        Cmp::LtU => bits(a, b, |a, b| a < b),
        Cmp::LeU => bits(a, b, |a, b| a <= b),
        Cmp::LtS => bits(a, b, |a, b| (a as i32) < b as i32),
        Cmp::LeS => bits(a, b, |a, b| a as i32 <= b as i32),
        _ => bits(a, b, |a, b| compare_floats(cmp, f32::from_bits(a).into(), f32::from_bits(b).into())),
    }
}

#[inline(always)]
pub(super) fn set64(cmp: Cmp, a: &Doubles, b: &Doubles) -> u32 {
    match cmp {
        Cmp::Eq => bits(a, b, |a, b| a == b),
        Cmp::Ne => bits(a, b, |a, b| a != b),
        Cmp::LtU => bits(a, b, |a, b| a < b),
        Cmp::LeU => bits(a, b, |a, b| a <= b),
        Cmp::LtS => bits(a, b, |a, b| (a as i64) < b as i64),
        Cmp::LeS => bits(a, b, |a, b| a as i64 <= b as i64),
        _ => bits(a, b, |a, b| compare_floats(cmp, f64::from_bits(a), f64::from_bits(b))),
    }
}

/// Compares floats of any width, since f64 represents them exactly.
#[inline(always)]
pub(super) fn compare_floats(cmp: Cmp, a: f64, b: f64) -> bool {
    let nan = a.is_nan() || b.is_nan();
    match cmp {
        Cmp::EqF => a == b,
        Cmp::NeF => !nan && a != b,
        Cmp::LtF => a < b,
        Cmp::LeF => a <= b,
        Cmp::EquF => nan || a == b,
        Cmp::NeuF => nan || a != b,
        Cmp::LtuF => nan || a < b,
        Cmp::LeuF => nan || a <= b,
        Cmp::NumF => !nan,
        Cmp::NanF => nan,
        Cmp::Eq | Cmp::Ne | Cmp::LtU | Cmp::LeU | Cmp::LtS | Cmp::LeS => false,
    }
}
