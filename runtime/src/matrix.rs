//! Host matrices that own their elements.

use std::fmt;
use std::ops::{Index, IndexMut};

use ptx_gemm_dsl::Layout;

use crate::element::Element;
use crate::random::SplitMix64;
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, Strides, TypedMatrix};

/// A matrix on the host that owns its elements.
#[derive(Clone, PartialEq)]
pub struct Matrix<T> {
    shape: Shape,
    data: Vec<T>,
}

impl<T: Element> Matrix<T> {
    /// Row major, all zero.
    pub fn zeros(rows: usize, cols: usize) -> Matrix<T> {
        Matrix::in_shape(Shape::packed(rows, cols, Layout::Row), T::default())
    }

    /// Any layout and leading dimension, with `value` in every element and all padding. A leading dimension below the
    /// smallest possible is raised to it.
    pub fn in_shape(shape: Shape, value: T) -> Matrix<T> {
        let shape = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        let elements = if shape.is_empty() { 0 } else { shape.runs() * shape.ld };
        Matrix { shape, data: vec![value; elements] }
    }

    /// The same as [`Matrix::in_shape`], or `None` if the host does not have that much memory.
    pub fn try_in_shape(shape: Shape, value: T) -> Option<Matrix<T>> {
        let shape = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        let len = if shape.is_empty() { 0 } else { shape.runs().checked_mul(shape.ld)? };
        let mut data = Vec::new();
        data.try_reserve_exact(len).ok()?;
        data.resize(len, value);
        Some(Matrix { shape, data })
    }

    /// Row major, with `element(row, col)` as each element.
    pub fn from_fn(rows: usize, cols: usize, mut element: impl FnMut(usize, usize) -> T) -> Matrix<T> {
        let elements = 0..rows * cols;
        let data = elements.map(|index| element(index / cols, index % cols)).collect();
        Matrix { shape: Shape::packed(rows, cols, Layout::Row), data }
    }

    /// The same in a layout, without padding.
    #[cfg(any(feature = "faer", feature = "ndarray"))]
    pub(crate) fn from_fn_in(
        layout: Layout,
        rows: usize,
        cols: usize,
        mut element: impl FnMut(usize, usize) -> T,
    ) -> Matrix<T> {
        let mut matrix = Matrix::in_shape(Shape::packed(rows, cols, layout), T::default());
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            matrix[(row, col)] = element(row, col);
        }
        matrix
    }

    /// Row major, from its elements row by row; `None` if there are not exactly `rows * cols` of them.
    pub fn from_slice(rows: usize, cols: usize, elements: &[T]) -> Option<Matrix<T>> {
        let fits = rows.checked_mul(cols) == Some(elements.len());
        fits.then(|| Matrix { shape: Shape::packed(rows, cols, Layout::Row), data: elements.to_vec() })
    }

    /// Row major, the same for the same seed. Floating-point elements are multiples of 2^-23 in [-1, 1), rounded to
    /// `T`; integers are in -10..=10 (unsigned ones in 0..=10).
    pub fn random(rows: usize, cols: usize, seed: u64) -> Matrix<T> {
        let mut numbers = SplitMix64::new(seed);
        Matrix::from_fn(rows, cols, |_, _| T::random(&mut numbers))
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

    /// One element; `None` if the matrix does not have it.
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        let inside = row < self.rows() && col < self.cols();
        inside.then(|| self.data[self.shape.index(row, col)])
    }

    /// Index of an element in the slice.
    #[track_caller]
    fn place(&self, row: usize, col: usize) -> usize {
        let (rows, cols) = (self.rows(), self.cols());
        assert!(row < rows && col < cols, "element ({row}, {col}) of a matrix of {rows} x {cols}");
        self.shape.index(row, col)
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

/// One element. Panics if the matrix does not have it, as for a slice; [`Matrix::get`] returns `None` instead.
impl<T: Element> Index<(usize, usize)> for Matrix<T> {
    type Output = T;

    #[track_caller]
    fn index(&self, (row, col): (usize, usize)) -> &T {
        &self.data[self.place(row, col)]
    }
}

impl<T: Element> IndexMut<(usize, usize)> for Matrix<T> {
    #[track_caller]
    fn index_mut(&mut self, (row, col): (usize, usize)) -> &mut T {
        let place = self.place(row, col);
        &mut self.data[place]
    }
}

/// Elements shown of each row, and rows shown.
const SHOWN: usize = 4;

/// Short, even for large matrices: the type, extents and layout, and the first elements.
impl<T: Element> fmt::Debug for Matrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { rows, cols, layout, ld } = self.shape;
        write!(f, "Matrix<{}>({rows} x {cols}, {layout} major", T::DTYPE)?;
        if ld != self.shape.min_ld() {
            write!(f, ", ld = {ld}")?;
        }
        f.write_str(")")?;
        if self.shape.is_empty() {
            return Ok(());
        }
        let more = |all: usize| if all > SHOWN { ", .." } else { "" };
        let row = |row: usize| {
            let elements = (0..cols.min(SHOWN)).map(|col| format!("{:?}", self[(row, col)]));
            format!("[{}{}]", elements.collect::<Vec<_>>().join(", "), more(cols))
        };
        write!(f, " [{}{}]", (0..rows.min(SHOWN)).map(row).collect::<Vec<_>>().join(", "), more(rows))
    }
}

impl<T: Element> TypedMatrix for Matrix<T> {
    type Element = T;
}

impl<T: Element> AsMatrix for Matrix<T> {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        let bytes = bytemuck::cast_slice(&self.data).into();
        Ok(AnyRef { dtype: T::DTYPE, shape: self.shape, stack: Stack::ONE, bytes })
    }
}

impl<T: Element> AsMatrixMut for Matrix<T> {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        let bytes = bytemuck::cast_slice_mut(&mut self.data).into();
        Ok(AnyMut { dtype: T::DTYPE, shape: self.shape, stack: Stack::ONE, bytes })
    }
}
