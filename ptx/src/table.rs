//! The instruction table: one row per opcode, with its mnemonic, its types, its operands, and the targets that have it.
//!
//! The printer takes the mnemonic from here, the parser finds opcodes by it, and the verifier checks instructions
//! against the rest. Types, targets and versions are those that ptxas 13.0 accepts, each tried with it. A row states no
//! requirement that sm_75 and PTX 6.3, the oldest target of this project, already meet. Rules between modifiers are in
//! [`crate::legality`], and the prototypes that the parser starts from are in [`crate::prototype`].

mod asynchronous;
mod extended;
mod warp;

use crate::asynchronous::PrefetchSize;
use crate::instruction::{Approx, Atomic, FenceOrder, Half, Opcode, Order, Rounding, Scope, Special};
use crate::signature::{Class, Row, Since, Slot, Types};
use crate::types::{Space, Type};

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
const COMPARE_HALF: &[Slot] = &[Slot::Write(Class::Is(Type::Pred)), Slot::Read(OWN), Slot::Read(OWN)];
const SELECT: &[Slot] = &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Condition];
const CONVERT: &[Slot] = &[Slot::WriteWide(OWN), Slot::ReadWide(SOURCE)];
const CONVERT_PAIR: &[Slot] = &[Slot::Write(OWN), Slot::Read(SOURCE), Slot::Read(SOURCE)];
const CONVERT_EXACT: &[Slot] = &[Slot::Write(OWN), Slot::Read(SOURCE)];
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
/// Pairs of 16-bit integers.
const PAIRS: Types = Types::of(&[Type::U16x2, Type::S16x2]);
const TWO_SINGLES: Types = Types::of(&[Type::F32x2]);
const NUMBERS: Types = INTEGERS.and(FLOATS).and(HALVES);
const MEMORY: Types = Types::of(&[Type::B8, Type::U8, Type::S8, Type::B128]).and(BITS).and(INTEGERS).and(FLOATS);

const AMPERE: Since = Since::sm(80, (7, 0));
pub(crate) const HOPPER: Since = Since::sm(90, (7, 8));

/// The row of an opcode; an unknown one has an empty row.
pub(crate) fn row(op: &Opcode) -> Row {
    match op {
        Opcode::Mov(ty) => Row::typed("mov", *ty, MOVED, &[Slot::MoveTo, Slot::MoveFrom]).since(b128_since(*ty)),
        Opcode::Ld { order, space, prefetch, vector, ty, .. } => {
            memory("ld", &[Slot::WriteLanes, Slot::Address], *space, *vector, *ty).since(
                space_since(*space)
                    .with(order_since(*order))
                    .with(b128_since(*ty))
                    .with(prefetch_since(*prefetch))
                    .with(vector_since(*vector, *ty)),
            )
        }
        Opcode::St { order, space, vector, ty, .. } => {
            memory("st", &[Slot::Address, Slot::ReadLanes], *space, *vector, *ty).since(
                space_since(*space).with(order_since(*order)).with(b128_since(*ty)).with(vector_since(*vector, *ty)),
            )
        }
        Opcode::Add { ty, .. } => {
            let since = if PAIRS.has(*ty) { BULK } else { float_since(*ty, HOPPER) };
            Row::typed("add", *ty, NUMBERS.and(PAIRS).and(TWO_SINGLES), BINARY).since(since)
        }
        Opcode::Sub { ty, .. } => {
            Row::typed("sub", *ty, NUMBERS.and(TWO_SINGLES), BINARY).since(float_since(*ty, HOPPER))
        }
        Opcode::Mul { ty, .. } => {
            Row::typed("mul", *ty, FLOATS.and(HALVES).and(TWO_SINGLES), BINARY).since(float_since(*ty, HOPPER))
        }
        Opcode::MulInt { half: Half::Wide, ty } => Row::typed("mul", *ty, NARROW, WIDE_PRODUCT),
        Opcode::MulInt { ty, .. } => Row::typed("mul", *ty, INTEGERS, BINARY),
        Opcode::MadInt { half: Half::Wide, ty } => Row::typed("mad", *ty, NARROW, WIDE_SUM),
        Opcode::MadInt { ty, .. } => Row::typed("mad", *ty, INTEGERS, TERNARY),
        Opcode::Fma { ty, .. } => {
            Row::typed("fma", *ty, FLOATS.and(HALVES).and(TWO_SINGLES), TERNARY).since(float_since(*ty, AMPERE))
        }
        Opcode::Div { ty, .. } => Row::typed("div", *ty, INTEGERS.and(FLOATS), BINARY),
        Opcode::Rem(ty) => Row::typed("rem", *ty, INTEGERS, BINARY),
        Opcode::Min { nan, ty } => extremum("min", *nan, *ty),
        Opcode::Max { nan, ty } => extremum("max", *nan, *ty),
        Opcode::Abs(ty) => Row::typed("abs", *ty, SIGNED.and(FLOATS).and(HALVES), UNARY).since(abs_since(*ty)),
        Opcode::Neg(ty) => Row::typed("neg", *ty, SIGNED.and(FLOATS).and(HALVES), UNARY).since(bf16_since(*ty, AMPERE)),
        Opcode::And(ty) => Row::typed("and", *ty, LOGICAL, BINARY),
        Opcode::Or(ty) => Row::typed("or", *ty, LOGICAL, BINARY),
        Opcode::Xor(ty) => Row::typed("xor", *ty, LOGICAL, BINARY),
        Opcode::Not(ty) => Row::typed("not", *ty, LOGICAL, UNARY),
        Opcode::Shl(ty) => Row::typed("shl", *ty, BITS, SHIFT),
        Opcode::Shr(ty) => Row::typed("shr", *ty, BITS.and(INTEGERS), SHIFT),
        Opcode::Setp { ty, .. } => {
            // A comparison of one half has one result.
            let slots = if matches!(ty, Type::F16 | Type::Bf16) { COMPARE_HALF } else { COMPARE };
            Row::typed("setp", *ty, BITS.and(NUMBERS), slots).since(bf16_since(*ty, HOPPER))
        }
        Opcode::Selp(ty) => Row::typed("selp", *ty, BITS.and(INTEGERS).and(FLOATS), SELECT),
        Opcode::Cvt { rnd, to, from, .. } => convert(*rnd, *to, *from),
        Opcode::Cvta { space, ty, .. } => {
            Row::typed("cvta", *ty, Types::of(&[Type::U64]), &[Slot::Write(OWN), Slot::AddressValue(OWN)])
                .space(*space)
                .since(if *space == Space::Param { Since::sm(75, (7, 7)) } else { space_since(*space) })
        }
        Opcode::Approx { function, ty } => approximate(*function, *ty),
        Opcode::Bra { .. } => Row::plain("bra", &[Slot::Label]),
        Opcode::BraIndexed { .. } => Row::plain("brx.idx", &[Slot::Read(COUNT), Slot::Targets]),
        Opcode::BarSync => Row::plain("bar.sync", &[BARRIER, THREADS]).optional(1),
        Opcode::BarArrive => Row::plain("bar.arrive", &[BARRIER, THREADS]),
        Opcode::BarWarpSync => Row::plain("bar.warp.sync", &[Slot::Read(BITS_32)]),
        Opcode::Ret => Row::plain("ret", &[]),
        Opcode::Exit => Row::plain("exit", &[]),
        Opcode::CpAsync { prefetch, .. } => {
            Row::plain("cp.async", COPY).optional(1).since(AMPERE.with(prefetch_since(*prefetch)))
        }
        Opcode::CpAsyncCommit => Row::plain("cp.async.commit_group", &[]).since(AMPERE),
        Opcode::CpAsyncWait => Row::plain("cp.async.wait_group", GROUPS).since(AMPERE),
        Opcode::CpAsyncWaitAll => Row::plain("cp.async.wait_all", &[]).since(AMPERE),
        Opcode::Fence { order, scope } => {
            let one_way = matches!(order, FenceOrder::Acquire | FenceOrder::Release);
            let since = if one_way { Since::sm(90, (8, 6)) } else { Since::ALWAYS };
            Row::plain("fence", &[]).since(scope_since(*scope).with(since))
        }
        Opcode::Atom { order, space, op, ty } => {
            let slots = if *op == Atomic::Cas { ATOMIC_SWAP } else { ATOMIC };
            Row::typed("atom", *ty, atomic_types(*op), slots).space(*space).since(atomic_since(*order, *space, *ty))
        }
        Opcode::Red { order, space, op, ty } => {
            Row::typed("red", *ty, reduction_types(*op), &[Slot::Address, Slot::Read(OWN)])
                .space(*space)
                .since(atomic_since(*order, *space, *ty))
        }
        Opcode::AtomVector { order, space, op, vector, ty } => {
            let slots = &[Slot::WriteVector, Slot::Address, Slot::ReadVector];
            atomic_vector("atom", slots, *op, *vector, *ty).space(*space).since(VECTOR_ATOMIC.with(order_since(*order)))
        }
        Opcode::RedVector { order, space, op, vector, ty } => {
            let slots = &[Slot::Address, Slot::ReadVector];
            atomic_vector("red", slots, *op, *vector, *ty).space(*space).since(VECTOR_ATOMIC.with(order_since(*order)))
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
        Opcode::Bmsk(_) => Row::plain("bmsk", MASK).since(Since::sm(70, (7, 6))),
        Opcode::Szext { ty, .. } => {
            Row::typed("szext", *ty, Types::of(&[Type::U32, Type::S32]), SHIFT).since(Since::sm(70, (7, 6)))
        }
        Opcode::IsSpaceP(space) => {
            Row::plain("isspacep", &[Slot::Write(Class::Is(Type::Pred)), Slot::Read(Class::Is(Type::U64))])
                .since(space_since(*space))
        }
        Opcode::Nanosleep => Row::plain("nanosleep", &[Slot::Read(COUNT)]),
        Opcode::Trap => Row::plain("trap", &[]),
        op => warp::row(op),
    }
}

const SINGLE: Types = Types::of(&[Type::F32]);
const RAW: Types = Types::of(&[Type::B32, Type::B64]);
const WORDS: Types = Types::of(&[Type::U32, Type::U64, Type::S32, Type::S64]);
const COUNT: Class = Class::Is(Type::U32);
const STATE: Class = Class::Is(Type::B64);
const BIT: Slot = Slot::Bounded { min: 0, max: 255, step: 1 };
const MASK: &[Slot] = &[Slot::Write(OWN), Slot::Read(COUNT), Slot::Read(COUNT)];
const LOOKUP: &[Slot] = &[
    Slot::Write(OWN),
    Slot::Read(OWN),
    Slot::Read(OWN),
    Slot::Read(OWN),
    Slot::Constant { min: 0, max: 255, step: 1 },
];

const BULK: Since = Since::sm(90, (8, 0));

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
        (E4m3x2 | E5m2x2, _) | (_, E4m3x2 | E5m2x2) => Since::sm(89, (8, 1)).on_hopper((7, 8)),
        (Tf32, _) if rnd == Rounding::Rna => AMPERE,
        (Tf32, _) => HOPPER,
        (Bf16 | Bf16x2, F32) => AMPERE,
        (F32, Bf16) => Since::sm(80, (7, 1)),
        (Bf16, _) | (_, Bf16) => HOPPER,
        (F16x2, _) => AMPERE,
        _ => Since::ALWAYS,
    };
    // Registers of these types are never wider than the type.
    let exact = [to, from].iter().any(|ty| matches!(ty, Bf16 | Tf32));
    let slots = match (packs, exact) {
        (true, _) => CONVERT_PAIR,
        (false, true) => CONVERT_EXACT,
        (false, false) => CONVERT,
    };
    Row::typed("cvt", to, CONVERTED, slots).types([to, from, to, from]).since(since)
}

const CONVERTED: Types =
    Types::of(&[Type::U8, Type::S8, Type::Tf32, Type::E4m3x2, Type::E5m2x2]).and(INTEGERS).and(FLOATS).and(HALVES);

fn approximate(function: Approx, ty: Type) -> Row {
    const F32: Types = Types::of(&[Type::F32]);
    let types = match function {
        Approx::Ex2 | Approx::Tanh => F32.and(HALVES),
        Approx::Rcp | Approx::Rsqrt => FLOATS,
        Approx::Lg2 | Approx::Sqrt | Approx::Sin | Approx::Cos => F32,
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

fn extremum(stem: &'static str, nan: bool, ty: Type) -> Row {
    let since = match ty {
        Type::U16x2 | Type::S16x2 => BULK,
        ty if nan || HALVES.has(ty) => AMPERE,
        _ => Since::ALWAYS,
    };
    let (slots, optional) = if ty == Type::F32 { (TERNARY, 1) } else { (BINARY, 0) };
    Row::typed(stem, ty, NUMBERS.and(PAIRS), slots).optional(optional).since(since)
}

fn abs_since(ty: Type) -> Since {
    match ty {
        Type::F16 | Type::F16x2 => Since::sm(53, (6, 5)),
        _ => bf16_since(ty, AMPERE),
    }
}

/// Arithmetic on pairs of f32 is as old as sm_100.
fn float_since(ty: Type, bf16: Since) -> Since {
    if ty == Type::F32x2 { Since::sm(100, (8, 6)) } else { bf16_since(ty, bf16) }
}

/// Accesses of 32 bytes are as old as sm_100.
fn vector_since(vector: u8, ty: Type) -> Since {
    if u32::from(vector) * ty.bytes() > 16 { Since::sm(100, (8, 8)) } else { Since::ALWAYS }
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

/// PTX ISA, `ld` and `cp.async`, "Target ISA Notes".
fn prefetch_since(size: PrefetchSize) -> Since {
    match size {
        PrefetchSize::None => Since::ALWAYS,
        PrefetchSize::B64 | PrefetchSize::B128 => Since::sm(75, (7, 4)),
        PrefetchSize::B256 => Since::sm(80, (7, 4)),
    }
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

const VECTOR_ATOMIC: Since = Since::sm(90, (8, 1));

fn atomic_vector(stem: &'static str, slots: &'static [Slot], op: Atomic, vector: u8, ty: Type) -> Row {
    let types = match op {
        Atomic::Add => SINGLE.and(HALVES),
        Atomic::Min | Atomic::Max => HALVES,
        Atomic::And | Atomic::Or | Atomic::Xor | Atomic::Exch | Atomic::Cas | Atomic::Inc | Atomic::Dec => Types::NONE,
    };
    Row::typed(stem, ty, types, slots).counts([vector; 4])
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

/// A reduction returns no result, so it has no exchange operations.
fn reduction_types(op: Atomic) -> Types {
    match op {
        Atomic::Exch | Atomic::Cas => Types::NONE,
        op => atomic_types(op),
    }
}

/// The properties of a special register.
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
        AggrSmemSize => (WORD, Since::sm(90, (8, 1))),
        ReservedSmemOffsetBegin
        | ReservedSmemOffsetEnd
        | ReservedSmemOffsetCap
        | ReservedSmemOffset0
        | ReservedSmemOffset1 => (WORD, Since::sm(80, (7, 6))),
        CurrentGraphExec => (LONG, Since::sm(50, (8, 0))),
        GridId => (WORD.and(LONG), Since::ALWAYS),
        IsExplicitCluster => (Types::of(&[Type::Pred]), HOPPER),
        ClusterCtaRank | ClusterNctaRank | ClusterId | ClusterIdY | ClusterIdZ | NclusterId | NclusterIdY
        | NclusterIdZ | ClusterCtaidX | ClusterCtaidY | ClusterCtaidZ | ClusterNctaidX | ClusterNctaidY
        | ClusterNctaidZ => (WORD, HOPPER),
        LaneId | WarpId | NwarpId | LaneMaskLt | LaneMaskLe | LaneMaskEq | LaneMaskGe | LaneMaskGt | SmId | NsmId
        | Clock | ClockHi | GlobalTimerLo | GlobalTimerHi | DynamicSmemSize | TotalSmemSize | EnvReg(_) => {
            (WORD, Since::ALWAYS)
        }
    };
    SpecialRow { types, since }
}

/// Whether these are 16-bit floats, alone or in pairs.
pub(crate) fn is_half(ty: Type) -> bool {
    HALVES.has(ty)
}

/// Whether this is an addition of 16-bit floats; its mnemonic has to say `.noftz`.
pub(crate) fn is_half_addition(op: Atomic, ty: Type) -> bool {
    op == Atomic::Add && HALVES.has(ty)
}

/// Whether an opcode is the intended one where two share a stem: `mul.f32` is [`Opcode::Mul`], `mul.lo.s32` is not.
pub(crate) fn takes(op: &Opcode) -> bool {
    match op {
        Opcode::Mul { ty, .. } => ty.is_float(),
        Opcode::MulInt { ty, .. } => !ty.is_float(),
        Opcode::Carry { takes, gives, .. } => *takes || *gives,
        _ => true,
    }
}
