//! The arguments of `gemmc pick`.

use std::path::PathBuf;

use clap::Args;
use ptx_gemm::DType;
use ptx_gemm_bench::suites::LayoutPair;
use ptx_gemm_choose::Gpu;

use super::bench::dtype;
use super::extent::extent;
use super::profile::whole_seconds;
use super::target::gpu;
use super::{DeviceName, Plain};

/// What every candidate has.
#[derive(Args, Debug)]
pub(crate) struct Given {
    /// Type of the elements of A, B and D
    #[arg(long, default_value = "f32", value_parser = dtype)]
    pub(crate) types: DType,
    /// Layouts of A and B
    #[arg(long, value_enum, default_value = "nn")]
    pub(crate) layouts: LayoutPair,
    /// What is stored, such as '|acc, bias| relu(acc + bias[n])'
    #[arg(long, value_name = "CLOSURE", allow_hyphen_values = true)]
    pub(crate) epilogue: Option<String>,
    /// Clauses that every candidate has, such as 'emulate(bf16x6)' or 'cluster(2, 1)'; they replace those of the same kind
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Pick {
    /// Rows of A and D
    #[arg(short = 'm', value_name = "M", default_value = "4096", value_parser = extent)]
    pub(crate) m: usize,
    /// Columns of B and D
    #[arg(short = 'n', value_name = "N", default_value = "4096", value_parser = extent)]
    pub(crate) n: usize,
    /// Columns of A, rows of B
    #[arg(short = 'k', value_name = "K", default_value = "4096", value_parser = extent)]
    pub(crate) k: usize,
    /// Products of batch(strided) in one launch
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = extent)]
    pub(crate) batch: usize,
    /// Many products, a line each: M, MxNxK or MxNxKxBATCH, then a type and layouts if they differ from --types and --layouts, and after
    /// a `;` clauses such as `emulate(bf16x6)`; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["m", "n", "k", "batch"])]
    pub(crate) shapes: Option<PathBuf>,
    /// This many products drawn at random: 1 to 8192 rows, up to 20000 columns and 16384 of k; bf16 with both layouts of B, f16, f32
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["m", "n", "k", "batch", "shapes", "types", "layouts"])]
    pub(crate) draw: Option<usize>,
    /// Which products
    #[arg(long, default_value_t = 0, requires = "draw")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) given: Given,
    /// Estimate for this GPU [default: that of --device, or H200]
    #[arg(long, value_parser = gpu)]
    pub(crate) gpu: Option<&'static Gpu>,
    /// Time the first eight on this GPU, 16 if they are close, in turns with cuBLAS: cuda:N
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: Option<DeviceName>,
    /// One schedule only: the one that `ptx_gemm::matmul` takes, from entries of `gemmc tune` and from estimates
    #[arg(long, conflicts_with_all = ["seconds", "top"])]
    pub(crate) matmul: bool,
    /// Entries for --matmul, in front of the library's
    #[arg(long, value_name = "FILE", requires = "matmul")]
    pub(crate) lock: Option<PathBuf>,
    /// Search further for this long, for each product
    #[arg(long, value_name = "N", value_parser = whole_seconds, requires = "device")]
    pub(crate) seconds: Option<u64>,
    /// How many schedules to show
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) top: u16,
    /// Keep the times in this file, line by line, and use those that it has
    #[arg(long, value_name = "FILE", requires = "device")]
    pub(crate) keep: Option<PathBuf>,
    /// Write a line for every schedule that is shown or was timed
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) csv: Option<PathBuf>,
    /// Add the times to a file of all rows, in place of those of the same name: NAME=FILE.json
    #[arg(long, value_name = "NAME=FILE.json", value_parser = named_file, requires = "device")]
    pub(crate) rows: Option<(String, PathBuf)>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("a name, `=`, and a file, such as h200/pick=rows.json")?;
    Ok((name.into(), path.into()))
}
