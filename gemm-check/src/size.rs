//! The extents of one product.

/// Extents of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // M, N and K
pub struct Size {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Size {
    /// M x N x K.
    pub fn new(m: usize, n: usize, k: usize) -> Size {
        Size { m, n, k }
    }
}

impl From<(usize, usize, usize)> for Size {
    fn from((m, n, k): (usize, usize, usize)) -> Size {
        Size { m, n, k }
    }
}
