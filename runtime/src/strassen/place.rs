//! From a plan to launches: addresses of blocks, in the caller's matrices and in the workspace.

use ptx_gemm_codegen::Interface;
use ptx_gemm_codegen::tile::interface::WORKSPACE_ALIGN;
use ptx_gemm_dsl::epilogue::Axis;
use ptx_gemm_dsl::sums;
use ptx_gemm_dsl::terms::{Operand, Tail};
use ptx_gemm_dsl::types::{DType, Problem};

use super::plan::{Matrix, Piece, Plan, Request, Step, View};
use crate::arguments::{Arguments, DeviceMatrix, DeviceVector};
use crate::checks::Extents;
use crate::shape::{Shape, Stack};

/// Rows of matrices in the workspace have a multiple of this many bytes. So do those of quadrants of the caller's
/// matrices, so that quadrants are as aligned as the matrices.
const ALIGN: u64 = 16;

/// A plan for the extents of a product.
pub(crate) struct Placed {
    pub(crate) plan: Plan,
    problem: Problem,
    /// Each matrix of the workspace: its offset in bytes, and its placement in memory.
    buffers: Vec<(u64, Shape, Stack)>,
    /// Bytes of all of them.
    bytes: u64,
}

impl Placed {
    /// The plan of a product.
    pub(crate) fn new(interface: &Interface, levels: u32, extents: Extents) -> Placed {
        let problem = (*interface.problem).clone();
        let Extents { m, n, k, batch } = extents;
        let [m, n, k] = [m, n, k].map(|extent| extent as usize);
        let (granule, reads_c, takes_sums) =
            (granule(interface), problem.epilogue.uses_c(), sums::takes_sums(&problem.epilogue));
        let plan = Plan::new(Request { m, n, k, levels, granule, reads_c, takes_sums });
        let (mut buffers, mut bytes) = (Vec::new(), 0);
        for buffer in &plan.buffers {
            let element = u64::from(dtype(&problem, Matrix::Buffer(0), buffer.like).bytes());
            let tight = Shape::packed(buffer.rows, buffer.cols, problem.layouts.of(buffer.like));
            let shape = Shape { ld: tight.ld.next_multiple_of((ALIGN / element) as usize), ..tight };
            let one = shape.runs().saturating_mul(shape.ld);
            let stride = one.next_multiple_of((u64::from(WORKSPACE_ALIGN) / element) as usize);
            let count = batch as usize;
            let stack = if count == 1 { Stack::ONE } else { Stack { count, stride } };
            buffers.push((bytes, shape, stack));
            let size = (stride as u64).saturating_mul(u64::from(batch)).saturating_mul(element);
            bytes = size.saturating_add(bytes);
        }
        Placed { plan, problem, buffers, bytes }
    }

    /// Bytes of the matrices in the workspace, a multiple of its alignment. The memory that launches need follows them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Extents of a step.
    pub(crate) fn extents(&self, step: &Step, batch: u32) -> Extents {
        let k = if step.b.is_some() { step.a.cols } else { 0 };
        let [m, n, k] = [step.d.rows, step.d.cols, k].map(|extent| extent as u32);
        Extents { m, n, k, batch }
    }

    /// Arguments of a step on a workspace at this address; `problem` is that of its kernel.
    pub(crate) fn arguments(&self, step: &Step, problem: &Problem, given: &Arguments, workspace: u64) -> Arguments {
        let place = |view: View| self.matrix(view, given, workspace);
        let a = place(step.a).unwrap_or(given.a);
        // Kernels that only add do not read B.
        let nothing = DeviceMatrix { shape: Shape { rows: 0, cols: 0, ld: 0, ..a.shape }, ..a };
        let b = step.b.and_then(place).unwrap_or(nothing);
        let own = |name: &str| self.problem.epilogue.scalars.iter().position(|own| own == name);
        let scalars = problem.epilogue.scalars.iter().filter_map(|name| given.scalars.get(own(name)?).copied());
        let vector = |vector: &ptx_gemm_dsl::epilogue::Vector| {
            let index = self.problem.epilogue.vectors.iter().position(|own| own.name == vector.name)?;
            let whole = given.vectors.get(index)?;
            let (start, len) = match vector.axis {
                Axis::M => (step.d.row, step.d.rows),
                Axis::N => (step.d.col, step.d.cols),
            };
            let bytes = u64::from(self.problem.types.acc.bytes());
            Some(DeviceVector { address: whole.address + start as u64 * bytes, len })
        };
        Arguments {
            a,
            b,
            c: step.c.and_then(place),
            d: place(step.d).unwrap_or(given.d),
            vectors: problem.epilogue.vectors.iter().filter_map(vector).collect(),
            scalars: scalars.collect(),
        }
    }

    fn matrix(&self, view: View, given: &Arguments, workspace: u64) -> Option<DeviceMatrix> {
        let (whole, dtype) = match view.of {
            Matrix::Given(operand) => (given.matrix(operand)?, self.problem.types.of(operand)),
            Matrix::Buffer(index) => {
                let (offset, shape, stack) = self.buffers[index];
                let dtype = dtype(&self.problem, view.of, self.plan.buffers[index].like);
                (DeviceMatrix { address: workspace + offset, shape, stack }, dtype)
            }
        };
        whole.block(dtype, view.row, view.col, view.rows, view.cols)
    }
}

/// The type of a matrix that is like an operand: sums are in the accumulator's type.
fn dtype(problem: &Problem, of: Matrix, like: Operand) -> DType {
    match (of, like) {
        (Matrix::Buffer(_), Operand::C | Operand::D) => problem.types.acc,
        _ => problem.types.of(like),
    }
}

/// The m, n and k of quadrants are multiples of these: whole tiles without guards, otherwise elements of [`ALIGN`]
/// bytes.
pub(crate) fn granule(interface: &Interface) -> [usize; 3] {
    let unguarded = interface.entries.iter().find(|entry| entry.tail == Tail::None);
    if let Some(entry) = unguarded {
        return [entry.tile.m, entry.tile.n, entry.tile.k].map(|extent| extent as usize);
    }
    let narrowest = interface.matrices().map(|operand| interface.problem.types.of(operand).bytes()).min().unwrap_or(1);
    [(ALIGN / u64::from(narrowest)) as usize; 3]
}

/// Bytes of the workspace of a product: the plan's matrices, and the largest workspace of a launch.
pub(crate) fn workspace_bytes(
    interface: &Interface,
    levels: u32,
    extents: Extents,
    largest: impl Fn(Piece, Extents) -> u64,
) -> u64 {
    let placed = Placed::new(interface, levels, extents);
    let own = placed.plan.steps.iter().map(|step| largest(step.piece, placed.extents(step, extents.batch)));
    placed.bytes().saturating_add(own.max().unwrap_or(0))
}
