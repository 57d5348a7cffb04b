//! The figure of `max_error`, from a product on the device: the language reference defines it, at `expect`.

use ptx_gemm_codegen::Interface;
use ptx_gemm_dsl::terms::{Extent3, Operand};
use ptx_gemm_dsl::{DType, Figure, Layout};

use crate::doubled;
use crate::element::Element;
use crate::error::{ArgumentError, Error};
use crate::matrix::Matrix;
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut};

/// Elements of K, and of a row and a column of D, before they are rounded up to whole tiles.
const DEPTH: u32 = 1024;
const EXTENT: u32 = 64;

/// Seeds of A and of B.
const SEEDS: [u64; 2] = [1, 2];

/// The error of a product, and its extents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Accuracy {
    pub(crate) figure: Figure,
    pub(crate) extents: Extent3,
}

/// Writes the product of two matrices to a third.
pub(crate) type Multiply<'a> = &'a dyn Fn(AnyRef<'_>, AnyRef<'_>, AnyMut<'_>) -> Result<(), Error>;

/// Multiplies random matrices with a kernel that has the epilogue `acc`; `None` for types that the host does not
/// compute with.
pub(crate) fn measure(interface: &Interface, multiply: Multiply<'_>) -> Result<Option<Accuracy>, Error> {
    let (types, layouts) = (interface.problem.types, interface.problem.layouts);
    let tile = interface.entries.first().map_or(Extent3 { m: 1, n: 1, k: 1 }, |entry| entry.tile);
    let extents = Extent3 {
        m: EXTENT.next_multiple_of(tile.m),
        n: EXTENT.next_multiple_of(tile.n),
        k: DEPTH.next_multiple_of(tile.k),
    };
    let [m, n, k] = [extents.m, extents.n, extents.k].map(|extent| extent as usize);
    let operands = [
        random(types.a, (m, k), layouts.a, SEEDS[0]),
        random(types.b, (k, n), layouts.b, SEEDS[1]),
        random(types.d, (m, n), layouts.d, SEEDS[0]),
    ];
    let [Some(a), Some(b), Some(mut d)] = operands else { return Ok(None) };
    multiply(
        a.as_any().map_err(ArgumentError::strides(Operand::A))?,
        b.as_any().map_err(ArgumentError::strides(Operand::B))?,
        d.as_any_mut().map_err(ArgumentError::strides(Operand::D))?,
    )?;
    let figure = Figure::measured(largest_error(&a.values(), &b.values(), &d.values(), k));
    Ok(Some(Accuracy { figure, extents }))
}

/// The largest error of an element of D relative to the sum of the magnitudes of its products; NaN if an element of D
/// is NaN. All matrices are in row-major order.
fn largest_error(a: &[f64], b: &[f64], d: &[f64], depth: usize) -> f64 {
    let cols = b.len() / depth;
    let mut largest = 0.0f64;
    for (row, d) in a.chunks(depth).zip(d.chunks(cols)) {
        let (mut high, mut low, mut magnitudes) = (vec![0.0; cols], vec![0.0; cols], vec![0.0; cols]);
        for (x, b) in row.iter().zip(b.chunks(cols)) {
            doubled::add(&mut high, &mut low, *x, b);
            magnitudes.iter_mut().zip(b).for_each(|(to, y)| *to += (x * y).abs());
        }
        for (((got, high), low), magnitude) in d.iter().zip(&high).zip(&low).zip(&magnitudes) {
            let error = ((got - high) - low).abs() / magnitude;
            // `max` would drop NaN.
            largest = if error.is_nan() || error > largest { error } else { largest };
            if largest.is_nan() {
                return largest;
            }
        }
    }
    largest
}

/// A matrix of any type.
trait Host: AsMatrix + AsMatrixMut {
    /// Its elements row by row.
    fn values(&self) -> Vec<f64>;
}

impl<T: Element> Host for Matrix<T> {
    fn values(&self) -> Vec<f64> {
        self.to_layout(Layout::Row).as_slice().iter().map(|element| element.to_f64()).collect()
    }
}

fn random(dtype: DType, (rows, cols): (usize, usize), layout: Layout, seed: u64) -> Option<Box<dyn Host>> {
    fn of<T: Element>((rows, cols): (usize, usize), layout: Layout, seed: u64) -> Box<dyn Host> {
        Box::new(Matrix::<T>::random(rows, cols, seed).to_layout(layout))
    }
    let of = match dtype {
        DType::F64 => of::<f64>,
        DType::F32 | DType::Tf32 => of::<f32>,
        DType::F16 => of::<half::f16>,
        DType::Bf16 => of::<half::bf16>,
        DType::I32 => of::<i32>,
        DType::I8 => of::<i8>,
        DType::U8 => of::<u8>,
        DType::E4m3 | DType::E5m2 => return None,
    };
    Some(of((rows, cols), layout, seed))
}

#[cfg(test)]
mod tests {
    use super::largest_error;

    #[test]
    fn the_largest_error_is_relative_to_the_magnitudes() {
        // Two rows by two columns, two of k: 1 * 3 - 2 * 1 = 1, and so on.
        let (a, b) = ([1.0, -2.0, 0.5, 4.0], [3.0, 1.0, 1.0, -1.0]);
        let exact = [1.0, 3.0, 5.5, -3.5];
        assert_eq!(largest_error(&a, &b, &exact, 2), 0.0);
        let off = [1.0, 3.0, 5.5 + 1.1, -3.5 - 1.8];
        assert!((largest_error(&a, &b, &off, 2) - 0.4).abs() < 1e-15);
        for wrong in [f64::NAN, f64::INFINITY] {
            assert!(!largest_error(&a, &b, &[1.0, wrong, 5.5, -3.5], 2).is_finite());
        }
    }

    /// Sums in f64 could not show these errors.
    #[test]
    fn errors_of_f64_are_seen() {
        let (a, b) = ([1.0, 2f64.powi(-60)], [1.0, 1.0]);
        let error = largest_error(&a, &b, &[1.0], 2);
        assert!((error - 2f64.powi(-60)).abs() < 2f64.powi(-110), "{error:e}");
    }
}
