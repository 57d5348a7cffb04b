//! The arguments of `gemmc profile`.

use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

use ptx_gemm::Target;
use ptx_gemm_check::figures::PATIENCE;
use ptx_gemm_choose::Gpu;

use super::extent::extent;
use super::target::{GPU, TARGET, gpu, target};
use super::{DeviceName, Plain};

#[derive(Args, Debug)]
pub(crate) struct Profile {
    /// A .gemm or .tile file, the name of a case, or `-` for a schedule on standard input; with --ncu any number
    #[arg(required_unless_present_any = ["clauses", "ncu"], num_args = 0..)]
    pub(crate) sources: Vec<OsString>,
    /// Clauses, such as 'tile(32, 32, 8); thread(2, 2);'
    #[arg(
        short = 'e',
        long = "clauses",
        value_name = "CLAUSES",
        allow_hyphen_values = true,
        conflicts_with = "sources"
    )]
    pub(crate) clauses: Option<String>,
    #[arg(long, value_parser = target, help = TARGET)]
    pub(crate) target: Option<Target>,
    #[arg(long, value_name = "NAME", value_parser = gpu, help = GPU)]
    pub(crate) gpu: Option<&'static Gpu>,
    /// Rows of A and D [default: two tiles; 4096 for times]
    #[arg(short = 'm', value_name = "M", value_parser = extent)]
    pub(crate) m: Option<usize>,
    /// Columns of B and D [default: two tiles; 4096 for times]
    #[arg(short = 'n', value_name = "N", value_parser = extent)]
    pub(crate) n: Option<usize>,
    /// Columns of A, rows of B [default: four K-tiles; 4096 for times]
    #[arg(short = 'k', value_name = "K", value_parser = extent)]
    pub(crate) k: Option<usize>,
    /// Where to measure times, next to cuBLAS's: cuda:N [default: nowhere]
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: Option<DeviceName>,
    /// How long to wait for ptxas, in seconds; 0: do not run it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = Wait(PATIENCE))]
    pub(crate) wait: Wait,
    /// Count the same product with the hardware's counters, through NVIDIA's ncu, and compare; without a source for ten cases
    #[arg(long)]
    pub(crate) ncu: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

/// A time to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait(pub(crate) Duration);

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.as_secs_f64())
    }
}

/// The longest time to wait, in seconds: a year. No clock reaches the end of what a number can say.
const LONGEST: u64 = 365 * 24 * 3600;

pub(super) fn seconds(text: &str) -> Result<Wait, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=LONGEST as f64).contains(seconds));
    seconds
        .map(|seconds| Wait(Duration::from_secs_f64(seconds)))
        .ok_or_else(|| format!("a number of seconds from 0 to {LONGEST}"))
}

/// A whole number of seconds.
pub(super) fn whole_seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= LONGEST);
    seconds.ok_or_else(|| format!("a whole number of seconds from 0 to {LONGEST}"))
}

/// A whole number of milliseconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    let milliseconds = text.parse().ok().filter(|milliseconds| *milliseconds <= 1000 * LONGEST);
    milliseconds.ok_or_else(|| format!("a whole number of milliseconds from 0 to {}", 1000 * LONGEST))
}
