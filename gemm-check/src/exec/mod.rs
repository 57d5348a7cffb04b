//! Runs any PTX file as described by a launch file: on the interpreter with its checks, or on a GPU.
//!
//! The PTX need not be this project's; a launch file names its entry, arguments, buffers and tensor maps. The
//! interpreter runs it once for each requested order, each time on fresh memory; if the results depend on the order,
//! the kernel has a race that no rule detected, and is reported as such.

mod element;
mod file;
mod gpu;
mod interpreter;
mod legal;
mod maps;
mod of_kernel;
mod resident;
mod second;

pub use element::ElementType;
pub use file::{Arg, Buffer, Init, LaunchFile, Map};
pub use gpu::{GpuRun, on_gpu};
pub use interpreter::{Interpreted, Order, Orders, foreign, interpret};
pub use legal::{legal, unsupported};
pub use maps::{MapDisagreement, MapOpinion};
pub use of_kernel::launch_of;
use ptx_gemm_runtime::interp::{LoadError, MemoryError, TensorElement, TensorMapArgs, TensorMapError};
pub use resident::resident;
pub use second::{Difference, Element, LEVELS, Opinion, launches_of, second_opinion};

/// Why nothing ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The launch file's contents.
    #[error("{0}")]
    File(String),
    /// The PTX.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A tensor map.
    #[error("map `{name}`: {error}")]
    Map {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: TensorMapError,
    },
    /// The interpreter's memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The GPU.
    #[error(transparent)]
    Runtime(#[from] ptx_gemm_runtime::Error),
}

/// The bytes of each buffer of the file, by name.
type Contents = Vec<(String, Vec<u8>)>;

impl Map {
    /// The driver's arguments, for a buffer at this address.
    fn args(&self, address: u64) -> Result<TensorMapArgs, ExecError> {
        let element = element(&self.ty).ok_or_else(|| {
            let message = "u8, u16, u32, s32, u64, s64, f16, bf16, f32, f32.ftz, tf32, tf32.ftz or f64";
            ExecError::File(format!("`{}` is not a type of a tensor map: {message}", self.ty))
        })?;
        let plain = TensorMapArgs::new(element, address, &self.dims, &self.strides, &self.extents);
        let element_strides = self.element_strides.clone().unwrap_or(plain.element_strides);
        Ok(TensorMapArgs { element_strides, swizzle: self.swizzle, oob_fill: self.oob, ..plain })
    }
}

fn element(name: &str) -> Option<TensorElement> {
    Some(match name {
        "u8" | "s8" | "e4m3" | "e5m2" => TensorElement::U8,
        "u16" | "s16" => TensorElement::U16,
        "u32" => TensorElement::U32,
        "s32" => TensorElement::I32,
        "u64" => TensorElement::U64,
        "s64" => TensorElement::I64,
        "f16" => TensorElement::F16,
        "bf16" => TensorElement::Bf16,
        "f32" => TensorElement::F32,
        "f32.ftz" => TensorElement::F32Ftz,
        "tf32" => TensorElement::Tf32,
        "tf32.ftz" => TensorElement::Tf32Ftz,
        "f64" => TensorElement::F64,
        _ => return None,
    })
}
