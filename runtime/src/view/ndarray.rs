//! Two-dimensional arrays of the crate `ndarray`, and views of them, as operands.

use ndarray::{ArrayBase, Data, DataMut, Ix2};
use ptx_gemm_dsl::Layout;

use super::any::{AnyMut, AnyRef, HostBytes, HostBytesMut, Runs, RunsMut};
use super::strided;
use super::strides::Strides;
use super::{AsMatrix, AsMatrixMut, TypedMatrix};
use crate::element::Element;
use crate::matrix::Matrix;
use crate::shape::{Shape, Stack};

/// The placement of an array in memory, if a leading dimension can express it.
fn shape<T: Element, S: Data<Elem = T>>(array: &ArrayBase<S, Ix2>) -> Result<Shape, Strides> {
    let ((rows, cols), strides) = (array.dim(), array.strides());
    strided::shape(Strides { rows, cols, row_stride: strides[0], col_stride: strides[1] })
}

impl<T: Element, S: Data<Elem = T> + Sync> TypedMatrix for ArrayBase<S, Ix2> {
    type Element = T;
}

impl<T: Element, S: Data<Elem = T> + Sync> AsMatrix for ArrayBase<S, Ix2> {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        let shape = shape(self)?;
        let bytes = match self.as_slice_memory_order() {
            Some(slice) if shape.ld == shape.min_ld() => HostBytes::Slice(bytemuck::cast_slice(slice)),
            // Part of a larger array: another view may be writing the elements between its rows.
            _ => HostBytes::Runs(self),
        };
        Ok(AnyRef { dtype: T::DTYPE, shape, stack: Stack::ONE, bytes })
    }
}

impl<T: Element, S: DataMut<Elem = T> + Sync> AsMatrixMut for ArrayBase<S, Ix2> {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        let shape = shape(self)?;
        let bytes = if shape.ld == shape.min_ld() && self.as_slice_memory_order().is_some() {
            HostBytesMut::Slice(bytemuck::cast_slice_mut(self.as_slice_memory_order_mut().unwrap_or_default()))
        } else {
            HostBytesMut::Runs(self)
        };
        Ok(AnyMut { dtype: T::DTYPE, shape, stack: Stack::ONE, bytes })
    }
}

// An array with a shape has contiguous runs, so the slices below exist.

impl<T: Element, S: Data<Elem = T> + Sync> Runs for ArrayBase<S, Ix2> {
    fn run(&self, index: usize) -> &[u8] {
        let run = match shape(self) {
            Ok(Shape { layout: Layout::Col, .. }) => self.column(index),
            _ => self.row(index),
        };
        bytemuck::cast_slice(run.to_slice().unwrap_or_default())
    }
}

impl<T: Element, S: DataMut<Elem = T> + Sync> RunsMut for ArrayBase<S, Ix2> {
    fn run_mut(&mut self, index: usize) -> &mut [u8] {
        let run = match shape(self) {
            Ok(Shape { layout: Layout::Col, .. }) => self.column_mut(index),
            _ => self.row_mut(index),
        };
        bytemuck::cast_slice_mut(run.into_slice().unwrap_or_default())
    }
}

/// A copy without padding, column major if the array is.
impl<T: Element, S: Data<Elem = T>> From<&ArrayBase<S, Ix2>> for Matrix<T> {
    fn from(array: &ArrayBase<S, Ix2>) -> Matrix<T> {
        let layout = shape(array).map_or(Layout::Row, |shape| shape.layout);
        let (rows, cols) = array.dim();
        Matrix::from_fn_in(layout, rows, cols, |row, col| array[(row, col)])
    }
}

/// A copy in standard layout.
impl<T: Element> From<&Matrix<T>> for ndarray::Array2<T> {
    fn from(matrix: &Matrix<T>) -> ndarray::Array2<T> {
        ndarray::Array2::from_shape_fn((matrix.rows(), matrix.cols()), |place| matrix[place])
    }
}
