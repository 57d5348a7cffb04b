//! Register blocking: six rows and two vectors of columns of C stay in registers while k advances.
//!
//! Each step of k reads two vectors of B and six numbers of A, and does twelve fused multiply-adds with them. B is packed, so
//! that these vectors are contiguous. `pulp` picks the instructions of the CPU that the program runs on.

use pulp::{Arch, Simd, WithSimd};

/// Rows of C in registers.
const ROWS: usize = 6;
/// Rows of A, and steps of k, that a second-level cache holds.
const HEIGHT: usize = 96;
const DEPTH: usize = 256;

/// C = A B, n x n, row major.
pub fn multiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    rows(n, a, b, c);
}

/// The same for some rows of A and C.
pub fn rows(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    c.fill(0.0);
    if n > 0 {
        Arch::new().dispatch(Rows { n, a, b, c });
    }
}

struct Rows<'m> {
    n: usize,
    a: &'m [f32],
    b: &'m [f32],
    c: &'m mut [f32],
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Rows { n, a, b, c } = self;
        let width = 2 * S::F32_LANES;
        let mut panel = vec![0.0; DEPTH * width];
        for (a, c) in a.chunks(HEIGHT * n).zip(c.chunks_mut(HEIGHT * n)) {
            for k0 in (0..n).step_by(DEPTH) {
                let depth = DEPTH.min(n - k0);
                for j0 in (0..n).step_by(width) {
                    let columns = width.min(n - j0);
                    for (row, packed) in panel.chunks_exact_mut(width).take(depth).enumerate() {
                        packed[..columns].copy_from_slice(&b[(k0 + row) * n + j0..][..columns]);
                    }
                    let (vectors, _) = S::as_simd_f32s(&panel[..depth * width]);
                    for (a, c) in a.chunks(ROWS * n).zip(c.chunks_mut(ROWS * n)) {
                        let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
                        if a.len() == ROWS * n {
                            for (k, y) in vectors.chunks_exact(2).enumerate() {
                                for (row, sums) in sums.iter_mut().enumerate() {
                                    let x = simd.splat_f32s(a[row * n + k0 + k]);
                                    *sums = [simd.mul_add_f32s(x, y[0], sums[0]), simd.mul_add_f32s(x, y[1], sums[1])];
                                }
                            }
                        } else {
                            for (k, y) in vectors.chunks_exact(2).enumerate() {
                                for (row, sums) in sums.iter_mut().enumerate().take(a.len() / n) {
                                    let x = simd.splat_f32s(a[row * n + k0 + k]);
                                    *sums = [simd.mul_add_f32s(x, y[0], sums[0]), simd.mul_add_f32s(x, y[1], sums[1])];
                                }
                            }
                        }
                        for (c, sums) in c.chunks_exact_mut(n).zip(&sums) {
                            let sums: &[f32] = pulp::bytemuck::cast_slice(sums);
                            c[j0..][..columns].iter_mut().zip(sums).for_each(|(c, sum)| *c += sum);
                        }
                    }
                }
            }
        }
    }
}
