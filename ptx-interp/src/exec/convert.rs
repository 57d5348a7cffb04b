//! Conversions, one lane at a time.

use ptx_gemm_ptx::instruction::Rounding;
use ptx_gemm_ptx::types::Type;
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, Round};

use super::nan;
use super::round::{from_f64, round_mode, to_f64};

/// The integer represented by a type's bits.
pub(super) fn to_integer(ty: Type, bits: u64) -> i128 {
    let unused = 64 - ty.bits().min(64);
    if ty.is_signed() { i128::from((bits << unused) as i64 >> unused) } else { i128::from(bits << unused >> unused) }
}

/// Evaluates `cvt` for one lane.
pub(super) fn convert(to: Type, from: Type, rounding: Rounding, saturate: bool, bits: u64) -> u64 {
    match (from.is_float(), to.is_float()) {
        (false, false) => {
            let value = to_integer(from, bits);
            let (low, high) = range(to);
            let value = if saturate { value.clamp(low, high) } else { value };
            to_integer(to, value as u64) as u64
        }
        (false, true) => integer_to_float(to, rounding, to_integer(from, bits)),
        (true, false) => float_to_integer(to, from, rounding, to_f64(from, bits)),
        (true, true) => float_to_float(to, from, rounding, saturate, bits),
    }
}

/// Smallest and largest value of an integer type.
fn range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn integer_to_float(to: Type, rounding: Rounding, value: i128) -> u64 {
    let round = round_mode(rounding);
    let bits = match to {
        Type::F16 => Half::from_i128_r(value, round).value.to_bits(),
        Type::Bf16 => BFloat::from_i128_r(value, round).value.to_bits(),
        Type::F64 => Double::from_i128_r(value, round).value.to_bits(),
        _ => Single::from_i128_r(value, round).value.to_bits(),
    };
    bits as u64
}

/// Rounds to an integer and clamps. Measured on an H200: NaN becomes 0, or only the top bit if 64 bits are involved;
/// the result is sign-extended like every other one.
fn float_to_integer(to: Type, from: Type, rounding: Rounding, value: f64) -> u64 {
    let (low, high) = range(to);
    if value.is_nan() {
        let wide = from == Type::F64 || to.bits() == 64;
        return match wide {
            true if to.is_signed() => low as u64,
            true => 1 << (to.bits() - 1),
            false => 0,
        };
    }
    (round_to_integral(rounding, value) as i128).clamp(low, high) as u64
}

fn round_to_integral(rounding: Rounding, value: f64) -> f64 {
    match round_mode(rounding) {
        Round::TowardZero => value.trunc(),
        Round::TowardNegative => value.floor(),
        Round::TowardPositive => value.ceil(),
        Round::NearestTiesToAway => value.round(),
        Round::NearestTiesToEven => value.round_ties_even(),
    }
}

fn float_to_float(to: Type, from: Type, rounding: Rounding, saturate: bool, bits: u64) -> u64 {
    let mut value = to_f64(from, bits);
    let integral = matches!(rounding, Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi);
    if integral {
        value = round_to_integral(rounding, value);
    }
    if saturate {
        // Negative zero is not above zero either.
        value = if value > 0.0 { value.min(1.0) } else { 0.0 };
    }
    match (to, from) {
        (Type::Tf32, _) => u64::from(round_to_tf32(bits as u32, rounding)),
        _ if !value.is_nan() => from_f64(to, value, round_mode(rounding)),
        (Type::F64, Type::F64) if !integral => bits,
        // Measured on an H200: a conversion to double precision keeps sign and payload, and a conversion from it does
        // not give the canonical NaN. That the latter keeps the upper part of the payload is inferred from the former.
        (Type::F64, _) | (_, Type::F64) => nan::converted(to, from, bits),
        // Measured on an H200: the bits are shifted.
        (Type::F32, Type::Bf16) => bits << 16,
        _ => nan::canonical(to),
    }
}

/// Rounds to ten bits of mantissa: to nearest with ties away (`rna`), to nearest even (`rn`), or towards zero (`rz`).
fn round_to_tf32(bits: u32, rounding: Rounding) -> u32 {
    let finite = f32::from_bits(bits).is_finite();
    let half = match rounding {
        // Measured on an H200: a NaN's bits are truncated, which turns some into an infinity.
        Rounding::Rna if !finite => 0,
        Rounding::Rna => 0x1000,
        // The other modes have their own instruction, and their own NaN. Measured on an H200: it is neither the
        // canonical one nor that of an operand. Its value follows from the 13 zeros at the end of the instruction's
        // results.
        _ if f32::from_bits(bits).is_nan() => return 0x7fff_e000,
        Rounding::Rn if finite => 0x0fff + (bits >> 13 & 1),
        _ => 0,
    };
    (bits + half) & !0x1fff
}
