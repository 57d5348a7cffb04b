//! The ladder: one table over all cases, from the first kernel of each report to the best, with what each costs.
//!
//! Without a GPU the figures are those that can be known: the compiler's, what the interpreter counts beside the formula of the CUDA SGEMM worklog,
//! and, where NVIDIA's assembler is found, what it makes of the text. Times come from whoever can measure them.

mod assembler;
#[cfg(feature = "plot")]
mod plot;
mod sass;
mod table;

use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ptx_gemm_dsl::Target;
use ptx_gemm_runtime::Kernel;
use rayon::prelude::*;
use serde::Serialize;

pub use assembler::{Assembled, Assembler};
#[cfg(feature = "plot")]
pub use plot::{PlotError, plot};
pub use sass::Loop;

use crate::cases::{Case, REPORTS, cases};
use crate::error::CheckError;
use crate::profile::Profile;

/// Measures one case, on whatever it can measure on; `None` where it cannot.
pub type Timer<'a> = dyn Fn(&Case, &Kernel) -> Option<Timing> + Sync + 'a;

/// How to climb.
#[derive(Default)]
pub struct Climb<'a> {
    /// Compile for this target instead of each case's own.
    pub target: Option<Target>,
    /// What counts registers, spills and the instructions of the machine.
    pub assembler: Option<Assembler>,
    /// What measures times.
    pub timer: Option<&'a Timer<'a>>,
}

/// Every rung, in order.
#[derive(Clone, Debug, Serialize)]
pub struct Ladder {
    /// The assembler's version, if there is one.
    pub assembler: Option<String>,
    /// By report and by place in it; where the report gives none, by what is counted.
    pub rungs: Vec<Rung>,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct Rung {
    /// Its name.
    pub case: String,
    /// Where it comes from.
    pub origin: String,
    /// What it is there to show.
    pub point: String,
    /// The schedule in canonical form, on one line.
    pub clauses: String,
    /// Compiled for.
    pub target: String,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// What NVIDIA's assembler says.
    pub assembled: Option<Assembled>,
    /// M, N and K of the product that was counted.
    pub size: [usize; 3],
    /// Loads for each multiply-add, as executed by warps.
    pub loads_per_fma: f64,
    /// Different words of shared memory that warps read for each multiply-add.
    pub shared_words_per_fma: f64,
    /// Passes over the banks of shared memory that conflicts took.
    pub bank_conflicts: u64,
    /// Sectors of 32 bytes that loads from global memory touched, as a multiple of what the same bytes fill side by side.
    pub sector_overhead: f64,
    /// Bytes of A and B that were loaded from global memory.
    pub bytes: u64,
    /// The same by the formula.
    pub formula_bytes: u64,
    /// Operations for each of these bytes.
    pub intensity: f64,
    /// The same by the formula.
    pub formula_intensity: f64,
    /// The largest error, in units of its bound.
    pub max_error: f64,
    /// Whether every element was right.
    pub ok: bool,
    /// What was measured.
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
    /// Compiles, runs, counts and assembles every case; `progress` hears of each one that is done: how many, of how many,
    /// and which.
    pub fn run(&self, progress: impl Fn(usize, usize, &str) + Sync) -> Result<Ladder, CheckError> {
        let all: Vec<Case> = cases().collect();
        let done = AtomicUsize::new(0);
        let rung = |case: &Case| {
            let rung = self.rung(case)?;
            progress(done.fetch_add(1, Relaxed) + 1, all.len(), case.name);
            Ok(rung)
        };
        let mut rungs: Vec<Rung> = all.par_iter().map(rung).collect::<Result<_, CheckError>>()?;
        if let Some(timer) = self.timer {
            // One at a time: nothing else may run beside what is timed.
            for (rung, case) in rungs.iter_mut().zip(&all) {
                let kernel = Kernel::compile(&schedule(case)?, self.target)?;
                rung.timing = timer(case, &kernel);
            }
        }
        rungs.sort_by(Rung::order);
        let assembler = self.assembler.as_ref().map(|assembler| assembler.version().to_string());
        Ok(Ladder { assembler, rungs })
    }

    fn rung(&self, case: &Case) -> Result<Rung, CheckError> {
        let schedule = schedule(case)?;
        let kernel = Kernel::compile(&schedule, self.target)?;
        let (target, acc) = (kernel.target(), kernel.problem().types.acc);
        let profile = Profile::of(&kernel)?;
        let assembler = self.assembler.as_ref();
        let assembled = assembler.and_then(|a| a.assemble(kernel.ptx(), target, &profile.entry, acc));
        let loads = &profile.cost.global_loads;
        let lines: Vec<String> = schedule.to_string().lines().map(str::to_string).collect();
        Ok(Rung {
            case: case.name.into(),
            origin: case.origin().into(),
            point: case.point(),
            clauses: lines.join(" "),
            target: target.to_string(),
            threads: kernel.interface().threads(),
            shared_bytes: kernel.interface().shared_bytes(),
            assembled,
            size: [profile.size.m, profile.size.n, profile.size.k],
            loads_per_fma: profile.loads_per_fma(),
            shared_words_per_fma: profile.per_fma(profile.cost.shared_loads.words),
            bank_conflicts: profile.bank_conflicts(),
            sector_overhead: loads.sectors as f64 / loads.ideal.max(1) as f64,
            bytes: profile.bytes(),
            formula_bytes: profile.formula_bytes,
            intensity: profile.intensity(),
            formula_intensity: profile.formula_intensity(),
            max_error: profile.max_error,
            ok: profile.is_right,
            timing: None,
        })
    }
}

fn schedule(case: &Case) -> Result<ptx_gemm_dsl::Schedule, CheckError> {
    Ok(case.schedule().map_err(ptx_gemm_runtime::Error::from)?)
}

impl Rung {
    /// The report and the numbers of the section or kernel in it. A place without them comes last in its report.
    fn place(&self) -> Vec<u32> {
        let named = |part: &str| {
            let found = REPORTS.iter().position(|report| part.contains(report))?;
            let (_, place) = part.split_once(REPORTS[found])?;
            Some((found, place.to_string()))
        };
        let reference = self.origin.split(';').find_map(named);
        let mut place: Vec<u32> = reference.iter().map(|(report, _)| *report as u32).collect();
        let numbers = reference.iter().flat_map(|(_, place)| place.split(|c: char| !c.is_ascii_digit()));
        place.extend(numbers.filter_map(|number| number.parse::<u32>().ok()));
        if place.len() < 2 {
            place.push(u32::MAX);
        }
        place
    }

    /// What a kernel is worth: what it gets out of a byte, then what it saves in loads, in conflicts, in words.
    fn worth(&self) -> [f64; 4] {
        [self.formula_intensity, -self.loads_per_fma, -(self.bank_conflicts as f64), -self.shared_words_per_fma]
    }

    fn order(&self, other: &Rung) -> Ordering {
        let worth = self.worth().iter().zip(other.worth()).map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne());
        let worth = worth.unwrap_or(Ordering::Equal);
        self.place().cmp(&other.place()).then(worth).then_with(|| self.case.cmp(&other.case))
    }
}

#[cfg(test)]
mod tests {
    use super::{Climb, Timing};

    #[test]
    fn every_case_is_a_rung() {
        let timer = |_: &crate::Case, _: &ptx_gemm_runtime::Kernel| {
            Some(Timing { size: [4096; 3], ms: 4.0, noise: 0.01, cublas_ms: Some(3.0) })
        };
        let heard = std::sync::atomic::AtomicUsize::new(0);
        let climb = Climb { timer: Some(&timer), ..Climb::default() };
        let ladder = climb.run(|_, _, _| _ = heard.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).unwrap();
        assert_eq!(ladder.rungs.len(), crate::cases().len());
        assert_eq!(heard.into_inner(), ladder.rungs.len());
        assert!(ladder.rungs.iter().all(|rung| rung.ok && rung.bytes == rung.formula_bytes));
        let seeds: Vec<u32> = ladder.rungs.iter().map(|rung| rung.place()[0]).collect();
        assert!(seeds.is_sorted(), "{seeds:?}");
        let at = |name| ladder.rungs.iter().position(|rung| rung.case == name);
        assert!(at("naive_uncoalesced") < at("thread_1d") && at("vectorized_km") < at("warp_tiled"));
        assert!(at("direct_2x2") < at("direct_16x16"));
        assert_eq!(ladder.rungs[0].timing.as_ref().and_then(Timing::share), Some(0.75));
        let text = ladder.to_string();
        assert!(text.contains("34.36") && text.contains("75 %"), "{text}");
        #[cfg(feature = "plot")]
        assert!(super::plot(&ladder).unwrap().contains("warp_tiled"));
    }
}
