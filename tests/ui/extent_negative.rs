// BLAS has error exits for negative extents and for invalid transpositions: here no program can express either.
use ptx_gemm::{Layout, Matrix, MatrixRef, Shape};

fn main() {
    let (m, n, k) = (2, 3, 4);
    let _ = MatrixRef::new(&[0.0f32], -1, k);
    let _ = Matrix::<f32>::zeros(k, -1);
    let _ = Shape::packed(m, -1, Layout::Col);
    let _ = Shape::packed(m, n, '/');
}
