//! Views of the caller's slices.
//!
//! A view states the shape of its slice. Whether the slice is long enough is checked when the view is used, since the
//! error can then name the argument.

mod any;
#[cfg(feature = "faer")]
mod faer;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(any(feature = "faer", feature = "ndarray"))]
mod strided;
mod strides;

use ptx_gemm_dsl::Layout;

pub use any::{AnyMut, AnyRef, HostBytes, HostBytesMut, Runs, RunsMut};
pub use strides::Strides;

use crate::element::Element;
use crate::shape::{Shape, Stack};

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

/// Anything that can be passed as a matrix to read: [`crate::Matrix`], [`crate::MatrixBatch`], [`crate::PinnedMatrix`],
/// [`MatrixRef`], [`AnyRef`]; with the feature `ndarray` two-dimensional arrays and views of them, with `faer` its
/// `Mat` and `MatRef`.
pub trait AsMatrix {
    /// The matrix as bytes. An error if its placement in memory has no leading dimension.
    fn as_any(&self) -> Result<AnyRef<'_>, Strides>;
}

/// Anything that can be passed as a matrix to write: [`crate::Matrix`], [`crate::MatrixBatch`],
/// [`crate::PinnedMatrix`], [`MatrixMut`], [`AnyMut`]; with the feature `ndarray` two-dimensional arrays and mutable
/// views of them, with `faer` its `Mat` and `MatMut`.
pub trait AsMatrixMut {
    /// The matrix as bytes. An error if its placement in memory has no leading dimension.
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides>;
}

/// A matrix with an element type that is known at compile time:
/// [`CompiledGemm::multiply`](crate::CompiledGemm::multiply) takes the type of its result from it.
#[diagnostic::on_unimplemented(
    message = "the element type of `{Self}` is not known while the program is compiled",
    label = "`multiply_as::<T>` states the type of the result"
)]
pub trait TypedMatrix: AsMatrix {
    /// Type of its elements.
    type Element: Element;
}

impl<T: Element> TypedMatrix for MatrixRef<'_, T> {
    type Element = T;
}

impl<T: Element> AsMatrix for MatrixRef<'_, T> {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        let bytes = bytemuck::cast_slice(self.data).into();
        Ok(AnyRef { dtype: T::DTYPE, shape: self.shape, stack: self.stack, bytes })
    }
}

impl<T: Element> AsMatrixMut for MatrixMut<'_, T> {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        let bytes = bytemuck::cast_slice_mut(self.data).into();
        Ok(AnyMut { dtype: T::DTYPE, shape: self.shape, stack: self.stack, bytes })
    }
}
