//! The tile of D in slots of a ring, which the producer lends between the K-tiles of one tile and those of the next.
//!
//! ```text
//! producer: for each slot: wait until it is empty; arrive at its full mbarrier; next slot
//! consumer: wait until the last one is full
//!           stage, write, and wait until it has been read
//!           for each slot: arrive at its empty mbarrier; next slot
//! ```
//!
//! The slots follow each other in the ring, whose last one is followed by its first. A panel of the stage is at the same place of
//! its slot as in one piece of memory, so that only the distance between these two depends on where the ring is.

use ptx_gemm_dsl::target::WARP;

use super::ring::Cursor;
use super::{Lowered, Lowering, broken};
use crate::kernel::{Arrival, Expr, Guard, Op};
use crate::tile::{Lent, Note, Ring, Writer};

impl<'a> Lowering<'a> {
    /// Takes the next free slots, and tells the consumer that they are its own.
    pub(super) fn lend(&mut self, ring: usize, note: &Note) -> Lowered<()> {
        let (decl, lent) = self.slots_of_stage(ring)?;
        let place = self.carried[ring].as_ref().and_then(|carried| carried.write.clone());
        let Some((slot, cursor)) = place else { return Err(broken("slots are lent by a role that fills none")) };
        // As for its copies: the thread that arrives stays with its warp.
        let (warp, guard) = match self.program.by_tma(ring) {
            false => (None, None),
            true => {
                self.b.origin(note, "one thread lends the slots");
                let warp = (self.threads > WARP).then(|| self.b.set_reg(self.tid.clone().lt(WARP)));
                let leader = self.b.set_reg(self.tid.clone().lt(1u32));
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
        self.borrowed = std::iter::once(slot).chain(later).collect();
        let ahead = self.cursor(decl, 0, 0).ok_or_else(|| broken("only slots with mbarriers are lent"))?;
        self.set_cursor(&ahead, &cursor);
        self.b.origin(note, "the last slot is lent, and so are those before it");
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
                // Otherwise each arrival has the fence.
                self.b.push(Op::FenceCopies);
            }
            self.arrive_empty(decl, &cursor, None);
            self.next_slot(decl, &slot, &cursor, note);
        }
        self.borrowed.clear();
        Ok(())
    }

    /// Where a panel of the stage is, in bytes from the first slot of its ring.
    pub(super) fn panel_in_slots(&mut self, panel: Expr) -> Lowered<Expr> {
        let Some(lent) = self.program.lent() else { return Err(broken("the stage of d is in no slots")) };
        let (Some(first), Some(panels)) = (self.borrowed.first(), self.borrowed.get(1..)) else {
            return Err(broken("no slots are borrowed"));
        };
        let index = panel.clone() / lent.panels;
        // Those of a panel that depends on the thread are found one by one.
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
        let place = self.carried[ring].as_ref().and_then(|carried| carried.read.clone());
        place.ok_or_else(|| broken("slots are borrowed by a role that reads none"))
    }

    fn next_slot(&mut self, ring: &Ring, slot: &Expr, cursor: &Cursor, note: &Note) {
        self.b.origin(note, "advance to the next slot");
        self.advance_cursor(cursor);
        self.advance_slot(ring, slot);
    }
}
