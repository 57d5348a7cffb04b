//! Groups of threads that take turns: one group holds an ordered barrier at a time, and skips the K-tiles of the
//! others.

use super::super::Check;
use super::rings::arrive;
use super::{Block, COPIES_OF_A_ROLE, join};
use crate::Violation;

impl Block<'_> {
    /// The component of a clock that counts the known fills of a slot.
    pub(super) fn fills(&self, ring: usize, slot: usize) -> usize {
        let before: u32 = self.program.rings[..ring].iter().map(|ring| ring.depth).sum();
        self.threads.len() + before as usize + slot
    }

    /// A thread skips the K-tiles between this tile and the last one of its group.
    pub(super) fn skip(&mut self, t: usize, ring: usize) -> Check {
        let name = &self.program.rings[ring].name;
        let thread = &mut self.threads[t];
        let others = if thread.tile == thread.group { thread.group } else { thread.turns - 1 };
        let cursor = &mut thread.rings[ring];
        if cursor.waited > cursor.released {
            return Err(self.fault(format_args!("{name}: K-tiles are passed over before the last slot is released")));
        }
        cursor.waited += others * self.k_tiles;
        cursor.released = cursor.waited;
        Ok(())
    }

    /// A thread waits at an ordered barrier; false if it has to keep waiting.
    pub(super) fn take(&mut self, t: usize, turn: usize) -> Result<bool, Violation> {
        let thread = &self.threads[t];
        if let Some(held) = thread.holds {
            let [name, held] = [turn, held].map(|turn| &self.program.turns[turn].name);
            return Err(self.fault(format_args!("{name} is taken before {held} is passed on")));
        }
        // The first group holds the barrier when the block starts.
        let passes = thread.taken[turn] + u32::from(thread.group > 0);
        let barrier = &self.turns[turn][thread.group as usize];
        if barrier.phases < passes {
            return Ok(false);
        }
        let thread = &mut self.threads[t];
        join(&mut thread.clock, &barrier.done);
        thread.taken[turn] += 1;
        thread.holds = Some(turn);
        Ok(true)
    }

    /// A thread passes an ordered barrier on. The next group holds it once all threads of this group have done so.
    pub(super) fn pass(&mut self, t: usize, turn: usize) -> Check {
        let thread = &mut self.threads[t];
        if thread.holds != Some(turn) {
            let name = &self.program.turns[turn].name;
            return Err(self.fault(format_args!("{name} is passed on and was not taken")));
        }
        thread.holds = None;
        let next = (thread.group + 1) % thread.turns;
        arrive(&mut self.turns[turn][next as usize], &thread.clock, COPIES_OF_A_ROLE as u32);
        Ok(())
    }
}
