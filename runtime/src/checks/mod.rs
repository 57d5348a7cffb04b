//! Launch checks: every error that can be found before a launch reaches the device.
//!
//! They are pure: shapes, pointers and scalars in, a [`Launch`] or an error out. The order is the one in which errors
//! are most useful to a user: types, layouts and extents first, then leading dimensions and slices (`shapes`), the
//! epilogue's own arguments (`scalars`), overlaps (`overlap`), and finally the limits of the launch itself (`entry`).

mod entry;
mod overlap;
mod scalars;
mod shapes;

use ptx_gemm_codegen::Interface;

use crate::arguments::Arguments;
use crate::error::ArgumentError;
use crate::launch::{Launch, Start};

pub(crate) use entry::notes;
pub(crate) use scalars::{GivenVector, check_c, resolve_scalars, resolve_vectors};
pub(crate) use shapes::{Extents, extents, slice};

/// Turns checked shapes and device pointers into a launch of the first entry that suits them; `None` if there is nothing to
/// compute.
pub(crate) fn launch(
    interface: &Interface,
    extents: Extents,
    arguments: &Arguments,
) -> Result<Option<Launch>, ArgumentError> {
    if extents.m == 0 || extents.n == 0 || extents.batch == 0 {
        return Ok(None);
    }
    overlap::check(&interface.problem, arguments)?;
    let (entry, unsuited) = entry::pick(interface, extents, arguments)?;
    let start = |kernel| {
        let grid = entry::grid(kernel, extents)?;
        Ok(Start { grid, args: entry::values(&interface.problem, &kernel.params, extents, arguments) })
    };
    let kernels = interface.entries[entry].launches.iter().map(start).collect::<Result<_, ArgumentError>>()?;
    Ok(Some(Launch { entry, kernels, unsuited }))
}

/// Recomputes the arguments of every kernel once there is a workspace.
pub(crate) fn pass(interface: &Interface, extents: Extents, arguments: &Arguments, launch: &mut Launch) {
    for (kernel, start) in interface.entries[launch.entry].launches.iter().zip(&mut launch.kernels) {
        start.args = entry::values(&interface.problem, &kernel.params, extents, arguments);
    }
}
