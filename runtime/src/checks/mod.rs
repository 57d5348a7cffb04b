//! Launch checks: every error that can be found before a launch reaches the device.
//!
//! They are pure: shapes, pointers and scalars in, a [`Launch`] or an error out. Their order makes errors most useful
//! to a user: types, layouts and extents first, then leading dimensions and slices (`shapes`), the epilogue's own
//! arguments (`scalars`), overlaps (`overlap`), and finally the limits of the launch itself (`entry`).

mod entry;
mod group;
mod overlap;
mod scalars;
mod shapes;

use ptx_gemm_codegen::Interface;
use ptx_gemm_codegen::tile::interface::Packing;
use ptx_gemm_dsl::terms::{Operand, Param};
use ptx_gemm_interp::TensorMapArgs;

use crate::arguments::Arguments;
use crate::error::{ArgumentError, Error};
use crate::launch::{Launch, MapBytes, Start, Value};

pub(crate) use entry::notes;
pub(crate) use group::{group, in_product, list, maps};
pub(crate) use overlap::check as overlap;
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
    let chosen = &interface.entries[entry];
    let packed = entry::packed(chosen, arguments);
    let start = |(index, kernel)| {
        let spared = |packing: &Packing| packing.launches.contains(&index) && !packed.holds(packing.operand);
        let grid = if chosen.packings.iter().any(spared) { 0 } else { entry::grid(kernel, extents)? };
        Ok(Start { grid, args: entry::values(&interface.problem, &kernel.params, extents, arguments) })
    };
    let kernels = chosen.launches.iter().enumerate().map(start).collect::<Result<_, ArgumentError>>()?;
    let (list, list_at, copies) = (Vec::new(), 0, Vec::new());
    Ok(Some(Launch { entry, packed, kernels, list, list_at, copies, zero: None, unsuited, unsuited_product: None }))
}

/// Passes the workspace to every kernel, once it is reserved, and the copies in it.
pub(crate) fn pass(
    interface: &Interface,
    extents: Extents,
    workspace: u64,
    launch: &mut Launch,
    encode: impl Fn(&TensorMapArgs) -> Result<[u8; 128], Error>,
) -> Result<(), Error> {
    let entry = &interface.entries[launch.entry];
    let packed = launch.packed;
    let copies = [Operand::A, Operand::B].map(|operand| workspace + launch.packed_offset(entry, extents, operand));
    let copy = |operand| if operand == Operand::A { copies[0] } else { copies[1] };
    for (kernel, start) in entry.launches.iter().zip(&mut launch.kernels) {
        for (param, value) in kernel.params.iter().zip(&mut start.args) {
            match *param {
                Param::Workspace => *value = Value::U64(workspace),
                Param::Problems => *value = Value::U64(workspace + launch.list_at),
                Param::Packed(operand) => *value = Value::U64(copy(operand)),
                Param::Scales(operand) => {
                    let packing = entry.packings.iter().find(|packing| packing.operand == operand);
                    let offset = packing.map_or(0, |packing| packing.scales_offset(extents.into()));
                    *value = Value::U64(copy(operand) + offset);
                }
                Param::Map(operand) if packed.holds(operand) => {
                    let map = kernel.maps.iter().find(|map| map.operand == operand);
                    let packing = entry.packings.iter().find(|packing| packing.operand == operand);
                    if let (Some(map), Some(packing)) = (map, packing) {
                        let address = copy(operand);
                        let args = entry::packed_map_args(map, packing, &interface.problem, extents, address);
                        *value = Value::Map(Box::new(MapBytes(encode(&args)?)));
                    }
                }
                _ => {}
            }
        }
    }
    group::pass_copies(interface, workspace, launch, encode)
}

/// Encodes the tensor maps of operands that are loaded as they are, once for the arguments of a launch.
pub(crate) fn encode(
    interface: &Interface,
    extents: Extents,
    arguments: &Arguments,
    launch: &mut Launch,
    encode: impl Fn(&TensorMapArgs) -> Result<[u8; 128], Error>,
) -> Result<(), Error> {
    for (kernel, start) in interface.entries[launch.entry].launches.iter().zip(&mut launch.kernels) {
        for map in kernel.maps.iter().filter(|map| !launch.packed.holds(map.operand)) {
            let index = kernel.params.iter().position(|param| *param == Param::Map(map.operand));
            let place = index.and_then(|index| start.args.get_mut(index));
            let args = entry::map_args(map, &interface.problem, extents, arguments);
            if let (Some(place), Some(args)) = (place, args) {
                *place = Value::Map(Box::new(MapBytes(encode(&args)?)));
            }
        }
    }
    Ok(())
}
