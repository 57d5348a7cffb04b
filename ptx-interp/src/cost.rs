//! The counted cost of a launch: instructions by kind, shared-memory wavefronts, global sectors and bytes. All figures
//! are sums over warps, so they do not depend on how blocks were distributed over host threads.

use std::collections::BTreeMap;
use std::ops::Range;

use arrayvec::ArrayVec;

use crate::address::StateSpace;
use crate::op::{Bulk, Code, Op};
use crate::row::LANES;

/// Costs of a launch. Instructions and accesses are counted once per warp, bytes once per thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions by kind.
    pub mix: Mix,
    /// Loads from shared memory.
    pub shared_loads: SharedCost,
    /// Stores to shared memory, including `cp.async`.
    pub shared_stores: SharedCost,
    /// Loads from global memory, including `cp.async`.
    pub global_loads: GlobalCost,
    /// Stores to global memory.
    pub global_stores: GlobalCost,
    /// Traffic by label of the allocation.
    pub traffic: BTreeMap<String, Traffic>,
    /// Accesses to shared memory by label of the launch's regions; those outside of all regions are left out.
    pub buffers: BTreeMap<String, BufferCost>,
    /// Accesses to shared memory by the line of their instruction.
    pub shared_by_line: BTreeMap<u32, SharedAccess>,
}

/// The demand of one instruction on shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAccess {
    /// The direction of the transfer.
    pub way: Direction,
    /// Bytes per lane.
    pub bytes: u32,
    /// All accesses of the instruction.
    pub cost: SharedCost,
    /// The warp's access with the most conflicts. If there are several, the first in order of their offsets.
    pub worst: WarpAccess,
}

/// One access of a warp to shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarpAccess {
    /// Passes over the banks that it took.
    pub wavefronts: u64,
    /// Passes that it would have taken without conflicts.
    pub ideal: u64,
    /// The lanes that take part, ascending, and the byte offset of each in the block's shared memory.
    pub lanes: Vec<(usize, u32)>,
}

impl WarpAccess {
    /// Passes lost to bank conflicts.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal
    }

    /// The order does not depend on which access comes first, so that the worst of several blocks is always the same.
    fn is_better_than(&self, conflicts: u64, lanes: &[(usize, u32)]) -> bool {
        (self.conflicts(), lanes) < (conflicts, &self.lanes)
    }
}

/// Instructions by kind, counted once per warp. Instructions with a predicate that is false in all lanes do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// `fma`.
    pub fma: u64,
    /// `mad`, for addresses and for integer matrices.
    pub mad: u64,
    /// `mma` and `wgmma`.
    pub matrix: u64,
    /// `ld.global`.
    pub load_global: u64,
    /// `st.global`.
    pub store_global: u64,
    /// `ld.shared`.
    pub load_shared: u64,
    /// `st.shared`.
    pub store_shared: u64,
    /// `cp.async`.
    pub copy_async: u64,
    /// Bulk and tensor copies.
    pub copy_bulk: u64,
    /// `atom` and `red`.
    pub atomic: u64,
    /// `bar.sync` and `bar.arrive`.
    pub barrier: u64,
    /// `bra`.
    pub branch: u64,
    /// Everything else.
    pub other: u64,
}

/// Accesses to shared memory. There are 32 banks of 4 bytes. Each delivers one word per wavefront, to all threads that
/// read it. 8-byte accesses are processed per half-warp, 16-byte accesses per quarter-warp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCost {
    /// Instructions.
    pub accesses: u64,
    /// Wavefronts that they took.
    pub wavefronts: u64,
    /// Wavefronts that they would have taken without bank conflicts.
    pub ideal: u64,
    /// Distinct 4-byte words per instruction, added up: threads of a warp that access the same word share it.
    pub words: u64,
}

impl SharedCost {
    /// Wavefronts lost to bank conflicts.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal
    }
}

/// Accesses to one region of shared memory. An access counts for the region that its first lane's address is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCost {
    /// Loads from it.
    pub loads: SharedCost,
    /// Stores to it, `cp.async` included.
    pub stores: SharedCost,
}

/// A part of a block's shared memory that is counted separately. Several parts may share a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// The label in [`Cost::buffers`].
    pub label: &'a str,
    /// Bytes of the block's shared memory.
    pub bytes: Range<u32>,
}

/// Accesses to global memory, in sectors of 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalCost {
    /// Instructions.
    pub accesses: u64,
    /// Distinct sectors per instruction, added up.
    pub sectors: u64,
    /// Sectors that the same number of distinct bytes would take if they were contiguous.
    pub ideal: u64,
}

/// Bytes that threads requested from one allocation, counted for each thread separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes loaded.
    pub read: u64,
    /// Bytes stored.
    pub written: u64,
    /// Loads, `cp.async` included.
    pub loads: GlobalCost,
    /// Stores.
    pub stores: GlobalCost,
}

impl Cost {
    /// Bytes that threads loaded from global memory.
    pub fn bytes_read(&self) -> u64 {
        self.traffic.values().map(|traffic| traffic.read).sum()
    }

    /// Bytes that threads stored to global memory.
    pub fn bytes_written(&self) -> u64 {
        self.traffic.values().map(|traffic| traffic.written).sum()
    }

    /// Number of barriers that warps reached.
    pub fn barriers(&self) -> u64 {
        self.mix.barrier
    }
}

/// Counts of one block while it runs; allocations are indexed as in the launch's table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// How often a warp executed each instruction.
    pub(crate) executed: Vec<u64>,
    pub(crate) shared_loads: SharedCost,
    pub(crate) shared_stores: SharedCost,
    pub(crate) global_loads: GlobalCost,
    pub(crate) global_stores: GlobalCost,
    pub(crate) traffic: Vec<Traffic>,
    /// For each region of the launch, in order.
    regions: Vec<(Range<u32>, BufferCost)>,
    /// By instruction.
    pub(crate) shared: Vec<Option<SharedAccess>>,
    /// The same.
    patterns: Vec<Pattern>,
}

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From memory.
    Load,
    /// To memory.
    Store,
}

/// The last access of an instruction.
#[derive(Clone, Debug, Default)]
struct Pattern {
    lanes: Box<[(usize, u32)]>,
    cost: SharedCost,
}

impl Pattern {
    /// Whether an access of the same instruction has the same lanes at the same distances, shifted by whole words. Then
    /// it costs the same, since the shift rotates all its banks alike. In a loop, nearly every access does.
    fn has(&self, offsets: &[(usize, u32)]) -> bool {
        let (Some((_, first)), Some((_, other))) = (self.lanes.first(), offsets.first()) else { return false };
        let step = other.wrapping_sub(*first);
        let moved = |(one, other): (&(usize, u32), &(usize, u32))| (one.0, one.1.wrapping_add(step)) == *other;
        step.is_multiple_of(4) && self.lanes.len() == offsets.len() && self.lanes.iter().zip(offsets).all(moved)
    }
}

/// The number of distinct offsets, and of the sectors that contain them. An aligned access of at most 32 bytes stays
/// within one sector.
fn distinct_and_sectors(offsets: &mut [u64]) -> (u64, u64) {
    if !offsets.is_sorted() {
        offsets.sort_unstable();
    }
    let different = |key: fn(u64) -> u64| offsets.chunk_by(|one, other| key(*one) == key(*other)).count() as u64;
    (different(|offset| offset), different(|offset| offset / 32))
}

/// The cost of one shared-memory instruction.
fn shared_cost(offsets: &[(usize, u32)], bytes: u32) -> SharedCost {
    let lanes_at_once = (32 * 4 / bytes.max(4)) as usize;
    let mut cost = SharedCost { accesses: 1, ..SharedCost::default() };
    for group in offsets.chunk_by(|a, b| a.0 / lanes_at_once == b.0 / lanes_at_once) {
        let mut words: Vec<u32> =
            group.iter().flat_map(|(_, offset)| offset / 4..(offset + bytes).div_ceil(4)).collect();
        words.sort_unstable();
        words.dedup();
        let mut banks = [0u64; 32];
        words.iter().for_each(|word| banks[*word as usize % 32] += 1);
        cost.wavefronts += banks.iter().copied().max().unwrap_or(1);
        cost.ideal += (words.len() as u64).div_ceil(32);
    }
    let mut words: Vec<u32> = offsets.iter().map(|(_, offset)| offset / 4).collect();
    words.sort_unstable();
    words.dedup();
    cost.words += words.len() as u64 * u64::from(bytes.div_ceil(4));
    cost
}

impl Counters {
    pub(crate) fn new(instructions: usize, allocations: usize, regions: &[Region<'_>]) -> Counters {
        Counters {
            executed: vec![0; instructions],
            shared: vec![None; instructions],
            patterns: vec![Pattern::default(); instructions],
            traffic: vec![Traffic::default(); allocations],
            regions: regions.iter().map(|region| (region.bytes.clone(), BufferCost::default())).collect(),
            ..Counters::default()
        }
    }

    /// Counts an instruction, or a run of them.
    #[inline(always)]
    pub(crate) fn count(&mut self, pc: u32, op: &Op) {
        let len = match *op {
            Op::FmaRun32 { len, .. } | Op::FmaRun64 { len, .. } | Op::MadRun32 { len, .. } => len,
            _ => 1,
        };
        self.executed[pc as usize..][..len as usize].iter_mut().for_each(|count| *count += 1);
    }

    /// Counts one shared-memory instruction by its lanes' byte offsets, in ascending order of lanes.
    pub(crate) fn shared(&mut self, pc: u32, way: Direction, offsets: &[(usize, u32)], bytes: u32) {
        let pattern = &mut self.patterns[pc as usize];
        if !pattern.has(offsets) {
            *pattern = Pattern { lanes: offsets.into(), cost: shared_cost(offsets, bytes) };
        }
        let cost = pattern.cost;
        let region = offsets.first().and_then(|(_, first)| self.regions.iter_mut().find(|of| of.0.contains(first)));
        if let Some((_, buffer)) = region {
            *buffer.way(way) += cost;
        }
        match way {
            Direction::Load => self.shared_loads += cost,
            Direction::Store => self.shared_stores += cost,
        }
        let warp = || WarpAccess { wavefronts: cost.wavefronts, ideal: cost.ideal, lanes: offsets.into() };
        match &mut self.shared[pc as usize] {
            Some(sum) => {
                sum.cost += cost;
                if sum.worst.is_better_than(cost.conflicts(), offsets) {
                    sum.worst = warp();
                }
            }
            none => *none = Some(SharedAccess { way, bytes, cost, worst: warp() }),
        }
    }

    /// Counts one global-memory instruction by the byte offsets of its lanes, which may be of several allocations.
    pub(crate) fn global(&mut self, way: Direction, accessed: &[(usize, u64)], bytes: u64) {
        let mut offsets = ArrayVec::<u64, LANES>::new();
        let (mut distinct, mut sectors) = (0, 0);
        // Allocation by allocation, each at the first of its lanes. Usually there is one.
        for (lane, &(allocation, _)) in accessed.iter().enumerate() {
            if accessed[..lane].iter().rev().any(|(of, _)| *of == allocation) {
                continue;
            }
            offsets.clear();
            accessed.iter().filter(|(of, _)| *of == allocation).for_each(|(_, offset)| offsets.push(*offset));
            let traffic = &mut self.traffic[allocation];
            match way {
                Direction::Load => traffic.read += bytes * offsets.len() as u64,
                Direction::Store => traffic.written += bytes * offsets.len() as u64,
            }
            let (of_one, its_sectors) = distinct_and_sectors(&mut offsets);
            distinct += of_one;
            sectors += its_sectors;
            *traffic.way(way) += GlobalCost { accesses: 1, sectors: its_sectors, ideal: (of_one * bytes).div_ceil(32) };
        }
        let cost = match way {
            Direction::Load => &mut self.global_loads,
            Direction::Store => &mut self.global_stores,
        };
        *cost += GlobalCost { accesses: 1, sectors, ideal: (distinct * bytes).div_ceil(32) };
    }

    /// Counts the bytes that a bulk copy moves.
    pub(crate) fn bulk(&mut self, way: Direction, allocation: usize, bytes: u64) {
        let traffic = &mut self.traffic[allocation];
        match way {
            Direction::Load => traffic.read += bytes,
            Direction::Store => traffic.written += bytes,
        }
    }
}

impl Cost {
    pub(crate) fn new<'a>(
        counters: &Counters,
        code: &Code,
        labels: impl Iterator<Item = &'a str>,
        regions: &[Region<'_>],
    ) -> Cost {
        let mut cost = Cost {
            mix: Mix::default(),
            shared_loads: counters.shared_loads,
            shared_stores: counters.shared_stores,
            global_loads: counters.global_loads,
            global_stores: counters.global_stores,
            traffic: BTreeMap::new(),
            buffers: BTreeMap::new(),
            shared_by_line: BTreeMap::new(),
        };
        for (origin, access) in code.origins.iter().zip(&counters.shared) {
            if let Some(access) = access {
                cost.shared_by_line.insert(origin.line, access.clone());
            }
        }
        for (instr, count) in code.instrs.iter().zip(&counters.executed) {
            *cost.mix.kind(&instr.op, code) += count;
        }
        for (label, traffic) in labels.zip(&counters.traffic) {
            if *traffic != Traffic::default() {
                *cost.traffic.entry(label.into()).or_default() += *traffic;
            }
        }
        for (region, (_, buffer)) in regions.iter().zip(&counters.regions) {
            *cost.buffers.entry(region.label.into()).or_default() += *buffer;
        }
        cost
    }
}

impl Mix {
    /// The counter for an instruction.
    fn kind(&mut self, op: &Op, code: &Code) -> &mut u64 {
        let state_space = |index: u32| code.accesses[index as usize].space;
        match *op {
            Op::FmaRun32 { .. } | Op::FmaRun64 { .. } | Op::Fma32 { .. } | Op::Fma64 { .. } => &mut self.fma,
            Op::Scalar { index } if code.scalars[index as usize].f.is_fma() => &mut self.fma,
            Op::MadRun32 { .. } | Op::Mad32 { .. } | Op::Mad64 { .. } | Op::MadWide { .. } => &mut self.mad,
            Op::Load { index } => match state_space(index) {
                Some(StateSpace::Global) | None => &mut self.load_global,
                Some(StateSpace::Shared | StateSpace::Cluster) => &mut self.load_shared,
                _ => &mut self.other,
            },
            Op::Store { index } => match state_space(index) {
                Some(StateSpace::Global) | None => &mut self.store_global,
                Some(StateSpace::Shared | StateSpace::Cluster) => &mut self.store_shared,
                _ => &mut self.other,
            },
            Op::Multiply { .. }
            | Op::DoubleMultiply { .. }
            | Op::FragmentMultiply { .. }
            | Op::GroupMultiply { .. } => &mut self.matrix,
            Op::CpAsync { .. } => &mut self.copy_async,
            Op::Bulk { index } if matches!(code.bulks[index as usize], Bulk::Values { reduce: None, .. }) => {
                &mut self.store_shared
            }
            Op::Bulk { index } if matches!(code.bulks[index as usize], Bulk::Values { .. }) => &mut self.atomic,
            Op::Bulk { index } if code.bulks[index as usize].copies() => &mut self.copy_bulk,
            Op::Atomic { .. } => &mut self.atomic,
            Op::Barrier { .. } | Op::BarrierReduce { .. } | Op::BarrierArrive { .. } => &mut self.barrier,
            Op::Branch { .. } | Op::BranchIndexed { .. } => &mut self.branch,
            _ => &mut self.other,
        }
    }
}

impl std::ops::AddAssign<&Cost> for Cost {
    fn add_assign(&mut self, other: &Cost) {
        self.mix += &other.mix;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        other.traffic.iter().for_each(|(label, traffic)| *self.traffic.entry(label.clone()).or_default() += *traffic);
        other.buffers.iter().for_each(|(label, buffer)| *self.buffers.entry(label.clone()).or_default() += *buffer);
        for (line, access) in &other.shared_by_line {
            match self.shared_by_line.get_mut(line) {
                Some(sum) => *sum += access,
                None => _ = self.shared_by_line.insert(*line, access.clone()),
            }
        }
    }
}

impl std::ops::AddAssign<&SharedAccess> for SharedAccess {
    fn add_assign(&mut self, other: &SharedAccess) {
        self.cost += other.cost;
        if self.worst.is_better_than(other.worst.conflicts(), &other.worst.lanes) {
            self.worst = other.worst.clone();
        }
    }
}

impl std::ops::AddAssign<&Mix> for Mix {
    fn add_assign(&mut self, other: &Mix) {
        self.fma += other.fma;
        self.mad += other.mad;
        self.matrix += other.matrix;
        self.load_global += other.load_global;
        self.store_global += other.store_global;
        self.load_shared += other.load_shared;
        self.store_shared += other.store_shared;
        self.copy_async += other.copy_async;
        self.copy_bulk += other.copy_bulk;
        self.atomic += other.atomic;
        self.barrier += other.barrier;
        self.branch += other.branch;
        self.other += other.other;
    }
}

impl std::ops::AddAssign for SharedCost {
    fn add_assign(&mut self, other: SharedCost) {
        self.accesses += other.accesses;
        self.wavefronts += other.wavefronts;
        self.ideal += other.ideal;
        self.words += other.words;
    }
}

impl BufferCost {
    fn way(&mut self, way: Direction) -> &mut SharedCost {
        match way {
            Direction::Load => &mut self.loads,
            Direction::Store => &mut self.stores,
        }
    }

    /// Passes lost to bank conflicts.
    pub fn conflicts(&self) -> u64 {
        self.loads.conflicts() + self.stores.conflicts()
    }
}

impl std::ops::AddAssign for BufferCost {
    fn add_assign(&mut self, other: BufferCost) {
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

impl std::ops::AddAssign for GlobalCost {
    fn add_assign(&mut self, other: GlobalCost) {
        self.accesses += other.accesses;
        self.sectors += other.sectors;
        self.ideal += other.ideal;
    }
}

impl Traffic {
    fn way(&mut self, way: Direction) -> &mut GlobalCost {
        match way {
            Direction::Load => &mut self.loads,
            Direction::Store => &mut self.stores,
        }
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.read += other.read;
        self.written += other.written;
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

impl std::ops::AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        self.regions.iter_mut().zip(&other.regions).for_each(|(sum, region)| sum.1 += region.1);
        self.executed.iter_mut().zip(&other.executed).for_each(|(sum, count)| *sum += count);
        self.traffic.iter_mut().zip(&other.traffic).for_each(|(sum, traffic)| *sum += *traffic);
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        for (sum, access) in self.shared.iter_mut().zip(&other.shared) {
            match (sum, access) {
                (Some(sum), Some(access)) => *sum += access,
                (sum, Some(access)) => *sum = Some(access.clone()),
                (_, None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Direction, GlobalCost, SharedCost, shared_cost};

    /// Accesses of one instruction that are shifted by whole words and by less, with other distances, and with other
    /// lanes.
    #[test]
    fn an_access_costs_the_same_whatever_the_one_before_it() {
        let rows: Vec<Vec<(usize, u32)>> = [(0, 4), (128, 4), (132, 4), (132, 8), (4, 8), (6, 8), (6, 128), (4, 128)]
            .into_iter()
            .map(|(first, step)| (0..32).map(|lane| (lane, first + step * lane as u32)).collect())
            .collect();
        for bytes in [1, 4, 8, 16] {
            let (mut counters, mut expected) = (Counters::new(1, 0, &[]), SharedCost::default());
            for row in rows.iter().chain([&rows[0][..7].to_vec()]) {
                counters.shared(0, Direction::Load, row, bytes);
                expected += shared_cost(row, bytes);
            }
            assert_eq!(counters.shared_loads, expected, "{bytes} bytes a lane");
            let access = counters.shared[0].as_ref().unwrap();
            assert_eq!(access.cost, expected);
            assert_eq!(access.worst.lanes, rows[7], "the first of the accesses with the most conflicts");
        }
    }

    /// Lanes that alternate between two allocations touch the sectors of each once.
    #[test]
    fn sectors_are_counted_by_allocation() {
        let mut counters = Counters::new(0, 2, &[]);
        let row: Vec<(usize, u64)> = (0..32).map(|lane| (lane % 2, 4 * (lane as u64 / 2 % 8))).collect();
        counters.global(Direction::Load, &row, 4);
        let one = GlobalCost { accesses: 1, sectors: 1, ideal: 1 };
        assert!(counters.traffic.iter().all(|of| (of.loads, of.read) == (one, 64)));
        assert_eq!(counters.global_loads, GlobalCost { accesses: 1, sectors: 2, ideal: 2 });
        // Backwards, and two lanes at each address.
        let row: Vec<(usize, u64)> = (0..32).rev().map(|lane| (1, 16 * (lane as u64 / 2))).collect();
        counters.global(Direction::Store, &row, 16);
        assert_eq!(counters.global_stores, GlobalCost { accesses: 1, sectors: 8, ideal: 8 });
        assert_eq!(counters.traffic[1].written, 512);
    }
}
