//! Slots of a ring that hold the stage of D for a while. The producer gives them to the consumer without K-tiles, in
//! the order of the ring. A thread that writes or reads the tile counts as a reader of the slots, so that `acquire`
//! finds any that remain.

use super::super::Check;
use super::rings::arrive;
use super::{Block, READING};
use crate::Violation;
use crate::tile::Op;

impl Block<'_> {
    /// The producer gives the next slots away; false if it has to wait for one.
    pub(super) fn lend(&mut self, t: usize, ring: usize) -> Result<bool, Violation> {
        let slots = self.slots_of_stage();
        while self.threads[t].rings[ring].passed < slots {
            if !self.take_slot(t, ring)? {
                return Ok(false);
            }
            if !self.idle(t, ring) {
                let slot = self.slot_at(ring, self.threads[t].rings[ring].committed);
                for buffer in &self.program.rings[ring].buffers {
                    self.slots[*buffer][slot].written.fill(None);
                }
                let all = self.members(|op| matches!(op, Op::Commit { ring: of } if *of == ring));
                let count = if self.by_tma[ring] { 1 } else { all };
                arrive(&mut self.full[ring][slot], &self.threads[t].clock, count);
            }
            let cursor = &mut self.threads[t].rings[ring];
            cursor.committed += 1;
            cursor.passed += 1;
        }
        self.threads[t].rings[ring].passed = 0;
        Ok(true)
    }

    /// The consumer waits for the slots; false if one has not arrived yet.
    pub(super) fn borrow(&mut self, t: usize, ring: usize) -> Result<bool, Violation> {
        let (name, slots) = (&self.program.rings[ring].name, self.slots_of_stage());
        let cursor = &self.threads[t].rings[ring];
        if cursor.waited > cursor.released + cursor.passed {
            return Err(self.fault(format_args!("{name}: slots are borrowed before the last one is released")));
        }
        while self.threads[t].rings[ring].passed < slots {
            let slot = self.slot_at(ring, self.threads[t].rings[ring].waited);
            if !self.wait_full(t, ring)? {
                return Ok(false);
            }
            let holds = |buffer: &usize| self.slots[*buffer][slot].written.iter().any(Option::is_some);
            if self.program.rings[ring].buffers.iter().any(holds) {
                return Err(self.fault(format_args!("{name}: slot {slot} is borrowed, and has a K-tile")));
            }
            self.threads[t].rings[ring].passed += 1;
        }
        let cursor = &mut self.threads[t].rings[ring];
        (cursor.passed, cursor.borrowed) = (0, slots);
        Ok(true)
    }

    /// The consumer returns the slots.
    pub(super) fn give_back(&mut self, t: usize, ring: usize) -> Check {
        let name = &self.program.rings[ring].name;
        if self.threads[t].rings[ring].borrowed == 0 {
            return Err(self.fault(format_args!("{name}: slots are returned that have not been borrowed")));
        }
        // If tensor cores read the slots, one thread of a warp group arrives for all.
        let for_all = self.program.read_by_descriptor(ring);
        while self.threads[t].rings[ring].borrowed > 0 {
            let slot = self.slot_at(ring, self.threads[t].rings[ring].released);
            let clock = &self.threads[t].clock;
            let own = |other: usize| other == t || self.threads[other].role == self.threads[t].role && for_all;
            let late = |buffer: &usize| {
                self.slots[*buffer][slot]
                    .read
                    .iter()
                    .enumerate()
                    .any(|(other, read)| own(other) && clock[other] < *read)
            };
            if self.program.rings[ring].buffers.iter().any(late) {
                return Err(
                    self.fault(format_args!("{name}: slots are returned while the tile of D may still be read"))
                );
            }
            let count = self.members(|op| matches!(op, Op::Release { ring: of, .. } if *of == ring));
            arrive(&mut self.empty[ring][slot], &self.threads[t].clock, count);
            let cursor = &mut self.threads[t].rings[ring];
            cursor.released += 1;
            cursor.borrowed -= 1;
        }
        Ok(())
    }

    /// A thread writes its part of the tile of D to the slots that it has borrowed.
    pub(super) fn stage_in_lent_slots(&mut self, t: usize) -> Check {
        // The producer that lent them has found that nothing else reads them.
        self.use_lent_slots(t, self.threads[t].clock[t])
    }

    /// A thread uses its part of the tile of D in the slots until the given time.
    pub(super) fn use_lent_slots(&mut self, t: usize, until: u32) -> Check {
        for (buffer, slot) in self.borrowed(t)? {
            self.slots[buffer][slot].read[t] = until;
        }
        Ok(())
    }

    /// TMA has read the tile of D for which this thread started the copy.
    pub(super) fn read_until(&mut self, t: usize, now: u32) {
        let Some(lent) = self.program.lent() else { return };
        for buffer in &self.program.rings[lent.ring].buffers {
            let read = self.slots[*buffer].iter_mut().map(|slot| &mut slot.read[t]);
            read.filter(|read| **read == READING).for_each(|read| *read = now);
        }
    }

    /// The position of a thread's tile of D, among the slots that may be the first lent slot.
    pub(super) fn place(&self, t: usize) -> usize {
        self.program.lent().map_or(0, |lent| self.slot_at(lent.ring, self.threads[t].rings[lent.ring].released))
    }

    /// The buffers and slots that a thread has borrowed for the stage of D; none if the stage is not in slots.
    pub(super) fn borrowed(&self, t: usize) -> Result<Vec<(usize, usize)>, Violation> {
        let Some(lent) = self.program.lent() else { return Ok(Vec::new()) };
        let (ring, cursor) = (&self.program.rings[lent.ring], &self.threads[t].rings[lent.ring]);
        if cursor.borrowed == 0 {
            return Err(
                self.fault(format_args!("the stage of d is used outside `borrow {0}` and `return {0}`", ring.name))
            );
        }
        let slots = (0..cursor.borrowed).map(|slot| self.slot_at(lent.ring, cursor.released + slot));
        Ok(slots.flat_map(|slot| ring.buffers.iter().map(move |buffer| (*buffer, slot))).collect())
    }

    fn slots_of_stage(&self) -> u32 {
        self.program.lent().map_or(0, |lent| lent.slots)
    }

    fn slot_at(&self, ring: usize, count: u32) -> usize {
        (count % self.program.rings[ring].depth) as usize
    }
}
