//! The status of CUDA before a device is used.

/// The status of CUDA on this machine, without using a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaStatus {
    /// The newest CUDA version that the driver supports, such as `13.0`.
    pub driver: String,
    /// The number of devices.
    pub devices: usize,
}
