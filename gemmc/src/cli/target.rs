//! The target or the GPU to compile for: one rule and one text for every command.

use ptx_gemm::Target;
use ptx_gemm_draw::{GPUS, Gpu};

/// What `--target` is, and what is compiled for without it. The last two steps are `Schedule::target_on` and `plan`.
pub(crate) const TARGET: &str = "Compile for this target, such as sm_90a [default: the one that the schedule or the \
    .tile file names; else the newest that the GPU runs, if one is given; else the first with the instructions and \
    limits that it needs]";

/// What `--gpu` is.
pub(crate) const GPU: &str = "Compile for this GPU, such as h200, unless the schedule or the .tile file names a target";

pub(super) fn gpu(text: &str) -> Result<Gpu, String> {
    Gpu::named(text).ok_or_else(|| format!("one of {}", GPUS.map(|gpu| gpu.name).join(", ")))
}

pub(super) fn target(text: &str) -> Result<Target, String> {
    text.parse().map_err(|_| {
        let known: Vec<String> = Target::ALL.iter().map(Target::to_string).collect();
        format!("one of {}", known.join(", "))
    })
}
