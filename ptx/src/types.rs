//! PTX types and state spaces.

/// A PTX register or memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Type {
    Pred, B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64, F16, F16x2, Bf16, Bf16x2, Tf32, F32, F64,
    E4m3x2, E5m2x2,
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Space {
    Generic, Global, Shared, SharedCta, SharedCluster, Local, Param, Const,
}
