//! Flags: words that threads read and write with strong accesses, and the knowledge that they carry.
//!
//! A release, or a strong write after a fence, publishes what its thread knows, at a scope. An acquire, or a strong
//! read before a fence, obtains it if it reads that write, or an atomic in a chain that began with it. Each side's
//! scope has to include the other thread. A relaxed write by itself publishes nothing, and discards what was published:
//! a thread that reads it has not read the release.
//!
//! A read that nothing orders after the newest write may return an older value. The first such read of each thread
//! does, so that a wait that tests only once is detected even if the flag happens to be raised already.

use std::collections::{HashMap, HashSet};

use crate::knowledge::Knowledge;

/// The threads that a strong access includes. Every block is its own cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cta,
    Gpu,
}

/// What a write has published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// Visible to threads of this block.
    block: u32,
    narrow: Knowledge,
    /// Visible to threads of all blocks.
    wide: Knowledge,
}

impl Published {
    pub(crate) fn new(block: u32) -> Published {
        Published { block, ..Published::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.wide.is_empty()
    }

    pub(crate) fn add(&mut self, scope: Scope, known: &Knowledge) {
        self.narrow.join(known);
        if scope == Scope::Gpu {
            self.wide.join(known);
        }
    }

    /// What a thread of a block acquires from it at a scope.
    pub(crate) fn seen_by(&self, block: u32, scope: Scope) -> Option<&Knowledge> {
        let known = match scope {
            _ if block == self.block => &self.narrow,
            Scope::Gpu => &self.wide,
            Scope::Cta => return None,
        };
        (!known.is_empty()).then_some(known)
    }

    /// What a read of this scope leaves for a fence to acquire.
    pub(crate) fn narrowed(&self, scope: Scope) -> Published {
        let mut published = self.clone();
        if scope == Scope::Cta {
            published.wide.clear();
        }
        published
    }

    /// An atomic reads what was published and writes: the next reader obtains both.
    fn join(&mut self, newer: &Published) {
        if newer.block == self.block {
            self.narrow.join(&newer.narrow);
        } else {
            // What is published to other blocks is also visible to threads of the same block.
            (self.block, self.narrow) = (newer.block, newer.narrow.clone());
            self.narrow.join(&self.wide);
        }
        self.wide.join(&newer.wide);
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

    /// The value before the newest write, for a thread that does not know of the write and has not read the old value
    /// yet.
    pub(crate) fn stale(&mut self, block: u32, thread: u16, bytes: u8) -> Option<u64> {
        if self.before.1 != bytes || !self.told.insert((block, thread)) {
            return None;
        }
        Some(self.before.0)
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
                if same || change == Change::Atomic {
                    flag.published.join(&published);
                } else {
                    flag.published = published;
                }
                (flag.writer, flag.before) = (writer, before);
                flag.told.clear();
            }
            None => {
                self.0.insert(key, Flag { published, writer, before, told: HashSet::new() });
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
