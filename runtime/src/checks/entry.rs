//! The launch itself: grid, entry, and argument values.

use std::fmt;

use ptx_gemm_dsl::plan::Variant;
use ptx_gemm_dsl::terms::{Operand, Param};
use ptx_gemm_dsl::{DType, Plan};

use crate::arguments::Arguments;
use crate::backend::{Launch, Value};
use crate::checks::Extents;
use crate::checks::shapes::dtype;
use crate::error::{ArgumentError, OperandName};

/// Blocks along x that every device takes (CUDA C++ Programming Guide, "Technical specifications per compute
/// capability").
const MAX_GRID: u64 = (1 << 31) - 1;

/// Units of work: tiles of D, for each product and each part of K. One block each, unless the grid is persistent.
pub(crate) fn grid(plan: &Plan, extents: Extents) -> Result<u32, ArgumentError> {
    let blocks = plan.units(extents.m.into(), extents.n.into(), extents.batch.into());
    u32::try_from(blocks).ok().filter(|_| blocks <= MAX_GRID).ok_or(ArgumentError::Grid {
        m: extents.m as usize,
        n: extents.n as usize,
        tile_m: plan.block.m,
        tile_n: plan.block.n,
        blocks,
        limit: MAX_GRID,
    })
}

/// Why an entry's access width does not suit an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsuited {
    Ld { operand: OperandName, ld: usize, width: u64 },
    Stride { operand: OperandName, stride: usize, width: u64 },
    Address { operand: OperandName, address: u64, bytes: u64 },
}

impl fmt::Display for Unsuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsuited::Ld { operand, ld, width } => {
                write!(f, "ld{} = {ld} is not a multiple of {width}", operand.lower())
            }
            Unsuited::Stride { operand, stride, width } => {
                write!(f, "the stride of {}'s matrices, {stride}, is not a multiple of {width}", operand.upper())
            }
            Unsuited::Address { operand, address, bytes } => {
                write!(f, "{} at {address:#x} is not aligned to {bytes} bytes", operand.upper())
            }
        }
    }
}

/// The first entry whose access widths suit every operand, and why the one before it did not.
pub(crate) fn pick(plan: &Plan, arguments: &Arguments) -> (usize, [Option<Unsuited>; 4]) {
    let mut before = [None; 4];
    for (index, variant) in plan.variants.iter().enumerate() {
        let operands = [Operand::A, Operand::B, Operand::C, Operand::D];
        let found = operands.map(|operand| unsuited(plan, variant, operand, arguments));
        if found.iter().all(Option::is_none) || index + 1 == plan.variants.len() {
            return (index, before);
        }
        before = found;
    }
    (0, before)
}

/// What a user should know about the choice of the entry.
pub(crate) fn notes(plan: &Plan, launch: &Launch) -> Vec<String> {
    let mut notes: Vec<String> = launch.unsuited.iter().flatten().map(Unsuited::to_string).collect();
    if let (Some(last), Some(variant)) = (notes.last_mut(), plan.variants.get(launch.variant)) {
        last.push_str(&format!(": running the {} entry", kind(variant)));
    }
    notes
}

fn kind(variant: &Variant) -> String {
    let widths = [variant.a.width, variant.b.width, variant.c_width, variant.d_width];
    if widths.iter().all(|&width| width == 1) { "scalar".into() } else { format!("`{}`", variant.entry) }
}

fn unsuited(plan: &Plan, variant: &Variant, operand: Operand, arguments: &Arguments) -> Option<Unsuited> {
    let width = u64::from(match operand {
        Operand::A => variant.a.width,
        Operand::B => variant.b.width,
        Operand::C => variant.c_width,
        Operand::D => variant.d_width,
    });
    let matrix = arguments.matrix(operand)?;
    let bytes = u64::from(dtype(&plan.problem, operand).bytes()) * width;
    if matrix.shape.is_empty() || width == 1 {
        return None;
    }
    let (operand, address) = (OperandName(operand), matrix.address);
    let (ld, stride) = (matrix.shape.ld, matrix.stack.stride);
    if matrix.shape.runs() > 1 && !(ld as u64).is_multiple_of(width) {
        return Some(Unsuited::Ld { operand, ld, width });
    }
    if matrix.stack.count > 1 && !(stride as u64).is_multiple_of(width) {
        return Some(Unsuited::Stride { operand, stride, width });
    }
    (!address.is_multiple_of(bytes)).then_some(Unsuited::Address { operand, address, bytes })
}

/// Argument values in the order of the ABI.
pub(crate) fn values(plan: &Plan, extents: Extents, arguments: &Arguments) -> Vec<Value> {
    let value = |param: &Param| match *param {
        Param::Matrix(operand) => Value::U64(arguments.matrix(operand).map_or(0, |matrix| matrix.address)),
        Param::Ld(operand) => Value::U64(arguments.matrix(operand).map_or(0, |matrix| matrix.shape.ld as u64)),
        Param::Vector(index) => Value::U64(arguments.vectors.get(index).map_or(0, |vector| vector.address)),
        Param::M => Value::U32(extents.m),
        Param::N => Value::U32(extents.n),
        Param::K => Value::U32(extents.k),
        Param::Scalar(index) => scalar(plan.problem.types.acc, arguments.scalars.get(index).copied().unwrap_or(0.0)),
        Param::Batch => Value::U32(extents.batch),
        Param::BatchStride(operand) => {
            Value::U64(arguments.matrix(operand).map_or(0, |matrix| matrix.stack.stride as u64))
        }
        Param::Workspace => Value::U64(arguments.workspace),
    };
    plan.params.iter().map(value).collect()
}

fn scalar(acc: DType, value: f64) -> Value {
    match acc {
        DType::F64 => Value::F64(value),
        DType::I32 => Value::I32(value as i32),
        _ => Value::F32(value as f32),
    }
}
