//! Warp groups without rows of D, in groups of products.
//!
//! Products of a group have any number of rows, and the last tile of each may end before the rows of its later warp groups
//! begin. Such a warp group moves over the K-tiles of the tile, so that the others have the tensor cores to themselves; the
//! first one, which always has rows, returns the slots in its place. Once in each tile all of them meet, if only to store D: a
//! warp group that ran ahead by a round of the ring would wait for a phase whose parity has come round again.
//!
//! ```text
//! if tid / 128 * rows < rows left {
//!   the K-tiles; thread 0 arrives once more for each warp group that has no rows
//! } else {
//!   slot, parity: K-tiles later
//! }
//! if some have no rows: a barrier of the role's threads, unless storing D has one
//! ```

use ptx_gemm_dsl::target::{BARRIERS, WARP_GROUP};
use ptx_gemm_dsl::types::Batch;

use super::{Lowering, WorkTile};
use crate::kernel::{Op as KernelOp, Reg};
use crate::tile::{self, Instruction, Note, Op, Statement};

impl<'a> Lowering<'a> {
    /// Finds the warp groups without rows of D, for which the first one returns slots from here on. Returns whether this
    /// thread's own has rows; `None` where every one has, or does other work than to multiply.
    pub(super) fn enter_idle(&mut self, work_tile: &WorkTile, body: &'a [Statement]) -> Option<Reg> {
        let program = self.program;
        let groups = self.threads / WARP_GROUP;
        let barrier = self.first_free_barrier() < BARRIERS;
        if program.problem.batch != Batch::Grouped || self.groups.is_some() || groups < 2 || !barrier {
            return None;
        }
        let mut multiplies = true;
        tile::walk(body, &mut |statement| match &statement.op {
            Op::Loop { .. } | Op::Wait { .. } | Op::Retire { .. } | Op::Release { .. } => {}
            Op::Steps { multiply, .. } => multiplies &= matches!(multiply.by, Instruction::Wgmma { .. }),
            _ => multiplies = false,
        });
        if !multiplies {
            return None;
        }
        let rows = program.block.m / groups;
        self.b.origin(&program.tail_note, "which warp groups have no rows of D?");
        let idle = (1..groups).map(|group| work_tile.rem_m.clone().lt(group * rows + 1));
        self.idle = idle.map(|idle| self.b.set(idle)).collect();
        let first = self.tid.clone() / WARP_GROUP * rows;
        Some(self.b.set_reg(first.lt(work_tile.rem_m.clone())))
    }

    /// Moves over the K-tiles of a tile.
    pub(super) fn move_over_tile(&mut self, work_tile: &WorkTile, note: &Note) {
        self.b.origin(note, "the slot after the K-tiles of this tile");
        let k_tiles = self.k_tiles(&work_tile.k);
        for (ring, carried) in self.program.rings.iter().zip(self.carried.clone()) {
            if let Some(place) = carried.and_then(|carried| carried.read) {
                self.move_over(ring, &place, &k_tiles);
            }
        }
    }

    /// After the K-tiles of a tile, whose statements these are, all warp groups of the role meet if some have no rows of D.
    pub(super) fn leave_idle(&mut self, tile: &'a [Statement]) {
        let (program, threads) = (self.program, self.threads);
        // Those after the first one have no rows if the last one has none.
        let Some(last) = std::mem::take(&mut self.idle).pop() else { return };
        let meets = |statement: &Statement| matches!(statement.op, Op::Meet { barrier } if program.barriers[barrier].threads == threads);
        if tile.iter().any(meets) {
            return;
        }
        let note = &program.tail_note;
        self.b.origin(note, "wait for the warp groups that have rows of D");
        let some = self.b.set_reg(last);
        self.b.open();
        self.b.push(KernelOp::NamedBarrier { number: self.first_free_barrier(), threads });
        let then = self.b.close();
        self.b.branch(some, then, Vec::new());
    }

    /// The first number of a named barrier that the program has not given to a barrier of its own.
    fn first_free_barrier(&self) -> u32 {
        self.program.barriers.iter().map(|barrier| barrier.number + 1).max().unwrap_or(1)
    }
}
