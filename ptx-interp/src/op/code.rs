//! A decoded entry as a whole: its instructions, their side tables, and what its slots hold when a warp starts.

use ptx_gemm_ptx::instruction::{Atomic, Note, Special};
use ptx_gemm_ptx::warp::{Shuffle, Vote};

use super::{Access, Bulk, Carry, Instr, MbarrierOp, Modified, P, Quad, R32, R64, Scalar, Slot};

/// An instruction by which the lanes of a warp exchange values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    pub(crate) d: Slot,
    /// A second destination; one that nobody reads if there is none.
    pub(crate) p: P,
    pub(crate) a: Slot,
    pub(crate) b: R32,
    pub(crate) c: R32,
    /// The lanes that take part; absent for `activemask`, which takes who comes.
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
    Elect,
    /// Who has the same value; with `all`, everybody or nobody.
    Match {
        all: bool,
    },
}

/// What a slot holds when a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Value(u64),
    /// The address of a variable of the module in global memory, by its number.
    Global(u32),
    Special(Special),
}

/// Where an instruction comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) line: u32,
    pub(crate) text: String,
    pub(crate) note: Option<Note>,
}

/// A decoded entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    /// Ends with an exit that stands for the closing brace.
    pub(crate) instrs: Vec<Instr>,
    /// Parallel to the instructions.
    pub(crate) origins: Vec<Origin>,
    pub(crate) quads: Vec<Quad>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) scalars: Vec<Scalar>,
    pub(crate) carries: Vec<Carry>,
    pub(crate) modified: Vec<Modified>,
    pub(crate) collectives: Vec<Collective>,
    pub(crate) mbarriers: Vec<MbarrierOp>,
    /// Whether some instruction ends an mbarrier's life.
    pub(crate) ends_mbarriers: bool,
    pub(crate) bulks: Vec<Bulk>,
    /// Whether one of them reads global memory.
    pub(crate) copies_from_global: bool,
    pub(crate) refusals: Vec<String>,
    pub(crate) constants32: Vec<(R32, Constant)>,
    pub(crate) constants64: Vec<(R64, Constant)>,
    pub(crate) constants_pred: Vec<(P, bool)>,
    pub(crate) slots32: u32,
    pub(crate) slots64: u32,
    pub(crate) preds: u32,
    /// Names for reports: 32-bit slots, then 64-bit ones, then predicates.
    pub(crate) names: Vec<String>,
}
