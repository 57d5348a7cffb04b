//! What each warp knows to have happened before: a vector clock per warp, joined at barriers.
//!
//! A warp's clock ticks when it arrives at a barrier or synchronises its lanes. An access is ordered before what a warp
//! does now if the same thread made it, or if the warp has seen its clock. Lanes of one warp are ordered among each
//! other only by `bar.warp.sync` and barriers that they wait at, as the memory model has it: `bar.arrive` orders nothing for
//! the warp that arrives.
//!
//! Copies that land by way of an mbarrier belong to a second column of their warp: who waits there is ordered behind the
//! copies, not behind what else their threads did. An arrival brings what all lanes of its warp did before it, and a wait
//! takes it over for all of them, so that a `bar.warp.sync` that is missing next to either is not found.
//!
//! Bulk copies are counted by mbarriers, each of which has a column that warps do not advance ([`crate::agents`]). What a warp
//! knows of these follows the clocks wherever they go, and a barrier of the whole block settles nothing about them.
//!
//! Flags in shared memory order too: a strong store publishes what its warp knows, a strong load takes it over. Relaxed
//! accesses count as release and acquire here, so a fence that is missing between data and flag is not found.

use std::collections::HashMap;

use crate::barrier::MAX_BARRIERS;

/// Whether a warp that arrives at a barrier waits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

/// Clocks of a block's warps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    warps: usize,
    /// Warps, and the copies of each.
    columns: usize,
    /// The current clock of each column; accesses carry it.
    own: Vec<u32>,
    /// `seen[w * columns + u]`: the newest clock of column u that is ordered before what warp w does now.
    seen: Vec<u32>,
    /// By warp: the newest clock that it knows of each mbarrier's copies.
    copies: Vec<Vec<u32>>,
    /// What strong stores and atomics have published, by word of shared memory.
    published: HashMap<usize, Vec<u32>>,
    /// What has been brought to each barrier since it was last complete.
    brought: Vec<Vec<u32>>,
    /// Everything up to this clock, of any warp, is ordered before whatever comes now.
    settled: u32,
    /// Number of times that `settled` has moved, plus one.
    epoch: u32,
}

impl Clocks {
    /// Nothing has happened.
    pub(crate) fn reset(&mut self, warps: usize) {
        (self.warps, self.columns) = (warps, 2 * warps);
        self.own.clear();
        self.own.resize(self.columns, 1);
        self.seen.clear();
        self.seen.resize(warps * self.columns, 0);
        self.copies.resize(warps, Vec::new());
        self.copies.iter_mut().for_each(Vec::clear);
        self.published.clear();
        self.brought.resize(MAX_BARRIERS, Vec::new());
        self.brought.iter_mut().for_each(Vec::clear);
        (self.settled, self.epoch) = (0, 1);
    }

    #[inline(always)]
    pub(crate) fn now(&self, warp: usize) -> u32 {
        self.own[warp]
    }

    /// The clock of a warp; 0 where clocks are not followed.
    pub(crate) fn now_or_zero(&self, warp: usize) -> u32 {
        self.own.get(warp).copied().unwrap_or(0)
    }

    /// A key that changes whenever the whole block meets.
    #[inline(always)]
    pub(crate) fn everybody(&self) -> u64 {
        1 << 63 | u64::from(self.epoch)
    }

    /// A key of one warp that changes with its clock.
    #[inline(always)]
    pub(crate) fn only(&self, warp: usize) -> u64 {
        u64::from(self.own[warp]) << 8 | warp as u64
    }

    /// Whether everybody is ordered behind this clock.
    #[inline(always)]
    pub(crate) fn is_settled(&self, clock: u32) -> bool {
        clock <= self.settled
    }

    /// Whether an access at `clock` by a thread of warp `other` is ordered before what `warp` does now.
    #[inline(always)]
    pub(crate) fn ordered(&self, clock: u32, other: usize, warp: usize) -> bool {
        clock <= self.settled || clock <= self.seen[warp * self.columns + other]
    }

    /// The lanes of a warp have met.
    pub(crate) fn meet(&mut self, warp: usize) {
        self.seen[warp * self.columns + warp] = self.own[warp];
        self.own[warp] += 1;
    }

    /// A strong store or an atomic on a word: whoever reads it strongly is ordered behind this.
    pub(crate) fn publish(&mut self, warp: usize, word: usize) {
        let known = self.seen[warp * self.columns..][..self.columns].iter().chain(&self.copies[warp]);
        let published = self.published.entry(word).or_default();
        join(published, known);
        published[warp] = published[warp].max(self.own[warp]);
        // Other lanes of the warp have not met: only later clocks must be told apart.
        self.own[warp] += 1;
    }

    /// A strong load or an atomic on a word.
    pub(crate) fn observe(&mut self, warp: usize, word: usize) {
        let Some(published) = self.published.remove(&word) else { return };
        self.learn(warp, &published);
        self.published.insert(word, published);
    }

    /// What a warp has done and seen so far, by column.
    pub(crate) fn knowledge(&self, warp: usize) -> Vec<u32> {
        let mut known = self.seen[warp * self.columns..][..self.columns].to_vec();
        known[warp] = self.own[warp];
        known.extend(&self.copies[warp]);
        known
    }

    /// What the warp does from now on is told apart from what it did. Its lanes have not met.
    pub(crate) fn tick(&mut self, warp: usize) {
        self.own[warp] += 1;
    }

    /// A warp is ordered behind somebody's knowledge.
    pub(crate) fn learn(&mut self, warp: usize, known: &[u32]) {
        let seen = &mut self.seen[warp * self.columns..][..self.columns];
        for (seen, known) in seen.iter_mut().zip(known) {
            *seen = (*seen).max(*known);
        }
        join(&mut self.copies[warp], known.iter().skip(self.columns));
    }

    /// Where the clocks of mbarriers' copies start in what warps know.
    pub(crate) fn first_of_copies(&self) -> usize {
        self.columns
    }

    /// Whether a warp is ordered behind the copies that an mbarrier had counted at this clock.
    #[inline(always)]
    pub(crate) fn knows_copies(&self, warp: usize, column: u32, clock: u32) -> bool {
        self.copies[warp].get(column as usize).is_some_and(|known| *known >= clock)
    }

    /// The newest clock of a warp that is ordered before what another one does now.
    pub(crate) fn seen(&self, other: usize, warp: usize) -> u32 {
        self.seen[warp * self.columns + other].max(self.settled)
    }

    /// Copies of a warp land for an mbarrier: their column, and their clock.
    pub(crate) fn land(&mut self, warp: usize) -> (usize, u32) {
        let column = self.warps + warp;
        self.own[column] += 1;
        (column, self.own[column] - 1)
    }

    /// A warp is ordered behind all of its copies that have landed so.
    pub(crate) fn learn_copies(&mut self, warp: usize) {
        let column = self.warps + warp;
        self.seen[warp * self.columns + column] = self.own[column] - 1;
    }

    /// A warp brings what it knows to a barrier. Its lanes have met only if it waits there.
    pub(crate) fn arrive(&mut self, warp: usize, barrier: usize, waits: Waits) {
        let known = &self.seen[warp * self.columns..][..self.columns];
        let brought = &mut self.brought[barrier];
        join(brought, known.iter().chain(&self.copies[warp]));
        brought[warp] = brought[warp].max(self.own[warp]);
        match waits {
            Waits::Yes => self.meet(warp),
            Waits::No => self.tick(warp),
        }
    }

    /// The warps that waited take what everybody brought.
    pub(crate) fn release(&mut self, waiting: &[usize], barrier: usize) {
        let brought = std::mem::take(&mut self.brought[barrier]);
        for &warp in waiting {
            join(&mut self.copies[warp], brought.iter().skip(self.columns));
        }
        if waiting.len() == self.warps {
            // The whole block has met: clocks start again from a common value, and one number says it all.
            let newest = self.own.iter().copied().max().unwrap_or(0);
            self.own.fill(newest + 1);
            self.seen.fill(newest);
            self.settled = newest;
            self.epoch += 1;
        } else {
            for &warp in waiting {
                let seen = &mut self.seen[warp * self.columns..][..self.columns];
                for (seen, brought) in seen.iter_mut().zip(&brought) {
                    *seen = (*seen).max(*brought);
                }
            }
        }
        self.brought[barrier] = brought;
        self.brought[barrier].clear();
    }
}

/// The later clock of each column.
fn join<'a>(clocks: &mut Vec<u32>, others: impl Iterator<Item = &'a u32>) {
    for (column, other) in others.enumerate() {
        match clocks.get_mut(column) {
            Some(clock) => *clock = (*clock).max(*other),
            None => clocks.push(*other),
        }
    }
}
