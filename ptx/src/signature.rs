//! The vocabulary of the instruction table: operand slots, the register types that each takes, and the targets that
//! have them.

use crate::target::{Suffix, Target, Version};
use crate::types::{Space, Type};

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u32);

impl Types {
    pub const NONE: Types = Types(0);
    pub const ALL: Types = Types(u32::MAX);

    pub const fn of(types: &[Type]) -> Types {
        let mut set = 0;
        let mut i = 0;
        while i < types.len() {
            set |= 1 << types[i] as u32;
            i += 1;
        }
        Types(set)
    }

    pub const fn and(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub const fn has(self, ty: Type) -> bool {
        self.0 & 1 << ty as u32 != 0
    }
}

/// The type of an operand, in terms of the instruction's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The n-th type of the row.
    Type(u8),
    /// Twice as wide as the first.
    Wide,
    /// This type, independent of the instruction's.
    Is(Type),
}

/// What may appear as one operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A register that is written.
    Write(Class),
    /// The same, or `_`.
    WriteOrSink(Class),
    /// A register or an immediate.
    Read(Class),
    /// A register at least as wide as the type, written or read by a load, a store or a conversion.
    WriteWide(Class),
    ReadWide(Class),
    /// One register for each lane of the row, in a vector if there is more than one.
    WriteLanes,
    ReadLanes,
    /// One register for each lane of the row, each exactly of the type, in a vector. A written element, or the whole
    /// vector, may be `_`; an element that is read may be constant.
    WriteVector,
    ReadVector,
    /// Either side of a `mov`, which also packs, unpacks, and reads special registers and addresses of variables.
    MoveTo,
    MoveFrom,
    /// A register, or a variable for its address.
    AddressValue(Class),
    /// A predicate, or two joined by `|`, either of which may be `_`.
    Predicates,
    /// A register, optionally with a predicate: `%r|%p`.
    WithPredicate(Class),
    /// The same, but the predicate is required and the register may be `_`.
    SinkWithPredicate(Class),
    /// A predicate that is read, optionally negated, or a constant predicate.
    Condition,
    /// A number of threads, or a condition if it is the last operand.
    ThreadsOrCondition,
    /// `[address]` in the row's space, or in this one.
    Address,
    AddressIn(Space),
    /// `[map, {coordinates}]`, with one coordinate for each lane of the row.
    Tensor,
    /// The name of a label.
    Label,
    /// The name of a list of labels.
    Targets,
    /// An integer constant within a range, and a multiple of the step.
    Constant {
        min: i64,
        max: i64,
        step: i64,
    },
    /// The same, or a 32-bit register.
    Bounded {
        min: i64,
        max: i64,
        step: i64,
    },
    /// A vector of registers of the n-th type, with the n-th count, even when there is only one.
    WriteFragment(u8),
    ReadFragment(u8),
    /// A 64-bit matrix descriptor, or a fragment with the n-th count.
    DescriptorOrFragment(u8),
    /// 1 or -1.
    Sign,
    /// A single-precision constant between 0 and 1.
    Fraction,
}

/// The target and version that have an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub target: Needs,
    pub version: Version,
    /// The version for sm_90 and later targets, if that is another one.
    hopper: Option<Version>,
}

/// The targets that have an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// This architecture or a later one.
    Sm(u32),
    /// Exactly this architecture, with all its features: `sm_90a`.
    Exactly(u32),
    /// This architecture or a later one, with the letter `a` or `f`.
    Accelerated(u32),
}

impl Since {
    /// sm_75, the oldest target of this project, has it in the first PTX version that supports sm_75.
    pub const ALWAYS: Since = Since::sm(75, (6, 3));

    pub const fn sm(sm: u32, version: Version) -> Since {
        Since { target: Needs::Sm(sm), version, hopper: None }
    }

    pub const fn exactly(sm: u32, version: Version) -> Since {
        Since { target: Needs::Exactly(sm), version, hopper: None }
    }

    pub const fn accelerated(sm: u32, version: Version) -> Since {
        Since { target: Needs::Accelerated(sm), version, hopper: None }
    }

    /// The same with another version for sm_90 and later targets.
    pub const fn on_hopper(self, version: Version) -> Since {
        Since { hopper: Some(version), ..self }
    }

    /// The version that a target needs.
    pub fn version_for(self, target: Option<Target>) -> Version {
        match (self.hopper, target) {
            (Some(version), Some(target)) if target.sm >= 90 => version,
            _ => self.version,
        }
    }

    /// The first of these requirements that a module for this target, of this version, does not meet.
    pub fn lacking(self, target: Option<Target>, version: Version) -> Option<String> {
        if target.is_some_and(|target| !self.target.met_by(target)) {
            return Some(format!("needs {}", self.target));
        }
        let needed = self.version_for(target);
        let (major, minor) = needed;
        (version < needed).then(|| format!("needs .version {major}.{minor}"))
    }

    /// The combined requirement of two parts of an instruction.
    pub fn with(self, other: Since) -> Since {
        let stricter = if self.target.sm() >= other.target.sm() { self.target } else { other.target };
        let hopper = match (self.hopper, other.hopper) {
            (None, None) => None,
            (of, and) => Some(of.unwrap_or(self.version).max(and.unwrap_or(other.version))),
        };
        Since { target: stricter, version: self.version.max(other.version), hopper }
    }
}

impl Needs {
    const fn sm(self) -> u32 {
        match self {
            Needs::Sm(sm) | Needs::Exactly(sm) | Needs::Accelerated(sm) => sm,
        }
    }

    pub const fn met_by(self, target: Target) -> bool {
        match self {
            Needs::Sm(sm) => target.sm >= sm,
            Needs::Exactly(sm) => target.sm == sm && matches!(target.suffix, Suffix::Architecture),
            Needs::Accelerated(sm) => target.sm >= sm && !matches!(target.suffix, Suffix::None),
        }
    }
}

impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Needs::Sm(sm) => write!(f, "sm_{sm} or later"),
            Needs::Exactly(sm) => write!(f, "sm_{sm}a"),
            Needs::Accelerated(sm) => write!(f, "sm_{sm}a or a later target with a letter"),
        }
    }
}

/// A row of the instruction table, for one opcode with all its modifiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The fixed first words of the mnemonic.
    pub stem: &'static str,
    /// The types that slots refer to; the first is the instruction's own, which `legal` constrains.
    pub types: [Type; 4],
    pub legal: Types,
    /// The operands in order; the last `optional` of them may be left out.
    pub slots: &'static [Slot],
    pub optional: usize,
    pub since: Since,
    pub space: Space,
    /// Number of elements of the vectors or fragments, in the order of `types`.
    pub counts: [u8; 4],
}

impl Row {
    /// A row of a typed instruction.
    pub const fn typed(stem: &'static str, ty: Type, legal: Types, slots: &'static [Slot]) -> Row {
        Row {
            stem,
            types: [ty; 4],
            legal,
            slots,
            optional: 0,
            since: Since::ALWAYS,
            space: Space::Generic,
            counts: [1; 4],
        }
    }

    /// A row of an instruction with no choice of type in its mnemonic.
    pub const fn plain(stem: &'static str, slots: &'static [Slot]) -> Row {
        Row::typed(stem, Type::B32, Types::ALL, slots)
    }

    pub const fn since(self, since: Since) -> Row {
        Row { since, ..self }
    }

    pub const fn optional(self, optional: usize) -> Row {
        Row { optional, ..self }
    }

    pub const fn space(self, space: Space) -> Row {
        Row { space, ..self }
    }

    pub const fn counts(self, counts: [u8; 4]) -> Row {
        Row { counts, ..self }
    }

    pub const fn types(self, types: [Type; 4]) -> Row {
        Row { types, ..self }
    }
}

/// The register types that hold a value of a type exactly, as ptxas accepts them: the type itself, or untyped bits of
/// its width.
pub(crate) const fn registers_of(ty: Type) -> Types {
    use Type::*;
    match ty {
        Pred => const { Types::of(&[Pred]) },
        B8 | U8 | S8 => const { Types::of(&[B8, U8, S8]) },
        U16 | S16 => const { Types::of(&[B16, U16, S16]) },
        B16 => const { Types::of(&[B16, U16, S16, F16]) },
        F16 => const { Types::of(&[B16, F16]) },
        // The alternate formats have no register type of their own.
        Bf16 | E4m3x2 | E5m2x2 => const { Types::of(&[B16]) },
        Bf16x2 | Tf32 | U16x2 | S16x2 => const { Types::of(&[B32]) },
        U32 | S32 => const { Types::of(&[B32, U32, S32]) },
        B32 => const { Types::of(&[B32, U32, S32, F32, F16x2]) },
        F16x2 => const { Types::of(&[B32, F16x2]) },
        F32 => const { Types::of(&[B32, F32]) },
        U64 | S64 => const { Types::of(&[B64, U64, S64]) },
        B64 => const { Types::of(&[B64, U64, S64, F64]) },
        F32x2 => const { Types::of(&[B64]) },
        F64 => const { Types::of(&[B64, F64]) },
        B128 => const { Types::of(&[B128]) },
    }
}

/// The same, plus the wider registers that loads, stores and conversions also accept.
pub(crate) const fn wide_registers_of(ty: Type) -> Types {
    use Type::*;
    const INTEGERS_64: Types = Types::of(&[B64, U64, S64, B128]);
    const INTEGERS_32: Types = Types::of(&[B32, U32, S32]).and(INTEGERS_64);
    const INTEGERS_16: Types = Types::of(&[B16, U16, S16]).and(INTEGERS_32);
    registers_of(ty).and(match ty {
        U8 | S8 => INTEGERS_16,
        B8 => INTEGERS_16.and(Types::of(&[F16, F32, F16x2, F64])),
        U16 | S16 => INTEGERS_32,
        B16 => INTEGERS_32.and(Types::of(&[F32, F16x2, F64])),
        F16 => Types::of(&[B32, B64]),
        U32 | S32 => INTEGERS_64,
        B32 => INTEGERS_64.and(Types::of(&[F64])),
        F32 => Types::of(&[B64, B128]),
        U64 | S64 | B64 | F64 => Types::of(&[B128]),
        Pred | Bf16 | E4m3x2 | E5m2x2 | Bf16x2 | Tf32 | F16x2 | B128 | U16x2 | S16x2 | F32x2 => Types::NONE,
    })
}

/// The integer type of twice the width.
pub(crate) const fn doubled(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        other => other,
    }
}
