//! The arguments of the commands that run any PTX.

use std::path::PathBuf;

use clap::Args;
use ptx_gemm::interp::{Checks, ViolationKind};
use ptx_gemm_check::exec::Orders;
use ptx_gemm_choose::Gpu;

use super::target::gpu;
use super::{DeviceName, Plain};

#[derive(Args, Debug)]
pub(crate) struct Exec {
    /// A file of PTX text
    pub(crate) ptx: PathBuf,
    /// The launch: entry, grid, block, arguments, buffers and tensor maps, in JSON
    #[arg(long, value_name = "FILE.json")]
    pub(crate) launch: PathBuf,
    /// Where to run: interp or cuda:N
    #[arg(long, default_value = "interp", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// The order of warps and of landing copies: forward, backward, random:SEED, late:SEED (one warp is delayed), or all of these
    #[arg(long, default_value = "forward")]
    pub(crate) order: Orders,
    /// What to watch for on the interpreter: all, none, or rules separated by commas
    #[arg(long, default_value = "all", value_parser = Watched::parse)]
    pub(crate) checks: Watched,
    /// How many instructions a warp may execute on the interpreter before it counts as a runaway
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 26)]
    pub(crate) max_instructions: u64,
    /// The GPU that blocks are resident on, such as h200 [default: the launch file's, else one of the module's target]
    #[arg(long, value_name = "NAME", value_parser = gpu)]
    pub(crate) gpu: Option<&'static Gpu>,
    /// Level of optimisation of the driver's assembler, 0 to 4, on a GPU
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(0..=4))]
    pub(crate) opt: Option<u32>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct SecondOpinion {
    /// PTX files NAME.ptx or NAME.WORD.ptx, and launch files NAME.json or NAME.WORD.json
    pub(crate) folder: PathBuf,
    /// Where to run: interp, for the interpreter's orders alone, or cuda:N
    #[arg(long, default_value = "interp", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Also write the findings to this file
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

/// The value of `--checks`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) rules: Checks,
    /// Those that were listed by name.
    listed: Checks,
}

impl Watched {
    pub(crate) fn parse(text: &str) -> Result<Watched, String> {
        let mut watched = Watched { rules: Checks::Off, listed: Checks::Off };
        if text == "none" {
            return Ok(watched);
        }
        for name in text.split(',').map(str::trim) {
            if name == "all" {
                watched.rules = Checks::Full;
                continue;
            }
            let rule = ViolationKind::from_name(name).ok_or_else(|| {
                let known: Vec<String> = ViolationKind::ALL.iter().map(|kind| kind.name()).collect();
                format!("`{name}` is not a rule; all, none, or some of {}", known.join(", "))
            })?;
            watched = Watched { rules: watched.rules.with(rule), listed: watched.listed.with(rule) };
        }
        Ok(watched)
    }

    /// Whether this rule was requested by its name.
    pub(crate) fn named(&self, rule: ViolationKind) -> bool {
        self.listed.has(rule)
    }
}
