//! The commands, and the arguments that several of them share.

mod ablate;
mod bench;
mod calibrate;
mod device;
mod diff;
mod draw;
mod exec;
mod extent;
mod jobs;
mod judge;
mod language;
mod large;
mod mutants;
mod new;
mod pick;
mod profile;
mod run;
mod selftest;
mod shell;
mod sweep;
mod target;
mod tune;

use std::ffi::OsString;

use clap::{Args, CommandFactory, Parser, Subcommand};
use ptx_gemm::Target;
use ptx_gemm_choose::Gpu;

use target::{gpu, target};

pub(crate) use ablate::Ablate;
pub(crate) use bench::dtype;
pub(crate) use bench::{Bench, Ladder};
pub(crate) use calibrate::Calibrate;
pub(crate) use device::DeviceName;
pub(crate) use diff::Diff;
pub(crate) use draw::{Draw, Scheme, ends_in};
pub(crate) use exec::{Exec, SecondOpinion};
pub(crate) use judge::{Budget, Judge, JudgeWorker};
pub(crate) use language::{Check, Explain, Fixes, Fmt, Ir, Level, Ptx};
pub(crate) use large::{Large, LargeCommand, LargePlan, LargeRun, LargeScale, OnFailureName, Place, Sizes};
pub(crate) use mutants::{Faults, Mutants};
pub(crate) use new::New;
pub(crate) use pick::{Given, Pick};
pub(crate) use profile::Profile;
pub(crate) use run::Run;
pub(crate) use selftest::{FirstLaunch, Fuzz, Selftest, StrayPointer};
pub(crate) use shell::{Completions, Man};
pub(crate) use sweep::{Sweep, SweepWorker};
pub(crate) use target::{GPU, TARGET};
pub(crate) use tune::{Lock, LockCommand, Tune};

/// Schedules and tile programs for GPU matrix multiplication: checked, compiled to PTX, run, explained.
#[derive(Debug, Parser)]
#[command(name = "gemmc", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Report everything that is wrong with a schedule or tile programs, or worth knowing.
    Check(Check),
    /// The canonical form of schedules: one clause a line, comments kept.
    Fmt(Fmt),
    /// What a clause or a topic of the language means, or all of them in one line each.
    Explain(Explain),
    /// Every number that follows from a schedule; tile programs state their own.
    Plan(Compile),
    /// The text of a level between plan and PTX.
    Ir(Ir),
    /// The PTX text.
    Ptx(Ptx),
    /// What a schedule costs: conflicts, sectors, instructions, occupancy, registers; on a GPU its time
    Profile(Profile),
    /// How two programs differ, from their clauses to their PTX, and what each costs
    Diff(Diff),
    /// What each clause of a schedule buys: dropped or changed, one at a time
    Ablate(Ablate),
    /// Pictures: threads, shared memory, pipeline, raster, roofline
    Draw(Box<Draw>),
    /// Multiply, and compare the result with a reference.
    Run(Box<Run>),
    /// Plant faults in a kernel's PTX or in tile programs, one at a time, and see whether the checks find them.
    Mutants(Mutants),
    /// Make a crate with a schedule, a program that runs it, and tests.
    New(New),
    /// Run any PTX file as described by a launch file.
    Exec(Exec),
    /// Judge many candidates without a GPU: schedules, tile programs, and PTX with its launch
    Judge(Judge),
    /// The named cases.
    Cases(Plain),
    /// Every case in one table, with what it costs
    Ladder(Ladder),
    /// Every case on every edge size, and netlib's grid, on one device
    Selftest(Selftest),
    /// Random legal schedules at random sizes, executed with every check and compared
    Fuzz(Fuzz),
    /// Time schedules and tile programs next to cuBLAS on a GPU
    Bench(Bench),
    /// The best schedule for a product, of all families: by estimate, or timed on a GPU
    Pick(Box<Pick>),
    /// Time schedules for many products, and keep the fastest of each in a file
    Tune(Box<Tune>),
    /// What `tune` kept
    Lock(Lock),
    /// Fit the figures of a GPU, so that estimates rank timed schedules best
    Calibrate(Box<Calibrate>),
    /// Every schedule of a text with alternatives: which are legal, which is fastest
    Sweep(Box<Sweep>),
    /// Products of matrices on the host, larger than a GPU's memory or on several GPUs
    Large(Box<Large>),
    /// What this machine has to compile and run with.
    Doctor(Plain),
    /// Shell completions for commands and their arguments.
    Completions(Completions),
    /// The manual page of gemmc or of one of its commands.
    Man(Man),
    /// Time schedules for a sweep: requests and answers are lines of JSON
    #[command(hide = true)]
    SweepWorker(SweepWorker),
    /// Judge candidates: candidates and verdicts are lines of JSON
    #[command(hide = true)]
    JudgeWorker(JudgeWorker),
    /// Time the first launch of a process: a part of selftest
    #[command(hide = true)]
    FirstLaunch(FirstLaunch),
    /// Let a kernel read an unmapped address: a part of selftest
    #[command(hide = true)]
    StrayPointer(StrayPointer),
    /// Every PTX file of a folder with its launch files, on the interpreter and on a GPU, bit by bit; random tensor maps as well
    SecondOpinion(SecondOpinion),
}

/// The arguments of gemmc. A plan of a large product can do without a schedule.
pub(crate) fn command() -> clap::Command {
    let optional = |plan: clap::Command| plan.mut_group("schedule", |group| group.required(false));
    jobs::grouped(Cli::command()).mut_subcommand("large", |large| large.mut_subcommand("plan", optional))
}

/// A schedule in one of its three forms, or tile programs.
#[derive(Args, Debug)]
#[group(id = "schedule", required = true, multiple = false)]
pub(crate) struct Source {
    /// A .gemm file, the name of a case, `-` for a schedule on standard input, or a .tile file
    pub(crate) source: Option<OsString>,
    /// Clauses, such as 'tile(32, 32, 8); thread(2, 2);'
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) source: Source,
    #[arg(long, value_parser = target, help = TARGET)]
    pub(crate) target: Option<Target>,
    #[arg(long, value_name = "NAME", value_parser = gpu, help = GPU)]
    pub(crate) gpu: Option<&'static Gpu>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Plain {
    /// One JSON object on standard output, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}
