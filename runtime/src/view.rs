//! Views of slices that the caller has.
//!
//! A view states what its slice is taken for; whether the slice is long enough is checked when it is used, where the error
//! can name the argument.

use ptx_gemm_dsl::{DType, Layout};

use crate::element::Element;
use crate::shape::{Laid, Shape, Stack};

/// A view of a slice as a matrix, or as a stack of them.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T> {
    shape: Shape,
    stack: Stack,
    data: &'a [T],
}

impl<'a, T: Element> MatrixRef<'a, T> {
    /// A row-major view without padding.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> MatrixRef<'a, T> {
        MatrixRef::in_shape(data, Shape::packed(rows, cols, Layout::Row))
    }

    /// A view in any shape.
    pub fn in_shape(data: &'a [T], shape: Shape) -> MatrixRef<'a, T> {
        MatrixRef { shape, stack: Stack::ONE, data }
    }

    /// The same slice as a column-major matrix (or a row-major one) without padding.
    pub fn layout(self, layout: Layout) -> MatrixRef<'a, T> {
        MatrixRef { shape: Shape::packed(self.shape.rows, self.shape.cols, layout), ..self }
    }

    /// The same with a leading dimension in elements.
    pub fn ld(self, ld: usize) -> MatrixRef<'a, T> {
        MatrixRef { shape: Shape { ld, ..self.shape }, ..self }
    }

    /// The same as the first of `count` matrices, `stride` elements apart; with stride 0 each product reads this one.
    pub fn stack(self, count: usize, stride: usize) -> MatrixRef<'a, T> {
        MatrixRef { stack: Stack { count, stride }, ..self }
    }
}

/// A view of a slice as a matrix that is written, or as a stack of them.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    shape: Shape,
    stack: Stack,
    data: &'a mut [T],
}

impl<'a, T: Element> MatrixMut<'a, T> {
    /// A row-major view without padding.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> MatrixMut<'a, T> {
        MatrixMut::in_shape(data, Shape::packed(rows, cols, Layout::Row))
    }

    /// A view in any shape.
    pub fn in_shape(data: &'a mut [T], shape: Shape) -> MatrixMut<'a, T> {
        MatrixMut { shape, stack: Stack::ONE, data }
    }

    /// The same slice as a column-major matrix (or a row-major one) without padding.
    pub fn layout(self, layout: Layout) -> MatrixMut<'a, T> {
        MatrixMut { shape: Shape::packed(self.shape.rows, self.shape.cols, layout), ..self }
    }

    /// The same with a leading dimension in elements.
    pub fn ld(self, ld: usize) -> MatrixMut<'a, T> {
        MatrixMut { shape: Shape { ld, ..self.shape }, ..self }
    }

    /// The same as the first of `count` matrices, `stride` elements apart.
    pub fn stack(self, count: usize, stride: usize) -> MatrixMut<'a, T> {
        MatrixMut { stack: Stack { count, stride }, ..self }
    }
}

/// A matrix whose element type is known only when the program runs.
#[derive(Clone, Copy, Debug)]
pub struct AnyRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// [`Stack::ONE`], or how many there are.
    pub stack: Stack,
    /// The elements' bytes, padding between rows included.
    pub bytes: &'a [u8],
}

impl AnyRef<'_> {
    /// How it lies in memory.
    pub(crate) fn laid(&self) -> Laid {
        Laid { shape: self.shape, stack: self.stack }
    }

    /// Elements of the slice.
    pub(crate) fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.bytes() as usize
    }

    /// Index of the first element of each matrix that is stored.
    pub(crate) fn products(&self) -> impl Iterator<Item = usize> + use<> {
        let Stack { stride, .. } = self.stack;
        (0..self.stack.stored()).map(move |product| product * stride)
    }
}

/// The same, to be written.
#[derive(Debug)]
pub struct AnyMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// [`Stack::ONE`], or how many there are.
    pub stack: Stack,
    /// The elements' bytes, padding between rows included.
    pub bytes: &'a mut [u8],
}

impl AnyMut<'_> {
    /// The same matrix, only to be read.
    pub fn as_ref(&self) -> AnyRef<'_> {
        AnyRef { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes: self.bytes }
    }
}

/// Whatever can be passed as a matrix to read: [`crate::Matrix`], [`crate::PinnedMatrix`], [`MatrixRef`],
/// [`AnyRef`].
pub trait AsMatrix {
    /// The matrix as bytes.
    fn as_any(&self) -> AnyRef<'_>;
}

/// Whatever can be passed as a matrix to write: [`crate::Matrix`], [`crate::PinnedMatrix`], [`MatrixMut`],
/// [`AnyMut`].
pub trait AsMatrixMut {
    /// The matrix as bytes.
    fn as_any_mut(&mut self) -> AnyMut<'_>;
}

impl<T: Element> AsMatrix for MatrixRef<'_, T> {
    fn as_any(&self) -> AnyRef<'_> {
        AnyRef { dtype: T::DTYPE, shape: self.shape, stack: self.stack, bytes: bytemuck::cast_slice(self.data) }
    }
}

impl AsMatrix for AnyRef<'_> {
    fn as_any(&self) -> AnyRef<'_> {
        *self
    }
}

impl<T: Element> AsMatrixMut for MatrixMut<'_, T> {
    fn as_any_mut(&mut self) -> AnyMut<'_> {
        AnyMut { dtype: T::DTYPE, shape: self.shape, stack: self.stack, bytes: bytemuck::cast_slice_mut(self.data) }
    }
}

impl AsMatrixMut for AnyMut<'_> {
    fn as_any_mut(&mut self) -> AnyMut<'_> {
        AnyMut { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes: self.bytes }
    }
}
