//! The CPU's ladder: the steps of `examples/cpu` next to libraries, on square matrices of f32.
//!
//! The steps are for learning; programs should call a library.

#[cfg(feature = "cpu-libraries")]
mod libraries;
mod memory;
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

pub use memory::{SizeError, available, fitting};
pub use table::{left_out, plot, table};

/// The sizes in the report that the ladder follows.
pub const SIZES: [usize; 13] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// C = A B for row-major n x n matrices.
type Multiply = Box<dyn Fn(usize, &[f32], &[f32], &mut [f32])>;

/// One implementation.
pub struct Rung {
    /// Its name in the table.
    pub name: String,
    multiply: Multiply,
}

/// The CPU and its threads, and those of OpenBLAS where there is one, in words.
pub fn host() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).and_then(|rest| rest.split(':').nth(1));
    let threads = rayon::current_num_threads();
    let mut words = format!("{}, {threads} threads", model.map_or("an unknown CPU", str::trim));
    if let Some(library) = openblas::Library::find(threads) {
        let threads = library.threads.map_or("an unknown number".into(), |threads| threads.to_string());
        words.push_str(&format!("; OpenBLAS with {threads}"));
    }
    words
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// The extent of the matrices.
    pub n: usize,
    /// The implementation's name.
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

/// The steps, and the libraries found on this machine.
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
    ];
    #[cfg(feature = "cpu-libraries")]
    rungs.extend([of("matrixmultiply", libraries::matrixmultiply), of("faer", libraries::faer)]);
    if let Some(library) = openblas::Library::find(rayon::current_num_threads()) {
        rungs
            .push(Rung { name: "OpenBLAS".into(), multiply: Box::new(move |n, a, b, c| library.multiply(n, a, b, c)) });
    }
    rungs
}

/// The bounds of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// A rung is skipped at a size where one product is expected to take longer.
    pub product: Duration,
    /// A product is repeated for this long.
    pub repeat: Duration,
}

/// A product that was not measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LeftOut {
    /// The extent of the matrices.
    pub n: usize,
    /// The implementation's name.
    pub rung: String,
    /// About how long one product would take, in seconds.
    pub seconds: f64,
}

/// What was measured, and what was not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Climb {
    /// The measurements.
    pub rows: Vec<Row>,
    /// What would have taken too long.
    pub left_out: Vec<LeftOut>,
}

/// The size of the first probe.
const PROBE: usize = 128;
/// A product that takes this long predicts larger ones.
const TELLING: Duration = Duration::from_millis(100);

/// Measures every rung at every size; `progress` is called before each measurement.
///
/// # Errors
///
/// Returns an error if memory does not suffice for a size: before the first measurement, if the system reports its free memory.
pub fn climb(
    sizes: &[usize],
    budget: Budget,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Climb, SizeError> {
    memory::check(sizes)?;
    let rungs = rungs();
    let Climb { mut rows, mut left_out } = Climb::default();
    for (size, &n) in sizes.iter().enumerate() {
        let (a, b) = (numbers(n, 1)?, numbers(n, 2)?);
        let mut c = memory::matrix(n, || f32::NAN)?;
        for (index, rung) in rungs.iter().enumerate() {
            progress(size * rungs.len() + index, sizes.len() * rungs.len(), &format!("{} {n}", rung.name));
            let before: Option<&Row> = rows.iter().rev().find(|row| row.rung == rung.name);
            let seconds = expected(rung, n, before.map(|row| (row.n, row.ms)), budget.product)?;
            if seconds > budget.product.as_secs_f64() {
                left_out.push(LeftOut { n, rung: rung.name.clone(), seconds });
                continue;
            }
            let ms = time(|| (rung.multiply)(n, &a, &b, &mut c), budget.repeat);
            rows.push(Row { n, rung: rung.name.clone(), ms, max_error: error(n, &a, &b, &c) });
        }
    }
    Ok(Climb { rows, left_out })
}

/// Seconds of one product, from smaller ones: the one measured `before`, its size and milliseconds, and larger ones until it
/// is clear that the limit is exceeded. Small products alone do not predict it, since threads and caches change the speed.
fn expected(rung: &Rung, n: usize, before: Option<(usize, f64)>, limit: Duration) -> Result<f64, SizeError> {
    let probe = |n: usize| -> Result<(usize, f64), SizeError> {
        let (a, b, mut c) = (numbers(n, 1)?, numbers(n, 2)?, memory::matrix(n, || 0.0)?);
        Ok((n, time(|| (rung.multiply)(n, &a, &b, &mut c), Duration::ZERO)))
    };
    let mut last = match before {
        Some(before) => before,
        None if n <= PROBE => return Ok(0.0),
        None => probe(PROBE)?,
    };
    loop {
        let (size, ms) = last;
        let seconds = ms / 1e3 * (n as f64 / size as f64).powi(3);
        let exceeds = seconds > limit.as_secs_f64() && ms >= TELLING.as_secs_f64() * 1e3;
        if exceeds || size.saturating_mul(2) >= n {
            return Ok(seconds);
        }
        last = probe(2 * size)?;
    }
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

fn numbers(n: usize, seed: u64) -> Result<Vec<f32>, SizeError> {
    let mut numbers = SplitMix64::new(seed);
    memory::matrix(n, || numbers.next_signed() as f32)
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
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use super::{Budget, Climb, Rung, SizeError, climb, expected, left_out, plot, rungs, table};

    fn climbed(sizes: &[usize], budget: Budget) -> Climb {
        climb(sizes, budget, &mut |_, _, _| ()).unwrap()
    }

    #[test]
    fn every_rung_is_right_at_every_size() {
        let budget = Budget { product: Duration::from_secs(60), repeat: Duration::ZERO };
        let Climb { rows, left_out } = climbed(&[1, 2, 7, 16, 61, 130, 300], budget);
        assert_eq!((rows.len(), left_out), (7 * rungs().len(), Vec::new()));
        let wrong: Vec<_> = rows.iter().filter(|row| row.max_error > 1.0).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let text = table(&rows);
        assert!(text.contains("naive") && text.contains("\n   300"), "{text}");
        assert!(plot(&rows).starts_with("<svg"));
    }

    #[test]
    fn what_takes_too_long_is_left_out() {
        let budget = Budget { product: Duration::from_nanos(1), repeat: Duration::ZERO };
        let climb = climbed(&[64, 128, 256], budget);
        assert!(climb.rows.iter().all(|row| row.n == 64), "{climb:?}");
        assert_eq!(climb.left_out.len(), 2 * rungs().len());
        let text = left_out(&climb.left_out, budget.product);
        let naive = text.lines().find(|line| line.contains("naive")).unwrap();
        assert!(naive.contains(" 128: about ") && naive.contains(", 256: about "), "{text}");
        // Also at the first size.
        let climb = climbed(&[300], budget);
        assert_eq!((climb.rows.len(), climb.left_out.len()), (0, rungs().len()));
        let text = left_out(&climb.left_out, budget.product);
        assert!(text.starts_with("left out") && text.contains("\n  naive          300: about "), "{text}");
        let no_room = super::climb(&[16, usize::MAX], budget, &mut |_, _, _| panic!("something was measured"));
        assert!(matches!(no_room, Err(SizeError::Memory { n: usize::MAX, .. })), "{no_room:?}");
    }

    /// An implementation with a known time: it sleeps.
    #[test]
    fn a_large_product_is_judged_by_the_first_one_that_tells() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = sizes.clone();
        // 10 ms at 128 and at 256, as if threads had to start, and 240 ms at 512.
        let sleeps = move |n: usize, _: &[f32], _: &[f32], _: &mut [f32]| {
            seen.lock().unwrap().push(n);
            thread::sleep(Duration::from_millis(if n <= 256 { 10 } else { 30 * (n as u64 / 256).pow(3) }));
        };
        let rung = Rung { name: "sleeps".into(), multiply: Box::new(sleeps) };
        let seconds = |n, before, limit| expected(&rung, n, before, Duration::from_secs(limit)).unwrap();
        // 16 times the size takes 4096 times as long.
        let slow = seconds(8192, None, 10);
        assert!((900.0..2000.0).contains(&slow), "{slow}");
        assert_eq!(sizes.lock().unwrap().drain(..).collect::<Vec<_>>(), [128, 256, 512]);
        // Nothing is repeated that has been measured.
        let slow = seconds(8192, Some((512, 240.0)), 10);
        assert!((983.0..984.0).contains(&slow), "{slow}");
        assert_eq!((seconds(100, None, 10), sizes.lock().unwrap().len()), (0.0, 0));
    }
}
