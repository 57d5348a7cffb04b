//! The replacement without the feature `cuda`: every function returns an error that says so.

use std::sync::Arc;

use super::status::CudaStatus;
use crate::backend::Backend;
use crate::device::Device;
use crate::error::DeviceError;

/// Looks for a driver and counts its devices.
pub fn status() -> Result<CudaStatus, DeviceError> {
    Err(without_feature())
}

/// A GPU by its number.
pub(crate) fn open(_ordinal: usize) -> Result<Arc<dyn Backend>, DeviceError> {
    Err(without_feature())
}

/// Whether one GPU can copy from the memory of another.
pub(crate) fn are_linked(_to: &Device, _from: &Device) -> bool {
    false
}

fn without_feature() -> DeviceError {
    DeviceError::NoCuda { reason: "this program was built without the feature `cuda`".into() }
}
