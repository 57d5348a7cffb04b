//! Extents, layouts, leading dimensions and lengths of the four matrices.

use ptx_gemm_codegen::Interface;
use ptx_gemm_codegen::tile::interface;
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::{Batch, Problem};

use crate::element;
use crate::error::{ArgumentError, OperandName};
use crate::shape::{Placement, Shape};

/// Kernels round extents up to whole tiles in 32 bits; no tile is larger than 32,768.
pub(crate) const MAX_EXTENT: u32 = ptx_gemm_codegen::kernel::MAX_EXTENT;

/// M, N and K of one product, each at most [`MAX_EXTENT`], and the number of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
}

impl From<Extents> for interface::Extents {
    fn from(Extents { m, n, k, batch }: Extents) -> interface::Extents {
        interface::Extents { m: m.into(), n: n.into(), k: k.into(), batch: batch.into() }
    }
}

/// Checks that the shapes fit the problem and each other, and that some entry accepts the extents.
pub(crate) fn extents(
    interface: &Interface,
    a: Placement,
    b: Placement,
    c: Option<Placement>,
    d: Placement,
) -> Result<Extents, ArgumentError> {
    let problem = &*interface.problem;
    let batch = batch(problem, [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))])?;
    let (a, b, c, d) = (a.shape, b.shape, c.map(|c| c.shape), d.shape);
    let (m, n, k) = (a.rows, b.cols, a.cols);
    agree(Operand::B, b, (k, n), || format!("and A is {m} x {k}: B needs {k} rows"))?;
    agree(Operand::D, d, (m, n), || format!("the product of {m} x {k} and {k} x {n} is {m} x {n}"))?;
    if let Some(c) = c {
        agree(Operand::C, c, (m, n), || format!("it is added to a product of {m} x {n}"))?;
    }
    let all = [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))];
    for (operand, shape) in all.into_iter().filter_map(|(operand, shape)| Some((operand, shape?))) {
        described(problem, operand, shape)?;
    }
    let extents = Extents { m: extent("M", m)?, n: extent("N", n)?, k: extent("K", k)?, batch };
    divides(interface, extents)?;
    Ok(extents)
}

/// Products of the launch, or of one item of a list: 1, or the number of matrices of each operand.
fn batch(problem: &Problem, operands: [(Operand, Option<Placement>); 4]) -> Result<u32, ArgumentError> {
    let operands = operands.into_iter().filter_map(|(operand, placement)| Some((OperandName(operand), placement?)));
    let mut count = match problem.batch {
        Batch::One | Batch::Grouped => Some(1),
        Batch::Strided => None,
    };
    for (operand, Placement { shape, stack }) in operands {
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
    let expected = problem.layouts.of(operand);
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

/// `tail(none)` compiles no guards, so a kernel would read and write past the end of a size that does not divide. This
/// is an error only if no entry accepts the extents; the last one has the weakest requirements.
fn divides(interface: &Interface, extents: Extents) -> Result<(), ArgumentError> {
    let mut last = None;
    for entry in &interface.entries {
        last = entry.undivided(extents.m.into(), extents.n.into(), extents.k.into());
        if last.is_none() {
            return Ok(());
        }
    }
    match last {
        Some((name, got, tile)) => Err(ArgumentError::Tail { name, got: got as usize, tile }),
        None => Ok(()),
    }
}

/// Checks a host slice of `elements` elements of type `dtype` against what the schedule reads from it.
pub(crate) fn slice(
    problem: &Problem,
    operand: Operand,
    dtype: DType,
    Placement { shape, stack }: Placement,
    elements: usize,
) -> Result<(), ArgumentError> {
    let expected = problem.types.of(operand);
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
