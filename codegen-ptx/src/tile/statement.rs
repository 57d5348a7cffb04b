//! The statements of a role.

use std::ops::Range;

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::terms::{FmaOrder, Reads, Reduce, Side};
use ptx_gemm_dsl::types::DType;

use super::Note;

/// Alignment of addresses, strides and rows with TMA, in bytes (CUDA driver API, `cuTensorMapEncodeTiled`).
pub const TMA_BYTES: u32 = 16;

/// The index of a K-tile: a constant before the loop; inside it, the loop's tile plus a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// A constant.
    At(u32),
    /// The tile of the enclosing loop, plus a distance.
    Ahead(u32),
}

/// The K-steps that a statement covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Steps of the staged K-tile that was waited for.
    Tile(Range<u32>),
    /// All of k: `unroll` steps at a time, and the remainder one by one.
    All,
}

/// Where fragments are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A buffer's slot that the role has waited for.
    Buffer(usize),
    /// Global memory (`shared(none)`).
    Global,
}

/// How a K-tile is copied to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// Read into registers by `copy`, stored to shared memory by `commit`.
    Registers {
        /// Elements of one global access, along the contiguous dimension in global memory.
        width: u32,
        /// Elements of one store to shared memory.
        store: u32,
    },
    /// Asynchronous copies that bypass the registers.
    CpAsync {
        /// Elements of one row that a thread copies at a time.
        width: u32,
        /// Elements per copy instruction.
        piece: u32,
    },
    /// The tensor memory accelerator: the role's first thread starts the copies of whole rows, unless no k is left.
    Tma {
        /// Rows of a box, along the dimension of the buffer that is not contiguous.
        rows: u32,
        /// Whether the blocks of the cluster that need the same tile share its boxes: each block starts some of them, into
        /// the shared memory of all.
        multicast: bool,
    },
}

impl Mover {
    /// Elements along the contiguous dimension in global memory that a thread copies at a time, and those of one access to
    /// shared memory; `None` if no thread copies elements.
    pub fn chunk(self) -> Option<(u32, u32)> {
        match self {
            Mover::Registers { width, store } => Some((width, store)),
            Mover::CpAsync { width, piece } => Some((width, piece)),
            Mover::Tma { .. } => None,
        }
    }

    /// True if the copies are asynchronous: they may be incomplete when the thread continues.
    pub fn is_async(self) -> bool {
        matches!(self, Mover::CpAsync { .. } | Mover::Tma { .. })
    }

    /// Elements by which the accesses to global memory must be aligned.
    pub fn global_width(self, element: DType) -> u32 {
        match self {
            Mover::Registers { width, .. } => width,
            Mover::CpAsync { piece, .. } => piece,
            Mover::Tma { .. } => TMA_BYTES / element.bytes(),
        }
    }
}

/// Where the elements of a step are when they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// In registers.
    Registers,
    /// In registers, as matrices of 8 x 8 elements, which a warp reads four at a time.
    Matrices,
    /// In a register for a single product: read again for each.
    EachProduct,
    /// In shared memory, where the multiply instruction reads them through a matrix descriptor.
    Descriptor,
}

/// Reads one operand's fragments, one group of steps at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Operand.
    pub side: Side,
    /// Where it is read from.
    pub from: Source,
    /// Elements per access, along the source's contiguous dimension. Along k this is the number of steps of a group;
    /// otherwise a group is one step. 1 if threads read nothing.
    pub width: u32,
    /// Number of steps by which a group is read before its first product; a multiple of the group.
    pub ahead: u32,
    /// Where the elements are when they are multiplied.
    pub hold: Hold,
    /// Whether NVIDIA's assembler may move the reads.
    pub reads: Reads,
}

/// A statement and its note.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub op: Op,
    /// Its origin.
    pub note: Note,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Op {
    /// Runs the body for every tile that the block computes.
    Tiles { body: Vec<Statement> },
    /// Runs the body in each tile of the role but its first: what remains to be done of the tile before.
    AfterFirst { body: Vec<Statement> },
    /// Runs the body only if there is any k to sum over, otherwise only its `pass` statements. Then the pointers of A
    /// and B may be invalid.
    IfAnyK { body: Vec<Statement> },
    /// Runs the body once per K-tile, and at least once.
    Loop { body: Vec<Statement> },
    /// Runs the body after the last K-tile of each chunk of k.
    IfChunkEnds { body: Vec<Statement> },
    /// Sets the accumulators to zero.
    Clear { acc: usize },
    /// Sets the accumulators to the elements of A, `width` elements per access. A then has the extents of D, and
    /// nothing is multiplied.
    Read { acc: usize, width: u32 },
    /// The producer takes the next free slot.
    Acquire { ring: usize },
    /// Starts to fill the acquired slot with a K-tile of one buffer. Zeros are written past the end of k, and beyond m
    /// and n.
    Copy { buffer: usize, tile: Index, by: Mover },
    /// The acquired slot is complete, or its copies are in flight.
    Commit { ring: usize },
    /// The consumer takes the oldest committed slot.
    Wait { ring: usize },
    /// The consumer returns the slots that it has waited for, except for the newest `kept`.
    Release { ring: usize, kept: u32 },
    /// The consumer skips the K-tiles of tiles that other groups of the role compute: those between this tile and the
    /// last one that it computed.
    Skip { ring: usize },
    /// The producer takes the free slots that the stage of D needs, and gives them to the consumer without K-tiles.
    Lend { ring: usize },
    /// The consumer waits for the lent slots, which hold the stage of D from now on.
    Borrow { ring: usize },
    /// The consumer returns them when no thread reads the tile of D any more, in the same tile or early in the next.
    Return { ring: usize },
    /// Waits at an ordered barrier until the previous group of the role has passed it on.
    Take { turn: usize },
    /// Passes an ordered barrier on to the next group of the role, even if there is no k to sum over.
    Pass { turn: usize },
    /// Waits until the products that this thread's warp group has started are complete, except those of its newest
    /// `steps` groups. Until then tensor cores read the slots and write the accumulators. Consecutive statements form
    /// one group.
    Retire { steps: u32 },
    /// K-steps, `unroll` at a time: fetch and multiply.
    Steps { span: Span, unroll: u32, fetches: Vec<(Fetch, Note)>, multiply: Multiply, multiply_note: Note },
    /// Adds the accumulators of one set to those of another, element by element, and sets them to zero. A third set, if
    /// given, collects the rounding errors of these additions.
    Promote { from: usize, into: usize, rest: Option<usize> },
    /// Adds the rounding errors of earlier promotions to the set that they were made into, where it is finite.
    AddRest { rest: usize, into: usize },
    /// A barrier of the whole block.
    Sync,
    /// A named barrier.
    Meet { barrier: usize },
    /// Waits until none of the thread's asynchronous copies is in flight.
    Drain,
    /// Combines the parts of a tile that was split along k: partial sums are added in the order of the parts, and the
    /// last contributor runs the body.
    Reduce { acc: usize, how: Reduce, body: Vec<Statement> },
    /// Writes the thread's partial sums to the block's shared memory, `width` elements per access, for the
    /// [`Exchange`](super::Exchange) of its cluster.
    Share { acc: usize, width: u32 },
    /// The role's first thread starts the TMA copies of the tile of C to the stage of D, in boxes of `rows` lines of a
    /// panel. It copies nothing if a scalar of 0 makes the epilogue ignore C.
    PrefetchC { rows: u32 },
    /// Waits until the tile of C has arrived, if it was copied.
    AwaitC,
    /// Applies the epilogue and writes the tile of D to its stage in shared memory.
    Stage { acc: usize, by: Stager, c: ReadC },
    /// Copies the staged tile to D.
    Write { by: Writer },
    /// Waits until this thread's TMA copies to D have read their tiles.
    Settle,
    /// Applies the epilogue and stores the tile of D, `width` elements per access; C is read `c_width` elements per
    /// access.
    Store { acc: usize, width: u32, c_width: u32 },
}

/// How threads write a tile of D to its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Stager {
    /// Each its own elements, `width` per access.
    Registers { width: u32 },
    /// Warps write matrices of 8 x 8 16-bit elements, in the layout in which tensor cores leave them.
    Matrices,
}

/// Where a thread that stages D reads C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum ReadC {
    /// In global memory, `width` elements per access.
    Global { width: u32 },
    /// In the stage, at the place of the thread's elements of D.
    Stage,
}

/// How a staged tile of D is copied to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Writer {
    /// By all threads of the role, `width` elements per access.
    Registers { width: u32 },
    /// By TMA, started by one thread, in boxes of `rows` lines of a panel.
    Tma { rows: u32 },
}

/// `acc += a * b`, one step at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiply {
    /// The set of accumulators that the products are added to.
    pub acc: usize,
    /// The instruction.
    pub by: Instruction,
}

/// The instruction that multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Fused multiply-adds of each thread, in an order within a step.
    Fma {
        /// The order.
        order: FmaOrder,
    },
    /// `mma`: a warp multiplies rows of A and 8 columns.
    Mma {
        /// The rows.
        rows: u32,
        /// The extent along k.
        depth: u32,
    },
    /// `wgmma`: a warp group multiplies 64 rows and some columns, 32 bytes of k at once, and continues immediately.
    Wgmma {
        /// The columns.
        columns: u32,
        /// Granularity of a tile's columns: the columns of D are divided evenly among tiles, in multiples of this, and
        /// a tile multiplies only its own columns. Equal to `columns`: every tile multiplies all columns.
        grain: u32,
    },
}

impl Instruction {
    /// The unit of tensor cores that executes it; `None`: threads multiply.
    pub fn unit(&self) -> Option<Unit> {
        match self {
            Instruction::Fma { .. } => None,
            Instruction::Mma { .. } => Some(Unit::Warp),
            Instruction::Wgmma { .. } => Some(Unit::WarpGroup),
        }
    }
}

impl Op {
    /// The statements nested in it.
    pub fn body(&self) -> &[Statement] {
        match self {
            Op::Tiles { body }
            | Op::AfterFirst { body }
            | Op::IfAnyK { body }
            | Op::Loop { body }
            | Op::IfChunkEnds { body }
            | Op::Reduce { body, .. } => body,
            Op::Clear { .. }
            | Op::Read { .. }
            | Op::Acquire { .. }
            | Op::Copy { .. }
            | Op::Commit { .. }
            | Op::Wait { .. }
            | Op::Release { .. }
            | Op::Skip { .. }
            | Op::Lend { .. }
            | Op::Borrow { .. }
            | Op::Return { .. }
            | Op::Take { .. }
            | Op::Pass { .. }
            | Op::Retire { .. }
            | Op::Steps { .. }
            | Op::Promote { .. }
            | Op::AddRest { .. }
            | Op::Sync
            | Op::Meet { .. }
            | Op::Drain
            | Op::Share { .. }
            | Op::PrefetchC { .. }
            | Op::AwaitC
            | Op::Stage { .. }
            | Op::Write { .. }
            | Op::Settle
            | Op::Store { .. } => &[],
        }
    }
}

/// Every statement of a body, outer ones first.
pub fn walk<'a>(body: &'a [Statement], visit: &mut impl FnMut(&'a Statement)) {
    for statement in body {
        visit(statement);
        walk(statement.op.body(), visit);
    }
}
