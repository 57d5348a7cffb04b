//! The errors between a schedule and its result. Each message names the argument, its value and the limit.

mod argument;
mod device;

pub use argument::{ArgumentError, OperandName, Refusal};
pub use device::DeviceError;
use ptx_gemm_dsl::Diagnostics;

/// Every error that a call into the runtime can return.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The schedule is not legal, or not for this target.
    #[error("{0}")]
    Schedule(#[from] Diagnostics),
    /// The text of tile programs is wrong; one line per error, `line:column: message`.
    #[error("{0}")]
    Tile(#[from] ptx_gemm_codegen::TextErrors),
    /// The compiler broke one of its own rules.
    #[error(transparent)]
    Compiler(Box<ptx_gemm_codegen::Violation>),
    /// An argument of a launch is wrong; nothing has run.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The device cannot do what was requested.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The interpreter could not read the PTX.
    #[error("the interpreter could not read the PTX: {0}")]
    Load(#[from] ptx_gemm_interp::LoadError),
    /// The interpreter stopped the kernel, which broke a rule.
    #[error("the interpreter stopped the kernel: {0}")]
    Interpreter(Box<ptx_gemm_interp::Violation>),
    /// The kernel ended without writing all of D.
    #[error("the kernel left D[{row}, {col}] unwritten (entry `{entry}`)")]
    Unwritten {
        /// The entry that ran.
        entry: String,
        /// Row of the first such element, in memory order.
        row: usize,
        /// Its column.
        col: usize,
    },
}

impl From<ptx_gemm_codegen::Violation> for Error {
    fn from(violation: ptx_gemm_codegen::Violation) -> Error {
        Error::Compiler(Box::new(violation))
    }
}

impl From<ptx_gemm_interp::Violation> for Error {
    fn from(violation: ptx_gemm_interp::Violation) -> Error {
        Error::Interpreter(Box::new(violation))
    }
}

impl Error {
    /// True if the error shows a wrong kernel, and not a wrong call or a missing device.
    pub fn is_violation(&self) -> bool {
        matches!(self, Error::Compiler(_) | Error::Load(_) | Error::Interpreter(_) | Error::Unwritten { .. })
    }
}
