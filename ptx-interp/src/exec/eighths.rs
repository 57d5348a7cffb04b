//! Conversions to and from pairs of 8-bit floats, e4m3 and e5m2 (PTX ISA, "Alternate Floating-Point Data Formats").

use ptx_gemm_ptx::types::Type;
use rustc_apfloat::Round;

use super::nan;
use super::round::{from_f64, to_f64};

/// The number of codes without a sign that are finite.
fn finite(ty: Type) -> u8 {
    if ty == Type::E4m3x2 { 0x7f } else { 0x7c }
}

/// The value of a code without its sign.
fn magnitude(ty: Type, code: u8) -> f64 {
    let (bits, bias) = if ty == Type::E4m3x2 { (3, 7) } else { (2, 15) };
    let (exponent, fraction) = (i32::from(code >> bits), f64::from(code & ((1 << bits) - 1)));
    let unit = 2f64.powi(-bits);
    match exponent {
        0 => fraction * unit * 2f64.powi(1 - bias),
        _ => (1.0 + fraction * unit) * 2f64.powi(exponent - bias),
    }
}

/// A value as an 8-bit float, rounded to nearest even; what is larger than the largest number becomes that.
fn narrowed(ty: Type, value: f64) -> u64 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let largest = finite(ty) - 1;
    let distance = |code: u8| (magnitude(ty, code) - value.abs()).abs();
    let nearest = if value.abs() >= magnitude(ty, largest) {
        largest
    } else {
        // The codes are in the order of their values. Of two that are as near, the even one wins.
        let above = (0..=largest).find(|code| magnitude(ty, *code) >= value.abs()).unwrap_or(largest);
        let below = above.saturating_sub(1);
        match distance(below).total_cmp(&distance(above)) {
            std::cmp::Ordering::Less => below,
            std::cmp::Ordering::Equal if below & 1 == 0 => below,
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => above,
        }
    };
    u64::from(sign | nearest)
}

/// Two floats, the upper one first, as a pair of this type.
pub(super) fn pair(ty: Type, from: Type, [upper, lower]: [u64; 2]) -> u64 {
    narrowed(ty, to_f64(from, upper)) << 8 | narrowed(ty, to_f64(from, lower))
}

/// A pair of this type as two f16.
pub(super) fn halves(ty: Type, bits: u64) -> u64 {
    let half = |code: u8| {
        let (sign, code) = (if code & 0x80 != 0 { -1.0 } else { 1.0 }, code & 0x7f);
        let value = match code.cmp(&finite(ty)) {
            std::cmp::Ordering::Less => magnitude(ty, code),
            std::cmp::Ordering::Equal if ty == Type::E5m2x2 => f64::INFINITY,
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => return nan::canonical(Type::F16),
        };
        from_f64(Type::F16, sign * value, Round::NearestTiesToEven)
    };
    half((bits >> 8) as u8) << 16 | half(bits as u8)
}
