//! Rows of mbarriers, bulk copies and tensor copies.

use super::{AMPERE, BULK, COUNT, GROUPS, HOPPER, STATE, atomic_types, extended, order_since, space_since};
use crate::asynchronous::{Arrival, CacheHint, MapField, Multicast, Phase, Prefetched, TensorMode, Transaction, Wait};
use crate::instruction::{Atomic, Opcode, Order};
use crate::signature::{Class, Row, Since, Slot, Types};
use crate::types::{Space, Type};

const STATE_OR_SINK: Slot = Slot::WriteOrSink(STATE);
const WAIT_STATE: &[Slot] = &[Slot::Write(Class::Is(Type::Pred)), Slot::Address, Slot::Read(STATE), Slot::Read(COUNT)];
const WAIT_PARITY: &[Slot] = &[Slot::Write(Class::Is(Type::Pred)), Slot::Address, Slot::Read(COUNT), Slot::Read(COUNT)];
const SHARED: Slot = Slot::AddressIn(Space::Shared);
const GLOBAL: Slot = Slot::AddressIn(Space::Global);
const BYTES: Slot = Slot::Bounded { min: 0, max: i32::MAX as i64, step: 16 };
const MAP_BYTES: Slot = Slot::Constant { min: 128, max: 128, step: 128 };
const MASK: Slot = Slot::Read(Class::Is(Type::U16));
const POLICY: Slot = Slot::Read(STATE);
const OFFSETS: Slot = Slot::ReadFragment(1);
const BULK_STORE: &[Slot] = &[GLOBAL, SHARED, BYTES, POLICY];
const BULK_PREFETCH: &[Slot] = &[GLOBAL, BYTES, POLICY];
const BULK_LOAD: &[Slot] = &[SHARED, Slot::Address, BYTES, SHARED, MASK, POLICY];
const BULK_LOAD_ALONE: &[Slot] = &[SHARED, Slot::Address, BYTES, SHARED, POLICY];
const TENSOR_LOAD: &[Slot] = &[SHARED, Slot::Tensor, SHARED, MASK, POLICY];
const TENSOR_LOAD_ALONE: &[Slot] = &[SHARED, Slot::Tensor, SHARED, POLICY];
const IM2COL_LOAD: &[Slot] = &[SHARED, Slot::Tensor, SHARED, OFFSETS, MASK, POLICY];
const IM2COL_LOAD_ALONE: &[Slot] = &[SHARED, Slot::Tensor, SHARED, OFFSETS, POLICY];
const IM2COL_PREFETCH: &[Slot] = &[Slot::Tensor, OFFSETS, POLICY];

/// Rows of mbarriers, bulk copies and tensor copies.
pub(super) fn row(op: &Opcode) -> Row {
    match op {
        Opcode::MbarrierInit { space } => barrier_row("mbarrier.init", &[Slot::Address, Slot::Read(COUNT)], *space),
        Opcode::MbarrierInval { space } => barrier_row("mbarrier.inval", &[Slot::Address], *space),
        Opcode::MbarrierArrive { arrival, order, space } => {
            // An arrival at a remote barrier returns no state. An explicit ordering or transaction is newer than the
            // instruction itself.
            let optional = usize::from(*arrival == Arrival::Plain);
            let since = match (arrival, order, space) {
                (Arrival::ExpectTx, ..) | (_, _, Space::SharedCluster) => BULK,
                (_, Order::Weak, _) => AMPERE,
                _ => Since::sm(80, (8, 0)),
            };
            let row = barrier_row("mbarrier.arrive", &[STATE_OR_SINK, Slot::Address, Slot::Read(COUNT)], *space);
            row.optional(optional).since(row.since.with(since).with(order_since(*order)))
        }
        Opcode::MbarrierArriveDrop { arrival, order, space } => {
            let plain = row(&Opcode::MbarrierArrive { arrival: *arrival, order: *order, space: *space });
            Row { stem: "mbarrier.arrive_drop", ..plain }
        }
        Opcode::MbarrierTx { transaction, space, .. } => {
            let stem = match transaction {
                Transaction::Expect => "mbarrier.expect_tx",
                Transaction::Complete => "mbarrier.complete_tx",
            };
            barrier_row(stem, &[Slot::Address, Slot::Read(COUNT)], *space).since(BULK)
        }
        Opcode::MbarrierWait { wait, phase, order, space } => wait_row(*wait, *phase, *order, *space),
        Opcode::MbarrierPendingCount => {
            Row::plain("mbarrier.pending_count", &[Slot::Write(COUNT), Slot::Read(STATE)]).since(AMPERE)
        }
        Opcode::CpAsyncArrive { space, .. } => barrier_row("cp.async.mbarrier.arrive", &[Slot::Address], *space),
        Opcode::FenceMbarrierInit => Row::plain("fence.mbarrier_init.release.cluster", &[]).since(BULK),
        Opcode::FenceProxyAsync { .. } => Row::plain("fence.proxy.async", &[]).since(BULK),
        Opcode::FenceProxyTensormap { acquire, .. } => {
            let slots: &[Slot] = if *acquire { &[Slot::Address, MAP_BYTES] } else { &[] };
            Row::plain("fence.proxy.tensormap::generic", slots).since(Since::sm(90, (8, 3)))
        }
        Opcode::TensormapReplace { field, space } => {
            let since = Since::accelerated(90, (8, 3));
            Row::plain("tensormap.replace.tile", replaced(*field)).space(*space).since(since.with(space_since(*space)))
        }
        Opcode::TensormapCopy { .. } => Row::plain(
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release",
            &[GLOBAL, SHARED, MAP_BYTES],
        )
        .since(Since::sm(90, (8, 3))),
        Opcode::BulkCopy { to, from, multicast, hint } => bulk_copy(*to, *from, *multicast, *hint),
        Opcode::BulkReduce { hint, op, ty } => {
            let slots = if *hint == CacheHint::L2 { BULK_STORE } else { &BULK_STORE[..3] };
            Row::typed("cp.reduce.async.bulk.global.shared::cta.bulk_group", *ty, bulk_reduction_types(*op), slots)
                .since(BULK)
        }
        Opcode::BulkReduceShared { op, ty } => Row::typed(
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
            *ty,
            shared_reduction_types(*op),
            &[SHARED, SHARED, BYTES, SHARED],
        )
        .since(BULK),
        Opcode::StAsync { space, vector, ty } => {
            const WORDS: Types = Types::of(&[Type::B32, Type::U32, Type::S32, Type::F32]);
            const LONGS: Types = Types::of(&[Type::B64, Type::U64, Type::S64, Type::F64]);
            let slots: &[Slot] = match vector {
                1 => &[Slot::Address, Slot::Read(Class::Type(0)), Slot::Address],
                _ => &[Slot::Address, Slot::ReadVector, Slot::Address],
            };
            Row::typed("st.async", *ty, WORDS.and(LONGS), slots)
                .space(*space)
                .counts([*vector; 4])
                .since(Since::sm(90, (8, 1)))
        }
        Opcode::RedAsync { space, op, ty } => {
            let added = if *op == Atomic::Add { Types::of(&[Type::S64]) } else { Types::NONE };
            let slots = &[Slot::Address, Slot::Read(Class::Type(0)), Slot::Address];
            Row::typed("red.async.relaxed.cluster", *ty, shared_reduction_types(*op).and(added), slots)
                .space(*space)
                .since(Since::sm(90, (8, 1)))
        }
        Opcode::BulkPrefetch { hint } => {
            let slots = if *hint == CacheHint::L2 { BULK_PREFETCH } else { &BULK_PREFETCH[..2] };
            Row::plain("cp.async.bulk.prefetch.L2.global", slots).since(BULK)
        }
        Opcode::TensorLoad { dimensions, to, mode, multicast, hint } => {
            let slots = match (mode, multicast, hint) {
                (TensorMode::Im2col, Multicast::Cluster, CacheHint::L2) => IM2COL_LOAD,
                (TensorMode::Im2col, Multicast::Cluster, CacheHint::None) => &IM2COL_LOAD[..5],
                (TensorMode::Im2col, Multicast::None, CacheHint::L2) => IM2COL_LOAD_ALONE,
                (TensorMode::Im2col, Multicast::None, CacheHint::None) => &IM2COL_LOAD[..4],
                (_, Multicast::Cluster, CacheHint::L2) => TENSOR_LOAD,
                (_, Multicast::Cluster, CacheHint::None) => &TENSOR_LOAD[..4],
                (_, Multicast::None, CacheHint::L2) => TENSOR_LOAD_ALONE,
                (_, Multicast::None, CacheHint::None) => &TENSOR_LOAD[..3],
            };
            tensor_row("cp.async.bulk.tensor", slots, *dimensions).since(bulk_since(*to))
        }
        Opcode::TensorStore { dimensions, hint, .. } => {
            tensor_row("cp.async.bulk.tensor", tensor_store(*hint), *dimensions)
        }
        Opcode::TensorReduce { dimensions, hint, .. } => {
            tensor_row("cp.reduce.async.bulk.tensor", tensor_store(*hint), *dimensions)
        }
        Opcode::TensorPrefetch { dimensions, mode, hint } => {
            let slots = match (mode, hint) {
                (TensorMode::Im2col, CacheHint::L2) => IM2COL_PREFETCH,
                (TensorMode::Im2col, CacheHint::None) => &IM2COL_PREFETCH[..2],
                (_, CacheHint::L2) => &[Slot::Tensor, POLICY],
                (_, CacheHint::None) => &[Slot::Tensor],
            };
            tensor_row("cp.async.bulk.prefetch.tensor", slots, *dimensions)
        }
        Opcode::BulkCommit => Row::plain("cp.async.bulk.commit_group", &[]).since(BULK),
        Opcode::BulkWait(_) => Row::plain("cp.async.bulk.wait_group", GROUPS).since(BULK),
        Opcode::Prefetch { space, what } => {
            let since = if *what == Prefetched::Tensormap { BULK } else { Since::ALWAYS };
            Row::plain("prefetch", &[Slot::Address]).space(*space).since(since)
        }
        Opcode::CreatePolicy { .. } => Row::plain("createpolicy.fractional", &[Slot::Write(STATE), Slot::Fraction])
            .optional(1)
            .since(Since::sm(80, (7, 4))),
        op => extended::row(op),
    }
}

/// The operands that replace a field of a tensor map.
fn replaced(field: MapField) -> &'static [Slot] {
    const WORD: Slot = Slot::Read(COUNT);
    const LONG: Slot = Slot::Read(STATE);
    const AXIS: Slot = Slot::Constant { min: 0, max: 4, step: 1 };
    const OUTER_AXIS: Slot = Slot::Constant { min: 0, max: 3, step: 1 };
    const ELEMENT: Slot = Slot::Constant { min: 0, max: 12, step: 1 };
    const LAYOUT: Slot = Slot::Constant { min: 0, max: 2, step: 1 };
    const MODE: Slot = Slot::Constant { min: 0, max: 3, step: 1 };
    const FILL: Slot = Slot::Constant { min: 0, max: 1, step: 1 };
    match field {
        MapField::GlobalAddress => &[Slot::Address, LONG],
        MapField::Rank => &[Slot::Address, WORD],
        MapField::BoxDim | MapField::GlobalDim | MapField::ElementStride => &[Slot::Address, AXIS, WORD],
        MapField::GlobalStride => &[Slot::Address, OUTER_AXIS, LONG],
        MapField::ElementType => &[Slot::Address, ELEMENT],
        MapField::Interleave => &[Slot::Address, LAYOUT],
        MapField::Swizzle => &[Slot::Address, MODE],
        MapField::Fill => &[Slot::Address, FILL],
    }
}

fn barrier_row(stem: &'static str, slots: &'static [Slot], space: Space) -> Row {
    Row::plain(stem, slots).space(space).since(AMPERE.with(space_since(space)))
}

fn wait_row(wait: Wait, phase: Phase, order: Order, space: Space) -> Row {
    let (stem, since) = match (wait, phase) {
        (Wait::Test, Phase::State) => ("mbarrier.test_wait", AMPERE),
        (Wait::Test, Phase::Parity) => ("mbarrier.test_wait", Since::sm(80, (7, 1))),
        (Wait::Try, _) => ("mbarrier.try_wait", HOPPER),
    };
    let since = since.with(match order {
        Order::Weak => Since::ALWAYS,
        Order::Relaxed(_) => Since::sm(90, (8, 6)),
        _ => Since::sm(80, (8, 0)),
    });
    let slots = match phase {
        Phase::State => WAIT_STATE,
        Phase::Parity => WAIT_PARITY,
    };
    // Only a wait that may suspend the thread takes a time limit.
    match wait {
        Wait::Test => barrier_row(stem, &slots[..3], space),
        Wait::Try => barrier_row(stem, slots, space).optional(1),
    }
    .since(since.with(space_since(space)).with(order_since(order)))
}

fn bulk_copy(to: Space, from: Space, multicast: Multicast, hint: CacheHint) -> Row {
    let slots = match (to, multicast, hint) {
        (Space::Global, _, CacheHint::None) => &BULK_STORE[..3],
        (Space::Global, _, CacheHint::L2) => BULK_STORE,
        (_, Multicast::None, CacheHint::None) => &BULK_LOAD[..4],
        (_, Multicast::Cluster, CacheHint::None) => &BULK_LOAD[..5],
        (_, Multicast::None, CacheHint::L2) => BULK_LOAD_ALONE,
        (_, Multicast::Cluster, CacheHint::L2) => BULK_LOAD,
    };
    // The source is the row's space; the destination of a load is always shared memory.
    Row::plain("cp.async.bulk", slots).space(from).since(bulk_since(to))
}

fn bulk_since(to: Space) -> Since {
    if to == Space::SharedCta { Since::sm(90, (8, 6)) } else { BULK }
}

fn tensor_row(stem: &'static str, slots: &'static [Slot], dimensions: u8) -> Row {
    // Image offsets: one for each dimension except the channels and the images.
    let counts = [dimensions, dimensions.saturating_sub(2), 1, 1];
    Row::plain(stem, slots).types([Type::B32, Type::U16, Type::B32, Type::B32]).counts(counts).since(BULK)
}

fn tensor_store(hint: CacheHint) -> &'static [Slot] {
    match hint {
        CacheHint::None => &[Slot::Tensor, SHARED],
        CacheHint::L2 => &[Slot::Tensor, SHARED, POLICY],
    }
}

/// Between blocks of a cluster there are only integer operations, and a single 64-bit one: addition.
fn shared_reduction_types(op: Atomic) -> Types {
    use Type::*;
    match op {
        Atomic::Add => Types::of(&[U32, S32, U64]),
        Atomic::Min | Atomic::Max => Types::of(&[U32, S32]),
        Atomic::And | Atomic::Or | Atomic::Xor => Types::of(&[B32]),
        Atomic::Inc | Atomic::Dec => Types::of(&[U32]),
        Atomic::Exch | Atomic::Cas => Types::NONE,
    }
}

fn bulk_reduction_types(op: Atomic) -> Types {
    use Type::*;
    match op {
        Atomic::Add => Types::of(&[U32, S32, U64, F16, Bf16, F32, F64]),
        Atomic::Min | Atomic::Max => Types::of(&[U32, S32, U64, S64, F16, Bf16]),
        op => atomic_types(op),
    }
}
