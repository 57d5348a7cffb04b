//! The plan: every number that follows from a schedule, derived once.
//!
//! Nothing below this level computes a size, an offset or a width of its own, and once there is a plan, no later step
//! fails because of the schedule. Units are in the names: `bytes`, otherwise elements.

use serde::Serialize;

use crate::clause::{Atom, Emulation, Expectation};
use crate::target::{Target, WARP};
use crate::terms::{
    Along, Extent2, Extent3, Fast, FmaOrder, Load, Operand, Operands, Pace, Param, Raster, Reads, Side, SplitK,
    Swizzle, Tail, Wave,
};
use crate::types::{DType, Layout, Problem};

/// K that a block of stream-K sums at least, where there are more blocks than tiles: with less, exchanging sums takes
/// longer than computing them.
pub const STREAM_DEPTH: u32 = 256;

/// The largest m, n or k that a launch accepts. It keeps the sum of an extent and a number below 2^16 within 32 bits,
/// and no extent equals `u32::MAX`, which means "more than any".
pub const MAX_EXTENT: u32 = u32::MAX - 65_535;

/// Bytes of two mbarriers: those of a slot, or of a group of threads that takes turns.
pub(crate) const MBARRIER_PAIR: u32 = 16;

/// The geometry of the threads that compute one tile: those of the block that multiply, with `specialize` the consumers; of
/// consumers that take turns, one.
///
/// A thread with grid coordinates (i, j) inside its *region* (the block tile, or its warp's tile) computes, for each
/// repetition (p, q) of its fragment, rows `p * stride.m + i * fragment.m ..` and columns
/// `q * stride.n + j * fragment.n ..` of that region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Geometry {
    /// Threads that hold accumulators.
    pub threads: u32,
    /// The region over which one thread grid is spread: the block tile, or the warp tile.
    pub region: Extent2,
    /// Threads in the region, by rows and columns.
    pub grid: Extent2,
    /// Regions in the block, by rows and columns (n fastest); 1 x 1 without `warp`.
    pub regions: Extent2,
    /// Order of the threads within a region.
    pub along: Along,
    /// What one thread computes.
    pub thread: Extent2,
    /// The contiguous piece a thread tile is made of.
    pub fragment: Extent2,
    /// Repetitions of the fragment: thread / fragment.
    pub repeat: Extent2,
    /// Distance between two repetitions: region / repeat.
    pub stride: Extent2,
}

impl Geometry {
    /// Threads of a block in which `turns` groups of these threads multiply, and `producers` more warps only copy.
    pub(crate) fn with_others(&self, turns: u32, producers: u32) -> u32 {
        self.threads.saturating_mul(turns).saturating_add(producers.saturating_mul(WARP))
    }

    /// Threads that copy K-tiles where `producers` warps only copy: these, or all if there are none.
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
    /// Elements from one row to the next: `fast_extent` plus the pad, or less, and then the rows are cut into panels of
    /// this width, each of which holds its part of every row.
    pub pitch: u32,
    /// XOR on the byte address.
    pub swizzle: Swizzle,
    /// Byte offset of slot 0 in the block's shared memory.
    pub offset_bytes: u32,
    /// Bytes of one slot (one stage), padding to its alignment included.
    pub slot_bytes: u32,
}

impl Placement {
    /// Panels that the rows are cut into.
    pub fn panels(&self) -> u32 {
        self.fast_extent.div_ceil(self.pitch.max(1))
    }
}

/// How one operand's K-tile is copied from global to shared memory in one variant.
///
/// The tile is cut into chunks of `width` elements along the *global* contiguous dimension; chunk c lies at outer
/// coordinate `c / chunks_per_row` and inner coordinate `c % chunks_per_row * width`; of the n threads that copy
/// ([`Plan::copying_threads`]), the one with index t takes chunks t, t + n, t + 2 n ...
///
/// With TMA a chunk is a box of whole rows, and one thread starts the copies of all boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CopyPlan {
    /// Elements moved by one global access; with TMA, the elements of 16 bytes, which a box needs in a row.
    pub width: u32,
    /// Elements moved by one shared store: `width` where the shared order agrees and its alignment allows, else less; 0
    /// with TMA.
    pub store_width: u32,
    /// Chunks along the global contiguous dimension.
    pub chunks_per_row: u32,
    /// Chunks in the tile.
    pub chunks: u32,
    /// Passes over the threads that copy: ceil(chunks / n); with TMA, the copies that one thread starts.
    pub passes: u32,
}

/// One input operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct OperandPlan {
    /// A or B.
    pub side: Side,
    /// Type of the elements in shared memory: with `emulate`, that of the planes, else the matrix's.
    pub dtype: DType,
    /// Contiguous dimension in global memory.
    pub global_fast: Fast,
    /// Tile extent along the operand's own dimension (m for A, n for B).
    pub extent: u32,
    /// Tile extent along k.
    pub depth: u32,
    /// Where it is staged; `None` with `shared(none)`.
    pub placement: Option<Placement>,
    /// Elements of one shared read of a fragment, along the shared order (1 with `shared(none)`).
    pub read_width: u32,
}

/// One entry of the compiled module: the same kernel with its own access widths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Variant {
    /// Entry name: `gemm_v4`, `gemm_v1` (the widest global access, in elements), `gemm_tma_v4` (that of C and D).
    pub entry: String,
    /// How this entry copies K-tiles: as the schedule says, or by `cp.async` where operands are not aligned for TMA.
    pub load: Load,
    /// Elements per global access of a direct load (`shared(none)`) or copy of A.
    pub a: CopyPlan,
    /// The same for B.
    pub b: CopyPlan,
    /// Elements per access of C.
    pub c_width: u32,
    /// Elements per access of D; with TMA, the elements of 16 bytes.
    pub d_width: u32,
    /// The tile of D in shared memory; `None`: threads store it from registers.
    pub staged: Option<StagedTile>,
}

/// A tile of D in shared memory, on its way to global memory.
///
/// Its lines run along D's contiguous dimension, and are cut into panels of `pitch` elements: element i of line l is at
/// `((i / pitch) * lines + l) * pitch + i % pitch`, before the swizzle. With a pad there is one panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StagedTile {
    /// Byte offset in the block's shared memory; 0 in slots.
    pub offset_bytes: u32,
    /// The slots that it takes instead, if producers lend them.
    pub lent: Option<LentSlots>,
    /// Elements from one line of a panel to the next.
    pub pitch: u32,
    /// XOR on the byte address.
    pub swizzle: Swizzle,
    /// Elements that a thread writes at once.
    pub width: u32,
    /// Whether warps write it as matrices of 8 x 8 elements instead (`stmatrix`).
    pub matrices: bool,
    /// Whether TMA copies the tile of C there first, in the same boxes.
    pub holds_c: bool,
    /// Lines of a box, where TMA copies it to global memory; else the threads do, `d_width` elements at a time.
    pub box_lines: Option<u32>,
}

/// Panels of a tile of D in slots of the ring, which producers lend for it: from the slot that would be filled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LentSlots {
    /// Panels in a slot, one after the other.
    pub panels: u32,
    /// Slots for all of them.
    pub slots: u32,
}

/// Sums of parts of k that the blocks of a cluster exchange through distributed shared memory.
///
/// Each block writes its sums of the tile, in lines along D's contiguous dimension, then adds up the sums of all blocks for its
/// share of the lines: `across` threads along a line, `at_once` lines, `steps` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Exchange {
    /// Elements from one line of the sums to the next.
    pub pitch: u32,
    /// Sums that a thread writes at once.
    pub write_width: u32,
    /// Adjacent sums of the share that a thread adds up, which it reads at once.
    pub chunk: u32,
    /// Threads along a line.
    pub across: u32,
    /// Chunks of a line that a thread has.
    pub chunks: u32,
    /// Lines that the threads have at once.
    pub at_once: u32,
    /// How often they have as many.
    pub steps: u32,
    /// Bytes of a block's sums.
    pub bytes: u32,
}

/// Sums of other parts that a thread has on their way at once, at least those of one part: enough to hide how long it takes to read
/// another block's shared memory.
pub const SUMS_IN_FLIGHT: u32 = 64;

impl Exchange {
    /// Sums of a part that a thread adds up.
    pub fn elements(&self) -> u32 {
        self.chunk.saturating_mul(self.chunks).saturating_mul(self.steps)
    }

    /// Of how many of the parts it reads the sums at once.
    pub fn parts_at_once(elements: u32, parts: u32) -> u32 {
        (SUMS_IN_FLIGHT / elements.max(1)).clamp(1, parts.max(1))
    }
}

/// f32 products from narrower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Emulate {
    /// The planes, and which of them are multiplied.
    pub by: Emulation,
    /// Elements of k whose products are added up by tensor cores before their sum is added to that of the tile: a multiple
    /// of the depth of a K-tile. Where it is that depth, and TMA copies what `wgmma` multiplies, a stage has all planes.
    pub every: u32,
    /// Whether the rounding errors of these additions are added up as well, in accumulators of their own.
    pub compensated: bool,
}

/// Every number that follows from a schedule for one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// What kernels compute: what a caller asks for, or its transpose.
    pub problem: Problem,
    /// Compiled for.
    pub target: Target,
    /// The block tile.
    pub block: Extent3,
    /// The multiply instruction.
    pub atom: Atom,
    /// The threads that compute a tile.
    pub geometry: Geometry,
    /// Groups of these threads, which compute the tiles of a persistent block in turn; 1: the same threads compute all.
    pub turns: u32,
    /// Warps that only copy, numbered after those that multiply; 0: the threads that multiply copy as well.
    pub producer_warps: u32,
    /// Registers of a thread that only copies, and of one that multiplies; `None`: as many as the assembler gives to all.
    pub role_registers: Option<(u32, u32)>,
    /// Operand A.
    pub a: OperandPlan,
    /// Operand B.
    pub b: OperandPlan,
    /// How K-tiles are copied to shared memory; see [`Variant::load`].
    pub load: Load,
    /// Which operands a kernel of its own copies into the workspace first, where TMA cannot copy them as they are.
    pub pack: Vec<Side>,
    /// Slots of the ring of staged K-tiles; 1 is no pipeline. Ignored with `shared(none)`.
    pub stages: u32,
    /// K-steps per unrolled body; divides `block.k` when staged.
    pub unroll: u32,
    /// Order of the FMA block.
    pub order: FmaOrder,
    /// Steps ahead that fragments are read, within the unrolled body.
    pub prefetch: u32,
    /// Whether NVIDIA's assembler may move the reads of fragments from shared memory.
    pub reads: Reads,
    /// Fragments in registers or reloaded.
    pub operands: Operands,
    /// Order of the tiles.
    pub raster: Raster,
    /// Edges.
    pub tail: Tail,
    /// Columns in multiples of which a tile has products: where an edge cuts tiles, all tiles of a row have as many columns,
    /// rounded up to this. `None`: all columns, and at the edge zeros are multiplied.
    pub grain: Option<u32>,
    /// What keeps the warps of a block in step.
    pub pace: Pace,
    /// One wave of blocks that computes all tiles; `None`: one block per tile.
    pub persistent: Option<Wave>,
    /// Tiles of D that the blocks of a cluster compute together; 1 x 1 without clusters.
    pub cluster: Extent2,
    /// Whether the blocks of a cluster share the loads of A and of B.
    pub multicast: [bool; 2],
    /// K divided among blocks; `None`: each block sums over all of K.
    pub split_k: Option<SplitK>,
    /// How its parts meet, where they are the blocks of a cluster.
    pub exchange: Option<Exchange>,
    /// The K-tiles of the last tiles divided evenly among the blocks of the wave.
    pub stream_k: bool,
    /// How f32 products are made of narrower ones; `None`: products are of the operands' own types.
    pub emulate: Option<Emulate>,
    /// Levels of Strassen's algorithm above the kernel; `None`: one launch computes the product.
    pub strassen: Option<u32>,
    /// Contracts, including those that are known to hold.
    pub expect: Vec<Expectation>,
    /// Blocks per multiprocessor to compile for, where the schedule states a number; see [`Plan::resident_blocks`].
    pub blocks_per_sm: Option<u32>,
    /// Planes of each operand in a stage: 1, or all of them, one after the other; see [`Emulate::every`].
    pub planes_in_slot: u32,
    /// Bytes of one stage: a slot of A, then a slot of B. Slot s of an operand, of its plane p, is at
    /// `placement.offset_bytes + p * placement.slot_bytes + s * stage_bytes`. 0 with `shared(none)`.
    pub stage_bytes: u32,
    /// Bytes of all slots, and of a tile of D that is staged: in the slots' memory, or after them with producers, whose
    /// copies go on meanwhile, unless they lend slots; one for each group of threads that takes turns. The mbarriers come next.
    pub slots_bytes: u32,
    /// Shared memory of a block, in bytes, with the mbarriers.
    pub shared_bytes: u32,
    /// Accumulators per thread, in 32-bit registers.
    pub accumulator_registers: u32,
    /// The entries, widest first; the last one asks no alignment beyond an element's own.
    pub variants: Vec<Variant>,
    /// Kernel parameters in order, for entries without tensor maps; see [`Plan::params_of`].
    pub params: Vec<Param>,
    /// The clause, as written, that determined each part; used for provenance comments.
    pub clauses: Provenance,
}

impl Plan {
    /// Where the mbarriers of an entry's ring begin in shared memory, in bytes: for each slot a full barrier, then an
    /// empty barrier, 8 bytes each. `None` where the ring has none: with neither TMA, `pace(free)` nor `specialize`, or
    /// without staging.
    pub fn barrier_offset(&self, variant: &Variant) -> Option<u32> {
        let mbarriers = variant.load == Load::Tma || self.pace == Pace::Free || self.producer_warps > 0;
        (mbarriers && self.a.placement.is_some()).then_some(self.slots_bytes)
    }

    /// Where the mbarriers of the turns begin in shared memory, in bytes: after those of the ring. For each group of threads
    /// one of 8 bytes that gives it the tensor cores. `None` where the same threads compute all tiles.
    pub fn turn_offset(&self, variant: &Variant) -> Option<u32> {
        let after = |ring: u32| ring + MBARRIER_PAIR * self.stages;
        self.barrier_offset(variant).filter(|_| self.turns > 1).map(after)
    }

    /// Where the mbarriers of C begin in shared memory, in bytes: after all others. For each group of threads one of 8 bytes
    /// that says when the tile of C has arrived. `None` where threads read C themselves.
    pub fn c_offset(&self, variant: &Variant) -> Option<u32> {
        let ring = self.barrier_offset(variant).filter(|_| variant.staged.is_some_and(|staged| staged.holds_c))?;
        let turns = if self.turns > 1 { self.turns } else { 0 };
        Some(ring + MBARRIER_PAIR * self.stages + MBARRIER_PAIR / 2 * turns)
    }

    /// The parameters of an entry, in order: with TMA a tensor map takes the place of a matrix's address, and contains its
    /// leading dimension and batch stride. Without TMA the address of its planes does, where it is split: the distances
    /// between their rows and between them follow from the extents.
    pub fn params_of(&self, variant: &Variant) -> Vec<Param> {
        let by_tma = |operand: Operand| match operand {
            Operand::A | Operand::B => variant.load == Load::Tma,
            Operand::C => variant.staged.is_some_and(|staged| staged.holds_c),
            Operand::D => variant.staged.is_some_and(|staged| staged.box_lines.is_some()),
        };
        let in_planes = |operand: Operand| {
            self.emulate.is_some() && variant.load != Load::Tma && matches!(operand, Operand::A | Operand::B)
        };
        let with_map = |param: &Param| match *param {
            Param::Matrix(operand) if by_tma(operand) => Some(Param::Map(operand)),
            Param::Matrix(operand) if in_planes(operand) => Some(Param::Packed(operand)),
            Param::Ld(operand) | Param::BatchStride(operand) if by_tma(operand) || in_planes(operand) => None,
            ref other => Some(other.clone()),
        };
        self.params.iter().filter_map(with_map).collect()
    }

    /// Lines of a tile of D along its contiguous dimension, and elements of each.
    pub(crate) fn d_lines(&self) -> (u32, u32) {
        if self.problem.layouts.d == Layout::Row { (self.block.m, self.block.n) } else { (self.block.n, self.block.m) }
    }

    /// Threads of a block: those that multiply, then those that only copy.
    pub fn threads(&self) -> u32 {
        self.geometry.with_others(self.turns, self.producer_warps)
    }

    /// Threads of a block that copy K-tiles: the producers, or all.
    pub fn copying_threads(&self) -> u32 {
        self.geometry.copying(self.producer_warps)
    }

    /// Accumulators of one thread.
    pub fn accumulators(&self) -> u32 {
        self.geometry.thread.m * self.geometry.thread.n
    }
}

/// The clause that each part of the program comes from, as canonical text (`double_buffer`, `tile(128, 128, 8)`), or
/// the default that takes its place (`stages(1)`).
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
    /// `thread(...)`, or `atom(...)` of tensor cores.
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
    /// `pack(...)`, or `emulate(...)`, whose planes are copies.
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
