//! The arguments of `gemmc sweep`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use ptx_gemm::Target;
use ptx_gemm_choose::Gpu;

use super::extent::extent;
use super::profile::whole_seconds;
use super::target::gpu;
use super::target::{TARGET, target};
use super::{DeviceName, Plain};

#[derive(Args, Debug)]
pub(crate) struct Sweep {
    /// Clauses with alternatives, such as 'tile({64, 128}, 64, {8..=32 step *2}); thread(8, 8); {double_buffer | }'; or a file
    /// of them, a case, or `-`
    #[arg(required_unless_present_any = ["clauses", "against"], allow_hyphen_values = true)]
    pub(crate) source: Option<OsString>,
    /// Clauses with alternatives, even if a file has that name
    #[arg(
        short = 'e',
        long = "clauses",
        value_name = "CLAUSES",
        allow_hyphen_values = true,
        conflicts_with = "source"
    )]
    pub(crate) clauses: Option<String>,
    /// Rows of A and D
    #[arg(short = 'm', value_name = "M", default_value = "4096", value_parser = extent)]
    pub(crate) m: usize,
    /// Columns of B and D
    #[arg(short = 'n', value_name = "N", default_value = "4096", value_parser = extent)]
    pub(crate) n: usize,
    /// Columns of A, rows of B
    #[arg(short = 'k', value_name = "K", default_value = "4096", value_parser = extent)]
    pub(crate) k: usize,
    /// Products of batch(strided)
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = extent)]
    pub(crate) batch: usize,
    #[arg(long, value_parser = target, help = TARGET)]
    pub(crate) target: Option<Target>,
    /// Estimate for this GPU
    #[arg(long, default_value = "H200", value_parser = gpu)]
    pub(crate) gpu: &'static Gpu,
    /// Judge this many combinations, drawn at random
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<u64>,
    /// Which ones
    #[arg(long, default_value_t = 0, requires = "sample")]
    pub(crate) seed: u64,
    /// Time the legal ones on this GPU, next to cuBLAS: cuda:N
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: Option<DeviceName>,
    /// Show, and on a GPU time, only the best by the estimate [default: show 20, time all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Start no further timing after this time
    #[arg(long, value_name = "N", default_value = "480", value_parser = whole_seconds)]
    pub(crate) seconds: u64,
    /// Keep the results in this file, line by line, and continue from those that it has
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Write a line for every legal schedule
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) csv: Option<PathBuf>,
    /// Judge nothing: compare the estimates with files of results of `gemmc bench`, by rank
    #[arg(long, value_name = "FILE.json", value_delimiter = ',', conflicts_with_all = [
        "source", "clauses", "m", "n", "k", "batch", "target", "sample", "seed", "device", "top", "seconds", "keep", "csv",
    ])]
    pub(crate) against: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct SweepWorker {
    /// Where to run: cuda:N
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
}
