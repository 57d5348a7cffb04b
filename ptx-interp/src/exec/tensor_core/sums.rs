//! The arithmetic of the tensor cores: sums of products in fixed point.
//!
//! A tensor core adds up to 16 products of 16-bit factors and one element of C at once. Each product is exact. All
//! terms are aligned to the largest exponent among them, truncated a fixed number of bits below it, and added exactly.
//! The sum is then rounded once: towards zero to f32, or to nearest even to f16. The exponent of a product is the sum
//! of its factors' exponents, so a significand may be up to 4; subnormal factors have the lowest exponent of their
//! type.
//!
//! Sources: P. Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (arXiv:2511.10909),
//! and F. A. Khattak and M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv:2512.07004). Both compared such
//! models with the hardware, bit by bit. The latter published results of an H200 with their models: [`multiply`] gives
//! the same bits for all of 5,000 results each for bf16, for f16, and for f16 with f16 accumulators. The constants are
//! those of sm_90, for `mma.sync` and `wgmma` alike: 16 terms and 25 bits, two more than f32 has. (sm_80 to sm_89 add 8
//! terms at a time, and keep 24 bits.)

use half::{bf16, f16};
use ptx_gemm_ptx::types::Type;
use rustc_apfloat::Round;

use crate::exec::round;
use crate::op::{Factor, Sum};

/// Bits kept below the largest exponent.
const FRACTION: i32 = 25;
/// The exponent of a zero: below every other one, even the exponent of a product.
pub(super) const ZERO: i32 = -1 << 14;
/// The lowest exponent to which terms are aligned.
pub(super) const LEAST: i32 = -126;
/// NaN results have these bits.
pub(super) const NAN32: f32 = f32::from_bits(0x7fff_ffff);

/// Rows of A and of D, columns of B and of D in one [`multiply`], and the largest k.
pub(super) const ROWS: usize = 16;
pub(super) const COLUMNS: usize = 8;
pub(super) const DEPTH: usize = 16;

/// 16 rows of A: the magnitudes of their significands as integers, shifted so that a product has [`FRACTION`] bits after
/// the point; their signs, as 0 or -1; and their exponents.
#[derive(Clone, Debug)]
pub(super) struct Left {
    magnitudes: [[u32; DEPTH]; ROWS],
    signs: [[u32; DEPTH]; ROWS],
    exponents: [[i32; DEPTH]; ROWS],
    /// The elements' own bits.
    bits: [[u16; DEPTH]; ROWS],
    /// Rows with an infinity or a NaN.
    special: u32,
}

/// 8 columns of B, in the same form, but not shifted.
#[derive(Clone, Debug)]
pub(super) struct Right {
    magnitudes: [[u32; COLUMNS]; DEPTH],
    signs: [[u32; COLUMNS]; DEPTH],
    exponents: [[i32; COLUMNS]; DEPTH],
    bits: [[u16; COLUMNS]; DEPTH],
    /// Columns with an infinity or a NaN.
    special: u32,
}

/// A factor's magnitude, sign and exponent.
#[derive(Clone, Copy)]
struct Parts {
    magnitude: u32,
    sign: u32,
    exponent: i32,
    special: bool,
}

/// Bits after the point of a significand.
const fn fraction(factor: Factor) -> u32 {
    match factor {
        Factor::F16 => 10,
        Factor::Bf16 => 7,
    }
}

#[inline(always)]
fn split(factor: Factor, bits: u16) -> Parts {
    let fraction = fraction(factor);
    let largest = (1u32 << (15 - fraction)) - 1;
    let bits = u32::from(bits);
    let (field, low) = (bits >> fraction & largest, bits & ((1 << fraction) - 1));
    let special = field == largest;
    let magnitude = low | u32::from(field != 0) << fraction;
    let nothing = special || magnitude == 0;
    Parts {
        magnitude: if nothing { 0 } else { magnitude },
        sign: (bits >> 15).wrapping_neg(),
        exponent: if nothing { ZERO } else { field.max(1) as i32 - (largest / 2) as i32 },
        special,
    }
}

impl Left {
    #[inline(always)]
    pub(super) fn new(factor: Factor, bits: &[[u16; DEPTH]; ROWS]) -> Left {
        let none = [[0; DEPTH]; ROWS];
        let mut left = Left { magnitudes: none, signs: none, exponents: [[0; DEPTH]; ROWS], bits: *bits, special: 0 };
        let shift = FRACTION as u32 - 2 * fraction(factor);
        for (row, bits) in bits.iter().enumerate() {
            let mut any = false;
            for (k, bits) in bits.iter().enumerate() {
                let parts = split(factor, *bits);
                left.magnitudes[row][k] = parts.magnitude << shift;
                (left.signs[row][k], left.exponents[row][k]) = (parts.sign, parts.exponent);
                any |= parts.special;
            }
            left.special |= u32::from(any) << row;
        }
        left
    }
}

impl Right {
    #[inline(always)]
    pub(super) fn new(factor: Factor, bits: &[[u16; COLUMNS]; DEPTH]) -> Right {
        let none = [[0; COLUMNS]; DEPTH];
        let mut right =
            Right { magnitudes: none, signs: none, exponents: [[0; COLUMNS]; DEPTH], bits: *bits, special: 0 };
        let mut any = [false; COLUMNS];
        for (k, bits) in bits.iter().enumerate() {
            for (column, bits) in bits.iter().enumerate() {
                let parts = split(factor, *bits);
                (right.magnitudes[k][column], right.signs[k][column]) = (parts.magnitude, parts.sign);
                right.exponents[k][column] = parts.exponent;
                any[column] |= parts.special;
            }
        }
        for (column, any) in any.into_iter().enumerate() {
            right.special |= u32::from(any) << column;
        }
        right
    }
}

/// The power of two with this exponent, from -1022 to 1023.
#[inline(always)]
pub(super) fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// D = A B + C, in place, for k = `depth`. Elements are in f32, which also holds those of f16.
#[inline(always)]
pub(super) fn multiply(
    (factor, sum): (Factor, Sum),
    depth: usize,
    left: &Left,
    right: &Right,
    c: &mut [[f32; COLUMNS]; ROWS],
) {
    let lowest = match sum {
        Sum::F32 | Sum::S32 => -126,
        Sum::F16 => -14,
    };
    for (row, c) in c.iter_mut().enumerate() {
        let before = *c;
        let mut special = if left.special >> row & 1 != 0 { u32::MAX } else { right.special };
        let mut top = [LEAST; COLUMNS];
        for column in 0..COLUMNS {
            let bits = before[column].to_bits();
            let field = (bits >> 23 & 0xff) as i32;
            special |= u32::from(field == 0xff) << column;
            let exponent = (field - 127).max(lowest);
            top[column] = if bits << 1 == 0 { LEAST } else { exponent.max(LEAST) };
        }
        for k in 0..depth {
            let exponent = left.exponents[row][k];
            for (top, other) in top.iter_mut().zip(&right.exponents[k]) {
                *top = (*top).max(exponent + other);
            }
        }
        // Sixteen terms below 4 x 2^25 fit 32 bits. Magnitudes are truncated, so that terms are rounded towards zero.
        let mut sums = [0i32; COLUMNS];
        for k in 0..depth {
            let (magnitude, sign, exponent) = (left.magnitudes[row][k], left.signs[row][k], left.exponents[row][k]);
            for column in 0..COLUMNS {
                let distance = (top[column] - exponent - right.exponents[k][column]).min(31) as u32;
                let term = (magnitude * right.magnitudes[k][column]).wrapping_shr(distance);
                let sign = sign ^ right.signs[k][column];
                sums[column] += (term ^ sign).wrapping_sub(sign) as i32;
            }
        }
        let mut totals = [0.0; COLUMNS];
        for column in 0..COLUMNS {
            let of_c = (f64::from(before[column]) * power(FRACTION - top[column])).trunc();
            totals[column] = (f64::from(sums[column]) + of_c) * power(top[column] - FRACTION);
        }
        *c = match sum {
            Sum::F32 | Sum::S32 => totals.map(towards_zero),
            Sum::F16 => totals.map(nearest_half),
        };
        if special != 0 {
            for column in (0..COLUMNS).filter(|column| special >> column & 1 != 0) {
                let unbounded = unbounded(factor, depth, &left.bits[row], right, column, before[column]);
                c[column] = unbounded.unwrap_or(c[column]);
            }
        }
    }
}

/// Rounds towards zero to f32, except that values beyond its range become infinite.
#[inline(always)]
pub(super) fn towards_zero(value: f64) -> f32 {
    let nearest = value as f32;
    let beyond = f64::from(nearest).abs() > value.abs() && value.abs() < power(128);
    f32::from_bits(nearest.to_bits() - u32::from(beyond))
}

/// Rounds to the nearest f16.
pub(super) fn nearest_half(value: f64) -> f32 {
    f16::from_bits(round::from_f64(Type::F16, value, Round::NearestTiesToEven) as u16).to_f32()
}

/// The sum if a term is an infinity or a NaN, as IEEE 754 specifies.
#[cold]
fn unbounded(factor: Factor, depth: usize, left: &[u16; DEPTH], right: &Right, column: usize, c: f32) -> Option<f32> {
    let value = |bits: u16| match factor {
        Factor::F16 => f16::from_bits(bits).to_f64(),
        Factor::Bf16 => bf16::from_bits(bits).to_f64(),
    };
    let products = (0..depth).map(|k| value(left[k]) * value(right.bits[k][column]));
    let sum = products.fold(f64::from(c), |sum, product| sum + product);
    match sum {
        sum if sum.is_nan() => Some(NAN32),
        sum if sum.is_infinite() => Some(sum as f32),
        _ => None,
    }
}

/// The bits of an element in f16; every NaN is the same.
pub(super) fn narrow(value: f32) -> u16 {
    if value.is_nan() { 0x7fff } else { f16::from_f32(value).to_bits() }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::{COLUMNS, DEPTH, Left, ROWS, Right, multiply};
    use crate::op::{Factor, Sum};

    fn bits(factor: Factor, value: f64) -> u16 {
        match factor {
            Factor::F16 => f16::from_f64(value).to_bits(),
            Factor::Bf16 => bf16::from_f64(value).to_bits(),
        }
    }

    /// The sum of products and c.
    fn dot(types: (Factor, Sum), a: &[f64], b: &[f64], c: f32) -> f32 {
        let (mut left, mut right) = ([[0; DEPTH]; ROWS], [[0; COLUMNS]; DEPTH]);
        for (k, (a, b)) in a.iter().zip(b).enumerate() {
            (left[3][k], right[k][5]) = (bits(types.0, *a), bits(types.0, *b));
        }
        let mut sums = [[0.0; COLUMNS]; ROWS];
        sums[3][5] = c;
        multiply(types, DEPTH, &Left::new(types.0, &left), &Right::new(types.0, &right), &mut sums);
        assert_eq!(sums.iter().filter(|row| **row != [0.0; COLUMNS]).count(), usize::from(sums[3] != [0.0; COLUMNS]));
        sums[3][5]
    }

    const BF16: (Factor, Sum) = (Factor::Bf16, Sum::F32);
    const F16: (Factor, Sum) = (Factor::F16, Sum::F32);
    const HALF: (Factor, Sum) = (Factor::F16, Sum::F16);

    #[test]
    fn terms_are_cut_off_two_bits_below_the_last_of_the_largest() {
        let tiny = |bits: i32| 2f64.powi(-bits);
        // Four terms of 2^-25 make up the last bit of 1. Terms of 2^-26 are lost, however many there are.
        assert_eq!(dot(BF16, &[tiny(25); 4], &[1.0; 4], 1.0), 1.0 + f32::EPSILON);
        assert_eq!(dot(BF16, &[tiny(25); 3], &[1.0; 3], 1.0), 1.0);
        assert_eq!(dot(BF16, &[tiny(26); 16], &[1.0; 16], 1.0), 1.0);
        // Rounding is towards zero on both sides.
        assert_eq!(dot(BF16, &[-tiny(26); 16], &[1.0; 16], -1.0), -1.0);
        assert_eq!(dot(BF16, &[-tiny(25); 1], &[1.0; 1], 1.0), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(dot(BF16, &[-tiny(26); 1], &[1.0; 1], 1.0), 1.0);
        // A product's exponent is the sum of those of its factors: 1.5 x 1.5 = 2.25 keeps 2^-25, and 2.25 x 1 does not.
        let lost = |a: &[f64], b: &[f64]| dot(F16, a, b, -2.25);
        assert_eq!(lost(&[1.5, tiny(13)], &[1.5, tiny(12)]), 0.0);
        assert_eq!(lost(&[1.5, tiny(12)], &[1.5, tiny(12)]), 2f32.powi(-24));
    }

    #[test]
    fn overflow_subnormals_and_special_values() {
        let huge = 2f64.powi(127);
        assert_eq!(dot(BF16, &[huge; 2], &[1.0; 2], 0.0), f32::INFINITY);
        assert_eq!(dot(BF16, &[huge, -huge], &[huge, huge], 3.0), 0.0);
        assert_eq!(dot(BF16, &[2f64.powi(-130)], &[2f64.powi(-19)], 0.0), f32::from_bits(1));
        assert_eq!(dot(F16, &[2f64.powi(-24)], &[2f64.powi(-24)], 0.0), 2f32.powi(-48));
        assert_eq!(dot(F16, &[f64::INFINITY], &[-1.0], 7.0), f32::NEG_INFINITY);
        for (a, c) in [
            ([f64::INFINITY, 0.0], f32::NEG_INFINITY),
            ([0.0, f64::NAN], 0.0),
            ([f64::INFINITY, f64::NEG_INFINITY], 0.0),
        ] {
            assert_eq!(dot(F16, &a, &[1.0; 2], c).to_bits(), 0x7fff_ffff);
        }
        assert_eq!(dot(F16, &[f64::INFINITY], &[0.0], 1.0).to_bits(), 0x7fff_ffff);
    }

    #[test]
    fn sums_in_f16_are_rounded_to_nearest_even() {
        let ulp = 2f64.powi(-10);
        assert_eq!(dot(HALF, &[ulp / 2.0], &[1.0], 1.0), 1.0);
        assert_eq!(dot(HALF, &[ulp / 2.0], &[1.0], 1.0 + ulp as f32), 1.0 + 2.0 * ulp as f32);
        assert_eq!(dot(HALF, &[ulp / 2.0, ulp / 64.0], &[1.0; 2], 1.0), 1.0 + ulp as f32);
        assert_eq!(dot(HALF, &[256.0], &[256.0], 0.0), f32::INFINITY);
        assert_eq!(dot(HALF, &[2f64.powi(-14)], &[2f64.powi(-10)], 0.0), 2f32.powi(-24));
    }
}
