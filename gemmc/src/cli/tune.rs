//! The arguments of `gemmc tune` and `gemmc lock`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::pick::Given;
use super::profile::whole_seconds;
use super::{DeviceName, Plain};

#[derive(Args, Debug)]
pub(crate) struct Tune {
    /// Products, a line each, as for `gemmc pick`; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) shapes: PathBuf,
    /// The file of entries, created if missing, and written after each product
    #[arg(long, value_name = "FILE", default_value = "gemm.lock")]
    pub(crate) lock: PathBuf,
    /// Time on this GPU: cuda:N
    #[arg(long, value_parser = DeviceName::parse, default_value = "cuda:0")]
    pub(crate) device: DeviceName,
    /// How long to search for the schedule of one product
    #[arg(long, value_name = "N", value_parser = whole_seconds, default_value = "5")]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) given: Given,
    /// Skip products that have an entry
    #[arg(long)]
    pub(crate) missing: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Lock {
    #[command(subcommand)]
    pub(crate) command: LockCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Which entries this compiler would no longer make: their schedule is not legal now, or has other PTX
    Check(LockCheck),
}

#[derive(Args, Debug)]
pub(crate) struct LockCheck {
    /// The file of entries; without one, those that the library has
    pub(crate) lock: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}
