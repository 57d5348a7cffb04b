//! The placement of matrices in memory: extents, layout, leading dimension, and their number.

use ptx_gemm_dsl::Layout;

/// Extents, layout and leading dimension of a matrix: everything except the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Which of the two is contiguous.
    pub layout: Layout,
    /// Elements from one row (`Layout::Row`) or column (`Layout::Col`) to the next.
    pub ld: usize,
}

impl Shape {
    /// A shape without padding: its leading dimension is the smallest that [`Shape::min_ld`] allows.
    pub fn packed(rows: usize, cols: usize, layout: Layout) -> Shape {
        let shape = Shape { rows, cols, layout, ld: 0 };
        Shape { ld: shape.min_ld(), ..shape }
    }

    /// Length of the contiguous runs: columns of a row-major matrix, rows of a column-major one.
    pub fn run(&self) -> usize {
        match self.layout {
            Layout::Row => self.cols,
            Layout::Col => self.rows,
        }
    }

    /// The number of contiguous runs.
    pub fn runs(&self) -> usize {
        match self.layout {
            Layout::Row => self.rows,
            Layout::Col => self.cols,
        }
    }

    /// The smallest leading dimension: the length of a run, and at least 1 (as in BLAS).
    pub fn min_ld(&self) -> usize {
        self.run().max(1)
    }

    /// Elements from the first to the last one, both included: the length that a slice must have. `None` past 2^64.
    pub fn len(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        (self.runs() - 1).checked_mul(self.ld)?.checked_add(self.run())
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Index of an element in its slice; meaningful for elements that the matrix has.
    pub fn index(&self, row: usize, col: usize) -> usize {
        match self.layout {
            Layout::Row => row * self.ld + col,
            Layout::Col => row + col * self.ld,
        }
    }

    /// Row and column of an element by its index in the slice.
    pub(crate) fn place(&self, index: usize) -> (usize, usize) {
        let (slow, fast) = (index / self.ld, index % self.ld);
        match self.layout {
            Layout::Row => (slow, fast),
            Layout::Col => (fast, slow),
        }
    }
}

/// A stack of matrices of one shape, one after another: the operands of `batch(strided)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Matrices.
    pub count: usize,
    /// Elements from the first one of a matrix to the first one of the next. With 0, every product reads the same
    /// matrix.
    pub stride: usize,
}

impl Stack {
    /// A single matrix.
    pub const ONE: Stack = Stack { count: 1, stride: 0 };

    /// The number of stored matrices: 1 with stride 0.
    pub fn stored(&self) -> usize {
        if self.stride == 0 { self.count.min(1) } else { self.count }
    }

    /// Elements from the first to the last one of the stack, both included: the length that a slice must have. `None`
    /// past 2^64.
    pub fn len(&self, shape: Shape) -> Option<usize> {
        let one = shape.len()?;
        if self.count == 0 || one == 0 {
            return Some(0);
        }
        (self.stored() - 1).checked_mul(self.stride)?.checked_add(one)
    }
}

/// The placement of an operand in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub(crate) shape: Shape,
    pub(crate) stack: Stack,
}
