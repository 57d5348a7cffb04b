//! Accesses of threads to the shared memory of other blocks of their cluster. That memory ends with its block, so each
//! such access has to be ordered before something that the block does before it exits (PTX ISA, "Cluster of Cooperative
//! Thread Arrays": accesses to the shared memory of a block that has exited are undefined).

use std::collections::BTreeMap;

/// A thread's last access to the shared memory of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) thread: u16,
    pub(crate) clock: u32,
    pub(crate) pc: u32,
}

/// The accesses to one block's shared memory by threads of other blocks.
#[derive(Clone, Debug, Default)]
struct Host {
    exited: bool,
    last: BTreeMap<u16, Visit>,
}

/// The accesses to the memory of every block of a cluster, by rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visits(Vec<Host>);

impl Visits {
    pub(crate) fn reset(&mut self, ranks: usize) {
        self.0.clear();
        self.0.resize(ranks, Host::default());
    }

    pub(crate) fn exit(&mut self, rank: usize) {
        self.0[rank].exited = true;
    }

    pub(crate) fn has_exited(&self, rank: usize) -> bool {
        self.0[rank].exited
    }

    pub(crate) fn add(&mut self, rank: usize, visit: Visit) {
        self.0[rank].last.insert(visit.thread, visit);
    }

    /// The last accesses to a block's memory, by thread.
    pub(crate) fn of(&self, rank: usize) -> impl Iterator<Item = Visit> + '_ {
        self.0[rank].last.values().copied()
    }
}
