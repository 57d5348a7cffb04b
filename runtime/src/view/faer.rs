//! Matrices of the crate `faer`, and views of them, as operands.
//!
//! The memory between two columns of its matrices is uninitialised, so bytes are read and written column by column.

use faer::{Mat, MatMut, MatRef};
use ptx_gemm_dsl::Layout;

use super::any::{AnyMut, AnyRef, HostBytes, HostBytesMut, Runs, RunsMut};
use super::strided;
use super::strides::Strides;
use super::{AsMatrix, AsMatrixMut, TypedMatrix};
use crate::element::Element;
use crate::matrix::Matrix;
use crate::shape::{Shape, Stack};

/// The placement of a matrix in memory, if a leading dimension can express it.
fn shape<T: Element>(matrix: MatRef<'_, T>) -> Result<Shape, Strides> {
    let (rows, cols) = (matrix.nrows(), matrix.ncols());
    strided::shape(Strides { rows, cols, row_stride: matrix.row_stride(), col_stride: matrix.col_stride() })
}

// A matrix with a shape has contiguous runs; a run of a single element may have any stride.

fn run<T: Element>(matrix: MatRef<'_, T>, index: usize) -> &[u8] {
    let run: &[T] = match shape(matrix) {
        Ok(Shape { layout: Layout::Col, rows, .. }) => match matrix.col(index).try_as_col_major() {
            Some(col) if rows > 1 => col.as_slice(),
            _ => std::slice::from_ref(matrix.get(0, index)),
        },
        _ => match matrix.row(index).try_as_row_major() {
            Some(row) if matrix.ncols() > 1 => row.as_slice(),
            _ => std::slice::from_ref(matrix.get(index, 0)),
        },
    };
    bytemuck::cast_slice(run)
}

fn run_mut<T: Element>(matrix: MatMut<'_, T>, index: usize) -> &mut [u8] {
    let run: &mut [T] = match shape(matrix.as_ref()) {
        Ok(Shape { layout: Layout::Col, rows: 1, .. }) => std::slice::from_mut(matrix.get_mut(0, index)),
        Ok(Shape { layout: Layout::Row, cols: 1, .. }) => std::slice::from_mut(matrix.get_mut(index, 0)),
        Ok(Shape { layout: Layout::Col, .. }) => {
            matrix.col_mut(index).try_as_col_major_mut().map(|col| col.as_slice_mut()).unwrap_or_default()
        }
        _ => matrix.row_mut(index).try_as_row_major_mut().map(|row| row.as_slice_mut()).unwrap_or_default(),
    };
    bytemuck::cast_slice_mut(run)
}

macro_rules! operand {
    ($($matrix:ty),*) => {$(
        impl<T: Element> TypedMatrix for $matrix {
            type Element = T;
        }

        impl<T: Element> AsMatrix for $matrix {
            fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
                let shape = shape(self.as_ref())?;
                Ok(AnyRef { dtype: T::DTYPE, shape, stack: Stack::ONE, bytes: HostBytes::Runs(self) })
            }
        }

        impl<T: Element> Runs for $matrix {
            fn run(&self, index: usize) -> &[u8] {
                run(self.as_ref(), index)
            }
        }
    )*};
}

macro_rules! result {
    ($($matrix:ty),*) => {$(
        impl<T: Element> AsMatrixMut for $matrix {
            fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
                let shape = shape(self.as_ref())?;
                Ok(AnyMut { dtype: T::DTYPE, shape, stack: Stack::ONE, bytes: HostBytesMut::Runs(self) })
            }
        }

        impl<T: Element> RunsMut for $matrix {
            fn run_mut(&mut self, index: usize) -> &mut [u8] {
                run_mut(self.as_mut(), index)
            }
        }
    )*};
}

operand!(Mat<T>, MatRef<'_, T>, MatMut<'_, T>);
result!(Mat<T>, MatMut<'_, T>);

/// A copy without padding, column major unless the view is row major.
impl<T: Element> From<MatRef<'_, T>> for Matrix<T> {
    fn from(matrix: MatRef<'_, T>) -> Matrix<T> {
        let layout = shape(matrix).map_or(Layout::Col, |shape| shape.layout);
        Matrix::from_fn_in(layout, matrix.nrows(), matrix.ncols(), |row, col| *matrix.get(row, col))
    }
}

/// A copy.
impl<T: Element> From<&Mat<T>> for Matrix<T> {
    fn from(matrix: &Mat<T>) -> Matrix<T> {
        matrix.as_ref().into()
    }
}

/// A copy, column major like all matrices of faer.
impl<T: Element> From<&Matrix<T>> for Mat<T> {
    fn from(matrix: &Matrix<T>) -> Mat<T> {
        Mat::from_fn(matrix.rows(), matrix.cols(), |row, col| matrix[(row, col)])
    }
}
