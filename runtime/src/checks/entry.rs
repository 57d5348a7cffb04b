//! The launch itself: entry, grids, and argument values.

use ptx_gemm_codegen::Interface;
use ptx_gemm_codegen::tile::interface::{Entry, KernelLaunch, Requires};
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::terms::Param;
use ptx_gemm_dsl::types::Problem;

use crate::arguments::Arguments;
use crate::checks::Extents;
use crate::error::{ArgumentError, OperandName, Refusal};
use crate::launch::{Fault, Launch, Unsuited, Value};

/// Blocks along x that every device takes (CUDA C++ Programming Guide, "Technical specifications per compute
/// capability").
const MAX_GRID: u64 = (1 << 31) - 1;

/// Blocks of a kernel, one for each unit of work. A persistent grid has fewer.
pub(crate) fn grid(kernel: &KernelLaunch, extents: Extents) -> Result<u32, ArgumentError> {
    let blocks = kernel.grid.units(extents.m.into(), extents.n.into(), extents.batch.into());
    u32::try_from(blocks).ok().filter(|_| blocks <= MAX_GRID).ok_or(ArgumentError::Grid {
        m: extents.m as usize,
        n: extents.n as usize,
        tile_m: kernel.grid.tile.0,
        tile_n: kernel.grid.tile.1,
        blocks,
        limit: MAX_GRID,
    })
}

/// The first entry whose requirements hold, and why the one before it was unsuitable.
pub(crate) fn pick(
    interface: &Interface,
    extents: Extents,
    arguments: &Arguments,
) -> Result<(usize, Unsuited), ArgumentError> {
    let mut before = [None; 5];
    for (index, entry) in interface.entries.iter().enumerate() {
        let found = unsuited(entry, extents, arguments);
        if found.iter().all(Option::is_none) {
            return Ok((index, before));
        }
        before = found;
    }
    let refusal = |entry: &Entry| {
        let reasons = unsuited(entry, extents, arguments).iter().flatten().map(Fault::to_string).collect();
        Refusal { entry: entry.name.clone(), reasons }
    };
    Err(ArgumentError::NoEntry { entries: interface.entries.iter().map(refusal).collect() })
}

/// A note for the user about the choice of the entry.
pub(crate) fn notes(interface: &Interface, launch: &Launch) -> Vec<String> {
    let mut notes: Vec<String> = launch.unsuited.iter().flatten().map(Fault::to_string).collect();
    if let (Some(last), Some(entry)) = (notes.last_mut(), interface.entries.get(launch.entry)) {
        let kind = if entry.requires.is_empty() { "scalar".into() } else { format!("`{}`", entry.name) };
        last.push_str(&format!(": running the {kind} entry"));
    }
    notes
}

fn unsuited(entry: &Entry, extents: Extents, arguments: &Arguments) -> Unsuited {
    let mut found = [None; 5];
    for requires in &entry.requires {
        found[requires.operand as usize] = misaligned(*requires, arguments);
    }
    let undivided = entry.undivided(extents.m.into(), extents.n.into(), extents.k.into());
    found[4] = undivided.map(|(name, got, tile)| Fault::Extent { name, got, tile });
    found
}

fn misaligned(requires: Requires, arguments: &Arguments) -> Option<Fault> {
    let Requires { operand, elements: width, bytes } = requires;
    let matrix = arguments.matrix(operand)?;
    if matrix.shape.is_empty() {
        return None;
    }
    let (operand, address) = (OperandName(operand), matrix.address);
    let (ld, stride) = (matrix.shape.ld, matrix.stack.stride);
    if matrix.shape.runs() > 1 && !(ld as u64).is_multiple_of(width.into()) {
        return Some(Fault::Ld { operand, ld, width });
    }
    if matrix.stack.count > 1 && !(stride as u64).is_multiple_of(width.into()) {
        return Some(Fault::Stride { operand, stride, width });
    }
    (!address.is_multiple_of(bytes.into())).then_some(Fault::Address { operand, address, bytes })
}

/// Argument values in the order of a kernel's parameters.
pub(crate) fn values(problem: &Problem, params: &[Param], extents: Extents, arguments: &Arguments) -> Vec<Value> {
    let value = |param: &Param| match *param {
        Param::Matrix(operand) => Value::U64(arguments.matrix(operand).map_or(0, |matrix| matrix.address)),
        Param::Ld(operand) => Value::U64(arguments.matrix(operand).map_or(0, |matrix| matrix.shape.ld as u64)),
        Param::Vector(index) => Value::U64(arguments.vectors.get(index).map_or(0, |vector| vector.address)),
        Param::M => Value::U32(extents.m),
        Param::N => Value::U32(extents.n),
        Param::K => Value::U32(extents.k),
        Param::Scalar(index) => scalar(problem.types.acc, arguments.scalars.get(index).copied().unwrap_or(0.0)),
        Param::Batch => Value::U32(extents.batch),
        Param::BatchStride(operand) => {
            Value::U64(arguments.matrix(operand).map_or(0, |matrix| matrix.stack.stride as u64))
        }
        Param::Workspace => Value::U64(arguments.workspace),
    };
    params.iter().map(value).collect()
}

fn scalar(acc: DType, value: f64) -> Value {
    match acc {
        DType::F64 => Value::F64(value),
        DType::I32 => Value::I32(value as i32),
        _ => Value::F32(value as f32),
    }
}
