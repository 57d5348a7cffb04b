//! The state of a role within one tile of D: its position in each ring, and what its copies need.

use ptx_gemm_dsl::terms::BoxShare;

use super::copy::Copies;
use super::planes::{Place, Walked};
use super::ring::{Cursor, Kept};
use super::slot::FragmentBase;
use super::{Lowered, Lowering, broken};
use crate::kernel::{Expr, Reg};
use crate::origin::Site;
use crate::tile::{self, Note, Ring};

/// The role's state in one ring.
pub(super) struct RingState<'a> {
    pub(super) ring: &'a Ring,
    /// Byte offsets of the slot to fill next and of the slot to read; absent if the role does not fill, or read, the
    /// ring.
    pub(super) write: Option<Expr>,
    pub(super) read: Option<Expr>,
    /// Number of slots filled before the loop.
    pub(super) ahead: u32,
    /// The ring's mbarriers that the role uses next, in the loop.
    pub(super) producer: Option<Cursor>,
    pub(super) consumer: Option<Cursor>,
    /// The last slot that the role has waited for, if it keeps it past the next wait.
    pub(super) kept: Option<Kept>,
    /// What the role copies into it by TMA.
    pub(super) boxes: Option<Boxes>,
    /// The role's position among planes that its threads copy themselves.
    pub(super) walked: Option<Walked>,
    /// Whether slots and mbarriers continue from the previous tile instead of starting at the ring's first slot.
    pub(super) carried: bool,
}

/// The state of a role within one tile of D.
pub(super) struct Pipeline<'a> {
    pub(super) rings: Vec<RingState<'a>>,
    pub(super) copies: Vec<Copies>,
    /// The addresses at which the thread's parts of the buffers begin, by buffer.
    pub(super) bases: Vec<(usize, FragmentBase)>,
    /// K left from the loop's current tile on; with planes, K-tiles left.
    pub(super) rem: Expr,
    /// For each distance, in K-tiles: the smallest `rem` at which a copy that far ahead needs no guards. In a tile of D at an
    /// edge no `rem` is large enough, so the copy is always guarded.
    pub(super) needs: Vec<(u32, Expr)>,
    /// With planes, the K-tiles of the chunk that the loop has completed.
    pub(super) in_chunk: Option<Expr>,
    pub(super) in_loop: bool,
}

impl<'a> Pipeline<'a> {
    pub(super) fn ring(&mut self, ring: usize) -> &mut RingState<'a> {
        &mut self.rings[ring]
    }

    /// The address of the thread's part of a buffer in slot 0, and the byte offset of the slot to read.
    pub(super) fn reading(&self, program: &tile::Program, buffer: usize) -> Lowered<(FragmentBase, Expr)> {
        let base = self.bases.iter().find(|(of, _)| *of == buffer).map(|(_, base)| base.clone());
        let read = program.ring_of(buffer).and_then(|ring| self.rings[ring].read.clone());
        base.zip(read).ok_or_else(|| broken(format!("{} is not read through a ring", program.buffers[buffer].name)))
    }
}

/// What a role copies into a ring.
pub(super) struct Boxes {
    pub(super) operands: Vec<Boxed>,
    /// Whether this thread starts the copies.
    pub(super) leader: Reg,
    /// First k of the next K-tile.
    pub(super) k: Expr,
    /// With planes, the position of the next K-tile among them.
    pub(super) place: Option<Place>,
}

/// The boxes of one buffer.
pub(super) struct Boxed {
    pub(super) buffer: usize,
    pub(super) map: Reg,
    /// First row or column of the tile, along the operand's own dimension.
    pub(super) own: Expr,
    /// Columns of the tile, where tiles are only as wide as needed. These columns are the rows of the box.
    pub(super) width: Option<Expr>,
    /// Rows of a box; with narrow tiles, an equal part of the tile's columns.
    pub(super) height: Expr,
    /// Index of the product, in a batch.
    pub(super) product: Option<Expr>,
    /// Rows along the strided dimension: of one box where the tile has its full width, and of the whole buffer.
    pub(super) rows: u32,
    pub(super) all_rows: u32,
    /// Bytes of a row of a panel.
    pub(super) row_bytes: u32,
    /// Panels that the rows of the buffer are cut into.
    pub(super) panels: u32,
    /// The boxes that this block starts, if the blocks of its cluster share them.
    pub(super) share: Option<Share>,
}

/// One extra box of each panel, which only blocks with `starts` start: its first row in the tile, and its byte offset in the
/// panel.
pub(super) struct OneMore {
    pub(super) starts: Reg,
    pub(super) first: Expr,
    pub(super) bytes: Expr,
}

/// The boxes of a buffer that a block starts for its cluster.
pub(super) struct Share {
    /// Bit r: block r of the cluster gets them.
    pub(super) blocks: Reg,
    /// The boxes that every block starts.
    pub(super) of: BoxShare,
    /// One more box of each panel that only some blocks start.
    pub(super) more: Option<OneMore>,
    /// Where the first of these boxes begins in the tile: its column, along the contiguous dimension, and its row.
    pub(super) column: Expr,
    pub(super) first: Expr,
    /// Its byte offset in the slot.
    pub(super) bytes: Expr,
}

impl Lowering<'_> {
    /// The mbarriers of the slot to fill next: constants before the loop, unless they are kept from tile to tile.
    pub(super) fn next_to_fill(&self, state: &RingState<'_>, in_loop: bool) -> Option<Cursor> {
        match in_loop || state.carried {
            true => state.producer.clone(),
            false => Self::fixed_cursor(state.ring, state.ahead % state.ring.depth),
        }
    }

    /// Advances the role to the next slot to fill.
    pub(super) fn advance_producer(&mut self, state: &mut RingState<'_>, in_loop: bool, write: &Expr, note: &Note) {
        let ring = state.ring;
        let variable = in_loop || state.carried;
        if let (Some(cursor), true) = (&state.producer, variable) {
            self.b.origin_at(Site::NextSlotToFill, note, "advance to the next slot to fill");
            self.advance_cursor(cursor);
        }
        if !in_loop {
            state.ahead += 1;
        }
        if ring.depth > 1 {
            self.b.origin_at(Site::NextSlotToFill, note, "advance to the next slot to fill");
            if variable {
                self.advance_slot(ring, write);
            } else {
                state.write = Some(Expr::Const(u64::from(state.ahead % ring.depth) * u64::from(ring.slot_bytes)));
            }
        }
    }

    /// Advances a slot variable to the next slot of the ring.
    pub(super) fn advance_slot(&mut self, ring: &Ring, slot: &Expr) {
        let bytes = ring.slot_bytes;
        let last = (ring.depth - 1) * bytes;
        match ring.depth {
            1 => {}
            2 => self.b.assign(slot, Expr::Const(u64::from(bytes)) - slot.clone()),
            _ => {
                let wraps = slot.clone().ge(last);
                self.b.assign(slot, wraps.select(0u32, slot.clone() + bytes));
            }
        }
    }
}
