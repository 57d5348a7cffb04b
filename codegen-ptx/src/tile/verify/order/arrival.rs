//! The tile of C in the stage of D: TMA copies it there when the stage is free, and threads read it after a wait.

use super::super::Check;
use super::{Block, COPIES_OF_A_ROLE, Clock, join};
use crate::tile::ReadC;

/// A copy of C to the stage of a group of threads.
#[derive(Clone, Default)]
pub(super) struct TileOfC {
    /// The tile of D that it is for, and the clock of the thread that started it.
    started: Option<(u32, Clock)>,
}

impl Block<'_> {
    /// A thread starts the copies of C to its stage.
    pub(super) fn prefetch_c(&mut self, t: usize) -> Check {
        if !t.is_multiple_of(COPIES_OF_A_ROLE) {
            return Ok(());
        }
        let (group, tile) = (self.threads[t].group, self.threads[t].tile);
        let clock = self.threads[t].clock.clone();
        let own: Vec<usize> = (0..self.threads.len())
            .filter(|other| (self.threads[*other].role, self.threads[*other].group) == (self.threads[t].role, group))
            .collect();
        if own.iter().any(|other| clock[*other] < self.staged.last_use(*other)) {
            return Err(self.fault("C is copied to the stage while the previous tile of D is there"));
        }
        own.into_iter().for_each(|other| self.staged.lose(other));
        self.tiles_of_c[group as usize].started = Some((tile, clock));
        Ok(())
    }

    /// A thread waits until C is in its stage; false if the copy has not been started yet.
    pub(super) fn await_c(&mut self, t: usize) -> bool {
        let thread = &mut self.threads[t];
        match &self.tiles_of_c[thread.group as usize].started {
            Some((tile, known)) if *tile == thread.tile => {
                // If a scalar of 0 makes the epilogue ignore C, nothing is copied, and no thread waits.
                if self.program.problem.epilogue.dropping_c().is_empty() {
                    join(&mut thread.clock, known);
                }
                thread.tile_of_c = Some(*tile);
                true
            }
            _ => false,
        }
    }

    /// Checks that a thread that reads C in the stage has waited for it.
    pub(super) fn has_c(&self, t: usize, from: ReadC) -> Check {
        let thread = &self.threads[t];
        if from == ReadC::Stage && thread.tile_of_c != Some(thread.tile) {
            return Err(self.fault("C is read in the stage before `await c`"));
        }
        Ok(())
    }
}
