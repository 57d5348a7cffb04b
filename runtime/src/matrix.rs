//! Host matrices: owned ones, and views of slices that the caller has.
//!
//! A view states what it is taken for (rows, columns, layout, leading dimension); whether its slice is long enough is
//! checked when it is used, where the error can name the argument.

use ptx_gemm_dsl::{DType, Layout};

use crate::element::Element;
use crate::random::SplitMix64;

/// Extents, layout and leading dimension of a matrix: everything but the elements.
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

    /// How many contiguous runs there are.
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

    /// Elements from the first to the last one, both included: what a slice must hold. `None` past 2^64.
    pub fn len(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        (self.runs() - 1).checked_mul(self.ld)?.checked_add(self.run())
    }

    /// True if there is no element at all.
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
}

/// A matrix on the host that owns its elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    shape: Shape,
    data: Vec<T>,
}

impl<T: Element> Matrix<T> {
    /// Row major, all zero.
    pub fn zeros(rows: usize, cols: usize) -> Matrix<T> {
        Matrix::in_shape(Shape::packed(rows, cols, Layout::Row), T::default())
    }

    /// Any layout and leading dimension, every element and all padding `value`. A leading dimension below the smallest
    /// possible is raised to it.
    pub fn in_shape(shape: Shape, value: T) -> Matrix<T> {
        let shape = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        let elements = if shape.is_empty() { 0 } else { shape.runs() * shape.ld };
        Matrix { shape, data: vec![value; elements] }
    }

    /// The same as [`Matrix::in_shape`], or `None` if the host has not that much memory.
    pub fn try_in_shape(shape: Shape, value: T) -> Option<Matrix<T>> {
        let shape = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        let len = if shape.is_empty() { 0 } else { shape.runs().checked_mul(shape.ld)? };
        let mut data = Vec::new();
        data.try_reserve_exact(len).ok()?;
        data.resize(len, value);
        Some(Matrix { shape, data })
    }

    /// Row major, with `element(row, col)` in each place.
    pub fn from_fn(rows: usize, cols: usize, mut element: impl FnMut(usize, usize) -> T) -> Matrix<T> {
        let elements = 0..rows * cols;
        let data = elements.map(|index| element(index / cols, index % cols)).collect();
        Matrix { shape: Shape::packed(rows, cols, Layout::Row), data }
    }

    /// Row major, from its elements row by row; `None` if there are not exactly `rows * cols` of them.
    pub fn from_slice(rows: usize, cols: usize, elements: &[T]) -> Option<Matrix<T>> {
        let fits = rows.checked_mul(cols) == Some(elements.len());
        fits.then(|| Matrix { shape: Shape::packed(rows, cols, Layout::Row), data: elements.to_vec() })
    }

    /// Row major, the same for the same seed: floating-point elements are multiples of 2^-23 in [-1, 1), rounded to
    /// `T`; integers lie in -10..=10 (unsigned ones in 0..=10).
    pub fn random(rows: usize, cols: usize, seed: u64) -> Matrix<T> {
        let mut numbers = SplitMix64::new(seed);
        let low = if T::DTYPE == DType::U8 { 0 } else { -10 };
        Matrix::from_fn(rows, cols, |_, _| {
            T::from_f64(if T::DTYPE.is_integer() { numbers.next_in(low, 10) as f64 } else { numbers.next_signed() })
        })
    }

    /// The same elements in another layout, without padding.
    pub fn to_layout(&self, layout: Layout) -> Matrix<T> {
        self.reshaped(Shape::packed(self.rows(), self.cols(), layout), T::default())
    }

    /// The same elements with another leading dimension; `padding` fills the gaps.
    pub fn with_ld(&self, ld: usize, padding: T) -> Matrix<T> {
        self.reshaped(Shape { ld, ..self.shape }, padding)
    }

    fn reshaped(&self, shape: Shape, padding: T) -> Matrix<T> {
        let mut out = Matrix::in_shape(shape, padding);
        for index in 0..self.rows() * self.cols() {
            let (row, col) = (index / self.cols(), index % self.cols());
            let to = out.shape.index(row, col);
            out.data[to] = self.data[self.shape.index(row, col)];
        }
        out
    }

    /// Extents, layout and leading dimension.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.shape.cols
    }

    /// One element, if the matrix has it.
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        let inside = row < self.rows() && col < self.cols();
        inside.then(|| self.data[self.shape.index(row, col)])
    }

    /// All elements in memory order, padding included.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// All elements in memory order, padding included.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }
}

/// A view of a slice as a matrix.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T> {
    shape: Shape,
    data: &'a [T],
}

impl<'a, T: Element> MatrixRef<'a, T> {
    /// A row-major view without padding.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> MatrixRef<'a, T> {
        MatrixRef { shape: Shape::packed(rows, cols, Layout::Row), data }
    }

    /// A view in any shape.
    pub fn in_shape(data: &'a [T], shape: Shape) -> MatrixRef<'a, T> {
        MatrixRef { shape, data }
    }

    /// The same slice as a column-major matrix (or a row-major one) without padding.
    pub fn layout(self, layout: Layout) -> MatrixRef<'a, T> {
        MatrixRef { shape: Shape::packed(self.shape.rows, self.shape.cols, layout), ..self }
    }

    /// The same with a leading dimension in elements.
    pub fn ld(self, ld: usize) -> MatrixRef<'a, T> {
        MatrixRef { shape: Shape { ld, ..self.shape }, ..self }
    }
}

/// A view of a slice as a matrix that is written.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    shape: Shape,
    data: &'a mut [T],
}

impl<'a, T: Element> MatrixMut<'a, T> {
    /// A row-major view without padding.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> MatrixMut<'a, T> {
        MatrixMut { shape: Shape::packed(rows, cols, Layout::Row), data }
    }

    /// A view in any shape.
    pub fn in_shape(data: &'a mut [T], shape: Shape) -> MatrixMut<'a, T> {
        MatrixMut { shape, data }
    }

    /// The same slice as a column-major matrix (or a row-major one) without padding.
    pub fn layout(self, layout: Layout) -> MatrixMut<'a, T> {
        MatrixMut { shape: Shape::packed(self.shape.rows, self.shape.cols, layout), ..self }
    }

    /// The same with a leading dimension in elements.
    pub fn ld(self, ld: usize) -> MatrixMut<'a, T> {
        MatrixMut { shape: Shape { ld, ..self.shape }, ..self }
    }
}

/// A matrix whose element type is known only when the program runs.
#[derive(Clone, Copy, Debug)]
pub struct AnyRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// The elements' bytes, padding between rows included.
    pub bytes: &'a [u8],
}

/// The same, to be written.
#[derive(Debug)]
pub struct AnyMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// The elements' bytes, padding between rows included.
    pub bytes: &'a mut [u8],
}

impl AnyMut<'_> {
    /// The same matrix, only to be read.
    pub fn as_ref(&self) -> AnyRef<'_> {
        AnyRef { dtype: self.dtype, shape: self.shape, bytes: self.bytes }
    }
}

/// Whatever can be passed as a matrix to read: [`Matrix`], [`MatrixRef`], [`AnyRef`].
pub trait AsMatrix {
    /// The matrix as bytes.
    fn as_any(&self) -> AnyRef<'_>;
}

/// Whatever can be passed as a matrix to write: [`Matrix`], [`MatrixMut`], [`AnyMut`].
pub trait AsMatrixMut {
    /// The matrix as bytes.
    fn as_any_mut(&mut self) -> AnyMut<'_>;
}

impl<T: Element> AsMatrix for Matrix<T> {
    fn as_any(&self) -> AnyRef<'_> {
        AnyRef { dtype: T::DTYPE, shape: self.shape, bytes: bytemuck::cast_slice(&self.data) }
    }
}

impl<T: Element> AsMatrix for MatrixRef<'_, T> {
    fn as_any(&self) -> AnyRef<'_> {
        AnyRef { dtype: T::DTYPE, shape: self.shape, bytes: bytemuck::cast_slice(self.data) }
    }
}

impl AsMatrix for AnyRef<'_> {
    fn as_any(&self) -> AnyRef<'_> {
        *self
    }
}

impl<T: Element> AsMatrixMut for Matrix<T> {
    fn as_any_mut(&mut self) -> AnyMut<'_> {
        AnyMut { dtype: T::DTYPE, shape: self.shape, bytes: bytemuck::cast_slice_mut(&mut self.data) }
    }
}

impl<T: Element> AsMatrixMut for MatrixMut<'_, T> {
    fn as_any_mut(&mut self) -> AnyMut<'_> {
        AnyMut { dtype: T::DTYPE, shape: self.shape, bytes: bytemuck::cast_slice_mut(self.data) }
    }
}

impl AsMatrixMut for AnyMut<'_> {
    fn as_any_mut(&mut self) -> AnyMut<'_> {
        AnyMut { dtype: self.dtype, shape: self.shape, bytes: self.bytes }
    }
}
