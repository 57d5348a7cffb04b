//! The ladder: one table of all cases, from the first kernel of each report to the best, with the cost of each.
//!
//! Without a GPU the figures are the compiler's, the interpreter's counts next to the formula of the CUDA SGEMM
//! worklog, and, if NVIDIA's assembler is found, registers and spills. Times come from a callback that can measure
//! them.

mod table;

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::{Schedule, Target};
use ptx_gemm_runtime::Kernel;
use rayon::prelude::*;
use serde::Serialize;

use crate::cases::{Case, REPORTS};
use crate::error::CheckError;
use crate::figures::{Assembler, Figures, How};
use crate::profile::MATRIX_PRODUCT;

/// How long to wait for the assembler, case by case.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures one case on any device; `None` where it cannot.
pub type Timer<'a> = dyn Fn(&Case, &Kernel) -> Option<Timing> + Sync + 'a;

/// The options of a ladder.
#[derive(Default)]
pub struct Climb<'a> {
    /// Compile for this target instead of each case's own.
    pub target: Option<Target>,
    /// The compute capability of the GPU that measures the times. Cases are compiled for it if nothing names a target.
    pub gpu: Option<u32>,
    /// The assembler, which reports registers, spills and machine instructions.
    pub assembler: Option<Assembler>,
    /// The function that measures times.
    pub timer: Option<&'a Timer<'a>>,
}

/// Every rung, in order.
#[derive(Clone, Debug, Serialize)]
pub struct Ladder {
    /// The assembler's version, if there is one.
    pub assembler: Option<String>,
    /// Ordered by report and by position in it; where the report gives none, by the counted figures.
    pub rungs: Vec<Rung>,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct Rung {
    /// Its name.
    pub case: String,
    /// Where it comes from.
    pub origin: String,
    /// What it demonstrates.
    pub point: String,
    /// The schedule in canonical form, on one line.
    pub clauses: String,
    /// Its cost.
    #[serde(flatten)]
    pub figures: Figures,
    /// The measurement.
    pub timing: Option<Timing>,
}

/// A measured product.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// M, N and K.
    pub size: [usize; 3],
    /// Median time.
    pub ms: f64,
    /// Spread of the times, as a share of the median.
    pub noise: f64,
    /// cuBLAS on the same data.
    pub cublas_ms: Option<f64>,
}

impl Timing {
    /// 10^12 operations a second.
    pub fn tflops(&self) -> f64 {
        2.0 * self.size.iter().map(|&extent| extent as f64).product::<f64>() / self.ms / 1e9
    }

    /// The speed as a share of cuBLAS's.
    pub fn share(&self) -> Option<f64> {
        self.cublas_ms.map(|cublas| cublas / self.ms)
    }
}

impl Climb<'_> {
    /// Compiles, runs, counts and assembles cases. `progress` is called after each with the number done, the total, and its name.
    pub fn run(&self, all: &[Case], progress: impl Fn(usize, usize, &str) + Sync) -> Result<Ladder, CheckError> {
        let done = AtomicUsize::new(0);
        let rung = |case: &Case| {
            let rung = self.rung(case)?;
            progress(done.fetch_add(1, Relaxed) + 1, all.len(), case.name);
            Ok(rung)
        };
        let mut rungs: Vec<Rung> = all.par_iter().map(rung).collect::<Result<_, CheckError>>()?;
        if let Some(timer) = self.timer {
            // One at a time: nothing else may run during a measurement.
            for (rung, case) in rungs.iter_mut().zip(all) {
                let kernel = self.kernel(&schedule(case)?)?;
                rung.timing = timer(case, &kernel);
            }
        }
        rungs.sort_by(Rung::order);
        let assembler = self.assembler.as_ref().map(|assembler| assembler.version().to_string());
        Ok(Ladder { assembler, rungs })
    }

    fn kernel(&self, schedule: &Schedule) -> Result<Arc<Kernel>, CheckError> {
        match (self.target, schedule.target_on(self.gpu)) {
            (Some(target), _) => Ok(Kernel::compile(schedule, Some(target))?),
            // The newest general target lacks the instructions of a specific one such as sm_90a.
            (None, on) => Ok(Kernel::compile(schedule, on).or_else(|_| Kernel::compile(schedule, None))?),
        }
    }

    fn rung(&self, case: &Case) -> Result<Rung, CheckError> {
        let schedule = schedule(case)?;
        // A rung is the cost of one launch; `strassen` makes several.
        let kernel = self.kernel(&schedule.clone().without(Key::Strassen))?;
        let how = How { assembler: self.assembler.as_ref(), patience: PATIENCE, ..How::default() };
        let figures = Figures::of(&kernel, &how)?;
        let lines: Vec<String> = schedule.to_string().lines().map(str::to_string).collect();
        Ok(Rung {
            case: case.name.into(),
            origin: case.origin().into(),
            point: case.point(),
            clauses: lines.join(" "),
            figures,
            timing: None,
        })
    }
}

fn schedule(case: &Case) -> Result<Schedule, CheckError> {
    Ok(case.schedule().map_err(ptx_gemm_runtime::Error::from)?)
}

impl Rung {
    /// The report and the numbers of the section or kernel in it. A case without them comes last in its report. The project's
    /// own cases follow, in the order: multiply-adds, tensor cores, f32 from narrower products.
    fn place(&self) -> Vec<u32> {
        let named = |part: &str| {
            let found = REPORTS.iter().position(|report| part.contains(report))?;
            let (_, place) = part.split_once(REPORTS[found])?;
            Some((found, place.to_string()))
        };
        let reference = self.origin.split(';').find_map(named);
        if reference.is_none() {
            let is_matrix = self.figures.mix.iter().any(|kind| kind.name == MATRIX_PRODUCT);
            return vec![u32::MAX, u32::from(is_matrix) + u32::from(self.figures.relative_error.is_some())];
        }
        let mut place: Vec<u32> = reference.iter().map(|(report, _)| *report as u32).collect();
        let numbers = reference.iter().flat_map(|(_, place)| place.split(|c: char| !c.is_ascii_digit()));
        place.extend(numbers.filter_map(|number| number.parse::<u32>().ok()));
        if place.len() < 2 {
            place.push(u32::MAX);
        }
        place
    }

    /// The merit of a kernel: operations per byte, then savings in loads, in conflicts, in words.
    fn worth(&self) -> [f64; 4] {
        let figures = &self.figures;
        let (conflicts, words) = (figures.bank_conflicts as f64, figures.shared_words_per_fma);
        [figures.formula_intensity, -figures.loads_per_fma, -conflicts, -words]
    }

    fn order(&self, other: &Rung) -> Ordering {
        let worth = self.worth().iter().zip(other.worth()).map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne());
        let worth = worth.unwrap_or(Ordering::Equal);
        self.place().cmp(&other.place()).then(worth).then_with(|| self.case.cmp(&other.case))
    }
}

#[cfg(test)]
mod tests {
    use super::{Climb, Rung, Timing};
    use crate::cases;

    /// Cases that differ in their place.
    const PLACED: [&str; 11] = [
        "naive_uncoalesced",
        "thread_1d",
        "vectorized_km",
        "direct_2x2",
        "direct_16x16",
        "tma_volatile",
        "mma",
        "mma_e4m3",
        "naive",
        "strassen",
        "warp_tiled",
    ];

    /// The cases that show an order: every case climbs in `gemmc ladder`, which is tested as well.
    #[test]
    fn cases_are_rungs() {
        let climbs = |name: &str| PLACED.contains(&name) || name.starts_with("emulate_");
        let all: Vec<_> = cases().filter(|case| climbs(case.name)).collect();
        let count = all.len();
        let timer = |_: &crate::Case, _: &ptx_gemm_runtime::Kernel| {
            Some(Timing { size: [4096; 3], ms: 4.0, noise: 0.01, cublas_ms: Some(3.0) })
        };
        let heard = std::sync::atomic::AtomicUsize::new(0);
        let climb = Climb { timer: Some(&timer), gpu: Some(90), ..Climb::default() };
        let ladder = climb.run(&all, |_, _, _| _ = heard.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).unwrap();
        assert_eq!(ladder.rungs.len(), count);
        let on_gpu = |rung: &Rung| rung.figures.target.starts_with("sm_90") || rung.clauses.contains("target(");
        assert!(ladder.rungs.iter().all(on_gpu), "that of the GPU, or that of the schedule");
        assert_eq!(heard.into_inner(), ladder.rungs.len());
        assert!(ladder.rungs.iter().all(|rung| rung.figures.ok && rung.figures.bytes == rung.figures.formula_bytes));
        let seeds: Vec<u32> = ladder.rungs.iter().map(|rung| rung.place()[0]).collect();
        assert!(seeds.is_sorted(), "{seeds:?}");
        let at = |name| ladder.rungs.iter().position(|rung| rung.case == name).expect(name);
        assert!(at("naive_uncoalesced") < at("thread_1d") && at("vectorized_km") < at("warp_tiled"));
        assert!(at("direct_2x2") < at("direct_16x16"));
        // The last rungs are f32 from narrower products, after everything on tensor cores.
        assert!(ladder.rungs.is_sorted_by_key(|rung| rung.case.starts_with("emulate_")), "{ladder}");
        assert!(at("tma_volatile") < at("mma") && at("strassen") < at("mma"));
        assert_eq!(ladder.rungs[0].timing.as_ref().and_then(Timing::share), Some(0.75));
        let text = ladder.to_string();
        assert!(text.contains("34.36") && text.contains("75 %"), "{text}");
    }
}
