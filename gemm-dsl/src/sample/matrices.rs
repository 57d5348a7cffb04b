//! What warps read of a K-tile for the instructions of tensor cores.

use super::{Passes, Slot, passes, warps};
use crate::atoms::MATRIX_BYTES;
use crate::plan::{Geometry, Plan};
use crate::target::WARP;
use crate::terms::{Fast, Side};

impl Plan {
    /// The elements of 64 bits that the lanes of all warps load of one K-tile: lane l one of row or column l / 4 and step
    /// l % 4 of k, for each 8 rows or columns and 4 steps.
    pub(super) fn element_reads(&self, slot: Slot<'_>, depth: u32) -> Passes {
        let map = self.map();
        let side = slot.operand.side;
        let extent = if side == Side::A { self.geometry.region.m } else { self.geometry.region.n };
        let mut total = Passes::default();
        for warp in warps(self.geometry.threads) {
            let origin = map.first_of(side, warp.start);
            for k in (0..slot.operand.depth / depth * depth).step_by(4) {
                for first in (0..extent).step_by(8) {
                    let offsets = (0..WARP).map(|lane| slot.address(origin + first + lane / 4, k + lane % 4));
                    total += passes(offsets.enumerate(), 8);
                }
            }
        }
        total
    }

    /// The matrices that the warps read of one K-tile. One instruction reads up to four: 16 rows or columns by 32 bytes of k,
    /// or 32 by 16.
    pub(super) fn matrix_reads(&self, slot: Slot<'_>, depth: u32) -> Passes {
        let map = self.map();
        let Geometry { region, .. } = self.geometry;
        let side = slot.operand.side;
        let extent = if side == Side::A { region.m } else { region.n };
        // Four matrices of eight rows of 16 bytes.
        let row = MATRIX_BYTES / slot.operand.dtype.bytes();
        let most = 4 * 8 * row / depth;
        let rows = [most, most / 2, 8].into_iter().find(|rows| extent.is_multiple_of(*rows)).unwrap_or(8);
        let along_k = slot.placement.fast == Fast::K;
        let mut total = Passes::default();
        for warp in warps(self.geometry.threads) {
            let origin = map.first_of(side, warp.start);
            for k in (0..slot.operand.depth).step_by(depth as usize) {
                for first in (0..extent).step_by(rows as usize) {
                    let lanes = 0..rows * depth / row;
                    let offsets = lanes.map(|lane| {
                        let (own, at) = matrix_row(lane, side, along_k, (rows, depth), row);
                        slot.address(origin + first + own, k + at)
                    });
                    total += passes(offsets.enumerate(), MATRIX_BYTES);
                }
            }
        }
        total
    }
}

/// The first element of the matrix row that a lane addresses, along the operand's own dimension and along k; a row has
/// some `elements`.
///
/// Matrices are numbered as in `mma.m16n8k16`: for A, rows first, then k; for B, k first, then columns. Matrices of
/// `mma.m16n8k8` follow each other along rows or columns. Their rows are contiguous in shared memory.
fn matrix_row(lane: u32, side: Side, along_k: bool, (rows, depth): (u32, u32), elements: u32) -> (u32, u32) {
    let (row, matrix) = (lane % 8, lane / 8);
    let (own, k) = match side {
        _ if depth == elements => (matrix * 8, 0),
        Side::A => (matrix % 2 * 8, matrix / 2 * elements),
        Side::B => (matrix / 2 * 8 % rows, matrix % 2 * elements),
    };
    if along_k { (own + row, k) } else { (own, k + row) }
}
