//! Every core: each gets some rows of A and C, and reads all of B.

use rayon::prelude::*;

use super::simd;

/// C = A B, n x n, row major.
pub fn multiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    // Several parts for each core, so that none waits long for the last one.
    let parts = 4 * rayon::current_num_threads();
    let rows = n.div_ceil(parts).next_multiple_of(6);
    let some = (rows * n).max(1);
    c.par_chunks_mut(some).zip(a.par_chunks(some)).for_each(|(c, a)| simd::rows(n, a, b, c));
}
