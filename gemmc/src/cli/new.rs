//! The arguments of `gemmc new`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct New {
    /// A folder that does not exist yet; its last part is the name of the crate
    #[arg(value_name = "NAME")]
    pub(crate) folder: PathBuf,
    /// Depend on the checkout of ptx-gemm in this folder [default: the one that gemmc was built from, or around the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Depend on the version on crates.io instead, once it is published
    #[arg(long, conflicts_with = "path")]
    pub(crate) registry: bool,
    /// One JSON object on standard output, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}
