//! The stage of D in shared memory. All threads of a role write it; all of them or the thread that starts TMA read it.
//! Slots may use the memory before and after. TMA reads it until the thread that started it has waited.

use super::super::Check;
use super::{Block, COPIES_OF_A_ROLE, READING};
use crate::tile::Writer;
use crate::violation::Site;

/// Reported by whichever comes first, the thread that reads the tile or the thread that copies.
const LOST: &str = "K-tiles are copied to the memory of a staged tile of D that may still be read";

/// The threads' accesses to the stage.
#[derive(Clone)]
pub(super) struct Staged {
    /// Per place (one for each slot that may be the first lent slot), by thread: the tile that it wrote there last, and
    /// when.
    written: Vec<Vec<Option<(u32, u32)>>>,
    /// Per thread: the time of its last read (0: never).
    read: Vec<u32>,
    /// Whether K-tiles have been copied to its memory since.
    lost: bool,
}

impl Staged {
    pub(super) fn new(threads: usize, places: u32) -> Staged {
        Staged { written: vec![vec![None; threads]; places as usize], read: vec![0; threads], lost: false }
    }

    /// The time of a thread's last write or read, in a stage outside slots.
    pub(super) fn last_use(&self, thread: usize) -> u32 {
        self.written[0][thread].map_or(0, |(_, time)| time).max(self.read[thread])
    }

    /// A thread's part of the tile is overwritten.
    pub(super) fn lose(&mut self, thread: usize) {
        self.written[0][thread] = None;
    }
}

impl Block<'_> {
    /// A thread writes its part of the tile.
    pub(super) fn stage(&mut self, t: usize, acc: usize) -> Check {
        self.complete(t, acc)?;
        self.whole(t, acc, "staged")?;
        let clock = self.threads[t].clock.clone();
        let late = |times: &[u32]| times.iter().zip(&clock).any(|(time, seen)| seen < time);
        // Groups that take turns each have their own stage.
        let own = |thread: usize| self.threads[thread].group == self.threads[t].group;
        let reads: Vec<u32> =
            self.staged.read.iter().enumerate().map(|(thread, read)| if own(thread) { *read } else { 0 }).collect();
        // Slots that are lent again have been found free.
        if self.program.lent().is_none() && late(&reads) {
            return Err(self.fault("a tile of D is staged while the previous one may still be read"));
        }
        self.stage_in_lent_slots(t)?;
        self.take_slots(t, "a tile of D is staged")?;
        self.staged.lost = false;
        let place = self.place(t);
        self.staged.written[place][t] = Some((self.threads[t].tile, clock[t]));
        Ok(())
    }

    /// A thread writes to the memory of slots. All of them have been filled and read.
    pub(super) fn take_slots(&mut self, t: usize, what: &str) -> Check {
        for buffer in self.shared_with_slots() {
            let name = &self.program.buffers[buffer].name;
            for slot in &self.slots[buffer] {
                let clock = &self.threads[t].clock;
                let late = |times: &[u32]| times.iter().zip(clock).any(|(time, seen)| seen < time);
                let landed = |(writer, written): (usize, &Option<super::Written>)| {
                    written.is_none_or(|written| written.done.is_some_and(|done| done <= clock[writer]))
                };
                if late(&slot.read) || !slot.written.iter().enumerate().all(landed) {
                    return Err(self.fault(format_args!("{what} while {name} may still be copied to or read")));
                }
            }
            self.slots[buffer].iter_mut().for_each(|slot| slot.written.fill(None));
        }
        Ok(())
    }

    /// The tile is copied to global memory.
    pub(super) fn write_out(&mut self, t: usize, by: Writer) -> Check {
        self.borrowed(t)?;
        self.threads[t].stores += 1;
        if self.program.scheduler.divides_k() && self.threads[t].reduced.is_none() {
            return Err(
                self.fault("D is written outside the reduction, where only one of the blocks has staged the tile")
            );
        }
        let thread = &self.threads[t];
        let reads = match by {
            Writer::Registers { .. } => true,
            Writer::Tma { .. } => t.is_multiple_of(COPIES_OF_A_ROLE),
        };
        if !reads {
            return Ok(());
        }
        for (writer, written) in self.staged.written[self.place(t)].iter().enumerate() {
            if (self.threads[writer].role, self.threads[writer].group) != (thread.role, thread.group) {
                continue;
            }
            if written.is_none_or(|(tile, time)| tile != thread.tile || thread.clock[writer] < time) {
                return Err(self.fault("D is written before all threads have staged their parts of the tile"));
            }
        }
        if self.staged.lost {
            return Err(self.fault(LOST));
        }
        let until = match by {
            Writer::Registers { .. } => thread.clock[t],
            Writer::Tma { .. } => READING,
        };
        self.staged.read[t] = until;
        self.use_lent_slots(t, until)
    }

    /// The thread waits until the copies that it has started have read the tile.
    pub(super) fn settle(&mut self, t: usize) {
        let now = self.threads[t].clock[t];
        let read = &mut self.staged.read[t];
        if *read == READING {
            *read = now;
            self.read_until(t, now);
        }
    }

    /// Checks that no copy reads the shared memory of a block that has ended.
    pub(super) fn all_settled(&self) -> Check {
        match self.staged.read.iter().position(|read| *read == READING) {
            None => Ok(()),
            Some(t) => {
                let fault = self.fault("the block ends while tma may still read the tile of D: `settle` waits for it");
                Err(fault.at(Site::Role(self.threads[t].role)))
            }
        }
    }

    /// Checks that a slot's memory no longer holds a live tile of D; the tile is lost now.
    pub(super) fn not_staged(&mut self, t: usize, buffer: usize) -> Check {
        if !self.shared_with_slots().contains(&buffer) {
            return Ok(());
        }
        let clock = &self.threads[t].clock;
        let written = self.staged.written[0].iter().map(|written| written.map_or(0, |(_, time)| time));
        let late = |times: &mut dyn Iterator<Item = u32>| times.zip(clock).any(|(time, seen)| *seen < time);
        if late(&mut written.into_iter()) || late(&mut self.staged.read.iter().copied()) {
            return Err(self.fault(LOST));
        }
        self.staged.lost = true;
        Ok(())
    }

    /// Whether a tile of D took the memory of a buffer's slots.
    pub(super) fn is_staged_in(&self, buffer: usize) -> bool {
        self.staged.written.iter().flatten().any(Option::is_some) && self.shared_with_slots().contains(&buffer)
    }

    /// The buffers with slots in the stage's memory.
    fn shared_with_slots(&self) -> Vec<usize> {
        // If slots are lent, each access is recorded as an access to the slot instead.
        let rings = (0..self.program.rings.len()).filter(|ring| self.program.is_staged_in(*ring));
        let rings = rings.filter(|_| self.program.lent().is_none());
        rings.flat_map(|ring| self.program.rings[ring].buffers.iter().copied()).collect()
    }
}
