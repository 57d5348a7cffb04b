//! Decoded operations that are evaluated lane by lane.

use ptx_gemm_ptx::extended::Permutation;
use ptx_gemm_ptx::instruction::{Approx, Rounding};
use ptx_gemm_ptx::types::Type;

use super::{Cmp, Slot};
use crate::address::Place;

/// A rarer operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar {
    pub(crate) f: ScalarFn,
    pub(crate) d: Slot,
    pub(crate) sources: [Slot; 4],
    /// How many of the sources are real.
    pub(crate) arity: u8,
}

/// Arithmetic that exists for many types and rounding modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    MulHi,
    MulWide,
    Mad,
    MadHi,
    MadWide,
    Fma,
    Rcp,
    Sqrt,
    Div,
    Rem,
    Min,
    Max,
    MinNan,
    MaxNan,
    Neg,
    Abs,
    Not,
    Shl,
    Shr,
    And,
    Or,
    Xor,
}

/// Operations on bit patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bits {
    /// `bfe a, position, length`.
    Extract,
    /// `bfi a, b, position, length`.
    Insert,
    Count,
    LeadingZeros,
    Reverse,
    /// `prmt a, b, selector`.
    Permute,
    /// `prmt` with a mode, and the selector's two lowest bits.
    PermuteMode(Permutation),
    /// The highest bit that is not a copy of the sign, or how far it is from the top.
    Highest {
        shift_amount: bool,
    },
    /// `lop3 a, b, c, table`.
    Table,
    /// `shf`: the upper word of `high:low << amount`, or the lower word of `high:low >> amount`.
    Funnel {
        left: bool,
        clamp: bool,
    },
}

/// The rarer operations, evaluated one lane at a time on values widened to 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScalarFn {
    /// Integers of 16 bits, and multiplications that have no row form.
    Int {
        op: Arith,
        ty: Type,
    },
    /// f16, bf16 and their packed forms.
    Half {
        op: Arith,
        ty: Type,
    },
    /// f32 and f64 in a rounding mode other than to nearest even.
    Directed {
        op: Arith,
        ty: Type,
        rounding: Rounding,
    },
    Approx {
        function: Approx,
        ty: Type,
    },
    Convert {
        to: Type,
        from: Type,
        rounding: Rounding,
        saturate: bool,
    },
    /// Two floats into one packed register: `cvt.rn.f16x2.f32 d, a, b` (a is the upper half).
    ConvertPair {
        to: Type,
        rounding: Rounding,
    },
    /// A comparison of 16-bit values: 1 or 0 into a predicate.
    Compare {
        cmp: Cmp,
        ty: Type,
    },
    /// Bits of one or two words.
    Bits {
        op: Bits,
        ty: Type,
    },
    /// Whether a generic address lies in a space: 1 or 0 into a predicate.
    IsSpace {
        place: Place,
    },
    /// Two 16-bit halves into one 32-bit register, lower first.
    Pack16,
    /// A sum or difference of `s32` that does not wrap.
    Saturating {
        op: Arith,
    },
    /// The sign of one float, the rest of another.
    CopySign {
        ty: Type,
    },
    /// A distance, and a third number.
    Distance {
        ty: Type,
    },
    /// The dot product of four bytes, and a third number; whether the bytes are signed.
    Dot {
        a: bool,
        b: bool,
    },
}

impl ScalarFn {
    /// Whether it is a multiply-add of floats.
    pub(crate) fn is_fma(self) -> bool {
        matches!(self, ScalarFn::Half { op: Arith::Fma, .. } | ScalarFn::Directed { op: Arith::Fma, .. })
    }
}
