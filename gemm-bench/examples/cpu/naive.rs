//! Three loops, as the definition has them: each element of C is a row of A times a column of B.
//!
//! The column is the problem: neighbouring elements are n apart, so each costs a whole cache line for one number.

/// C = A B, n x n, row major.
pub fn multiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    for i in 0..n {
        for j in 0..n {
            let mut sum = 0.0;
            for k in 0..n {
                sum += a[i * n + k] * b[k * n + j];
            }
            c[i * n + j] = sum;
        }
    }
}
