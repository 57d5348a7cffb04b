//! Direct copies between GPUs.
#![allow(unsafe_code)] // Calls of the driver.

use cudarc::driver::sys;

use super::shared::Shared;

/// Enables `to` to access the memory of `from`. Returns whether it can.
pub(super) fn enable(to: &Shared, from: &Shared) -> bool {
    let (device, peer) = (to.context.cu_device(), from.context.cu_device());
    if device == peer {
        return true;
    }
    let mut can = 0;
    // SAFETY: the pointer is to a local variable, and the numbers are those of devices.
    let known = unsafe { sys::cuDeviceCanAccessPeer(&mut can, device, peer) };
    if known != sys::CUresult::CUDA_SUCCESS || can == 0 || to.enter().is_err() {
        return false;
    }
    // SAFETY: a context is current, and the other one is alive.
    let enabled = unsafe { sys::cuCtxEnablePeerAccess(from.context.cu_ctx(), 0) };
    matches!(enabled, sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
}
