//! Devices, launches and caches for ptx-gemm.
//!
//! A [`Device`] is a GPU or the interpreter; [`CompiledGemm`] is a schedule, or a tile program, compiled and loaded
//! there; a [`Call`] is one product. Host data is a [`Matrix`], or a view of the caller's own slices. Every mistake in
//! shapes, pointers and names is an [`Error`] before the launch reaches the device.
//!
//! ```text
//! Schedule, .tile text -> Kernel (interface, PTX; once per process) -> Module (once per device) -> Call -> checks -> Launch
//! ```
//!
//! Cubins are cached on disk: in the folder that `PTX_GEMM_CACHE` names (`off` disables the cache), or else in the
//! user's cache folder: `$XDG_CACHE_HOME/ptx-gemm`, or `~/.cache/ptx-gemm`, on Windows below `%LOCALAPPDATA%`. A folder
//! that others may write to is not used.

// Streams, and what the checks pass to them, exist only on a GPU.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

mod arguments;
mod backend;
mod batch;
mod cache;
mod call;
mod checks;
mod compiled;
mod contracts;
pub mod cuda;
mod device;
pub mod distributed;
pub mod doubled;
mod element;
#[cfg(test)]
mod entries;
mod error;
mod experts;
#[cfg(test)]
mod faults;
mod group;
mod health;
mod interpreter;
mod kernel;
pub mod large;
mod launch;
mod matrix;
mod pinned;
mod pool;
mod prepared;
pub mod random;
mod resident;
mod shape;
mod steps;
#[cfg(feature = "cuda")]
mod store;
pub mod strassen;
#[cfg(feature = "cuda")]
mod versions;
mod view;
mod work;

pub use arguments::{DeviceMatrix, DeviceVector};
pub use backend::{Counts, KernelCounts, Limits};
pub use batch::MatrixBatch;
pub use call::Call;
pub use compiled::{CompiledGemm, DeviceCall, Run};
pub use contracts::{Assembler, Assembly, Contract, MachineCode};
pub use device::{Device, DeviceKind};
pub use element::Element;
pub use error::{ArgumentError, DeviceError, Error, OperandName, Refusal};
pub use experts::{Expert, ExpertsCall};
pub use group::{DeviceGroup, DeviceList, DeviceProduct, Group, GroupProduct};
pub use interpreter::{InterpreterOptions, WAVE as INTERPRETER_WAVE};
pub use kernel::Kernel;
pub use matrix::Matrix;
pub use pinned::PinnedMatrix;
pub use prepared::{Prepared, ResidentCall};
/// The largest M, N or K of one product.
pub use ptx_gemm_codegen::kernel::MAX_EXTENT;
/// How a kernel is launched, the tile programs that it was lowered from, the errors in their text, and where instructions are from.
pub use ptx_gemm_codegen::{
    Interface, TextError, TextErrors, origin,
    tile::{self, interface},
};
/// The interpreter itself: its options are part of [`InterpreterOptions`], its figures of [`Counts`].
pub use ptx_gemm_interp as interp;
/// PTX as data: the types of [`Kernel::module`].
pub use ptx_gemm_ptx as ptx;
pub use resident::Resident;
pub use shape::{Shape, Stack};
pub use view::{
    AnyMut, AnyRef, AsMatrix, AsMatrixMut, HostBytes, HostBytesMut, MatrixMut, MatrixRef, Runs, RunsMut, Strides,
    TypedMatrix,
};
