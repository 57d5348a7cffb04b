//! Devices that are missing, unfit, or failed.

use ptx_gemm_dsl::Target;

/// A device that is missing, unfit, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No NVIDIA driver on this machine, or this program was built without the feature `cuda`.
    #[error("no CUDA device: {reason}; Device::interpreter() runs everywhere")]
    NoCuda {
        /// Why.
        reason: String,
    },
    /// There are fewer devices than asked for.
    #[error("no CUDA device {ordinal}: this machine has {count}")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The schedule's target is not what the device is.
    #[error("the kernel is for {target}, {device} is {capability}; {help}")]
    Target {
        /// What the kernel is compiled for.
        target: Target,
        /// The device's name.
        device: String,
        /// The device's own target.
        capability: Target,
        /// What to change.
        help: String,
    },
    /// More threads or shared memory than the device has.
    #[error("a block needs {needed} {what}, {device} allows {limit}")]
    Limit {
        /// `threads` or `bytes of shared memory`.
        what: &'static str,
        /// How much the kernel needs.
        needed: u64,
        /// How much there is.
        limit: u64,
        /// The device's name.
        device: String,
    },
    /// Memory ran out; nothing was launched and D is untouched.
    #[error("out of memory on {device}: {bytes} bytes for {what}")]
    OutOfMemory {
        /// The device's name, or `the host`.
        device: String,
        /// What it was for.
        what: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// The driver's linker refused the PTX.
    #[error("the driver's linker refused the PTX ({code}):\n{log}")]
    Link {
        /// The driver's error code.
        code: String,
        /// What the linker printed.
        log: String,
    },
    /// The driver is older than the PTX.
    #[error("the PTX is version {ptx}, driver {driver} does not know it")]
    DriverTooOld {
        /// `.version` of the PTX.
        ptx: String,
        /// Version of CUDA that the driver has.
        driver: String,
    },
    /// A kernel did something illegal on the GPU; its context is dead.
    #[error(
        "{device} reported {code}: its context is dead and every later call on it fails; run the same call on \
         Device::interpreter() to see which instruction it was"
    )]
    ContextDead {
        /// The device's name.
        device: String,
        /// The driver's error code.
        code: String,
    },
    /// cuBLAS is missing, refused, or cannot compute what was asked.
    #[error("cuBLAS: {message}")]
    Cublas {
        /// What it was.
        message: String,
    },
    /// Any other error of the driver.
    #[error("{call} failed on {device}: {code}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The device's name.
        device: String,
        /// The driver's error code.
        code: String,
    },
}
