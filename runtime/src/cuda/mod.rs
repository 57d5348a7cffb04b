//! NVIDIA GPUs through the CUDA driver, which is looked for when the program runs.
//!
//! cudarc appears below this module and nowhere else. Without the feature `cuda`, what is left is an error that says so.

#[cfg(feature = "cuda")]
mod copy;
#[cfg(feature = "cuda")]
mod cublas;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "cuda")]
mod link;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "cuda")]
mod on_stream;
#[cfg(feature = "cuda")]
mod pinned;
#[cfg(feature = "cuda")]
mod queue;
#[cfg(feature = "cuda")]
mod stray;

use std::sync::Arc;

#[cfg(feature = "cuda")]
pub use cublas::{Cublas, CublasProduct};
/// The crate whose contexts, streams and slices this one takes: use this version of it, or one that is compatible.
#[cfg(feature = "cuda")]
pub use cudarc;
#[cfg(feature = "cuda")]
pub(crate) use gpu::Gpu;
#[cfg(feature = "cuda")]
pub use on_stream::{OnStream, SliceMut, SliceRef};
#[cfg(feature = "cuda")]
pub(crate) use pinned::Locked;
#[cfg(feature = "cuda")]
pub use queue::{Enqueue, Graph, Properties, Queue};

#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use stray::prepare_stray;

use crate::backend::Backend;
#[cfg(feature = "cuda")]
use crate::device::Device;
use crate::error::DeviceError;
#[cfg(feature = "cuda")]
use crate::error::Error;

/// What is known about CUDA on this machine, without using a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaStatus {
    /// The newest CUDA version that the driver knows, such as `13.0`.
    pub driver: String,
    /// Devices.
    pub devices: usize,
}

/// Looks for a driver and counts its devices.
pub fn status() -> Result<CudaStatus, DeviceError> {
    #[cfg(feature = "cuda")]
    return driver::status();
    #[cfg(not(feature = "cuda"))]
    return Err(without_feature());
}

/// PTX text to a cubin, by the driver's linker for a GPU. Text that it refuses is an error with the linker's log and the
/// lines that the log names; text with a zero byte ends there.
#[cfg(feature = "cuda")]
pub fn assemble(device: &Device, ptx: &str) -> Result<Vec<u8>, Error> {
    device.gpu()?.assemble(ptx)
}

#[cfg(feature = "cuda")]
pub(crate) fn open(ordinal: usize) -> Result<Arc<dyn Backend>, DeviceError> {
    Ok(Arc::new(gpu::Gpu::open(ordinal)?))
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn open(_ordinal: usize) -> Result<Arc<dyn Backend>, DeviceError> {
    Err(without_feature())
}

#[cfg(not(feature = "cuda"))]
fn without_feature() -> DeviceError {
    DeviceError::NoCuda { reason: "this program was built without the feature `cuda`".into() }
}
