//! The named schedules: every kernel of the reports that this project started from, and those that show a mechanism of
//! its own.

use ptx_gemm_dsl::{Diagnostics, Schedule};

/// The reports that the project started from, by the names that the cases use, in the order in which they were read.
pub(crate) const REPORTS: [&str; 5] = [
    "CUDA SGEMM lab of a course",
    "CUDA tutorial cuda_learning_03",
    "CUDA SGEMM worklog",
    "course project on matrix multiplication",
    "course project on tile sizes in CUDA",
];

/// One file of `cases/`.
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

static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// Every case, by name.
pub fn cases() -> impl ExactSizeIterator<Item = Case> {
    FILES.iter().map(|&(name, text)| Case { name, text })
}

/// The case of that name. In names such as `tn_128x128`, the letters are those of BLAS (A by columns, B by rows), the numbers the
/// tile.
pub fn case(name: &str) -> Option<Case> {
    cases().find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::sums::Sums;
    use ptx_gemm_dsl::types::{Batch, DType};

    use super::cases;

    /// Accumulators are wider than D, and a tile of them may not fit where a tile of D does.
    #[test]
    fn every_schedule_is_summed_slab_by_slab() {
        for case in cases() {
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
