//! The arithmetic of the tensor cores for elements other than 16-bit floats. Matrices are passed as the 16-bit parts of
//! their rows of A and columns of B: fragments and operands in shared memory have the same layout in bytes, whatever
//! the type of their elements.
//!
//! - **tf32**: as for 16-bit floats ([`super::sums`]), 4 or 8 terms at once. Only the upper 19 bits of a factor are
//!   read.
//! - **8-bit floats** in `mma.sync`: sm_90 has no instruction for them. ptxas converts them to f16 and multiplies
//!   twice. It sums the elements with k mod 4 of 0 or 1 first, adds the others to that sum, and adds C at the end.
//!   (sm_89 has an instruction; its sums are those of `wgmma`.)
//! - **8-bit floats** in `wgmma`: 32 terms at once, aligned like others, but truncated 13 bits below the largest
//!   exponent, and so is the sum: sums in f32 have ten fraction bits fewer than f32.
//! - **Integers** are exact; the sum wraps around or is clamped at the end.

use arrayvec::ArrayVec;
use half::f16;

use super::sums::{self, COLUMNS, DEPTH, LEAST, Left, NAN32, ROWS, Right, ZERO, nearest_half, power, towards_zero};
use crate::op::{Factor, Narrow, Other, Sum};

/// The 16-bit parts of rows of A.
pub(super) type Rows = [[u16; DEPTH]; ROWS];
/// The 16-bit parts of columns of B.
pub(super) type Columns = [[u16; COLUMNS]; DEPTH];
/// Elements of C and D as their bits.
pub(super) type Sums = [[u32; COLUMNS]; ROWS];

/// Bits kept below the largest exponent: of tf32, and of 8-bit floats in `wgmma`.
const FRACTION: i32 = 25;
const NARROW_FRACTION: i32 = 13;

/// D = A B + C of one warp, in place, for `depth` 16-bit parts along k.
pub(super) fn multiply(types: (Other, Sum), depth: usize, left: &Rows, right: &Columns, c: &mut Sums) {
    match types.0 {
        Other::Narrow(factors) => by_halves((factors, types.1), depth, left, right, c),
        _ => multiply_group(types, depth, left, right, c),
    }
}

/// The same for a warp's part of a multiplication by its warp group.
pub(super) fn multiply_group((other, sum): (Other, Sum), depth: usize, left: &Rows, right: &Columns, c: &mut Sums) {
    let columns: [[u16; DEPTH]; COLUMNS] = std::array::from_fn(|column| right.map(|parts| parts[column]));
    for (row, c) in left.iter().zip(c) {
        for (column, c) in columns.iter().zip(c) {
            let (row, column) = (&row[..depth], &column[..depth]);
            *c = match other {
                Other::Bytes { signed, saturates } => integers(signed, saturates, row, column, *c),
                Other::Tf32 => {
                    let terms = words(row).zip(words(column)).map(|(a, b)| [a, b].map(Factors::Tf32.split()));
                    floats(&terms.collect::<Terms>(), FRACTION, sum, *c)
                }
                Other::Narrow([a, b]) => {
                    let (a, b) = (Factors::Narrow(a).split(), Factors::Narrow(b).split());
                    let terms = bytes(row).zip(bytes(column)).map(|(x, y)| [a(x.into()), b(y.into())]);
                    floats(&terms.collect::<Terms>(), NARROW_FRACTION, sum, *c)
                }
            };
        }
    }
}

/// The bytes of 16-bit parts.
fn bytes(parts: &[u16]) -> impl Iterator<Item = u8> {
    parts.iter().flat_map(|part| part.to_le_bytes())
}

/// Pairs of 16-bit parts.
fn words(parts: &[u16]) -> impl Iterator<Item = u32> {
    parts.chunks_exact(2).map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16)
}

/// A sum of products of bytes.
fn integers(signed: [bool; 2], saturates: bool, row: &[u16], column: &[u16], c: u32) -> u32 {
    let value = |signed: bool, byte: u8| if signed { i64::from(byte as i8) } else { i64::from(byte) };
    let products = bytes(row).zip(bytes(column)).map(|(a, b)| value(signed[0], a) * value(signed[1], b));
    let total = i64::from(c as i32) + products.sum::<i64>();
    match saturates {
        true => total.clamp(i32::MIN.into(), i32::MAX.into()) as u32,
        false => total as u32,
    }
}

/// A type of factors that are summed here.
#[derive(Clone, Copy)]
enum Factors {
    Tf32,
    Narrow(Narrow),
}

/// A factor: its magnitude is an integer with `fraction` bits after the point.
#[derive(Clone, Copy)]
struct Parts {
    negative: bool,
    magnitude: i64,
    fraction: i32,
    exponent: i32,
    /// The value, if it is an infinity or a NaN.
    special: Option<f64>,
}

impl Parts {
    fn value(self) -> f64 {
        let magnitude = self.magnitude as f64 * power(-self.fraction) * power(self.exponent.max(LEAST));
        self.special.unwrap_or(if self.negative { -magnitude } else { magnitude })
    }
}

impl Factors {
    /// Takes the bits of a factor apart.
    fn split(self) -> impl Fn(u32) -> Parts {
        // Bits after the point and of the exponent.
        let (fraction, width) = match self {
            Factors::Tf32 => (10, 8),
            Factors::Narrow(Narrow::E4m3) => (3, 4),
            Factors::Narrow(Narrow::E5m2) => (2, 5),
        };
        // tf32 is in the upper bits of a word.
        let shift = if let Factors::Tf32 = self { 13 } else { 0 };
        let largest = (1u32 << width) - 1;
        move |bits| {
            let bits = bits >> shift;
            let (field, low) = (bits >> fraction & largest, bits & ((1 << fraction) - 1));
            let negative = bits >> (fraction + width) & 1 != 0;
            let special = match self {
                // This type has no infinities, and a single NaN of each sign.
                Factors::Narrow(Narrow::E4m3) => (field == largest && low == 7).then_some(f64::NAN),
                _ if field < largest => None,
                _ if low != 0 => Some(f64::NAN),
                _ => Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
            };
            let magnitude = i64::from(low | u32::from(field != 0) << fraction);
            let exponent = if magnitude == 0 { ZERO } else { field.max(1) as i32 - (largest / 2) as i32 };
            Parts { negative, magnitude, fraction, exponent, special }
        }
    }
}

type Terms = ArrayVec<[Parts; 2], 32>;

/// A sum of products of floats that keeps `fraction` bits below the largest exponent.
fn floats(terms: &[[Parts; 2]], fraction: i32, sum: Sum, c: u32) -> u32 {
    let (before, lowest) = match sum {
        Sum::F16 => (f16::from_bits(c as u16).to_f32(), -14),
        Sum::F32 | Sum::S32 => (f32::from_bits(c), -126),
    };
    let special = !before.is_finite() || terms.iter().any(|[a, b]| a.special.or(b.special).is_some());
    let total = if special {
        // As IEEE 754 specifies.
        terms.iter().fold(f64::from(before), |sum, [a, b]| sum + a.value() * b.value())
    } else {
        let of_c = if before == 0.0 { LEAST } else { ((before.to_bits() >> 23 & 0xff) as i32 - 127).max(lowest) };
        let top = terms.iter().fold(of_c.max(LEAST), |top, [a, b]| top.max(a.exponent + b.exponent));
        let products = terms.iter().map(|[a, b]| {
            let aligned = (a.magnitude * b.magnitude) << (fraction - a.fraction - b.fraction);
            let term = aligned >> (top - a.exponent - b.exponent).min(63);
            if a.negative == b.negative { term } else { -term }
        });
        let of_c = (f64::from(before) * power(fraction - top)).trunc();
        (products.sum::<i64>() as f64 + of_c) * power(top - fraction)
    };
    match sum {
        Sum::F16 => u32::from(sums::narrow(nearest_half(total))),
        _ if total.is_nan() => NAN32.to_bits(),
        Sum::F32 | Sum::S32 if fraction == NARROW_FRACTION => {
            let cut = total.to_bits() & !((1 << (52 - NARROW_FRACTION)) - 1);
            towards_zero(f64::from_bits(cut)).to_bits()
        }
        Sum::F32 | Sum::S32 => towards_zero(total).to_bits(),
    }
}

/// A product of 8-bit floats as two products of f16.
fn by_halves(([a, b], sum): ([Narrow; 2], Sum), depth: usize, left: &Rows, right: &Columns, c: &mut Sums) {
    let half = |narrow: Narrow, byte: u16| {
        let parts = Factors::Narrow(narrow).split()(byte.into());
        f16::from_f64(parts.value()).to_bits()
    };
    let mut products = [[0.0f32; COLUMNS]; ROWS];
    for part in 0..2 {
        let (mut rows, mut columns) = ([[0; DEPTH]; ROWS], [[0; COLUMNS]; DEPTH]);
        for k in 0..depth {
            let (at, shift) = (k / 2 * 2 + part, k % 2 * 8);
            for (row, left) in rows.iter_mut().zip(left) {
                row[k] = half(a, left[at] >> shift & 0xff);
            }
            for (column, right) in columns[k].iter_mut().zip(&right[at]) {
                *column = half(b, right >> shift & 0xff);
            }
        }
        let (rows, columns) = (Left::new(Factor::F16, &rows), Right::new(Factor::F16, &columns));
        sums::multiply((Factor::F16, sum), depth, &rows, &columns, &mut products);
    }
    for (c, product) in c.iter_mut().flatten().zip(products.iter().flatten()) {
        *c = match sum {
            Sum::F16 => sums::narrow(nearest_half(f64::from(*product) + f16::from_bits(*c as u16).to_f64())).into(),
            Sum::F32 | Sum::S32 => match f32::from_bits(*c) + product {
                sum if sum.is_nan() => NAN32.to_bits(),
                sum => sum.to_bits(),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Columns, DEPTH, ROWS, Rows, Sums, multiply, multiply_group};
    use crate::op::{Narrow, Other, Sum};

    const E4M3: Other = Other::Narrow([Narrow::E4m3; 2]);
    /// 1 in e4m3, and 2^-6.
    const ONE: u8 = 0x38;
    const SMALL: u8 = 0x08;

    /// The sum of products of bytes and c, in `mma.sync` and in `wgmma`.
    fn dot(types: (Other, Sum), a: &[u8], b: &[u8], c: u32) -> [u32; 2] {
        let (mut left, mut right): (Rows, Columns) = ([[0; DEPTH]; ROWS], [[0; COLUMNS]; DEPTH]);
        for (k, (a, b)) in a.iter().zip(b).enumerate() {
            left[3][k / 2] |= u16::from(*a) << (k % 2 * 8);
            right[k / 2][5] |= u16::from(*b) << (k % 2 * 8);
        }
        [multiply, multiply_group].map(|multiply| {
            let mut sums: Sums = [[0; COLUMNS]; ROWS];
            sums[3][5] = c;
            multiply(types, DEPTH, &left, &right, &mut sums);
            sums[3][5]
        })
    }

    fn words(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn sums_of_narrow_floats_lose_ten_bits_in_warp_groups() {
        let one = 1f32.to_bits();
        // 2^-12 is kept and 2^-14 is not, whether it comes from a product or from C.
        let [exact, group] = dot((E4M3, Sum::F32), &[SMALL; 1], &[SMALL; 1], one);
        assert_eq!((f32::from_bits(exact), f32::from_bits(group)), (1.0 + 2f32.powi(-12), 1.0 + 2f32.powi(-12)));
        let [exact, group] = dot((E4M3, Sum::F32), &[0x04; 1], &[0x04; 1], one);
        assert_eq!((f32::from_bits(exact), f32::from_bits(group)), (1.0 + 2f32.powi(-14), 1.0));
        let [exact, group] = dot((E4M3, Sum::F32), &[ONE], &[ONE], (1.0 + 2f32.powi(-14)).to_bits());
        assert_eq!((f32::from_bits(exact), f32::from_bits(group)), (2.0 + 2f32.powi(-14), 2.0));
        assert_eq!(dot((E4M3, Sum::F32), &[0x7f], &[0], one), [0x7fff_ffff; 2]);
        assert_eq!(dot((E4M3, Sum::F16), &[0x7e; 32], &[0x7e; 32], 0), [0x7c00; 2], "448 x 448 x 32 is beyond f16");
        let e5m2 = Other::Narrow([Narrow::E5m2; 2]);
        assert_eq!(dot((e5m2, Sum::F32), &[0x7c], &[0xbc], one), [f32::NEG_INFINITY.to_bits(); 2]);
        assert_eq!(dot((e5m2, Sum::F32), &[0x01], &[0x01], 0), [2f32.powi(-32).to_bits(); 2]);
    }

    #[test]
    fn words_of_tf32_are_cut_off() {
        let tiny = |bits: i32| 2f32.powi(-bits);
        let dot = |a: &[f32], b: &[f32], c: f32| {
            let [mma, group] = dot((Other::Tf32, Sum::F32), &words(a), &words(b), c.to_bits());
            assert_eq!(mma, group);
            f32::from_bits(mma)
        };
        assert_eq!(dot(&[1.0 + tiny(11)], &[3.0], 0.5), 3.5);
        assert_eq!(dot(&[1.0 + tiny(10)], &[1.0 + tiny(10)], 0.0), 1.0 + tiny(9) + tiny(20));
        assert_eq!(dot(&[tiny(25); 4], &[1.0; 4], 1.0), 1.0 + f32::EPSILON);
        assert_eq!(dot(&[tiny(26); 8], &[1.0; 8], 1.0), 1.0);
        assert_eq!(dot(&[f32::INFINITY], &[-2.0], 1.0), f32::NEG_INFINITY);
        assert!(dot(&[f32::INFINITY], &[0.0], 1.0).is_nan());
    }

    #[test]
    fn integers_wrap_around_or_saturate() {
        let sum = |signed: [bool; 2], saturates: bool, a: u8, b: u8, c: i32| {
            let [mma, group] = dot((Other::Bytes { signed, saturates }, Sum::S32), &[a; 32], &[b; 32], c as u32);
            assert_eq!(mma, group);
            mma as i32
        };
        assert_eq!(sum([true, true], false, 0x80, 0x80, 5), 32 * 128 * 128 + 5);
        assert_eq!(sum([true, false], false, 0x80, 0xff, 5), -32 * 128 * 255 + 5);
        assert_eq!(sum([false, false], false, 0xff, 0xff, i32::MAX), i32::MAX.wrapping_add(32 * 255 * 255));
        assert_eq!(sum([false, false], true, 0xff, 0xff, i32::MAX), i32::MAX);
        assert_eq!(sum([true, false], true, 0x80, 0xff, i32::MIN), i32::MIN);
    }
}
