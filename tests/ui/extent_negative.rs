// BLAS has error exits for extents below 0 and for transpositions that are none: here no program can say either.
use ptx_gemm::{Layout, Matrix, MatrixRef, Shape};

fn main() {
    let (m, n, k) = (2, 3, 4);
    let _ = MatrixRef::new(&[0.0f32], -1, k);
    let _ = Matrix::<f32>::zeros(k, -1);
    let _ = Shape::packed(m, -1, Layout::Col);
    let _ = Shape::packed(m, n, '/');
}
