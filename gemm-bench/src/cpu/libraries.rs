//! Libraries of Rust, on all cores.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// `faer`, which uses the kernels of the crate `gemm`.
pub(super) fn faer(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    let (a, b) = (MatRef::from_row_major_slice(a, n, n), MatRef::from_row_major_slice(b, n, n));
    matmul(MatMut::from_row_major_slice_mut(c, n, n), Accum::Replace, a, b, 1.0, Par::rayon(0));
}

/// `matrixmultiply`, through `ndarray`.
pub(super) fn matrixmultiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    let view = |elements| ArrayView2::from_shape((n, n), elements).ok();
    if let (Some(a), Some(b), Ok(mut c)) = (view(a), view(b), ArrayViewMut2::from_shape((n, n), c)) {
        general_mat_mul(1.0, &a, &b, 0.0, &mut c);
    }
}
