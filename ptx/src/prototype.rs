//! One opcode of each kind for the parser to start from. Its fields have the values that a mnemonic implies by leaving
//! them out.

use crate::asynchronous::{
    Arrival, BulkDone, CacheHint, Eviction, MapField, Multicast, Pending, Phase, PrefetchSize, Prefetched, TensorMode,
    Transaction, Wait,
};
use crate::extended::{BarReduction, CarryOf, Combine, FloatTest, Merge, Parts, Permutation, Video};
use crate::instruction::{Approx, Atomic, Cache, Compare, FenceOrder, Half, Opcode, Order, Rounding, Scope};
use crate::matrix::{Element, Layout, Overflow, Part, Shape, Transpose};
use crate::table::row;
use crate::types::{Space, Type};
use crate::warp::{Alignment, ClusterOrder, Direction, FastDivision, GridDependency, Resize, ShiftMode, Shuffle, Vote};

/// The prototypes with a stem that starts this mnemonic, longest stem first.
pub(crate) fn starting(mnemonic: &str) -> impl Iterator<Item = &'static Opcode> {
    let first = first_word(mnemonic);
    let start = PROTOTYPES.partition_point(|op| first_word(row(op).stem) < first);
    PROTOTYPES[start..].iter().take_while(move |op| first_word(row(op).stem) == first).filter(move |op| {
        mnemonic.strip_prefix(row(op).stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// All prototypes.
pub(crate) fn all() -> &'static [Opcode] {
    PROTOTYPES
}

fn first_word(mnemonic: &str) -> &str {
    mnemonic.split('.').next().unwrap_or("")
}

const fn approx(function: Approx) -> Opcode {
    Opcode::Approx { function, ty: Type::F32 }
}

const fn video(op: Video, parts: Parts) -> Opcode {
    Opcode::Video { op, parts, merge: Merge::Wrap, d: Type::U32, a: Type::U32, b: Type::U32 }
}

const fn wmma_load(part: Part) -> Opcode {
    let (shape, space) = (Shape::new(16, 16, 16), Space::Generic);
    Opcode::WmmaLoad { part, layout: Layout::Row, shape, space, element: Element::F16 }
}

/// One opcode of each kind, sorted by the first word of the stem, longer stems first. The fields have the values that a
/// mnemonic implies by leaving them out.
static PROTOTYPES: &[Opcode] = &[
    Opcode::Abs(Type::B32),
    Opcode::ActiveMask,
    Opcode::Add { rnd: Rounding::None, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::Add, takes: false, gives: false, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::Add, takes: true, gives: false, ty: Type::B32 },
    Opcode::And(Type::B32),
    Opcode::Atom { order: Order::Weak, space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::AtomVector { order: Order::Weak, space: Space::Generic, op: Atomic::Add, vector: 2, ty: Type::F32 },
    Opcode::BarWarpSync,
    Opcode::BarRed { op: BarReduction::Popc, alignment: Alignment::Aligned },
    Opcode::BarSync,
    Opcode::BarArrive,
    Opcode::BarRed { op: BarReduction::Popc, alignment: Alignment::Free },
    Opcode::BarrierSync,
    Opcode::BarrierArrive,
    Opcode::ClusterArrive { order: ClusterOrder::Unstated, alignment: Alignment::Free },
    Opcode::ClusterWait { order: ClusterOrder::Unstated, alignment: Alignment::Free },
    Opcode::Bfe(Type::B32),
    Opcode::Bfi(Type::B32),
    Opcode::Bfind { shift_amount: false, ty: Type::B32 },
    Opcode::Bmsk(ShiftMode::Clamp),
    Opcode::Bra { uniform: false },
    Opcode::Brev(Type::B32),
    Opcode::BraIndexed { uniform: false },
    Opcode::Clz(Type::B32),
    Opcode::Cnot(Type::B32),
    Opcode::CopySign(Type::F32),
    approx(Approx::Cos),
    Opcode::CpAsyncCommit,
    Opcode::CpAsyncWait,
    Opcode::CpAsyncWaitAll,
    Opcode::CpAsync { cache: Cache::None, prefetch: PrefetchSize::None },
    Opcode::CpAsyncArrive { pending: Pending::Added, space: Space::Generic },
    Opcode::TensorLoad {
        dimensions: 1,
        to: Space::SharedCluster,
        mode: TensorMode::Tile,
        multicast: Multicast::None,
        hint: CacheHint::None,
    },
    Opcode::TensorStore { dimensions: 1, mode: TensorMode::Tile, hint: CacheHint::None },
    Opcode::TensorPrefetch { dimensions: 1, mode: TensorMode::Tile, hint: CacheHint::None },
    Opcode::TensorReduce { dimensions: 1, op: Atomic::Add, mode: TensorMode::Tile, hint: CacheHint::None },
    Opcode::BulkPrefetch { hint: CacheHint::None },
    Opcode::BulkReduce { hint: CacheHint::None, op: Atomic::Add, ty: Type::B32 },
    Opcode::BulkReduceShared { op: Atomic::Add, ty: Type::B32 },
    Opcode::BulkCommit,
    Opcode::BulkWait(BulkDone::Written),
    Opcode::BulkCopy {
        to: Space::SharedCluster,
        from: Space::Global,
        multicast: Multicast::None,
        hint: CacheHint::None,
    },
    Opcode::CreatePolicy { primary: Eviction::Normal, secondary: Eviction::Unstated },
    Opcode::CvtPack { to: Type::S16, with: false },
    Opcode::Cvt { rnd: Rounding::None, sat: false, to: Type::B32, from: Type::B32 },
    Opcode::CvtFinite { rnd: Rounding::None, to: Type::F16 },
    Opcode::Cvta { to: false, space: Space::Generic, ty: Type::U64 },
    Opcode::Div { rnd: Rounding::None, ty: Type::B32 },
    Opcode::DivFast { kind: FastDivision::Full, ty: Type::F32 },
    Opcode::Dp2a { high: false, a: Type::U32, b: Type::U32 },
    Opcode::Dp4a { a: Type::U32, b: Type::U32 },
    Opcode::Elect,
    approx(Approx::Ex2),
    Opcode::Exit,
    Opcode::Fence { order: FenceOrder::AcqRel, scope: Scope::Gpu },
    Opcode::FenceMbarrierInit,
    Opcode::FenceProxyAsync { space: Space::Generic },
    Opcode::FenceProxyTensormap { acquire: false, scope: Scope::Gpu },
    Opcode::Fma { rnd: Rounding::None, ty: Type::F32 },
    Opcode::Fns,
    Opcode::GetCtaRank { space: Space::Generic, ty: Type::U32 },
    Opcode::GridDepControl(GridDependency::Wait),
    Opcode::IsSpaceP(Space::Generic),
    Opcode::Ld {
        order: Order::Weak,
        space: Space::Generic,
        cache: Cache::None,
        prefetch: PrefetchSize::None,
        vector: 1,
        ty: Type::B32,
    },
    Opcode::LdMatrix { matrices: 1, transpose: Transpose::No, space: Space::Generic },
    approx(Approx::Lg2),
    Opcode::Lop3,
    Opcode::Lop3With(Combine::And),
    Opcode::Carry { of: CarryOf::MadLo, takes: false, gives: false, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::MadHi, takes: false, gives: false, ty: Type::B32 },
    Opcode::MadInt { half: Half::Lo, ty: Type::B32 },
    Opcode::Mad24 { half: Half::Lo, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::MadLo, takes: true, gives: false, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::MadHi, takes: true, gives: false, ty: Type::B32 },
    Opcode::Mapa { space: Space::Generic, ty: Type::U32 },
    Opcode::Match { all: false, ty: Type::B32 },
    Opcode::Max { nan: false, ty: Type::B32 },
    Opcode::XorSign { max: true, nan: false, ty: Type::F32 },
    Opcode::MbarrierInit { space: Space::Generic },
    Opcode::MbarrierInval { space: Space::Generic },
    Opcode::MbarrierArriveDrop { arrival: Arrival::Plain, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierArrive { arrival: Arrival::Plain, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierTx { transaction: Transaction::Expect, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierTx { transaction: Transaction::Complete, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierWait { wait: Wait::Test, phase: Phase::State, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierWait { wait: Wait::Try, phase: Phase::State, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierPendingCount,
    Opcode::Min { nan: false, ty: Type::B32 },
    Opcode::XorSign { max: false, nan: false, ty: Type::F32 },
    Opcode::Mma {
        shape: Shape::new(16, 8, 16),
        overflow: Overflow::Wrap,
        d: Element::F32,
        a: Element::F16,
        b: Element::F16,
        c: Element::F32,
    },
    Opcode::Mov(Type::B32),
    Opcode::MovMatrix,
    Opcode::Mul { rnd: Rounding::None, ty: Type::F32 },
    Opcode::MulInt { half: Half::Lo, ty: Type::B32 },
    Opcode::Mul24 { half: Half::Lo, ty: Type::B32 },
    Opcode::Nanosleep,
    Opcode::Neg(Type::B32),
    Opcode::Not(Type::B32),
    Opcode::Or(Type::B32),
    Opcode::Popc(Type::B32),
    Opcode::Prefetch { space: Space::Generic, what: Prefetched::L2 },
    Opcode::Prmt,
    Opcode::PrmtMode(Permutation::F4e),
    approx(Approx::Rcp),
    Opcode::Rcp { rnd: Rounding::Rn, ty: Type::F32 },
    Opcode::Red { order: Order::Weak, space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::RedVector { order: Order::Weak, space: Space::Generic, op: Atomic::Add, vector: 2, ty: Type::F32 },
    Opcode::RedAsync { space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::Redux { op: Atomic::Add, abs: false, nan: false, ty: Type::B32 },
    Opcode::Rem(Type::B32),
    Opcode::Ret,
    approx(Approx::Rsqrt),
    Opcode::Sad(Type::B32),
    Opcode::Selp(Type::B32),
    Opcode::Set { cmp: Compare::Eq, to: Type::U32, from: Type::B32 },
    Opcode::SetMaxNReg(Resize::Dec),
    Opcode::Setp { cmp: Compare::Eq, ty: Type::B32 },
    Opcode::SetpWith { cmp: Compare::Eq, with: Combine::And, ty: Type::B32 },
    Opcode::Shf { direction: Direction::Left, mode: ShiftMode::Wrap },
    Opcode::Shfl(Shuffle::Idx),
    Opcode::ShflActive(Shuffle::Idx),
    Opcode::Shl(Type::B32),
    Opcode::Shr(Type::B32),
    approx(Approx::Sin),
    Opcode::Slct { ty: Type::B32, by: Type::S32 },
    approx(Approx::Sqrt),
    Opcode::Sqrt { rnd: Rounding::Rn, ty: Type::F32 },
    Opcode::St { order: Order::Weak, space: Space::Generic, cache: Cache::None, vector: 1, ty: Type::B32 },
    Opcode::StAsync { space: Space::Generic, vector: 1, ty: Type::B32 },
    Opcode::StMatrix { matrices: 1, transpose: Transpose::No, space: Space::Generic },
    Opcode::Sub { rnd: Rounding::None, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::Sub, takes: false, gives: false, ty: Type::B32 },
    Opcode::Carry { of: CarryOf::Sub, takes: true, gives: false, ty: Type::B32 },
    Opcode::Szext { mode: ShiftMode::Clamp, ty: Type::U32 },
    approx(Approx::Tanh),
    Opcode::TensormapCopy { scope: Scope::Gpu },
    Opcode::TensormapReplace { field: MapField::GlobalAddress, space: Space::Generic },
    Opcode::TestP { what: FloatTest::Finite, ty: Type::F32 },
    Opcode::Trap,
    video(Video::AbsDiff, Parts::Halves),
    video(Video::AbsDiff, Parts::Bytes),
    video(Video::Add, Parts::Halves),
    video(Video::Add, Parts::Bytes),
    video(Video::Avrg, Parts::Halves),
    video(Video::Avrg, Parts::Bytes),
    video(Video::Max, Parts::Halves),
    video(Video::Max, Parts::Bytes),
    video(Video::Min, Parts::Halves),
    video(Video::Min, Parts::Bytes),
    Opcode::Vote(Vote::All),
    Opcode::VoteActive(Vote::All),
    Opcode::VideoSet { parts: Parts::Halves, add: false, cmp: Compare::Eq, a: Type::U32, b: Type::U32 },
    Opcode::VideoSet { parts: Parts::Bytes, add: false, cmp: Compare::Eq, a: Type::U32, b: Type::U32 },
    video(Video::Sub, Parts::Halves),
    video(Video::Sub, Parts::Bytes),
    Opcode::Wgmma {
        shape: Shape::new(64, 8, 16),
        overflow: Overflow::Wrap,
        d: Element::F32,
        a: Element::F16,
        b: Element::F16,
    },
    Opcode::WgmmaFence,
    Opcode::WgmmaCommit,
    Opcode::WgmmaWait,
    wmma_load(Part::A),
    wmma_load(Part::B),
    wmma_load(Part::C),
    Opcode::WmmaStore {
        layout: Layout::Row,
        shape: Shape::new(16, 16, 16),
        space: Space::Generic,
        element: Element::F32,
    },
    Opcode::WmmaMultiply {
        layouts: [Layout::Row; 2],
        shape: Shape::new(16, 16, 16),
        rnd: Rounding::None,
        d: Element::F32,
        ab: Element::F16,
        c: Element::F32,
        overflow: Overflow::Wrap,
    },
    Opcode::WmmaBits { xor: false },
    Opcode::WmmaBits { xor: true },
    Opcode::Xor(Type::B32),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mnemonic;
    use crate::text::Text;

    /// The search goes by the first word and needs the table to be sorted.
    #[test]
    fn sorted_by_first_word() {
        let words: Vec<_> = PROTOTYPES.iter().map(|op| first_word(row(op).stem)).collect();
        assert!(words.is_sorted(), "{words:?}");
    }

    /// Each prototype's own mnemonic leads back to it.
    #[test]
    fn read_as_written() {
        for op in PROTOTYPES {
            let mut text = Text::default();
            mnemonic::write(op, &mut text);
            let text = text.finish();
            // `mul.b32` exists for neither floats nor integers, and `isspacep` does not exist for the generic space.
            let read = mnemonic::read(&text);
            assert!(
                read == *op
                    || matches!(
                        op,
                        Opcode::Mul { .. }
                            | Opcode::Carry { .. }
                            | Opcode::CpAsync { .. }
                            | Opcode::Cvta { .. }
                            | Opcode::IsSpaceP(_)
                    ),
                "{text}: {read:?}"
            );
        }
    }
}
