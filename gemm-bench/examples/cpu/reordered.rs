//! The same three loops in another order: the innermost one runs along rows of B and C.
//!
//! All accesses are now contiguous, and the compiler multiplies several columns at once. Each element of C is read and
//! written for every k, and all of B passes through the cache for every row of A.

/// C = A B, n x n, row major.
pub fn multiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    c.fill(0.0);
    for (a, c) in a.chunks_exact(n.max(1)).zip(c.chunks_exact_mut(n.max(1))) {
        for (x, b) in a.iter().zip(b.chunks_exact(n)) {
            for (c, y) in c.iter_mut().zip(b) {
                *c += x * y;
            }
        }
    }
}
