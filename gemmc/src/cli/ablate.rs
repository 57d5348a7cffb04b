//! The arguments of `gemmc ablate`.

use clap::Args;
use ptx_gemm_check::ablate::PATIENCE;

use super::extent::extent;
use super::profile::{Wait, seconds};
use super::{Compile, DeviceName};

#[derive(Args, Debug)]
pub(crate) struct Ablate {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Where to measure times: cuda:N [default: nowhere]
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: Option<DeviceName>,
    /// The cube that is timed
    #[arg(long, value_name = "EXTENT", default_value = "4096", value_parser = extent, requires = "device")]
    pub(crate) size: usize,
    /// Start no further measurement after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300", requires = "device")]
    pub(crate) seconds: Wait,
    /// How many seconds after its start to stop waiting for ptxas; 0: do not run it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = Wait(PATIENCE))]
    pub(crate) wait: Wait,
}
