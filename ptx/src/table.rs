//! The instruction table: what each opcode is called, and the prototypes that the parser starts from.

use crate::instruction::{Approx, Atomic, Cache, Compare, Half, Opcode, Order, Rounding, Scope};
use crate::types::{Space, Type};

/// The fixed first words of an opcode's mnemonic.
pub(crate) fn stem(op: &Opcode) -> &'static str {
    match op {
        Opcode::Mov(_) => "mov",
        Opcode::Ld { .. } => "ld",
        Opcode::St { .. } => "st",
        Opcode::Add { .. } => "add",
        Opcode::Sub { .. } => "sub",
        Opcode::Mul { .. } | Opcode::MulInt { .. } => "mul",
        Opcode::MadInt { .. } => "mad",
        Opcode::Fma { .. } => "fma",
        Opcode::Div { .. } => "div",
        Opcode::Rem(_) => "rem",
        Opcode::Min { .. } => "min",
        Opcode::Max { .. } => "max",
        Opcode::Abs(_) => "abs",
        Opcode::Neg(_) => "neg",
        Opcode::And(_) => "and",
        Opcode::Or(_) => "or",
        Opcode::Xor(_) => "xor",
        Opcode::Not(_) => "not",
        Opcode::Shl(_) => "shl",
        Opcode::Shr(_) => "shr",
        Opcode::Setp { .. } => "setp",
        Opcode::Selp(_) => "selp",
        Opcode::Cvt { .. } => "cvt",
        Opcode::Cvta { .. } => "cvta",
        Opcode::Approx { function, .. } => function.name(),
        Opcode::Bra { .. } => "bra",
        Opcode::BarSync => "bar.sync",
        Opcode::BarArrive => "bar.arrive",
        Opcode::BarWarpSync => "bar.warp.sync",
        Opcode::Ret => "ret",
        Opcode::Exit => "exit",
        Opcode::CpAsync { .. } => "cp.async",
        Opcode::CpAsyncCommit => "cp.async.commit_group",
        Opcode::CpAsyncWait => "cp.async.wait_group",
        Opcode::CpAsyncWaitAll => "cp.async.wait_all",
        Opcode::Fence { .. } => "fence",
        Opcode::Atom { .. } => "atom",
        Opcode::Red { .. } => "red",
        Opcode::Unknown(_) => "",
    }
}

/// Whether this is an addition of 16-bit floats, whose mnemonic has to say `.noftz`.
pub(crate) fn is_half_addition(op: Atomic, ty: Type) -> bool {
    op == Atomic::Add && matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
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
    let first = mnemonic.split('.').next().unwrap_or("");
    let start = PROTOTYPES.partition_point(|op| first_word(op) < first);
    PROTOTYPES[start..]
        .iter()
        .take_while(move |op| first_word(op) == first)
        .filter(move |op| mnemonic.strip_prefix(stem(op)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

fn first_word(op: &Opcode) -> &'static str {
    stem(op).split('.').next().unwrap_or("")
}

const fn approx(function: Approx) -> Opcode {
    Opcode::Approx { function, ty: Type::F32 }
}

/// One opcode of each kind, sorted by the first word of the stem, longer stems first. The fields are what a mnemonic that
/// leaves them out means.
static PROTOTYPES: &[Opcode] = &[
    Opcode::Abs(Type::B32),
    Opcode::Add { rnd: Rounding::None, ty: Type::B32 },
    Opcode::And(Type::B32),
    Opcode::Atom { order: Order::Weak, space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::BarWarpSync,
    Opcode::BarSync,
    Opcode::BarArrive,
    Opcode::Bra { uniform: false },
    approx(Approx::Cos),
    Opcode::CpAsyncCommit,
    Opcode::CpAsyncWait,
    Opcode::CpAsyncWaitAll,
    Opcode::CpAsync { cache: Cache::None },
    Opcode::Cvt { rnd: Rounding::None, sat: false, to: Type::B32, from: Type::B32 },
    Opcode::Cvta { to: false, space: Space::Generic, ty: Type::U64 },
    Opcode::Div { rnd: Rounding::None, ty: Type::B32 },
    approx(Approx::Ex2),
    Opcode::Exit,
    Opcode::Fence { acq_rel: true, scope: Scope::Gpu },
    Opcode::Fma { rnd: Rounding::None, ty: Type::F32 },
    Opcode::Ld { order: Order::Weak, space: Space::Generic, cache: Cache::None, vector: 1, ty: Type::B32 },
    approx(Approx::Lg2),
    Opcode::MadInt { half: Half::Lo, ty: Type::B32 },
    Opcode::Max { nan: false, ty: Type::B32 },
    Opcode::Min { nan: false, ty: Type::B32 },
    Opcode::Mov(Type::B32),
    Opcode::Mul { rnd: Rounding::None, ty: Type::F32 },
    Opcode::MulInt { half: Half::Lo, ty: Type::B32 },
    Opcode::Neg(Type::B32),
    Opcode::Not(Type::B32),
    Opcode::Or(Type::B32),
    approx(Approx::Rcp),
    Opcode::Red { order: Order::Weak, space: Space::Generic, op: Atomic::Add, ty: Type::B32 },
    Opcode::Rem(Type::B32),
    Opcode::Ret,
    approx(Approx::Rsqrt),
    Opcode::Selp(Type::B32),
    Opcode::Setp { cmp: Compare::Eq, ty: Type::B32 },
    Opcode::Shl(Type::B32),
    Opcode::Shr(Type::B32),
    approx(Approx::Sin),
    approx(Approx::Sqrt),
    Opcode::St { order: Order::Weak, space: Space::Generic, cache: Cache::None, vector: 1, ty: Type::B32 },
    Opcode::Sub { rnd: Rounding::None, ty: Type::B32 },
    approx(Approx::Tanh),
    Opcode::Xor(Type::B32),
];
