//! The statements of a role.

use std::ops::Range;

use ptx_gemm_dsl::terms::{FmaOrder, Operands, Reduce, Side};

use super::Note;

/// The number of a K-tile: a constant before the loop, the loop's tile plus a distance in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// A constant.
    At(u32),
    /// The tile of the enclosing loop, plus a distance.
    Ahead(u32),
}

/// Which K-steps a statement takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Steps of the staged K-tile that was waited for.
    Tile(Range<u32>),
    /// All of k, `unroll` steps at a time and the rest one by one.
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

/// How a K-tile travels to shared memory.
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
        /// Elements that a thread copies of one row at a time.
        width: u32,
        /// Elements of one copy.
        piece: u32,
    },
}

impl Mover {
    /// Elements along the contiguous dimension in global memory that a thread moves at a time.
    pub fn width(self) -> u32 {
        match self {
            Mover::Registers { width, .. } | Mover::CpAsync { width, .. } => width,
        }
    }

    /// Elements of one access to shared memory.
    pub fn piece(self) -> u32 {
        match self {
            Mover::Registers { store, .. } => store,
            Mover::CpAsync { piece, .. } => piece,
        }
    }

    /// True if the copies are under way when the thread goes on.
    pub fn is_async(self) -> bool {
        matches!(self, Mover::CpAsync { .. })
    }

    /// Elements whose alignment the accesses to global memory rest on.
    pub fn global_width(self) -> u32 {
        match self {
            Mover::Registers { width, .. } => width,
            Mover::CpAsync { piece, .. } => piece,
        }
    }
}

/// Reads one operand's fragments, a group of steps at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Operand.
    pub side: Side,
    /// Where it is read.
    pub from: Source,
    /// Elements of one access, along the source's contiguous dimension. Along k it is the steps of a group; otherwise a
    /// group is one step.
    pub width: u32,
    /// Steps that a group is read before its first product; a multiple of the group.
    pub ahead: u32,
    /// Held in registers, or read again for each product.
    pub hold: Operands,
}

/// A statement and its note.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub op: Op,
    /// Where it comes from.
    pub note: Note,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Op {
    /// For every tile of the walk.
    Tiles { body: Vec<Statement> },
    /// Only if there is any k to sum over. Without, there may be no memory behind the pointers of A and B.
    IfAnyK { body: Vec<Statement> },
    /// Once per K-tile, at least once.
    Loop { body: Vec<Statement> },
    /// Sets the accumulators to zero.
    Clear { acc: usize },
    /// The producer takes the next free slot.
    Acquire { ring: usize },
    /// Starts to fill the acquired slot with a K-tile of one buffer. Past the end of k, and beyond m and n, zeros are
    /// written.
    Copy { buffer: usize, tile: Index, by: Mover },
    /// The acquired slot is complete, or on its way.
    Commit { ring: usize },
    /// The consumer takes the oldest committed slot.
    Wait { ring: usize },
    /// The consumer gives its slot back.
    Release { ring: usize },
    /// K-steps, `unroll` at a time: fetch and multiply.
    Steps { span: Span, unroll: u32, fetches: Vec<(Fetch, Note)>, multiply: Multiply, multiply_note: Note },
    /// Adds the accumulators of one set to those of another, element by element, and sets them to zero.
    Promote { from: usize, into: usize },
    /// A barrier of the whole block.
    Sync,
    /// A named barrier.
    Meet { barrier: usize },
    /// Waits until none of the thread's asynchronous copies is in flight.
    Drain,
    /// The parts of a tile that was split along k meet: partial sums are added in the order of the parts, and the last
    /// contributor goes on with the body.
    Reduce { acc: usize, how: Reduce, body: Vec<Statement> },
    /// Applies the epilogue and stores the tile of D, `width` elements an access; C is read `c_width` elements an access.
    Store { acc: usize, width: u32, c_width: u32 },
}

/// `acc += a * b`, one step at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiply {
    /// Where the products are added.
    pub acc: usize,
    /// Order of the multiply-adds of a step.
    pub order: FmaOrder,
}

impl Op {
    /// The statements inside it.
    pub fn body(&self) -> &[Statement] {
        match self {
            Op::Tiles { body } | Op::IfAnyK { body } | Op::Loop { body } | Op::Reduce { body, .. } => body,
            Op::Clear { .. }
            | Op::Acquire { .. }
            | Op::Copy { .. }
            | Op::Commit { .. }
            | Op::Wait { .. }
            | Op::Release { .. }
            | Op::Steps { .. }
            | Op::Promote { .. }
            | Op::Sync
            | Op::Meet { .. }
            | Op::Drain
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
