//! The named schedules: every kernel of the reports that this project started from, and the tuned schedules.

use ptx_gemm_dsl::{Diagnostics, Schedule};

/// The reports that the project started from, by the names that the cases use, in the order in which they were read.
pub(crate) const REPORTS: [&str; 5] = [
    "CUDA SGEMM lab of a course",
    "CUDA tutorial cuda_learning_03",
    "CUDA SGEMM worklog",
    "course project on matrix multiplication",
    "course project on tile sizes in CUDA",
];

/// One file of `cases/` or `tuned/`.
///
/// Its first comment line names the origin of the kernel; the following lines say what it demonstrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The file's stem.
    pub name: &'static str,
    /// The whole file.
    pub text: &'static str,
}

impl Case {
    /// Where the kernel comes from: the first comment line.
    pub fn origin(&self) -> &'static str {
        self.comments().next().unwrap_or_default()
    }

    /// What it demonstrates: the comment lines after the first.
    pub fn point(&self) -> String {
        self.comments().skip(1).collect::<Vec<_>>().join(" ")
    }

    /// The schedule. The tests of this crate check that every case parses.
    pub fn schedule(&self) -> Result<Schedule, Diagnostics> {
        self.text.parse()
    }

    fn comments(&self) -> impl Iterator<Item = &'static str> {
        self.text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim)
    }
}

static TUNED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/tuned.rs"));
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// Every case, by name.
pub fn cases() -> impl ExactSizeIterator<Item = Case> {
    FILES.iter().map(|&(name, text)| Case { name, text })
}

/// The schedules that are meant to be fast, by name; `gemmc bench` compares them with cuBLAS.
///
/// Names are those of BLAS: `nn_256x128` reads A and B row by row, `tn_…` A column by column; the numbers are the tile.
pub fn tuned() -> impl ExactSizeIterator<Item = Case> {
    TUNED.iter().map(|&(name, text)| Case { name, text })
}

/// The case or tuned schedule of that name.
pub fn case(name: &str) -> Option<Case> {
    cases().chain(tuned()).find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::sums::Sums;
    use ptx_gemm_dsl::types::{Batch, DType};

    use super::{cases, tuned};

    /// Accumulators are wider than D, and a tile of them may not fit where a tile of D does.
    #[test]
    fn every_schedule_is_summed_slab_by_slab() {
        for case in cases().chain(tuned()) {
            let schedule = case.schedule().unwrap();
            let problem = schedule.problem().unwrap();
            // `large` supports neither groups, which are many products, nor f16 accumulators.
            if problem.batch == Batch::Grouped || problem.types.acc == DType::F16 {
                continue;
            }
            for part in Sums::of(&schedule).unwrap().schedules() {
                assert!(part.plan(None).is_ok(), "{}: {part}: {:?}", case.name, part.plan(None).err());
            }
        }
    }
}
