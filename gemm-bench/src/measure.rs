//! Measures a kernel and its rivals with alternating samples.
//!
//! A sample is a number of launches between two events: enough for about a millisecond, or for one pass over all copies
//! of the operands. Kernels so short that the gaps between launches would matter are recorded into graphs. Samples of
//! the kernels alternate, so that changes of the clock affect all of them, and the medians of the ratios are reported.

use std::thread;
use std::time::{Duration, Instant};

use ptx_gemm::Error;
use ptx_gemm::cuda::{Enqueue, Graph, Queue};

/// The minimum duration of a sample, in milliseconds.
const SAMPLE: f64 = 1e-3;
/// Kernels below this are recorded into graphs.
const SHORT: f64 = 50e-6;
/// The maximum number of launches in a sample.
const LAUNCHES: f64 = 512.0;
/// Samples of each kernel, unless that takes longer than [`BUDGET`]; and the minimum number.
const SAMPLES: usize = 25;
const FEWEST: usize = 3;
/// Seconds for all samples of a row. A kernel that alone takes this long is measured once.
const BUDGET: f64 = 6.0;
/// Samples of each of several candidates for the same product, unless that takes longer than [`TRIAL`] seconds.
const TRIALS: usize = 5;
const TRIAL: f64 = 0.1;
/// Seconds of warm-up, after which the clock has reached its rate.
const WARM_UP: f64 = 0.03;

/// The measured times, in milliseconds per launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Ours: the median.
    pub ms: f64,
    /// cuBLAS's, if it computes this product.
    pub cublas_ms: Option<f64>,
    /// cuBLAS's time over ours: above 1, ours is faster.
    pub ratio: Option<f64>,
    /// The time of the best of cuBLASLt's proposals, if it computes this product.
    pub cublaslt_ms: Option<f64>,
    /// That time over ours.
    pub cublaslt_ratio: Option<f64>,
    /// The distance between the quartiles of the ratio to cuBLAS (of our times without cuBLAS), relative to the median.
    pub spread: f64,
    /// How many samples were taken.
    pub samples: usize,
    /// How they were launched.
    pub how: How,
}

/// How the launches of a sample are submitted to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// One by one.
    Stream,
    /// Recorded into a graph, because the gaps between launches would matter.
    Graph,
}

/// Kernels that compute the same: ours, and those of its rivals, each on each copy of the operands. A rival that does not
/// compute the product has none.
pub(crate) struct Sides<'a> {
    pub(crate) ours: Vec<&'a dyn Enqueue>,
    pub(crate) cublas: Vec<&'a dyn Enqueue>,
    pub(crate) cublaslt: Vec<&'a dyn Enqueue>,
}

/// One of the kernels: its launch on each copy of the operands.
struct Side<'a> {
    work: Vec<&'a dyn Enqueue>,
    graph: Option<Graph<'a>>,
    /// Launches in a sample.
    launches: usize,
    /// The copy that is used next.
    next: usize,
    samples: Vec<f64>,
}

/// When to measure: `rest` is a pause before each sample, in which the GPU cools down.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) rest: Duration,
    pub(crate) deadline: Instant,
}

/// Measures all sides, alternating.
pub(crate) fn measure(queue: &Queue, sides: Sides<'_>, pace: Pace) -> Result<Times, Error> {
    let Sides { ours, cublas, cublaslt } = sides;
    let mut sides = [ours, cublas, cublaslt].map(|work| (!work.is_empty()).then(|| Side::new(work)));
    let mut seconds = [None; 3];
    for (side, seconds) in sides.iter_mut().zip(&mut seconds) {
        *seconds = side.as_mut().map(|side| side.warm_up(queue)).transpose()?;
    }
    let how = if seconds.iter().flatten().any(|&one| one < SHORT) { How::Graph } else { How::Stream };
    let mut round = 0.0;
    for (side, seconds) in sides.iter_mut().flatten().zip(seconds.iter().flatten()) {
        side.plan(queue, how, *seconds)?;
        round += side.launches as f64 * seconds;
    }
    let samples = samples(round);
    for sample in 0..samples {
        // Each side goes first in some samples.
        for index in 0..sides.len() {
            let next = (sample + index) % sides.len();
            if let Some(side) = &mut sides[next] {
                thread::sleep(pace.rest);
                side.sample(queue)?;
            }
        }
        if sample + 1 >= FEWEST && Instant::now() >= pace.deadline {
            break;
        }
    }
    Ok(times(sides.map(|side| side.map_or(Vec::new(), |side| side.samples)), how))
}

/// The number of samples of each side that fit the budget, if one of each takes this many seconds. Rests do not count,
/// since the user asked for them.
fn samples(round: f64) -> usize {
    let fewest = if round > BUDGET { 1 } else { FEWEST };
    ((BUDGET / round) as usize).clamp(fewest, SAMPLES)
}

/// The index of the fastest of several candidates for the same product; `None` if none of them runs. Candidates that report
/// an error are left out.
pub(crate) fn fastest(queue: &Queue, ways: Vec<Vec<&dyn Enqueue>>) -> Option<usize> {
    let time = |work| -> Result<f64, Error> {
        let mut side = Side::new(work);
        let seconds = side.warm_up(queue)?;
        side.plan(queue, if seconds < SHORT { How::Graph } else { How::Stream }, seconds)?;
        let samples = ((TRIAL / (side.launches as f64 * seconds)) as usize).clamp(1, TRIALS);
        (0..samples).try_for_each(|_| side.sample(queue))?;
        Ok(quantile(side.samples, 0.5))
    };
    let timed = ways.into_iter().enumerate().filter_map(|(index, work)| Some((index, time(work).ok()?)));
    timed.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(index, _)| index)
}

impl<'a> Side<'a> {
    fn new(work: Vec<&'a dyn Enqueue>) -> Side<'a> {
        Side { work, graph: None, launches: 1, next: 0, samples: Vec::new() }
    }

    /// The next `count` launches, going round over the copies.
    fn round(&mut self, count: usize) -> Vec<&'a dyn Enqueue> {
        let all = self.work.len();
        let round = (0..count).map(|index| self.work[(self.next + index) % all]).collect();
        self.next = (self.next + count) % all;
        round
    }

    /// Runs until the clock has reached its rate; returns the seconds per launch.
    fn warm_up(&mut self, queue: &Queue) -> Result<f64, Error> {
        let start = Instant::now();
        let mut count = 1;
        loop {
            let work = self.round(count);
            let seconds = queue.time(&work)?.as_secs_f64() / count as f64;
            let long = start.elapsed() >= Duration::from_secs_f64(WARM_UP);
            // The first launch is not representative of later ones, unless it takes long.
            if long && (count > 1 || seconds > WARM_UP) {
                return Ok(seconds.max(1e-7));
            }
            count = ((SAMPLE / seconds.max(1e-7)) as usize).clamp(2, 64);
        }
    }

    fn plan(&mut self, queue: &Queue, how: How, seconds: f64) -> Result<(), Error> {
        let wanted = (SAMPLE / seconds).ceil().clamp(1.0, LAUNCHES) as usize;
        self.launches = wanted;
        if how == How::Graph {
            self.launches = wanted.max(self.work.len());
            let round = self.round(self.launches);
            let graph = queue.record(&round)?;
            // The first replay of a graph sets it up.
            queue.time(&[&graph])?;
            self.graph = Some(graph);
        }
        Ok(())
    }

    fn sample(&mut self, queue: &Queue) -> Result<(), Error> {
        let time = match &self.graph {
            Some(graph) => queue.time(&[graph])?,
            None => {
                let round = self.round(self.launches);
                queue.time(&round)?
            }
        };
        self.samples.push(time.as_secs_f64() * 1e3 / self.launches as f64);
        Ok(())
    }
}

/// From the samples of our kernel, of cuBLAS and of cuBLASLt; a rival may have none.
fn times([ours, cublas, cublaslt]: [Vec<f64>; 3], how: How) -> Times {
    let ratios =
        |theirs: &[f64]| -> Vec<f64> { theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect() };
    let median = |samples: &[f64]| (!samples.is_empty()).then(|| quantile(samples.to_vec(), 0.5));
    let to_cublas = ratios(&cublas);
    let judged = if to_cublas.is_empty() { &ours } else { &to_cublas };
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(judged.clone(), share));
    Times {
        ms: quantile(ours.clone(), 0.5),
        cublas_ms: median(&cublas),
        ratio: median(&to_cublas),
        cublaslt_ms: median(&cublaslt),
        cublaslt_ratio: median(&ratios(&cublaslt)),
        spread: (high - low) / middle,
        samples: ours.len(),
        how,
    }
}

/// A quantile, with linear interpolation.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = share * values.len().saturating_sub(1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => low + (high - low) * at.fract(),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::{How, quantile, times};

    #[test]
    fn ratios_are_of_samples_taken_in_the_same_turn() {
        // The clock halves in the last round, for all sides.
        let (ours, cublas, cublaslt) = (vec![2.0, 2.0, 4.0], vec![3.0, 3.0, 6.0], vec![1.0, 1.0, 2.0]);
        let all = times([ours.clone(), cublas.clone(), cublaslt], How::Stream);
        assert_eq!((all.ms, all.cublas_ms, all.cublaslt_ms), (2.0, Some(3.0), Some(1.0)));
        assert_eq!((all.ratio, all.cublaslt_ratio, all.spread, all.samples), (Some(1.5), Some(0.5), 0.0, 3));
        let two = times([ours.clone(), cublas, Vec::new()], How::Stream);
        assert_eq!((two.ratio, two.cublaslt_ms, two.cublaslt_ratio), (Some(1.5), None, None));
        let alone = times([ours, Vec::new(), Vec::new()], How::Stream);
        assert_eq!((alone.cublas_ms, alone.ratio, alone.spread), (None, None, 0.5));
    }

    #[test]
    fn quantiles_lie_between() {
        let values = || vec![4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(values(), 0.5), 2.5);
        assert_eq!(quantile(values(), 0.25), 1.75);
        assert_eq!(quantile(values(), 1.0), 4.0);
        assert_eq!(quantile(vec![7.0], 0.75), 7.0);
        assert!(quantile(Vec::new(), 0.5).is_nan());
    }
}
