//! What a global access touches, as data: the argument that its pointer comes from, and how far it reaches along each
//! dimension from a position that a register of the kernel measures.
//!
//! ```text
//! ga0..3 = load global [rd4 + 0] in a within m 128 of r20, k 8 of r32
//! ```
//!
//! says that rows are touched up to the 128th from where `r20` rows are left, and k up to the 8th from where `r32` is left.
//! Nothing here says *why* this lies inside: the verifier finds the reason in the conditions around the access.

use super::Reg;

/// A dimension of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Rows of D.
    M,
    /// Columns of D.
    N,
    /// What is summed over.
    K,
}

impl Dim {
    /// All of them.
    pub const ALL: [Dim; 3] = [Dim::M, Dim::N, Dim::K];

    /// Its name in the text form.
    pub fn letter(self) -> char {
        match self {
            Dim::M => 'm',
            Dim::N => 'n',
            Dim::K => 'k',
        }
    }
}

/// What a kernel parameter is to the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// How long a dimension is, at most [`MAX_EXTENT`].
    Extent(Dim),
    /// Address of a matrix with these two dimensions.
    Matrix(Dim, Dim),
    /// Address of a vector along this dimension.
    Vector(Dim),
    /// Address of memory that the plan has sized for the launch.
    Workspace,
    /// A scalar, a stride, the number of products.
    Other,
}

impl Holds {
    /// The dimensions by which an access to it is bounded; `None` if it is not an address.
    pub fn dims(self) -> Option<[Option<Dim>; 2]> {
        match self {
            Holds::Matrix(x, y) => Some([Some(x), Some(y)]),
            Holds::Vector(x) => Some([Some(x), None]),
            Holds::Workspace => Some([None, None]),
            Holds::Extent(_) | Holds::Other => None,
        }
    }
}

/// The largest m, n or k that a launch accepts. With it the sum of an extent and less than 2^16 fits 32 bits, and no extent
/// equals `u32::MAX`, which stands for "more than any".
pub const MAX_EXTENT: u32 = u32::MAX - 65_535;

/// How far an access reaches along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The dimension.
    pub dim: Dim,
    /// Holds what is left of it from some position.
    pub left: Reg,
    /// The access counts from this many elements before that position, where the register has moved on already.
    pub behind: u32,
    /// It touches elements `0 .. end`, counted from there.
    pub end: u32,
}

impl Reach {
    /// Elements `0 .. end` from where `left` is what is left.
    pub fn new(dim: Dim, left: Reg, end: u32) -> Reach {
        Reach { dim, left, behind: 0, end }
    }
}

/// What a global access touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Number of the kernel parameter that its address comes from.
    pub param: usize,
    /// One for each dimension of what that parameter points to.
    pub reach: [Option<Reach>; 2],
}
