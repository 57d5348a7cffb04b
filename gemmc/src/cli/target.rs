//! The target or the GPU to compile for: one rule and one text for every command.

use ptx_gemm::Target;
use ptx_gemm_choose::Gpu;

/// What `--target` is, and what is compiled for without it. The last two steps are `Schedule::target_on` and `plan`.
pub(crate) const TARGET: &str = "Compile for this target, such as sm_90a [default: the one that the schedule or the \
    .tile file names; else the newest that the GPU runs, if one is given; else the first with the instructions and \
    limits that it needs]";

/// What `--gpu` is.
pub(crate) const GPU: &str = "Compile for this GPU, such as h200, unless the schedule or the .tile file names a target";

/// A GPU by its name, or by a file of figures, as `calibrate` writes it.
pub(super) fn gpu(text: &str) -> Result<&'static Gpu, String> {
    let names = || Gpu::all().iter().map(|gpu| gpu.name.to_lowercase()).collect::<Vec<_>>().join(", ");
    match Gpu::find(text) {
        Some(gpu) => Ok(gpu),
        None if text.ends_with(".txt") => {
            let figures = std::fs::read_to_string(text).map_err(|error| error.to_string())?;
            // One command reads one file.
            Ok(Box::leak(Box::new(Gpu::parse(&figures)?)))
        }
        None => Err(format!("one of {}; or a file of figures, as calibrate writes it: NAME.txt", names())),
    }
}

pub(super) fn target(text: &str) -> Result<Target, String> {
    text.parse().map_err(|_| {
        let known: Vec<String> = Target::ALL.iter().map(Target::to_string).collect();
        format!("one of {}", known.join(", "))
    })
}
