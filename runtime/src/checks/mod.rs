//! Launch checks: everything that can be known to be wrong before a device sees the launch.
//!
//! They are pure: shapes, pointers and scalars in, a [`Launch`] or an error out. The order is the one in which a user
//! would want to hear of a mistake: types, layouts and extents first, then leading dimensions and slices (`shapes`),
//! the epilogue's own arguments (`scalars`), overlaps (`overlap`), and last what the launch itself allows (`entry`).

mod entry;
mod overlap;
mod scalars;
mod shapes;

use ptx_gemm_dsl::Plan;

use crate::arguments::Arguments;
use crate::backend::Launch;
use crate::error::ArgumentError;

pub(crate) use entry::{Unsuited, notes, values};
pub(crate) use scalars::{GivenVector, reads_c, resolve_scalars, resolve_vectors};
pub(crate) use shapes::{Extents, Laid, extents, slice};

/// Turns checked shapes and device pointers into a launch; `None` if there is nothing to compute.
pub(crate) fn launch(plan: &Plan, extents: Extents, arguments: &Arguments) -> Result<Option<Launch>, ArgumentError> {
    if extents.m == 0 || extents.n == 0 || extents.batch == 0 {
        return Ok(None);
    }
    overlap::check(plan, arguments)?;
    let grid = entry::grid(plan, extents)?;
    let (variant, unsuited) = entry::pick(plan, arguments);
    let args = entry::values(plan, extents, arguments);
    Ok(Some(Launch { variant, grid, args, unsuited }))
}
