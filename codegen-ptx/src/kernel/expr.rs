//! Quasi-affine index expressions: sums, products, division and remainder by constants, xor, all with known upper
//! bounds.
//!
//! Each leaf carries the largest value it can hold, so that every expression has a bound. The verifier relies on it,
//! and `x % n` with `x < n` simplifies to `x`.

use std::ops;

use ptx_gemm_dsl::terms::Swizzle;

use super::Reg;

/// A comparison of two index expressions, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// x < y
    Lt,
    /// x >= y
    Ge,
    /// x == y
    Eq,
    /// x != y
    Ne,
}

/// An index expression. Arithmetic is unsigned and does not wrap (callers ensure this). A constant takes the type of
/// the other operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Const(u64),
    /// A register of type u32, u64 or predicate, and the largest value it can hold.
    Reg(Reg, u64),
    /// The thread's index in its block, below the given number.
    Tid(u32),
    /// The block's index in the grid.
    Block,
    /// The number of blocks in the grid.
    Blocks,
    /// Address of the block's shared memory, in the shared state space.
    SharedBase,
    /// Sum.
    Add(Box<Expr>, Box<Expr>),
    /// Difference; the second operand is never larger than the first.
    Sub(Box<Expr>, Box<Expr>),
    /// Product.
    Mul(Box<Expr>, Box<Expr>),
    /// Quotient.
    Div(Box<Expr>, Box<Expr>),
    /// Remainder.
    Mod(Box<Expr>, Box<Expr>),
    /// The smaller one.
    Min(Box<Expr>, Box<Expr>),
    /// The larger one.
    Max(Box<Expr>, Box<Expr>),
    /// Bitwise exclusive or.
    Xor(Box<Expr>, Box<Expr>),
    /// A byte offset with its address bits permuted.
    Swizzle(Box<Expr>, Swizzle),
    /// u32 to u64.
    Wide(Box<Expr>),
    /// A truth value.
    Compare(Compare, Box<Expr>, Box<Expr>),
    /// Conjunction of two truth values.
    And(Box<Expr>, Box<Expr>),
    /// Negation of a truth value.
    Not(Box<Expr>),
    /// `if cond { x } else { y }`.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// A value with no known bound.
pub const UNBOUNDED: u64 = u64::MAX;

impl Expr {
    /// The largest value it can take, or [`UNBOUNDED`].
    pub fn bound(&self) -> u64 {
        match self {
            Expr::Const(c) => *c,
            Expr::Reg(_, bound) => *bound,
            Expr::Tid(threads) => u64::from(*threads) - 1,
            Expr::Block | Expr::Blocks => u64::from(i32::MAX as u32),
            // Bounds of shared addresses are relative to the start of shared memory.
            Expr::SharedBase => 0,
            Expr::Add(x, y) => x.bound().saturating_add(y.bound()),
            Expr::Sub(x, _) => x.bound(),
            Expr::Mul(x, y) => x.bound().saturating_mul(y.bound()),
            Expr::Div(x, y) => match **y {
                Expr::Const(c) if c > 0 && x.bound() != UNBOUNDED => x.bound() / c,
                _ => x.bound(),
            },
            Expr::Mod(x, y) => match **y {
                Expr::Const(c) if c > 0 => x.bound().min(c - 1),
                _ => x.bound(),
            },
            Expr::Min(x, y) => x.bound().min(y.bound()),
            Expr::Max(x, y) => x.bound().max(y.bound()),
            Expr::Xor(x, y) => match x.bound().max(y.bound()).checked_add(1) {
                Some(limit) => limit.checked_next_power_of_two().map_or(UNBOUNDED, |p| p - 1),
                None => UNBOUNDED,
            },
            Expr::Wide(x) => x.bound(),
            // A swizzle may set any of the bits within the chunks of 16 bytes that it permutes.
            Expr::Swizzle(x, swizzle) => x.bound() | u64::from(swizzle.bits()) | 15,
            Expr::Compare(..) | Expr::And(..) | Expr::Not(_) => 1,
            Expr::Select(_, x, y) => x.bound().max(y.bound()),
        }
    }

    /// u32 to u64.
    pub fn wide(self) -> Expr {
        match self {
            Expr::Const(_) => self,
            other => Expr::Wide(Box::new(other)),
        }
    }

    /// The same byte offset under a swizzle.
    pub fn swizzle(self, swizzle: Swizzle) -> Expr {
        match swizzle {
            Swizzle::None => self,
            _ => Expr::Swizzle(Box::new(self), swizzle),
        }
    }

    /// The smaller of two values.
    pub fn min(self, other: Expr) -> Expr {
        Expr::Min(Box::new(self), Box::new(other))
    }

    /// The larger of two values.
    pub fn max(self, other: Expr) -> Expr {
        if other.is(0) {
            return self;
        }
        Expr::Max(Box::new(self), Box::new(other))
    }

    /// A comparison.
    pub fn compare(self, compare: Compare, other: impl Into<Expr>) -> Expr {
        Expr::Compare(compare, Box::new(self), Box::new(other.into()))
    }

    /// self < other
    pub fn lt(self, other: impl Into<Expr>) -> Expr {
        self.compare(Compare::Lt, other)
    }

    /// self >= other
    pub fn ge(self, other: impl Into<Expr>) -> Expr {
        self.compare(Compare::Ge, other)
    }

    /// Conjunction of two truth values. A constant 1 is neutral.
    pub fn and(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(1), x) | (x, Expr::Const(1)) => x,
            (x, y) => Expr::And(Box::new(x), Box::new(y)),
        }
    }

    /// `if self { yes } else { no }`.
    pub fn select(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::Select(Box::new(self), Box::new(yes.into()), Box::new(no.into()))
    }

    /// Exclusive or.
    pub fn xor(self, other: Expr) -> Expr {
        Expr::Xor(Box::new(self), Box::new(other))
    }

    /// True if this is the given constant.
    pub fn is(&self, value: u64) -> bool {
        matches!(self, Expr::Const(c) if *c == value)
    }
}

impl From<u64> for Expr {
    fn from(value: u64) -> Expr {
        Expr::Const(value)
    }
}

impl From<u32> for Expr {
    fn from(value: u32) -> Expr {
        Expr::Const(u64::from(value))
    }
}

impl<T: Into<Expr>> ops::Add<T> for Expr {
    type Output = Expr;
    fn add(self, other: T) -> Expr {
        match (self, other.into()) {
            (Expr::Const(0), x) | (x, Expr::Const(0)) => x,
            (Expr::Const(x), Expr::Const(y)) => Expr::Const(x + y),
            (x, y) => Expr::Add(Box::new(x), Box::new(y)),
        }
    }
}

impl<T: Into<Expr>> ops::Sub<T> for Expr {
    type Output = Expr;
    fn sub(self, other: T) -> Expr {
        match (self, other.into()) {
            (x, Expr::Const(0)) => x,
            (x, y) => Expr::Sub(Box::new(x), Box::new(y)),
        }
    }
}

impl<T: Into<Expr>> ops::Mul<T> for Expr {
    type Output = Expr;
    fn mul(self, other: T) -> Expr {
        match (self, other.into()) {
            (Expr::Const(0), _) | (_, Expr::Const(0)) => Expr::Const(0),
            (Expr::Const(1), x) | (x, Expr::Const(1)) => x,
            (Expr::Const(x), Expr::Const(y)) => Expr::Const(x * y),
            (Expr::Const(x), y) => Expr::Mul(Box::new(y), Box::new(Expr::Const(x))),
            // (x * c) * d = x * (c * d), since index arithmetic does not wrap.
            (Expr::Mul(x, c), Expr::Const(d)) if matches!(*c, Expr::Const(_)) => *x * (*c * d),
            (x, y) => Expr::Mul(Box::new(x), Box::new(y)),
        }
    }
}

impl<T: Into<Expr>> ops::Div<T> for Expr {
    type Output = Expr;
    fn div(self, other: T) -> Expr {
        match (self, other.into()) {
            (x, Expr::Const(1)) => x,
            (Expr::Const(x), Expr::Const(y)) => Expr::Const(x / y),
            (x, Expr::Const(c)) if x.bound() < c => Expr::Const(0),
            (x, y) => Expr::Div(Box::new(x), Box::new(y)),
        }
    }
}

impl<T: Into<Expr>> ops::Rem<T> for Expr {
    type Output = Expr;
    fn rem(self, other: T) -> Expr {
        match (self, other.into()) {
            (_, Expr::Const(1)) => Expr::Const(0),
            (Expr::Const(x), Expr::Const(y)) => Expr::Const(x % y),
            (x, Expr::Const(c)) if x.bound() < c => x,
            (x, y) => Expr::Mod(Box::new(x), Box::new(y)),
        }
    }
}
