//! The state shared by all blocks of a launch, and the state of one block.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use ptx_gemm_ptx::instruction::Special;

use crate::address::PEER;
use crate::agents::{Agents, Fenced, Fences};
use crate::clocks::Clocks;
use crate::copies::Copies;
use crate::cost::{Counters, Region};
use crate::flags::Flags;
use crate::global::GlobalTable;
use crate::global::shadow::Detail;
use crate::groups::{Groups, WARPS};
use crate::history::History;
use crate::maps::Acquired;
use crate::mbarrier::Mbarriers;
use crate::memory::Memory;
use crate::op::{Code, Constant, Op, Slot, Way};
use crate::options::{BlockOrder, Checks, Counting, Landing, Severity, WarpOrder, Watch};
use crate::program::Entry;
use crate::row::{LANES, Row32, Row64, lanes};
use crate::shadows::Shadows;
use crate::shared::{Gap, Shared};
use crate::violation::{Checked, Fault, ViolationKind, triple};
use crate::visits::Visits;
use crate::waits::Waits;
use crate::warnings::Warnings;
use crate::warp::Warp;

/// Everything that is fixed for a launch.
pub(crate) struct Env<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) code: &'a Code,
    pub(crate) memory: &'a Memory,
    pub(crate) global: GlobalTable,
    /// The contents of constant memory.
    pub(crate) constants: Vec<u32>,
    /// Addresses of the module's variables in global memory.
    pub(crate) variables: Vec<u64>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Blocks per cluster.
    pub(crate) cluster: [u32; 3],
    /// Whether the entry or the launch specifies clusters.
    pub(crate) explicit_cluster: bool,
    pub(crate) params: Vec<u32>,
    pub(crate) param_bytes: usize,
    /// Bytes of a block's shared memory, with the gaps between its variables.
    pub(crate) shared_bytes: u32,
    pub(crate) shared_gaps: Arc<[Gap]>,
    pub(crate) dynamic_bytes: u32,
    /// Blocks that run at the same time, if that is limited.
    pub(crate) resident: Option<u32>,
    /// Regions of shared memory that are counted separately.
    pub(crate) regions: &'a [Region<'a>],
    /// Which rules are checked.
    pub(crate) checks: Checks,
    /// Whether any rule is checked that hardware does not enforce.
    pub(crate) strict: bool,
    pub(crate) counting: Counting,
    /// What requires the variant of the warp loop with tracking and checks, if anything.
    pub(crate) watch: Watch,
    pub(crate) order: WarpOrder,
    pub(crate) block_order: BlockOrder,
    pub(crate) landing: Landing,
    pub(crate) proxy_war: Severity,
    pub(crate) overtaken: Severity,
    pub(crate) fenced_late: Severity,
    pub(crate) proxy_init: Severity,
    pub(crate) proxy_init_own: Severity,
    pub(crate) equal_stores: Severity,
    pub(crate) past_rows: Severity,
    pub(crate) wide_parity: Severity,
    /// Registers that each thread starts with, if known.
    pub(crate) registers: Option<u32>,
    /// Whether kernels that were launched before may still run, as far as the checks know.
    pub(crate) overlaps: bool,
    pub(crate) max_instructions: u64,
    /// How precisely global memory is watched: whether a race is reported, or leads to another run.
    pub(crate) detail: Detail,
    /// Flags in global memory. Only launches that run block by block have any.
    pub(crate) flags: Mutex<Flags>,
    /// The synchronisation histories of the latest clusters.
    pub(crate) histories: Mutex<BTreeMap<u32, Arc<Mutex<History>>>>,
    /// Set when a race in global memory is found.
    pub(crate) raced: AtomicBool,
    /// The lowest cluster that has broken a rule; later ones need not continue.
    pub(crate) broken: AtomicU64,
}

/// A warp's position, from which its special registers follow.
struct Place {
    warp: u32,
    rank: u32,
    ctaid: [u32; 3],
    clusterid: [u32; 3],
    /// `%cluster_ctaid`.
    within: [u32; 3],
    clusters: [u32; 3],
}

/// Number of clusters that keep their histories.
const HISTORIES: usize = 1024;

/// The memory of a cluster's blocks, and a cache for lookups in global memory. Most clusters are a single block.
///
/// Threads are numbered across the cluster, block by block, and so are warps. Offsets in shared memory contain the rank
/// of their block ([`crate::shared`]).
#[derive(Debug, Default)]
pub(crate) struct BlockMemory {
    /// Index of the cluster within the grid, x fastest.
    pub(crate) number: u64,
    pub(crate) shared: Shared,
    /// Index at which the last lookup in the table of allocations ended.
    pub(crate) last: usize,
    /// Whether any bytes have changed since the flag was last cleared.
    pub(crate) wrote_global: bool,
    pub(crate) wrote_shared: bool,
    /// Whether anything was stored since the flag was last cleared, even if the same bytes were there before.
    pub(crate) stored: bool,
    /// Whether a warp could now act differently with the same registers and the same memory, since the flag was last
    /// cleared: its local memory has changed, or it has read a clock or the old value of a flag.
    pub(crate) changed: bool,
    /// The last accesses to shared memory, and what orders them.
    pub(crate) shadow: Shadows,
    /// What threads did in the shared memory of other blocks of the cluster, and which blocks have exited.
    pub(crate) visits: Visits,
    /// Which threads have waited for the kernels before, if these may still run.
    pub(crate) waits: Waits,
    /// The tensor maps in global memory that threads have acquired.
    pub(crate) maps: Vec<Acquired>,
    pub(crate) clocks: Clocks,
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) mbarriers: Mbarriers,
    /// By warp, the copies that are not complete; empty if copies complete at once.
    pub(crate) copies: Vec<Copies>,
    pub(crate) agents: Agents,
    pub(crate) groups: Groups,
    /// Whether a warp has started a multiplication since the flag was last cleared.
    pub(crate) moved_group: bool,
    /// The rule that a copy broke when it was completed.
    pub(crate) landing_fault: Option<Box<Fault>>,
    /// Broken rules that do not end the launch.
    pub(crate) warnings: Warnings,
    /// What threads have printed.
    pub(crate) printed: Vec<u8>,
    pub(crate) counters: Option<Box<Counters>>,
}

impl BlockMemory {
    /// Records that lanes of a warp are about to synchronise. `ticks` if that separates their later actions from their
    /// earlier ones.
    pub(crate) fn note(&self, warp: usize, lanes: u32, pc: u32, ticks: bool) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.note(warp, lanes, pc, self.clocks.now(warp), ticks);
    }

    /// Records that the data that lanes of a warp have read from shared memory have arrived.
    pub(crate) fn complete_reads(&mut self, env: &Env, warp: usize, active: u32) {
        if !env.code.bulks.is_empty() {
            let clock = self.clocks.now(warp);
            lanes(active).for_each(|lane| self.agents.fence(Fenced::Reads, warp * LANES + lane, clock));
        }
    }

    /// Separates what a warp does from now on from what it did before.
    pub(crate) fn clocks_tick(&mut self, env: &Env, warp: usize) {
        if env.watch == Watch::On {
            self.clocks.tick(warp);
        }
    }
}

impl Env<'_> {
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub(crate) fn warps(&self) -> u32 {
        self.threads().div_ceil(LANES as u32)
    }

    /// Number of clusters.
    pub(crate) fn clusters(&self) -> u64 {
        (0..3).map(|axis| u64::from(self.grid[axis] / self.cluster[axis])).product()
    }

    /// Number of clusters that run at the same time.
    pub(crate) fn resident_clusters(&self) -> usize {
        self.resident.map_or(usize::MAX, |blocks| (blocks / self.ranks()).max(1) as usize)
    }

    /// Number of blocks of each cluster.
    pub(crate) fn ranks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Distance between the first warps of two blocks of a cluster: whole warp groups, so that a warp's index within its
    /// group follows from its index within the cluster.
    pub(crate) fn warp_pitch(&self) -> u32 {
        if self.ranks() == 1 { self.warps() } else { self.warps().next_multiple_of(WARPS as u32) }
    }

    /// Number of warps of a cluster, with those that only fill up a warp group.
    pub(crate) fn all_warps(&self) -> usize {
        (self.warp_pitch() * self.ranks()) as usize
    }

    /// Whether blocks that could continue yield after a time slice.
    pub(crate) fn slices(&self) -> bool {
        matches!(self.block_order, BlockOrder::Interleaved | BlockOrder::Seeded(_))
    }

    /// `%ctaid` of a block.
    pub(crate) fn ctaid(&self, number: u64) -> [u32; 3] {
        coordinates(number, self.grid)
    }

    /// `%ctaid` of a block of a cluster.
    pub(crate) fn ctaid_in(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let first = self.clusterid(cluster);
        let within = coordinates(rank.into(), self.cluster);
        std::array::from_fn(|axis| first[axis] * self.cluster[axis] + within[axis])
    }

    /// `%clusterid` of a cluster.
    fn clusterid(&self, cluster: u64) -> [u32; 3] {
        coordinates(cluster, std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis]))
    }

    /// The rank of the block that a thread belongs to, or for which a thread index represents copies.
    pub(crate) fn rank(&self, thread: u16) -> u32 {
        u32::from(thread) / LANES as u32 / self.warp_pitch() % self.ranks()
    }

    /// `%ctaid` of a thread's block.
    pub(crate) fn ctaid_of(&self, cluster: u32, thread: u16) -> [u32; 3] {
        self.ctaid_in(cluster.into(), self.rank(thread))
    }

    /// Index within the grid of a thread's block.
    pub(crate) fn number_of(&self, cluster: u64, thread: u16) -> u64 {
        if self.ranks() == 1 {
            return cluster;
        }
        let [x, y, z] = self.ctaid_in(cluster, self.rank(thread)).map(u64::from);
        let [columns, rows, _] = self.grid.map(u64::from);
        (z * rows + y) * columns + x
    }

    /// The name of a thread in a report. It includes the block if that differs from the block of the thread that the
    /// report is about.
    pub(crate) fn name(&self, cluster: u32, thread: u16, than: (u32, u16)) -> String {
        let name = format!("thread {}", triple(self.tid(thread.into())));
        let block = self.ctaid_of(cluster, thread);
        if block == self.ctaid_of(than.0, than.1) { name } else { format!("{name} of block {}", triple(block)) }
    }

    /// Starts a new history for a cluster.
    pub(crate) fn begin_history(&self, block: u32) -> Arc<Mutex<History>> {
        let history = Arc::new(Mutex::new(History::new(self.all_warps())));
        if self.detail == Detail::Exact {
            let mut all = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(block, history.clone());
            if all.len() > HISTORIES {
                all.pop_first();
            }
        }
        history
    }

    pub(crate) fn history(&self, block: u32) -> Option<History> {
        let all = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        Some(all.get(&block)?.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Whether a thread of another cluster executed one of these fences between two clocks. If the cluster ran too long
    /// ago, nothing is known about it.
    pub(crate) fn was_fenced(
        &self,
        block: u32,
        thread: u16,
        (clock, limit): (u32, u32),
        fences: impl Fn(&History) -> &Fences,
    ) -> bool {
        let all = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&block).is_none_or(|history| {
            let history = history.lock().unwrap_or_else(PoisonError::into_inner);
            fences(&history).between(thread.into(), clock, limit)
        })
    }

    /// Whether an instruction accesses memory through the asynchronous proxy.
    pub(crate) fn is_bulk(&self, pc: u32) -> bool {
        matches!(self.code.instrs[pc as usize].op, Op::Bulk { index } if self.code.bulks[index as usize].copies())
    }

    /// Whether an instruction is a weak store of registers.
    pub(crate) fn is_weak_store(&self, pc: u32) -> bool {
        match self.code.instrs[pc as usize].op {
            Op::Store { index } => self.code.accesses[index as usize].strong.is_none(),
            Op::Matrices { index } => self.code.matrices[index as usize].way == Way::Store,
            _ => false,
        }
    }

    /// Whether an instruction is a multiplication of a warp group.
    pub(crate) fn is_multiplication(&self, pc: u32) -> bool {
        matches!(self.code.instrs[pc as usize].op, Op::GroupMultiply { .. })
    }

    /// Whether a rule is checked.
    #[inline(always)]
    pub(crate) fn watches(&self, kind: ViolationKind) -> bool {
        self.checks.has(kind)
    }

    /// Drops a violation of a rule that is not checked.
    #[inline(always)]
    pub(crate) fn enforce(&self, checked: Checked) -> Checked {
        match checked {
            Err(fault) if !self.watches(fault.kind) => Ok(()),
            checked => checked,
        }
    }

    /// Whether written bytes are not tracked.
    pub(crate) fn watch_off(&self) -> bool {
        self.watch == Watch::Off
    }

    /// Whether a cluster's result still matters. The violation of the lowest cluster is reported, so that every run
    /// reports the same one. For that, clusters before a broken one have to continue.
    pub(crate) fn matters(&self, number: u64) -> bool {
        number <= self.broken.load(Relaxed)
    }

    /// `%tid` of a thread of any block of a cluster, or of the thread that started the copies that an index represents.
    pub(crate) fn tid(&self, thread: u32) -> [u32; 3] {
        coordinates((thread % (self.warp_pitch() * LANES as u32)).into(), self.block)
    }

    /// Fills the slots of immediates and special registers.
    pub(crate) fn fill_constants(&self, warp: &mut Warp, cluster: u64) {
        let rank = warp.index / self.warp_pitch();
        let place = Place {
            warp: warp.index,
            rank,
            ctaid: self.ctaid_in(cluster, rank),
            clusterid: self.clusterid(cluster),
            within: coordinates(rank.into(), self.cluster),
            clusters: std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis]),
        };
        for &(slot, constant) in &self.code.constants32 {
            let value = |lane: usize| self.constant(constant, lane as u32, &place) as u32;
            warp.regs.r32[slot.0 as usize] = Row32(std::array::from_fn(value));
            warp.taint.define(Slot::R32(slot));
        }
        for &(slot, constant) in &self.code.constants64 {
            let value = |lane: usize| self.constant(constant, lane as u32, &place);
            warp.regs.r64[slot.0 as usize] = Row64(std::array::from_fn(value));
            warp.taint.define(Slot::R64(slot));
        }
        for &(slot, constant) in &self.code.constants_pred {
            let value = self.constant(constant, 0, &place) != 0;
            warp.regs.preds[slot.0 as usize] = if value { u32::MAX } else { 0 };
            warp.taint.define(Slot::P(slot));
        }
    }

    fn constant(&self, constant: Constant, lane: u32, place: &Place) -> u64 {
        let Place { warp, rank, ctaid, clusterid, within, clusters } = *place;
        let special = match constant {
            Constant::Value(value) => return value,
            Constant::Shared(address) => return address.wrapping_add(u64::from(rank) * u64::from(PEER)),
            Constant::Global(number, offset) => {
                let start = self.variables.get(number as usize).copied().unwrap_or(0);
                return start.wrapping_add_signed(offset);
            }
            Constant::Special(special) => special,
        };
        let tid = self.tid(warp * LANES as u32 + lane);
        let lane_bit = 1u32 << lane;
        u64::from(match special {
            Special::TidX => tid[0],
            Special::TidY => tid[1],
            Special::TidZ => tid[2],
            Special::NtidX => self.block[0],
            Special::NtidY => self.block[1],
            Special::NtidZ => self.block[2],
            Special::CtaidX => ctaid[0],
            Special::CtaidY => ctaid[1],
            Special::CtaidZ => ctaid[2],
            Special::NctaidX => self.grid[0],
            Special::NctaidY => self.grid[1],
            Special::NctaidZ => self.grid[2],
            Special::ClusterId => clusterid[0],
            Special::ClusterIdY => clusterid[1],
            Special::ClusterIdZ => clusterid[2],
            Special::NclusterId => clusters[0],
            Special::NclusterIdY => clusters[1],
            Special::NclusterIdZ => clusters[2],
            Special::ClusterCtaRank => rank,
            Special::ClusterNctaRank => self.ranks(),
            Special::ClusterCtaidX => within[0],
            Special::ClusterCtaidY => within[1],
            Special::ClusterCtaidZ => within[2],
            Special::ClusterNctaidX => self.cluster[0],
            Special::ClusterNctaidY => self.cluster[1],
            Special::ClusterNctaidZ => self.cluster[2],
            Special::IsExplicitCluster => u32::from(self.explicit_cluster),
            Special::LaneId => lane,
            Special::WarpId => warp % self.warp_pitch(),
            Special::NwarpId => self.warps(),
            Special::LaneMaskEq => lane_bit,
            Special::LaneMaskLt => lane_bit - 1,
            Special::LaneMaskLe => lane_bit | (lane_bit - 1),
            Special::LaneMaskGe => !(lane_bit - 1),
            Special::LaneMaskGt => !(lane_bit | (lane_bit - 1)),
            Special::DynamicSmemSize => self.dynamic_bytes,
            Special::TotalSmemSize => self.shared_bytes - self.entry.symbols.shared_shift as u32,
            // The device has one multiprocessor for each block of a row.
            Special::SmId => ctaid[0],
            Special::NsmId => self.grid[0],
            _ => 0,
        })
    }
}

/// The coordinates of a number that counts x fastest.
fn coordinates(number: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let [x, y] = [x, y].map(u64::from);
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}
