//! Flags: words that threads read and write with strong accesses, and the knowledge that they carry.
//!
//! A release, or a strong write after a fence, publishes what its thread knows, at a scope. An acquire, or a strong
//! read before a fence, obtains it if it reads that write, or an atomic in a chain that began with it. Each side's
//! scope has to include the other thread. A relaxed write by itself publishes nothing, and discards what was published:
//! a thread that reads it has not read the release.
//!
//! All `fence.sc` are ordered among each other: if the fence of one thread precedes the write of another, because the two
//! met at a barrier in between, a `fence.sc` of the reader after its read follows the first one, since it cannot precede
//! it (PTX ISA, "Fence-SC" and "Causality order").
//!
//! A read that nothing orders after the newest write may return an older value. The first such read of each thread
//! does, so that a wait that tests only once is detected even if the flag happens to be raised already. It obtains what
//! was published with the older value.

use std::collections::{HashMap, HashSet};

use crate::knowledge::Knowledge;
pub(crate) use crate::scope::Scope;

/// What a write has published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// Visible to threads of this block.
    by: Block,
    narrow: Knowledge,
    /// Visible to threads of its cluster.
    middle: Knowledge,
    /// Visible to threads of all blocks.
    wide: Knowledge,
    /// What precedes a `fence.sc` of any thread that precedes the write: a reader obtains it by a `fence.sc` of its own.
    fenced: Option<Box<Published>>,
}

/// A block: its cluster's index in the grid, and its rank in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) cluster: u32,
    pub(crate) rank: u32,
}

impl Published {
    pub(crate) fn new(by: Block) -> Published {
        Published { by, ..Published::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.middle.is_empty() && self.wide.is_empty() && self.fenced.is_none()
    }

    pub(crate) fn add(&mut self, scope: Scope, known: &Knowledge) {
        self.narrow.join(known);
        if scope >= Scope::Cluster {
            self.middle.join(known);
        }
        if scope == Scope::Gpu {
            self.wide.join(known);
        }
    }

    /// Adds what threads knew at their fences, of which the writer knows.
    pub(crate) fn add_fenced(&mut self, scope: Scope, known: &Knowledge) {
        for of in [Scope::Cta, Scope::Cluster, Scope::Gpu].into_iter().filter(|of| *of <= scope) {
            if let Some(fenced) = known.fenced(of) {
                let by = self.by;
                self.fenced.get_or_insert_with(|| Box::new(Published::new(by))).add(of, fenced);
            }
        }
    }

    /// Whether both were published by threads of the same block.
    pub(crate) fn is_of(&self, other: &Published) -> bool {
        self.by == other.by
    }

    /// What only a `fence.sc` obtains.
    pub(crate) fn fenced(&self) -> Option<&Published> {
        self.fenced.as_deref()
    }

    /// What is visible to a block, if it reads with a sufficient scope.
    pub(crate) fn visible_to(&self, block: Block) -> (&Knowledge, Scope) {
        if block == self.by {
            (&self.narrow, Scope::Cta)
        } else if block.cluster == self.by.cluster {
            (&self.middle, Scope::Cluster)
        } else {
            (&self.wide, Scope::Gpu)
        }
    }

    /// What a thread of a block acquires from it at a scope.
    pub(crate) fn seen_by(&self, block: Block, scope: Scope) -> Option<&Knowledge> {
        let (known, needed) = self.visible_to(block);
        (scope >= needed && !known.is_empty()).then_some(known)
    }

    /// What a read of this scope leaves for any fence to acquire.
    pub(crate) fn narrowed(&self, scope: Scope) -> Published {
        let mut published = self.clone();
        if scope < Scope::Gpu {
            published.wide.clear();
        }
        if scope < Scope::Cluster {
            published.middle.clear();
        }
        published.fenced = None;
        published
    }

    /// An atomic reads what was published and writes: the next reader obtains both.
    pub(crate) fn join(&mut self, newer: &Published) {
        // What was published to other blocks, or clusters, is also visible to the threads of the newer writer's.
        if newer.by.cluster != self.by.cluster {
            self.middle.clone_from(&self.wide);
        }
        if newer.by != self.by {
            self.narrow.clone_from(&self.middle);
        }
        self.by = newer.by;
        self.narrow.join(&newer.narrow);
        self.middle.join(&newer.middle);
        self.wide.join(&newer.wide);
        match (&mut self.fenced, &newer.fenced) {
            (Some(own), Some(newer)) => own.join(newer),
            (own @ None, Some(_)) => own.clone_from(&newer.fenced),
            _ => {}
        }
    }
}

/// How a strong write changes a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Store,
    Atomic,
}

/// The thread and time of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) block: u32,
    pub(crate) thread: u16,
    pub(crate) clock: u32,
}

/// A word that has been written strongly.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    published: Published,
    writer: Writer,
    /// The value before the newest write, and its size in bytes.
    before: (u64, u8),
    /// What a reader of that value obtains.
    earlier: Published,
    /// Threads that have already read the old value and must see the new one.
    told: HashSet<(u32, u16)>,
}

impl Flag {
    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    pub(crate) fn writer(&self) -> Writer {
        self.writer
    }

    /// The value before the newest write, and what was published with it, for a thread that does not know of the write
    /// and has not read the old value yet.
    pub(crate) fn stale(&mut self, block: u32, thread: u16, bytes: u8) -> Option<(u64, &Published)> {
        if self.before.1 != bytes || !self.told.insert((block, thread)) {
            return None;
        }
        Some((self.before.0, &self.earlier))
    }
}

/// Flags by location: allocation and word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(HashMap<(usize, usize), Flag>);

impl Flags {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn at(&mut self, key: (usize, usize)) -> Option<&mut Flag> {
        self.0.get_mut(&key)
    }

    /// Records a strong write, and the value and size in bytes that it replaces.
    pub(crate) fn write(
        &mut self,
        key: (usize, usize),
        change: Change,
        writer: Writer,
        published: Published,
        before: (u64, u8),
    ) {
        match self.0.get_mut(&key) {
            Some(flag) => {
                // A thread that has released a flag may write it again: readers of either write obtain the release.
                let same = (flag.writer.block, flag.writer.thread) == (writer.block, writer.thread);
                flag.earlier.clone_from(&flag.published);
                if same || change == Change::Atomic {
                    flag.published.join(&published);
                } else {
                    flag.published = published;
                }
                (flag.writer, flag.before) = (writer, before);
                flag.told.clear();
            }
            None => {
                let earlier = Published::default();
                self.0.insert(key, Flag { published, writer, before, earlier, told: HashSet::new() });
            }
        }
    }

    /// Records a weak write: reading it is not reading a flag.
    pub(crate) fn forget(&mut self, key: (usize, usize)) {
        self.0.remove(&key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
