//! Extents, layouts, leading dimensions and lengths of the four matrices.

use ptx_gemm_dsl::terms::{Operand, Tail};
use ptx_gemm_dsl::types::{Batch, Problem};
use ptx_gemm_dsl::{DType, Layout, Plan};

use crate::element;
use crate::error::{ArgumentError, OperandName};
use crate::shape::{Shape, Stack};

/// Kernels round extents up to whole tiles in 32 bits; no tile is larger than 32,768.
pub(crate) const MAX_EXTENT: u32 = ptx_gemm_codegen::kernel::MAX_EXTENT;

/// M, N and K of one product, each at most [`MAX_EXTENT`], and how many products there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
}

/// How an operand lies in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Laid {
    pub(crate) shape: Shape,
    pub(crate) stack: Stack,
}

/// Checks that the shapes fit the schedule and each other.
pub(crate) fn extents(plan: &Plan, a: Laid, b: Laid, c: Option<Laid>, d: Laid) -> Result<Extents, ArgumentError> {
    let batch =
        batch(&plan.problem, [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))])?;
    let (a, b, c, d) = (a.shape, b.shape, c.map(|c| c.shape), d.shape);
    let (m, n, k) = (a.rows, b.cols, a.cols);
    agree(Operand::B, b, (k, n), || format!("and A is {m} x {k}: B needs {k} rows"))?;
    agree(Operand::D, d, (m, n), || format!("the product of {m} x {k} and {k} x {n} is {m} x {n}"))?;
    if let Some(c) = c {
        agree(Operand::C, c, (m, n), || format!("it is added to a product of {m} x {n}"))?;
    }
    let all = [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))];
    for (operand, shape) in all.into_iter().filter_map(|(operand, shape)| Some((operand, shape?))) {
        described(&plan.problem, operand, shape)?;
    }
    let extents = Extents { m: extent("M", m)?, n: extent("N", n)?, k: extent("K", k)?, batch };
    divides(plan, extents)?;
    Ok(extents)
}

/// Products of the launch: 1, or as many as each operand has matrices.
fn batch(problem: &Problem, operands: [(Operand, Option<Laid>); 4]) -> Result<u32, ArgumentError> {
    let operands = operands.into_iter().filter_map(|(operand, laid)| Some((OperandName(operand), laid?)));
    let mut count = match problem.batch {
        Batch::One => Some(1),
        Batch::Strided => None,
    };
    for (operand, Laid { shape, stack }) in operands {
        let expected = *count.get_or_insert(stack.count);
        if stack.count != expected {
            return Err(ArgumentError::Batch { operand, got: stack.count, expected });
        }
        let minimum = shape.len().unwrap_or(usize::MAX);
        if operand.0 == Operand::D && stack.count > 1 && stack.stride < minimum {
            return Err(ArgumentError::BatchStride { got: stack.stride, minimum });
        }
    }
    let got = count.unwrap_or(0);
    u32::try_from(got).map_err(|_| ArgumentError::ExtentTooLarge { name: "batch", got, limit: u32::MAX })
}

fn agree(
    operand: Operand,
    shape: Shape,
    wanted: (usize, usize),
    expected: impl FnOnce() -> String,
) -> Result<(), ArgumentError> {
    let got = (shape.rows, shape.cols);
    if got == wanted {
        return Ok(());
    }
    Err(ArgumentError::Extents { operand: OperandName(operand), got, expected: expected() })
}

fn described(problem: &Problem, operand: Operand, shape: Shape) -> Result<(), ArgumentError> {
    let expected = layout(problem, operand);
    if shape.layout != expected {
        return Err(ArgumentError::Layout { operand: OperandName(operand), got: shape.layout, expected });
    }
    if shape.ld < shape.min_ld() {
        return Err(ArgumentError::LeadingDimension {
            operand: OperandName(operand),
            got: shape.ld,
            minimum: shape.min_ld(),
            layout: shape.layout,
        });
    }
    Ok(())
}

fn extent(name: &'static str, got: usize) -> Result<u32, ArgumentError> {
    u32::try_from(got).ok().filter(|&extent| extent <= MAX_EXTENT).ok_or(ArgumentError::ExtentTooLarge {
        name,
        got,
        limit: MAX_EXTENT,
    })
}

/// `tail(none)` compiles no guards, so a size that does not divide would be read and written past its end.
fn divides(plan: &Plan, extents: Extents) -> Result<(), ArgumentError> {
    if plan.tail == Tail::Predicate {
        return Ok(());
    }
    let checks = [("M", extents.m, plan.block.m), ("N", extents.n, plan.block.n), ("K", extents.k, plan.block.k)];
    match checks.into_iter().find(|(_, extent, tile)| extent % tile != 0) {
        Some((name, extent, tile)) => Err(ArgumentError::Tail { name, got: extent as usize, tile }),
        None => Ok(()),
    }
}

/// Checks a host slice of `elements` elements of type `dtype` against what the schedule reads from it.
pub(crate) fn slice(
    problem: &Problem,
    operand: Operand,
    dtype: DType,
    Laid { shape, stack }: Laid,
    elements: usize,
) -> Result<(), ArgumentError> {
    let expected = self::dtype(problem, operand);
    if !element::holds(dtype, expected) {
        return Err(ArgumentError::Type { operand: OperandName(operand), got: dtype, expected });
    }
    let needed = stack.len(shape);
    if needed.is_some_and(|needed| needed <= elements) {
        return Ok(());
    }
    Err(ArgumentError::TooShort {
        operand: OperandName(operand),
        got: elements as u64,
        needed: needed.map_or(u64::MAX, |needed| needed as u64),
        rows: shape.rows,
        cols: shape.cols,
        ld: shape.ld,
    })
}

/// The element type that the schedule gives a matrix.
pub(crate) fn dtype(problem: &Problem, operand: Operand) -> DType {
    match operand {
        Operand::A => problem.types.a,
        Operand::B => problem.types.b,
        Operand::C => problem.types.c,
        Operand::D => problem.types.d,
    }
}

fn layout(problem: &Problem, operand: Operand) -> Layout {
    match operand {
        Operand::A => problem.layouts.a,
        Operand::B => problem.layouts.b,
        Operand::C => problem.layouts.c,
        Operand::D => problem.layouts.d,
    }
}
