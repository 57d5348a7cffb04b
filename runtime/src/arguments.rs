//! The arguments of one product on a device. Every launch, from host data or from device pointers, is reduced to these.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::terms::Operand;

use crate::shape::{Shape, Stack};

/// A matrix in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMatrix {
    /// Device pointer of element (0, 0).
    pub address: u64,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// [`Stack::ONE`], or the number of matrices and their distance.
    pub stack: Stack,
}

impl DeviceMatrix {
    /// One matrix.
    pub fn new(address: u64, shape: Shape) -> DeviceMatrix {
        DeviceMatrix { address, shape, stack: Stack::ONE }
    }

    /// A block of this matrix: `rows` x `cols` from element (`row`, `col`) on, with the same leading dimension. `None`
    /// if it exceeds the matrix.
    pub fn block(&self, dtype: DType, row: usize, col: usize, rows: usize, cols: usize) -> Option<DeviceMatrix> {
        let inside = row.checked_add(rows)? <= self.shape.rows && col.checked_add(cols)? <= self.shape.cols;
        let offset = self.shape.index(row, col) as u64 * u64::from(dtype.bytes());
        let shape = Shape { rows, cols, ..self.shape };
        inside.then_some(DeviceMatrix { address: self.address + offset, shape, stack: self.stack })
    }
}

/// A vector in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceVector {
    /// Device pointer of element 0; elements are contiguous.
    pub address: u64,
    /// Elements.
    pub len: usize,
}

/// The matrices, vectors and scalars of one product.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) a: DeviceMatrix,
    pub(crate) b: DeviceMatrix,
    /// `None` if the epilogue reads no C, or a scalar equal to 0 drops it.
    pub(crate) c: Option<DeviceMatrix>,
    pub(crate) d: DeviceMatrix,
    /// In the order of the epilogue's vectors.
    pub(crate) vectors: Vec<DeviceVector>,
    /// In the order of the epilogue's scalars.
    pub(crate) scalars: Vec<f64>,
}

impl Arguments {
    pub(crate) fn matrix(&self, operand: Operand) -> Option<DeviceMatrix> {
        match operand {
            Operand::A => Some(self.a),
            Operand::B => Some(self.b),
            Operand::C => self.c,
            Operand::D => Some(self.d),
        }
    }
}
