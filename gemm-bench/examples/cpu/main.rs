//! The CPU's ladder: one product of square matrices, by each step from three loops to all cores.
//!
//! Each step is a file of this folder, and computes C = A B for row-major n x n matrices. `gemmc ladder --cpu` measures
//! them next to libraries on many sizes; `cargo run --release -p ptx-gemm-bench --example cpu 1024` measures one size.

mod blocked;
mod naive;
mod reordered;
mod simd;
mod threads;

use std::time::Instant;

type Multiply = fn(usize, &[f32], &[f32], &mut [f32]);

fn main() {
    let n = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(512);
    let numbers = |seed: usize| (0..n * n).map(|i| ((i * 31 + seed) % 17) as f32 - 8.0).collect::<Vec<f32>>();
    let (a, b) = (numbers(1), numbers(2));
    let steps: [(&str, Multiply); 5] = [
        ("naive", naive::multiply),
        ("reordered", reordered::multiply),
        ("blocked", blocked::multiply),
        ("simd", simd::multiply),
        ("threads", threads::multiply),
    ];
    for (name, multiply) in steps {
        let mut c = vec![0.0; n * n];
        let begun = Instant::now();
        multiply(n, &a, &b, &mut c);
        let seconds = begun.elapsed().as_secs_f64();
        println!("{name:<10} {:8.2} GFLOP/s", 2.0 * (n as f64).powi(3) / seconds / 1e9);
    }
}
