//! Broken rules that do not end a launch; each pair of instructions is recorded once.

use std::collections::HashSet;

use crate::violation::Fault;

/// Most warnings of one block.
const MOST: usize = 64;

/// The warnings that a block has collected.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    seen: HashSet<(u32, u32)>,
    pub(crate) faults: Vec<Fault>,
}

impl Warnings {
    pub(crate) fn reset(&mut self) {
        self.seen.clear();
        self.faults.clear();
    }

    /// Whether this is the first warning about these two instructions.
    pub(crate) fn is_new(&mut self, first: u32, second: u32) -> bool {
        self.seen.len() < MOST && self.seen.insert((first, second))
    }
}
