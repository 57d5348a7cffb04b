//! Tile IR: what one block does, on logical tiles, before there are threads.
//!
//! Buffers and the rings that pass them from producer to consumer, copies, waits and releases, roles, multiplies, the
//! walk over the tiles of D, the epilogue. One vocabulary serves a tile staged through registers, a ring of `cp.async`
//! groups, and TMA with mbarriers feeding wgmma from another role:
//!
//! ```text
//! acquire ab                  the next free slot is the producer's
//! copy A[kt + 1] -> ab        starts to fill it
//! commit ab                   the filling is on its way (or, through registers, done)
//! wait ab                     the consumer has the oldest committed slot
//! release ab                  and gives it back
//! ```
//!
//! It knows no thread ids, no registers and no addresses. The verifier ([`verify`]) says that every read of a slot comes
//! after its filling and before its reuse.

pub mod build;
pub mod print;
pub mod verify;

use std::ops::Range;

use ptx_gemm_dsl::terms::{Extent2, Extent3, Fast, FmaOrder, Load, Operands, Raster, Side, SplitK, Swizzle, Tail};
use ptx_gemm_dsl::types::DType;

/// A staged K-tile of one operand in shared memory: one placement map for stores, loads, TMA and descriptors.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// `A` or `B`.
    pub name: &'static str,
    /// Operand.
    pub side: Side,
    /// Element type.
    pub element: DType,
    /// Extent along the operand's own dimension, m or n.
    pub extent: u32,
    /// Extent along k.
    pub depth: u32,
    /// Contiguous dimension.
    pub fast: Fast,
    /// Elements from one row of the slow dimension to the next.
    pub pitch: u32,
    /// XOR on byte addresses.
    pub swizzle: Swizzle,
    /// Byte offset of slot 0.
    pub offset_bytes: u32,
}

/// How one side learns that the other is done with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A barrier of the whole block, executed by this statement.
    BlockBarrier,
    /// A named barrier of so many threads.
    NamedBarrier {
        /// Barrier number.
        id: u32,
        /// Threads that take part.
        threads: u32,
    },
    /// Counting the thread's own groups of asynchronous copies, then a barrier of the block.
    CopyGroups,
    /// An mbarrier per slot.
    Mbarrier {
        /// Arrivals that complete a phase.
        arrivals: u32,
        /// Bytes that asynchronous copies complete; 0 for a barrier of arrivals alone.
        transaction_bytes: u32,
        /// Across the cluster.
        cluster: bool,
    },
    /// Nothing of its own: the barrier in the next `wait` orders it (a ring with a spare slot).
    NextWait,
}

/// A ring of slots, each holding one K-tile of some buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    /// Name in the text.
    pub name: &'static str,
    /// Buffers that travel together.
    pub buffers: Vec<usize>,
    /// Slots.
    pub depth: u32,
    /// Bytes from one slot to the next.
    pub slot_bytes: u32,
    /// How a slot is filled.
    pub fill: Load,
    /// How the consumer learns that a slot is full.
    pub full: Signal,
    /// How the producer learns that a slot is free.
    pub empty: Signal,
}

/// The multiply instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atom {
    /// One thread's fused multiply-add.
    Fma,
    /// A warp's `mma.sync`.
    Mma(Extent3),
    /// A warp group's `wgmma`.
    Wgmma(Extent3),
}

/// A set of accumulators, spread over the threads of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulator {
    /// Name in the text.
    pub name: &'static str,
    /// Element type.
    pub element: DType,
    /// Tile of D that it holds.
    pub shape: Extent2,
    /// The instruction that feeds it.
    pub atom: Atom,
}

/// Which tiles of D a block computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Walk {
    /// One tile a block.
    OneTile(Raster),
    /// One wave of blocks, each walking every n-th tile; `blocks` is the launch's if not stated.
    Persistent {
        /// Blocks, if stated.
        blocks: Option<u32>,
        /// Order of the tiles.
        raster: Raster,
    },
    /// Units of K-iterations dealt out evenly; partial tiles are summed in a fixed order.
    StreamK {
        /// Order of the tiles.
        raster: Raster,
    },
}

/// A part of the block with its own program.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Name in the text.
    pub name: &'static str,
    /// Its threads.
    pub threads: Range<u32>,
    /// Registers per thread, if it changes them.
    pub registers: Option<u32>,
    /// Its program.
    pub body: Vec<Statement>,
}

/// The number of a K-tile or K-step: the loop variable plus a distance, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// A constant.
    At(u32),
    /// The variable of the enclosing loop, plus a distance.
    Ahead(u32),
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Once per K-tile: ceil(k / block k).
    KTiles,
    /// Once per K-step of everything: k, `unroll` at a time and the rest one by one.
    KSteps,
    /// A constant.
    Exactly(u32),
}

/// Where fragments are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A buffer's slot that the consumer has waited for.
    Buffer(usize),
    /// Global memory (`shared(none)`).
    Global,
}

/// A statement and the clause it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub op: Op,
    /// Canonical text of the clause.
    pub clause: String,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Op {
    /// For every tile of the walk.
    Tiles(Vec<Statement>),
    /// Zero an accumulator.
    Clear { acc: usize },
    /// A loop over K-tiles.
    Loop { count: Count, body: Vec<Statement> },
    /// The producer takes the next free slot.
    Acquire { ring: usize },
    /// Starts to fill the acquired slot with a K-tile of one buffer, `width` elements an access. Past the end of k, and
    /// beyond m and n, zeros are written.
    Copy { ring: usize, buffer: usize, tile: Index, width: u32 },
    /// The acquired slot is complete, or on its way.
    Commit { ring: usize },
    /// The consumer takes the oldest committed slot.
    Wait { ring: usize },
    /// The consumer gives its slot back.
    Release { ring: usize },
    /// The K-steps of the waited-for tile (or of all of k): fetch and multiply.
    Steps { count: Count, unroll: u32, prefetch: u32, body: Vec<Statement> },
    /// Reads the operand fragments of a step.
    Fetch { side: Side, from: Source, width: u32, hold: Operands },
    /// acc += a * b for one step, or `acc = a * b` if fresh.
    Multiply { acc: usize, order: FmaOrder, fresh: bool },
    /// Waits until at most so many asynchronous multiplies are in flight.
    Retire { in_flight: u32 },
    /// Adds one set of accumulators into another and clears it.
    Promote { from: usize, into: usize },
    /// A barrier of the whole block.
    Sync,
    /// Waits until no copy into a ring is in flight.
    Drain { ring: usize },
    /// The parts of a tile that was split along k meet: partial sums are added in the order of the parts, and the last
    /// contributor goes on with the body.
    Reduce { acc: usize, body: Vec<Statement> },
    /// Applies the epilogue and stores the tile of D, `width` elements an access.
    Store { acc: usize, width: u32, through: Through },
}

/// How D leaves the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// Straight from registers.
    Registers,
    /// Through shared memory.
    Shared,
    /// Through shared memory and a TMA store.
    Tma,
}

/// The program of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Entry name.
    pub name: String,
    /// Extents of the block's tile.
    pub block: Extent3,
    /// Blocks of a cluster, by rows and columns.
    pub cluster: Extent2,
    /// Edges.
    pub tail: Tail,
    /// Staged tiles.
    pub buffers: Vec<Buffer>,
    /// Rings of slots.
    pub rings: Vec<Ring>,
    /// Accumulators.
    pub accumulators: Vec<Accumulator>,
    /// Tiles of D.
    pub walk: Walk,
    /// Parts of k, each a block's, if it is split.
    pub split: Option<SplitK>,
    /// Roles.
    pub roles: Vec<Role>,
}
