//! Measures the times of two kernels alternately.
//!
//! A sample is a number of launches between two events: enough for about a millisecond, or for one pass over all copies
//! of the operands. Kernels so short that the gaps between launches would matter are recorded into graphs. Samples of
//! the two kernels alternate, so that changes of the clock affect both, and the median of the ratios is reported.

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
    /// The distance between the quartiles of the ratio (of our times without cuBLAS), relative to the median.
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

/// One of the two kernels: its launch on each copy of the operands.
struct Side<'a> {
    work: Vec<&'a dyn Enqueue>,
    graph: Option<Graph<'a>>,
    /// Launches in a sample.
    launches: usize,
    /// The copy that is used next.
    next: usize,
    samples: Vec<f64>,
}

/// Measures ours and theirs alternately; theirs may be absent.
pub(crate) fn measure<'a>(
    queue: &Queue,
    ours: Vec<&'a dyn Enqueue>,
    theirs: Vec<&'a dyn Enqueue>,
    deadline: Instant,
) -> Result<Times, Error> {
    let mut sides: Vec<Side<'a>> = [ours, theirs].into_iter().filter(|work| !work.is_empty()).map(Side::new).collect();
    let mut seconds = Vec::new();
    for side in &mut sides {
        seconds.push(side.warm_up(queue)?);
    }
    let how = if seconds.iter().any(|&one| one < SHORT) { How::Graph } else { How::Stream };
    for (side, &seconds) in sides.iter_mut().zip(&seconds) {
        side.plan(queue, how, seconds)?;
    }
    let round: f64 = sides.iter().zip(&seconds).map(|(side, one)| side.launches as f64 * one).sum();
    let fewest = if round > BUDGET { 1 } else { FEWEST };
    let samples = ((BUDGET / round) as usize).clamp(fewest, SAMPLES);
    for turn in 0..samples {
        // The two take turns at going first.
        let order: [usize; 2] = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            if let Some(side) = sides.get_mut(index) {
                side.sample(queue)?;
            }
        }
        if turn + 1 >= FEWEST && Instant::now() >= deadline {
            break;
        }
    }
    Ok(times(&sides, how))
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
            // Its first replay sets it up.
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

fn times(sides: &[Side<'_>], how: How) -> Times {
    let samples = |index: usize| sides.get(index).map(|side: &Side<'_>| side.samples.clone());
    let (ours, theirs) = (samples(0).unwrap_or_default(), samples(1));
    let ratios: Option<Vec<f64>> =
        theirs.as_ref().map(|theirs| theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect());
    let judged = ratios.clone().unwrap_or_else(|| ours.clone());
    Times {
        ms: quantile(ours.clone(), 0.5),
        cublas_ms: theirs.map(|theirs| quantile(theirs, 0.5)),
        ratio: ratios.map(|ratios| quantile(ratios, 0.5)),
        spread: (quantile(judged.clone(), 0.75) - quantile(judged.clone(), 0.25)) / quantile(judged, 0.5),
        samples: ours.len(),
        how,
    }
}

/// A quantile, between two values in proportion.
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
    use super::quantile;

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
