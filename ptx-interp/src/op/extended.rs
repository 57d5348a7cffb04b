//! Decoded instructions that this project's compiler does not emit.

use ptx_gemm_ptx::extended::CarryOf;
use ptx_gemm_ptx::instruction::Rounding;
use ptx_gemm_ptx::types::Type;

use super::{Arith, Op, P, Slot};

/// Arithmetic that reads or writes the carry flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carry {
    pub(crate) of: CarryOf,
    pub(crate) ty: Type,
    pub(crate) d: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    /// The condition code's carry.
    pub(crate) carry: P,
    pub(crate) takes: bool,
    pub(crate) gives: bool,
}

/// A float instruction with modified operands and results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modified {
    pub(crate) op: Op,
    /// The sources with subnormals that are flushed to zero, with their types.
    pub(crate) flushed: [Option<(Slot, Type)>; 3],
    /// The destination and its type, if the type is a float or the destination may be in the register of a flushed source.
    pub(crate) result: Option<(Slot, Type)>,
    /// Whether subnormal results are flushed to zero.
    pub(crate) ftz: bool,
    /// How to determine whether a result was subnormal before rounding made it the smallest normal number.
    pub(crate) inexact: Option<Inexact>,
    /// Whether the result is clamped to [0, 1].
    pub(crate) sat: bool,
    /// Whether negative results and NaN become zero and the canonical NaN.
    pub(crate) relu: bool,
}

/// An operation that is not exact near the smallest normal number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inexact {
    /// The operation; `None` for a conversion.
    pub(crate) op: Option<Arith>,
    pub(crate) rounding: Rounding,
    pub(crate) sources: [Slot; 3],
    /// The type of the sources.
    pub(crate) from: Type,
}
