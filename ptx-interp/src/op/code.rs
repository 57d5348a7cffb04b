//! A decoded entry: its instructions, their side tables, and the initial contents of its slots.

use ptx_gemm_ptx::instruction::{Atomic, Note, Special};
use ptx_gemm_ptx::warp::{Shuffle, Vote};

use super::{
    Access, BarrierReduce, Bulk, Carry, DoubleMultiply, Fragment, FragmentMultiply, GroupMultiply, GroupRegisters,
    Instr, Matrices, MbarrierOp, Modified, Multiply, P, Quad, R32, R64, Rare, Scalar, Slot, System,
};

/// An instruction by which the lanes of a warp exchange values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    pub(crate) d: Slot,
    /// The second destination; a slot that is never read if there is none.
    pub(crate) p: P,
    pub(crate) a: Slot,
    pub(crate) b: R32,
    pub(crate) c: R32,
    /// Whether a vote counts the lanes with a predicate that is false.
    pub(crate) inverted: bool,
    /// The participating lanes; `None` for `activemask`, in which all active lanes participate.
    pub(crate) mask: Option<R32>,
}

/// What lanes exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CollectiveKind {
    Shuffle(Shuffle),
    Vote(Vote),
    ActiveMask,
    Reduce {
        op: Atomic,
        signed: bool,
    },
    /// Of f32: the smallest or largest, of magnitudes if `abs`; NaN if any is one and `nan` says so.
    ReduceFloats {
        max: bool,
        abs: bool,
        nan: bool,
    },
    Elect,
    /// The elements of a matrix of 8 rows, two in each lane.
    Transpose,
    /// The lanes with the same value; with `all`, either all lanes or none.
    Match {
        all: bool,
    },
}

/// The contents of a slot when a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Value(u64),
    /// An address of the block's own shared memory, as it is for the first block of a cluster.
    Shared(u64),
    /// An address in global memory, at a distance in bytes from that of the module's variable with this number.
    Global(u32, i64),
    Special(Special),
}

/// The origin of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) line: u32,
    pub(crate) text: String,
    pub(crate) note: Option<Note>,
}

/// A decoded entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    /// Ends with an exit for the closing brace.
    pub(crate) instrs: Vec<Instr>,
    /// Parallel to the instructions.
    pub(crate) origins: Vec<Origin>,
    pub(crate) quads: Vec<Quad>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) scalars: Vec<Scalar>,
    pub(crate) carries: Vec<Carry>,
    pub(crate) modified: Vec<Modified>,
    pub(crate) collectives: Vec<Collective>,
    pub(crate) rare: Vec<Rare>,
    pub(crate) reductions: Vec<BarrierReduce>,
    /// Lists of instructions to branch to.
    pub(crate) targets: Vec<Vec<u32>>,
    pub(crate) mbarriers: Vec<MbarrierOp>,
    /// Whether any instruction invalidates an mbarrier.
    pub(crate) ends_mbarriers: bool,
    pub(crate) bulks: Vec<Bulk>,
    /// Whether any of them reads global memory.
    pub(crate) copies_from_global: bool,
    pub(crate) matrices: Vec<Matrices>,
    pub(crate) multiplies: Vec<Multiply>,
    pub(crate) double_multiplies: Vec<DoubleMultiply>,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) fragment_multiplies: Vec<FragmentMultiply>,
    pub(crate) group_multiplies: Vec<GroupMultiply>,
    pub(crate) group_registers: GroupRegisters,
    pub(crate) systems: Vec<System>,
    pub(crate) refusals: Vec<String>,
    pub(crate) constants32: Vec<(R32, Constant)>,
    pub(crate) constants64: Vec<(R64, Constant)>,
    pub(crate) constants_pred: Vec<(P, Constant)>,
    pub(crate) slots32: u32,
    pub(crate) slots64: u32,
    pub(crate) preds: u32,
    /// Names for reports: 32-bit slots, then 64-bit ones, then predicates.
    pub(crate) names: Vec<String>,
}
