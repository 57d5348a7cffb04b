//! Products of planes: the error that they are allowed, and exact data that need every plane.
//!
//! Let u be the unit roundoff of the planes' type. Each plane is what the ones before it leave of an element, rounded, so
//! plane p is at most u^p of the element in magnitude, and so is what planes 0 to p - 1 leave. Of the product of two elements
//!
//! - what is left of either element after its last plane is missing: with p planes, 2 u^p of it; nothing if p planes of bf16
//!   have the 24 bits of f32;
//! - the products of planes that are not multiplied are missing: of those whose numbers add up to s, each u^s of it.
//!
//! In absolute terms, an element of f16 is at most half its smallest number off, which is 2^-39 of the largest element of
//! its row of A or column of B, since these are scaled to at least 2^14. An element of bf16 is at most 2^-134 off.
//!
//! Sums have the error of as many additions as there are elements of k in a chunk, and of as many as there are chunks. The
//! products of smaller planes come first, when the sums are small, and add less than as much again.

use ptx_gemm_dsl::DType;
use ptx_gemm_runtime::interface::Emulated;

use crate::bound::{Estimate, Rounding};
use crate::data::Values;

/// Bits of f32.
const BITS: i32 = 24;

/// The largest elements of a row of A and of a column of B, and the sums of their magnitudes.
pub(crate) struct Line {
    pub(crate) terms: usize,
    largest: [f64; 2],
    sums: [f64; 2],
}

impl Line {
    /// Of the operands of one element of D.
    pub(crate) fn of(a: &Values, b: &Values, (row, col): (usize, usize)) -> Line {
        let mut line = Line { terms: a.cols, largest: [0.0; 2], sums: [0.0; 2] };
        for k in 0..a.cols {
            for (side, value) in [a.at(row, k).abs(), b.at(k, col).abs()].into_iter().enumerate() {
                line.largest[side] = line.largest[side].max(value);
                line.sums[side] += value;
            }
        }
        line
    }
}

/// Relative error of a product of two elements.
pub fn relative(Emulated { dtype, planes, products, .. }: Emulated) -> f64 {
    let u = Rounding::of(dtype).unit;
    let left = if u.powi(planes as i32) <= 2f64.powi(-BITS) { 0.0 } else { 2.0 * u.powi(planes as i32) };
    // The first sum of plane numbers that is not multiplied, and how many pairs have it.
    let (mut counted, mut sum) = (0, 0);
    let of = |sum: u32| (0..planes).filter(|a| sum >= *a && sum - a < planes).count() as u32;
    while counted < products {
        counted += of(sum);
        sum += 1;
    }
    let missing = f64::from(of(sum)) * u.powi(sum as i32);
    // What is smaller still, and the roundings of the planes themselves.
    (left + missing) * (1.0 + 4.0 * u)
}

/// An accumulator: the sum of the products of elements, and of their magnitudes.
pub(crate) fn accumulated(
    (sum, magnitude): (f64, f64),
    of: Emulated,
    line: impl Fn() -> Line,
    exact: bool,
) -> Estimate {
    let acc = Rounding::of(DType::F32);
    if exact && magnitude * acc.unit <= 1.0 {
        return Estimate::exact(sum);
    }
    let Line { terms, largest, sums } = line();
    let chunk = of.chunk as usize;
    let additions = 2 * terms.min(chunk) + terms.div_ceil(chunk) + 2;
    let off = |side: usize| match of.dtype {
        DType::F16 => 2f64.powi(-39) * largest[side] + 2f64.powi(-149),
        _ => 2f64.powi(-134),
    };
    let absolute = off(0) * sums[1] + off(1) * sums[0] + terms as f64 * (off(0) * off(1) + acc.tiny);
    Estimate { value: sum, error: (acc.gamma(additions) + relative(of)) * magnitude + 2.0 * absolute }
}

/// Replaces some elements by integers that need every plane, so that each product of planes changes the sum; products that
/// are not multiplied are 0. The sum stays exact: there are few of these elements, whatever the depth.
pub(crate) fn fill(a: &mut Values, b: &mut Values, of: Emulated) {
    let depth = a.cols;
    let period = depth.div_ceil(12).max(4);
    // In planes: 2^12 and 1 of f16; 2^9 and 1 of bf16, or 129 * 2^10, -2^9 and 1.
    let all = match (of.dtype, of.planes) {
        (DType::F16, _) => 4097.0,
        (_, 2) => 513.0,
        _ => 131_585.0,
    };
    for k in 0..depth {
        // 256 and 1.
        let (in_a, in_b) = match k % period {
            0 => (all, 1.0),
            1 => (1.0, all),
            2 if of.products > 3 => (257.0, 257.0),
            _ => continue,
        };
        (0..a.rows).for_each(|row| replace(&mut a.elements[row * depth + k], in_a));
        (0..b.cols).for_each(|col| replace(&mut b.elements[k * b.cols + col], in_b));
    }
}

/// Of either parity of what was there, so that elements differ.
fn replace(element: &mut f64, by: f64) {
    *element = if by > 1.0 { by + 2.0 * (element.abs() % 2.0) } else { 1.0 + element.abs() % 2.0 };
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use ptx_gemm_dsl::DType;
    use ptx_gemm_runtime::interface::Emulated;

    use super::relative;

    fn emulated(dtype: DType, planes: u32, products: u32) -> Emulated {
        Emulated { dtype, planes, products, chunk: 128 }
    }

    #[test]
    fn errors_of_products() {
        let of = |dtype, planes, products| relative(emulated(dtype, planes, products)).log2();
        assert!((-14.5..-14.3).contains(&of(DType::Bf16, 2, 3)));
        assert!((-23.1..-22.9).contains(&of(DType::Bf16, 3, 6)));
        assert!((-20.5..-20.3).contains(&of(DType::F16, 2, 3)));
    }

    /// What [`super::fill`] relies on.
    #[test]
    fn integers_that_need_every_plane() {
        let bf16 = |x: f32| bf16::from_f32(x).to_f32();
        for x in [131_585.0f32, 131_587.0] {
            let (high, middle) = (bf16(x), bf16(x - bf16(x)));
            assert!(middle != 0.0 && x - high - middle != 0.0 && bf16(x - high - middle) == x - high - middle);
        }
        for x in [513.0f32, 515.0, 257.0, 259.0] {
            assert!(bf16(x) != x && bf16(x - bf16(x)) == x - bf16(x));
        }
        for x in [4097.0f32, 4099.0] {
            let high = f16::from_f32(x).to_f32();
            assert!(high != x && f16::from_f32(x - high).to_f32() == x - high);
        }
    }
}
