//! Rounds values once. The values are held in f64, either exactly or rounded to odd; rounding to odd has no effect on a
//! second rounding to at most half as many bits.

use half::{bf16, f16};
use ptx_gemm_ptx::instruction::Rounding;
use ptx_gemm_ptx::types::Type;
use rustc_apfloat::Round;

use super::nan;

/// Number of fraction bits of a float narrower than f64, and its exponent bias.
fn layout(ty: Type) -> (u32, i32) {
    match ty {
        Type::F16 => (10, 15),
        Type::Bf16 => (7, 127),
        _ => (23, 127),
    }
}

pub(super) fn round_mode(rounding: Rounding) -> Round {
    match rounding {
        Rounding::Rz | Rounding::Rzi => Round::TowardZero,
        Rounding::Rm | Rounding::Rmi => Round::TowardNegative,
        Rounding::Rp | Rounding::Rpi => Round::TowardPositive,
        Rounding::Rna => Round::NearestTiesToAway,
        Rounding::None | Rounding::Rn | Rounding::Rni => Round::NearestTiesToEven,
    }
}

/// The value of a float, which f64 represents exactly.
pub(super) fn to_f64(ty: Type, bits: u64) -> f64 {
    match ty {
        Type::F16 => f16::from_bits(bits as u16).to_f64(),
        Type::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Type::F64 => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

/// Rounds to a float; every NaN becomes PTX's canonical one, except in f64.
///
/// The conversions of the `half` crate cannot be used: they round through f32, or ignore the lowest 32 bits.
pub(super) fn from_f64(ty: Type, value: f64, round: Round) -> u64 {
    const HIDDEN: u64 = 1 << 52;
    if ty == Type::F64 {
        return value.to_bits();
    }
    if value.is_nan() {
        return nan::canonical(ty);
    }
    let (fraction, bias) = layout(ty);
    let negative = value.is_sign_negative();
    let sign = u64::from(negative) << (ty.bits() - 1);
    let infinity = (2 * bias as u64 + 1) << fraction;
    if value.is_infinite() {
        return sign | infinity;
    }
    let magnitude = value.abs().to_bits();
    let field = (magnitude >> 52).max(1) as i32;
    let significand = (magnitude % HIDDEN) | if magnitude < HIDDEN { 0 } else { HIDDEN };
    let exponent = field - 1023;
    let least = 1 - bias;
    // The bits below the last bit of the result: all bits, for the smallest values.
    let dropped = (52 - fraction + (least - exponent).max(0) as u32).min(63);
    let rest = significand & ((1 << dropped) - 1);
    let tie = 1 << (dropped - 1);
    let kept = significand >> dropped;
    let up = match round {
        Round::NearestTiesToEven => rest > tie || (rest == tie && kept & 1 == 1),
        Round::NearestTiesToAway => rest >= tie,
        Round::TowardZero => false,
        Round::TowardPositive => rest > 0 && !negative,
        Round::TowardNegative => rest > 0 && negative,
    };
    // The exponent field is one too small, and the significand's hidden bit makes up for it; a carry out of the
    // significand carries into the exponent.
    let bits = (((exponent.max(least) + bias - 1) as u64) << fraction) + kept + u64::from(up);
    if bits < infinity {
        return sign | bits;
    }
    let to_infinity = match round {
        Round::TowardZero => false,
        Round::TowardPositive => !negative,
        Round::TowardNegative => negative,
        _ => true,
    };
    sign | if to_infinity { infinity } else { infinity - 1 }
}

/// Whether a value is below a type's smallest normal number after rounding to the type's precision with unbounded
/// exponent.
///
/// This is the condition under which `.ftz` flushes. Measured on an H200: (1 - 2^-24) * 2^-126, which has 24 bits,
/// becomes 0 and not 2^-126. A value that rounds to 2^-126 with 24 bits is kept, as in the sequences that ptxas emits
/// for divisions and for conversions from f64; that products do the same is inferred.
pub(super) fn is_tiny(ty: Type, value: f64, round: Round) -> bool {
    let (fraction, bias) = layout(ty);
    let least = f64::from_bits((1024 - bias as u64) << 52);
    // The spacing of numbers of this precision just below the smallest normal one.
    let step = f64::from_bits((1024 - bias as u64 - u64::from(fraction) - 1) << 52);
    let magnitude = value.abs();
    match round {
        Round::NearestTiesToEven | Round::NearestTiesToAway => magnitude < least - step / 2.0,
        Round::TowardPositive if value > 0.0 => magnitude <= least - step,
        Round::TowardNegative if value < 0.0 => magnitude <= least - step,
        _ => magnitude < least,
    }
}

/// A quotient rounded to odd.
pub(super) fn divide_to_odd(x: f64, y: f64) -> f64 {
    let quotient = x / y;
    to_odd(quotient, (-quotient).mul_add(y, x) * y.signum())
}

/// A sum rounded to odd.
pub(super) fn add_to_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    if !sum.is_finite() {
        return sum;
    }
    let virtual_y = sum - x;
    let error = (x - (sum - virtual_y)) + (y - virtual_y);
    to_odd(sum, error)
}

/// The value that is `error` away from the nearest double, rounded to odd.
fn to_odd(near: f64, error: f64) -> f64 {
    if error == 0.0 || near.to_bits() & 1 == 1 {
        return near;
    }
    let towards_larger = (error > 0.0) == (near > 0.0);
    f64::from_bits(if towards_larger { near.to_bits() + 1 } else { near.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
    use rustc_apfloat::{Float, FloatConvert};

    use super::{Round, Type, from_f64};

    /// The result of another implementation.
    fn reference(ty: Type, value: f64, round: Round) -> u64 {
        let (exact, mut inexact) = (Double::from_bits(u128::from(value.to_bits())), false);
        let bits = match ty {
            Type::F16 => FloatConvert::<Half>::convert_r(exact, round, &mut inexact).value.to_bits(),
            Type::Bf16 => FloatConvert::<BFloat>::convert_r(exact, round, &mut inexact).value.to_bits(),
            _ => FloatConvert::<Single>::convert_r(exact, round, &mut inexact).value.to_bits(),
        };
        bits as u64
    }

    #[test]
    fn every_mode_rounds_once() {
        let mut values = vec![0.0, f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX, f64::INFINITY];
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state >> 11
        };
        for exponent in -160..140 {
            for _ in 0..8 {
                let fraction = random() % (1 << 52);
                // Near ties of each type, which the very last bit breaks.
                for kept in [4, 7, 8, 10, 11, 23, 24, 52] {
                    let ties = fraction >> (52 - kept) << (52 - kept);
                    values.extend(
                        [ties, ties | 1, ties.wrapping_sub(1) % (1 << 52)]
                            .map(|fraction| f64::from_bits((1023 + exponent) as u64 * (1 << 52) + fraction)),
                    );
                }
            }
        }
        for round in [
            Round::NearestTiesToEven,
            Round::NearestTiesToAway,
            Round::TowardZero,
            Round::TowardPositive,
            Round::TowardNegative,
        ] {
            for ty in [Type::F16, Type::Bf16, Type::F32] {
                for value in values.iter().flat_map(|value| [*value, -value]) {
                    let (got, want) = (from_f64(ty, value, round), reference(ty, value, round));
                    assert_eq!(got, want, "{value:e} to {ty:?}, {round:?}: got {got:#x}, expected {want:#x}");
                }
            }
        }
    }
}
