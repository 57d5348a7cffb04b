//! What each thread of a block knows to have happened before: vector clocks, joined wherever threads synchronise.
//!
//! A warp's clock ticks when it arrives at a barrier, releases something or synchronises its lanes. An access is
//! ordered before what a thread does now if the same thread made it, or if the thread knows its clock. Knowledge common
//! to all lanes of a warp is stored for the warp. What a single lane has learnt, at an mbarrier that it alone waited at
//! or from its own flag, stays with that lane until the lanes synchronise. Lanes of one warp are ordered among each
//! other only by `bar.warp.sync` and by barriers at which they wait, as in the memory model: `bar.arrive` orders
//! nothing for the arriving warp, and an elected lane's arrival publishes what that lane knows, not what its neighbours
//! did since they last synchronised.
//!
//! Copies that complete through an mbarrier belong to a second column of their warp: a thread that waits there is
//! ordered after the copies, but not after anything else that their threads did.
//!
//! Bulk copies are counted by mbarriers, each of which has a column that warps do not advance ([`crate::agents`]). A
//! warp's knowledge of them propagates with the clocks, and a barrier of the whole block orders none of them.
//!
//! Flags are released and acquired at sufficient scope; see [`crate::flags`]. Relaxed accesses by themselves order
//! nothing. A fence turns the strong writes after it into releases, and the strong reads before it into acquires.

use ptx_gemm_ptx::instruction::FenceOrder;

use crate::barrier::MAX_BARRIERS;
use crate::flags::{Block, Flags, Published, Scope};
use crate::knowledge::{Knowledge, Known, column_of_copies, join_clocks};
use crate::row::{LANES, lanes};

/// Whether a warp that arrives at a barrier also waits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

/// The clock at which every warp starts. A thread that knows it knows that the warp's block has started, and nothing
/// else.
const START: u32 = 1;

/// Clocks of the threads of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// Index of the cluster.
    block: u32,
    /// Warps of each of its blocks.
    per_block: usize,
    /// True if races are not checked.
    everything_is_ordered: bool,
    warps: usize,
    /// Number of columns: one for each warp, and one for the copies of each.
    columns: usize,
    /// The current clock of each column, which accesses record.
    own: Vec<u32>,
    /// `seen[w * columns + u]`: the newest clock of column u that is ordered before what all lanes of warp w do now.
    seen: Vec<u32>,
    /// By warp: the newest clock of each mbarrier's copies that all its lanes know.
    copies: Vec<Vec<u32>>,
    /// What the lanes of each warp know in addition.
    further: Vec<Further>,
    /// Flags in shared memory, by word.
    pub(crate) flags: Flags,
    /// Knowledge published at each barrier since it last completed.
    published: Vec<Knowledge>,
    /// Everything up to this clock, in any column, is ordered before whatever follows.
    floor: u32,
}

/// What the lanes of one warp know in addition to whole columns of their own block.
#[derive(Clone, Debug, Default)]
struct Further {
    /// Of threads of their own block, and of other blocks: known to all lanes.
    together: Knowledge,
    /// Known to single lanes; empty if none has learnt anything since they synchronised.
    alone: Vec<Knowledge>,
    /// What each lane knew at its last fence, by the fence's scope; empty if there was none.
    fenced: Vec<[Option<Knowledge>; 3]>,
    /// What each lane knew at its last proxy fence; empty if there was none.
    proxied: Vec<Proxied>,
    /// What lanes have read from flags without acquiring it; a fence acquires it.
    read: Vec<Vec<Published>>,
    /// What each lane has ordered by a `fence.sc`, or may still order by one, since the lanes synchronised; empty if
    /// nothing.
    sequenced: Vec<Knowledge>,
}

/// What a lane knew at its last proxy fence of each kind.
#[derive(Clone, Debug, Default)]
struct Proxied {
    shared: Knowledge,
    global: Knowledge,
}

/// A kind of memory that a proxy fence orders accesses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    Shared,
    Global,
}

impl Further {
    /// Whether a lane knows of a `fence.sc` of any thread.
    fn has_sequence(&self, lane: usize) -> bool {
        let known = [Some(&self.together), self.alone.get(lane), self.sequenced.get(lane)];
        known.into_iter().flatten().any(Knowledge::has_sequence)
    }
}

impl Clocks {
    /// Resets to the initial state.
    pub(crate) fn reset(&mut self, block: u64, per_block: usize, ranks: usize, ordered: bool) {
        let warps = per_block * ranks;
        self.per_block = per_block;
        self.everything_is_ordered = ordered;
        // Larger grids are run one block at a time, and their shadows would not fit the host's memory.
        self.block = block as u32;
        (self.warps, self.columns) = (warps, 2 * warps);
        self.own.clear();
        self.own.resize(self.columns, START + 1);
        self.seen.clear();
        self.seen.resize(warps * self.columns, 0);
        self.copies.resize(warps, Vec::new());
        self.copies.iter_mut().for_each(Vec::clear);
        self.further.clear();
        self.further.resize_with(warps, Further::default);
        self.flags.clear();
        self.published.resize(MAX_BARRIERS * ranks, Knowledge::default());
        self.published.iter_mut().for_each(Knowledge::clear);
        self.floor = 0;
    }

    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// The rank of a thread's block in its cluster; the same in every cluster.
    pub(crate) fn rank(&self, thread: u16) -> u32 {
        (usize::from(thread) / LANES % self.warps / self.per_block) as u32
    }

    fn block_of(&self, warp: usize) -> Block {
        Block { cluster: self.block, rank: (warp / self.per_block) as u32 }
    }

    #[inline(always)]
    pub(crate) fn now(&self, warp: usize) -> u32 {
        self.own[warp]
    }

    /// The clock of a warp; 0 if clocks are not tracked.
    pub(crate) fn now_or_zero(&self, warp: usize) -> u32 {
        self.own.get(warp).copied().unwrap_or(0)
    }

    /// The clock up to which every thread knows everything.
    #[inline(always)]
    pub(crate) fn floor(&self) -> u32 {
        self.floor
    }

    /// The clock of a column up to which all lanes of a warp know it.
    #[inline(always)]
    pub(crate) fn seen(&self, warp: usize, column: usize) -> u32 {
        self.seen[warp * self.columns + column]
    }

    /// Whether what a thread of this block did at `clock` is ordered before what thread `me` does now. The caller
    /// handles accesses of the same thread.
    #[inline(always)]
    pub(crate) fn ordered(&self, clock: u32, thread: u16, me: u16) -> bool {
        clock <= self.floor
            || clock <= self.seen[usize::from(me) / LANES * self.columns + usize::from(thread) / LANES]
            || self.ordered_alone(self.block, clock, thread, me)
    }

    /// The same for a thread of any block.
    #[inline(always)]
    pub(crate) fn ordered_across_blocks(&self, block: u32, clock: u32, thread: u16, me: u16) -> bool {
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

    /// Synchronises the lanes of a warp.
    pub(crate) fn synchronise(&mut self, warp: usize) {
        // First, so that what single lanes know of each other is not listed as well.
        self.seen[warp * self.columns + warp] = self.own[warp];
        let alone = std::mem::take(&mut self.further[warp].alone);
        for known in &alone {
            self.learn_together(warp, known);
        }
        for known in std::mem::take(&mut self.further[warp].sequenced) {
            self.further[warp].together.join_sequence(&known);
        }
        self.own[warp] += 1;
    }

    /// Synchronises some lanes of a warp: each of them learns what the others of them did and know. The rest of the
    /// warp learns nothing.
    pub(crate) fn synchronise_some(&mut self, warp: usize, some: u32) {
        let mut known = Knowledge::default();
        lanes(some).for_each(|lane| self.add_alone(warp, lane, &mut known));
        self.learn(warp, some, false, &known);
        self.tick(warp);
    }

    /// What a lane has done and seen so far.
    pub(crate) fn knowledge(&self, warp: usize, lane: usize) -> Knowledge {
        let mut known = self.knowledge_together(warp);
        self.add_alone(warp, lane, &mut known);
        known
    }

    /// What all lanes of a warp know in common, without what single lanes learnt or did since they synchronised.
    pub(crate) fn knowledge_together(&self, warp: usize) -> Knowledge {
        let mut known = self.further[warp].together.clone();
        let seen = &self.seen[warp * self.columns..][..self.columns];
        known.of_mut(self.block).join(&Known::new(self.floor, seen).with_copies(&self.copies[warp]));
        known
    }

    /// The union of what every lane of a warp has done and seen so far.
    pub(crate) fn knowledge_of_all(&self, warp: usize) -> Knowledge {
        let mut known = self.knowledge_together(warp);
        for alone in &self.further[warp].alone {
            known.join(alone);
        }
        self.further[warp].sequenced.iter().for_each(|fenced| known.join_sequence(fenced));
        known.of_mut(self.block).add_column(warp, self.own[warp]);
        known
    }

    /// Adds what only a single lane knows: what it learnt alone, and what it did.
    pub(crate) fn add_alone(&self, warp: usize, lane: usize, to: &mut Knowledge) {
        if let Some(alone) = self.further[warp].alone.get(lane) {
            to.join(alone);
        }
        if let Some(fenced) = self.further[warp].sequenced.get(lane) {
            to.join_sequence(fenced);
        }
        to.of_mut(self.block).add_thread((warp * LANES + lane) as u16, self.own[warp]);
    }

    /// Separates what the warp does from now on from what it did before. Its lanes are not synchronised.
    pub(crate) fn tick(&mut self, warp: usize) {
        self.own[warp] += 1;
    }

    /// Orders some lanes of a warp, or all of them, after everything in `known`.
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
        self.further[warp].together.join_sequence(known);
    }

    /// Whether a thread is ordered after the copies that an mbarrier had counted at this clock.
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

    /// Whether the lanes of a warp know different things.
    pub(crate) fn lanes_differ(&self, warp: usize) -> bool {
        !self.further[warp].alone.is_empty()
    }

    /// The newest clock of a thread of any block that is ordered before what thread `me` does now.
    pub(crate) fn newest(&self, block: u32, thread: u16, me: u16) -> u32 {
        let (warp, lane) = (usize::from(me) / LANES, usize::from(me) % LANES);
        let further = &self.further[warp];
        let own = if block == self.block { self.floor.max(self.seen(warp, usize::from(thread) / LANES)) } else { 0 };
        let listed = [Some(&further.together), further.alone.get(lane)];
        let listed = listed.into_iter().flatten().filter_map(|known| Some(known.of(block)?.newest(thread)));
        listed.fold(own, u32::max)
    }

    /// Completes copies of a warp for an mbarrier; returns their column and clock.
    pub(crate) fn land(&mut self, warp: usize) -> (usize, u32) {
        let column = self.warps + warp;
        self.own[column] += 1;
        (column, self.own[column] - 1)
    }

    /// Orders a warp after all of its copies that completed this way.
    pub(crate) fn learn_copies(&mut self, warp: usize) {
        let column = self.warps + warp;
        self.seen[warp * self.columns + column] = self.own[column] - 1;
    }

    /// Publishes what a warp's lanes know at a barrier. The lanes are synchronised only if the warp waits there.
    pub(crate) fn arrive(&mut self, warp: usize, barrier: usize, waits: Waits) {
        let known = self.knowledge_of_all(warp);
        self.published[barrier].join(&known);
        match waits {
            Waits::Yes => self.synchronise(warp),
            Waits::No => self.tick(warp),
        }
    }

    /// Lets the waiting warps acquire everything that was published at the barrier.
    pub(crate) fn release(&mut self, waiting: &[usize], barrier: usize) {
        let published = std::mem::take(&mut self.published[barrier]);
        if waiting.len() == self.warps {
            let copies = published.of(self.block).map_or(&[][..], Known::copies);
            self.copies.iter_mut().for_each(|known| join_clocks(known, copies));
            // The whole block has synchronised: clocks restart from a common value, and one number describes them all.
            let newest = self.own.iter().copied().max().unwrap_or(0);
            self.own.fill(newest + 1);
            self.seen.fill(newest);
            self.floor = newest;
            for further in &mut self.further {
                further.alone.clear();
                further.together.clear();
                further.sequenced.clear();
                further.together.join_sequence(&published);
                for (block, known) in published.others(self.block) {
                    further.together.of_mut(block).join(known);
                }
            }
        } else {
            for &warp in waiting {
                self.learn_together(warp, &published);
            }
        }
    }

    /// Whether a thread knows that a block of its cluster has started.
    pub(crate) fn knows_start(&self, rank: usize, me: u16) -> bool {
        let (warp, lane) = (usize::from(me) / LANES, usize::from(me) % LANES);
        let warps = rank * self.per_block..(rank + 1) * self.per_block;
        if self.everything_is_ordered || self.floor >= START || warps.clone().any(|of| self.seen(warp, of) >= START) {
            return true;
        }
        let further = &self.further[warp];
        let known = [Some(&further.together), further.alone.get(lane)].into_iter().flatten();
        let mut known = known.filter_map(|known| known.of(self.block));
        known.any(|known| {
            let listed = |(thread, _): &(u16, u32)| warps.contains(&(usize::from(*thread) / LANES));
            warps.clone().any(|of| known.column(of) >= START) || known.threads().iter().any(listed)
        })
    }

    /// A warp learns that every block of the cluster has started.
    pub(crate) fn learn_start(&mut self, warp: usize) {
        let seen = &mut self.seen[warp * self.columns..][..self.columns];
        seen.iter_mut().for_each(|clock| *clock = (*clock).max(START));
    }

    /// What a lane knew at its last fence of a scope or a wider one, which its relaxed arrivals publish.
    pub(crate) fn fenced(&self, warp: usize, lane: usize, scope: Scope) -> Option<&Knowledge> {
        self.further[warp].fenced.get(lane)?[scope as usize].as_ref()
    }

    /// Lanes have waited with relaxed order: their next fence acquires what the threads of their own block, and those
    /// of other blocks, had published.
    pub(crate) fn wait_relaxed(&mut self, warp: usize, waited: u32, known: &Knowledge, of_peers: &Knowledge) {
        let own = self.block_of(warp);
        let elsewhere = Block { rank: u32::MAX, ..own };
        for (by, scope, known) in [(own, Scope::Cta, known), (elsewhere, Scope::Cluster, of_peers)] {
            let mut published = Published::new(by);
            published.add(scope, known);
            lanes(waited).for_each(|lane| self.keep(warp, lane, &published));
        }
    }

    /// Keeps what a lane has read until a fence acquires it.
    fn keep(&mut self, warp: usize, lane: usize, published: &Published) {
        if published.is_empty() {
            return;
        }
        let read = &mut self.further[warp].read;
        read.resize_with(LANES, Vec::new);
        match read[lane].iter_mut().find(|earlier| earlier.is_of(published)) {
            Some(earlier) => earlier.join(published),
            None => read[lane].push(published.clone()),
        }
    }

    /// Records what lanes know at a proxy fence.
    pub(crate) fn fence_proxy(&mut self, warp: usize, active: u32, ordered: Ordered) {
        for lane in lanes(active) {
            let known = self.knowledge(warp, lane);
            let proxied = &mut self.further[warp].proxied;
            proxied.resize_with(LANES, Proxied::default);
            match ordered {
                Ordered::Shared => proxied[lane].shared = known,
                Ordered::Global => proxied[lane].global = known,
            }
        }
    }

    /// Whether a thread has executed a proxy fence since it knew what a thread of some block did at a clock.
    pub(crate) fn fenced_since(&self, ordered: Ordered, (block, thread, clock): (u32, u16, u32), me: u16) -> bool {
        let proxied = self.further[usize::from(me) / LANES].proxied.get(usize::from(me) % LANES);
        proxied.is_some_and(|proxied| match ordered {
            Ordered::Shared => proxied.shared.includes(block, thread, clock),
            Ordered::Global => proxied.global.includes(block, thread, clock),
        })
    }

    /// Executes a fence in some lanes: what they have read from flags is acquired, and later strong writes release what
    /// they know now.
    pub(crate) fn fence(&mut self, warp: usize, active: u32, order: FenceOrder, scope: Scope) {
        for lane in lanes(active) {
            if order != FenceOrder::Release {
                self.acquire_read(warp, lane, order, scope);
            }
            if order == FenceOrder::Acquire {
                continue;
            }
            let known = self.knowledge(warp, lane);
            if order == FenceOrder::Sc {
                let sequenced = &mut self.further[warp].sequenced;
                sequenced.resize_with(LANES, Knowledge::default);
                sequenced[lane].add_fenced(scope, &known);
            }
            let fenced = &mut self.further[warp].fenced;
            fenced.resize_with(LANES, Default::default);
            // A fence of a wide scope is also one of a narrow scope.
            for narrower in [Scope::Gpu, Scope::Cluster].into_iter().filter(|other| *other <= scope) {
                fenced[lane][narrower as usize] = Some(known.clone());
            }
            fenced[lane][Scope::Cta as usize] = Some(known);
        }
        self.tick(warp);
    }

    /// A fence acquires what the lane has read from flags. A `fence.sc` also acquires what precedes the other
    /// `fence.sc` that it has to follow.
    fn acquire_read(&mut self, warp: usize, lane: usize, order: FenceOrder, scope: Scope) {
        let read = self.further[warp].read.get_mut(lane).map(std::mem::take).unwrap_or_default();
        for published in read {
            if let Some(known) = published.seen_by(self.block_of(warp), scope) {
                self.learn(warp, 1 << lane, false, known);
            } else {
                self.further[warp].read[lane].push(published);
            }
        }
        if order == FenceOrder::Sc && self.further[warp].has_sequence(lane) {
            let known = self.knowledge(warp, lane);
            for of in [Scope::Cta, Scope::Cluster, Scope::Gpu].into_iter().filter(|of| *of <= scope) {
                if let Some(awaited) = known.awaited(of) {
                    self.learn(warp, 1 << lane, false, awaited);
                }
            }
        }
    }

    /// What a strong write of a lane publishes, by scope: everything so far if it is a release, otherwise what was
    /// known at its last fence.
    pub(crate) fn publishes(&self, warp: usize, lane: usize, releases: bool, scope: Scope) -> Published {
        let mut published = Published::new(self.block_of(warp));
        if releases {
            published.add(scope, &self.knowledge(warp, lane));
        }
        if let Some(fenced) = self.further[warp].fenced.get(lane) {
            for of in [Scope::Cta, Scope::Cluster, Scope::Gpu].into_iter().filter(|of| *of <= scope) {
                if let Some(known) = &fenced[of as usize] {
                    published.add(of, known);
                }
            }
        }
        if self.further[warp].has_sequence(lane) {
            published.add_fenced(scope, &self.knowledge(warp, lane));
        }
        published
    }

    /// Records that a strong read of a lane has obtained what was published with a flag's value.
    pub(crate) fn observe(&mut self, warp: usize, lane: usize, acquires: bool, scope: Scope, published: &Published) {
        if published.is_empty() {
            return;
        }
        let acquired = acquires && {
            let known = published.seen_by(self.block_of(warp), scope).cloned();
            if let Some(known) = &known {
                self.learn(warp, 1 << lane, false, known);
            }
            known.is_some()
        };
        if let Some((known, needed)) = published.fenced().map(|fenced| fenced.visible_to(self.block_of(warp)))
            && needed <= scope
        {
            let sequenced = &mut self.further[warp].sequenced;
            sequenced.resize_with(LANES, Knowledge::default);
            sequenced[lane].add_awaited(needed, known);
        }
        if !acquired {
            self.keep(warp, lane, &published.narrowed(scope));
        }
    }
}
