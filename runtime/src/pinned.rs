//! Host matrices in page-locked memory, which a GPU reads and writes directly: copies do not go through the driver's
//! own buffers, and can run while the program does something else.

use std::fmt;

use crate::device::Device;
use crate::element::Element;
use crate::error::{DeviceError, Error};
use crate::matrix::Matrix;
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, HostBytes, HostBytesMut, Strides, TypedMatrix};

/// A matrix on the host that owns its elements, in page-locked memory. It is accepted wherever a [`Matrix`] is, by
/// every device; [`crate::cuda::Queue`] also copies it without waiting.
///
/// Page-locked memory is scarce and slow to allocate: create such matrices once and reuse them. On the interpreter they
/// are ordinary memory.
///
/// ```
/// # use ptx_gemm_dsl::Layout;
/// # use ptx_gemm_runtime::{CompiledGemm, Device, Matrix, Shape};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::best()?;
/// let gemm = CompiledGemm::new(&"tile(32, 32, 8); thread(2, 2);".parse()?, &device)?;
/// let (a, b) = (device.pin(&Matrix::<f32>::random(4, 3, 1))?, device.pin(&Matrix::<f32>::random(3, 5, 2))?);
/// let mut d = device.pinned(Shape::packed(4, 5, Layout::Row), 0.0f32)?;
/// gemm.multiply_into(&a, &b, &mut d)?;
/// assert_eq!(d.as_slice()?.len(), 20);
/// # Ok(())
/// # }
/// ```
pub struct PinnedMatrix<T> {
    shape: Shape,
    memory: Memory<T>,
}

/// More bytes than any process can have: the user half of a 48-bit address space.
pub(crate) const ADDRESSES: u64 = 1 << 47;

/// The storage of the elements.
enum Memory<T> {
    Ordinary(Vec<T>),
    #[cfg(feature = "cuda")]
    Locked(crate::cuda::Locked),
}

impl Device {
    /// A matrix in page-locked memory, with `value` in every element and all padding. A leading dimension below the
    /// smallest possible is raised to it, as in [`Matrix::in_shape`].
    pub fn pinned<T: Element>(&self, shape: Shape, value: T) -> Result<PinnedMatrix<T>, Error> {
        let shape = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        let elements = if shape.is_empty() { Some(0) } else { shape.runs().checked_mul(shape.ld) };
        let bytes = elements.and_then(|elements| elements.checked_mul(size_of::<T>()));
        let bytes = bytes.filter(|&bytes| bytes as u64 <= ADDRESSES).ok_or_else(|| too_large(u64::MAX))?;
        #[cfg(feature = "cuda")]
        if let Ok(gpu) = self.gpu()
            && bytes > 0
        {
            let mut locked = gpu.lock_memory(bytes)?;
            bytemuck::cast_slice_mut(locked.bytes_mut()?).fill(value);
            return Ok(PinnedMatrix { shape, memory: Memory::Locked(locked) });
        }
        let mut data = Vec::new();
        data.try_reserve_exact(bytes / size_of::<T>()).map_err(|_| too_large(bytes as u64))?;
        data.resize(bytes / size_of::<T>(), value);
        Ok(PinnedMatrix { shape, memory: Memory::Ordinary(data) })
    }

    /// A copy of a matrix in page-locked memory, padding included.
    pub fn pin<T: Element>(&self, matrix: &Matrix<T>) -> Result<PinnedMatrix<T>, Error> {
        let mut pinned = self.pinned(matrix.shape(), T::default())?;
        pinned.as_mut_slice()?.copy_from_slice(matrix.as_slice());
        Ok(pinned)
    }
}

fn too_large(bytes: u64) -> DeviceError {
    DeviceError::OutOfMemory { device: "the host".into(), what: "a pinned matrix".into(), bytes }
}

impl<T: Element> PinnedMatrix<T> {
    /// Extents, layout and leading dimension. [`Shape::index`] finds an element in the slice.
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

    /// All elements in memory order, padding included, once the copies in flight have ended. An error if one of them
    /// failed: the elements are then unchanged, or partly overwritten.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        match &self.memory {
            Memory::Ordinary(data) => Ok(data),
            #[cfg(feature = "cuda")]
            Memory::Locked(locked) => Ok(bytemuck::cast_slice(locked.bytes()?)),
        }
    }

    /// The same, for writing.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        match &mut self.memory {
            Memory::Ordinary(data) => Ok(data),
            #[cfg(feature = "cuda")]
            Memory::Locked(locked) => Ok(bytemuck::cast_slice_mut(locked.bytes_mut()?)),
        }
    }

    /// The page-locked memory; `None` for ordinary memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn locked(&self) -> Option<&crate::cuda::Locked> {
        match &self.memory {
            Memory::Ordinary(_) => None,
            Memory::Locked(locked) => Some(locked),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn locked_mut(&mut self) -> Option<&mut crate::cuda::Locked> {
        match &mut self.memory {
            Memory::Ordinary(_) => None,
            Memory::Locked(locked) => Some(locked),
        }
    }
}

impl<T: Element> TypedMatrix for PinnedMatrix<T> {
    type Element = T;
}

/// Waits for copies in flight. A failed copy ends the context of its device, and the next call on that device reports
/// the error.
impl<T: Element> AsMatrix for PinnedMatrix<T> {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        let bytes = match &self.memory {
            Memory::Ordinary(data) => bytemuck::cast_slice(data),
            #[cfg(feature = "cuda")]
            Memory::Locked(locked) => locked.bytes_whatever_happened(),
        };
        Ok(AnyRef { dtype: T::DTYPE, shape: self.shape, stack: Stack::ONE, bytes: HostBytes::Slice(bytes) })
    }
}

impl<T: Element> AsMatrixMut for PinnedMatrix<T> {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        let bytes = match &mut self.memory {
            Memory::Ordinary(data) => bytemuck::cast_slice_mut(data),
            #[cfg(feature = "cuda")]
            Memory::Locked(locked) => locked.bytes_mut_whatever_happened(),
        };
        Ok(AnyMut { dtype: T::DTYPE, shape: self.shape, stack: Stack::ONE, bytes: HostBytesMut::Slice(bytes) })
    }
}

impl<T> fmt::Debug for PinnedMatrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { rows, cols, layout, ld } = self.shape;
        let memory = match self.memory {
            Memory::Ordinary(_) => "ordinary",
            #[cfg(feature = "cuda")]
            Memory::Locked(_) => "page-locked",
        };
        write!(f, "PinnedMatrix({rows} x {cols}, {layout} major, ld = {ld}, {memory} memory)")
    }
}
