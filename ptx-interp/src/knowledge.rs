//! What a thread knows to have happened: a compact vector clock over the threads of a launch.
//!
//! A clock belongs to a warp and ticks whenever the warp releases something; an access records its thread and the clock
//! of its warp. Most knowledge covers whole warps, or the whole block at its last barrier, and takes one number for
//! each. Single threads are listed only if they are ahead of their warp: after an elected lane has arrived at an
//! mbarrier, or if each thread has its own flag. Copies by `cp.async` have columns after those of the warps. Bulk
//! copies are counted by mbarriers, with one more clock for each ([`of_copies`]).

use crate::row::LANES;
use crate::scope::Scope;

/// The first thread index that represents the copies counted by an mbarrier. The threads of a cluster of eight blocks,
/// and their `cp.async` columns, are all below it.
const COPIES: u16 = 2 * 8 * 1024;

/// The thread index that represents the copies counted by the mbarrier with this column.
pub(crate) fn of_copies(column: u32) -> u16 {
    u16::try_from(column).map_or(u16::MAX, |column| column.saturating_add(COPIES))
}

/// The column of the mbarrier that counts the copies which a thread index represents; `None` for other threads.
#[inline(always)]
pub(crate) fn column_of_copies(thread: u16) -> Option<u32> {
    (thread >= COPIES).then(|| u32::from(thread - COPIES))
}

/// What is known about one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Everything up to this clock is known.
    floor: u32,
    /// By column: everything that all its lanes did up to this clock is known. A missing column has the clock above.
    columns: Vec<u32>,
    /// Threads that are known beyond their column, ascending.
    threads: Vec<(u16, u32)>,
    /// By mbarrier: the number of its copies that are known to be complete. A barrier does not affect these.
    copies: Vec<u32>,
}

impl Known {
    /// Everything up to a clock, and each column up to its own clock.
    pub(crate) fn new(floor: u32, columns: &[u32]) -> Known {
        let columns = if columns.iter().all(|clock| *clock <= floor) { Vec::new() } else { columns.to_vec() };
        Known { floor, columns, threads: Vec::new(), copies: Vec::new() }
    }

    pub(crate) fn with_copies(self, copies: &[u32]) -> Known {
        Known { copies: copies.to_vec(), ..self }
    }

    pub(crate) fn copies(&self) -> &[u32] {
        &self.copies
    }

    /// Adds the copies of an mbarrier up to a clock.
    pub(crate) fn add_copies(&mut self, column: u32, clock: u32) {
        if self.copies.len() <= column as usize {
            self.copies.resize(column as usize + 1, 0);
        }
        self.copies[column as usize] = self.copies[column as usize].max(clock);
    }

    pub(crate) fn knows_copies(&self, column: u32, clock: u32) -> bool {
        self.copies.get(column as usize).is_some_and(|known| *known >= clock)
    }

    /// The newest known clock of a thread.
    pub(crate) fn newest(&self, thread: u16) -> u32 {
        let found = self.threads.binary_search_by_key(&thread, |(thread, _)| *thread);
        let alone = found.map_or(0, |at| self.threads[at].1);
        self.column(usize::from(thread) / LANES).max(alone)
    }

    /// The clock up to which all lanes of a column are known.
    #[inline(always)]
    pub(crate) fn column(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(self.floor, |clock| self.floor.max(*clock))
    }

    pub(crate) fn threads(&self) -> &[(u16, u32)] {
        &self.threads
    }

    /// Whether it includes what a thread did at a clock.
    pub(crate) fn includes(&self, thread: u16, clock: u32) -> bool {
        if let Some(column) = column_of_copies(thread) {
            return self.knows_copies(column, clock);
        }
        clock <= self.floor || clock <= self.column(usize::from(thread) / LANES) || self.lists(thread, clock)
    }

    fn lists(&self, thread: u16, clock: u32) -> bool {
        let found = self.threads.binary_search_by_key(&thread, |(thread, _)| *thread);
        found.is_ok_and(|at| clock <= self.threads[at].1)
    }

    /// Adds a column up to a clock.
    pub(crate) fn add_column(&mut self, column: usize, clock: u32) {
        if clock <= self.column(column) {
            return;
        }
        if self.columns.len() <= column {
            self.columns.resize(column + 1, 0);
        }
        self.columns[column] = clock;
        self.prune();
    }

    /// Adds a thread up to a clock.
    pub(crate) fn add_thread(&mut self, thread: u16, clock: u32) {
        let column = usize::from(thread) / LANES;
        if clock <= self.column(column) {
            return;
        }
        match self.threads.binary_search_by_key(&thread, |(thread, _)| *thread) {
            Ok(at) => self.threads[at].1 = self.threads[at].1.max(clock),
            Err(at) => self.threads.insert(at, (thread, clock)),
        }
        if self.threads.len() >= LANES {
            self.compress(column);
        }
    }

    pub(crate) fn join(&mut self, other: &Known) {
        self.floor = self.floor.max(other.floor);
        join_clocks(&mut self.columns, &other.columns);
        for &(thread, clock) in &other.threads {
            self.add_thread(thread, clock);
        }
        join_clocks(&mut self.copies, &other.copies);
        self.prune();
    }

    /// Merges single threads into their column if all lanes of the warp are listed.
    fn compress(&mut self, column: usize) {
        let first = (column * LANES) as u16;
        let start = self.threads.partition_point(|(thread, _)| *thread < first);
        let end = self.threads.partition_point(|(thread, _)| usize::from(*thread) < (column + 1) * LANES);
        if end - start == LANES {
            let clock = self.threads[start..end].iter().map(|(_, clock)| *clock).min().unwrap_or(0);
            self.add_column(column, clock);
        }
    }

    fn prune(&mut self) {
        if !self.threads.is_empty() {
            let (floor, columns) = (self.floor, &self.columns);
            let column = |thread: u16| columns.get(usize::from(thread) / LANES).copied().unwrap_or(0).max(floor);
            self.threads.retain(|(thread, clock)| *clock > column(*thread));
        }
    }
}

/// Takes the later clock of each column.
pub(crate) fn join_clocks(clocks: &mut Vec<u32>, others: &[u32]) {
    if clocks.len() < others.len() {
        clocks.resize(others.len(), 0);
    }
    for (own, other) in clocks.iter_mut().zip(others) {
        *own = (*own).max(*other);
    }
}

/// What is known about all blocks, without blocks that nothing is known about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    /// Sorted by block.
    blocks: Vec<(u32, Known)>,
    /// What `fence.sc` add to it, if there were any.
    sequence: Option<Box<Sequence>>,
}

/// Knowledge from `fence.sc`, by scope. These parts have no such part themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sequence {
    /// What was known to threads at a fence of this scope or a wider one.
    fenced: [Knowledge; 3],
    /// What a thread obtains by a fence of this scope or a wider one.
    awaited: [Knowledge; 3],
}

impl Knowledge {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.sequence = None;
    }

    /// Whether it knows anything of `fence.sc`.
    pub(crate) fn has_sequence(&self) -> bool {
        self.sequence.is_some()
    }

    /// What was known at fences of a scope or a wider one.
    pub(crate) fn fenced(&self, scope: Scope) -> Option<&Knowledge> {
        self.sequence.as_ref().map(|sequence| &sequence.fenced[scope as usize]).filter(|known| !known.is_empty())
    }

    /// What a fence of exactly this scope obtains in addition to narrower ones.
    pub(crate) fn awaited(&self, scope: Scope) -> Option<&Knowledge> {
        self.sequence.as_ref().map(|sequence| &sequence.awaited[scope as usize]).filter(|known| !known.is_empty())
    }

    /// Adds what another has learnt from fences.
    pub(crate) fn join_sequence(&mut self, other: &Knowledge) {
        if let Some(others) = &other.sequence {
            let own = self.sequence.get_or_insert_default();
            own.fenced.iter_mut().zip(&others.fenced).for_each(|(own, other)| own.join(other));
            own.awaited.iter_mut().zip(&others.awaited).for_each(|(own, other)| own.join(other));
        }
    }

    /// Records that a fence of this scope follows all of another's knowledge.
    pub(crate) fn add_fenced(&mut self, scope: Scope, known: &Knowledge) {
        let plain = Knowledge { blocks: known.blocks.clone(), sequence: None };
        let sequence = self.sequence.get_or_insert_default();
        for of in [Scope::Cta, Scope::Cluster, Scope::Gpu].into_iter().filter(|of| *of <= scope) {
            sequence.fenced[of as usize].join(&plain);
        }
    }

    /// Records what a fence of this scope would obtain.
    pub(crate) fn add_awaited(&mut self, scope: Scope, known: &Knowledge) {
        let plain = Knowledge { blocks: known.blocks.clone(), sequence: None };
        self.sequence.get_or_insert_default().awaited[scope as usize].join(&plain);
    }

    pub(crate) fn of(&self, block: u32) -> Option<&Known> {
        let at = self.blocks.binary_search_by_key(&block, |(block, _)| *block).ok()?;
        Some(&self.blocks[at].1)
    }

    pub(crate) fn of_mut(&mut self, block: u32) -> &mut Known {
        let at = match self.blocks.binary_search_by_key(&block, |(block, _)| *block) {
            Ok(at) => at,
            Err(at) => {
                self.blocks.insert(at, (block, Known::default()));
                at
            }
        };
        &mut self.blocks[at].1
    }

    /// All blocks except one.
    pub(crate) fn others(&self, block: u32) -> impl Iterator<Item = (u32, &Known)> {
        self.blocks.iter().filter(move |(other, _)| *other != block).map(|(block, known)| (*block, known))
    }

    pub(crate) fn includes(&self, block: u32, thread: u16, clock: u32) -> bool {
        self.of(block).is_some_and(|known| known.includes(thread, clock))
    }

    pub(crate) fn join(&mut self, other: &Knowledge) {
        for (block, known) in &other.blocks {
            self.of_mut(*block).join(known);
        }
        self.join_sequence(other);
    }
}
