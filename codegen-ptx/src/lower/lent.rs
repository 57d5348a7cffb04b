//! The stage of D in slots of a ring: the epilogue reuses pipeline stages, which the producer lends after the K-tiles
//! of one tile and before those of the next.
//!
//! ```text
//! producer: for each slot: wait until it is empty; arrive at its full mbarrier; next slot
//! consumer: wait until the last one is full
//!           stage, write, and wait until it has been read
//!           for each slot: arrive at its empty mbarrier; next slot
//! ```
//!
//! A consumer that computes several tiles overlaps the end of the copy with the start of its next tile (`after_first`):
//! it finds the tile and clears the accumulators first, and returns the slots before that tile's products. It does not
//! return the slots of its last tile, which no thread needs.
//!
//! The slots are consecutive in the ring, and the ring's first slot follows its last. A panel of the stage has the same
//! offset from its slot as in contiguous memory. Only the distance between panels depends on the position in the ring.

use ptx_gemm_dsl::target::WARP;

use super::ring::Cursor;
use super::scheduler::Units;
use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{Arrival, Expr, Guard, Op};
use crate::origin::Site;
use crate::tile::{self, Lent, Note, Ring, Statement, Writer};

impl<'a> Lowering<'a> {
    /// Prepares to tell a role's first tile from those that follow, if a statement of its tiles depends on that.
    pub(super) fn start_after_first(&mut self, body: &[Statement]) {
        let first = body.iter().find(|statement| matches!(statement.op, tile::Op::AfterFirst { .. }));
        self.position.stored = first.map(|statement| {
            self.b.origin(&statement.note, "no tile of D has been stored yet");
            self.b.variable(Expr::Const(0), 1)
        });
    }

    /// Lowers the statements that a role runs in each of its tiles but the first.
    pub(super) fn after_first(
        &mut self,
        work_tile: &WorkTile,
        units: &Units,
        body: &'a [Statement],
        note: &Note,
    ) -> Lowered<()> {
        let stored = self.position.stored.clone().ok_or_else(|| broken("there is no tile before the first"))?;
        self.b.origin(note, "has this block stored a tile of D?");
        let stored = self.b.set_reg(stored.ge(1u32));
        self.b.open();
        self.statements(work_tile, units, body)?;
        let then = self.b.close();
        self.b.origin(note, "has this block stored a tile of D?");
        self.b.branch(stored, then, Vec::new());
        Ok(())
    }

    /// The next tile is not the first.
    pub(super) fn end_of_tile(&mut self, body: &[Statement]) {
        let Some(stored) = self.position.stored.clone() else { return };
        if let Some(first) = body.iter().find(|statement| matches!(statement.op, tile::Op::AfterFirst { .. })) {
            self.b.origin(&first.note, "the slots of this tile are returned when the next one begins");
            self.b.assign(&stored, Expr::Const(1));
        }
    }

    /// Takes the next free slots, and signals to the consumer that it owns them.
    pub(super) fn lend(&mut self, ring: usize, note: &Note) -> Lowered<()> {
        let (decl, lent) = self.slots_of_stage(ring)?;
        let place = self.position.carried[ring].as_ref().and_then(|carried| carried.write.clone());
        let Some((slot, cursor)) = place else { return Err(broken("slots are lent by a role that fills none")) };
        // As for copies by TMA: the thread that arrives stays with its warp.
        let (warp, guard) = match self.program.by_tma(ring) {
            false => (None, None),
            true => {
                self.b.origin(note, "one thread lends the slots");
                let warp = (self.role.threads > WARP).then(|| self.b.set_reg(self.role.tid.clone().lt(WARP)));
                let leader = self.b.set_reg(self.role.tid.clone().lt(1u32));
                (warp, Some(Guard { pred: leader, expect: true }))
            }
        };
        for _ in 0..lent.slots {
            if warp.is_some() {
                self.b.open();
            }
            self.b.origin(note, "all threads have read what the slot held");
            self.wait_empty(&cursor);
            self.b.origin(note, "lend the slot for the tile of D");
            let address = self.full_barrier(&cursor);
            self.b.push(Op::Arrive { address, when: Arrival::Now, guard });
            if let Some(warp) = warp {
                let then = self.b.close();
                self.b.origin(note, "the warp of the thread that lends the slots");
                self.b.branch(warp, then, Vec::new());
            }
            self.next_slot(decl, &slot, &cursor, note);
        }
        Ok(())
    }

    /// Waits for the slots.
    pub(super) fn borrow(&mut self, ring: usize, note: &Note) -> Lowered<()> {
        let (decl, lent) = self.slots_of_stage(ring)?;
        let (slot, cursor) = self.read_place(ring)?;
        self.b.origin(note, "the slots for the tile of D");
        let later = (1..lent.slots).map(|index| (cursor.slot() + index) % decl.depth * decl.slot_bytes);
        let later: Vec<Expr> = later.map(|offset| self.b.set(offset)).collect();
        self.position.borrowed = std::iter::once(slot).chain(later).collect();
        let ahead = self.cursor(decl, 0, 0).ok_or_else(|| broken("only slots with mbarriers are lent"))?;
        self.set_cursor(&ahead, &cursor);
        self.b.origin_at(Site::LastSlotLent, note, "the last slot is lent, and so are those before it");
        for _ in 1..lent.slots {
            self.advance_cursor(&ahead);
        }
        self.wait_full(&ahead);
        Ok(())
    }

    /// Returns the slots.
    pub(super) fn give_back(&mut self, ring: usize, note: &Note) -> Lowered<()> {
        let (decl, lent) = self.slots_of_stage(ring)?;
        let (slot, cursor) = self.read_place(ring)?;
        let read_by_threads = self
            .program
            .statements()
            .iter()
            .any(|statement| matches!(statement.op, crate::tile::Op::Write { by: Writer::Registers { .. } }));
        for index in 0..lent.slots {
            self.b.origin(note, "the slot is free of the tile of D");
            if index == 0 && read_by_threads && self.program.by_tma(ring) && self.program.read_by_descriptor(ring) {
                // Otherwise each arrival includes the fence.
                self.b.push(Op::FenceCopies);
            }
            self.arrive_empty(decl, &cursor, None);
            self.next_slot(decl, &slot, &cursor, note);
        }
        self.position.borrowed.clear();
        Ok(())
    }

    /// The byte offset of a panel of the stage from the first slot of its ring.
    pub(super) fn panel_in_slots(&mut self, panel: Expr) -> Lowered<Expr> {
        let Some(lent) = self.program.lent() else { return Err(broken("the stage of d is in no slots")) };
        let (Some(first), Some(panels)) = (self.position.borrowed.first(), self.position.borrowed.get(1..)) else {
            return Err(broken("no slots are borrowed"));
        };
        let index = panel.clone() / lent.panels;
        // If the panel depends on the thread, its slot is selected by comparisons.
        let slot = panels.iter().zip(1u32..).fold(first.clone(), |slot, (next, number)| match &index {
            Expr::Const(index) if *index >= u64::from(number) => next.clone(),
            Expr::Const(_) => slot,
            _ => index.clone().ge(number).select(next.clone(), slot),
        });
        Ok(self.b.set(slot + panel % lent.panels * lent.panel_bytes))
    }

    fn slots_of_stage(&self, ring: usize) -> Lowered<(&'a Ring, Lent)> {
        let lent = self.program.lent().filter(|lent| lent.ring == ring);
        lent.map(|lent| (&self.program.rings[ring], lent)).ok_or_else(|| broken("the stage of d is elsewhere"))
    }

    fn read_place(&self, ring: usize) -> Lowered<(Expr, Cursor)> {
        let place = self.position.carried[ring].as_ref().and_then(|carried| carried.read.clone());
        place.ok_or_else(|| broken("slots are borrowed by a role that reads none"))
    }

    fn next_slot(&mut self, ring: &Ring, slot: &Expr, cursor: &Cursor, note: &Note) {
        self.b.origin_at(Site::NextSlot, note, "advance to the next slot");
        self.advance_cursor(cursor);
        self.advance_slot(ring, slot);
    }
}
