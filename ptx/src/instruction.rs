//! Instructions as data: a typed opcode, operands in PTX order (destination first), a guard, and a note about the
//! origin.

use std::sync::Arc;

use thin_vec::ThinVec;

use crate::asynchronous::{
    Arrival, BulkDone, CacheHint, Eviction, MapField, Multicast, Pending, Phase, PrefetchSize, Prefetched, TensorMode,
    Transaction, Wait,
};
use crate::extended::{BarReduction, CarryOf, Combine, FloatTest, Merge, Parts, Permutation, Video};
use crate::hints::Hints;
use crate::matrix::{Element, Layout, Overflow, Part, Shape, Transpose};
pub use crate::modifier::{Approx, Atomic, Cache, Compare, FenceOrder, Half, Order, Rounding, Scope};
pub use crate::special::Special;
use crate::types::{Space, Type};
use crate::warp::{Alignment, ClusterOrder, Direction, FastDivision, GridDependency, Resize, ShiftMode, Shuffle, Vote};

/// A register: a family declared in the entry (`.reg .f32 %acc<64>;`) and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg {
    /// Index into [`crate::module::Entry::registers`].
    pub family: u16,
    /// Number within the family; 0 for a register declared on its own.
    pub index: u32,
}

/// `@%p1` or `@!%p1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The predicate.
    pub pred: Reg,
    /// The instruction executes when the predicate is false.
    pub negated: bool,
}

/// What an instruction reads or writes. An operand takes 16 bytes, since a module has thousands of them; larger
/// variants are boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// `!%p1` as a source.
    NotReg(Reg),
    /// An integer immediate; unsigned 64-bit values are stored as their two's complement.
    Int(i64),
    /// A single-precision immediate, as its bits: `0f3F800000`.
    F32(u32),
    /// A double-precision immediate, as its bits: `0d3FF0000000000000`.
    F64(u64),
    /// `{%f1, %f2, %f3, %f4}`.
    Vector(ThinVec<Operand>),
    /// `[base + offset]`.
    Address(Box<(Base, i64)>),
    /// `[map, {c0, c1}]`: a tensor map and its coordinates.
    TensorAddress(Box<(Base, ThinVec<Operand>)>),
    /// A label, or the name of a list of them.
    Label(Box<String>),
    /// The address of a variable: `mov.u32 %r1, smem;`.
    Symbol(Box<String>),
    /// An address at a distance in bytes from that of a variable: `mov.u32 %r1, smem+16;`.
    SymbolOffset(Box<(String, i64)>),
    /// A special register such as `%tid.x`.
    Special(Special),
    /// `%p1|%p2` as a destination (setp, elect.sync); the second may be `_`.
    Pair(Box<(Operand, Operand)>),
    /// `_`, a result that is discarded.
    Sink,
}

const _: () = assert!(size_of::<Operand>() == 16);

/// What an address starts from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register.
    Reg(Reg),
    /// A variable or parameter by name.
    Symbol(Box<String>),
    /// An absolute address.
    None,
}

/// The opcode with all its modifiers.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant's text shows its fields; their names are PTX's own
pub enum Opcode {
    /// `mov.ty d, a`.
    Mov(Type),
    /// `ld[.order][.space][.cache][.prefetch][.vN].ty d, [a]`.
    Ld { order: Order, space: Space, cache: Cache, prefetch: PrefetchSize, vector: u8, ty: Type },
    /// `st[.order][.space][.cache][.vN].ty [a], b`.
    St { order: Order, space: Space, cache: Cache, vector: u8, ty: Type },
    /// `add[.rnd].ty d, a, b`. The compiler keeps subnormals and never emits `.ftz`; see [`Opcode::Modified`] for that
    /// and `.sat`.
    Add { rnd: Rounding, ty: Type },
    /// `sub`.
    Sub { rnd: Rounding, ty: Type },
    /// `mul` of floats.
    Mul { rnd: Rounding, ty: Type },
    /// `mul.lo/.hi/.wide` of integers; `ty` is the sources' type.
    MulInt { half: Half, ty: Type },
    /// `mad.lo/.hi/.wide` of integers.
    MadInt { half: Half, ty: Type },
    /// `fma.rnd.ty d, a, b, c`.
    Fma { rnd: Rounding, ty: Type },
    /// `div`: integers without rounding, floats with; `approx` and `full` are [`Opcode::DivFast`].
    Div { rnd: Rounding, ty: Type },
    /// `rem`.
    Rem(Type),
    /// `min[.NaN]`; in single precision, there may be three sources.
    Min { nan: bool, ty: Type },
    /// `max[.NaN]`; in single precision, there may be three sources.
    Max { nan: bool, ty: Type },
    /// `abs`.
    Abs(Type),
    /// `neg`.
    Neg(Type),
    /// `and`.
    And(Type),
    /// `or`.
    Or(Type),
    /// `xor`.
    Xor(Type),
    /// `not`.
    Not(Type),
    /// `shl`.
    Shl(Type),
    /// `shr`, arithmetic for signed types.
    Shr(Type),
    /// `setp.cmp.ty p, a, b`.
    Setp { cmp: Compare, ty: Type },
    /// `selp.ty d, a, b, p`.
    Selp(Type),
    /// `cvt[.rnd][.sat].to.from d, a`; `sat` is spelled `.satfinite` where `to` is an 8-bit float.
    Cvt { rnd: Rounding, sat: bool, to: Type, from: Type },
    /// `cvta[.to].space.ty d, a`.
    Cvta { to: bool, space: Space, ty: Type },
    /// `ex2.approx.f32`, `tanh.approx.f32`, `rcp.approx.f32`, `lg2`, `sqrt`, `rsqrt`, `sin`, `cos`.
    Approx { function: Approx, ty: Type },
    /// `bra[.uni] label`.
    Bra { uniform: bool },
    /// `brx.idx[.uni] index, list`: branches to one of the labels of a [`crate::module::Statement::Targets`].
    BraIndexed { uniform: bool },
    /// `bar.sync a[, b]` and `barrier.cta.sync[.aligned]`, printed as `bar.sync`.
    BarSync,
    /// `bar.arrive a, b`.
    BarArrive,
    /// `bar.warp.sync mask`.
    BarWarpSync,
    /// `ret`.
    Ret,
    /// `exit`.
    Exit,
    /// `cp.async.ca|cg.shared.global[.prefetch] [d], [s], bytes[, src-size]`.
    CpAsync { cache: Cache, prefetch: PrefetchSize },
    /// `cp.async.commit_group`.
    CpAsyncCommit,
    /// `cp.async.wait_group n`.
    CpAsyncWait,
    /// `cp.async.wait_all`.
    CpAsyncWaitAll,
    /// `fence.acq_rel|sc|acquire|release.scope`; `membar.gl` and the like are other names for `fence.sc`.
    Fence { order: FenceOrder, scope: Scope },
    /// `atom[.order].space.op.ty d, [a], b[, c]`.
    Atom { order: Order, space: Space, op: Atomic, ty: Type },
    /// `red`: an atomic without a destination.
    Red { order: Order, space: Space, op: Atomic, ty: Type },
    /// `atom[.order][.space].op[.noftz].vN.ty {d}, [a], {b}`: one atomic for each element of the vector.
    AtomVector { order: Order, space: Space, op: Atomic, vector: u8, ty: Type },
    /// `red[.order][.space].op[.noftz].vN.ty [a], {b}`.
    RedVector { order: Order, space: Space, op: Atomic, vector: u8, ty: Type },
    /// `div.approx.f32`, `div.full.f32`.
    DivFast { kind: FastDivision, ty: Type },
    /// `rcp.rn.ty`, rounded as IEEE 754 requires.
    Rcp { rnd: Rounding, ty: Type },
    /// `sqrt.rn.ty`, rounded as IEEE 754 requires.
    Sqrt { rnd: Rounding, ty: Type },
    /// `bfe.ty d, a, position, length`.
    Bfe(Type),
    /// `bfi.ty d, a, b, position, length`: inserts the low bits of `a` into `b`.
    Bfi(Type),
    /// `popc.ty d, a`.
    Popc(Type),
    /// `clz.ty d, a`.
    Clz(Type),
    /// `brev.ty d, a`.
    Brev(Type),
    /// `prmt.b32 d, a, b, selector`.
    Prmt,
    /// `lop3.b32 d, a, b, c, table`.
    Lop3,
    /// `shf.l|r.wrap|clamp.b32 d, low, high, amount`.
    Shf { direction: Direction, mode: ShiftMode },
    /// `bmsk.mode.b32 d, a, b`: a mask of `b` ones from bit `a` up.
    Bmsk(ShiftMode),
    /// `szext.mode.type d, a, b`: `a` from its lowest `b` bits.
    Szext { mode: ShiftMode, ty: Type },
    /// `isspacep.space p, a`.
    IsSpaceP(Space),
    /// `nanosleep.u32 t`.
    Nanosleep,
    /// `trap`.
    Trap,
    /// `shfl.sync.mode.b32 d[|p], a, b, c, mask`.
    Shfl(Shuffle),
    /// `shfl.mode.b32 d[|p], a, b, c` of the lanes that are active, before sm_70.
    ShflActive(Shuffle),
    /// `vote.sync.all|any|uni.pred p, q, mask`, `vote.sync.ballot.b32 d, q, mask`.
    Vote(Vote),
    /// `vote.mode d, a` of the lanes that are active, before sm_70.
    VoteActive(Vote),
    /// `activemask.b32 d`.
    ActiveMask,
    /// `redux.sync.op[.abs][.NaN].ty d, a, mask`.
    Redux { op: Atomic, abs: bool, nan: bool, ty: Type },
    /// `elect.sync d|p, mask`.
    Elect,
    /// `barrier.sync a[, b]`, without `.aligned`: the threads of a warp may reach it along different paths.
    BarrierSync,
    /// `barrier.arrive a, b`, without `.aligned`.
    BarrierArrive,
    /// `barrier.cluster.arrive[.order][.aligned]`.
    ClusterArrive { order: ClusterOrder, alignment: Alignment },
    /// `barrier.cluster.wait[.acquire][.aligned]`.
    ClusterWait { order: ClusterOrder, alignment: Alignment },
    /// `mapa[.shared::cluster].ty d, a, block`.
    Mapa { space: Space, ty: Type },
    /// `getctarank[.shared::cluster].ty d, a`; `d` has 32 bits.
    GetCtaRank { space: Space, ty: Type },
    /// `setmaxnreg.inc|dec.sync.aligned.u32 n`.
    SetMaxNReg(Resize),
    /// `griddepcontrol.wait`, `griddepcontrol.launch_dependents`.
    GridDepControl(GridDependency),
    /// `mma.sync.aligned.shape.row.col[.satfinite].d.a.b.c {d}, {a}, {b}, {c}`.
    Mma { shape: Shape, overflow: Overflow, d: Element, a: Element, b: Element, c: Element },
    /// `wmma.load.a|b|c.sync.aligned.layout.shape[.space].type {d}, [a][, stride]`.
    WmmaLoad { part: Part, layout: Layout, shape: Shape, space: Space, element: Element },
    /// `wmma.store.d.sync.aligned.layout.shape[.space].type [a], {b}[, stride]`.
    WmmaStore { layout: Layout, shape: Shape, space: Space, element: Element },
    /// `wmma.mma.sync.aligned.layout.layout.shape[.rnd].d[.a.b].c {d}, {a}, {b}, {c}`; the types of A and B are left out
    /// if they are f16.
    WmmaMultiply {
        layouts: [Layout; 2],
        shape: Shape,
        rnd: Rounding,
        d: Element,
        ab: Element,
        c: Element,
        overflow: Overflow,
    },
    /// `wmma.mma.xor|and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {d}, {a}, {b}, {c}`.
    WmmaBits { xor: bool },
    /// `wgmma.mma_async.sync.aligned.shape[.satfinite].d.a.b {d}, a, b, scale-d[, scale-a, scale-b[, trans-a], trans-b]`.
    Wgmma { shape: Shape, overflow: Overflow, d: Element, a: Element, b: Element },
    /// `wgmma.fence.sync.aligned`.
    WgmmaFence,
    /// `wgmma.commit_group.sync.aligned`.
    WgmmaCommit,
    /// `wgmma.wait_group.sync.aligned n`.
    WgmmaWait,
    /// `ldmatrix.sync.aligned.m8n8.xN[.trans].space.b16 {d}, [a]`.
    LdMatrix { matrices: u8, transpose: Transpose, space: Space },
    /// `stmatrix.sync.aligned.m8n8.xN[.trans].space.b16 [a], {b}`.
    StMatrix { matrices: u8, transpose: Transpose, space: Space },
    /// `mbarrier.init[.space].b64 [a], count`.
    MbarrierInit { space: Space },
    /// `mbarrier.inval[.space].b64 [a]`.
    MbarrierInval { space: Space },
    /// `mbarrier.arrive[.expect_tx][.order][.space].b64 d|_, [a][, count or bytes]`.
    MbarrierArrive { arrival: Arrival, order: Order, space: Space },
    /// `mbarrier.expect_tx|complete_tx[.order][.space].b64 [a], bytes`.
    MbarrierTx { transaction: Transaction, order: Order, space: Space },
    /// `mbarrier.test_wait|try_wait[.parity][.order][.space].b64 p, [a], state or parity[, hint]`.
    MbarrierWait { wait: Wait, phase: Phase, order: Order, space: Space },
    /// `mbarrier.pending_count.b64 d, state`.
    MbarrierPendingCount,
    /// `cp.async.mbarrier.arrive[.noinc][.space].b64 [a]`.
    CpAsyncArrive { pending: Pending, space: Space },
    /// `fence.mbarrier_init.release.cluster`.
    FenceMbarrierInit,
    /// `fence.proxy.async[.space]`.
    FenceProxyAsync { space: Space },
    /// `fence.proxy.tensormap::generic.release.scope`, `fence.proxy.tensormap::generic.acquire.scope [a], 128`.
    FenceProxyTensormap { acquire: bool, scope: Scope },
    /// `tensormap.replace.tile.field.space.b1024.b32|b64 [map], [ordinal, ]value`.
    TensormapReplace { field: MapField, space: Space },
    /// `tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [d], [s], 128`.
    TensormapCopy { scope: Scope },
    /// `cp.async.bulk.to.from.completion… [d], [s], bytes, [mbarrier][, mask][, policy]`; to global without the mbarrier.
    BulkCopy { to: Space, from: Space, multicast: Multicast, hint: CacheHint },
    /// `cp.reduce.async.bulk.global.shared::cta.bulk_group[.hint].op.ty [d], [s], bytes[, policy]`.
    BulkReduce { hint: CacheHint, op: Atomic, ty: Type },
    /// `cp.reduce.async.bulk.shared::cluster.shared::cta.completion.op.ty [d], [s], bytes, [mbarrier]`.
    BulkReduceShared { op: Atomic, ty: Type },
    /// `st.async[.weak][.space].mbarrier::complete_tx::bytes[.vN].ty [a], b, [mbarrier]`.
    StAsync { space: Space, vector: u8, ty: Type },
    /// `red.async.relaxed.cluster[.space].mbarrier::complete_tx::bytes.op.ty [a], b, [mbarrier]`.
    RedAsync { space: Space, op: Atomic, ty: Type },
    /// `cp.async.bulk.prefetch.L2.global[.hint] [s], bytes[, policy]`.
    BulkPrefetch { hint: CacheHint },
    /// `cp.async.bulk.tensor.Nd.to.global.mode.completion… [d], [map, {c}], [mbarrier][, {offsets}][, mask][, policy]`.
    TensorLoad { dimensions: u8, to: Space, mode: TensorMode, multicast: Multicast, hint: CacheHint },
    /// `cp.async.bulk.tensor.Nd.global.shared::cta.mode.bulk_group… [map, {c}], [s][, policy]`.
    TensorStore { dimensions: u8, mode: TensorMode, hint: CacheHint },
    /// `cp.reduce.async.bulk.tensor.Nd.global.shared::cta.op.mode.bulk_group… [map, {c}], [s][, policy]`.
    TensorReduce { dimensions: u8, op: Atomic, mode: TensorMode, hint: CacheHint },
    /// `cp.async.bulk.prefetch.tensor.Nd.L2.global.mode… [map, {c}][, {offsets}][, policy]`.
    TensorPrefetch { dimensions: u8, mode: TensorMode, hint: CacheHint },
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group[.read] n`.
    BulkWait(BulkDone),
    /// `prefetch[.space].L1|L2|tensormap [a]`.
    Prefetch { space: Space, what: Prefetched },
    /// `createpolicy.fractional.primary[.secondary].b64 d[, fraction]`.
    CreatePolicy { primary: Eviction, secondary: Eviction },
    /// An instruction with `.ftz`, which flushes subnormal operands and results to zero, with `.sat`, which clamps a
    /// float to [0, 1] and an integer to its range, or with `.relu`, which replaces negative results and NaN.
    Modified { op: Box<Opcode>, ftz: bool, sat: bool, relu: bool },
    /// A memory access with hints to the caches. A cache policy among them is one more operand at the end.
    Hinted { op: Box<Opcode>, hints: Hints },
    /// `add.cc.ty d, a, b`, `addc[.cc]`, `sub.cc`, `mad.lo.cc`, `madc.hi` and the like: it `takes` a carry, `gives`
    /// one, or both.
    Carry { of: CarryOf, takes: bool, gives: bool, ty: Type },
    /// `bfind[.shiftamt].ty d, a`: the position of the highest bit that differs from the sign.
    Bfind { shift_amount: bool, ty: Type },
    /// `prmt.b32.mode d, a, b, c`.
    PrmtMode(Permutation),
    /// `copysign.ty d, a, b`: the sign of `a` and the magnitude of `b`.
    CopySign(Type),
    /// `sad.ty d, a, b, c`: `c` plus the absolute difference of `a` and `b`.
    Sad(Type),
    /// `dp4a.a.b d, a, b, c`: a dot product of four bytes.
    Dp4a { a: Type, b: Type },
    /// `dp2a.lo|hi.a.b d, a, b, c`: a dot product of two 16-bit numbers and two bytes, the lower or the higher ones of
    /// `b`.
    Dp2a { high: bool, a: Type, b: Type },
    /// `testp.what.ty p, a`.
    TestP { what: FloatTest, ty: Type },
    /// `cnot.ty d, a`: 1 if `a` is zero, otherwise 0.
    Cnot(Type),
    /// `lop3.and|or.b32 d|p, a, b, c, table, [!]q`: `p` is whether `d` is not zero, combined with `q`.
    Lop3With(Combine),
    /// `min|max[.NaN].xorsign.abs.ty d, a, b`: of the magnitudes, with the exclusive or of the signs.
    XorSign { max: bool, nan: bool, ty: Type },
    /// `cvt.rnd.satfinite.to.f32 d, a[, b]`, where a result beyond the largest finite number becomes that.
    CvtFinite { rnd: Rounding, to: Type },
    /// `vadd2|vadd4|vsub2|….d.a.b[.sat|.add] d, a, b, c`, without masks and selections.
    Video { op: Video, parts: Parts, merge: Merge, d: Type, a: Type, b: Type },
    /// `vset2|vset4.a.b.cmp[.add] d, a, b, c`: 1 or 0 for each part.
    VideoSet { parts: Parts, add: bool, cmp: Compare, a: Type, b: Type },
    /// `movmatrix.sync.aligned.m8n8.trans.b16 d, a`: transposes a matrix that the warp holds.
    MovMatrix,
    /// `match.any.sync.ty d, a, mask`, `match.all.sync.ty d[|p], a, mask`.
    Match { all: bool, ty: Type },
    /// `setp.cmp.and|or|xor.ty p[|q], a, b, [!]c`.
    SetpWith { cmp: Compare, with: Combine, ty: Type },
    /// `set.cmp.to.from d, a, b`: all ones or 1.0, or zero; for pairs of 16-bit floats, in each half.
    Set { cmp: Compare, to: Type, from: Type },
    /// `slct.ty.f32|s32 d, a, b, c`: `a` if `c` is not negative.
    Slct { ty: Type, by: Type },
    /// `fns.b32 d, mask, base, offset`: the position of the n-th set bit.
    Fns,
    /// `mul24.lo|hi.ty d, a, b`: a product of 24-bit numbers.
    Mul24 { half: Half, ty: Type },
    /// `mad24.lo|hi.ty d, a, b, c`.
    Mad24 { half: Half, ty: Type },
    /// `cvt.pack.sat.to.s32[.b32] d, a, b[, c]`: `a` above `b`, and for 8 bits the low half of `c` above both.
    CvtPack { to: Type, with: bool },
    /// `bar.red.op d, a[, b], [!]p`, and `barrier.red` without `.aligned`.
    BarRed { op: BarReduction, alignment: Alignment },
    /// `mbarrier.arrive_drop[.…][.order][.space].b64 d|_, [a][, count or bytes]`: it also leaves the mbarrier.
    MbarrierArriveDrop { arrival: Arrival, order: Order, space: Space },
    /// An instruction that this crate does not know; the string is its mnemonic as written. It survives parsing and
    /// printing, and executing it is an error.
    Unknown(String),
}

impl Opcode {
    /// The opcode without hints to the caches.
    pub fn unhinted(&self) -> &Opcode {
        match self {
            Opcode::Hinted { op, .. } => op,
            op => op,
        }
    }
}

/// What an instruction is for, printed after it as `//@ clause: what`. Many instructions share one note.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note(Arc<Purpose>);

/// The content of a [`Note`].
#[derive(Debug, Eq)]
pub struct Purpose {
    /// The clause, as canonical text.
    pub clause: Arc<str>,
    /// What the instruction does for it.
    pub what: Arc<str>,
    /// The number of the place in a compiler that wrote the instruction. It is not printed, a parsed note has none, and
    /// notes that differ in it alone are equal.
    pub site: Option<u16>,
}

impl PartialEq for Purpose {
    fn eq(&self, other: &Purpose) -> bool {
        (&self.clause, &self.what) == (&other.clause, &other.what)
    }
}

impl std::hash::Hash for Purpose {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.clause, &self.what).hash(state);
    }
}

impl Note {
    /// A note from its two parts.
    pub fn new(clause: impl Into<Arc<str>>, what: impl Into<Arc<str>>) -> Note {
        Note(Arc::new(Purpose { clause: clause.into(), what: what.into(), site: None }))
    }

    /// The same of an instruction that a certain place of a compiler wrote.
    pub fn at(clause: impl Into<Arc<str>>, what: impl Into<Arc<str>>, site: u16) -> Note {
        Note(Arc::new(Purpose { clause: clause.into(), what: what.into(), site: Some(site) }))
    }

    /// True if both share one allocation; equal notes need not.
    pub fn is_same(&self, other: &Note) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::ops::Deref for Note {
    type Target = Purpose;

    fn deref(&self) -> &Purpose {
        &self.0
    }
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The guard, if any.
    pub guard: Option<Guard>,
    /// Opcode.
    pub op: Opcode,
    /// Operands in PTX order.
    pub operands: Vec<Operand>,
    /// The note about the origin, if any.
    pub note: Option<Note>,
}
