//! Matrices that stay in a device's memory from one product to the next.

use ptx_gemm_dsl::DType;

use crate::arguments::{DeviceMatrix, DeviceVector};
use crate::backend::{Buffer, Lifetime, Output};
use crate::device::Device;
use crate::error::{ArgumentError, Error};
use crate::shape::{Shape, Stack};
use crate::view::{AnyRef, AsMatrix, AsMatrixMut};

/// A matrix in device memory, which is released when it goes out of scope. [`Resident::matrix`] is its form for
/// [`crate::CompiledGemm::launch`].
#[derive(Debug)]
pub struct Resident {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
    stack: Stack,
}

impl Device {
    /// Copies a matrix to the device, into memory with the same padding.
    pub fn upload(&self, matrix: &impl AsMatrix) -> Result<Resident, Error> {
        let matrix = matrix.as_any().map_err(ArgumentError::from)?;
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
    /// Its address and shape.
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

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies new elements into it from a matrix of the same type and shape, and waits for completion. Work that is
    /// running on a queue must not use it.
    pub fn overwrite(&self, with: &impl AsMatrix) -> Result<(), Error> {
        let with = with.as_any().map_err(ArgumentError::from)?;
        self.is_like(with)?;
        self.device.backend().prepare(self.buffer.address, with, Output::InPlace)
    }

    /// Copies it back into a matrix of the same type and shape, and waits for completion. Padding is unspecified: it
    /// keeps the host's contents or gets the device's.
    pub fn download(&self, into: &mut impl AsMatrixMut) -> Result<(), Error> {
        let into = into.as_any_mut().map_err(ArgumentError::from)?;
        self.is_like(into.as_ref())?;
        self.device.backend().download(self.buffer.address, "upload", into)
    }

    /// Checks that a host matrix has this type and shape, and a slice that is long enough.
    pub(crate) fn is_like(&self, host: AnyRef<'_>) -> Result<(), ArgumentError> {
        let AnyRef { dtype, shape, stack, .. } = host;
        if (dtype, shape, stack) != (self.dtype, self.shape, self.stack) {
            let (host, device) = (words(dtype, shape, stack), words(self.dtype, self.shape, self.stack));
            return Err(ArgumentError::NotAlike { host, device });
        }
        let (got, needed) = (host.elements(), stack.len(shape).unwrap_or(usize::MAX));
        let Shape { rows, cols, ld, .. } = shape;
        if got < needed { Err(ArgumentError::NoMatrix { got, needed, rows, cols, ld }) } else { Ok(()) }
    }
}

fn words(dtype: DType, Shape { rows, cols, layout, ld }: Shape, Stack { count, stride }: Stack) -> String {
    let stack = if count == 1 { String::new() } else { format!("{count} matrices, {stride} elements apart, of ") };
    format!("{stack}{dtype}, {rows} x {cols}, {layout} major, ld = {ld}")
}
