//! Evaluates every schedule of a space: which are legal, and which is fastest, by an estimate or on a GPU.
//!
//! ```text
//! Space -> Sweep -> judge (legal? how long, by the estimate?) -> Outcome, ranked -> time the best on a GPU -> Outcome
//! ```
//!
//! A tuner draws some schedules, takes the best, and times them:
//!
//! ```
//! use ptx_gemm_bench::suites::Size;
//! use ptx_gemm_bench::sweep::Sweep;
//!
//! let space = "tile({64, 128}, {64, 128}, {8, 16}); thread({4, 8}, 8); vector(4); {double_buffer | }".parse()?;
//! let sweep = Sweep::new(space).size(Size::cube(2048)).sample(20, 1);
//! let outcome = sweep.run(|_| ())?;
//! assert_eq!(outcome.legal.len() as u64 + outcome.illegal.iter().map(|group| group.count).sum::<u64>(), 20);
//! for candidate in outcome.legal.iter().take(3) {
//!     println!("{:.3} ms, bound by {}: {}", candidate.estimate.ms, candidate.estimate.bound, candidate.schedule);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Timing is [`timing::time`]: it takes the candidates of an outcome and a command that starts a worker process, which
//! is `gemmc sweep-worker` or any program that calls [`worker::serve`]. It is a separate process, so that a kernel that
//! never ends loses only its own row.

pub mod ranking;
pub mod report;
pub mod timing;
pub mod worker;

mod illegal;
mod keep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ptx_gemm::Target;
use ptx_gemm::random::SplitMix64;
use ptx_gemm_choose::{Found, Legal, RuledOut, Search};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::suites::Size;

pub use illegal::Illegal;
pub use ptx_gemm_choose::{Bound, Estimate, Gpu, estimate, target};

pub use keep::Kept;
pub use ptx_gemm_dsl::{Combination, Space};

/// The maximum number of combinations that are judged in one run, which takes some minutes.
pub const MOST: u128 = 20_000_000;

/// The schedules of a space, for one product on one GPU.
#[derive(Clone, Debug)]
pub struct Sweep {
    space: Space,
    size: Size,
    gpu: Gpu,
    target: Option<Target>,
    sample: Option<(u64, u64)>,
    interrupt: Arc<AtomicBool>,
}

/// A legal schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The number of its combination in the space.
    pub index: u128,
    /// Its canonical text, in one line.
    pub schedule: String,
    /// The estimate of the cost model.
    pub estimate: Estimate,
    /// The result of timing it; `None` if it was not timed.
    pub timed: Option<Result<Measured, Failed>>,
}

/// The time on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Milliseconds: the median.
    pub ms: f64,
    /// cuBLAS's, if it computes this product.
    pub cublas_ms: Option<f64>,
    /// cuBLAS's time over ours.
    pub ratio: Option<f64>,
    /// The distance between the quartiles, relative to the median.
    pub spread: f64,
}

/// Why a schedule has no time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The kind: wrong, rejected, or not terminating.
    pub how: Failure,
    /// The reason in words.
    pub what: String,
}

/// Kinds of [`Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// The result is wrong.
    Wrong,
    /// No element of the result could be compared.
    Uncompared,
    /// The schedule, the device or cuBLAS reported an error.
    Refused,
    /// The kernel did not end, or crashed the process.
    Hung,
}

/// Illegal combinations that break the same rule first.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The rule's name.
    pub rule: String,
    /// Their number.
    pub count: u64,
    /// The number of the first of them.
    pub index: u128,
    /// Its text.
    pub example: String,
    /// Why it is illegal.
    pub reason: Illegal,
}

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Combinations of the space.
    pub combinations: u128,
    /// Legal ones, the best first: by time where there is one, then by estimate; those that failed last.
    pub legal: Vec<Candidate>,
    /// Illegal ones by rule, most frequent first.
    pub illegal: Vec<Group>,
}

/// Why a sweep has no outcome.
#[derive(Debug)]
pub enum SweepError {
    /// More combinations than [`MOST`], and no sample was requested.
    TooMany(u128),
}

impl std::fmt::Display for SweepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SweepError::TooMany(count) => {
                write!(
                    f,
                    "there are {count} combinations, and {MOST} at most are judged: draw some of them, or leave some out"
                )
            }
        }
    }
}

impl std::error::Error for SweepError {}

impl Sweep {
    /// All combinations, for a product of 4096 cubed on an H200.
    pub fn new(space: Space) -> Sweep {
        let (gpu, interrupt) = (Gpu::h200().clone(), Arc::default());
        Sweep { space, size: Size::cube(4096), gpu, target: None, sample: None, interrupt }
    }

    /// Another product.
    pub fn size(self, size: Size) -> Sweep {
        Sweep { size, ..self }
    }

    /// Another GPU to estimate for.
    pub fn gpu(self, gpu: Gpu) -> Sweep {
        Sweep { gpu, ..self }
    }

    /// Compiles for this target, regardless of what the GPU could run.
    pub fn target(self, target: Option<Target>) -> Sweep {
        Sweep { target, ..self }
    }

    /// Only `count` different combinations, drawn at random; all of them if there are not more.
    pub fn sample(self, count: u64, seed: u64) -> Sweep {
        Sweep { sample: Some((count, seed)), ..self }
    }

    /// Judges nothing more once this is true: the outcome then covers the combinations before.
    pub fn until(self, interrupt: Arc<AtomicBool>) -> Sweep {
        Sweep { interrupt, ..self }
    }

    /// The number of combinations that are judged.
    ///
    /// # Errors
    ///
    /// [`SweepError::TooMany`].
    pub fn count(&self) -> Result<u64, SweepError> {
        let all = self.space.len();
        let count = self.sample.map_or(all, |(count, _)| all.min(count.into()));
        u64::try_from(count).ok().filter(|_| count <= MOST).ok_or(SweepError::TooMany(count))
    }

    /// The numbers of the combinations that are judged, in ascending order; `None` for all of them.
    fn indices(&self) -> Result<Option<Vec<u128>>, SweepError> {
        let (count, all) = (self.count()?, self.space.len());
        let Some((_, seed)) = self.sample.filter(|_| u128::from(count) < all) else { return Ok(None) };
        // Floyd's algorithm: one draw per number, all numbers different, every set equally probable.
        let mut random = SplitMix64::new(seed);
        let mut chosen = BTreeSet::new();
        for last in all - u128::from(count)..all {
            let drawn = (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())) % (last + 1);
            chosen.insert(if chosen.contains(&drawn) { last } else { drawn });
        }
        Ok(Some(chosen.into_iter().collect()))
    }

    /// Judges the combinations on all cores. `progress` is called from any of them, with the number of combinations that have been
    /// settled since the last call.
    ///
    /// # Errors
    ///
    /// There are too many combinations.
    pub fn run(&self, progress: impl Fn(u64) + Sync) -> Result<Outcome, SweepError> {
        let search = Search {
            space: &self.space,
            given: None,
            size: self.size,
            gpu: &self.gpu,
            target: self.target,
            in_halves: None,
        };
        let progress = |settled: u128| progress(settled.try_into().unwrap_or(u64::MAX));
        let found = match self.indices()? {
            None => search.run(&self.interrupt, &progress),
            Some(drawn) => drawn
                .into_par_iter()
                .filter(|_| !self.interrupt.load(Ordering::Relaxed))
                .filter_map(|index| self.space.combination(index))
                .map(|combination| {
                    progress(1);
                    search.one(&combination)
                })
                .reduce(Found::default, Found::and),
        };
        let schedule = |index: u128| self.space.combination(index).and_then(|found| search.schedule(&found).ok());
        let candidate = |one: Legal| {
            let schedule = schedule(one.index)?.to_string().trim_end().replace('\n', " ");
            Some(Candidate { index: one.index, schedule, estimate: one.estimate, timed: None })
        };
        let mut illegal: Vec<Group> =
            found.illegal.iter().map(|(rule, group)| self.group(rule, *group, &search)).collect();
        illegal.sort_by(|x, y| y.count.cmp(&x.count).then(x.rule.cmp(&y.rule)));
        let legal = found.legal.into_par_iter().filter_map(candidate).collect();
        let mut outcome = Outcome { combinations: self.space.len(), legal, illegal };
        outcome.rank();
        Ok(outcome)
    }

    /// The first of the combinations that break a rule, with the reason and what to do about it.
    fn group(&self, rule: &str, RuledOut { count, first }: RuledOut, search: &Search) -> Group {
        let combination = self.space.combination(first);
        let reason = combination.as_ref().and_then(|combination| Illegal::of(rule, combination, search));
        let example = combination.map_or(String::new(), |combination| combination.text().into());
        let unknown = || Illegal { rule: rule.into(), message: String::new(), help: None };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Group { rule: rule.into(), count, index: first, example, reason: reason.unwrap_or_else(unknown) }
    }
}

impl Candidate {
    /// The order of candidates: those that were timed, by time; then by estimate; those that failed last.
    pub fn compare(&self, other: &Candidate) -> std::cmp::Ordering {
        let key = |one: &Candidate| match &one.timed {
            Some(Ok(measured)) => (0, measured.ms),
            None => (1, one.estimate.ms),
            Some(Err(_)) => (2, one.estimate.ms),
        };
        let (own, others) = (key(self), key(other));
        own.0.cmp(&others.0).then(own.1.total_cmp(&others.1)).then(self.index.cmp(&other.index))
    }
}

impl Outcome {
    /// Sorts the candidates, once times are known.
    pub fn rank(&mut self) {
        self.legal.sort_by(Candidate::compare);
    }

    /// The number of judged combinations.
    pub fn judged(&self) -> u64 {
        self.legal.len() as u64 + self.illegal.iter().map(|group| group.count).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::{Schedule, Target};

    use super::{Gpu, estimate, target};
    use crate::suites::Size;

    #[test]
    fn tensor_cores_are_estimated_as_such() {
        let tflops = |text: &str| {
            let schedule: Schedule = text.parse().unwrap();
            let plan = schedule.plan(target(&schedule, Gpu::h200())).unwrap();
            let size = Size::cube(8192);
            size.operations() / estimate(&plan, size, Gpu::h200()).unwrap().ms / 1e9
        };
        let fma = tflops("types(bf16); tile(128, 128, 16); thread(8, 8); vector(8); double_buffer;");
        let mma =
            tflops("types(bf16); tile(128, 128, 32); warp(64, 64); atom(mma(16, 8, 16)); load(cp_async); stages(4);");
        let wgmma = tflops(
            "types(bf16); tile(128, 256, 64); atom(wgmma(64, 256, 16)); load(tma); stages(4); specialize(producers = 1); \
             registers(producer = 24, consumer = 240);",
        );
        let emulated = ["bf16x3", "f16x3", "bf16x6"].map(|mode| {
            tflops(&format!(
                "emulate({mode}); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(2); \
                 specialize(producers = 1); registers(producer = 24, consumer = 240); promote(every = 64)",
            ))
        });
        assert!(emulated[0] > emulated[1] && emulated[1] > 1.5 * emulated[2], "{emulated:?}");
        // An H200 reaches 235 by f16x3 and 134 by bf16x6.
        assert!((180.0..300.0).contains(&emulated[1]) && (100.0..170.0).contains(&emulated[2]), "{emulated:?}");
        assert!(fma < 70.0 && (200.0..700.0).contains(&mma) && (600.0..1071.0).contains(&wgmma), "{fma} {mma} {wgmma}");
    }

    #[test]
    fn a_target_of_one_generation_is_taken_where_it_is_needed() {
        let of = |text: &str| target(&text.parse().unwrap(), Gpu::h200());
        assert_eq!(of("types(bf16); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma);"), Some(Target::SM_90A));
        assert_eq!(of("types(bf16); tile(128, 128, 32); warp(64, 64); atom(mma(16, 8, 16));"), Some(Target::SM_90));
        assert_eq!(of("target(sm_80); tile(32, 32, 8); thread(2, 2);"), Some(Target::SM_80));
    }
}
