//! Functions that the expansion of `gemm!` calls. They are hidden from the documentation and may change with the macro.

use ptx_gemm_dsl::interpolate::{self, AsSchedule, Piece};
use ptx_gemm_dsl::open::Filled;
use ptx_gemm_dsl::{Diagnostics, Schedule};

use crate::gemm::Gemm;

impl AsSchedule for Gemm {
    fn as_schedule(&self) -> &Schedule {
        self.schedule()
    }
}

/// A schedule that the macro has checked, from its canonical text.
pub fn checked(text: &str) -> Gemm {
    // The same library parsed and checked the text while the crate was compiled, so this does not fail. If two versions
    // of the library were ever mixed, the empty schedule would be rejected with a message wherever it is used.
    Gemm::unchecked(text.parse().unwrap_or_default())
}

/// The same, with what the macro has chosen for open values: the names of clauses; product, GPU and reason; the estimated milliseconds.
pub fn chosen(text: &str, names: &[&str], [size, gpu, why]: [&str; 3], ms: f64) -> Gemm {
    let schedule: Schedule = text.parse().unwrap_or_default();
    let clauses = schedule.clauses().filter(|clause| names.contains(&clause.name())).cloned().collect();
    let filled = Filled { clauses, size: size.into(), gpu: gpu.into(), ms, why: why.into() };
    Gemm::unchecked(schedule.with_filled(filled))
}

/// A schedule that is complete only when the program runs.
pub fn constructed(pieces: &[Piece<'_>], base: &impl AsSchedule, place: &str) -> Result<Gemm, Diagnostics> {
    interpolate::construct(pieces, base.as_schedule(), place).map(Gemm::unchecked)
}
