//! The arguments of `gemmc diff`.

use clap::{Args, ValueEnum};
use ptx_gemm::Target;
use ptx_gemm_check::differences::Level;
use ptx_gemm_check::figures::PATIENCE;
use ptx_gemm_choose::Gpu;

use super::Plain;
use super::profile::{Wait, seconds};
use super::target::{GPU, TARGET, gpu, target};

#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// A .gemm, .tile or .ptx file, the name of a case, or clauses such as 'tile(32, 32, 8); thread(2, 2);'
    pub(crate) first: String,
    /// The same
    pub(crate) second: String,
    /// Show this level in full [default: the two highest that differ]
    #[arg(long, value_enum)]
    pub(crate) level: Vec<Levels>,
    /// Compare comments as well
    #[arg(long)]
    pub(crate) comments: bool,
    /// Exit with 1 if they differ
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[arg(long, value_parser = target, help = TARGET)]
    pub(crate) target: Option<Target>,
    #[arg(long, value_name = "NAME", value_parser = gpu, help = GPU)]
    pub(crate) gpu: Option<&'static Gpu>,
    /// How long to wait for ptxas, in seconds; 0: do not run it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = Wait(PATIENCE))]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

/// What to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Levels {
    /// The clauses of a schedule
    Clauses,
    /// Every number that follows from them
    Plan,
    /// Copies, waits, multiplies and stores on logical tiles
    Tile,
    /// One thread: registers, addresses, loops, guards
    Kernel,
    /// The PTX text
    Ptx,
    /// Each of them
    All,
}

impl Levels {
    pub(crate) fn has(self, level: Level) -> bool {
        let own = match self {
            Levels::All => return true,
            Levels::Clauses => Level::Clauses,
            Levels::Plan => Level::Plan,
            Levels::Tile => Level::Tile,
            Levels::Kernel => Level::Kernel,
            Levels::Ptx => Level::Ptx,
        };
        own == level
    }
}
