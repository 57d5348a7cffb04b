//! The plan: every number that follows from a schedule, derived once.
//!
//! Nothing below this level computes a size, an offset or a width of its own, and nothing after a plan fails for the
//! user. Units are in the names: `bytes`, otherwise elements.

use serde::Serialize;

use crate::clause::Expectation;
use crate::target::Target;
use crate::terms::{
    Along, Extent2, Extent3, Fast, FmaOrder, Load, Operand, Operands, Pace, Param, Raster, Reduce, Side, SplitK,
    Swizzle, Tail, Wave,
};
use crate::types::{Batch, DType, Problem};

/// The geometry of the threads of one block (`atom(fma)`).
///
/// A thread with grid coordinates (i, j) inside its *region* (the block tile, or its warp's tile) computes, for each
/// repetition (p, q) of its fragment, rows `p * stride.m + i * fragment.m ..` and columns
/// `q * stride.n + j * fragment.n ..` of that region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Geometry {
    /// Threads per block.
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

/// Where one operand's K-tile lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Placement {
    /// Contiguous dimension in shared memory.
    pub fast: Fast,
    /// Elements along the contiguous dimension that hold data.
    pub fast_extent: u32,
    /// Rows of `fast_extent` elements.
    pub slow_extent: u32,
    /// Elements from one row to the next: `fast_extent` plus the pad.
    pub pitch: u32,
    /// XOR on the byte address.
    pub swizzle: Swizzle,
    /// Byte offset of slot 0 in the block's shared memory.
    pub offset_bytes: u32,
    /// Bytes of one slot (one stage), padding to its alignment included.
    pub slot_bytes: u32,
}

/// How one operand's K-tile is copied from global to shared memory in one variant.
///
/// The tile is cut into chunks of `width` elements along the *global* contiguous dimension; chunk c lies at outer
/// coordinate `c / chunks_per_row` and inner coordinate `c % chunks_per_row * width`; thread t takes chunks
/// t, t + threads, t + 2 threads ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CopyPlan {
    /// Elements moved by one global access.
    pub width: u32,
    /// Elements moved by one shared store: `width` where the shared order agrees and its alignment allows, else less.
    pub store_width: u32,
    /// Chunks along the global contiguous dimension.
    pub chunks_per_row: u32,
    /// Chunks in the tile.
    pub chunks: u32,
    /// Passes over the threads: ceil(chunks / threads).
    pub passes: u32,
}

/// One input operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct OperandPlan {
    /// A or B.
    pub side: Side,
    /// Element type.
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

/// What an operand must be a multiple of for one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Alignment {
    /// The leading dimension and the batch stride, in elements.
    pub elements: u32,
    /// The pointer, in bytes.
    pub bytes: u32,
}

/// One entry of the compiled module: the same kernel with its own access widths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Variant {
    /// Entry name: `gemm_v4`, `gemm_v1` (the widest global access, in elements).
    pub entry: String,
    /// Elements per global access of a direct load (`shared(none)`) or copy of A.
    pub a: CopyPlan,
    /// The same for B.
    pub b: CopyPlan,
    /// Elements per access of C.
    pub c_width: u32,
    /// Elements per access of D.
    pub d_width: u32,
}

/// Every number that follows from a schedule for one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    /// Compiled for.
    pub target: Target,
    /// The block tile.
    pub block: Extent3,
    /// The threads.
    pub geometry: Geometry,
    /// Operand A.
    pub a: OperandPlan,
    /// Operand B.
    pub b: OperandPlan,
    /// How K-tiles travel.
    pub load: Load,
    /// Slots of the ring of staged K-tiles; 1 is no pipeline. Ignored with `shared(none)`.
    pub stages: u32,
    /// K-steps per unrolled body; divides `block.k` when staged.
    pub unroll: u32,
    /// Order of the FMA block.
    pub order: FmaOrder,
    /// Steps ahead that fragments are read, within the unrolled body.
    pub prefetch: u32,
    /// Fragments in registers or reloaded.
    pub operands: Operands,
    /// Order of the tiles.
    pub raster: Raster,
    /// Edges.
    pub tail: Tail,
    /// What keeps the warps of a block in step.
    pub pace: Pace,
    /// One wave of blocks that walks all tiles; `None`: one block a tile.
    pub persistent: Option<Wave>,
    /// K divided among blocks; `None`: each block sums over all of K.
    pub split_k: Option<SplitK>,
    /// Contracts, those included that are known to hold.
    pub expect: Vec<Expectation>,
    /// Blocks per multiprocessor to compile for, where the schedule states them; see [`Plan::resident_blocks`].
    pub blocks_per_sm: Option<u32>,
    /// Bytes of one stage: a slot of A, then a slot of B. Slot s of an operand is at
    /// `placement.offset_bytes + s * stage_bytes`. 0 with `shared(none)`.
    pub stage_bytes: u32,
    /// Shared memory of a block, in bytes, all slots.
    pub shared_bytes: u32,
    /// Accumulators per thread, in 32-bit registers.
    pub accumulator_registers: u32,
    /// The entries, widest first; the last one asks no alignment beyond an element's own.
    pub variants: Vec<Variant>,
    /// Kernel parameters in order.
    pub params: Vec<Param>,
    /// The clause, as written, that decided each part: for provenance comments.
    pub clauses: Provenance,
}

impl Plan {
    /// Tiles of an m x n result: the blocks of the flat grid, where one block computes one tile.
    pub fn grid(&self, m: u64, n: u64) -> u64 {
        m.div_ceil(u64::from(self.block.m)).saturating_mul(n.div_ceil(u64::from(self.block.n)))
    }

    /// Where the mbarriers of a free-running ring begin in shared memory, in bytes: per slot one that counts it full, then
    /// one that counts it empty, 8 bytes each. `None` with `pace(tile)` or without staging.
    pub fn barrier_offset(&self) -> Option<u32> {
        (self.pace == Pace::Free && self.a.placement.is_some()).then(|| self.stage_bytes * self.stages)
    }

    /// Units of work of a launch: tiles, times `batch` products, times parts of k. Without `persistent` each is a block.
    pub fn units(&self, m: u64, n: u64, batch: u64) -> u64 {
        self.grid(m, n).saturating_mul(batch).saturating_mul(self.split_k.map_or(1, |split| u64::from(split.parts)))
    }

    /// The blocks of a launch as a formula: what [`Plan::units`] counts, and no more than the wave of a persistent grid.
    pub fn grid_formula(&self) -> String {
        let mut formula = format!("ceil(m / {}) * ceil(n / {})", self.block.m, self.block.n);
        if self.problem.batch == Batch::Strided {
            formula.push_str(" * batch");
        }
        if let Some(split) = self.split_k {
            formula.push_str(&format!(" * {}", split.parts));
        }
        match self.persistent {
            None => formula,
            Some(Wave::Blocks(blocks)) => format!("min({formula}, {blocks})"),
            Some(Wave::Device) => format!("min({formula}, blocks that the device holds at once)"),
        }
    }

    /// The bytes of the workspace as a formula, and which of them are zero at a launch; `None` without split-K.
    pub fn workspace_formula(&self) -> Option<String> {
        let split = self.split_k?;
        let slots = match split.reduce {
            Reduce::Serial => 1,
            Reduce::Workspace => split.parts,
        };
        let batch = if self.problem.batch == Batch::Strided { " * batch" } else { "" };
        let threads = self.geometry.threads;
        let slot_bytes = u64::from(slots * threads * self.accumulators()) * u64::from(self.problem.types.acc.bytes());
        Some(format!(
            "tiles * {} bytes, up to a multiple of 256, of zeros (zero again afterwards), then tiles * {slot_bytes} bytes; \
             tiles = ceil(m / {}) * ceil(n / {}){batch}",
            threads * 4,
            self.block.m,
            self.block.n
        ))
    }

    /// Bytes of the workspace's flags, which stand at its start: one u32 per tile and thread, rounded up to 256 bytes. They
    /// must be zero at a launch, and are zero again after it. 0 without split-K.
    pub fn flag_bytes(&self, m: u64, n: u64, batch: u64) -> u64 {
        let Some(_) = self.split_k else { return 0 };
        let flags = self.grid(m, n).saturating_mul(batch).saturating_mul(u64::from(self.geometry.threads) * 4);
        flags.checked_next_multiple_of(256).unwrap_or(u64::MAX)
    }

    /// Bytes of the workspace: the flags, then partial sums in the accumulator's type, a slot per tile (`serial`) or per
    /// tile and part (`workspace`). 0 without split-K.
    pub fn workspace_bytes(&self, m: u64, n: u64, batch: u64) -> u64 {
        let Some(split) = self.split_k else { return 0 };
        let slots = match split.reduce {
            Reduce::Serial => 1,
            Reduce::Workspace => u64::from(split.parts),
        };
        let slot_bytes = u64::from(self.accumulators())
            * u64::from(self.geometry.threads)
            * u64::from(self.problem.types.acc.bytes());
        let sums = self.grid(m, n).saturating_mul(batch).saturating_mul(slots).saturating_mul(slot_bytes);
        self.flag_bytes(m, n, batch).saturating_add(sums)
    }

    /// What `operand` must be aligned to for `variant`.
    pub fn alignment(&self, variant: &Variant, operand: Operand) -> Alignment {
        let elements = match operand {
            Operand::A => variant.a.width,
            Operand::B => variant.b.width,
            Operand::C => variant.c_width,
            Operand::D => variant.d_width,
        };
        Alignment { elements, bytes: elements * self.problem.types.of(operand).bytes() }
    }

    /// The matrices that the kernel reads and writes: A, B, C if the epilogue reads it, D.
    pub fn matrices(&self) -> impl Iterator<Item = Operand> {
        let c = self.problem.epilogue.uses_c();
        [Operand::A, Operand::B, Operand::C, Operand::D].into_iter().filter(move |operand| c || *operand != Operand::C)
    }

    /// Accumulators of one thread.
    pub fn accumulators(&self) -> u32 {
        self.geometry.thread.m * self.geometry.thread.n
    }

    /// Floating-point operations per byte that a block reads of A and B.
    pub fn intensity(&self) -> f64 {
        let (m, n) = match self.a.placement {
            Some(_) => (self.block.m, self.block.n),
            // Without staging every thread reads its own fragments.
            None => (self.geometry.thread.m, self.geometry.thread.n),
        };
        let bytes = f64::from(m * self.a.dtype.bytes()) + f64::from(n * self.b.dtype.bytes());
        2.0 * f64::from(m) * f64::from(n) / bytes
    }
}

/// The clause that each part of the program comes from, as canonical text (`double_buffer`, `tile(128, 128, 8)`), or
/// the default that stands in its place (`stages(1)`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// `types(...)`.
    pub types: String,
    /// `layout(...)`.
    pub layout: String,
    /// `epilogue(...)`.
    pub epilogue: String,
    /// `tile(...)`.
    pub tile: String,
    /// `thread(...)`.
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
    /// `split_k(...)`.
    pub split_k: String,
    /// `persistent`.
    pub persistent: String,
}
