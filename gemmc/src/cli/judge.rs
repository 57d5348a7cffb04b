//! The arguments of `gemmc judge`.

use std::path::PathBuf;

use clap::Args;

use super::Plain;

#[derive(Args, Debug)]
pub(crate) struct Judge {
    /// Candidates, an object a line: an id, and a schedule, a tile program, or PTX and its launch
    pub(crate) candidates: PathBuf,
    /// The verdicts, an object a line, in the order of the candidates; those that are there already are not judged again
    #[arg(short, long, value_name = "FILE.jsonl")]
    pub(crate) output: PathBuf,
    /// Candidates that are judged at once, each in a process of its own [default: one a core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) budget: Budget,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

/// What one candidate may use.
#[derive(Args, Clone, Debug)]
pub(crate) struct Budget {
    /// How many instructions a warp may execute before it counts as a runaway
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 22)]
    pub(crate) max_instructions: u64,
    /// Seconds of a candidate
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// MiB of address space of the process that judges it
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(512..=1 << 20))]
    pub(crate) memory: u64,
    /// Multiply-adds that its products may have together; the first five are run in any case
    #[arg(long, value_name = "COUNT", default_value_t = 20_000_000)]
    pub(crate) work: u64,
}

/// The process that judges: candidates and verdicts are lines of its standard input and output.
#[derive(Args, Debug)]
pub(crate) struct JudgeWorker {
    #[command(flatten)]
    pub(crate) budget: Budget,
    #[command(flatten)]
    pub(crate) plain: Plain,
}
