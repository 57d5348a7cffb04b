//! The arguments of `gemmc large`.

use clap::{Args, Subcommand, ValueEnum};

use super::Compile;
use super::extent::size;

#[derive(Args, Debug)]
pub(crate) struct Large {
    #[command(subcommand)]
    pub(crate) command: LargeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LargeCommand {
    /// What is copied where, how long it takes, and what binds; needs no device
    Plan(LargePlan),
    /// Multiply random matrices on GPUs, or on interpreters
    Run(LargeRun),
    /// What a product across processes would take, from one GPU to many hosts, and what is assumed; needs no device
    Scale(LargeScale),
}

/// A product, and the memory for it.
#[derive(Args, Debug)]
pub(crate) struct Sizes {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Rows of A and D
    #[arg(short = 'm', value_name = "M")]
    pub(crate) m: usize,
    /// Columns of B and D
    #[arg(short = 'n', value_name = "N")]
    pub(crate) n: usize,
    /// Columns of A, rows of B
    #[arg(short = 'k', value_name = "K")]
    pub(crate) k: usize,
    /// Memory of each device that may be used, such as 8GiB [default: nine tenths of an H200's, or of what is free]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) budget: Option<u64>,
    /// Depth of a slab of K [default: what takes least time]
    #[arg(long, value_name = "ELEMENTS", value_parser = size)]
    pub(crate) depth: Option<usize>,
    /// Slabs that a device holds at once
    #[arg(long, value_name = "COUNT", value_parser = slabs)]
    pub(crate) ring: Option<usize>,
    /// Strips in which a block of D is finished
    #[arg(long, value_name = "COUNT", value_parser = strips)]
    pub(crate) strips: Option<usize>,
    /// Everything through the host, also where devices are linked
    #[arg(long)]
    pub(crate) no_links: bool,
    /// Speed of one device in TFLOP/s, for the estimate [default: about what an H200 reaches by such a schedule]
    #[arg(long, value_name = "X", value_parser = positive)]
    pub(crate) tflops: Option<f64>,
    /// Value of any scalar of the epilogue [default: 0 for beta, else 1]
    #[arg(long, value_name = "NAME=X", value_parser = super::run::assignment, allow_hyphen_values = true)]
    pub(crate) set: Vec<(String, f64)>,
}

#[derive(Args, Debug)]
pub(crate) struct LargePlan {
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// The number of devices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = devices)]
    pub(crate) devices: usize,
    /// Every copy, launch and event as well
    #[arg(long)]
    pub(crate) operations: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LargeScale {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Rows of A and D
    #[arg(short = 'm', value_name = "M")]
    pub(crate) m: usize,
    /// Columns of B and D
    #[arg(short = 'n', value_name = "N")]
    pub(crate) n: usize,
    /// Columns of A, rows of B
    #[arg(short = 'k', value_name = "K")]
    pub(crate) k: usize,
    /// The largest number of processes, each with a GPU
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    pub(crate) most: u64,
    /// Depth of a panel of K [default: what gives every process a panel, at most 2048]
    #[arg(long, value_name = "ELEMENTS", value_parser = size)]
    pub(crate) depth: Option<usize>,
    /// Speed of one GPU in TFLOP/s [default: about what an H200 reaches by such a schedule]
    #[arg(long, value_name = "X", value_parser = positive)]
    pub(crate) tflops: Option<f64>,
    /// GPUs of a host
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) per_host: u64,
    /// Speed between two GPUs of a host, in GB/s and each direction
    #[arg(long, value_name = "X", default_value_t = 135.0, value_parser = positive)]
    pub(crate) inside: f64,
    /// Speed between a GPU and other hosts, in GB/s and each direction
    #[arg(long, value_name = "X", default_value_t = 50.0, value_parser = positive)]
    pub(crate) between: f64,
    /// Time from one process of a broadcast to the next, in microseconds
    #[arg(long, value_name = "X", default_value_t = 10.0, value_parser = not_negative)]
    pub(crate) latency: f64,
    /// Every broadcast, launch and event of the last process of the largest number as well
    #[arg(long)]
    pub(crate) operations: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LargeRun {
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// GPUs to use, from number 0 on [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "interp", value_parser = devices)]
    pub(crate) devices: Option<usize>,
    /// Interpreters to use, instead of GPUs
    #[arg(long, value_name = "N", value_parser = devices)]
    pub(crate) interp: Option<usize>,
    /// Compare with A (B t) for random vectors t where the epilogue is plain, and blocks of D element by element
    #[arg(long)]
    pub(crate) check: bool,
    /// Measure what bounds it as well, if no device fails: its products without copies, and its copies without products
    #[arg(long)]
    pub(crate) bounds: bool,
    /// Which data
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where the host's matrices are
    #[arg(long, value_enum, default_value_t = Place::Pinned)]
    pub(crate) memory: Place,
    /// What happens when a device fails
    #[arg(long, value_enum, default_value_t = OnFailureName::Stop)]
    pub(crate) on_failure: OnFailureName,
}

/// The host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// Page-locked: copies are fast, and overlap
    Pinned,
    /// Ordinary
    Pageable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailureName {
    /// Say which strips of D are finished
    Stop,
    /// The other devices do the rest
    Continue,
}

/// The most devices of a host that a plan is made for; more than any host has.
const MOST_DEVICES: usize = 64;
/// The most slabs in a ring: far more than copies need to run ahead.
const MOST_SLABS: usize = 64;

/// The most strips of a block: far more than hide the last copy.
const MOST_STRIPS: usize = 4096;

fn devices(text: &str) -> Result<usize, String> {
    up_to(text, MOST_DEVICES)
}

fn slabs(text: &str) -> Result<usize, String> {
    up_to(text, MOST_SLABS)
}

fn strips(text: &str) -> Result<usize, String> {
    up_to(text, MOST_STRIPS)
}

fn up_to(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (0..=most).contains(number));
    number.ok_or_else(|| format!("a whole number up to {most}, such as 4"))
}

fn positive(text: &str) -> Result<f64, String> {
    not_negative(text).ok().filter(|number| *number > 0.0).ok_or_else(|| "a finite number above 0, such as 55".into())
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a finite number, 0 or above".into())
}

/// Reads a number of bytes with an optional unit.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err("a whole number of bytes, with KiB, MiB, GiB or TiB".into()),
    };
    let number: u64 = number.parse().map_err(|_| "a whole number of bytes, such as 8GiB".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "2^64 bytes or more".into())
}
