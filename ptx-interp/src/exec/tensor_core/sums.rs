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
    values: [[f32; DEPTH]; ROWS],
    significands: [[f32; DEPTH]; ROWS],
    exponents: [[i32; DEPTH]; ROWS],
    /// The elements' own bits.
    bits: [[u16; DEPTH]; ROWS],
    /// The lowest and the highest exponent of each row, without zeros.
    ranges: [(i32, i32); ROWS],
    /// Rows with an infinity or a NaN.
    special: u32,
}

/// 8 columns of B.
#[derive(Clone, Debug)]
pub(super) struct Right {
    values: [[f32; COLUMNS]; DEPTH],
    significands: [[f32; COLUMNS]; DEPTH],
    exponents: [[i32; COLUMNS]; DEPTH],
    bits: [[u16; COLUMNS]; DEPTH],
    /// The lowest and the highest exponent, without zeros.
    range: (i32, i32),
    /// Columns with an infinity or a NaN.
    special: u32,
}

/// A factor as value (0 for an infinity or a NaN), significand, exponent, and whether it is an infinity or a NaN.
#[inline(always)]
fn split(factor: Factor, bits: u16) -> (f32, f32, i32, bool) {
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
    let nothing = special || (field == 0 && low == 0);
    let significand = if nothing {
        0.0
    } else if field == 0 {
        subnormal
    } else {
        normal
    };
    let exponent = field.max(1) - bias;
    // Both exponents are those of normal numbers in f32.
    let value = significand * f32::from_bits(((exponent.min(127) + 127) as u32) << 23);
    (value, significand, if nothing { ZERO } else { exponent }, special)
}

/// The range of some exponents, extended by another one unless that is of a zero.
#[inline(always)]
fn extended((low, high): (i32, i32), exponent: i32) -> (i32, i32) {
    (low.min(if exponent == ZERO { low } else { exponent }), high.max(exponent))
}

/// The range of no exponents.
const NOTHING: (i32, i32) = (1 << 10, ZERO);

impl Left {
    #[inline(always)]
    pub(super) fn new(factor: Factor, bits: &[[u16; DEPTH]; ROWS]) -> Left {
        let mut left = Left {
            values: [[0.0; DEPTH]; ROWS],
            significands: [[0.0; DEPTH]; ROWS],
            exponents: [[0; DEPTH]; ROWS],
            bits: *bits,
            ranges: [NOTHING; ROWS],
            special: 0,
        };
        for row in 0..ROWS {
            let mut any = false;
            for k in 0..DEPTH {
                let (value, significand, exponent, special) = split(factor, bits[row][k]);
                (left.values[row][k], left.significands[row][k]) = (value, significand);
                left.exponents[row][k] = exponent;
                left.ranges[row] = extended(left.ranges[row], exponent);
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
        let mut right = Right {
            values: [[0.0; COLUMNS]; DEPTH],
            significands: [[0.0; COLUMNS]; DEPTH],
            exponents: [[0; COLUMNS]; DEPTH],
            bits: *bits,
            range: NOTHING,
            special: 0,
        };
        let mut any = [false; COLUMNS];
        let mut ranges = [NOTHING; COLUMNS];
        for k in 0..DEPTH {
            for column in 0..COLUMNS {
                let (value, significand, exponent, special) = split(factor, bits[k][column]);
                (right.values[k][column], right.significands[k][column]) = (value, significand);
                right.exponents[k][column] = exponent;
                ranges[column] = extended(ranges[column], exponent);
                any[column] |= special;
            }
        }
        for (column, (low, high)) in ranges.into_iter().enumerate() {
            right.range = (right.range.0.min(low), right.range.1.max(high));
            right.special |= u32::from(any[column]) << column;
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
        let sums = match left.ranges[row].0 + right.range.0 >= -100 && left.ranges[row].1 + right.range.1 <= 126 {
            true => aligned_together(depth, &left.values[row], right, &top),
            false => aligned_apart(depth, &left.significands[row], &left.exponents[row], right, &top),
        };
        for column in 0..COLUMNS {
            let of_c = (f64::from(before[column]) * power(FRACTION - top[column])) as i64;
            let total = i64::from(sums[column]).wrapping_add(of_c) as f64 * power(top[column] - FRACTION);
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

/// The aligned products of one row, added up, if every product is exact in f32 and so is its distance to the largest
/// exponent: then all products of a column are scaled by the same power of two.
///
/// Sixteen terms below 4 x 2^25 fit 32 bits, here as in [`aligned_apart`].
#[inline(always)]
fn aligned_together(depth: usize, left: &[f32; DEPTH], right: &Right, top: &[i32; COLUMNS]) -> [i32; COLUMNS] {
    // Where all products are zero, C alone determines the exponent, and it may be too low for this.
    let scale = top.map(|top| f32::from_bits(((FRACTION - top + 127).min(254) as u32) << 23));
    let mut sums = [0i32; COLUMNS];
    for k in 0..depth {
        for column in 0..COLUMNS {
            sums[column] += (left[k] * right.values[k][column] * scale[column]) as i32;
        }
    }
    sums
}

/// The same for any exponents.
#[inline(always)]
fn aligned_apart(
    depth: usize,
    significands: &[f32; DEPTH],
    exponents: &[i32; DEPTH],
    right: &Right,
    top: &[i32; COLUMNS],
) -> [i32; COLUMNS] {
    let mut sums = [0i32; COLUMNS];
    for k in 0..depth {
        for column in 0..COLUMNS {
            let shift = exponents[k] + right.exponents[k][column] - top[column] + FRACTION;
            let scale = f32::from_bits(((shift + 127).max(0) as u32) << 23);
            sums[column] += (significands[k] * right.significands[k][column] * scale) as i32;
        }
    }
    sums
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
    fn both_alignments_give_the_same() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as u16
        };
        for round in 0..200 {
            // Exponents close to each other, then any.
            let narrow = |bits: u16| if round % 2 == 0 { bits & 0x83ff | 0x3c00 } else { bits };
            for factor in [Factor::F16, Factor::Bf16] {
                let left = Left::new(factor, &std::array::from_fn(|_| std::array::from_fn(|_| narrow(next()))));
                let right = Right::new(factor, &std::array::from_fn(|_| std::array::from_fn(|_| narrow(next()))));
                let c: [[f32; COLUMNS]; ROWS] = std::array::from_fn(|_| std::array::from_fn(|_| f32::from(next())));
                let apart = Left { ranges: [(-1000, 1000); ROWS], ..left.clone() };
                let (mut one, mut other) = (c, c);
                multiply((factor, Sum::F32), DEPTH, &left, &right, &mut one);
                multiply((factor, Sum::F32), DEPTH, &apart, &right, &mut other);
                assert_eq!(one.map(|row| row.map(f32::to_bits)), other.map(|row| row.map(f32::to_bits)));
            }
        }
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
