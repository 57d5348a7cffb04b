//! The target to compile for: one rule and one text for every command.

use ptx_gemm::Target;

/// What `--target` is, and what is compiled for without it. The last two steps are `Schedule::target_on` and `plan`.
pub(crate) const TARGET: &str = "Compile for this target, such as sm_90a [default: the one that the schedule or the \
    .tile file names; else the newest that the GPU of --device or --gpu runs; else the first whose instructions and \
    limits suffice]";

pub(super) fn target(text: &str) -> Result<Target, String> {
    text.parse().map_err(|_| {
        let known: Vec<String> = Target::ALL.iter().map(Target::to_string).collect();
        format!("one of {}", known.join(", "))
    })
}
