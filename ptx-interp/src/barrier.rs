//! The sixteen barriers of a block. They count whole warps, 32 threads at a time, as the PTX ISA specifies.

use crate::row::LANES;

/// Barriers per block.
pub(crate) const MAX_BARRIERS: usize = 16;

/// The predicates of threads at a barrier that reduces them.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Votes {
    pub(crate) yes: u32,
    pub(crate) all: u32,
    /// Whether one of them was never written.
    pub(crate) tainted: bool,
}

/// How many threads have arrived, and how many are expected.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Barrier {
    votes: Votes,
    arrived: u32,
    expected: u32,
}

/// All barriers of a block.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Barriers {
    all: [Barrier; MAX_BARRIERS],
}

impl Barriers {
    /// Counts the arrival of a warp, and returns whether the barrier is complete. Fails with the expected number of
    /// threads if it differs from that of earlier arrivals.
    pub(crate) fn arrive(&mut self, id: u32, expected: u32) -> Result<bool, u32> {
        let barrier = &mut self.all[id as usize];
        if barrier.arrived > 0 && barrier.expected != expected {
            return Err(barrier.expected);
        }
        barrier.expected = expected;
        barrier.arrived += LANES as u32;
        Ok(barrier.arrived >= expected)
    }

    /// Adds the predicates of a warp.
    pub(crate) fn vote(&mut self, id: u32, votes: Votes) {
        let all = &mut self.all[id as usize].votes;
        *all = Votes { yes: all.yes + votes.yes, all: all.all + votes.all, tainted: all.tainted | votes.tainted };
    }

    /// The predicates of all threads that have arrived.
    pub(crate) fn votes(&self, id: u32) -> Votes {
        self.all[id as usize].votes
    }

    /// Number of threads that are missing at a barrier with arrivals.
    pub(crate) fn missing(&self, id: u32) -> u32 {
        let barrier = &self.all[id as usize];
        barrier.expected.saturating_sub(barrier.arrived)
    }

    /// The number of arrived and expected threads, as text for reports.
    pub(crate) fn state(&self, id: u32) -> String {
        let Barrier { arrived, expected, .. } = self.all[id as usize];
        format!("{arrived} of {expected} threads")
    }

    /// Resets the barrier for its next use.
    pub(crate) fn clear(&mut self, id: u32) {
        self.all[id as usize] = Barrier::default();
    }
}
