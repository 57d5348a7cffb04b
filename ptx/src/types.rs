//! PTX types and state spaces.

use crate::names::words;

/// A PTX register or memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3x2,
    E5m2x2,
    U16x2,
    S16x2,
    F32x2,
}

words!(Type {
    Pred "pred", B8 "b8", B16 "b16", B32 "b32", B64 "b64", B128 "b128", U8 "u8", U16 "u16", U32 "u32", U64 "u64",
    S8 "s8", S16 "s16", S32 "s32", S64 "s64", F16 "f16", F16x2 "f16x2", Bf16 "bf16", Bf16x2 "bf16x2", Tf32 "tf32",
    F32 "f32", F64 "f64", E4m3x2 "e4m3x2", E5m2x2 "e5m2x2", U16x2 "u16x2", S16x2 "s16x2",
    F32x2 "f32x2",
});

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Space {
    Generic,
    Global,
    Shared,
    SharedCta,
    SharedCluster,
    Local,
    Param,
    Const,
}

words!(Space {
    Generic "", Global "global", Shared "shared", SharedCta "shared::cta", SharedCluster "shared::cluster",
    Local "local", Param "param", Const "const",
});

impl Type {
    /// Width in bits; a predicate counts as one.
    pub const fn bits(self) -> u32 {
        match self {
            Type::Pred => 1,
            Type::B8 | Type::U8 | Type::S8 => 8,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 | Type::E4m3x2 | Type::E5m2x2 => 16,
            Type::B32
            | Type::U32
            | Type::S32
            | Type::F16x2
            | Type::Bf16x2
            | Type::Tf32
            | Type::F32
            | Type::U16x2
            | Type::S16x2 => 32,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 | Type::F32x2 => 64,
            Type::B128 => 128,
        }
    }

    /// Size in memory, in bytes; 0 for a predicate, which has none.
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Whether this is a floating-point type, including packed and narrow formats.
    pub const fn is_float(self) -> bool {
        use Type::*;
        matches!(self, F16 | F16x2 | Bf16 | Bf16x2 | Tf32 | F32 | F64 | F32x2 | E4m3x2 | E5m2x2)
    }

    /// Whether the type is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64 | Type::S16x2)
    }
}

impl Space {
    /// Whether this is shared memory under any of its names, including a peer's in the cluster.
    pub const fn is_shared(self) -> bool {
        matches!(self, Space::Shared | Space::SharedCta | Space::SharedCluster)
    }
}
