//! The instruction table: one row per opcode, with its mnemonic, its types, its operands, and the targets that have it.
//!
//! The printer takes the mnemonic from here, the parser finds opcodes by it, and the verifier holds instructions against the
//! rest. Types, targets and versions are those of the PTX ISA manual, each tried with ptxas 13.0; what sm_75 and PTX 6.3 have,
//! the oldest target of this project, is not said. Rules between modifiers are in [`crate::legality`].

use crate::asynchronous::{
    Arrival, BulkDone, CacheHint, Eviction, Multicast, Pending, Phase, Prefetched, TensorMode, Transaction, Wait,
};
use crate::instruction::{Approx, Atomic, Cache, Compare, Half, Opcode, Order, Rounding, Scope, Special};
use crate::matrix::{Element, Overflow, Shape, Transpose};
use crate::signature::{Class, Row, Since, Slot, Types};
use crate::types::{Space, Type};
use crate::warp::{Alignment, ClusterOrder, Direction, FastDivision, GridDependency, Resize, ShiftMode, Shuffle, Vote};

const OWN: Class = Class::Type(0);
const SOURCE: Class = Class::Type(1);
const BITS_32: Class = Class::Is(Type::B32);

const UNARY: &[Slot] = &[Slot::Write(OWN), Slot::Read(OWN)];
const BINARY: &[Slot] = &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(OWN)];
const TERNARY: &[Slot] = &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(OWN)];
const SHIFT: &[Slot] = &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(Class::Is(Type::U32))];
const WIDE_PRODUCT: &[Slot] = &[Slot::Write(Class::Wide), Slot::Read(OWN), Slot::Read(OWN)];
const WIDE_SUM: &[Slot] = &[Slot::Write(Class::Wide), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(Class::Wide)];
const COMPARE: &[Slot] = &[Slot::Predicates, Slot::Read(OWN), Slot::Read(OWN)];
const SELECT: &[Slot] = &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Condition];
const CONVERT: &[Slot] = &[Slot::WriteWide(OWN), Slot::ReadWide(SOURCE)];
const CONVERT_PAIR: &[Slot] = &[Slot::WriteWide(OWN), Slot::ReadWide(SOURCE), Slot::ReadWide(SOURCE)];
const BARRIER: Slot = Slot::Bounded { min: 0, max: 15, step: 1 };
const THREADS: Slot = Slot::Bounded { min: 32, max: 1024, step: 32 };
const ATOMIC: &[Slot] = &[Slot::WriteOrSink(OWN), Slot::Address, Slot::Read(OWN)];
const ATOMIC_SWAP: &[Slot] = &[Slot::WriteOrSink(OWN), Slot::Address, Slot::Read(OWN), Slot::Read(OWN)];
const COPY: &[Slot] = &[
    Slot::AddressIn(Space::Shared),
    Slot::AddressIn(Space::Global),
    Slot::Constant { min: 4, max: 16, step: 4 },
    Slot::Bounded { min: 0, max: 16, step: 1 },
];
const GROUPS: &[Slot] = &[Slot::Constant { min: 0, max: i32::MAX as i64, step: 1 }];

const FLOATS: Types = Types::of(&[Type::F32, Type::F64]);
const HALVES: Types = Types::of(&[Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2]);
const SIGNED: Types = Types::of(&[Type::S16, Type::S32, Type::S64]);
const INTEGERS: Types = Types::of(&[Type::U16, Type::U32, Type::U64]).and(SIGNED);
const BITS: Types = Types::of(&[Type::B16, Type::B32, Type::B64]);
const NUMBERS: Types = INTEGERS.and(FLOATS).and(HALVES);
const MEMORY: Types = Types::of(&[Type::B8, Type::U8, Type::S8, Type::B128]).and(BITS).and(INTEGERS).and(FLOATS);

const AMPERE: Since = Since::sm(80, (7, 0));
const HOPPER: Since = Since::sm(90, (7, 8));

/// The row of an opcode; an unknown one has an empty row.
pub(crate) fn row(op: &Opcode) -> Row {
    match op {
        Opcode::Mov(ty) => Row::typed("mov", *ty, MOVED, &[Slot::MoveTo, Slot::MoveFrom]).since(b128_since(*ty)),
        Opcode::Ld { order, space, vector, ty, .. } => {
            memory("ld", &[Slot::WriteLanes, Slot::Address], *space, *vector, *ty)
                .since(space_since(*space).with(order_since(*order)).with(b128_since(*ty)))
        }
        Opcode::St { order, space, vector, ty, .. } => {
            memory("st", &[Slot::Address, Slot::ReadLanes], *space, *vector, *ty)
                .since(space_since(*space).with(order_since(*order)).with(b128_since(*ty)))
        }
        Opcode::Add { ty, .. } => Row::typed("add", *ty, NUMBERS, BINARY).since(bf16_since(*ty, HOPPER)),
        Opcode::Sub { ty, .. } => Row::typed("sub", *ty, NUMBERS, BINARY).since(bf16_since(*ty, HOPPER)),
        Opcode::Mul { ty, .. } => Row::typed("mul", *ty, FLOATS.and(HALVES), BINARY).since(bf16_since(*ty, HOPPER)),
        Opcode::MulInt { half: Half::Wide, ty } => Row::typed("mul", *ty, NARROW, WIDE_PRODUCT),
        Opcode::MulInt { ty, .. } => Row::typed("mul", *ty, INTEGERS, BINARY),
        Opcode::MadInt { half: Half::Wide, ty } => Row::typed("mad", *ty, NARROW, WIDE_SUM),
        Opcode::MadInt { ty, .. } => Row::typed("mad", *ty, INTEGERS, TERNARY),
        Opcode::Fma { ty, .. } => Row::typed("fma", *ty, FLOATS.and(HALVES), TERNARY).since(bf16_since(*ty, AMPERE)),
        Opcode::Div { ty, .. } => Row::typed("div", *ty, INTEGERS.and(FLOATS), BINARY),
        Opcode::Rem(ty) => Row::typed("rem", *ty, INTEGERS, BINARY),
        Opcode::Min { nan, ty } => Row::typed("min", *ty, NUMBERS, BINARY).since(extremum_since(*nan, *ty)),
        Opcode::Max { nan, ty } => Row::typed("max", *ty, NUMBERS, BINARY).since(extremum_since(*nan, *ty)),
        Opcode::Abs(ty) => Row::typed("abs", *ty, SIGNED.and(FLOATS).and(HALVES), UNARY).since(abs_since(*ty)),
        Opcode::Neg(ty) => Row::typed("neg", *ty, SIGNED.and(FLOATS).and(HALVES), UNARY).since(bf16_since(*ty, AMPERE)),
        Opcode::And(ty) => Row::typed("and", *ty, LOGICAL, BINARY),
        Opcode::Or(ty) => Row::typed("or", *ty, LOGICAL, BINARY),
        Opcode::Xor(ty) => Row::typed("xor", *ty, LOGICAL, BINARY),
        Opcode::Not(ty) => Row::typed("not", *ty, LOGICAL, UNARY),
        Opcode::Shl(ty) => Row::typed("shl", *ty, BITS, SHIFT),
        Opcode::Shr(ty) => Row::typed("shr", *ty, BITS.and(INTEGERS), SHIFT),
        Opcode::Setp { ty, .. } => Row::typed("setp", *ty, BITS.and(NUMBERS), COMPARE).since(bf16_since(*ty, HOPPER)),
        Opcode::Selp(ty) => Row::typed("selp", *ty, BITS.and(INTEGERS).and(FLOATS), SELECT),
        Opcode::Cvt { rnd, to, from, .. } => convert(*rnd, *to, *from),
        Opcode::Cvta { space, ty, .. } => {
            Row::typed("cvta", *ty, Types::of(&[Type::U64]), &[Slot::Write(OWN), Slot::AddressValue(OWN)])
                .space(*space)
                .since(if *space == Space::Param { Since::sm(75, (7, 7)) } else { space_since(*space) })
        }
        Opcode::Approx { function, ty } => approximate(*function, *ty),
        Opcode::Bra { .. } => Row::plain("bra", &[Slot::Label]),
        Opcode::BarSync => Row::plain("bar.sync", &[BARRIER, THREADS]).optional(1),
        Opcode::BarArrive => Row::plain("bar.arrive", &[BARRIER, THREADS]),
        Opcode::BarWarpSync => Row::plain("bar.warp.sync", &[Slot::Read(BITS_32)]),
        Opcode::Ret => Row::plain("ret", &[]),
        Opcode::Exit => Row::plain("exit", &[]),
        Opcode::CpAsync { .. } => Row::plain("cp.async", COPY).optional(1).since(AMPERE),
        Opcode::CpAsyncCommit => Row::plain("cp.async.commit_group", &[]).since(AMPERE),
        Opcode::CpAsyncWait => Row::plain("cp.async.wait_group", GROUPS).since(AMPERE),
        Opcode::CpAsyncWaitAll => Row::plain("cp.async.wait_all", &[]).since(AMPERE),
        Opcode::Fence { scope, .. } => Row::plain("fence", &[]).since(scope_since(*scope)),
        Opcode::Atom { order, space, op, ty } => {
            let slots = if *op == Atomic::Cas { ATOMIC_SWAP } else { ATOMIC };
            Row::typed("atom", *ty, atomic_types(*op), slots).space(*space).since(atomic_since(*order, *space, *ty))
        }
        Opcode::Red { order, space, op, ty } => {
            Row::typed("red", *ty, reduction_types(*op), &[Slot::Address, Slot::Read(OWN)])
                .space(*space)
                .since(atomic_since(*order, *space, *ty))
        }
        Opcode::DivFast { ty, .. } => Row::typed("div", *ty, SINGLE, BINARY),
        Opcode::Rcp { ty, .. } => Row::typed("rcp", *ty, FLOATS, UNARY),
        Opcode::Sqrt { ty, .. } => Row::typed("sqrt", *ty, FLOATS, UNARY),
        Opcode::Bfe(ty) => Row::typed("bfe", *ty, WORDS, &[Slot::Write(OWN), Slot::Read(OWN), BIT, BIT]),
        Opcode::Bfi(ty) => Row::typed("bfi", *ty, RAW, &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(OWN), BIT, BIT]),
        Opcode::Popc(ty) => Row::typed("popc", *ty, RAW, &[Slot::Write(COUNT), Slot::Read(OWN)]),
        Opcode::Clz(ty) => Row::typed("clz", *ty, RAW, &[Slot::Write(COUNT), Slot::Read(OWN)]),
        Opcode::Brev(ty) => Row::typed("brev", *ty, RAW, UNARY),
        Opcode::Prmt => Row::plain("prmt", TERNARY),
        Opcode::Lop3 => Row::plain("lop3", LOOKUP),
        Opcode::Shf { .. } => Row::plain("shf", TERNARY),
        Opcode::IsSpaceP(space) => {
            Row::plain("isspacep", &[Slot::Write(Class::Is(Type::Pred)), Slot::Read(Class::Is(Type::U64))])
                .since(space_since(*space))
        }
        Opcode::Nanosleep => Row::plain("nanosleep", &[Slot::Read(COUNT)]),
        Opcode::Trap => Row::plain("trap", &[]),
        op => warp_row(op),
    }
}

/// Rows of the instructions that a warp, a block or a cluster executes together.
fn warp_row(op: &Opcode) -> Row {
    match op {
        Opcode::Shfl(_) => Row::plain("shfl.sync", SHUFFLE),
        Opcode::Vote(Vote::Ballot) => Row::plain("vote.sync", &[Slot::Write(OWN), Slot::Condition, Slot::Read(OWN)]),
        Opcode::Vote(_) => {
            Row::plain("vote.sync", &[Slot::Write(Class::Is(Type::Pred)), Slot::Condition, Slot::Read(OWN)])
        }
        Opcode::ActiveMask => Row::plain("activemask", &[Slot::Write(OWN)]),
        Opcode::Redux { op, ty } => {
            Row::typed("redux.sync", *ty, redux_types(*op), &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(BITS_32)])
                .since(AMPERE)
        }
        Opcode::Elect => Row::plain("elect.sync", &[Slot::SinkWithPredicate(OWN), Slot::Read(OWN)]).since(BULK),
        Opcode::BarrierSync => Row::plain("barrier.sync", &[BARRIER, THREADS]).optional(1),
        Opcode::BarrierArrive => Row::plain("barrier.arrive", &[BARRIER, THREADS]),
        Opcode::ClusterArrive { order, .. } => Row::plain("barrier.cluster.arrive", &[]).since(cluster_since(*order)),
        Opcode::ClusterWait { order, .. } => Row::plain("barrier.cluster.wait", &[]).since(cluster_since(*order)),
        Opcode::Mapa { space, ty } => {
            Row::typed("mapa", *ty, ADDRESSES, &[Slot::Write(OWN), Slot::AddressValue(OWN), Slot::Read(COUNT)])
                .space(*space)
                .since(HOPPER)
        }
        Opcode::GetCtaRank { space, ty } => {
            Row::typed("getctarank", *ty, ADDRESSES, &[Slot::Write(COUNT), Slot::AddressValue(OWN)])
                .space(*space)
                .since(HOPPER)
        }
        Opcode::SetMaxNReg(_) => Row::plain("setmaxnreg", &[Slot::Constant { min: 24, max: 256, step: 8 }])
            .since(Since::accelerated(90, (8, 0))),
        Opcode::GridDepControl(_) => Row::plain("griddepcontrol", &[]).since(HOPPER),
        Opcode::Mma { shape, d, a, b, c, .. } => multiply(*shape, [*d, *a, *b, *c]),
        Opcode::Wgmma { shape, d, a, .. } => warpgroup_multiply(*shape, *d, *a),
        Opcode::WgmmaFence => Row::plain("wgmma.fence.sync.aligned", &[]).since(WARPGROUP),
        Opcode::WgmmaCommit => Row::plain("wgmma.commit_group.sync.aligned", &[]).since(WARPGROUP),
        Opcode::WgmmaWait => {
            Row::plain("wgmma.wait_group.sync.aligned", &[Slot::Constant { min: 0, max: 7, step: 1 }]).since(WARPGROUP)
        }
        Opcode::LdMatrix { matrices, space, .. } => {
            Row::plain("ldmatrix.sync.aligned.m8n8", &[Slot::WriteFragment(0), Slot::Address])
                .counts([*matrices; 4])
                .space(*space)
                .since(Since::sm(75, (6, 5)).with(space_since(*space)))
        }
        Opcode::StMatrix { matrices, space, .. } => {
            Row::plain("stmatrix.sync.aligned.m8n8", &[Slot::Address, Slot::ReadFragment(0)])
                .counts([*matrices; 4])
                .space(*space)
                .since(HOPPER)
        }
        op => asynchronous_row(op),
    }
}

/// Rows of mbarriers, bulk copies and tensor copies.
fn asynchronous_row(op: &Opcode) -> Row {
    match op {
        Opcode::MbarrierInit { space } => barrier_row("mbarrier.init", &[Slot::Address, Slot::Read(COUNT)], *space),
        Opcode::MbarrierInval { space } => barrier_row("mbarrier.inval", &[Slot::Address], *space),
        Opcode::MbarrierArrive { arrival, order, space } => {
            // A remote barrier returns no state, and a stated ordering or transaction came later than the instruction.
            let optional = usize::from(*arrival == Arrival::Plain);
            let since = match (arrival, order, space) {
                (Arrival::ExpectTx, ..) | (_, _, Space::SharedCluster) => BULK,
                (_, Order::Weak, _) => AMPERE,
                _ => Since::sm(80, (8, 0)),
            };
            let row = barrier_row("mbarrier.arrive", &[STATE_OR_SINK, Slot::Address, Slot::Read(COUNT)], *space);
            row.optional(optional).since(row.since.with(since).with(order_since(*order)))
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
        Opcode::BulkCopy { to, from, multicast, hint } => bulk_copy(*to, *from, *multicast, *hint),
        Opcode::BulkReduce { hint, op, ty } => {
            let slots = if *hint == CacheHint::L2 { BULK_STORE } else { &BULK_STORE[..3] };
            Row::typed("cp.reduce.async.bulk.global.shared::cta.bulk_group", *ty, bulk_reduction_types(*op), slots)
                .since(BULK)
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
            tensor_row("cp.async.bulk.tensor", slots, *dimensions).space(*to).since(bulk_since(*to))
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
        _ => Row::plain("", &[]),
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
    // Only the wait that may take its time says for how long at most.
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
    // Image offsets: one for each dimension but the channels and the images.
    let counts = [dimensions, dimensions.saturating_sub(2), 1, 1];
    Row::plain(stem, slots).types([Type::B32, Type::U16, Type::B32, Type::B32]).counts(counts).since(BULK)
}

fn tensor_store(hint: CacheHint) -> &'static [Slot] {
    match hint {
        CacheHint::None => &[Slot::Tensor, SHARED],
        CacheHint::L2 => &[Slot::Tensor, SHARED, POLICY],
    }
}

/// `mma.sync`: D, A, B, C as fragments over the 32 threads of a warp.
fn multiply(shape: Shape, elements: [Element; 4]) -> Row {
    let (m, n, k) = (u32::from(shape.m), u32::from(shape.n), u32::from(shape.k));
    let [d, a, b, c] = elements;
    let counts = [d.registers(m * n, 32), a.registers(m * k, 32), b.registers(n * k, 32), c.registers(m * n, 32)];
    let since = match (a, shape.m, shape.k) {
        (Element::F16, 16, 8) | (Element::S8 | Element::U8, 8, 16) => Since::sm(75, (6, 5)),
        (Element::E4m3 | Element::E5m2, _, 32) if d == Element::F32 => Since::sm(89, (8, 4)),
        (Element::E4m3 | Element::E5m2, ..) => Since::sm(89, (8, 7)),
        (Element::F64, 16, _) => HOPPER,
        _ => AMPERE,
    };
    Row::plain("mma.sync.aligned", MULTIPLY).types(elements.map(Element::register)).counts(counts).since(since)
}

/// `wgmma`: D over the 128 threads of a warp group; A from a descriptor or registers, B from a descriptor.
fn warpgroup_multiply(shape: Shape, d: Element, a: Element) -> Row {
    let accumulators = d.registers(u32::from(shape.m) * u32::from(shape.n), 128);
    let (slots, optional, since) = match a {
        Element::F16 | Element::Bf16 => (WARPGROUP_MULTIPLY, 1, WARPGROUP),
        Element::S8 | Element::U8 => (&WARPGROUP_MULTIPLY[..4], 0, Since::exactly(90, (8, 4))),
        _ => (&WARPGROUP_MULTIPLY[..6], 0, WARPGROUP),
    };
    Row::plain("wgmma.mma_async.sync.aligned", slots)
        .optional(optional)
        .types([d.register(), Type::B32, Type::B64, Type::B64])
        .counts([accumulators, 4, 1, 1])
        .since(since)
}

const SINGLE: Types = Types::of(&[Type::F32]);
const RAW: Types = Types::of(&[Type::B32, Type::B64]);
const WORDS: Types = Types::of(&[Type::U32, Type::U64, Type::S32, Type::S64]);
const ADDRESSES: Types = Types::of(&[Type::U32, Type::U64]);
const COUNT: Class = Class::Is(Type::U32);
const STATE: Class = Class::Is(Type::B64);
const STATE_OR_SINK: Slot = Slot::WriteOrSink(STATE);
const BIT: Slot = Slot::Bounded { min: 0, max: 255, step: 1 };
const LOOKUP: &[Slot] = &[
    Slot::Write(OWN),
    Slot::Read(OWN),
    Slot::Read(OWN),
    Slot::Read(OWN),
    Slot::Constant { min: 0, max: 255, step: 1 },
];
const SHUFFLE: &[Slot] =
    &[Slot::WithPredicate(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(OWN)];

const BULK: Since = Since::sm(90, (8, 0));
const WARPGROUP: Since = Since::exactly(90, (8, 0));

const WAIT_STATE: &[Slot] = &[Slot::Write(Class::Is(Type::Pred)), Slot::Address, Slot::Read(STATE), Slot::Read(COUNT)];
const WAIT_PARITY: &[Slot] = &[Slot::Write(Class::Is(Type::Pred)), Slot::Address, Slot::Read(COUNT), Slot::Read(COUNT)];
const SHARED: Slot = Slot::AddressIn(Space::Shared);
const GLOBAL: Slot = Slot::AddressIn(Space::Global);
const BYTES: Slot = Slot::Bounded { min: 0, max: i32::MAX as i64, step: 16 };
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
const MULTIPLY: &[Slot] =
    &[Slot::WriteFragment(0), Slot::ReadFragment(1), Slot::ReadFragment(2), Slot::ReadFragment(3)];
const TRANSPOSED: Slot = Slot::Constant { min: 0, max: 1, step: 1 };
const WARPGROUP_MULTIPLY: &[Slot] = &[
    Slot::WriteFragment(0),
    Slot::DescriptorOrFragment(1),
    Slot::Read(STATE),
    Slot::Condition,
    Slot::Sign,
    Slot::Sign,
    TRANSPOSED,
    TRANSPOSED,
];

fn cluster_since(order: ClusterOrder) -> Since {
    if order == ClusterOrder::Unstated { HOPPER } else { BULK }
}

fn redux_types(op: Atomic) -> Types {
    match op {
        Atomic::Add | Atomic::Min | Atomic::Max => Types::of(&[Type::U32, Type::S32]),
        Atomic::And | Atomic::Or | Atomic::Xor => Types::of(&[Type::B32]),
        Atomic::Exch | Atomic::Cas | Atomic::Inc | Atomic::Dec => Types::NONE,
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

const MOVED: Types = Types::of(&[Type::Pred, Type::B128]).and(BITS).and(INTEGERS).and(FLOATS);
const NARROW: Types = Types::of(&[Type::U16, Type::S16, Type::U32, Type::S32]);
const LOGICAL: Types = Types::of(&[Type::Pred]).and(BITS);

fn memory(stem: &'static str, slots: &'static [Slot], space: Space, vector: u8, ty: Type) -> Row {
    Row::typed(stem, ty, MEMORY, slots).space(space).counts([vector.max(1); 4])
}

fn convert(rnd: Rounding, to: Type, from: Type) -> Row {
    use Type::*;
    // Two floats become one packed register.
    let packs = matches!(to, F16x2 | Bf16x2 | E4m3x2 | E5m2x2) && from == F32;
    let since = match (to, from) {
        (E4m3x2 | E5m2x2, _) | (_, E4m3x2 | E5m2x2) => Since::sm(89, (8, 1)),
        (Tf32, _) if rnd == Rounding::Rna => AMPERE,
        (Tf32, _) => HOPPER,
        (Bf16 | Bf16x2, F32) => AMPERE,
        (F32, Bf16) => Since::sm(80, (7, 1)),
        (Bf16, _) | (_, Bf16) => HOPPER,
        (F16x2, _) => AMPERE,
        _ => Since::ALWAYS,
    };
    let slots = if packs { CONVERT_PAIR } else { CONVERT };
    Row::typed("cvt", to, CONVERTED, slots).types([to, from, to, from]).since(since)
}

const CONVERTED: Types =
    Types::of(&[Type::U8, Type::S8, Type::Tf32, Type::E4m3x2, Type::E5m2x2]).and(INTEGERS).and(FLOATS).and(HALVES);

fn approximate(function: Approx, ty: Type) -> Row {
    const F32: Types = Types::of(&[Type::F32]);
    let types = match function {
        Approx::Ex2 => F32.and(Types::of(&[Type::F16, Type::F16x2])),
        Approx::Tanh => F32.and(HALVES),
        Approx::Rsqrt => FLOATS,
        Approx::Lg2 | Approx::Rcp | Approx::Sqrt | Approx::Sin | Approx::Cos => F32,
    };
    let since = match (function, ty) {
        (_, Type::Bf16 | Type::Bf16x2) => HOPPER,
        (Approx::Tanh, _) | (_, Type::F16 | Type::F16x2) => Since::sm(75, (7, 0)),
        _ => Since::ALWAYS,
    };
    Row::typed(function.name(), ty, types, UNARY).since(since)
}

fn bf16_since(ty: Type, since: Since) -> Since {
    if matches!(ty, Type::Bf16 | Type::Bf16x2) { since } else { Since::ALWAYS }
}

fn extremum_since(nan: bool, ty: Type) -> Since {
    if nan || HALVES.has(ty) { AMPERE } else { Since::ALWAYS }
}

fn abs_since(ty: Type) -> Since {
    match ty {
        Type::F16 | Type::F16x2 => Since::sm(75, (6, 5)),
        _ => bf16_since(ty, AMPERE),
    }
}

fn b128_since(ty: Type) -> Since {
    if ty == Type::B128 { Since::sm(75, (8, 3)) } else { Since::ALWAYS }
}

fn space_since(space: Space) -> Since {
    match space {
        Space::SharedCta => Since::sm(75, (7, 8)),
        Space::SharedCluster => HOPPER,
        _ => Since::ALWAYS,
    }
}

fn scope_since(scope: Scope) -> Since {
    if scope == Scope::Cluster { HOPPER } else { Since::ALWAYS }
}

fn order_since(order: Order) -> Since {
    match order {
        Order::Weak | Order::Volatile => Since::ALWAYS,
        Order::Relaxed(scope) | Order::Acquire(scope) | Order::Release(scope) | Order::AcqRel(scope) => {
            scope_since(scope)
        }
    }
}

fn atomic_since(order: Order, space: Space, ty: Type) -> Since {
    let of_type = if ty == Type::B128 { Since::sm(90, (8, 3)) } else { bf16_since(ty, HOPPER) };
    of_type.with(order_since(order)).with(space_since(space))
}

fn atomic_types(op: Atomic) -> Types {
    use Type::*;
    match op {
        Atomic::Add => Types::of(&[U32, S32, U64, F32, F64]).and(HALVES),
        Atomic::Min | Atomic::Max => Types::of(&[U32, S32, U64, S64]),
        Atomic::And | Atomic::Or | Atomic::Xor => Types::of(&[B32, B64]),
        Atomic::Exch => Types::of(&[B32, B64, B128]),
        Atomic::Cas => Types::of(&[B16, B32, B64, B128]),
        Atomic::Inc | Atomic::Dec => Types::of(&[U32]),
    }
}

/// A reduction without a result has nothing to swap.
fn reduction_types(op: Atomic) -> Types {
    match op {
        Atomic::Exch | Atomic::Cas => Types::NONE,
        op => atomic_types(op),
    }
}

/// What is known of a special register.
pub(crate) struct SpecialRow {
    /// The types that `mov` reads it with.
    pub types: Types,
    pub since: Since,
}

/// The row of a special register.
pub(crate) fn special(special: Special) -> SpecialRow {
    use Special::*;
    const WORD: Types = Types::of(&[Type::B32, Type::U32, Type::S32]);
    const LONG: Types = Types::of(&[Type::B64, Type::U64, Type::S64]);
    const SHORT: Types = Types::of(&[Type::U16, Type::S16]);
    let (types, since) = match special {
        TidX | TidY | TidZ | NtidX | NtidY | NtidZ | CtaidX | CtaidY | CtaidZ | NctaidX | NctaidY | NctaidZ => {
            (WORD.and(SHORT), Since::ALWAYS)
        }
        Clock64 | GlobalTimer => (LONG, Since::ALWAYS),
        GridId => (WORD.and(LONG), Since::ALWAYS),
        IsExplicitCluster => (Types::of(&[Type::Pred]), HOPPER),
        ClusterCtaRank | ClusterNctaRank | ClusterId | ClusterIdY | ClusterIdZ | NclusterId | NclusterIdY
        | NclusterIdZ | ClusterCtaidX | ClusterCtaidY | ClusterCtaidZ | ClusterNctaidX | ClusterNctaidY
        | ClusterNctaidZ => (WORD, HOPPER),
        LaneId | WarpId | NwarpId | LaneMaskLt | LaneMaskLe | LaneMaskEq | LaneMaskGe | LaneMaskGt | SmId | NsmId
        | Clock | ClockHi | GlobalTimerLo | GlobalTimerHi | DynamicSmemSize | TotalSmemSize => (WORD, Since::ALWAYS),
    };
    SpecialRow { types, since }
}

/// Whether this is an addition of 16-bit floats, whose mnemonic has to say `.noftz`.
pub(crate) fn is_half_addition(op: Atomic, ty: Type) -> bool {
    op == Atomic::Add && HALVES.has(ty)
}

/// Whether an opcode that was read is the one meant where two share a stem: `mul.f32` is [`Opcode::Mul`], `mul.lo.s32` is not.
pub(crate) fn takes(op: &Opcode) -> bool {
    match op {
        Opcode::Mul { ty, .. } => ty.is_float(),
        Opcode::MulInt { ty, .. } => !ty.is_float(),
        _ => true,
    }
}

/// The prototypes whose stem a mnemonic starts with, longest stem first.
pub(crate) fn prototypes(mnemonic: &str) -> impl Iterator<Item = &'static Opcode> {
    let first = first_word(mnemonic);
    let start = PROTOTYPES.partition_point(|op| first_word(row(op).stem) < first);
    PROTOTYPES[start..].iter().take_while(move |op| first_word(row(op).stem) == first).filter(move |op| {
        mnemonic.strip_prefix(row(op).stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn first_word(mnemonic: &str) -> &str {
    mnemonic.split('.').next().unwrap_or("")
}

const fn approx(function: Approx) -> Opcode {
    Opcode::Approx { function, ty: Type::F32 }
}

/// One opcode of each kind, sorted by the first word of the stem, longer stems first. The fields are what a mnemonic that
/// leaves them out means.
static PROTOTYPES: &[Opcode] = &[
    Opcode::Abs(Type::B32),
    Opcode::ActiveMask,
    Opcode::Add { rnd: Rounding::None, ty: Type::B32 },
    Opcode::And(Type::B32),
    Opcode::Atom { order: Order::Weak, space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::BarWarpSync,
    Opcode::BarSync,
    Opcode::BarArrive,
    Opcode::BarrierSync,
    Opcode::BarrierArrive,
    Opcode::ClusterArrive { order: ClusterOrder::Unstated, alignment: Alignment::Free },
    Opcode::ClusterWait { order: ClusterOrder::Unstated, alignment: Alignment::Free },
    Opcode::Bfe(Type::B32),
    Opcode::Bfi(Type::B32),
    Opcode::Bra { uniform: false },
    Opcode::Brev(Type::B32),
    Opcode::Clz(Type::B32),
    approx(Approx::Cos),
    Opcode::CpAsyncCommit,
    Opcode::CpAsyncWait,
    Opcode::CpAsyncWaitAll,
    Opcode::CpAsync { cache: Cache::None },
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
    Opcode::BulkCommit,
    Opcode::BulkWait(BulkDone::Written),
    Opcode::BulkCopy {
        to: Space::SharedCluster,
        from: Space::Global,
        multicast: Multicast::None,
        hint: CacheHint::None,
    },
    Opcode::CreatePolicy { primary: Eviction::Normal, secondary: Eviction::Unstated },
    Opcode::Cvt { rnd: Rounding::None, sat: false, to: Type::B32, from: Type::B32 },
    Opcode::Cvta { to: false, space: Space::Generic, ty: Type::U64 },
    Opcode::Div { rnd: Rounding::None, ty: Type::B32 },
    Opcode::DivFast { kind: FastDivision::Full, ty: Type::F32 },
    Opcode::Elect,
    approx(Approx::Ex2),
    Opcode::Exit,
    Opcode::Fence { acq_rel: true, scope: Scope::Gpu },
    Opcode::FenceMbarrierInit,
    Opcode::FenceProxyAsync { space: Space::Generic },
    Opcode::Fma { rnd: Rounding::None, ty: Type::F32 },
    Opcode::GetCtaRank { space: Space::Generic, ty: Type::U32 },
    Opcode::GridDepControl(GridDependency::Wait),
    Opcode::IsSpaceP(Space::Generic),
    Opcode::Ld { order: Order::Weak, space: Space::Generic, cache: Cache::None, vector: 1, ty: Type::B32 },
    Opcode::LdMatrix { matrices: 1, transpose: Transpose::No, space: Space::Generic },
    approx(Approx::Lg2),
    Opcode::Lop3,
    Opcode::MadInt { half: Half::Lo, ty: Type::B32 },
    Opcode::Mapa { space: Space::Generic, ty: Type::U32 },
    Opcode::Max { nan: false, ty: Type::B32 },
    Opcode::MbarrierInit { space: Space::Generic },
    Opcode::MbarrierInval { space: Space::Generic },
    Opcode::MbarrierArrive { arrival: Arrival::Plain, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierTx { transaction: Transaction::Expect, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierTx { transaction: Transaction::Complete, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierWait { wait: Wait::Test, phase: Phase::State, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierWait { wait: Wait::Try, phase: Phase::State, order: Order::Weak, space: Space::Generic },
    Opcode::MbarrierPendingCount,
    Opcode::Min { nan: false, ty: Type::B32 },
    Opcode::Mma {
        shape: Shape::new(16, 8, 16),
        overflow: Overflow::Wrap,
        d: Element::F32,
        a: Element::F16,
        b: Element::F16,
        c: Element::F32,
    },
    Opcode::Mov(Type::B32),
    Opcode::Mul { rnd: Rounding::None, ty: Type::F32 },
    Opcode::MulInt { half: Half::Lo, ty: Type::B32 },
    Opcode::Nanosleep,
    Opcode::Neg(Type::B32),
    Opcode::Not(Type::B32),
    Opcode::Or(Type::B32),
    Opcode::Popc(Type::B32),
    Opcode::Prefetch { space: Space::Generic, what: Prefetched::L2 },
    Opcode::Prmt,
    approx(Approx::Rcp),
    Opcode::Rcp { rnd: Rounding::Rn, ty: Type::F32 },
    Opcode::Red { order: Order::Weak, space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::Redux { op: Atomic::Add, ty: Type::B32 },
    Opcode::Rem(Type::B32),
    Opcode::Ret,
    approx(Approx::Rsqrt),
    Opcode::Selp(Type::B32),
    Opcode::SetMaxNReg(Resize::Dec),
    Opcode::Setp { cmp: Compare::Eq, ty: Type::B32 },
    Opcode::Shf { direction: Direction::Left, mode: ShiftMode::Wrap },
    Opcode::Shfl(Shuffle::Idx),
    Opcode::Shl(Type::B32),
    Opcode::Shr(Type::B32),
    approx(Approx::Sin),
    approx(Approx::Sqrt),
    Opcode::Sqrt { rnd: Rounding::Rn, ty: Type::F32 },
    Opcode::St { order: Order::Weak, space: Space::Generic, cache: Cache::None, vector: 1, ty: Type::B32 },
    Opcode::StMatrix { matrices: 1, transpose: Transpose::No, space: Space::Generic },
    Opcode::Sub { rnd: Rounding::None, ty: Type::B32 },
    approx(Approx::Tanh),
    Opcode::Trap,
    Opcode::Vote(Vote::All),
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
    Opcode::Xor(Type::B32),
];
