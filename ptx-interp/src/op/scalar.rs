//! Decoded operations that are evaluated lane by lane.

use ptx_gemm_ptx::extended::{FloatTest, Merge, Parts, Permutation, Video};
use ptx_gemm_ptx::instruction::{Approx, Rounding};
use ptx_gemm_ptx::types::Type;

use super::{Cmp, Slot};
use crate::address::StateSpace;

/// A rarer operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar {
    pub(crate) f: ScalarFn,
    pub(crate) d: Slot,
    pub(crate) sources: [Slot; 4],
    /// Number of sources in use.
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
    /// `prmt` with a mode; the mode uses the selector's two lowest bits.
    PermuteMode(Permutation),
    /// The position of the highest bit that differs from the sign, or its distance from the top.
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
    /// `bmsk`: this many ones, from this bit up.
    Ones {
        clamp: bool,
    },
    /// `szext`: the lowest bits, extended.
    Low {
        clamp: bool,
    },
}

/// The rarer operations, evaluated one lane at a time on values widened to 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScalarFn {
    /// 16-bit integers, and multiplications without a row form.
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
    /// Two f32 in one register.
    Singles {
        op: Arith,
        rounding: Rounding,
        ftz: bool,
    },
    Approx {
        function: Approx,
        ty: Type,
    },
    /// Works only on the upper word of a double, and with `.ftz`: the lower word of the result is zero.
    ApproxUpper {
        function: Approx,
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
    /// Two floats, or a pair of f16, into a pair of 8-bit floats.
    ToEighths {
        to: Type,
        from: Type,
    },
    /// A pair of 8-bit floats into a pair of f16.
    FromEighths {
        from: Type,
    },
    /// A comparison of 16-bit values: 1 or 0 into a predicate.
    Compare {
        cmp: Cmp,
        ty: Type,
    },
    /// Operations on the bits of one or two words.
    Bits {
        op: Bits,
        ty: Type,
    },
    /// Whether a generic address is in a space: 1 or 0 into a predicate. The second source is the block's rank.
    IsSpace {
        space: StateSpace,
    },
    /// Two 16-bit halves into one 32-bit register, lower first.
    Pack16,
    /// Four 16-bit parts into one 64-bit register.
    Pack4,
    /// A comparison with a number as its result: zero, or all ones or 1.0.
    Set {
        cmp: Cmp,
        swapped: bool,
        to: Type,
        from: Type,
    },
    /// `slct`: the first source if the third is not negative, otherwise the second.
    SelectBySign {
        by: Type,
        /// Whether a subnormal counts as zero.
        ftz: bool,
    },
    /// `fns`.
    NthSet,
    /// A product of 24-bit numbers, or its upper part, plus a third number.
    Product24 {
        high: bool,
        ty: Type,
    },
    /// `cvt.pack`: saturated integers next to each other.
    PackSaturated {
        to: Type,
    },
    /// The number of arrivals that an mbarrier's phase lacked when a state was returned.
    PendingCount,
    /// A sum or difference of `s32` that saturates.
    Saturating {
        op: Arith,
    },
    /// The sign of one float with the magnitude of another.
    CopySign {
        ty: Type,
    },
    /// An absolute difference plus a third number.
    Distance {
        ty: Type,
    },
    /// Whether a float is of a kind: 1 or 0 into a predicate.
    TestFloat {
        what: FloatTest,
        ty: Type,
    },
    /// 1 for zero, otherwise 0.
    IsZero,
    /// The dot product of two 16-bit numbers and two bytes, plus a third number; with their signedness.
    Dot2 {
        high: bool,
        a: bool,
        b: bool,
    },
    /// The upper word of a product of `s32` plus a third number, saturated.
    MadHiSaturating,
    /// The minimum or maximum of three values.
    OfThree {
        op: Arith,
        ty: Type,
    },
    /// The minimum or maximum magnitude, with the exclusive or of the signs. Subnormal magnitudes may be flushed.
    XorSign {
        op: Arith,
        ty: Type,
        ftz: bool,
    },
    /// From single precision; a result beyond the largest finite number becomes that number. Two sources become a pair.
    ConvertFinite {
        to: Type,
        rounding: Rounding,
    },
    /// A video instruction: an operation on each pair of halves or bytes, with these types of the result and the
    /// sources.
    Video {
        op: Video,
        parts: Parts,
        merge: Merge,
        types: [Type; 3],
    },
    /// A comparison of each pair. It gives 1 or 0, or adds the number of pairs for which it holds to the third source.
    VideoSet {
        parts: Parts,
        add: bool,
        cmp: Cmp,
        types: [Type; 2],
    },
    /// The dot product of four bytes plus a third number; with the signedness of the bytes.
    Dot {
        a: bool,
        b: bool,
    },
}

impl ScalarFn {
    /// Whether it is a floating-point multiply-add.
    pub(crate) fn is_fma(self) -> bool {
        matches!(self, ScalarFn::Half { op: Arith::Fma, .. } | ScalarFn::Directed { op: Arith::Fma, .. })
    }
}
