//! Blocks that poll with barriers in between: detects whether they repeat themselves.
//!
//! A barrier is progress, so no warp of such a block seems to wait. But if all warps have the same registers at two
//! barriers, and nothing else has changed in between, then each of them does the same until the next such barrier,
//! whatever the order of the warps is. A loop that counts its iterations never comparisons like this.

use std::mem::take;

/// What is known about repetitions of a cluster's state.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The rank and number of a barrier at which a warp has arrived after many strong reads, until it completes.
    due: Option<(usize, u32)>,
    /// Whether such a barrier has just completed.
    completed: bool,
    /// Whether anything but registers has changed since the last comparison of states.
    disturbed: bool,
    /// A hash of the state at an earlier barrier, if only registers may have changed since.
    state: Option<u64>,
    /// Number of comparisons since then, and the number after which a newer state is kept. It doubles each time, so
    /// that loops of any length are recognised.
    comparisons: u32,
    most: u32,
    found: bool,
}

impl Repeats {
    /// Something other than registers has changed.
    pub(crate) fn disturb(&mut self) {
        (self.disturbed, self.found) = (true, false);
    }

    /// Requests a comparison of states when this barrier completes.
    pub(crate) fn expect(&mut self, rank: usize, id: u32) {
        self.due = Some((rank, id));
    }

    pub(crate) fn complete_barrier(&mut self, rank: usize, id: u32) {
        if self.due == Some((rank, id)) {
            (self.due, self.completed) = (None, true);
        }
    }

    /// Whether the state has to be compared now. Most loops change memory each time, and are never compared.
    pub(crate) fn is_due(&mut self) -> bool {
        if !take(&mut self.completed) {
            return false;
        }
        if take(&mut self.disturbed) {
            self.state = None;
            return false;
        }
        true
    }

    /// Compares a state with the earlier one.
    pub(crate) fn compare(&mut self, state: u64) {
        self.found = self.state == Some(state);
        self.comparisons += 1;
        if self.state.is_none() || self.comparisons >= self.most {
            self.most = if self.state.is_none() { 1 } else { self.most.saturating_mul(2) };
            (self.state, self.comparisons) = (Some(state), 0);
        }
    }

    /// Whether the cluster will repeat itself until another one changes something.
    pub(crate) fn found(&self) -> bool {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::Repeats;

    #[test]
    fn loops_of_any_length_are_recognised() {
        for length in [1, 2, 3, 7, 10] {
            let mut repeats = Repeats::default();
            let states = (0..5).chain((0..200).map(|index| 100 + index % length));
            let found = states.enumerate().find_map(|(index, state)| {
                repeats.compare(state);
                repeats.found().then_some(index as u64)
            });
            assert!(found.is_some_and(|found| (5 + length..40).contains(&found)), "{length}: {found:?}");
        }
        let mut repeats = Repeats::default();
        assert!((0..200).all(|state| {
            repeats.compare(state);
            !repeats.found()
        }));
    }
}
