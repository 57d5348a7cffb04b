//! The extent of a global access, as data: the argument that its pointer derives from, and how far the access reaches
//! along each dimension. The reach counts from a position for which a register holds the number of elements left.
//!
//! ```text
//! ga0..3 = load global [rd4 + 0] in a within m 128 of r20, k 8 of r32
//! ```
//!
//! says that the access reaches rows up to the 128th from the position at which `r20` rows are left, and k up to the
//! 8th from the position at which `r32` is left. The extent does not say *why* the access is in bounds: the verifier
//! derives that from the conditions around it.

use super::Reg;

/// A dimension of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Rows of D.
    M,
    /// Columns of D.
    N,
    /// The dimension of the sum.
    K,
}

impl Dim {
    /// All dimensions.
    pub const ALL: [Dim; 3] = [Dim::M, Dim::N, Dim::K];

    /// Its letter in the text form.
    pub fn letter(self) -> char {
        match self {
            Dim::M => 'm',
            Dim::N => 'n',
            Dim::K => 'k',
        }
    }
}

/// The meaning of a kernel parameter for the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// The extent of a dimension, at most [`MAX_EXTENT`].
    Extent(Dim),
    /// Address of a matrix with these two dimensions.
    Matrix(Dim, Dim),
    /// Address of a vector along this dimension.
    Vector(Dim),
    /// Address of a list of records, which kernels only read. Each record contains the parameters that are fields.
    List,
    /// Address of the workspace. The plan computes its size for each launch.
    Workspace,
    /// A tensor map of a matrix with this many dimensions, and the bytes of one of its boxes.
    Map {
        /// Dimensions, the products of a batch included.
        rank: u32,
        /// Bytes that a copy of one box writes.
        box_bytes: u32,
    },
    /// A scalar, a stride, or the batch count.
    Other,
}

impl Holds {
    /// The dimensions that bound an access to it; `None` if the parameter is not an address.
    pub fn dims(self) -> Option<[Option<Dim>; 2]> {
        match self {
            Holds::Matrix(x, y) => Some([Some(x), Some(y)]),
            Holds::Vector(x) => Some([Some(x), None]),
            Holds::Workspace => Some([None, None]),
            Holds::Extent(_) | Holds::Map { .. } | Holds::List | Holds::Other => None,
        }
    }
}

pub use ptx_gemm_dsl::plan::MAX_EXTENT;

/// How far an access reaches along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The dimension.
    pub dim: Dim,
    /// The register that holds the number of elements left from some position.
    pub left: Reg,
    /// Number of elements between the start of the access and that position; not 0 where the register has already
    /// advanced.
    pub before: u32,
    /// The access touches elements `0 .. end`, counted from its start.
    pub end: u32,
}

impl Reach {
    /// Elements `0 .. end` from the position at which `left` elements are left.
    pub fn new(dim: Dim, left: Reg, end: u32) -> Reach {
        Reach { dim, left, before: 0, end }
    }
}

/// The extent of a global access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the kernel parameter that its address derives from.
    pub param: usize,
    /// One reach for each dimension of the matrix or vector that the parameter points to.
    pub reach: [Option<Reach>; 2],
}
