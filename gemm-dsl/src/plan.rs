//! The plan: every number that follows from a schedule, derived once.
//!
//! No later level derives a size, an offset or a width of its own, and once a plan exists, no later step fails because
//! of the schedule. Units are in the names: `bytes`, otherwise elements.

use serde::Serialize;

use crate::clause::{Atom, Emulation, Expectation};
use crate::open::Filled;
use crate::target::{MBARRIER_BYTES, MBARRIER_PAIR, Target, WARP};
use crate::terms::{
    Along, Extent2, Extent3, Fast, FmaOrder, Load, Operands, Pace, Param, Raster, Reads, Side, SplitK, Swizzle, Tail,
    Wave,
};
use crate::types::{DType, Layout, Problem};

/// The least K that a stream-K block sums if there are more blocks than tiles. With less, exchanging sums takes longer
/// than computing them.
pub const STREAM_DEPTH: u32 = 256;

pub use crate::limits::MAX_EXTENT;

/// The geometry of the threads that compute one tile: all threads that multiply; with `specialize` the consumers; with
/// ping-pong one consumer warp group.
///
/// A thread with grid coordinates (i, j) inside its *region* (the block tile, or its warp's tile) computes, for each
/// repetition (p, q) of its fragment, rows `p * stride.m + i * fragment.m ..` and columns
/// `q * stride.n + j * fragment.n ..` of that region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Geometry {
    /// Threads that hold accumulators.
    pub threads: u32,
    /// The region covered by one thread grid: the block tile, or the warp tile.
    pub region: Extent2,
    /// Threads in the region, by rows and columns.
    pub grid: Extent2,
    /// Regions in the block, by rows and columns (n fastest); 1 x 1 without `warp`.
    pub regions: Extent2,
    /// Order of the threads within a region.
    pub along: Along,
    /// The part of the tile that one thread computes.
    pub thread: Extent2,
    /// The contiguous piece that makes up a thread tile.
    pub fragment: Extent2,
    /// Repetitions of the fragment: thread / fragment.
    pub repeat: Extent2,
    /// Distance between two repetitions: region / repeat.
    pub stride: Extent2,
}

impl Geometry {
    /// Threads of a block with `turns` groups of these threads and `producers` producer warps.
    pub(crate) fn with_others(&self, turns: u32, producers: u32) -> u32 {
        self.threads.saturating_mul(turns).saturating_add(producers.saturating_mul(WARP))
    }

    /// Threads that copy K-tiles with `producers` producer warps: the producers, or these threads if there are none.
    pub(crate) fn copying(&self, producers: u32) -> u32 {
        if producers == 0 { self.threads } else { producers.saturating_mul(WARP) }
    }
}

/// The placement of one operand's K-tile in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Placement {
    /// Contiguous dimension in shared memory.
    pub fast: Fast,
    /// Elements along the contiguous dimension that hold data.
    pub fast_extent: u32,
    /// Rows of `fast_extent` elements.
    pub slow_extent: u32,
    /// Elements from one row to the next: `fast_extent` plus the pad. If it is less than `fast_extent`, the rows are
    /// cut into panels of this width, and each panel holds its part of every row.
    pub pitch: u32,
    /// XOR on the byte address.
    pub swizzle: Swizzle,
    /// Byte offset of slot 0 in the block's shared memory.
    pub offset_bytes: u32,
    /// Bytes of one slot (one stage), padding to its alignment included.
    pub slot_bytes: u32,
}

impl Placement {
    /// The number of panels.
    pub fn panels(&self) -> u32 {
        self.fast_extent.div_ceil(self.pitch.max(1))
    }
}

/// How one variant copies an operand's K-tile from global to shared memory.
///
/// The tile is cut into chunks of `width` elements along the *global* contiguous dimension. Chunk c is at outer
/// coordinate `c / chunks_per_row` and inner coordinate `c % chunks_per_row * width`. Of the n copying threads
/// ([`Plan::copying_threads`]), thread t takes chunks t, t + n, t + 2 n ...
///
/// With TMA a chunk is a box of whole rows, and one thread starts the copies of all boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CopyPlan {
    /// Elements per global access; with TMA, the elements in 16 bytes, the granularity of a box's row.
    pub width: u32,
    /// Elements per shared store: `width` if the shared order and alignment allow it, else less; 0 with TMA.
    pub store_width: u32,
    /// Chunks along the global contiguous dimension.
    pub chunks_per_row: u32,
    /// Chunks in the tile.
    pub chunks: u32,
    /// Passes over the copying threads: ceil(chunks / n); with TMA, the copies that one thread starts.
    pub passes: u32,
}

/// One input operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct OperandPlan {
    /// A or B.
    pub side: Side,
    /// Type of the elements in shared memory: with `emulate` the type of the planes, else the matrix's.
    pub dtype: DType,
    /// Contiguous dimension in global memory.
    pub global_fast: Fast,
    /// Tile extent along the operand's own dimension (m for A, n for B).
    pub extent: u32,
    /// Tile extent along k.
    pub depth: u32,
    /// Its placement in shared memory; `None` with `shared(none)`.
    pub placement: Option<Placement>,
    /// Elements of one shared read of a fragment, along the shared order (1 with `shared(none)`).
    pub read_width: u32,
}

/// One entry of the compiled module: the same kernel with its own access widths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Variant {
    /// Entry name: `gemm_v4`, `gemm_v1` (the widest global access, in elements), `gemm_tma_v4` (the width of C and D).
    pub entry: String,
    /// How this entry copies K-tiles: as in the schedule, or by `cp.async` if operands are not aligned for TMA.
    pub load: Load,
    /// Elements per global access of a direct load (`shared(none)`) or copy of A.
    pub a: CopyPlan,
    /// The same for B.
    pub b: CopyPlan,
    /// Elements per access of C.
    pub c_width: u32,
    /// Elements per access of D; with TMA, the elements in 16 bytes.
    pub d_width: u32,
    /// The tile of D in shared memory; `None`: threads store D from registers.
    pub staged: Option<StagedTile>,
    /// Its parameters, in order. With TMA a tensor map replaces a matrix's address and includes its leading dimension and
    /// batch stride. Without TMA, the address of an emulated operand's planes does: their strides follow from the extents.
    pub params: Vec<Param>,
}

/// A tile of D in shared memory, staged for global memory.
///
/// Its lines run along D's contiguous dimension and are cut into panels of `pitch` elements. Element i of line l is at
/// `((i / pitch) * lines + l) * pitch + i % pitch`, before the swizzle. With a pad there is one panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StagedTile {
    /// Byte offset in the block's shared memory; 0 in slots of the ring.
    pub offset_bytes: u32,
    /// The slots of the ring that it reuses instead, if any.
    pub lent: Option<LentSlots>,
    /// Elements from one line of a panel to the next.
    pub pitch: u32,
    /// XOR on the byte address.
    pub swizzle: Swizzle,
    /// Elements per write of a thread.
    pub width: u32,
    /// Whether warps write 8 x 8 matrices instead (`stmatrix`).
    pub matrices: bool,
    /// Whether TMA copies the tile of C there first, in the same boxes.
    pub holds_c: bool,
    /// Lines of a box if TMA copies the tile to global memory; else threads copy it, `d_width` elements at a time.
    pub box_lines: Option<u32>,
}

/// Panels of a tile of D in reused slots of the ring, beginning with the slot to fill next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LentSlots {
    /// Panels in a slot, consecutive.
    pub panels: u32,
    /// Slots for all panels.
    pub slots: u32,
}

/// The exchange of split-K sums within a cluster, through distributed shared memory.
///
/// Each block writes its sums of the tile, in lines along D's contiguous dimension. It then adds the sums of all blocks
/// for its share of the lines: `across` threads along a line, `at_once` lines, `steps` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Exchange {
    /// Elements from one line of the sums to the next.
    pub pitch: u32,
    /// Sums per write of a thread.
    pub write_width: u32,
    /// Adjacent sums that a thread reads at once.
    pub chunk: u32,
    /// Threads along a line.
    pub across: u32,
    /// Chunks of a line per thread.
    pub chunks: u32,
    /// Lines that all threads process at once.
    pub at_once: u32,
    /// Iterations of `at_once` lines.
    pub steps: u32,
    /// Bytes of a block's sums.
    pub bytes: u32,
}

/// Partial sums that a thread has in flight, at least those of one part: enough to hide the latency of another block's
/// shared memory.
pub const SUMS_IN_FLIGHT: u32 = 64;

impl Exchange {
    /// Sums of one part that a thread adds.
    pub fn elements(&self) -> u32 {
        self.chunk.saturating_mul(self.chunks).saturating_mul(self.steps)
    }

    /// The number of parts that a thread loads before it adds their sums.
    pub fn parts_at_once(elements: u32, parts: u32) -> u32 {
        (SUMS_IN_FLIGHT / elements.max(1)).clamp(1, parts.max(1))
    }
}

/// The emulation of f32 products by narrower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Emulate {
    /// The planes and their multiplied pairs.
    pub by: Emulation,
}

/// The promotion of sums: tensor cores sum some products before the sum is added to the tile's accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Promotion {
    /// Elements of k per promotion, a multiple of the K-tile's depth. If it equals that depth, and `wgmma` reads planes that
    /// TMA copies, a stage holds all planes.
    pub every: u32,
    /// Whether separate accumulators collect the rounding errors of these additions.
    pub compensated: bool,
}

/// The warps of a block that do something of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RolePlan {
    /// Ping-pong groups of the threads that multiply, which compute the tiles of a persistent block in turn; 1: one group
    /// computes every tile.
    pub turns: u32,
    /// Producer warps, numbered after those that multiply; 0: the threads that multiply also copy.
    pub producer_warps: u32,
    /// Registers per producer thread and per consumer thread; `None`: the assembler's choice for all.
    pub registers: Option<(u32, u32)>,
}

/// The ring of staged K-tiles in shared memory. With `shared(none)`, threads read both operands from global memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Ring {
    /// Operand A.
    pub a: OperandPlan,
    /// Operand B.
    pub b: OperandPlan,
    /// How K-tiles are copied to shared memory; see [`Variant::load`].
    pub load: Load,
    /// Operands that a separate kernel first copies into the workspace if TMA cannot copy them directly.
    pub pack: Vec<Side>,
    /// Slots; 1: no pipeline. Ignored with `shared(none)`.
    pub stages: u32,
    /// The synchronisation of a block's warps.
    pub pace: Pace,
    /// Planes of each operand in a stage: 1, or all of them, consecutive; see [`Promotion::every`].
    pub planes_in_slot: u32,
    /// Bytes of one stage: a slot of A, then a slot of B. Slot s of an operand, plane p, is at
    /// `placement.offset_bytes + p * placement.slot_bytes + s * stage_bytes`. 0 with `shared(none)`.
    pub stage_bytes: u32,
    /// Bytes of all slots and of the staged tile of D. The tile reuses the slots' memory, or follows them if other
    /// copies continue meanwhile: one tile for each ping-pong group. The mbarriers come next.
    pub slots_bytes: u32,
}

/// The unrolled body of the loop over K-tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Body {
    /// K-steps; divides `block.k` when staged.
    pub unroll: u32,
    /// Order of the FMA block.
    pub order: FmaOrder,
    /// Prefetch distance of fragments in steps, within the body.
    pub prefetch: u32,
    /// Whether NVIDIA's assembler may move the fragment reads from shared memory.
    pub reads: Reads,
    /// Fragments in registers or reloaded.
    pub operands: Operands,
}

/// The division of a product among blocks, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Scheduler {
    /// Order of the tiles.
    pub raster: Raster,
    /// One wave of blocks that computes all tiles; `None`: one block per tile.
    pub persistent: Option<Wave>,
    /// Tiles of D that the blocks of a cluster compute together; 1 x 1 without clusters.
    pub cluster: Extent2,
    /// Whether the blocks of a cluster share the loads of A and of B.
    pub multicast: [bool; 2],
    /// K divided among blocks; `None`: each block sums over all of K.
    pub split_k: Option<SplitK>,
    /// Stream-K: the K-tiles of the last tiles are divided evenly among the blocks of the wave.
    pub stream_k: bool,
}

/// Tiles at the edges of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct EdgePlan {
    /// What their kernels are.
    pub tail: Tail,
    /// Granularity of an edge tile's MMA width, in columns: if an edge cuts tiles, the tiles of a row share the columns
    /// evenly, rounded up to this. `None`: full width, which multiplies zeros at the edge.
    pub grain: Option<u32>,
}

/// How an element of D becomes a sum of products, where it is not one sum by one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Sums {
    /// The emulation of f32 products; `None`: products of the operands' own types.
    pub emulate: Option<Emulate>,
    /// The promotion of sums; `None`: tensor cores add all products.
    pub promote: Option<Promotion>,
    /// Levels of Strassen's algorithm above the kernel; `None`: one launch computes the product.
    pub strassen: Option<u32>,
    /// The exchange of split-K sums, if a cluster computes the parts.
    pub exchange: Option<Exchange>,
}

/// The resources of a block, and what the schedule says about them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resources {
    /// The contracts, including those already known to hold.
    pub expect: Vec<Expectation>,
    /// Blocks per multiprocessor to compile for, if the schedule states a number; see [`Plan::resident_blocks`].
    pub blocks_per_sm: Option<u32>,
    /// Shared memory of a block in bytes, mbarriers included.
    pub shared_bytes: u32,
    /// Accumulators per thread, in 32-bit registers.
    pub accumulator_registers: u32,
}

/// Every number that follows from a schedule for one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The problem that kernels compute: the requested one, or its transpose.
    pub problem: Problem,
    /// The target to compile for.
    pub target: Target,
    /// The block tile.
    pub block: Extent3,
    /// The multiply instruction.
    pub atom: Atom,
    /// The threads that compute a tile.
    pub geometry: Geometry,
    /// The other threads.
    pub roles: RolePlan,
    /// The staged K-tiles.
    pub ring: Ring,
    /// The loop over K-tiles.
    pub body: Body,
    /// Which block computes what.
    pub scheduler: Scheduler,
    /// Tiles at the edges of D.
    pub edges: EdgePlan,
    /// Sums other than by one instruction.
    pub sums: Sums,
    /// What a block takes.
    pub resources: Resources,
    /// The entries, widest first; the last one requires only element alignment.
    pub variants: Vec<Variant>,
    /// The clause, as written, that determined each part; used for provenance comments.
    pub clauses: Provenance,
    /// What was filled in for open values, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled: Option<Filled>,
}

impl Plan {
    /// The offset of an entry's ring mbarriers in shared memory, in bytes: for each slot a full barrier, then an empty
    /// barrier, 8 bytes each. `None` without staging, or with neither TMA, `pace(free)` nor `specialize`.
    pub fn barrier_offset(&self, variant: &Variant) -> Option<u32> {
        let mbarriers = variant.load == Load::Tma || self.ring.pace == Pace::Free || self.roles.producer_warps > 0;
        (mbarriers && self.ring.a.placement.is_some()).then_some(self.ring.slots_bytes)
    }

    /// The offset of the ping-pong mbarriers in shared memory, in bytes: after those of the ring, one of 8 bytes for
    /// each group of threads, which grants it the tensor cores. `None` without ping-pong.
    pub fn turn_offset(&self, variant: &Variant) -> Option<u32> {
        let after = |ring: u32| ring + MBARRIER_PAIR * self.ring.stages;
        self.barrier_offset(variant).filter(|_| self.roles.turns > 1).map(after)
    }

    /// The offset of the mbarriers of C in shared memory, in bytes: after all others, one of 8 bytes for each group of
    /// threads, which signals that its tile of C has arrived. `None` if threads read C themselves.
    pub fn c_offset(&self, variant: &Variant) -> Option<u32> {
        let ring = self.barrier_offset(variant).filter(|_| variant.staged.is_some_and(|staged| staged.holds_c))?;
        let turns = if self.roles.turns > 1 { self.roles.turns } else { 0 };
        Some(ring + MBARRIER_PAIR * self.ring.stages + MBARRIER_BYTES * turns)
    }

    /// Lines of a tile of D along its contiguous dimension, and elements per line.
    pub(crate) fn d_lines(&self) -> (u32, u32) {
        if self.problem.layouts.d == Layout::Row { (self.block.m, self.block.n) } else { (self.block.n, self.block.m) }
    }

    /// Threads of a block: those that multiply, then the producers.
    pub fn threads(&self) -> u32 {
        self.geometry.with_others(self.roles.turns, self.roles.producer_warps)
    }

    /// Threads of a block that copy K-tiles: the producers, or all.
    pub fn copying_threads(&self) -> u32 {
        self.geometry.copying(self.roles.producer_warps)
    }

    /// Accumulators of one thread.
    pub fn accumulators(&self) -> u32 {
        self.geometry.thread.m * self.geometry.thread.n
    }
}

/// The clause that each part of the program comes from, as canonical text (`double_buffer`, `tile(128, 128, 8)`), or
/// the default used instead (`stages(1)`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// `types(...)`.
    pub types: String,
    /// `layout(...)`.
    pub layout: String,
    /// `epilogue(...)`.
    pub epilogue: String,
    /// `transposed`, else nothing.
    pub transposed: String,
    /// `tile(...)`.
    pub tile: String,
    /// `thread(...)`, or the tensor cores' `atom(...)`.
    pub thread: String,
    /// `warp(...)`, else `lanes(...)`.
    pub lanes: String,
    /// `vector(...)`.
    pub vector: String,
    /// `shared(...)`.
    pub shared: String,
    /// `stages(...)` or `double_buffer`.
    pub stages: String,
    /// `load(...)`.
    pub load: String,
    /// `pack(...)`, or `emulate(...)`, which also copies operands.
    pub pack: String,
    /// `promote(...)`.
    pub promote: String,
    /// `raster(...)`.
    pub raster: String,
    /// `tail(...)`.
    pub tail: String,
    /// `unroll(...)`.
    pub unroll: String,
    /// `order(...)`.
    pub order: String,
    /// `prefetch(...)`.
    pub prefetch: String,
    /// `batch(...)`, else `one product`.
    pub batch: String,
    /// `pace(...)`.
    pub pace: String,
    /// `split_k(...)` or `stream_k`.
    pub split_k: String,
    /// `store(...)`.
    pub store: String,
    /// `persistent`, or `stream_k` or `batch(grouped)`, which imply it.
    pub persistent: String,
    /// `cluster(m, n)`.
    pub cluster: String,
    /// `specialize(...)`, else `one role`.
    pub specialize: String,
    /// `registers(...)`, else `the same registers for all`.
    pub registers: String,
}
