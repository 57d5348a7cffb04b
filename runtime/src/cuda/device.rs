//! Devices that are GPUs: created from the caller's context, with the operations that only a GPU has.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::gpu::Gpu;
use super::{driver, peer};
use crate::device::{Device, DeviceKind};
use crate::error::{DeviceError, Error};

impl Device {
    /// The GPU of the caller's context, for products on its streams. Each call makes a device with its own kernels, so
    /// keep it.
    pub fn from_context(context: &Arc<CudaContext>) -> Result<Device, Error> {
        let status = driver::status()?;
        let gpu = Gpu::of(context.clone(), &status.driver)?;
        Ok(Device::with(DeviceKind::Cuda(context.ordinal()), Arc::new(gpu)))
    }

    /// The GPU. Streams and graphs need one; the interpreter is an error.
    pub(crate) fn gpu(&self) -> Result<&Gpu, DeviceError> {
        let none = || DeviceError::NoCuda { reason: "the interpreter has no streams".into() };
        let backend: &dyn Any = self.backend().as_ref();
        backend.downcast_ref().ok_or_else(none)
    }
}

/// Whether one GPU can copy from the memory of another, the same GPU included; lets it do so.
pub(crate) fn are_linked(to: &Device, from: &Device) -> bool {
    let (Ok(to), Ok(from)) = (to.gpu(), from.gpu()) else { return false };
    peer::enable(&to.shared, &from.shared)
}

/// Assembles PTX text to a cubin, with the driver's linker for a GPU. If the linker rejects the text, the error has its
/// log and the lines that the log names. Text with a zero byte ends there.
pub fn assemble(device: &Device, ptx: &str) -> Result<Vec<u8>, Error> {
    device.gpu()?.assemble(ptx)
}
