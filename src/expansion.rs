//! What the expansion of `gemm!` calls. Hidden from the documentation, and free to change with the macro.

use ptx_gemm_dsl::interpolate::{self, AsSchedule, Piece};
use ptx_gemm_dsl::{Diagnostics, Schedule};

use crate::gemm::Gemm;

impl AsSchedule for Gemm {
    fn as_schedule(&self) -> &Schedule {
        self.schedule()
    }
}

/// A schedule that the macro has checked, from its canonical text.
pub fn checked(text: &str) -> Gemm {
    // The text was parsed and checked while the crate was compiled, by the same library: this does not fail. If two
    // versions of it were ever mixed, the schedule without clauses would be refused with words wherever it is used.
    Gemm::unchecked(text.parse().unwrap_or_default())
}

/// A schedule that only the running program knows whole.
pub fn constructed(pieces: &[Piece<'_>], base: &impl AsSchedule, place: &str) -> Result<Gemm, Diagnostics> {
    interpolate::construct(pieces, base.as_schedule(), place).map(Gemm::unchecked)
}
