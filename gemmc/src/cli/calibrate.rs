//! The arguments of `gemmc calibrate`.

use std::path::PathBuf;

use clap::Args;
use ptx_gemm_choose::Gpu;

use super::bench::picture;
use super::profile::whole_seconds;
use super::target::gpu;
use super::{DeviceName, Plain};

#[derive(Args, Debug)]
pub(crate) struct Calibrate {
    /// Timed schedules: a file of all rows, or one that `gemmc pick --keep` wrote; several are separated by commas
    #[arg(long, value_name = "FILE", value_delimiter = ',', required_unless_present = "device")]
    pub(crate) rows: Vec<PathBuf>,
    /// Time schedules for products drawn at random on this GPU: cuda:N
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: Option<DeviceName>,
    /// Stop timing after this time
    #[arg(long, value_name = "N", default_value = "300", value_parser = whole_seconds, requires = "device")]
    pub(crate) seconds: u64,
    /// Which products
    #[arg(long, default_value_t = 0, requires = "device")]
    pub(crate) seed: u64,
    /// The GPU that they were timed on, or one like it: its figures are the first guess
    #[arg(long, default_value = "H200", value_parser = gpu)]
    pub(crate) gpu: &'static Gpu,
    /// Fit nothing: say how well the estimates rank
    #[arg(long)]
    pub(crate) judge: bool,
    /// Draw estimates next to times, for the half of the products that nothing is fitted to
    #[arg(long, value_name = "FILE.svg", value_parser = picture())]
    pub(crate) plot: Option<PathBuf>,
    /// Write the figures there
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "judge")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}
