//! Launch checks: everything that can be known to be wrong before a device sees the launch.
//!
//! They are pure: shapes, pointers and scalars in, a [`Launch`] or an error out. The order is the one in which a user
//! would want to hear of a mistake: types, layouts and extents first, then leading dimensions and slices (`shapes`),
//! the epilogue's own arguments (`scalars`), overlaps (`overlap`), and last what the launch itself allows (`entry`).

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

/// The arguments of every kernel anew, once there is a workspace.
pub(crate) fn pass(interface: &Interface, extents: Extents, arguments: &Arguments, launch: &mut Launch) {
    for (kernel, start) in interface.entries[launch.entry].launches.iter().zip(&mut launch.kernels) {
        start.args = entry::values(&interface.problem, &kernel.params, extents, arguments);
    }
}
