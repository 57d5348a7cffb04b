//! The rarer operations, one lane at a time: 16-bit types, rounding modes other than to nearest, approximate functions.
//! Values are passed as 64 bits, of which only the bits of the type are used.

use ptx_gemm_ptx::instruction::{Approx, Rounding};
use ptx_gemm_ptx::types::Type;
use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round, StatusAnd};

use super::bits;
use super::convert::{convert, to_integer};
use super::eighths;
use super::elements::{by_halves, compare, min};
use super::foreign;
use super::nan;
use super::round::{add_to_odd, from_f64, round_mode, to_f64};
use crate::address::{PEER, StateSpace};
use crate::mbarrier::PENDING;
use crate::op::{Arith, ScalarFn};

/// Evaluates one lane.
pub(super) fn evaluate(f: ScalarFn, [a, b, c, e]: [u64; 4]) -> u64 {
    match f {
        ScalarFn::Int { op, ty } => by_halves(ty, [a, b, c], |ty, [a, b, c]| integer(op, ty, a, b, c)),
        ScalarFn::Half { op, ty } => by_halves(ty, [a, b, c], |ty, [a, b, c]| half_arith(op, ty, a, b, c)),
        ScalarFn::Directed { op, ty, rounding } => directed(op, ty, rounding, [a, b, c]),
        ScalarFn::Singles { op, rounding, ftz } => {
            let half = |shift: u32| singles(op, rounding, ftz, [a, b, c].map(|bits| bits >> shift & 0xffff_ffff));
            half(32) << 32 | half(0)
        }
        ScalarFn::Approx { function, ty } => by_halves(ty, [a, 0, 0], |ty, [a, ..]| {
            from_f64(ty, approximate(function, to_f64(ty, a)), Round::NearestTiesToEven)
        }),
        ScalarFn::ApproxUpper { function } => approximate_upper(function, a),
        ScalarFn::Convert { to, from, rounding, saturate } => convert(to, from, rounding, saturate, a),
        ScalarFn::ConvertPair { to, rounding } => {
            let half = if to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
            let part = |bits: u64| convert(half, Type::F32, rounding, false, bits) & 0xffff;
            part(a) << 16 | part(b)
        }
        ScalarFn::ToEighths { to, from: Type::F16x2 } => eighths::pair(to, Type::F16, [a >> 16 & 0xffff, a & 0xffff]),
        ScalarFn::ToEighths { to, from } => eighths::pair(to, from, [a, b]),
        ScalarFn::FromEighths { from } => eighths::halves(from, a),
        ScalarFn::Bits { op, ty } => bits::evaluate(op, ty, [a, b, c, e]),
        ScalarFn::IsSpace { space } => {
            let (found, address) = StateSpace::of_generic(a);
            let own = address / u64::from(PEER) == b;
            u64::from(found == space || space == StateSpace::Shared && found == StateSpace::Cluster && own)
        }
        ScalarFn::Compare { cmp, ty } => u64::from(compare(cmp, ty, a, b)),
        ScalarFn::Saturating { op } => {
            let (x, y) = (to_integer(Type::S32, a), to_integer(Type::S32, b));
            let result = if op == Arith::Sub { x - y } else { x + y };
            result.clamp(i32::MIN.into(), i32::MAX.into()) as u64 & 0xffff_ffff
        }
        ScalarFn::CopySign { ty } => {
            let sign = 1 << (ty.bits() - 1);
            a & sign | b & (sign - 1)
        }
        ScalarFn::Distance { ty } => {
            let distance = (to_integer(ty, a) - to_integer(ty, b)).unsigned_abs() as u64;
            (u64::MAX >> (64 - ty.bits())) & distance.wrapping_add(c)
        }
        ScalarFn::Dot { a: signed_a, b: signed_b } => {
            let byte = |bits: u64, index: u32, signed: bool| {
                let byte = (bits >> (8 * index)) as u8;
                if signed { i64::from(byte as i8) } else { i64::from(byte) }
            };
            let product = |index| byte(a, index, signed_a) * byte(b, index, signed_b);
            (0..4).map(product).fold(c as i64, i64::wrapping_add) as u64 & 0xffff_ffff
        }
        ScalarFn::TestFloat { .. }
        | ScalarFn::IsZero
        | ScalarFn::Dot2 { .. }
        | ScalarFn::MadHiSaturating
        | ScalarFn::OfThree { .. }
        | ScalarFn::XorSign { .. }
        | ScalarFn::Video { .. }
        | ScalarFn::VideoSet { .. }
        | ScalarFn::ConvertFinite { .. } => foreign::evaluate(f, [a, b, c]),
        ScalarFn::Pack16 => a & 0xffff | (b & 0xffff) << 16,
        ScalarFn::Pack4 => [a, b, c, e].into_iter().rev().fold(0, |all, part| all << 16 | part & 0xffff),
        ScalarFn::Set { cmp, swapped, to, from } => {
            let (a, b) = if swapped { (b, a) } else { (a, b) };
            let holds = match to {
                Type::F32 => 0x3f80_0000,
                Type::F16 | Type::F16x2 => 0x3c00,
                Type::Bf16 | Type::Bf16x2 => 0x3f80,
                Type::U16 | Type::S16 => 0xffff,
                _ => u64::from(u32::MAX),
            };
            by_halves(from, [a, b, 0], |from, [a, b, _]| if compare(cmp, from, a, b) { holds } else { 0 })
        }
        ScalarFn::SelectBySign { by: Type::F32, ftz } => {
            let c = f32::from_bits(c as u32);
            if c >= 0.0 || ftz && c.is_subnormal() { a } else { b }
        }
        ScalarFn::SelectBySign { .. } => {
            if (c as u32 as i32) >= 0 {
                a
            } else {
                b
            }
        }
        ScalarFn::NthSet => nth_set(a as u32, b as u32, c as u32 as i32).into(),
        ScalarFn::Product24 { high, ty } => {
            let narrow = |bits: u64| match ty.is_signed() {
                true => i64::from((bits as u32 as i32) << 8 >> 8),
                false => (bits & 0xff_ffff) as i64,
            };
            let product = narrow(a).wrapping_mul(narrow(b));
            let part = if high { product >> 16 } else { product };
            u64::from((part as u32).wrapping_add(c as u32))
        }
        ScalarFn::PackSaturated { to } => {
            let bits = to.bits();
            let (low, high) = match to.is_signed() {
                true => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
                false => (0, (1i64 << bits) - 1),
            };
            let part = |value: u64| i64::from(value as u32 as i32).clamp(low, high) as u64 & ((1 << bits) - 1);
            let above = if bits == 8 { (c & 0xffff) << 16 } else { 0 };
            part(b) | part(a) << bits | above
        }
        ScalarFn::PendingCount => a >> PENDING,
    }
}

/// The position of the n-th set bit, counted from `base` upwards, or downwards if n is negative (PTX ISA, `fns`).
fn nth_set(mask: u32, base: u32, n: i32) -> u32 {
    let is_set = |at: &u32| mask >> at & 1 != 0;
    let nth = n.unsigned_abs().saturating_sub(1) as usize;
    let found = match n {
        _ if base > 31 => None,
        0 => Some(base).filter(is_set),
        1.. => (base..32).filter(is_set).nth(nth),
        _ => (0..=base).rev().filter(is_set).nth(nth),
    };
    found.unwrap_or(u32::MAX)
}

fn integer(op: Arith, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let (x, y) = (to_integer(ty, a), to_integer(ty, b));
    let bits = ty.bits();
    // Products of 64-bit values fit: at most 127 bits and a sign, or 128 bits unsigned.
    let product = || if ty.is_signed() { x * y } else { (x as u128).wrapping_mul(y as u128) as i128 };
    let high = || if ty.is_signed() { product() >> bits } else { (product() as u128 >> bits) as i128 };
    let result = match op {
        Arith::Add => x + y,
        Arith::Sub => x - y,
        Arith::Mul | Arith::MulWide => product(),
        Arith::MulHi => high(),
        Arith::Mad => product().wrapping_add(to_integer(ty, c)),
        Arith::MadHi => high() + to_integer(ty, c),
        Arith::MadWide => product() + i128::from(c),
        // Measured on an H200; see the operations on rows.
        Arith::Div | Arith::Rem if y == 0 => -1,
        Arith::Div => x / y,
        Arith::Rem => x % y,
        Arith::Min | Arith::MinNan => x.min(y),
        Arith::Max | Arith::MaxNan => x.max(y),
        Arith::Neg => -x,
        Arith::Abs => x.abs(),
        Arith::Not => !x,
        Arith::And => x & y,
        Arith::Or => x | y,
        Arith::Xor => x ^ y,
        Arith::Shl => x << (b as u32).min(bits),
        Arith::Shr => x >> (b as u32).min(bits),
        Arith::Fma | Arith::Rcp | Arith::Sqrt => 0,
    };
    let wide = matches!(op, Arith::MulWide | Arith::MadWide);
    let result = result as u64;
    if wide || bits == 64 { result } else { result & ((1 << bits) - 1) }
}

/// f16 and bf16: computed in f64, where products are exact, and rounded once.
fn half_arith(op: Arith, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let sign = 0x8000;
    let (x, y, z) = (to_f64(ty, a), to_f64(ty, b), to_f64(ty, c));
    let value = match op {
        // NaNs become canonical, as in a single-precision negation: ptxas turns these into arithmetic too.
        Arith::Neg if !x.is_nan() => return a ^ sign,
        Arith::Abs if !x.is_nan() => return a & !sign,
        Arith::Add => add_to_odd(x, y),
        Arith::Sub => add_to_odd(x, -y),
        Arith::Mul => x * y,
        Arith::Fma => add_to_odd(x * y, z),
        Arith::Div => x / y,
        Arith::Min => min(x, y, false),
        Arith::Max => -min(-x, -y, false),
        Arith::MinNan => min(x, y, true),
        Arith::MaxNan => -min(-x, -y, true),
        _ => f64::NAN,
    };
    from_f64(ty, value, Round::NearestTiesToEven)
}

/// a b + c in f64.
pub(super) fn multiply_add(rounding: Rounding, a: u64, b: u64, c: u64) -> u64 {
    match rounding {
        Rounding::None | Rounding::Rn => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
        _ => directed(Arith::Fma, Type::F64, rounding, [a, b, c]),
    }
}

fn directed(op: Arith, ty: Type, rounding: Rounding, values: [u64; 3]) -> u64 {
    if op == Arith::Sqrt {
        return square_root(ty, round_mode(rounding), values[0]);
    }
    if ty == Type::F64 {
        directed_in::<Double>(op, round_mode(rounding), values)
    } else {
        directed_in::<Single>(op, round_mode(rounding), values)
    }
}

fn directed_in<F: Float>(op: Arith, round: Round, values: [u64; 3]) -> u64 {
    let [a, b, c] = values.map(|bits| F::from_bits(u128::from(bits)));
    let StatusAnd { value, .. } = match op {
        Arith::Add => a.add_r(b, round),
        Arith::Sub => a.sub_r(b, round),
        Arith::Mul => a.mul_r(b, round),
        Arith::Div => a.div_r(b, round),
        Arith::Rcp => F::from_u128(1).value.div_r(a, round),
        _ => a.mul_add_r(b, c, round),
    };
    match value.is_nan() {
        true if F::BITS == 32 => nan::canonical(Type::F32),
        true => nan::of_double(op, values),
        false => value.to_bits() as u64,
    }
}

/// The square root of an f32 in f64 is exact, or not close enough to an f32 for the second rounding to matter; that of
/// an f64 is corrected by the sign of the remainder.
fn square_root(ty: Type, round: Round, bits: u64) -> u64 {
    if ty != Type::F64 {
        return from_f64(ty, to_f64(ty, bits).sqrt(), round);
    }
    let value = f64::from_bits(bits);
    if value.is_nan() || value < 0.0 {
        return nan::of_double(Arith::Sqrt, [bits, 0, 0]);
    }
    // The remainder of a tiny value would underflow. Scaling by a power of four only changes the root's exponent.
    let (scale, back) = if value < 2f64.powi(-800) { (2f64.powi(200), 2f64.powi(-100)) } else { (1.0, 1.0) };
    let x = value * scale;
    let root = x.sqrt();
    let rest = (-root).mul_add(root, x);
    let corrected = match round {
        Round::TowardZero | Round::TowardNegative if rest < 0.0 => root.next_down(),
        Round::TowardPositive if rest > 0.0 => root.next_up(),
        _ => root,
    };
    (corrected * back).to_bits()
}

/// An approximation with 20 bits of mantissa (PTX ISA, `rcp.approx.ftz.f64`), which code for divisions and logarithms
/// refines. Measured on an H200: the result is truncated, not rounded. In 94 of 100 cases it is exactly the truncated
/// value, otherwise the next number.
fn approximate_upper(function: Approx, bits: u64) -> u64 {
    const LOWER: u64 = u32::MAX as u64;
    let flushed = |bits: u64| if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits & !LOWER };
    let value = approximate(function, f64::from_bits(flushed(bits)));
    if value.is_nan() { nan::canonical(Type::F32) << 32 } else { flushed(value.to_bits()) }
}

fn approximate(function: Approx, x: f64) -> f64 {
    match function {
        Approx::Ex2 => x.exp2(),
        Approx::Lg2 => x.log2(),
        Approx::Tanh => x.tanh(),
        Approx::Rcp => 1.0 / x,
        Approx::Sqrt => x.sqrt(),
        Approx::Rsqrt => 1.0 / x.sqrt(),
        Approx::Sin => x.sin(),
        Approx::Cos => x.cos(),
    }
}

/// One of two sums or products. With `.ftz`, what is subnormal before it is rounded becomes zero.
fn singles(op: Arith, rounding: Rounding, ftz: bool, sources: [u64; 3]) -> u64 {
    let flushed = |bits: u64| if ftz { super::extended::flush(Type::F32, bits as u32).into() } else { bits };
    let sources = sources.map(flushed);
    let rounding = if rounding == Rounding::None { Rounding::Rn } else { rounding };
    let result = directed(op, Type::F32, rounding, sources);
    let subnormal = |bits: u64| f32::from_bits(bits as u32).is_subnormal();
    let tiny = ftz && (subnormal(result) || subnormal(directed(op, Type::F32, Rounding::Rz, sources)));
    if tiny { result & 0x8000_0000 } else { result }
}
