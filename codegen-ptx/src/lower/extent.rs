//! States the extents of global accesses for the verifier of kernel IR; see [`kernel::extent`].
//!
//! [`kernel::extent`]: crate::kernel::extent

use ptx_gemm_dsl::terms::{Operand, Param, Side};
use ptx_gemm_dsl::types::Batch;

use super::expression::per_row;
use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{Access, Dim, Expr, Holds, Reach, Reg};
use crate::tile::Program;
use crate::tile::interface::TensorMap;

/// What the verifier needs to know about a parameter.
pub(super) fn holds(program: &Program, param: &Param) -> Holds {
    match param {
        Param::Matrix(Operand::A) if program.reads_sums() => Holds::Matrix(Dim::M, Dim::N),
        Param::Matrix(Operand::A) | Param::Packed(Operand::A) => Holds::Matrix(Dim::M, Dim::K),
        Param::Matrix(Operand::B) | Param::Packed(Operand::B) => Holds::Matrix(Dim::N, Dim::K),
        Param::Matrix(Operand::C | Operand::D) | Param::Packed(Operand::C | Operand::D) => {
            Holds::Matrix(Dim::M, Dim::N)
        }
        Param::Vector(i) => match program.problem.epilogue.vectors.get(*i) {
            Some(vector) if per_row(vector.axis) => Holds::Vector(Dim::M),
            Some(_) => Holds::Vector(Dim::N),
            None => Holds::Other,
        },
        Param::Scales(Operand::A) => Holds::Vector(Dim::M),
        Param::Scales(_) => Holds::Vector(Dim::N),
        Param::M => Holds::Extent(Dim::M),
        Param::N => Holds::Extent(Dim::N),
        Param::K => Holds::Extent(Dim::K),
        Param::Map(operand) => {
            let boxed = TensorMap::of(program, *operand);
            let stacked = program.problem.batch == Batch::Strided || boxed.is_some_and(|map| map.planes > 1);
            let rank = if stacked { 3 } else { 2 };
            let bytes = boxed.map_or(0, |map| map.row * map.rows * map.dtype.bytes());
            Holds::Map { rank, box_bytes: bytes }
        }
        Param::Workspace => Holds::Workspace,
        Param::Problems => Holds::List,
        Param::Ld(_) | Param::BatchStride(_) | Param::Scalar(_) | Param::Batch | Param::Tiles => Holds::Other,
    }
}

impl Lowering<'_> {
    /// The whole tile along an operand's own dimension.
    pub(super) fn own_reach(&self, work_tile: &WorkTile, side: Side) -> Lowered<Reach> {
        match side {
            Side::A => self.rows(work_tile),
            Side::B => self.cols(work_tile),
        }
    }

    /// An access to an operand, with its reach along its own dimension and along k.
    pub(super) fn operand_access(&self, side: Side, own: Reach, k: Reach) -> Lowered<Access> {
        let param = if self.program.planes(side).is_some() { Param::Packed } else { Param::Matrix };
        self.touch(&param(side.operand()), [Some(own), Some(k)])
    }

    /// An access to a tile of C or D.
    pub(super) fn plane_access(&self, work_tile: &WorkTile, which: Operand) -> Lowered<Access> {
        self.touch(&Param::Matrix(which), [Some(self.rows(work_tile)?), Some(self.cols(work_tile)?)])
    }

    /// An access to a tile's part of a vector of the epilogue.
    pub(super) fn vector_access(&self, work_tile: &WorkTile, vector: usize) -> Lowered<Access> {
        let along_m = self.program.problem.epilogue.vectors.get(vector).is_some_and(|vector| per_row(vector.axis));
        let reach = if along_m { self.rows(work_tile)? } else { self.cols(work_tile)? };
        self.touch(&Param::Vector(vector), [Some(reach), None])
    }

    /// An access to the scales of an operand's part of a tile.
    pub(super) fn scales_access(&self, work_tile: &WorkTile, side: Side) -> Lowered<Access> {
        self.touch(&Param::Scales(side.operand()), [Some(self.own_reach(work_tile, side)?), None])
    }

    /// An access to the workspace; its size comes from the plan.
    pub(super) fn workspace_access(&self) -> Lowered<Access> {
        self.touch(&Param::Workspace, [None, None])
    }

    fn touch(&self, which: &Param, reach: [Option<Reach>; 2]) -> Lowered<Access> {
        Ok(Access { param: self.index_of(which)?, reach })
    }

    fn rows(&self, work_tile: &WorkTile) -> Lowered<Reach> {
        Ok(Reach::new(Dim::M, register(&work_tile.rem_m)?, work_tile.extents.0))
    }

    fn cols(&self, work_tile: &WorkTile) -> Lowered<Reach> {
        Ok(Reach::new(Dim::N, register(&work_tile.rem_n)?, work_tile.extents.1))
    }
}

/// The register that an expression consists of.
pub(super) fn register(value: &Expr) -> Lowered<Reg> {
    match value {
        Expr::Reg(reg, _) => Ok(*reg),
        _ => Err(broken("the extent left of a dimension is not in a register")),
    }
}
