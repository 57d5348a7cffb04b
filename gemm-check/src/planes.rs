//! Products of planes: their permitted error, and exact data that need every plane.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::promise::{Line, Promise};
use ptx_gemm_runtime::interface::Emulated;

use crate::bound::{Estimate, Rounding};
use crate::data::Values;

/// The operands of one element of D, and the sum of the magnitudes of their products.
pub(crate) fn line(a: &Values, b: &Values, (row, col): (usize, usize), magnitude: f64) -> Line {
    let mut line = Line { terms: a.cols, magnitude, ..Line::default() };
    for k in 0..a.cols {
        for (side, value) in [a.at(row, k).abs(), b.at(k, col).abs()].into_iter().enumerate() {
            line.largest[side] = line.largest[side].max(value);
            line.sums[side] += value;
        }
    }
    line
}

/// An accumulator: the sum of the products of elements, and of their magnitudes.
pub(crate) fn accumulated(
    (sum, magnitude): (f64, f64),
    Emulated { dtype, planes, products, chunk }: Emulated,
    line: impl Fn() -> Line,
    exact: bool,
) -> Estimate {
    if exact && magnitude * Rounding::of(DType::F32).unit <= 1.0 {
        return Estimate::exact(sum);
    }
    Estimate { value: sum, error: Promise::of(dtype, planes, products).bound(&line(), chunk) }
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

/// Keeps the parity of the old value, so that elements differ.
fn replace(element: &mut f64, by: f64) {
    *element = if by > 1.0 { by + 2.0 * (element.abs() % 2.0) } else { 1.0 + element.abs() % 2.0 };
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    /// [`super::fill`] relies on this.
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
