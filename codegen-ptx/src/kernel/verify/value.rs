//! What is known about index values: the domain of the analysis in [`super::memory`].
//!
//! A *number* identifies a value that a register held for some time; copies share it. What a condition says about a
//! number is a [`Fact`]. Subtraction is where unsigned arithmetic can wrap: a difference is bounded only if the second
//! operand is known to be the smaller one, or if it has the form `max(x, y) - y`.

use crate::kernel::Dim;

/// Identifies a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub u32);

/// The thread's index in its block.
pub(super) const TID: Number = Number(0);
/// The origin of a whole dimension, which is 0.
pub(super) const START: Number = Number(u32::MAX - 1);
/// Something that is not a numbered value.
pub(super) const NOWHERE: Number = Number(u32::MAX);

/// What a condition implies for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    AtLeast(Number, u64),
    Below(Number, u64),
}

/// A range in the analysis's list of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub start: u32,
    pub end: u32,
}

impl Facts {
    pub const NONE: Facts = Facts { start: 0, end: 0 };
}

/// A set of dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dims(u8);

impl Dims {
    pub const NONE: Dims = Dims(0);
    pub const ALL: Dims = Dims(7);

    pub fn of(dim: Dim) -> Dims {
        Dims(1 << dim as u8)
    }

    pub fn has(self, dim: Dim) -> bool {
        self.0 & Dims::of(dim).0 != 0
    }

    pub fn or(self, other: Dims) -> Dims {
        Dims(self.0 | other.0)
    }

    pub fn and(self, other: Dims) -> Dims {
        Dims(self.0 & other.0)
    }
}

/// The origin of a tile along a dimension, as the number of its value.
pub(super) type Origin = (Dim, Number);

/// What an address derives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pointer {
    /// The kernel parameter with this index.
    Param(usize),
    /// The start of shared memory.
    Shared,
}

/// `if the facts hold { yes } else { no }`, with two constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub facts: Facts,
    pub yes: u64,
    pub no: u64,
}

/// What is known about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Smallest and largest value. A shared address counts from the start of shared memory.
    pub lo: u64,
    pub hi: u64,
    /// A divisor of the value; 0 if the value is 0.
    pub multiple: u64,
    /// Whether it has 64 bits.
    pub wide: bool,
    /// The value is at most what is left of a dimension from this origin.
    pub left: Option<Origin>,
    /// Number of elements before that origin that are also in bounds: the value is the result of subtracting constants
    /// that were known to fit.
    pub before: u64,
    /// If the value is not 0, some coordinate is below what is left of each of these dimensions.
    pub counts: Dims,
    /// The value is one less than what is left from this origin.
    pub last: Option<Origin>,
    /// The value is at most one less than what is left from this origin.
    pub clamped: Option<Origin>,
    /// The value is, or was computed from, coordinates that are in bounds in these dimensions.
    pub inside: Dims,
    /// The value is at most the value of this number.
    pub under: Number,
    pub pointer: Option<Pointer>,
    pub choice: Option<Choice>,
    /// For a truth value: what follows if it is true, and if it is false.
    pub yes: Facts,
    pub no: Facts,
}

impl Known {
    /// Any value of 32 or 64 bits.
    pub const fn any(wide: bool) -> Known {
        Known {
            lo: 0,
            hi: limit(wide),
            multiple: 1,
            wide,
            left: None,
            before: 0,
            counts: Dims::NONE,
            last: None,
            clamped: None,
            inside: Dims::NONE,
            under: NOWHERE,
            pointer: None,
            choice: None,
            yes: Facts::NONE,
            no: Facts::NONE,
        }
    }

    pub fn constant(value: u64) -> Known {
        // Every implication holds for 0.
        let counts = if value == 0 { Dims::ALL } else { Dims::NONE };
        Known { lo: value, hi: value, multiple: value, counts, ..Known::any(false) }
    }

    /// A truth value.
    pub fn truth(counts: Dims, yes: Facts, no: Facts) -> Known {
        Known { hi: 1, counts, yes, no, ..Known::any(false) }
    }

    /// Any value in an interval, with a known divisor; anything if it does not fit the type.
    pub fn between(lo: u64, hi: u64, multiple: u64, wide: bool) -> Known {
        match hi <= limit(wide) && hi != u64::MAX {
            true => Known { lo, hi, multiple, ..Known::any(wide) },
            // The value may wrap, after which only powers of two still divide it.
            false => Known { multiple: power_of_two(multiple), ..Known::any(wide) },
        }
    }

    /// A value that is what is left of a dimension; it is also a count of it.
    pub fn left_of(self, dim: Dim, origin: Number, before: u64) -> Known {
        // Only m and n are clamped, relative to their origin.
        let origin = if dim == Dim::K { NOWHERE } else { origin };
        Known { left: Some((dim, origin)), counts: self.counts.or(Dims::of(dim)), before, ..self }
    }

    fn is_zero(&self) -> bool {
        self.hi == 0
    }

    /// The facts that hold for both values.
    pub fn meet(self, other: Known) -> Known {
        let same = |x: Option<Origin>, y: Option<Origin>| if x == y { x } else { None };
        let (left, before) = match (self.left, other.left) {
            (left, None) if other.is_zero() => (left, self.before),
            (None, left) if self.is_zero() => (left, other.before),
            (Some((dim, x)), Some((other_dim, y))) if dim == other_dim => {
                (Some((dim, if x == y { x } else { NOWHERE })), self.before.min(other.before))
            }
            _ => (None, 0),
        };
        Known {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
            multiple: gcd(self.multiple, other.multiple),
            wide: self.wide || other.wide,
            left,
            before,
            counts: self.counts.and(other.counts),
            last: same(self.last, other.last),
            clamped: same(self.clamped, other.clamped),
            inside: self.inside.and(other.inside),
            under: if self.under == other.under { self.under } else { NOWHERE },
            pointer: if self.pointer == other.pointer { self.pointer } else { None },
            choice: None,
            yes: Facts::NONE,
            no: Facts::NONE,
        }
    }

    /// Adds what a fact says if it concerns this value.
    pub fn refine(&mut self, number: Number, fact: Fact) {
        match fact {
            Fact::AtLeast(of, least) if of == number => {
                let least = if self.multiple > 1 { least.next_multiple_of(self.multiple) } else { least };
                self.lo = self.lo.max(least);
            }
            Fact::Below(of, limit) if of == number => {
                let most = limit.saturating_sub(1);
                let most = if self.multiple == 0 { 0 } else { most - most % self.multiple };
                self.hi = self.hi.min(most);
            }
            _ => {}
        }
    }
}

/// The largest value of a type.
const fn limit(wide: bool) -> u64 {
    if wide { u64::MAX } else { u32::MAX as u64 }
}

/// The largest power of two that divides a number.
pub(super) fn power_of_two(x: u64) -> u64 {
    if x == 0 { 1 << 31 } else { 1 << x.trailing_zeros().min(31) }
}

pub(super) fn gcd(x: u64, y: u64) -> u64 {
    if y == 0 { x } else { gcd(y, x % y) }
}
