//! The arguments of completions and manual pages.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// A command [default: gemmc itself]
    #[arg(conflicts_with = "folder")]
    pub(crate) command: Option<String>,
    /// Write the pages of gemmc and of all commands there
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}
