//! The launch itself: entry, grids, and argument values.

use ptx_gemm_codegen::Interface;
use ptx_gemm_codegen::tile::TMA_BYTES;
use ptx_gemm_codegen::tile::interface::{Entry, KernelLaunch, Packing, Requires, TensorMap};
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::terms::{Operand, Param, Swizzle};
use ptx_gemm_dsl::types::{Batch, Problem};
use ptx_gemm_interp::{L2Promotion, Swizzle as MapSwizzle, TensorElement, TensorMapArgs};

use crate::arguments::{Arguments, DeviceMatrix};
use crate::checks::Extents;
use crate::error::{ArgumentError, OperandName, Refusal};
use crate::launch::{Argument, Fault, Launch, Packed, Unsuited, Value};

/// Blocks along x that every device supports (CUDA C++ Programming Guide, "Technical specifications per compute
/// capability").
pub(super) const MAX_GRID: u64 = (1 << 31) - 1;

/// The largest coordinate of a box, which is a signed number (PTX ISA, "cp.async.bulk.tensor").
const MAX_COORDINATE: u32 = i32::MAX as u32;

/// Bytes that the strides of a tensor map must be less than (CUDA driver API, `cuTensorMapEncodeTiled`).
const MAX_STRIDE: u64 = 1 << 40;

/// Blocks of a kernel, one for each unit of work. A persistent grid has fewer.
pub(crate) fn grid(kernel: &KernelLaunch, extents: Extents) -> Result<u32, ArgumentError> {
    let blocks = kernel.grid.units(extents.into());
    u32::try_from(blocks).ok().filter(|_| blocks <= MAX_GRID).ok_or(ArgumentError::Grid {
        m: extents.m as usize,
        n: extents.n as usize,
        tile_m: kernel.grid.tile.0,
        tile_n: kernel.grid.tile.1,
        blocks,
        limit: MAX_GRID,
    })
}

/// The first entry that has all its requirements met, and why the one before it was unsuitable.
pub(crate) fn pick(
    interface: &Interface,
    extents: Extents,
    arguments: &Arguments,
) -> Result<(usize, Unsuited), ArgumentError> {
    let mut before = [None; 6];
    for (index, entry) in interface.entries.iter().enumerate() {
        let found = unsuited(entry, &interface.problem, extents, arguments);
        if found.iter().all(Option::is_none) {
            return Ok((index, before));
        }
        before = found;
    }
    let refusal = |entry: &Entry| {
        let reasons =
            unsuited(entry, &interface.problem, extents, arguments).iter().flatten().map(Fault::to_string).collect();
        Refusal { entry: entry.name.clone(), reasons }
    };
    Err(ArgumentError::NoEntry { entries: interface.entries.iter().map(refusal).collect() })
}

/// A note for the user about the choice of the entry.
pub(crate) fn notes(interface: &Interface, launch: &Launch) -> Vec<String> {
    let of = launch.unsuited_product.map_or_else(String::new, |product| format!("product {product}: "));
    let mut notes: Vec<String> = launch.unsuited.iter().flatten().map(|fault| format!("{of}{fault}")).collect();
    if let (Some(last), Some(entry)) = (notes.last_mut(), interface.entries.get(launch.entry)) {
        let kind = if entry.requires.is_empty() { "scalar".into() } else { format!("`{}`", entry.name) };
        last.push_str(&format!(": running the {kind} entry"));
    }
    notes
}

pub(super) fn unsuited(entry: &Entry, problem: &Problem, extents: Extents, arguments: &Arguments) -> Unsuited {
    let mut found = [None; 6];
    for requires in &entry.requires {
        found[requires.operand as usize] = misaligned(*requires, arguments);
    }
    for map in entry.launches.iter().flat_map(|launch| &launch.maps) {
        let copied = entry.packings.iter().any(|packing| packing.operand == map.operand);
        let place = &mut found[map.operand as usize];
        if !copied {
            *place = place.or_else(|| far(map.operand, problem.types.of(map.operand).bytes(), arguments));
        }
        found[5] = [("M", extents.m), ("N", extents.n), ("K", extents.k), ("the batch count", extents.batch)]
            .into_iter()
            .find(|(_, got)| *got > MAX_COORDINATE)
            .map(|(name, got)| Fault::Large { name, got: got.into() });
    }
    let undivided = entry.undivided(extents.m.into(), extents.n.into(), extents.k.into());
    found[4] = undivided.map(|(name, got, tile)| Fault::Extent { name, got, tile });
    found
}

fn misaligned(requires: Requires, arguments: &Arguments) -> Option<Fault> {
    let Requires { operand, elements: width, bytes, rows } = requires;
    let matrix = arguments.matrix(operand)?;
    if matrix.shape.is_empty() {
        return None;
    }
    let (operand, address) = (OperandName(operand), matrix.address);
    let run = matrix.shape.run();
    if rows && !(run as u64).is_multiple_of(width.into()) {
        return Some(Fault::Row { operand, run, width });
    }
    let (ld, stride) = (matrix.shape.ld, matrix.stack.stride);
    if matrix.shape.runs() > 1 && !(ld as u64).is_multiple_of(width.into()) {
        return Some(Fault::Ld { operand, ld, width });
    }
    if matrix.stack.count > 1 && !(stride as u64).is_multiple_of(width.into()) {
        return Some(Fault::Stride { operand, stride, width });
    }
    (!address.is_multiple_of(bytes.into())).then_some(Fault::Address { operand, address, bytes })
}

/// Strides that a tensor map cannot express.
fn far(operand: Operand, element: u32, arguments: &Arguments) -> Option<Fault> {
    let matrix = arguments.matrix(operand)?;
    let bytes = |elements: usize| (elements as u64).saturating_mul(element.into());
    let strides = [(matrix.shape.runs(), matrix.shape.ld), (matrix.stack.count, matrix.stack.stride)];
    let far = strides.into_iter().filter(|(count, _)| *count > 1).map(|(_, stride)| bytes(stride));
    far.max().filter(|bytes| *bytes >= MAX_STRIDE).map(|bytes| Fault::Far { operand: OperandName(operand), bytes })
}

/// The operands that a tensor map cannot describe as they are, and that are therefore packed.
pub(crate) fn packed(entry: &Entry, arguments: &Arguments) -> Packed {
    let mut packed = Packed::default();
    for packing in &entry.packings {
        let operand = packing.operand;
        let element = packing.dtype.bytes();
        let empty = arguments.matrix(operand).is_none_or(|matrix| matrix.shape.is_empty());
        let unsuited = packing.always
            || misaligned(packing.requires, arguments).is_some()
            || far(operand, element, arguments).is_some();
        let place = if operand == Operand::A { &mut packed.a } else { &mut packed.b };
        *place = unsuited && !empty;
    }
    packed
}

/// The arguments for the tensor map of a packed operand, with its copy at this address.
pub(crate) fn packed_map_args(
    map: &TensorMap,
    packing: &Packing,
    problem: &Problem,
    extents: Extents,
    address: u64,
) -> TensorMapArgs {
    let (run, rows, pitch) = packing.rows(extents.into());
    let bytes = u64::from(map.dtype.bytes());
    boxes(map, problem, extents, address, (run, rows), (pitch * bytes, rows * pitch * bytes))
}

/// The arguments for an operand's tensor map; `None` for an empty matrix, of which nothing is copied.
pub(crate) fn map_args(
    map: &TensorMap,
    problem: &Problem,
    extents: Extents,
    arguments: &Arguments,
) -> Option<TensorMapArgs> {
    let matrix = arguments.matrix(map.operand).filter(|matrix| !matrix.shape.is_empty())?;
    // A stride between fewer than two rows or matrices is never used, but must be valid.
    let stride = |count: usize, elements: usize| {
        let bytes = elements as u64 * u64::from(problem.types.of(map.operand).bytes());
        if count > 1 { bytes } else { bytes.next_multiple_of(TMA_BYTES.into()) % MAX_STRIDE }
    };
    let (shape, stack) = (matrix.shape, matrix.stack);
    let strides = (stride(shape.runs(), shape.ld), stride(stack.count, stack.stride));
    Some(boxes(map, problem, extents, matrix.address, (shape.run() as u64, shape.runs() as u64), strides))
}

/// The tensor map of a matrix: elements of a row and rows, and the bytes between rows and between matrices.
fn boxes(
    map: &TensorMap,
    problem: &Problem,
    extents: Extents,
    address: u64,
    (run, rows): (u64, u64),
    (pitch, stride): (u64, u64),
) -> TensorMapArgs {
    let element = match map.dtype {
        DType::F64 => TensorElement::F64,
        // TMA rounds what tensor cores read. Results keep their bits.
        DType::Tf32 if matches!(map.operand, Operand::A | Operand::B) => TensorElement::Tf32,
        DType::F32 | DType::Tf32 => TensorElement::F32,
        DType::I32 => TensorElement::I32,
        DType::F16 => TensorElement::F16,
        DType::Bf16 => TensorElement::Bf16,
        DType::E4m3 | DType::E5m2 | DType::I8 | DType::U8 => TensorElement::U8,
    };
    let (mut dims, mut strides, mut boxed) =
        (vec![run, rows], vec![pitch], vec![map.row, map.box_rows(extents.into())]);
    if problem.batch == Batch::Strided || map.planes > 1 {
        dims.push(u64::from(extents.batch) * u64::from(map.planes));
        strides.push(stride);
        boxed.push(1);
    }
    let swizzle = match map.swizzle {
        Swizzle::Bytes(32) => MapSwizzle::Bytes32,
        Swizzle::Bytes(64) => MapSwizzle::Bytes64,
        Swizzle::Bytes(_) => MapSwizzle::Bytes128,
        Swizzle::None => MapSwizzle::None,
    };
    let args = TensorMapArgs::new(element, address, &dims, &strides, &boxed).swizzled(swizzle);
    TensorMapArgs { l2_promotion: L2Promotion::Bytes128.number(), ..args }
}

/// Arguments in the order of a kernel's parameters. `packed` operands are in the workspace, and a group has `tiles`.
pub(crate) fn arguments(
    problem: &Problem,
    kernel: &KernelLaunch,
    extents: Extents,
    arguments: &Arguments,
    (packed, tiles): (Packed, u32),
) -> Vec<Argument> {
    let matrix = |operand, of: fn(&DeviceMatrix) -> u64| Value::U64(arguments.matrix(operand).as_ref().map_or(0, of));
    let argument = |param: &Param| {
        Argument::Known(match *param {
            Param::Matrix(operand) => matrix(operand, |matrix| matrix.address),
            Param::Ld(operand) => matrix(operand, |matrix| matrix.shape.ld as u64),
            Param::BatchStride(operand) => matrix(operand, |matrix| matrix.stack.stride as u64),
            Param::Vector(index) => Value::U64(arguments.vectors.get(index).map_or(0, |vector| vector.address)),
            Param::M => Value::U32(extents.m),
            Param::N => Value::U32(extents.n),
            Param::K => Value::U32(extents.k),
            Param::Batch => Value::U32(extents.batch),
            Param::Tiles => Value::U32(tiles),
            Param::Scalar(index) => {
                scalar(problem.types.epilogue(), arguments.scalars.get(index).copied().unwrap_or(0.0))
            }
            Param::Map(operand) if !packed.holds(operand) => {
                let map = kernel.maps.iter().find(|map| map.operand == operand);
                match map.and_then(|map| map_args(map, problem, extents, arguments)) {
                    Some(args) => return Argument::Map(Box::new(args)),
                    // Nothing is copied of an empty matrix.
                    None => Value::map([0; 128]),
                }
            }
            Param::Map(_) | Param::Workspace | Param::Packed(_) | Param::Scales(_) | Param::Problems => {
                return Argument::InWorkspace(param.clone());
            }
        })
    };
    kernel.params.iter().map(argument).collect()
}

/// The value of a record's field, for one product.
pub(super) fn field(param: &Param, extents: Extents, arguments: &Arguments) -> u64 {
    match *param {
        Param::M => extents.m.into(),
        Param::N => extents.n.into(),
        Param::K => extents.k.into(),
        Param::Matrix(operand) => arguments.matrix(operand).map_or(0, |matrix| matrix.address),
        Param::Ld(operand) => arguments.matrix(operand).map_or(0, |matrix| matrix.shape.ld as u64),
        Param::Vector(index) => arguments.vectors.get(index).map_or(0, |vector| vector.address),
        // Not part of a record.
        Param::Map(_)
        | Param::Scalar(_)
        | Param::Batch
        | Param::BatchStride(_)
        | Param::Problems
        | Param::Tiles
        | Param::Workspace
        | Param::Packed(_)
        | Param::Scales(_) => 0,
    }
}

pub(super) fn scalar(acc: DType, value: f64) -> Value {
    match acc {
        DType::F64 => Value::F64(value),
        DType::I32 => Value::I32(value as i32),
        _ => Value::F32(value as f32),
    }
}
