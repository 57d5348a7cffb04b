//! What each thread of a block knows to have happened before: vector clocks, joined wherever threads synchronise.
//!
//! A warp's clock ticks when it arrives at a barrier, releases something or synchronises its lanes. An access is ordered
//! before what a thread does now if the same thread made it, or if the thread knows of its clock. What all lanes of a warp
//! know is kept for the warp; what a single lane has learnt, at an mbarrier that it alone waited at or from a flag of its
//! own, is its alone until the lanes meet. Lanes of one warp are ordered among each other only by `bar.warp.sync` and
//! barriers that they wait at, as the memory model has it: `bar.arrive` orders nothing for the warp that arrives, and an
//! elected lane's arrival brings what that lane knows, not what its neighbours did since they last met.
//!
//! Copies that land by way of an mbarrier belong to a second column of their warp: who waits there is ordered behind the
//! copies, not behind what else their threads did.
//!
//! Bulk copies are counted by mbarriers, each of which has a column that warps do not advance ([`crate::agents`]). What a warp
//! knows of these follows the clocks wherever they go, and a barrier of the whole block settles nothing about them.
//!
//! Flags are released and acquired, at sufficient scope; see [`crate::flags`]. Relaxed accesses order nothing by themselves.
//! A fence makes releases of the strong writes after it, and acquires of the strong reads before it.

use crate::barrier::MAX_BARRIERS;
use crate::flags::{Flag, Flags, Published, Scope};
use crate::knowledge::{Knowledge, Known, column_of_copies, join_clocks};
use crate::row::{LANES, lanes};

/// Whether a warp that arrives at a barrier waits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

/// Clocks of a block's threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// Number of the block.
    block: u32,
    /// Nobody watches for races.
    everything_is_ordered: bool,
    warps: usize,
    /// Warps, and the copies of each.
    columns: usize,
    /// The current clock of each column; accesses carry it.
    own: Vec<u32>,
    /// `seen[w * columns + u]`: the newest clock of column u that is ordered before what all lanes of warp w do now.
    seen: Vec<u32>,
    /// By warp: the newest clock that all its lanes know of each mbarrier's copies.
    copies: Vec<Vec<u32>>,
    /// What else the lanes of each warp know.
    further: Vec<Further>,
    /// Flags in shared memory, by word.
    pub(crate) flags: Flags,
    /// What has been brought to each barrier since it was last complete.
    brought: Vec<Knowledge>,
    /// Everything up to this clock, of any column, is ordered before whatever comes now.
    settled: u32,
}

/// What the lanes of one warp know besides whole columns of their own block.
#[derive(Clone, Debug, Default)]
struct Further {
    /// Of their own block's threads, and of other blocks: all lanes.
    together: Knowledge,
    /// Single lanes; empty if none has learnt anything since they met.
    alone: Vec<Knowledge>,
    /// What each lane knew at its last fence, by the fence's scope; empty if there was none.
    fenced: Vec<[Option<Knowledge>; 2]>,
    /// What lanes have read from flags without acquiring it: a fence does.
    read: Vec<Vec<Published>>,
}

impl Clocks {
    /// Nothing has happened.
    pub(crate) fn reset(&mut self, block: u64, warps: usize, ordered: bool) {
        self.everything_is_ordered = ordered;
        // Grids of more blocks are run one block at a time, and no memory of the host holds their shadows.
        self.block = block as u32;
        (self.warps, self.columns) = (warps, 2 * warps);
        self.own.clear();
        self.own.resize(self.columns, 1);
        self.seen.clear();
        self.seen.resize(warps * self.columns, 0);
        self.copies.resize(warps, Vec::new());
        self.copies.iter_mut().for_each(Vec::clear);
        self.further.clear();
        self.further.resize_with(warps, Further::default);
        self.flags.clear();
        self.brought.resize(MAX_BARRIERS, Knowledge::default());
        self.brought.iter_mut().for_each(Knowledge::clear);
        self.settled = 0;
    }

    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    #[inline(always)]
    pub(crate) fn now(&self, warp: usize) -> u32 {
        self.own[warp]
    }

    /// The clock of a warp; 0 where clocks are not followed.
    pub(crate) fn now_or_zero(&self, warp: usize) -> u32 {
        self.own.get(warp).copied().unwrap_or(0)
    }

    /// The clock up to which everybody knows everything.
    #[inline(always)]
    pub(crate) fn settled(&self) -> u32 {
        self.settled
    }

    /// The clock of a column up to which all lanes of a warp know it.
    #[inline(always)]
    pub(crate) fn seen(&self, warp: usize, column: usize) -> u32 {
        self.seen[warp * self.columns + column]
    }

    /// Whether what a thread of this block did at `clock` is ordered before what thread `me` does now. A thread's own
    /// past is the caller's to know.
    #[inline(always)]
    pub(crate) fn ordered(&self, clock: u32, thread: u16, me: u16) -> bool {
        clock <= self.settled
            || clock <= self.seen[usize::from(me) / LANES * self.columns + usize::from(thread) / LANES]
            || self.ordered_alone(self.block, clock, thread, me)
    }

    /// The same for a thread of any block.
    #[inline(always)]
    pub(crate) fn ordered_anywhere(&self, block: u32, clock: u32, thread: u16, me: u16) -> bool {
        if block == self.block && column_of_copies(thread).is_none() {
            return self.ordered(clock, thread, me);
        }
        self.ordered_alone(block, clock, thread, me)
    }

    #[inline(never)]
    fn ordered_alone(&self, block: u32, clock: u32, thread: u16, me: u16) -> bool {
        if self.everything_is_ordered {
            return true;
        }
        let further = &self.further[usize::from(me) / LANES];
        if block == self.block
            && let Some(column) = column_of_copies(thread)
        {
            return self.knows_copies(me, column, clock);
        }
        further.together.includes(block, thread, clock)
            || further.alone.get(usize::from(me) % LANES).is_some_and(|alone| alone.includes(block, thread, clock))
    }

    /// The lanes of a warp have met.
    pub(crate) fn meet(&mut self, warp: usize) {
        let alone = std::mem::take(&mut self.further[warp].alone);
        for known in &alone {
            self.learn_together(warp, known);
        }
        self.seen[warp * self.columns + warp] = self.own[warp];
        self.own[warp] += 1;
    }

    /// What a lane has done and seen so far.
    pub(crate) fn knowledge(&self, warp: usize, lane: usize) -> Knowledge {
        let mut known = self.knowledge_together(warp);
        if let Some(alone) = self.further[warp].alone.get(lane) {
            known.join(alone);
        }
        known.of_mut(self.block).add_thread((warp * LANES + lane) as u16, self.own[warp]);
        known
    }

    /// What all lanes of a warp know, whatever they did since they met.
    pub(crate) fn knowledge_together(&self, warp: usize) -> Knowledge {
        let mut known = self.further[warp].together.clone();
        let seen = &self.seen[warp * self.columns..][..self.columns];
        known.of_mut(self.block).join(&Known::new(self.settled, seen).with_copies(&self.copies[warp]));
        known
    }

    /// What all lanes of a warp have done and seen so far, each of them.
    pub(crate) fn knowledge_of_all(&self, warp: usize) -> Knowledge {
        let mut known = self.knowledge_together(warp);
        for alone in &self.further[warp].alone {
            known.join(alone);
        }
        known.of_mut(self.block).add_column(warp, self.own[warp]);
        known
    }

    /// What a single lane knows besides that: what it learnt alone, and what it did.
    pub(crate) fn bring_alone(&self, warp: usize, lane: usize, to: &mut Knowledge) {
        if let Some(alone) = self.further[warp].alone.get(lane) {
            to.join(alone);
        }
        to.of_mut(self.block).add_thread((warp * LANES + lane) as u16, self.own[warp]);
    }

    /// What the warp does from now on is told apart from what it did. Its lanes have not met.
    pub(crate) fn tick(&mut self, warp: usize) {
        self.own[warp] += 1;
    }

    /// Some lanes of a warp, or all that it has, are ordered behind somebody's knowledge.
    pub(crate) fn learn(&mut self, warp: usize, active: u32, everyone: bool, known: &Knowledge) {
        if everyone {
            self.learn_together(warp, known);
            return;
        }
        let alone = &mut self.further[warp].alone;
        alone.resize_with(LANES, Knowledge::default);
        for lane in lanes(active) {
            alone[lane].join(known);
        }
    }

    fn learn_together(&mut self, warp: usize, known: &Knowledge) {
        if let Some(own) = known.of(self.block) {
            for (column, seen) in self.seen[warp * self.columns..][..self.columns].iter_mut().enumerate() {
                *seen = (*seen).max(own.column(column));
            }
            for &(thread, clock) in own.threads() {
                if clock > self.seen(warp, usize::from(thread) / LANES) {
                    self.further[warp].together.of_mut(self.block).add_thread(thread, clock);
                }
            }
            join_clocks(&mut self.copies[warp], own.copies());
        }
        for (block, of) in known.others(self.block) {
            self.further[warp].together.of_mut(block).join(of);
        }
    }

    /// Whether a thread is ordered behind the copies that an mbarrier had counted at this clock.
    #[inline(always)]
    pub(crate) fn knows_copies(&self, thread: u16, column: u32, clock: u32) -> bool {
        let (warp, lane) = (usize::from(thread) / LANES, usize::from(thread) % LANES);
        self.everything_is_ordered
            || self.copies[warp].get(column as usize).is_some_and(|known| *known >= clock)
            || self.further[warp]
                .alone
                .get(lane)
                .is_some_and(|alone| alone.of(self.block).is_some_and(|known| known.knows_copies(column, clock)))
    }

    /// The newest clock of a thread of any block that is ordered before what thread `me` does now.
    pub(crate) fn newest(&self, block: u32, thread: u16, me: u16) -> u32 {
        let (warp, lane) = (usize::from(me) / LANES, usize::from(me) % LANES);
        let further = &self.further[warp];
        let own = if block == self.block { self.settled.max(self.seen(warp, usize::from(thread) / LANES)) } else { 0 };
        let listed = [Some(&further.together), further.alone.get(lane)];
        let listed = listed.into_iter().flatten().filter_map(|known| Some(known.of(block)?.newest(thread)));
        listed.fold(own, u32::max)
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

    /// A warp brings what its lanes know to a barrier. They have met only if it waits there.
    pub(crate) fn arrive(&mut self, warp: usize, barrier: usize, waits: Waits) {
        let known = self.knowledge_of_all(warp);
        self.brought[barrier].join(&known);
        match waits {
            Waits::Yes => self.meet(warp),
            Waits::No => self.tick(warp),
        }
    }

    /// The warps that waited take what everybody brought.
    pub(crate) fn release(&mut self, waiting: &[usize], barrier: usize) {
        let brought = std::mem::take(&mut self.brought[barrier]);
        if waiting.len() == self.warps {
            let copies = brought.of(self.block).map_or(&[][..], Known::copies);
            self.copies.iter_mut().for_each(|known| join_clocks(known, copies));
            // The whole block has met: clocks start again from a common value, and one number says it all.
            let newest = self.own.iter().copied().max().unwrap_or(0);
            self.own.fill(newest + 1);
            self.seen.fill(newest);
            self.settled = newest;
            for further in &mut self.further {
                further.alone.clear();
                further.together.clear();
                for (block, known) in brought.others(self.block) {
                    further.together.of_mut(block).join(known);
                }
            }
        } else {
            for &warp in waiting {
                self.learn_together(warp, &brought);
            }
        }
    }

    /// Lanes execute a fence: what they have read from flags is acquired, and strong writes from now on release what they
    /// know now.
    pub(crate) fn fence(&mut self, warp: usize, active: u32, scope: Scope) {
        for lane in lanes(active) {
            let read = self.further[warp].read.get_mut(lane).map(std::mem::take).unwrap_or_default();
            for published in read {
                if let Some(known) = published.seen_by(self.block, scope) {
                    self.learn(warp, 1 << lane, false, known);
                } else {
                    self.further[warp].read[lane].push(published);
                }
            }
            let known = self.knowledge(warp, lane);
            let fenced = &mut self.further[warp].fenced;
            fenced.resize_with(LANES, Default::default);
            // A fence of a wide scope is one of a narrow scope too.
            if scope == Scope::Gpu {
                fenced[lane][Scope::Gpu as usize] = Some(known.clone());
            }
            fenced[lane][Scope::Cta as usize] = Some(known);
        }
        self.tick(warp);
    }

    /// What a strong write of a lane publishes: everything so far if it is a release, what was before its last fence
    /// otherwise; by scope.
    pub(crate) fn publishes(&self, warp: usize, lane: usize, releases: bool, scope: Scope) -> Published {
        let mut published = Published::new(self.block);
        if releases {
            published.add(scope, &self.knowledge(warp, lane));
        }
        if let Some([narrow, wide]) = self.further[warp].fenced.get(lane) {
            if let Some(known) = narrow {
                published.add(Scope::Cta, known);
            }
            if let (Some(known), Scope::Gpu) = (wide, scope) {
                published.add(Scope::Gpu, known);
            }
        }
        published
    }

    /// A lane has read a flag by a strong read.
    pub(crate) fn observe(&mut self, warp: usize, lane: usize, acquires: bool, scope: Scope, flag: &Flag) {
        let published = flag.published();
        if published.is_empty() {
            return;
        }
        let acquired = acquires && {
            let known = published.seen_by(self.block, scope).cloned();
            if let Some(known) = &known {
                self.learn(warp, 1 << lane, false, known);
            }
            known.is_some()
        };
        if !acquired {
            let read = &mut self.further[warp].read;
            read.resize_with(LANES, Vec::new);
            let published = published.narrowed(scope);
            if !read[lane].contains(&published) {
                read[lane].push(published);
            }
        }
    }
}
