//! What can be said about CUDA before a device is used.

/// What is known about CUDA on this machine, without using a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaStatus {
    /// The newest CUDA version that the driver knows, such as `13.0`.
    pub driver: String,
    /// Devices.
    pub devices: usize,
}
