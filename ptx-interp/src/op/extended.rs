//! Decoded instructions that this project's compiler does not emit.

use ptx_gemm_ptx::extended::CarryOf;
use ptx_gemm_ptx::instruction::Rounding;
use ptx_gemm_ptx::types::Type;

use super::{Arith, Op, P, Slot};

/// Arithmetic that takes a carry, or gives one.
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

/// A float instruction whose operands and results are changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modified {
    pub(crate) op: Op,
    /// The sources in which subnormals are zeros, with their type.
    pub(crate) flushed: [Option<(Slot, Type)>; 3],
    /// The destination and its type, if it is a float.
    pub(crate) result: Option<(Slot, Type)>,
    /// Whether subnormal results are zeros.
    pub(crate) ftz: bool,
    /// How to tell whether the result was a subnormal one that rounding made the smallest normal number.
    pub(crate) inexact: Option<Inexact>,
    /// Whether the result is clamped to [0, 1].
    pub(crate) sat: bool,
}

/// An operation whose result may have more bits than its type, where it is smallest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inexact {
    /// The operation; none for a conversion.
    pub(crate) op: Option<Arith>,
    pub(crate) rounding: Rounding,
    pub(crate) sources: [Slot; 3],
    /// The type of the sources.
    pub(crate) from: Type,
}
