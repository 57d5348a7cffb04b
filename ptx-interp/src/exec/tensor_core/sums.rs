//! The arithmetic of the tensor cores: sums of products in fixed point.
//!
//! A tensor core adds up to 16 products of 16-bit factors and one element of C at once. Each product is exact; all terms
//! are aligned to the largest exponent among them, cut off a fixed number of bits below it, and added exactly. The sum
//! is then rounded once: towards zero to f32, or to nearest even to f16. The exponent of a product is the sum of its
//! factors' exponents, so a significand may be up to 4; subnormal factors have the lowest exponent of their type.
//!
//! Sources: P. Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (arXiv:2511.10909),
//! and F. A. Khattak and M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv:2512.07004), which both compared
//! such models with the hardware, bit by bit. The constants are those of sm_90, for `mma.sync` and `wgmma` alike: 16
//! terms and 25 bits, two more than f32 has. (sm_80 to sm_89 add 8 terms at a time, and keep 24 bits.)

use half::{bf16, f16};
use ptx_gemm_ptx::types::Type;
use rustc_apfloat::Round;

use crate::exec::round;
use crate::op::{Factor, Sum};

/// Bits kept below the largest exponent.
const FRACTION: i32 = 25;
/// The exponent of a zero: below every other one, even if multiplied.
const ZERO: i32 = -1 << 14;
/// The lowest exponent to which terms are aligned.
const LEAST: i32 = -126;
/// NaN results have these bits.
const NAN32: f32 = f32::from_bits(0x7fff_ffff);

/// Rows of A and of D, columns of B and of D in one [`multiply`], and the largest k.
pub(super) const ROWS: usize = 16;
pub(super) const COLUMNS: usize = 8;
pub(super) const DEPTH: usize = 16;

/// 16 rows of A, as significands and exponents.
#[derive(Clone, Debug)]
pub(super) struct Left {
    significands: [[f32; DEPTH]; ROWS],
    exponents: [[i32; DEPTH]; ROWS],
    /// The elements' own bits.
    bits: [[u16; DEPTH]; ROWS],
    /// Rows with an infinity or a NaN.
    special: u32,
}

/// 8 columns of B.
#[derive(Clone, Debug)]
pub(super) struct Right {
    significands: [[f32; COLUMNS]; DEPTH],
    exponents: [[i32; COLUMNS]; DEPTH],
    bits: [[u16; COLUMNS]; DEPTH],
    /// Columns with an infinity or a NaN.
    special: u32,
}

/// A factor as significand, exponent, and whether it is an infinity or a NaN.
#[inline(always)]
fn split(factor: Factor, bits: u16) -> (f32, i32, bool) {
    let (fraction, bias) = match factor {
        Factor::F16 => (10, 15),
        Factor::Bf16 => (7, 127),
    };
    let largest = (1 << (15 - fraction)) - 1;
    let (field, low) = (i32::from(bits >> fraction) & largest, u32::from(bits) & ((1 << fraction) - 1));
    let sign = (u32::from(bits) & 0x8000) << 16;
    let special = field == largest;
    let normal = f32::from_bits(sign | 127 << 23 | low << (23 - fraction));
    // The same without the leading 1.
    let subnormal = normal - f32::from_bits(sign | 127 << 23);
    let zero = field == 0 && low == 0;
    let significand = if special || zero {
        0.0
    } else if field == 0 {
        subnormal
    } else {
        normal
    };
    let exponent = if special || zero { ZERO } else { field.max(1) - bias };
    (significand, exponent, special)
}

impl Left {
    #[inline(always)]
    pub(super) fn new(factor: Factor, bits: &[[u16; DEPTH]; ROWS]) -> Left {
        let mut left =
            Left { significands: [[0.0; DEPTH]; ROWS], exponents: [[0; DEPTH]; ROWS], bits: *bits, special: 0 };
        for row in 0..ROWS {
            let mut any = false;
            for k in 0..DEPTH {
                let (significand, exponent, special) = split(factor, bits[row][k]);
                (left.significands[row][k], left.exponents[row][k]) = (significand, exponent);
                any |= special;
            }
            left.special |= u32::from(any) << row;
        }
        left
    }
}

impl Right {
    #[inline(always)]
    pub(super) fn new(factor: Factor, bits: &[[u16; COLUMNS]; DEPTH]) -> Right {
        let mut right =
            Right { significands: [[0.0; COLUMNS]; DEPTH], exponents: [[0; COLUMNS]; DEPTH], bits: *bits, special: 0 };
        for k in 0..DEPTH {
            for column in 0..COLUMNS {
                let (significand, exponent, special) = split(factor, bits[k][column]);
                (right.significands[k][column], right.exponents[k][column]) = (significand, exponent);
                right.special |= u32::from(special) << column;
            }
        }
        right
    }
}

/// The power of two with this exponent, from -1022 to 1023.
#[inline(always)]
fn power(exponent: i32) -> f64 {
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
        Sum::F32 => -126,
        Sum::F16 => -14,
    };
    for row in 0..ROWS {
        let before = c[row];
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
            for column in 0..COLUMNS {
                top[column] = top[column].max(exponent + right.exponents[k][column]);
            }
        }
        // Sixteen terms below 4 x 2^25 fit 32 bits.
        let mut sums = [0i32; COLUMNS];
        for k in 0..depth {
            let (significand, exponent) = (left.significands[row][k], left.exponents[row][k]);
            for column in 0..COLUMNS {
                let shift = exponent + right.exponents[k][column] - top[column] + FRACTION;
                let scale = f32::from_bits(((shift + 127).max(0) as u32) << 23);
                sums[column] += (significand * right.significands[k][column] * scale) as i32;
            }
        }
        for column in 0..COLUMNS {
            let of_c = (f64::from(before[column]) * power(FRACTION - top[column])) as i64;
            let total = (i64::from(sums[column]) + of_c) as f64 * power(top[column] - FRACTION);
            c[row][column] = match sum {
                Sum::F32 => towards_zero(total),
                Sum::F16 => {
                    let bits = round::from_f64(Type::F16, total, Round::NearestTiesToEven);
                    f16::from_bits(bits as u16).to_f32()
                }
            };
        }
        if special != 0 {
            for column in (0..COLUMNS).filter(|column| special >> column & 1 != 0) {
                c[row][column] =
                    unbounded(factor, depth, &left.bits[row], right, column, before[column]).unwrap_or(c[row][column]);
            }
        }
    }
}

/// Rounds towards zero to f32, except that values beyond its range become infinite.
#[inline(always)]
fn towards_zero(value: f64) -> f32 {
    let nearest = value as f32;
    let beyond = f64::from(nearest).abs() > value.abs() && value.abs() < power(128);
    f32::from_bits(nearest.to_bits() - u32::from(beyond))
}

/// The sum if a term is an infinity or a NaN, as IEEE 754 has it.
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
        // Four terms of 2^-25 make up the last bit of 1, terms of 2^-26 are lost however many there are.
        assert_eq!(dot(BF16, &[tiny(25); 4], &[1.0; 4], 1.0), 1.0 + f32::EPSILON);
        assert_eq!(dot(BF16, &[tiny(25); 3], &[1.0; 3], 1.0), 1.0);
        assert_eq!(dot(BF16, &[tiny(26); 16], &[1.0; 16], 1.0), 1.0);
        // Towards zero on both sides.
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
