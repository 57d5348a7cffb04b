//! The sums over k in f64, with the sums of magnitudes that the bounds need.
//!
//! Plain f64 suffices where kernels accumulate in f32: its own error is 2^-29 of theirs. Where they accumulate in f64
//! each sum is kept as a pair.

use ptx_gemm_runtime::doubled;
use rayon::prelude::*;

use crate::data::Values;

/// For each element of D, row by row: the sum of products, and the sum of their magnitudes.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) sum: Vec<f64>,
    pub(crate) magnitude: Vec<f64>,
}

/// The precision of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// f64.
    Single,
    /// Twice that.
    Doubled,
}

/// Rows of D that share each pass over B.
const ROWS: usize = 4;

impl Product {
    pub(crate) fn of(a: &Values, b: &Values, precision: Precision) -> Product {
        let (m, n) = (a.rows, b.cols);
        let mut product = Product { sum: vec![0.0; m * n], magnitude: vec![0.0; m * n] };
        if m * n == 0 {
            return product;
        }
        let sums = product.sum.par_chunks_mut(ROWS * n);
        sums.zip(product.magnitude.par_chunks_mut(ROWS * n)).enumerate().for_each(|(chunk, (sums, magnitudes))| {
            let mut low = vec![0.0; if precision == Precision::Doubled { sums.len() } else { 0 }];
            for k in 0..a.cols {
                let b_row = &b.elements[k * n..][..n];
                for (i, sums) in sums.chunks_exact_mut(n).enumerate() {
                    let x = a.at(chunk * ROWS + i, k);
                    magnitudes[i * n..][..n].iter_mut().zip(b_row).for_each(|(to, y)| *to += (x * y).abs());
                    match precision {
                        Precision::Single => sums.iter_mut().zip(b_row).for_each(|(to, y)| *to += x * y),
                        Precision::Doubled => doubled::add(sums, &mut low[i * n..][..n], x, b_row),
                    }
                }
            }
            sums.iter_mut().zip(&low).for_each(|(sum, low)| *sum += low);
        });
        product
    }
}

#[cfg(test)]
mod tests {
    use super::{Precision, Product};
    use crate::data::Values;

    #[test]
    fn doubled_sums_keep_what_cancels() {
        let a = Values { rows: 1, cols: 3, elements: vec![1e16, 1.0, -1e16] };
        let b = Values { rows: 3, cols: 1, elements: vec![1.0; 3] };
        assert_eq!(Product::of(&a, &b, Precision::Single).sum, [0.0]);
        assert_eq!(Product::of(&a, &b, Precision::Doubled).sum, [1.0]);
        assert_eq!(Product::of(&a, &b, Precision::Doubled).magnitude, [2e16 + 1.0]);
    }
}
