//! Matrices that stay in a device's memory from one product to the next.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::plan::Operand;

use crate::arguments::{DeviceMatrix, DeviceVector};
use crate::backend::{Buffer, Lifetime, Output};
use crate::device::Device;
use crate::error::{ArgumentError, Error, OperandName};
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut};

/// A matrix in device memory, given back when it goes out of scope. [`Resident::matrix`] is what
/// [`crate::CompiledGemm::launch`] takes.
#[derive(Debug)]
pub struct Resident {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
    stack: Stack,
}

impl Device {
    /// Copies a matrix to the device, padding included.
    pub fn upload(&self, matrix: &impl AsMatrix) -> Result<Resident, Error> {
        let matrix = matrix.as_any();
        let elements = matrix.stack.len(matrix.shape).unwrap_or(usize::MAX);
        let got = matrix.elements();
        if got < elements || matrix.shape.ld < matrix.shape.min_ld() {
            let Shape { rows, cols, ld, .. } = matrix.shape;
            return Err(ArgumentError::NoMatrix { got, needed: elements, rows, cols, ld }.into());
        }
        let buffer =
            Buffer::new(self.backend(), "a resident matrix", elements as u64, matrix.dtype.bytes(), Lifetime::Kept)?;
        self.backend().prepare(buffer.address, matrix, Output::InPlace)?;
        let AnyRef { dtype, shape, stack, .. } = matrix;
        Ok(Resident { device: self.clone(), buffer, dtype, shape, stack })
    }
}

impl Resident {
    /// Where it lies.
    pub fn matrix(&self) -> DeviceMatrix {
        DeviceMatrix { address: self.buffer.address, shape: self.shape, stack: self.stack }
    }

    /// The same memory as a vector, padding included.
    pub fn vector(&self) -> DeviceVector {
        DeviceVector { address: self.buffer.address, len: self.stack.len(self.shape).unwrap_or(0) }
    }

    /// Type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Copies it back, padding included, into a matrix of the same type and shape.
    pub fn download(&self, into: &mut impl AsMatrixMut) -> Result<(), Error> {
        let AnyMut { dtype, shape, stack, bytes } = into.as_any_mut();
        if dtype != self.dtype {
            return Err(
                ArgumentError::Type { operand: OperandName(Operand::D), got: dtype, expected: self.dtype }.into()
            );
        }
        if (shape, stack) != (self.shape, self.stack) {
            let Shape { rows, cols, layout, ld } = self.shape;
            let expected = format!("the matrix on the device is {rows} x {cols}, {layout} major, with ld = {ld}");
            let got = (shape.rows, shape.cols);
            return Err(ArgumentError::Extents { operand: OperandName(Operand::D), got, expected }.into());
        }
        self.device.backend().download(self.buffer.address, "upload", AnyMut { dtype, shape, stack, bytes })
    }
}
