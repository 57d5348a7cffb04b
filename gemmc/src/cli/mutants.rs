//! The arguments of `gemmc mutants`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Plain;

#[derive(Args, Debug)]
pub(crate) struct Mutants {
    /// A .gemm file, a .tile file or the name of a case [default: every case]
    pub(crate) source: Option<OsString>,
    /// The same for a case
    #[arg(long, value_name = "NAME", conflicts_with = "source")]
    pub(crate) case: Option<OsString>,
    /// One kernel for each mechanism, as `.ci/full` does
    #[arg(long, conflicts_with_all = ["source", "case"])]
    pub(crate) mechanisms: bool,
    /// Where to plant faults
    #[arg(long, value_enum, default_value = "ptx")]
    pub(crate) level: Faults,
    /// Only faults of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Plant this many faults, drawn at random
    #[arg(long, value_name = "COUNT")]
    pub(crate) sample: Option<usize>,
    /// Which ones
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Faults of each kind in each entry [default: as many as make 240 of a kernel]
    #[arg(long, value_name = "COUNT", conflicts_with = "sample")]
    pub(crate) each: Option<usize>,
    /// Also print how each was found, and how long that took, on standard error
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the figures of each case as a table in Markdown
    #[arg(long, value_name = "FILE.md")]
    pub(crate) table: Option<PathBuf>,
    /// Keep the figures of each kernel in this folder, and continue from those that it has
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    /// Plant nothing: only the kernels that the folder has figures of, if these are of the same faults and products
    #[arg(long, requires = "keep")]
    pub(crate) kept: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

/// Where faults are planted.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Faults {
    /// The PTX: when run, they break a rule or compute something else
    Ptx,
    /// The text of the tile programs: the compiler rejects them, or they are different valid programs
    Tile,
}
