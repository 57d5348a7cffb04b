//! The CPU's ladder: the steps of `examples/cpu` next to libraries, on square matrices of f32.
//!
//! Products that programs call should be a library's; the steps are there to learn from.

mod libraries;
mod openblas;
mod table;

#[path = "../examples/cpu/blocked.rs"]
mod blocked;
#[path = "../examples/cpu/naive.rs"]
mod naive;
#[path = "../examples/cpu/reordered.rs"]
mod reordered;
#[path = "../examples/cpu/simd.rs"]
mod simd;
#[path = "../examples/cpu/threads.rs"]
mod threads;

use std::fs;
use std::time::{Duration, Instant};

use ptx_gemm::random::SplitMix64;
use serde::{Deserialize, Serialize};

pub use table::{plot, table};

/// The sizes of the report that the ladder follows.
pub const SIZES: [usize; 13] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// C = A B for row-major n x n matrices.
type Multiply = Box<dyn Fn(usize, &[f32], &[f32], &mut [f32])>;

/// One way to multiply.
pub struct Rung {
    /// Its name in the table.
    pub name: String,
    multiply: Multiply,
}

/// The sizes of which three matrices take at most a half of this machine's memory, where that is known.
pub fn fitting() -> Vec<usize> {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<usize>().ok()).unwrap_or(4 << 20);
    SIZES.into_iter().filter(|n| 3 * n * n * size_of::<f32>() <= kib * 1024 / 2).collect()
}

/// The CPU and its threads, in words.
pub fn host() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).and_then(|rest| rest.split(':').nth(1));
    let threads = rayon::current_num_threads();
    format!("{}, {threads} threads", model.map_or("an unknown CPU", str::trim))
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// The extent of the matrices.
    pub n: usize,
    /// Which way.
    pub rung: String,
    /// Milliseconds of one product, the least of several.
    pub ms: f64,
    /// The largest error of a sum over a row of C, as a share of its bound.
    pub max_error: f64,
}

impl Row {
    /// Its speed.
    pub fn gflops(&self) -> f64 {
        2.0 * (self.n as f64).powi(3) / self.ms / 1e6
    }
}

/// The steps, and the libraries that this machine has.
pub fn rungs() -> Vec<Rung> {
    let of = |name: &str, multiply: fn(usize, &[f32], &[f32], &mut [f32])| Rung {
        name: name.into(),
        multiply: Box::new(multiply),
    };
    let mut rungs = vec![
        of("naive", naive::multiply),
        of("reordered", reordered::multiply),
        of("blocked", blocked::multiply),
        of("simd", simd::multiply),
        of("threads", threads::multiply),
        of("matrixmultiply", libraries::matrixmultiply),
        of("faer", libraries::faer),
    ];
    if let Some(library) = openblas::Library::find() {
        rungs
            .push(Rung { name: "OpenBLAS".into(), multiply: Box::new(move |n, a, b, c| library.multiply(n, a, b, c)) });
    }
    rungs
}

/// The bounds of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// A rung is not measured at a size where one product is expected to take longer.
    pub product: Duration,
    /// A product is repeated for this long.
    pub repeat: Duration,
}

/// Measures every rung at every size; `progress` is called before each measurement.
pub fn climb(sizes: &[usize], budget: Budget, progress: &mut dyn FnMut(usize, usize, &str)) -> Vec<Row> {
    let rungs = rungs();
    let mut rows: Vec<Row> = Vec::new();
    for (size, &n) in sizes.iter().enumerate() {
        let (a, b) = (numbers(n, 1), numbers(n, 2));
        let mut c = vec![f32::NAN; n * n];
        for (index, rung) in rungs.iter().enumerate() {
            progress(size * rungs.len() + index, sizes.len() * rungs.len(), &format!("{} {n}", rung.name));
            let before = rows.iter().rev().find(|row| row.rung == rung.name);
            // The work grows with the third power, and the speed seldom does at the sizes where this matters.
            let expected = before.map_or(0.0, |row| row.ms * (n as f64 / row.n as f64).powi(3) / 1e3);
            if expected > budget.product.as_secs_f64() {
                continue;
            }
            let ms = time(|| (rung.multiply)(n, &a, &b, &mut c), budget.repeat);
            rows.push(Row { n, rung: rung.name.clone(), ms, max_error: error(n, &a, &b, &c) });
        }
    }
    rows
}

/// Milliseconds of the fastest run.
fn time(mut run: impl FnMut(), at_least: Duration) -> f64 {
    let begun = Instant::now();
    let mut best = f64::INFINITY;
    loop {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        if begun.elapsed() >= at_least {
            return best;
        }
    }
}

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut numbers = SplitMix64::new(seed);
    (0..n * n).map(|_| numbers.next_signed() as f32).collect()
}

/// C t next to A (B t) for a vector of signs, as a share of `gamma(n + 1) |A| |B|`.
fn error(n: usize, a: &[f32], b: &[f32], c: &[f32]) -> f64 {
    let mut numbers = SplitMix64::new(7);
    let signs: Vec<f64> = (0..n).map(|_| if numbers.next_u64() & 1 == 0 { 1.0 } else { -1.0 }).collect();
    let ones = vec![1.0; n];
    let by = |matrix: &[f32], vector: &[f64], term: fn(f64) -> f64| -> Vec<f64> {
        let rows = matrix.chunks_exact(n.max(1));
        rows.map(|row| row.iter().zip(vector).map(|(x, y)| term(f64::from(*x)) * y).sum()).collect()
    };
    let (got, want) = (by(c, &signs, |x| x), by(a, &by(b, &signs, |x| x), |x| x));
    let magnitude = by(a, &by(b, &ones, f64::abs), f64::abs);
    let unit = (n + 1) as f64 * 2f64.powi(-24);
    let ratio = |((got, want), magnitude): ((&f64, &f64), &f64)| (got - want).abs() / (unit * magnitude);
    // NaN is never within a bound.
    let worst = |most: f64, ratio: f64| if ratio.is_nan() { f64::INFINITY } else { most.max(ratio) };
    got.iter().zip(&want).zip(&magnitude).map(ratio).fold(0.0, worst)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Budget, climb, plot, rungs, table};

    #[test]
    fn every_rung_is_right_at_every_size() {
        let budget = Budget { product: Duration::from_secs(60), repeat: Duration::ZERO };
        let rows = climb(&[1, 2, 7, 16, 61, 130, 300], budget, &mut |_, _, _| ());
        assert_eq!(rows.len(), 7 * rungs().len());
        let wrong: Vec<_> = rows.iter().filter(|row| row.max_error > 1.0).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let text = table(&rows);
        assert!(text.contains("naive") && text.contains("\n   300"), "{text}");
        assert!(plot(&rows).starts_with("<svg"));
    }

    #[test]
    fn what_takes_too_long_is_left_out() {
        let budget = Budget { product: Duration::from_nanos(1), repeat: Duration::ZERO };
        let rows = climb(&[64, 128, 256], budget, &mut |_, _, _| ());
        assert!(rows.iter().all(|row| row.n == 64), "{rows:?}");
    }
}
