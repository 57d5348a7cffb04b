//! The decoded form, which the interpreter executes instead of text. Registers, immediates and special registers are
//! slots (the latter two are filled when a warp starts), labels are indices, and nothing is looked up by name at run
//! time.

mod access;
mod bulk;
mod code;
mod extended;
mod mbarrier;
mod rare;
mod scalar;
mod system;
mod tensor_core;

use ptx_gemm_ptx::instruction::FenceOrder;
use ptx_gemm_ptx::warp::Resize;

pub(crate) use self::access::{Access, AsyncCopy, AtomicElement, AtomicOp, Shape, Strong, scope};
pub(crate) use self::bulk::{Bulk, Coordinates, Pointer, Reduce};
pub(crate) use self::code::{Code, Collective, CollectiveKind, Constant, Origin};
pub(crate) use self::extended::{Carry, Inexact, Modified};
pub(crate) use self::mbarrier::{Action, MbarrierOp, Ordering, PhaseSlot};
pub(crate) use self::rare::{BarrierReduce, Condition, Rare};
pub(crate) use self::scalar::{Arith, Bits, Scalar, ScalarFn};
pub(crate) use self::system::{Argument, System, SystemFunction};
pub(crate) use self::tensor_core::{
    DoubleMultiply, Factor, Factors, Fragment, FragmentMultiply, FragmentProduct, GroupMultiply, GroupRegisters, Left,
    Major, Matrices, Multiply, Narrow, Other, Sum, Way,
};
use crate::flags::Scope;

/// Slot of a register up to 32 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R32(pub(crate) u32);
/// Slot of a 64-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R64(pub(crate) u32);
/// Slot of a predicate: one bit per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct P(pub(crate) u32);

/// A slot of any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    R32(R32),
    R64(R64),
    P(P),
}

/// `@p`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard {
    Always,
    If(P),
    Unless(P),
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instr {
    pub(crate) guard: Guard,
    pub(crate) op: Op,
}

/// Operations on one 32-bit row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Un32 {
    Mov,
    Not,
    Neg,
    Abs,
    NegF,
    AbsF,
}

/// Operations on two 32-bit rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bin32 {
    Add,
    Sub,
    Mul,
    MulHiU,
    MulHiS,
    DivU,
    DivS,
    RemU,
    RemS,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
    Shl,
    ShrU,
    ShrS,
    AddF,
    SubF,
    MulF,
    DivF,
    MinF,
    MaxF,
    MinNanF,
    MaxNanF,
}

/// The same operations on 64-bit rows, except shifts, which have a 32-bit amount.
pub(crate) type Bin64 = Bin32;
/// The same operations on 64-bit rows.
pub(crate) type Un64 = Un32;

/// Shifts of a 64-bit row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shift {
    Left,
    RightU,
    RightS,
}

/// Comparisons; float comparisons are ordered unless their name says unordered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    LtU,
    LeU,
    LtS,
    LeS,
    EqF,
    NeF,
    LtF,
    LeF,
    EquF,
    NeuF,
    LtuF,
    LeuF,
    NumF,
    NanF,
}

/// Operations on predicates, on a word of 32 lanes at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BinPred {
    And,
    Or,
    Xor,
}

impl BinPred {
    /// The lanes in which one of two predicates, each with its taint, decides their combination, whatever the other is,
    /// as when an index is tested before its element.
    pub(crate) fn decided(self, (a, taint_a): (u32, u32), (b, taint_b): (u32, u32)) -> u32 {
        match self {
            BinPred::And => !a & !taint_a | !b & !taint_b,
            BinPred::Or => a & !taint_a | b & !taint_b,
            BinPred::Xor => 0,
        }
    }
}

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// `len` unguarded consecutive `fma.rn.f32`, starting at index `start` of the quads.
    FmaRun32 {
        start: u32,
        len: u32,
    },
    /// The same for `fma.rn.f64`.
    FmaRun64 {
        start: u32,
        len: u32,
    },
    /// The same for `mad.lo` of 32-bit integers.
    MadRun32 {
        start: u32,
        len: u32,
    },
    Fma32 {
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Fma64 {
        d: R64,
        a: R64,
        b: R64,
        c: R64,
    },
    Mad32 {
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Mad64 {
        d: R64,
        a: R64,
        b: R64,
        c: R64,
    },
    Un32 {
        f: Un32,
        d: R32,
        a: R32,
    },
    Un64 {
        f: Un64,
        d: R64,
        a: R64,
    },
    Bin32 {
        f: Bin32,
        d: R32,
        a: R32,
        b: R32,
    },
    Bin64 {
        f: Bin64,
        d: R64,
        a: R64,
        b: R64,
    },
    Shift64 {
        f: Shift,
        d: R64,
        a: R64,
        b: R32,
    },
    MulWide {
        signed: bool,
        d: R64,
        a: R32,
        b: R32,
    },
    MadWide {
        signed: bool,
        d: R64,
        a: R32,
        b: R32,
        c: R64,
    },
    Widen {
        signed: bool,
        d: R64,
        a: R32,
    },
    Narrow {
        d: R32,
        a: R64,
    },
    Pack {
        d: R64,
        low: R32,
        high: R32,
    },
    Unpack {
        low: R32,
        high: R32,
        a: R64,
    },
    /// The two 16-bit halves of a 32-bit register.
    Split {
        low: R32,
        high: R32,
        a: R32,
    },
    Select32 {
        d: R32,
        a: R32,
        b: R32,
        p: P,
    },
    Select64 {
        d: R64,
        a: R64,
        b: R64,
        p: P,
    },
    /// `q` gets the negation of `d`.
    Set32 {
        cmp: Cmp,
        d: P,
        q: P,
        a: R32,
        b: R32,
    },
    Set64 {
        cmp: Cmp,
        d: P,
        q: P,
        a: R64,
        b: R64,
    },
    MovPred {
        negated: bool,
        d: P,
        a: P,
    },
    BinPred {
        f: BinPred,
        d: P,
        a: P,
        b: P,
    },
    SelectPred {
        d: P,
        a: P,
        b: P,
        p: P,
    },
    /// A rarer operation, lane by lane: index into [`Code::scalars`].
    Scalar {
        index: u32,
    },
    /// With a carry: index into [`Code::carries`].
    Carry {
        index: u32,
    },
    /// With several destinations: index into [`Code::rare`].
    Rare {
        index: u32,
    },
    /// A reducing barrier: index into [`Code::reductions`].
    BarrierReduce {
        index: u32,
    },
    /// With `.ftz` or `.sat`: index into [`Code::modified`].
    Modified {
        index: u32,
    },
    /// Index into [`Code::accesses`].
    Load {
        index: u32,
    },
    Store {
        index: u32,
    },
    Atomic {
        index: u32,
    },
    CpAsync {
        index: u32,
    },
    CpAsyncCommit,
    /// Waits until at most the newest `pending` groups are in flight.
    CpAsyncWait {
        pending: u32,
    },
    CpAsyncWaitAll,
    Fence {
        order: FenceOrder,
        scope: Scope,
    },
    /// Number of instructions executed so far, as a clock.
    Clock {
        d: Slot,
        high: bool,
    },
    Branch {
        target: u32,
        uniform: bool,
    },
    /// To one of the instructions of a list: index into [`Code::targets`].
    BranchIndexed {
        index: R32,
        list: u32,
        uniform: bool,
    },
    /// For `count` threads, or all threads of the block if absent. Unless it is `aligned`, threads of a warp may reach
    /// it along different paths, and it does not wait for threads that have exited.
    Barrier {
        id: R32,
        count: Option<R32>,
        aligned: bool,
    },
    BarrierArrive {
        id: R32,
        count: R32,
    },
    WarpSync {
        mask: R32,
    },
    /// Lanes exchange values: index into [`Code::collectives`].
    Collective {
        index: u32,
    },
    /// Index into [`Code::mbarriers`].
    Mbarrier {
        index: u32,
    },
    /// A bulk copy or related instruction: index into [`Code::bulks`].
    Bulk {
        index: u32,
    },
    ClusterArrive {
        relaxed: bool,
    },
    ClusterWait,
    /// Between registers and shared memory: index into [`Code::matrices`].
    Matrices {
        index: u32,
    },
    /// `mma.sync`: index into [`Code::multiplies`].
    Multiply {
        index: u32,
    },
    /// `mma.sync` of double precision: index into [`Code::double_multiplies`].
    DoubleMultiply {
        index: u32,
    },
    /// `wmma.load` and `wmma.store`: index into [`Code::fragments`].
    Fragment {
        index: u32,
    },
    /// `wmma.mma`: index into [`Code::fragment_multiplies`].
    FragmentMultiply {
        index: u32,
    },
    /// `wgmma.mma_async`: index into [`Code::group_multiplies`].
    GroupMultiply {
        index: u32,
    },
    /// The fence between a warp's registers and its group's multiplications.
    GroupFence,
    GroupCommit,
    /// Waits until at most the newest `pending` groups of multiplications are in flight.
    GroupWait {
        pending: u32,
    },
    /// `count` registers per thread.
    SetMaxNReg {
        resize: Resize,
        count: u16,
    },
    /// Waits for the kernels that were launched before.
    AwaitGrids,
    Exit,
    Trap,
    Nop,
    /// A call: index into [`Code::systems`].
    System {
        index: u32,
    },
    /// An instruction that cannot be executed: index into [`Code::refusals`].
    Refused {
        index: u32,
    },
}

/// Four slots of one class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quad {
    pub(crate) d: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
}

impl From<R32> for Slot {
    fn from(slot: R32) -> Slot {
        Slot::R32(slot)
    }
}

impl From<R64> for Slot {
    fn from(slot: R64) -> Slot {
        Slot::R64(slot)
    }
}

impl From<P> for Slot {
    fn from(slot: P) -> Slot {
        Slot::P(slot)
    }
}
