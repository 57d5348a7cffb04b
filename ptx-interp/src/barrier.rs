//! The sixteen barriers of a block. They count warps, 32 threads at a time, as the ISA says.

use crate::row::LANES;

/// Barriers per block.
pub(crate) const MAX_BARRIERS: usize = 16;

/// How many threads have come, and how many are expected.
#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    arrived: u32,
    expected: u32,
}

/// All barriers of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barriers {
    all: [Barrier; MAX_BARRIERS],
}

impl Barriers {
    /// A warp comes. Whether the barrier is complete; an error with their number if others expect differently.
    pub(crate) fn arrive(&mut self, id: u32, expected: u32) -> Result<bool, u32> {
        let barrier = &mut self.all[id as usize];
        if barrier.arrived > 0 && barrier.expected != expected {
            return Err(barrier.expected);
        }
        barrier.expected = expected;
        barrier.arrived += LANES as u32;
        Ok(barrier.arrived >= expected)
    }

    /// How many threads have come, of how many, as reports say it.
    pub(crate) fn state(&self, id: u32) -> String {
        let Barrier { arrived, expected } = self.all[id as usize];
        format!("{arrived} of {expected} threads")
    }

    /// The barrier is free for its next use.
    pub(crate) fn clear(&mut self, id: u32) {
        self.all[id as usize] = Barrier::default();
    }
}
