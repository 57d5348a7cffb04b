//! The arguments of the commands that check many schedules.

use std::path::PathBuf;

use clap::Args;
use ptx_gemm_check::exec::Orders;

use super::profile::whole_seconds;
use super::{DeviceName, Plain};

#[derive(Args, Debug)]
pub(crate) struct Selftest {
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "best", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Only a few sizes for each schedule
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only rows with this text in their name: schedules, or the claims below them
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Leave out schedules that read in one launch what TMA wrote in another, which initcheck does not see
    #[arg(long, hide = true, requires = "quick")]
    pub(crate) no_rereads: bool,
    /// The quick test under NVIDIA's compute-sanitizer, once for each of its tools
    ///
    /// Memcheck counts all bytes of a `cp.async`, even if its source size is smaller. It therefore reports the last vector of an
    /// allocation that ends within it, although nothing there is read. The quick test has no such matrices; `gemmc fuzz` has.
    #[arg(long)]
    pub(crate) sanitize: bool,
    /// Which of its tools
    #[arg(
        long,
        value_name = "TOOL",
        value_delimiter = ',',
        requires = "sanitize",
        default_value = "memcheck,racecheck,initcheck,synccheck"
    )]
    pub(crate) tool: Vec<String>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Fuzz {
    /// The seed of the first draw; the next ones follow
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Draw until this many pairs of a schedule and a product were right [default: 1000]
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) count: Option<usize>,
    /// Draw for this long
    #[arg(long, value_name = "N", value_parser = whole_seconds)]
    pub(crate) seconds: Option<u64>,
    /// Only schedules with this clause or argument; the others are drawn, but not executed
    #[arg(long, value_name = "CLAUSE")]
    pub(crate) with: Option<String>,
    /// Execute each draw in this order of warps, blocks and landing copies, in the interpreter: forward, backward, random:SEED,
    /// late:SEED or all [default: one drawn with it]
    #[arg(long)]
    pub(crate) order: Option<Orders>,
    /// Instead break random schedules, and count what the offered fixes lead to
    #[arg(long, conflicts_with_all = ["seconds", "device", "with", "order"])]
    pub(crate) fixes: bool,
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "interp", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Write what --json prints there as well
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct FirstLaunch {
    /// The name of a case with elements of type f32
    pub(crate) case: String,
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "best", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct StrayPointer {
    /// Where to run: cuda:N
    #[arg(long, default_value = "cuda:0", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    #[command(flatten)]
    pub(crate) plain: Plain,
}
