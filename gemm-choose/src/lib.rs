//! Estimates the time of a schedule, and chooses one, without a GPU and without a compilation: everything follows
//! from [`ptx_gemm_dsl::Plan`].

mod estimate;
mod gpu;
mod size;

pub use estimate::{Bound, Estimate, MODEL, Unsuited, estimate};
pub use gpu::Gpu;
pub use size::Size;
