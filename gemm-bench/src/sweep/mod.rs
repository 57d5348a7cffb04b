//! Sweeps.

pub mod cost;
pub mod gpu;
pub mod ranking;

pub use cost::{Bound, Estimate, estimate};
pub use gpu::Gpu;

use ptx_gemm::{Schedule, Target};
use ptx_gemm_dsl::table::Key;

/// What a schedule is compiled for on a GPU: what it says itself, else the newest that runs there.
pub fn target(schedule: &Schedule, gpu: &Gpu) -> Option<Target> {
    if schedule.get(Key::Target).is_some() { None } else { Target::newest(gpu.capability) }
}
