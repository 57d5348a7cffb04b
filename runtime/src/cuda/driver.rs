//! Finds the driver, and interprets its errors.
#![allow(unsafe_code)] // Calls of the driver.

use cudarc::driver::result::DriverError;
use cudarc::driver::{result, sys};

use super::status::CudaStatus;
use crate::error::DeviceError;

/// Looks for a driver and counts its devices.
pub fn status() -> Result<CudaStatus, DeviceError> {
    let none = |reason: &str| DeviceError::NoCuda { reason: reason.into() };
    // This comes first, because cudarc panics without a driver.
    // SAFETY: it only tries to open the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(none("this machine has no NVIDIA driver (libcuda was not found)"));
    }
    result::init().map_err(|error| none(&format!("the NVIDIA driver did not start ({})", code(error))))?;
    let devices = result::device::get_count().map_err(|error| none(&code(error)))?;
    if devices <= 0 {
        return Err(none("the NVIDIA driver found no device"));
    }
    let mut version = 0;
    // SAFETY: the driver is loaded, and the pointer is to a local variable.
    let known = unsafe { sys::cuDriverGetVersion(&mut version) }.result().is_ok();
    let driver = if known { format!("{}.{}", version / 1000, version % 1000 / 10) } else { "unknown".into() };
    Ok(CudaStatus { driver, devices: devices as usize })
}

/// The driver's version, as exact as possible: CUDA's, and on Linux that of the kernel module, which changes more
/// often.
pub(super) fn build(driver: &str) -> String {
    let module = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    format!("CUDA {driver}\n{}", module.lines().next().unwrap_or_default())
}

/// The name of an error. cudarc's own `Display` asks the driver for it, and panics without one.
pub(super) fn code(error: DriverError) -> String {
    format!("{:?}", error.0)
}

/// Whether an error leaves the context unusable (CUDA driver API, "Data types used by CUDA driver", `CUresult`).
pub(super) fn kills_context(error: DriverError) -> bool {
    use sys::CUresult as R;
    matches!(
        error.0,
        R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_ASSERT
    )
}

/// Converts an error of the driver. If it killed the context, its modules notice that at the next call.
pub(super) fn failure(call: &'static str, device: &str, error: DriverError) -> DeviceError {
    let (device, code) = (device.to_string(), code(error));
    match kills_context(error) {
        true => DeviceError::ContextDead { device, code },
        false => DeviceError::Driver { call, device, code },
    }
}
