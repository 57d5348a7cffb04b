//! The arguments of the commands that read, explain and print schedules.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ptx_gemm::Target;
use ptx_gemm_choose::Gpu;

use super::extent::size;
use super::target::{GPU, TARGET, gpu, target};
use super::{Compile, Plain, Source};

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// .gemm, .tile and .ptx files, names of cases, or `-` for a schedule on standard input
    #[arg(required_unless_present = "clauses", conflicts_with = "clauses")]
    pub(crate) sources: Vec<OsString>,
    /// Clauses, such as 'tile(32, 32, 8); thread(2, 2);'
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Option<String>,
    #[arg(long, value_parser = target, help = TARGET)]
    pub(crate) target: Option<Target>,
    #[arg(long, value_name = "NAME", value_parser = gpu, help = GPU)]
    pub(crate) gpu: Option<&'static Gpu>,
    #[command(flatten)]
    pub(crate) plain: Plain,
    /// Apply the fixes that the diagnostics show and that leave fewer errors: to the .gemm file, or printed. What is computed
    /// (types, layout, epilogue, batch), expect and target change only with --fix=all, which prints each such change
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "method",
        conflicts_with = "gpu"
    )]
    pub(crate) fix: Option<Fixes>,
    /// Write the chosen values into the .gemm file in the place of `?` and `schedule(?)`, or print the text
    #[arg(long, conflicts_with = "fix")]
    pub(crate) fill: bool,
}

/// Which fixes to apply.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Fixes {
    /// Those that only change how the product is computed
    Method,
    /// Also those that change what is computed, the contracts or the target
    All,
}

impl Check {
    /// What is to be checked, one by one.
    pub(crate) fn programs(&self) -> Vec<Compile> {
        let compile = |source: Option<OsString>| Compile {
            source: Source { source, clauses: self.clauses.clone() },
            target: self.target,
            gpu: self.gpu,
            plain: Plain { json: self.plain.json },
        };
        match self.clauses {
            Some(_) => vec![compile(None)],
            None => self.sources.iter().map(|source| compile(Some(source.clone()))).collect(),
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Fmt {
    /// .gemm files, which are written, or `-` for standard input
    #[arg(required_unless_present = "clauses", conflicts_with = "clauses")]
    pub(crate) files: Vec<OsString>,
    /// Clauses, such as 'tile(32,32,8);thread(2,2)'
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Option<String>,
    /// Write nothing, and exit 1 if something is not in its canonical form
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A clause, or one of types, epilogue, layout, targets [default: every clause in one line]
    pub(crate) name: Option<String>,
    /// The language reference, in Markdown
    #[arg(long, conflicts_with_all = ["name", "json"])]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Ptx {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Write there instead of to standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out which clause each line comes from, and every other comment
    #[arg(long)]
    pub(crate) no_comments: bool,
    /// The machine code that ptxas makes of it, for --target or the schedule's own target
    #[arg(long, conflicts_with_all = ["no_comments", "json"])]
    pub(crate) cubin: bool,
    /// Instead of the PTX, the launch file with which `gemmc exec` runs it on a product of M x N x K
    #[arg(long, conflicts_with_all = ["no_comments", "cubin"], requires_all = ["m", "n", "k"])]
    pub(crate) launch_file: bool,
    /// Rows of A and D, for --launch-file
    #[arg(short = 'm', value_name = "M", value_parser = size, requires = "launch_file")]
    pub(crate) m: Option<usize>,
    /// Columns of B and D, for --launch-file
    #[arg(short = 'n', value_name = "N", value_parser = size, requires = "launch_file")]
    pub(crate) n: Option<usize>,
    /// Columns of A, rows of B, for --launch-file
    #[arg(short = 'k', value_name = "K", value_parser = size, requires = "launch_file")]
    pub(crate) k: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct Ir {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Which level
    #[arg(long, value_enum)]
    pub(crate) level: Level,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// Copies, waits, multiplies and stores on logical tiles
    Tile,
    /// One thread: registers, addresses, loops, guards
    Kernel,
    /// The PTX text
    Ptx,
}
