//! The location of an operand in memory for threads that copy K-tiles: the matrix, or its planes in the workspace.

use ptx_gemm_dsl::terms::{Fast, Param, Side};
use ptx_gemm_dsl::types::Batch;

use super::{Lowered, Lowering, WorkTile};
use crate::kernel::Expr;

/// A matrix in memory for threads that copy K-tiles: the operand itself, or its first plane.
pub(super) struct Source {
    /// Its first element.
    pub(super) base: Expr,
    /// Bytes between its rows, and the contiguous dimension.
    pub(super) row_bytes: Expr,
    pub(super) fast: Fast,
    /// Bytes from one plane to the next, if there are several.
    pub(super) plane_bytes: Option<Expr>,
}

/// The row pitch of a packed copy, in bytes: rows begin at multiples of `align` elements.
pub(super) fn packed_pitch(run: Expr, align: u32, element: u32) -> Expr {
    ((run.wide() + (align - 1)) / align) * (align * element)
}

impl Lowering<'_> {
    /// The source of an operand's K-tiles for copies by threads.
    pub(super) fn source(&mut self, work_tile: &WorkTile, side: Side) -> Lowered<Source> {
        let operand = side.operand();
        let fast = self.program.copied_fast(side);
        let bytes = self.program.element(side).bytes();
        let Some((pack, planes)) = self.program.packed(side).and_then(|pack| Some((pack, pack.planes?))) else {
            let base = self.matrix(work_tile, operand)?;
            let ld = self.wide_arg(&Param::Ld(operand))?;
            return Ok(Source { base, row_bytes: self.b.set(ld * bytes), fast, plane_bytes: None });
        };
        let own = if side == Side::A { self.args.m.clone() } else { self.args.n.clone() };
        let (run, rows) = if fast == Fast::K { (self.args.k.clone(), own) } else { (own, self.args.k.clone()) };
        let row_bytes = self.b.set(packed_pitch(run, pack.align(self.program), bytes));
        let plane_bytes = self.b.set(rows.wide() * row_bytes.clone());
        let mut base = self.wide_arg(&Param::Packed(operand))?;
        if self.program.problem.batch == Batch::Strided {
            base = self.b.set(base + work_tile.product.clone().wide() * (plane_bytes.clone() * planes.count));
        }
        Ok(Source { base, row_bytes, fast, plane_bytes: Some(plane_bytes) })
    }
}
