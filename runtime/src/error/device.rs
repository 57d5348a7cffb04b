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
    /// There are fewer devices than requested.
    #[error("no CUDA device {ordinal}: this machine has {count}")]
    NoSuchDevice {
        /// The requested number.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// The schedule's target does not match the device.
    #[error("the kernel is for {target}, {device} is {capability}; {help}")]
    Target {
        /// The target that the kernel is compiled for.
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
        /// The kernel's requirement.
        needed: u64,
        /// The device's limit.
        limit: u64,
        /// The device's name.
        device: String,
    },
    /// Memory ran out; nothing was launched and D is untouched.
    #[error("out of memory on {device}: {bytes} bytes for {what}")]
    OutOfMemory {
        /// The device's name, or `the host`.
        device: String,
        /// The purpose of the memory.
        what: String,
        /// Bytes requested.
        bytes: u64,
    },
    /// The driver's linker rejected the PTX.
    #[error("the driver's linker refused the PTX ({code}):\n{log}")]
    Link {
        /// The driver's error code.
        code: String,
        /// What the linker printed.
        log: String,
    },
    /// The driver is older than the PTX.
    #[error("the PTX is version {ptx}; the driver is CUDA {driver}'s, which reads versions up to {newest}: {remedy}")]
    DriverTooOld {
        /// `.version` of the PTX.
        ptx: String,
        /// Version of CUDA that the driver belongs to.
        driver: String,
        /// The newest version of PTX that it reads.
        newest: String,
        /// What to do about it.
        remedy: String,
    },
    /// The driver does not have tensor maps, which copies by TMA need.
    #[error(
        "{device}: its driver has no cuTensorMapEncodeTiled, which `load(tma)` and `store(tma)` need: update it to that of CUDA \
         12.0 or newer, or copy by `load(cp_async)` and `store(staged)`"
    )]
    NoTensorMaps {
        /// The device's name.
        device: String,
    },
    /// A kernel did something illegal on the GPU; its context is dead.
    #[error(
        "{device} reported {code}: a kernel did something illegal, and this process can no longer use the GPU (its context \
         is dead, with all device memory in it); `in_interpreter()` on the call or the compiled product repeats it where \
         the instruction and its clause are named"
    )]
    ContextDead {
        /// The device's name.
        device: String,
        /// The driver's error code.
        code: String,
    },
    /// An earlier kernel did something illegal; the driver was not called.
    #[error("{device} accepts no more work: its context died of {code} earlier in this process")]
    ContextLost {
        /// The device's name.
        device: String,
        /// The driver's error code, when it died.
        code: String,
    },
    /// A stream or a slice of another context.
    #[error("{what} belongs to another context than {device}; Device::from_context gives the device of a context")]
    OtherContext {
        /// Which stream or slice.
        what: &'static str,
        /// The device's name.
        device: String,
    },
    /// A graph must be replayed on the queue that recorded it, and this is a different one.
    #[error("the graph was recorded on another queue of {device}: it is replayed there, where it can be waited for")]
    OtherQueue {
        /// The device's name.
        device: String,
    },
    /// cuBLAS is missing, failed, or cannot compute this product.
    #[error("cuBLAS: {message}")]
    Cublas {
        /// The reason.
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
