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
use crate::launch::{Argument, Checked, Copied, Launch, Start, Value};

pub(crate) use entry::notes;
pub(crate) use group::{group, in_product, list};
pub(crate) use overlap::check as overlap;
pub(crate) use scalars::{GivenVector, check_c, resolve_scalars, resolve_vectors};
pub(crate) use shapes::{Extents, extents, slice};

/// Turns checked shapes and device pointers into a launch of the first entry that suits them; `None` if there is nothing to
/// compute.
pub(crate) fn launch(
    interface: &Interface,
    extents: Extents,
    arguments: &Arguments,
) -> Result<Option<Checked>, ArgumentError> {
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
        Ok(Start { grid, args: entry::arguments(&interface.problem, kernel, extents, arguments, (packed, 0)) })
    };
    let kernels = chosen.launches.iter().enumerate().map(start).collect::<Result<_, ArgumentError>>()?;
    let (list, list_at, copies) = (Vec::new(), 0, Vec::new());
    let launch = Launch { entry, packed, kernels, list, list_at, copies, zero: None, unsuited, unsuited_product: None };
    Ok(Some(Checked { launch, list_maps: Vec::new() }))
}

/// The launch with its workspace at this address and with its tensor maps encoded.
pub(crate) fn placed(
    interface: &Interface,
    extents: Extents,
    workspace: u64,
    Checked { launch, list_maps }: Checked,
    encode: impl Fn(&TensorMapArgs) -> Result<[u8; 128], Error>,
) -> Result<Launch, Error> {
    let entry = &interface.entries[launch.entry];
    let copies = [Operand::A, Operand::B].map(|operand| workspace + launch.packed_offset(entry, extents, operand));
    let copy = |operand| if operand == Operand::A { copies[0] } else { copies[1] };
    let packing = |operand| entry.packings.iter().find(|packing| packing.operand == operand);
    let mut kernels = Vec::new();
    for (start, kernel) in launch.kernels.iter().zip(&entry.launches) {
        let in_workspace = |param: &Param| match *param {
            Param::Problems => Ok(Value::U64(workspace + launch.list_at)),
            Param::Packed(operand) => Ok(Value::U64(copy(operand))),
            Param::Scales(operand) => {
                let offset = packing(operand).map_or(0, |packing| packing.scales_offset(extents.into()));
                Ok(Value::U64(copy(operand) + offset))
            }
            Param::Map(operand) => {
                let map = kernel.maps.iter().find(|map| map.operand == operand);
                let (Some(map), Some(packing)) = (map, packing(operand)) else { return Ok(Value::map([0; 128])) };
                let args = entry::packed_map_args(map, packing, &interface.problem, extents, copy(operand));
                Ok(Value::map(encode(&args)?))
            }
            _ => Ok(Value::U64(workspace)),
        };
        kernels.push(start.placed(&encode, in_workspace)?);
    }
    let maps_of_copies = group::maps_of_copies(interface, workspace, &launch);
    let first = launch.first_copy(workspace);
    let Launch { entry, packed, mut list, list_at, copies, zero, unsuited, unsuited_product, .. } = launch;
    let copied = |Copied { record, extents, operand, offset, kernel, start, bytes }: Copied<Argument>| {
        let start = start.placed(&encode, |_| Ok(Value::U64(first + offset)))?;
        Ok(Copied { record, extents, operand, offset, kernel, start, bytes })
    };
    let copies = copies.into_iter().map(copied).collect::<Result<_, Error>>()?;
    for (at, args) in list_maps.into_iter().chain(maps_of_copies) {
        list[at..][..128].copy_from_slice(&encode(&args)?);
    }
    Ok(Launch { entry, packed, kernels, list, list_at, copies, zero, unsuited, unsuited_product })
}
