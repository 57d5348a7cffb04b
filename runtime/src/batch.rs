//! Stacks of equal matrices: the operands of `batch(strided)`.

use ptx_gemm_dsl::Layout;

use crate::element::Element;
use crate::random::SplitMix64;
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, MatrixRef, Strides, TypedMatrix};

/// Matrices of one shape, one after another, on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixBatch<T> {
    shape: Shape,
    stack: Stack,
    data: Vec<T>,
}

impl<T: Element> MatrixBatch<T> {
    /// Row major, all zero.
    pub fn zeros(count: usize, rows: usize, cols: usize) -> MatrixBatch<T> {
        let shape = Shape::packed(rows, cols, Layout::Row);
        let stride = rows * cols;
        MatrixBatch { shape, stack: Stack { count, stride }, data: vec![T::default(); count * stride] }
    }

    /// Row major, with `element(product, row, col)` as each element.
    pub fn from_fn(
        count: usize,
        rows: usize,
        cols: usize,
        mut element: impl FnMut(usize, usize, usize) -> T,
    ) -> MatrixBatch<T> {
        let mut batch = MatrixBatch::zeros(count, rows, cols);
        for (index, place) in batch.data.iter_mut().enumerate() {
            let (product, within) = (index / (rows * cols), index % (rows * cols));
            *place = element(product, within / cols, within % cols);
        }
        batch
    }

    /// Row major, the same for the same seed; see [`crate::Matrix::random`].
    pub fn random(count: usize, rows: usize, cols: usize, seed: u64) -> MatrixBatch<T> {
        let mut numbers = SplitMix64::new(seed);
        MatrixBatch::from_fn(count, rows, cols, |_, _, _| T::random(&mut numbers))
    }

    /// Any layout and leading dimension, all elements `value`; `None` if the host does not have that much memory.
    pub(crate) fn try_packed(shape: Shape, count: usize, value: T) -> Option<MatrixBatch<T>> {
        let stride = shape.len()?;
        let len = stride.checked_mul(count)?;
        let mut data = Vec::new();
        data.try_reserve_exact(len).ok()?;
        data.resize(len, value);
        Some(MatrixBatch { shape, stack: Stack { count, stride }, data })
    }

    /// The number of matrices.
    pub fn count(&self) -> usize {
        self.stack.count
    }

    /// Extents, layout and leading dimension of each.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// One of them; `None` if the index is too large.
    pub fn product(&self, index: usize) -> Option<MatrixRef<'_, T>> {
        let first = index.checked_mul(self.stack.stride)?;
        let slice = self.data.get(first..first + self.shape.len()?)?;
        (index < self.stack.count).then(|| MatrixRef::in_shape(slice, self.shape))
    }

    /// One element; `None` if an index is too large.
    pub fn get(&self, product: usize, row: usize, col: usize) -> Option<T> {
        let inside = product < self.count() && row < self.shape.rows && col < self.shape.cols;
        inside.then(|| self.data[product * self.stack.stride + self.shape.index(row, col)])
    }

    /// All elements in memory order.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }
}

impl<T: Element> TypedMatrix for MatrixBatch<T> {
    type Element = T;
}

impl<T: Element> AsMatrix for MatrixBatch<T> {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        let bytes = bytemuck::cast_slice(&self.data).into();
        Ok(AnyRef { dtype: T::DTYPE, shape: self.shape, stack: self.stack, bytes })
    }
}

impl<T: Element> AsMatrixMut for MatrixBatch<T> {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        let bytes = bytemuck::cast_slice_mut(&mut self.data).into();
        Ok(AnyMut { dtype: T::DTYPE, shape: self.shape, stack: self.stack, bytes })
    }
}
