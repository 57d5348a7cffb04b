//! Blocks that poll with barriers in between: whether they do the same again and again.
//!
//! A barrier is progress, so no warp of such a block seems to wait. But if all warps have the same registers at two
//! barriers, and nothing else has changed in between, then each of them does the same until the next such barrier, in
//! whatever order they take turns. A loop that counts its iterations never looks like this.

use std::mem::take;

/// What is known about repetitions of a cluster's state.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The rank and number of a barrier at which a warp has arrived after many strong reads, until it completes.
    due: Option<(usize, u32)>,
    /// Whether such a barrier has just completed.
    met: bool,
    /// Whether anything but registers has changed since the state was last looked at.
    disturbed: bool,
    /// A hash of the state at an earlier barrier, if only registers may have changed since.
    state: Option<u64>,
    /// Number of looks since then, and the number after which a newer state is kept. It doubles each time, so that loops
    /// of any length are recognised.
    looks: u32,
    most: u32,
    found: bool,
}

impl Repeats {
    /// Something other than registers has changed.
    pub(crate) fn disturb(&mut self) {
        (self.disturbed, self.found) = (true, false);
    }

    /// The state has to be looked at when this barrier completes.
    pub(crate) fn expect(&mut self, rank: usize, id: u32) {
        self.due = Some((rank, id));
    }

    pub(crate) fn complete_barrier(&mut self, rank: usize, id: u32) {
        if self.due == Some((rank, id)) {
            (self.due, self.met) = (None, true);
        }
    }

    /// Whether the state has to be looked at now. Most loops change memory each time, and are never looked at.
    pub(crate) fn is_due(&mut self) -> bool {
        if !take(&mut self.met) {
            return false;
        }
        if take(&mut self.disturbed) {
            self.state = None;
            return false;
        }
        true
    }

    /// Looks at a state.
    pub(crate) fn look(&mut self, state: u64) {
        self.found = self.state == Some(state);
        self.looks += 1;
        if self.state.is_none() || self.looks >= self.most {
            self.most = if self.state.is_none() { 1 } else { self.most.saturating_mul(2) };
            (self.state, self.looks) = (Some(state), 0);
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
                repeats.look(state);
                repeats.found().then_some(index as u64)
            });
            assert!(found.is_some_and(|found| (5 + length..40).contains(&found)), "{length}: {found:?}");
        }
        let mut repeats = Repeats::default();
        assert!((0..200).all(|state| {
            repeats.look(state);
            !repeats.found()
        }));
    }
}
