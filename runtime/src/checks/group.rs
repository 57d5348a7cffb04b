//! Launches of `batch(grouped)`: the list of products, and the entry that suits all of them.

use std::collections::BTreeSet;

use ptx_gemm_codegen::Interface;
use ptx_gemm_codegen::tile::interface::Entry;
use ptx_gemm_codegen::tile::record::RECORD_ALIGN;
use ptx_gemm_dsl::terms::Param;
use ptx_gemm_dsl::types::{Batch, Problem};
use ptx_gemm_interp::TensorMapArgs;

use crate::arguments::Arguments;
use crate::checks::{Extents, entry, overlap};
use crate::error::{ArgumentError, Refusal};
use crate::launch::{Argument, Checked, Copied, Launch, Packed, Start, Unsuited, Value};

/// The products of a group, each with its record.
type Products<'a> = &'a [(Extents, Arguments)];

/// Turns checked shapes and device pointers into a launch of the first entry that suits every product; `None` if there
/// is nothing to compute. Its grid has a block for each tile; a persistent grid has fewer blocks.
pub(crate) fn group(interface: &Interface, products: Products<'_>) -> Result<Option<Checked>, ArgumentError> {
    let problem = &*interface.problem;
    if problem.batch != Batch::Grouped {
        return Err(ArgumentError::NoGroup { products: products.len(), batch: problem.batch.to_string() });
    }
    let full: Vec<(usize, &(Extents, Arguments))> =
        products.iter().enumerate().filter(|(_, (extents, _))| extents.m > 0 && extents.n > 0).collect();
    if full.is_empty() {
        return Ok(None);
    }
    for (index, (_, arguments)) in &full {
        overlap::check(problem, arguments).map_err(|error| in_product(*index, error))?;
    }
    let arguments: Vec<&Arguments> = products.iter().map(|(_, arguments)| arguments).collect();
    overlap::between(problem, &arguments)?;
    let (entry, unsuited_product, unsuited) = pick(interface, &full)?;
    let chosen = &interface.entries[entry];
    let sum =
        |of: &dyn Fn(Extents) -> u64| full.iter().fold(0u64, |sum, (_, (of_one, _))| sum.saturating_add(of(*of_one)));
    let (count, limit) = (products.len(), entry::MAX_GRID);
    let batch = u32::try_from(count).map_err(|_| ArgumentError::ExtentTooLarge {
        name: "batch",
        got: count,
        limit: u32::MAX,
    })?;
    let scalars = &full[0].1.1;
    let extents = Extents { m: 0, n: 0, k: 0, batch };
    let mut kernels = Vec::new();
    for (index, kernel) in chosen.launches.iter().enumerate() {
        // Kernels that pack are launched for each product separately.
        let packs = chosen.packings.iter().any(|packing| packing.launches.contains(&index));
        let tiles = if packs { 0 } else { sum(&|extents| kernel.grid.units(extents.into())) };
        let all = u32::try_from(tiles).ok().filter(|_| tiles <= limit);
        let all = all.ok_or(ArgumentError::GroupTiles { products: count, tiles, limit })?;
        let args = entry::arguments(problem, kernel, extents, scalars, (Packed::default(), all));
        // With stream-K several blocks may share a tile.
        let shares = if packs { 0 } else { sum(&|extents| kernel.grid.shares(extents.into())) };
        let grid = shares.min(limit) as u32;
        kernels.push(Start { grid, args });
    }
    let copies = copies(chosen, problem, products)?;
    let mut list = Vec::new();
    for (extents, arguments) in order(chosen, products).into_iter().map(|product| &products[product]) {
        if let Some(record) = &chosen.record {
            list.extend(record.encode(|param| entry::field(param, *extents, arguments)));
        }
    }
    let list_maps = list_maps(interface, chosen, products, &copies);
    let packed = Packed::default();
    let list_at = 0;
    let launch = Launch { entry, packed, kernels, list, list_at, copies, zero: None, unsuited, unsuited_product };
    Ok(Some(Checked { launch, list_maps }))
}

/// The order of the products in the list. If tiles have different numbers of columns, those that take longest come
/// first. Then blocks compute tiles of about the same cost at a time, read the same operands while these are in the L2
/// cache, and end with the small ones.
fn order(entry: &Entry, products: Products<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..products.len()).collect();
    if let Some(narrow) = entry.narrow {
        order.sort_by_key(|product| std::cmp::Reverse(narrow.cost(products[*product].0.into())));
    }
    order
}

/// The operands that TMA cannot copy as they are.
fn copies(entry: &Entry, problem: &Problem, products: Products<'_>) -> Result<Vec<Copied<Argument>>, ArgumentError> {
    let (mut copies, mut offset) = (Vec::new(), 0u64);
    for (record, product) in order(entry, products).into_iter().enumerate() {
        let (extents, arguments) = &products[product];
        if extents.m == 0 || extents.n == 0 {
            continue;
        }
        let packed = entry::packed(entry, arguments);
        for packing in entry.packings.iter().filter(|packing| packed.holds(packing.operand)) {
            let bytes = packing.bytes((*extents).into());
            let place = offset;
            offset = offset.saturating_add(bytes);
            for kernel in packing.launches.clone() {
                let launch = &entry.launches[kernel];
                let grid = entry::grid(launch, *extents).map_err(|error| in_product(product, error))?;
                let args = entry::arguments(problem, launch, *extents, arguments, (Packed::default(), 0));
                let start = Start { grid, args };
                let (operand, extents) = (packing.operand, *extents);
                copies.push(Copied { record, extents, operand, offset: place, kernel, start, bytes });
            }
        }
    }
    Ok(copies)
}

/// The tensor maps of a group's copies in a workspace at this address, each with its byte offset in the list.
pub(super) fn maps_of_copies(
    interface: &Interface,
    workspace: u64,
    launch: &Launch<Argument>,
) -> Vec<(usize, TensorMapArgs)> {
    let entry = &interface.entries[launch.entry];
    let Some((record, main)) = entry.record.as_ref().zip(entry.main()) else { return Vec::new() };
    let of = |copy: &Copied<Argument>| {
        let map = main.maps.iter().find(|map| map.operand == copy.operand)?;
        let packing = entry.packings.iter().find(|packing| packing.operand == copy.operand)?;
        let address = launch.first_copy(workspace) + copy.offset;
        let args = entry::packed_map_args(map, packing, &interface.problem, copy.extents, address);
        Some((copy.record * record.bytes as usize + record.map_offset(copy.operand)?, args))
    };
    launch.copies.iter().filter_map(of).collect()
}

/// The tensor maps of every product of a group, of operands as they are, each with its byte offset in the list. The map of an
/// empty matrix stays zero. So do the maps of a product without tiles, which did not influence the choice of the entry: nothing
/// is copied.
fn list_maps(
    interface: &Interface,
    entry: &Entry,
    products: Products<'_>,
    copies: &[Copied<Argument>],
) -> Vec<(usize, TensorMapArgs)> {
    let Some((record, main)) = entry.record.as_ref().zip(entry.main()) else { return Vec::new() };
    let copied: BTreeSet<_> = copies.iter().map(|copy| (copy.record, copy.operand)).collect();
    let mut maps = Vec::new();
    let in_order = order(entry, products).into_iter().map(|product| &products[product]).enumerate();
    for (index, (extents, arguments)) in in_order.filter(|(_, (of, _))| of.m > 0 && of.n > 0) {
        for map in main.maps.iter().filter(|map| !copied.contains(&(index, map.operand))) {
            let args = entry::map_args(map, &interface.problem, *extents, arguments);
            if let (Some(args), Some(offset)) = (args, record.map_offset(map.operand)) {
                maps.push((index * record.bytes as usize + offset, args));
            }
        }
    }
    maps
}

/// A launch for a list that is in device memory already: `count` records at `address`, with at most `tiles` tiles.
/// `aligned` says that every product meets the requirements of the first entry without tensor maps.
pub(crate) fn list(
    interface: &Interface,
    (address, count): (u64, u32),
    tiles: Option<u64>,
    aligned: bool,
    scalars: Vec<f64>,
) -> Result<Option<Launch>, ArgumentError> {
    let problem = &*interface.problem;
    if problem.batch != Batch::Grouped {
        return Err(ArgumentError::NoGroup { products: count as usize, batch: problem.batch.to_string() });
    }
    if !address.is_multiple_of(RECORD_ALIGN.into()) {
        return Err(ArgumentError::ListAddress { address, bytes: RECORD_ALIGN });
    }
    if count == 0 || tiles == Some(0) {
        return Ok(None);
    }
    let without_maps = |entry: &Entry| entry.record.as_ref().is_some_and(|record| !record.has_maps());
    let entry = interface.entries.iter().position(|entry| without_maps(entry) && (aligned || entry.suits_all()));
    let entry = entry.ok_or(ArgumentError::ListEntry)?;
    let grid = u32::try_from(tiles.unwrap_or(u64::MAX).min(entry::MAX_GRID)).unwrap_or(u32::MAX);
    let value = |param: &Param| match *param {
        Param::Problems => Value::U64(address),
        Param::Batch => Value::U32(count),
        Param::Tiles => Value::U32(0),
        Param::Scalar(index) => entry::scalar(problem.types.epilogue(), scalars.get(index).copied().unwrap_or(0.0)),
        _ => Value::U64(0),
    };
    let start = |params: &[Param]| Start { grid, args: params.iter().map(value).collect() };
    let kernels = interface.entries[entry].launches.iter().map(|kernel| start(&kernel.params)).collect();
    let (packed, unsuited) = (Packed::default(), [None; 6]);
    let (list, list_at, copies) = (Vec::new(), 0, Vec::new());
    Ok(Some(Launch { entry, packed, kernels, list, list_at, copies, zero: None, unsuited, unsuited_product: None }))
}

/// The first entry that has its requirements met by every product; and the first product that does not meet those of
/// the entry before it, with the reasons.
fn pick(
    interface: &Interface,
    products: &[(usize, &(Extents, Arguments))],
) -> Result<(usize, Option<usize>, Unsuited), ArgumentError> {
    let unsuited = |entry: &Entry| {
        products.iter().find_map(|(index, (extents, arguments))| {
            let found = entry::unsuited(entry, &interface.problem, *extents, arguments);
            found.iter().any(Option::is_some).then_some((*index, found))
        })
    };
    let (mut product, mut before) = (None, [None; 6]);
    for (index, entry) in interface.entries.iter().enumerate() {
        match unsuited(entry) {
            None => return Ok((index, product, before)),
            Some((of, found)) => (product, before) = (Some(of), found),
        }
    }
    let refusal = |entry: &Entry| {
        let (index, found) = unsuited(entry).unwrap_or((0, [None; 6]));
        let reasons = found.iter().flatten().map(|fault| format!("product {index}: {fault}")).collect();
        Refusal { entry: entry.name.clone(), reasons }
    };
    let entries = interface.entries.iter().map(refusal).collect();
    Err(ArgumentError::NoEntry { entries })
}

/// The error about one product of a group.
pub(crate) fn in_product(index: usize, error: ArgumentError) -> ArgumentError {
    ArgumentError::InProduct { index, error: Box::new(error) }
}
