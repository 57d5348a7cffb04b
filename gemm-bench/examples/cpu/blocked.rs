//! Cache blocking: a block of B is used for many rows of A before the next one is read.

/// Rows of B in a block, and columns: 64 KiB, part of a second-level cache.
const DEPTH: usize = 64;
const WIDTH: usize = 256;

/// C = A B, n x n, row major.
pub fn multiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    c.fill(0.0);
    for k0 in (0..n).step_by(DEPTH) {
        for j0 in (0..n).step_by(WIDTH) {
            let (depth, width) = (DEPTH.min(n - k0), WIDTH.min(n - j0));
            for i in 0..n {
                let row = &mut c[i * n + j0..][..width];
                for k in k0..k0 + depth {
                    let x = a[i * n + k];
                    for (c, y) in row.iter_mut().zip(&b[k * n + j0..][..width]) {
                        *c += x * y;
                    }
                }
            }
        }
    }
}
