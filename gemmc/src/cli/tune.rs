//! The arguments of `gemmc tune` and `gemmc lock`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ptx_gemm::DType;
use ptx_gemm_bench::suites::LayoutPair;

use super::bench::dtype;
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
    /// Type of the elements of A, B and D
    #[arg(long, default_value = "f32", value_parser = dtype)]
    pub(crate) types: DType,
    /// Layouts of A and B
    #[arg(long, value_enum, default_value = "nn")]
    pub(crate) layouts: LayoutPair,
    /// What is stored, such as '|acc, bias| relu(acc + bias[n])'
    #[arg(long, value_name = "CLOSURE", allow_hyphen_values = true)]
    pub(crate) epilogue: Option<String>,
    /// Clauses that every candidate has; they replace those of the same kind
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Option<String>,
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
