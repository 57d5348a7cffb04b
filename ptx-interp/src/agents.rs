//! The asynchronous copies of a cluster's blocks, as agents: the copies in flight, the bytes they have written, and the threads
//! that know that they are complete.
//!
//! - A **pending** copy has been started and is not complete. [`crate::Landing`] says when it lands, that is,
//!   completes.
//! - Each 16 bytes of shared memory (a **granule**; bulk copies come in multiples of it) record the last asynchronous
//!   write, and the number of copies that are reading them. A thread may access what a copy wrote if it knows that the
//!   copy is complete.
//! - That knowledge is a clock. Each mbarrier at which copies complete has a column that counts the copies. A thread
//!   that waits there successfully learns the clock at which the phase completed, and propagates it like the clocks of
//!   warps ([`crate::clocks`]). A thread that waits for groups of copies knows at once that they are complete; other
//!   threads learn it by synchronising with that thread.
//! - **Fences** between the proxies are recorded by thread, with the clock at which each was executed: an access is
//!   fenced if its thread executed a fence after it and before the synchronisation that orders it before the
//!   asynchronous access.
//! - The multiplications of a **warp group** read shared memory the same way: they have a column, and each granule
//!   records the last one of each group that reads it ([`crate::groups`]).
//! - **Global** memory has its own shadow ([`crate::global::shadow`]). There, a load is a read by a thread that
//!   represents its mbarrier's copies, and a store is a write that no thread knows of until its own thread has waited
//!   for it. This module only tracks what is in flight, for reports.

use std::collections::HashMap;

use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use crate::clocks::Clocks;
use crate::options::Landing;
use crate::tensor::Tile;

/// Bytes per granule.
pub(crate) const GRANULE_BYTES: usize = 16;
/// Most fences recorded per thread; older ones count as executed in time.
const MOST_FENCES: usize = 64;
/// Most copies of a block that may be in flight at once.
const MOST_PENDING: usize = 1 << 14;
/// Most pieces of global memory that these copies may have in total.
const MOST_PIECES: usize = 1 << 20;
/// Most copies to global memory that may be in flight after their threads have waited only for the reads. Older ones
/// complete, so that a loop that never waits for more does not accumulate them.
const MOST_READ: usize = 64;

/// The other side of a copy: global memory, or another range of shared memory.
#[derive(Clone, Debug)]
pub(crate) enum Region {
    /// Consecutive bytes from this address on.
    Flat(u64),
    Tile(Box<Tile>),
    /// Offset in shared memory.
    Shared(u32),
}

/// What a copy does.
#[derive(Clone, Debug)]
pub(crate) enum Movement {
    /// Into shared memory, counted by the mbarrier at this offset; a reduction combines with the existing values.
    Load { from: Region, barrier: u32, reduce: Option<(Atomic, Type)> },
    /// Elements of `size` bytes, into shared memory, with one bit of `defined` for each element that holds a known
    /// value.
    Values { barrier: u32, data: [u8; 16], size: u8, defined: u16, reduce: Option<(Atomic, Type)> },
    /// To global memory, in the thread's group of copies with this number.
    Store { to: Region, group: u32, reduce: Option<(Atomic, Type)> },
}

/// A copy in flight.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Index within the cluster of the thread that started it.
    pub(crate) thread: u16,
    pub(crate) pc: u32,
    /// The clock of its warp when it started.
    pub(crate) began: u32,
    /// For a load: the column of its mbarrier, and the clock at which a thread knows that the copy is complete.
    pub(crate) known: (u32, u32),
    /// Offset in shared memory.
    pub(crate) shared: u32,
    /// Distance from the first to the last byte in shared memory, including gaps between a box's rows.
    pub(crate) bytes: u32,
    /// Number of bytes that are copied.
    pub(crate) counted: u32,
    pub(crate) movement: Movement,
    /// The data of a store, once they have been read.
    pub(crate) data: Option<Vec<u8>>,
    /// True if a store has been written but its thread has not waited for it yet.
    pub(crate) landed: bool,
    /// True if the thread has waited until the source of a store was read.
    pub(crate) read: bool,
    /// Lowest and highest byte of global memory that it accesses, for a quick test.
    pub(crate) span: (u64, u64),
    /// The accessed pieces of global memory, as addresses and lengths.
    pub(crate) pieces: Vec<(u64, u32)>,
}

impl Pending {
    pub(crate) fn is_store(&self) -> bool {
        matches!(self.movement, Movement::Store { .. })
    }

    fn clash(&self, how: How) -> Clash {
        Clash { thread: self.thread, pc: self.pc, began: self.began, how }
    }

    /// Whether it reads or writes any of these bytes of global memory.
    fn accesses(&self, address: u64, bytes: u64) -> bool {
        self.span.0 < address + bytes
            && address <= self.span.1
            && self.pieces.iter().any(|(start, len)| *start < address + bytes && address < start + u64::from(*len))
    }
}

/// State of 16 bytes of shared memory with respect to asynchronous copies.
#[derive(Clone, Copy, Debug, Default)]
struct Granule {
    /// Column of the mbarrier that counted the last write, plus one; 0 if there was none.
    column: u32,
    clock: u32,
    pc: u32,
    began: u32,
    thread: u16,
    /// Number of copies that are writing it now: 0 or 1.
    writing: bool,
    /// Number of copies that are reading it now.
    reading: u16,
    /// The thread, instruction and clock of the last copy that read it for an mbarrier, and the column (plus one) and
    /// clock from which threads know that it has read.
    reader: (u16, u32, u32),
    read: (u32, u32),
}

/// A read of 16 bytes by a multiplication of a warp group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    /// The number of the multiplication, counted from 1; 0 if there was none.
    pub(crate) clock: u32,
    /// The first thread of the first warp that started it, the instruction, and the warp's clock then.
    pub(crate) thread: u16,
    pub(crate) pc: u32,
    pub(crate) began: u32,
}

/// The multiplications of a warp group as readers of shared memory.
#[derive(Clone, Debug, Default)]
struct Multiplier {
    /// The column that counts them.
    column: u32,
    /// The last read of each granule; empty until the first.
    uses: Vec<Use>,
}

/// A copy that conflicts with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clash {
    pub(crate) thread: u16,
    pub(crate) pc: u32,
    pub(crate) began: u32,
    pub(crate) how: How,
}

/// How the copy conflicts with the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It is writing.
    Writing,
    /// It is reading.
    Reading,
    /// It has written, and the accessing thread has not waited for it.
    Written,
    /// It is a multiplication that reads, and the accessing thread does not know that it is complete.
    Multiplying,
}

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// The thread's accesses to shared memory.
    Shared,
    /// The initialisation of mbarriers.
    Init,
    /// The thread's reads from shared memory. A barrier, or a fence within the generic proxy, waits until the data have
    /// arrived. An arrival at an mbarrier does not: a copy that another thread starts then may overwrite the data
    /// before reads that are still queued have fetched them. Measured on an H200 with bank conflicts, which delay
    /// reads: five of eight kernels were wrong in every run. None was wrong with a fence of either kind before the
    /// arrival, with a barrier of the block instead of the mbarrier, or with copies by `cp.async`
    /// (`docs/performance.md`).
    Reads,
}

/// The times at which threads executed fences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    /// By thread, ascending.
    clocks: Vec<Vec<u32>>,
}

impl Fences {
    pub(crate) fn add(&mut self, thread: usize, clock: u32) {
        if self.clocks.len() <= thread {
            self.clocks.resize(thread + 1, Vec::new());
        }
        let clocks = &mut self.clocks[thread];
        if clocks.last() == Some(&clock) {
            return;
        }
        if clocks.len() == MOST_FENCES {
            clocks.drain(..MOST_FENCES / 2);
        }
        clocks.push(clock);
    }

    /// Whether the thread executed a fence at or after `clock` and not after `limit`.
    pub(crate) fn between(&self, thread: usize, clock: u32, limit: u32) -> bool {
        let Some(clocks) = self.clocks.get(thread) else { return false };
        let index = clocks.partition_point(|fence| *fence < clock);
        match clocks.get(index) {
            // Older fences may have been dropped.
            _ if index == 0 && clocks.len() >= MOST_FENCES / 2 => true,
            Some(fence) => *fence <= limit,
            None => false,
        }
    }
}

/// The asynchronous copies of a cluster's blocks.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    pub(crate) pending: Vec<Pending>,
    /// Empty until the first copy starts.
    granules: Vec<Granule>,
    /// By warp group.
    multipliers: Vec<Multiplier>,
    shared_bytes: usize,
    /// Column and newest clock of each mbarrier, by offset.
    columns: HashMap<u32, (u32, u32)>,
    /// By column: the clock of the newest store of values, its thread and its instruction.
    values: HashMap<u32, (u32, (u16, u32))>,
    fences: [Fences; 3],
    /// Number of groups that each thread has committed.
    committed: Vec<u32>,
    landing: Landing,
    random: u64,
    /// Number of stores and loads in flight, for a quick test of global accesses.
    stores: usize,
    pieces: usize,
}

impl Agents {
    pub(crate) fn reset(&mut self, landing: Landing, block: u64, shared_bytes: u32) {
        self.pending.clear();
        self.granules.clear();
        self.multipliers.clear();
        self.columns.clear();
        self.values.clear();
        self.fences = Default::default();
        self.committed.clear();
        (self.landing, self.shared_bytes) = (landing, shared_bytes as usize);
        (self.stores, self.pieces) = (0, 0);
        if let Landing::Seeded(seed) = landing {
            self.random =
                seed.wrapping_add(0x51).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }

    /// Whether a copy that starts now completes at once.
    pub(crate) fn lands_at_once(&mut self) -> bool {
        match self.landing {
            Landing::Latest => false,
            Landing::Earliest => true,
            Landing::Seeded(_) => self.next_random().is_multiple_of(4),
        }
    }

    /// A pending copy that completes now, at a time that the program does not determine.
    pub(crate) fn draw(&mut self) -> Option<usize> {
        if self.pending.is_empty()
            || !matches!(self.landing, Landing::Seeded(_))
            || !self.next_random().is_multiple_of(8)
        {
            return None;
        }
        let index = self.next_random() as usize % self.pending.len();
        (!self.pending[index].landed).then_some(index)
    }

    fn next_random(&mut self) -> u64 {
        let mut x = self.random | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// The first copy that an mbarrier counts.
    pub(crate) fn next_for(&self, offset: usize) -> Option<usize> {
        self.pending.iter().position(|pending| match pending.movement {
            Movement::Load { barrier, .. } | Movement::Values { barrier, .. } => barrier as usize == offset,
            Movement::Store { .. } => false,
        })
    }

    pub(crate) fn commit(&mut self, thread: usize) {
        *self.group_of(thread) += 1;
    }

    /// The group of a thread's next copy.
    pub(crate) fn group_of(&mut self, thread: usize) -> &mut u32 {
        if self.committed.len() <= thread {
            self.committed.resize(thread + 1, 0);
        }
        &mut self.committed[thread]
    }

    /// The first copy of a thread in a group older than its newest `newest` groups that is not finished yet.
    pub(crate) fn next_of_groups(&mut self, thread: usize, newest: u32, unread: bool) -> Option<usize> {
        let committed = *self.group_of(thread);
        self.pending.iter().position(|pending| {
            let Movement::Store { group, .. } = pending.movement else { return false };
            let old = group.checked_add(newest).is_some_and(|sum| sum < committed);
            usize::from(pending.thread) == thread && old && !(unread && pending.read)
        })
    }

    /// Starts a copy, which then owns its bytes of shared memory or makes them read-only.
    pub(crate) fn start(&mut self, pending: Pending) {
        if let Movement::Values { .. } = pending.movement {
            // The shadow records what it writes, by words.
            self.values.insert(pending.known.0, (pending.known.1, (pending.thread, pending.pc)));
            return self.pending.push(pending);
        }
        if self.granules.is_empty() {
            self.granules.resize(self.shared_bytes.div_ceil(GRANULE_BYTES), Granule::default());
        }
        self.stores += usize::from(pending.is_store());
        self.pieces += pending.pieces.len();
        let (thread, pc, began, store) = (pending.thread, pending.pc, pending.began, pending.is_store());
        for granule in self.range(pending.shared, pending.bytes) {
            if store {
                granule.reading = granule.reading.saturating_add(1);
            } else {
                *granule = Granule { thread, pc, began, writing: true, column: 0, clock: 0, ..*granule };
            }
        }
        if let Movement::Load { from: Region::Shared(from), .. } = pending.movement {
            for granule in self.range(from, pending.bytes) {
                granule.reading = granule.reading.saturating_add(1);
            }
        }
        self.pending.push(pending);
    }

    /// Whether another copy may start.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < MOST_PENDING && self.pieces < MOST_PIECES
    }

    /// The oldest copy that its thread has waited for only until the source was read, if there are too many such copies.
    pub(crate) fn overdue(&self) -> Option<usize> {
        let mut read = self.pending.iter().enumerate().filter(|(_, pending)| pending.read);
        let (oldest, _) = read.next()?;
        (read.count() >= MOST_READ).then_some(oldest)
    }

    /// Removes a copy so that it can complete.
    pub(crate) fn take(&mut self, index: usize) -> Pending {
        let pending = self.pending.remove(index);
        self.stores -= usize::from(pending.is_store());
        self.pieces -= pending.pieces.len();
        pending
    }

    /// Records that a copy has read its source in shared memory.
    pub(crate) fn has_read(&mut self, shared: u32, bytes: u32) {
        for granule in self.range(shared, bytes) {
            granule.reading = granule.reading.saturating_sub(1);
        }
    }

    /// Records that a copy has read its source in shared memory, which threads learn through an mbarrier.
    pub(crate) fn has_read_for(&mut self, shared: u32, pending: &Pending) {
        let (reader, known) = ((pending.thread, pending.pc, pending.began), pending.known);
        for granule in self.range(shared, pending.bytes) {
            granule.reading = granule.reading.saturating_sub(1);
            (granule.reader, granule.read) = (reader, (known.0 + 1, known.1));
        }
    }

    /// Counts a new copy at an mbarrier: the column and the clock from which its completion is known.
    pub(crate) fn count(&mut self, barrier: u32) -> (u32, u32) {
        let next = self.columns.len() as u32;
        let (column, newest) = self.columns.entry(barrier).or_insert((next, 0));
        *newest += 1;
        (*column, *newest)
    }

    /// The mbarriers at some offsets that have counted copies: each one's column, and the clock of its newest copy.
    pub(crate) fn counted_in(&self, at: impl Fn(u32) -> bool) -> impl Iterator<Item = (u32, u32)> {
        let counted = self.columns.iter().filter(move |(offset, (_, newest))| at(**offset) && *newest > 0);
        counted.map(|(_, counted)| *counted)
    }

    /// The copies between blocks that last read any of these bytes: the starter and the instruction of each, and the
    /// column and clock that a thread has to know.
    pub(crate) fn read_in(&self, start: usize, end: usize) -> impl Iterator<Item = ((u16, u32), (u32, u32))> {
        let granules = self
            .granules
            .get(start / GRANULE_BYTES..end.div_ceil(GRANULE_BYTES).min(self.granules.len()))
            .unwrap_or_default();
        let read = granules.iter().filter(|granule| granule.read.0 != 0);
        read.map(|granule| ((granule.reader.0, granule.reader.1), (granule.read.0 - 1, granule.read.1)))
    }

    /// The thread that started a copy which has completed, and the instruction, unless its bytes were written again.
    pub(crate) fn starter(&self, column: u32, clock: u32) -> Option<(u16, u32)> {
        if let Some((newest, starter)) = self.values.get(&column)
            && *newest == clock
        {
            return Some(*starter);
        }
        let wrote = |granule: &&Granule| (granule.column, granule.clock) == (column + 1, clock);
        self.granules.iter().find(wrote).map(|granule| (granule.thread, granule.pc))
    }

    /// Records that a warp group's multiplication reads 16 bytes.
    pub(crate) fn multiply(&mut self, group: usize, offset: u32, reading: Use) {
        if self.multipliers.len() <= group {
            self.multipliers.resize_with(group + 1, Multiplier::default);
        }
        if self.multipliers[group].uses.is_empty() {
            let next = self.columns.len() as u32;
            // No mbarrier has this offset.
            self.columns.insert(u32::MAX - group as u32, (next, 0));
            let uses = vec![Use::default(); self.shared_bytes.div_ceil(GRANULE_BYTES)];
            self.multipliers[group] = Multiplier { column: next, uses };
        }
        let last = &mut self.multipliers[group].uses[offset as usize / GRANULE_BYTES];
        if last.clock < reading.clock {
            *last = reading;
        }
    }

    /// The column and the clock of the copy that wrote 16 bytes last, if one did.
    #[inline(always)]
    pub(crate) fn written(&self, offset: u32) -> Option<(u32, u32)> {
        let granule = self.granules.get(offset as usize / GRANULE_BYTES)?;
        Some((granule.column.checked_sub(1)?, granule.clock))
    }

    /// The column that counts a warp group's multiplications, once it has one.
    pub(crate) fn column_of_group(&self, group: usize) -> Option<u32> {
        self.multipliers.get(group).filter(|group| !group.uses.is_empty()).map(|group| group.column)
    }

    /// A multiplication that reads bytes which a thread writes, if the thread does not know that it is complete.
    fn multiplied(&self, clocks: &Clocks, thread: u16, offset: usize, bytes: usize) -> Option<Clash> {
        self.multipliers.iter().find_map(|Multiplier { column, uses }| {
            let last = (offset + bytes).div_ceil(GRANULE_BYTES).min(uses.len());
            let unknown = |read: &&Use| read.clock != 0 && !clocks.knows_copies(thread, *column, read.clock);
            let Use { thread, pc, began, .. } = *uses.get(offset / GRANULE_BYTES..last)?.iter().find(unknown)?;
            Some(Clash { thread, pc, began, how: How::Multiplying })
        })
    }

    /// Records that a copy has completed at its mbarrier.
    pub(crate) fn landed(&mut self, pending: &Pending) {
        let (column, clock) = pending.known;
        for granule in self.range(pending.shared, pending.bytes) {
            (granule.writing, granule.column, granule.clock) = (false, column + 1, clock);
        }
    }

    fn range(&mut self, shared: u32, bytes: u32) -> impl Iterator<Item = &mut Granule> {
        let (first, last) =
            (shared as usize / GRANULE_BYTES, (shared as usize + bytes as usize).div_ceil(GRANULE_BYTES));
        let len = self.granules.len();
        self.granules[first.min(len)..last.min(len)].iter_mut()
    }

    /// Whether copies conflict with a thread's access to shared memory.
    #[inline(always)]
    pub(crate) fn clash_in_shared(
        &self,
        clocks: &Clocks,
        thread: u16,
        offset: usize,
        bytes: usize,
        writes: bool,
    ) -> Option<Clash> {
        if writes && let Some(clash) = self.multiplied(clocks, thread, offset, bytes) {
            return Some(clash);
        }
        if self.granules.is_empty() {
            return None;
        }
        let last = (offset + bytes).div_ceil(GRANULE_BYTES).min(self.granules.len());
        let mut granules = self.granules.get(offset / GRANULE_BYTES..last)?.iter().enumerate();
        granules.find_map(|(index, granule)| {
            let how = if granule.writing {
                How::Writing
            } else if granule.column != 0 && !clocks.knows_copies(thread, granule.column - 1, granule.clock) {
                How::Written
            } else if writes && granule.reading > 0 {
                return self.reader_of((offset / GRANULE_BYTES + index) * GRANULE_BYTES);
            } else if writes && granule.read.0 != 0 && !clocks.knows_copies(thread, granule.read.0 - 1, granule.read.1)
            {
                let (thread, pc, began) = granule.reader;
                return Some(Clash { thread, pc, began, how: How::Reading });
            } else {
                return None;
            };
            Some(Clash { thread: granule.thread, pc: granule.pc, began: granule.began, how })
        })
    }

    #[cold]
    fn reader_of(&self, offset: usize) -> Option<Clash> {
        let reads = |pending: &&Pending| {
            let start = match pending.movement {
                Movement::Store { .. } if !pending.read => pending.shared,
                Movement::Load { from: Region::Shared(from), .. } => from,
                _ => return false,
            } as usize;
            (start..start + pending.bytes as usize).contains(&offset)
        };
        let pending = self.pending.iter().find(reads)?;
        Some(pending.clash(How::Reading))
    }

    /// Whether copies conflict with an access to global memory by a thread of this block.
    #[inline(always)]
    pub(crate) fn clash_in_global(&self, address: u64, bytes: u64, writes: bool) -> Option<Clash> {
        if self.pending.is_empty() || (!writes && self.stores == 0) {
            return None;
        }
        let pending =
            self.pending.iter().find(|pending| (writes || pending.is_store()) && pending.accesses(address, bytes))?;
        let how = if pending.is_store() { How::Writing } else { How::Reading };
        Some(pending.clash(how))
    }

    /// Records a thread's fence.
    pub(crate) fn fence(&mut self, what: Fenced, thread: usize, clock: u32) {
        self.fences[what as usize].add(thread, clock);
    }

    /// Whether a thread's accesses at a clock are fenced, for a thread that knows its clock up to a limit.
    pub(crate) fn is_fenced(&self, what: Fenced, thread: u16, clock: u32, limit: u32) -> bool {
        self.fences[what as usize].between(thread.into(), clock, limit)
    }
}
