//! Flags: words that threads read and write with strong accesses, and the knowledge that they carry.
//!
//! A release, or a strong write after a fence, publishes what its thread knows, at a scope. An acquire, or a strong
//! read before a fence, obtains it if it reads that write, or an atomic in a chain that began with it. Each side's
//! scope has to include the other thread. A relaxed write by itself publishes nothing, and discards what was published:
//! a thread that reads it has not read the release.
//!
//! All `fence.sc` are ordered among each other. Suppose that the fence of one thread precedes the write of another,
//! because a barrier in between ordered the two. Then a `fence.sc` of the reader after its read follows the first
//! fence, since it cannot precede it (PTX ISA, "Fence-SC" and "Causality order").
//!
//! A read may return an older value if nothing orders it after the newest write, or after another read that has
//! returned its value. The first such read of each thread does, which exposes a wait that tests only once even if the flag
//! happens to be raised already. It obtains what was published with the older value. After a `fence.sc` of a thread
//! other than the writer, the newest value is returned: if two threads write and then fence, the fences let at least
//! one of them see the other's write.

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
    /// What precedes a `fence.sc` of any thread that precedes the write. A reader obtains it by a `fence.sc` of its
    /// own.
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

    /// Adds what threads knew at fences that the writer knows of.
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

    /// What a thread of a block acquires from this at a scope.
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
        // Knowledge that was published to other blocks, or clusters, is also visible to the threads of the newer
        // writer's.
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
    saw_old: HashSet<(u32, u16)>,
    /// Threads that have seen the new one, with their clocks at that time.
    seen: HashMap<(u32, u16), u32>,
    /// The time of the newest write.
    time: u64,
}

impl Flag {
    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// The value before the newest write, and what was published with it, for a thread that may still read it. Such a
    /// thread has not read the old value yet, and knows neither of the write nor of a read that has returned the new
    /// value. `knows` says whether the thread knows what another thread did at a time.
    pub(crate) fn stale(
        &mut self,
        (block, thread): (u32, u16),
        bytes: u8,
        knows: impl Fn(Writer) -> bool,
    ) -> Option<(u64, &Published)> {
        let reader = (block, thread);
        if self.before.1 != bytes
            || self.saw_old.contains(&reader)
            || self.seen.contains_key(&reader)
            || knows(self.writer)
        {
            return None;
        }
        let seen = self.seen.iter().map(|(&(block, thread), &clock)| Writer { block, thread, clock });
        if seen.into_iter().any(knows) {
            return None;
        }
        self.saw_old.insert(reader);
        Some((self.before.0, &self.earlier))
    }

    /// A thread has seen the newest value.
    pub(crate) fn see(&mut self, by: Writer) {
        self.seen.entry((by.block, by.thread)).or_insert(by.clock);
    }
}

/// Flags by location: allocation and word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    flags: HashMap<(usize, usize), Flag>,
    /// Writes so far, as a clock.
    time: u64,
    /// The time and thread of the newest `fence.sc`, and of the newest one of any other thread.
    fences: [Option<(u64, (u32, u16))>; 2],
}

impl Flags {
    pub(crate) fn clear(&mut self) {
        *self = Flags::default();
    }

    /// The flag at a location, and whether a thread other than its writer has executed a `fence.sc` since the write.
    pub(crate) fn at(&mut self, key: (usize, usize)) -> Option<(&mut Flag, bool)> {
        let flag = self.flags.get_mut(&key)?;
        let writer = (flag.writer.block, flag.writer.thread);
        let since = |fence: &(u64, (u32, u16))| fence.0 >= flag.time && fence.1 != writer;
        let fenced = self.fences.iter().flatten().any(since);
        Some((flag, fenced))
    }

    /// A thread has executed a `fence.sc`.
    pub(crate) fn fence(&mut self, block: u32, thread: u16) {
        let [newest, other] = &mut self.fences;
        if newest.is_some_and(|(_, by)| by != (block, thread)) {
            *other = *newest;
        }
        *newest = Some((self.time, (block, thread)));
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
        self.time += 1;
        let time = self.time;
        match self.flags.get_mut(&key) {
            Some(flag) => {
                // A thread that has released a flag may write it again: readers of either write obtain the release.
                let same = (flag.writer.block, flag.writer.thread) == (writer.block, writer.thread);
                flag.earlier.clone_from(&flag.published);
                if same || change == Change::Atomic {
                    flag.published.join(&published);
                } else {
                    flag.published = published;
                }
                (flag.writer, flag.before, flag.time) = (writer, before, time);
                flag.saw_old.clear();
                flag.seen.clear();
            }
            None => {
                let earlier = Published::default();
                let (saw_old, seen) = (HashSet::new(), HashMap::new());
                self.flags.insert(key, Flag { published, writer, before, earlier, saw_old, seen, time });
            }
        }
    }

    /// Records a weak write: reading it is not reading a flag.
    pub(crate) fn forget(&mut self, key: (usize, usize)) {
        self.flags.remove(&key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }
}
