//! Matrices with an element type that is known only at run time.

use std::fmt;

use ptx_gemm_dsl::{DType, Layout};

use super::strides::Strides;
use super::{AsMatrix, AsMatrixMut};
use crate::shape::{Placement, Shape, Stack};

/// A matrix with an element type that is known only at run time.
#[derive(Clone, Copy, Debug)]
pub struct AnyRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// [`Stack::ONE`], or the number of matrices and their distance.
    pub stack: Stack,
    /// The elements' bytes; `(&[u8]).into()`.
    pub bytes: HostBytes<'a>,
}

/// The same, for writing.
#[derive(Debug)]
pub struct AnyMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents, layout and leading dimension.
    pub shape: Shape,
    /// [`Stack::ONE`], or the number of matrices and their distance.
    pub stack: Stack,
    /// The elements' bytes; `(&mut [u8]).into()`.
    pub bytes: HostBytesMut<'a>,
}

/// The bytes of a matrix to read.
#[derive(Clone, Copy)]
pub enum HostBytes<'a> {
    /// All of them, padding between rows included.
    Slice(&'a [u8]),
    /// The rows (of a row-major matrix) or columns one by one, at the distance of the leading dimension. The bytes
    /// between them are not part of the matrix, and may be uninitialised.
    Runs(&'a dyn Runs),
}

/// The bytes of a matrix to write.
pub enum HostBytesMut<'a> {
    /// All of them, padding between rows included.
    Slice(&'a mut [u8]),
    /// The rows or columns one by one.
    Runs(&'a mut dyn RunsMut),
}

/// A matrix that provides its contiguous runs one by one.
pub trait Runs: Sync {
    /// The bytes of a row of a row-major matrix, or of a column of a column-major one.
    fn run(&self, index: usize) -> &[u8];
}

/// The same, for writing.
pub trait RunsMut: Runs {
    /// The bytes of a row of a row-major matrix, or of a column of a column-major one.
    fn run_mut(&mut self, index: usize) -> &mut [u8];
}

impl<'a> From<&'a [u8]> for HostBytes<'a> {
    fn from(bytes: &'a [u8]) -> HostBytes<'a> {
        HostBytes::Slice(bytes)
    }
}

impl<'a> From<&'a mut [u8]> for HostBytesMut<'a> {
    fn from(bytes: &'a mut [u8]) -> HostBytesMut<'a> {
        HostBytesMut::Slice(bytes)
    }
}

impl<'a> AnyRef<'a> {
    /// Bytes in one row.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> AnyRef<'a> {
        let shape = Shape::packed(1, bytes.len(), Layout::Row);
        AnyRef { dtype: DType::U8, shape, stack: Stack::ONE, bytes: bytes.into() }
    }
}

impl AnyRef<'_> {
    /// Everything from the first to the last element as one row, without padding. A matrix without a slice stays as it
    /// is.
    pub(crate) fn with_padding(self) -> Self {
        let len = self.stack.len(self.shape).unwrap_or(0);
        match self.bytes {
            HostBytes::Slice(_) => Self { shape: Shape::packed(1, len, Layout::Row), stack: Stack::ONE, ..self },
            HostBytes::Runs(_) => self,
        }
    }

    /// Its placement in memory.
    pub(crate) fn placement(&self) -> Placement {
        Placement { shape: self.shape, stack: self.stack }
    }

    /// Elements of the slice; without a slice, those of the shape.
    pub(crate) fn elements(&self) -> usize {
        match self.bytes {
            HostBytes::Slice(bytes) => bytes.len() / self.dtype.bytes() as usize,
            HostBytes::Runs(_) => self.shape.len().unwrap_or(usize::MAX),
        }
    }

    /// Index of the first element of each matrix that is stored.
    pub(crate) fn products(&self) -> impl Iterator<Item = usize> + use<> {
        let Stack { stride, .. } = self.stack;
        (0..self.stack.stored()).map(move |product| product * stride)
    }
}

impl AnyMut<'_> {
    /// The same matrix, for reading.
    pub fn as_ref(&self) -> AnyRef<'_> {
        let bytes = match &self.bytes {
            HostBytesMut::Slice(bytes) => HostBytes::Slice(bytes),
            HostBytesMut::Runs(runs) => HostBytes::Runs(&**runs),
        };
        AnyRef { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes }
    }

    /// As [`AnyRef::with_padding`].
    pub(crate) fn with_padding(self) -> Self {
        let AnyRef { shape, stack, .. } = self.as_ref().with_padding();
        Self { shape, stack, ..self }
    }

    /// Reborrows the matrix.
    pub(crate) fn reborrow(&mut self) -> AnyMut<'_> {
        let bytes = match &mut self.bytes {
            HostBytesMut::Slice(bytes) => HostBytesMut::Slice(bytes),
            HostBytesMut::Runs(runs) => HostBytesMut::Runs(&mut **runs),
        };
        AnyMut { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes }
    }
}

impl AsMatrix for AnyRef<'_> {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        Ok(*self)
    }
}

impl AsMatrixMut for AnyMut<'_> {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        Ok(self.reborrow())
    }
}

impl fmt::Debug for HostBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostBytes::Slice(bytes) => write!(f, "{} bytes", bytes.len()),
            HostBytes::Runs(_) => f.write_str("runs"),
        }
    }
}

impl fmt::Debug for HostBytesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostBytesMut::Slice(bytes) => write!(f, "{} bytes", bytes.len()),
            HostBytesMut::Runs(_) => f.write_str("runs"),
        }
    }
}
