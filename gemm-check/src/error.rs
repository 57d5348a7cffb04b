//! Why a product could not be compared with its reference.

use ptx_gemm_dsl::DType;
use ptx_gemm_runtime::Error;

/// Why a product could not be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// An error of the runtime.
    #[error(transparent)]
    Runtime(#[from] Error),
    /// Matrices that do not fit into this machine's memory.
    #[error("checking {m} x {n} x {k} needs about {needed} MiB of memory, {available} MiB are available")]
    TooLarge {
        /// Rows of D.
        m: usize,
        /// Columns of D.
        n: usize,
        /// Terms of each sum.
        k: usize,
        /// MiB needed.
        needed: u64,
        /// MiB available.
        available: u64,
    },
    /// Exact data with a scalar that is not an integer.
    #[error("exact data need integer scalars, `{name}` is {value}")]
    Fraction {
        /// Its name.
        name: String,
        /// Its value.
        value: f64,
    },
    /// Exact data with sums beyond what the accumulator represents exactly.
    #[error("sums of {k} exact products are not exact in {acc}: K is at most {limit}")]
    NotExact {
        /// Terms of each sum.
        k: usize,
        /// Type of the accumulator.
        acc: DType,
        /// The largest K.
        limit: usize,
    },
}
