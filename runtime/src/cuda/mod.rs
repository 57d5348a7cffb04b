//! NVIDIA GPUs through the CUDA driver, which is loaded at run time.
//!
//! cudarc is used only in this module and its children. Without the feature `cuda`, the module returns only an error
//! that says so.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod column_major;
#[cfg(feature = "cuda")]
mod copy;
#[cfg(feature = "cuda")]
mod cublas;
#[cfg(feature = "cuda")]
mod cublaslt;
#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "cuda")]
mod large;
#[cfg(feature = "cuda")]
mod link;
#[cfg(feature = "cuda")]
mod locked;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "nccl")]
mod nccl;
#[cfg(feature = "cuda")]
mod on_stream;
#[cfg(feature = "cuda")]
mod peer;
#[cfg(feature = "cuda")]
mod pinned;
#[cfg(feature = "cuda")]
mod ptx;
#[cfg(feature = "cuda")]
mod queue;
#[cfg(feature = "cuda")]
mod shared;
mod status;
#[cfg(feature = "cuda")]
mod tensor_map;

#[cfg(not(feature = "cuda"))]
pub use absent::status;
#[cfg(not(feature = "cuda"))]
pub(crate) use absent::{are_linked, open};
#[cfg(feature = "cuda")]
pub use cublas::{Cublas, CublasProduct};
#[cfg(feature = "cuda")]
pub use cublaslt::{Accumulation, Algorithm, CublasLt, CublasLtProduct};
/// This crate accepts the contexts, streams and slices of cudarc: use this version of it, or a compatible one.
#[cfg(feature = "cuda")]
pub use cudarc;
#[cfg(feature = "cuda")]
pub(crate) use device::are_linked;
#[cfg(feature = "cuda")]
pub use device::assemble;
#[cfg(feature = "cuda")]
pub use driver::status;
#[cfg(feature = "cuda")]
pub(crate) use gpu::open;
#[cfg(feature = "cuda")]
pub(crate) use large::Gpus;
#[cfg(feature = "cuda")]
pub(crate) use locked::Locked;
#[cfg(feature = "nccl")]
pub(crate) use nccl::{Communicators, Group, unique_name};
#[cfg(feature = "cuda")]
pub use on_stream::{OnStream, SliceMut, SliceRef};
#[cfg(feature = "cuda")]
pub use ptx::{Bytes, PtxLaunch, encode_tensor_map, launch_ptx};
#[cfg(feature = "cuda")]
pub use queue::{Enqueue, Graph, Properties, Queue};
pub use status::CudaStatus;
