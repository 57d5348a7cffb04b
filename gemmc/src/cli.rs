//! The arguments of every command.

mod new;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ptx_gemm::interp::{Checks, ViolationKind};
use ptx_gemm::{DType, Device, Error, Target};

use ptx_gemm_check::exec::Orders;

use ptx_gemm_bench::suites::{Size, Suite};

mod ablate;
mod diff;
mod draw;
mod language;
mod profile;
mod shell;
mod sweep;

pub(crate) use ablate::Ablate;
pub(crate) use diff::Diff;
pub(crate) use draw::{Draw, Scheme, ends_in};
pub(crate) use language::{Check, Explain, Fmt, Ptx};
pub(crate) use profile::Profile;
pub(crate) use shell::{Completions, Man};
pub(crate) use sweep::{Sweep, SweepWorker};

pub(crate) use new::New;

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
    /// Say everything that is wrong with a schedule or tile programs, or worth knowing.
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
    /// Every schedule of a text with alternatives: which are legal, which is fastest
    Sweep(Box<Sweep>),
    /// What this machine has to compile and run with.
    Doctor(Plain),
    /// Shell completions for commands and their arguments.
    Completions(Completions),
    /// The manual page of gemmc or of one of its commands.
    Man(Man),
    /// Time schedules for a sweep: requests and answers are lines of JSON
    #[command(hide = true)]
    SweepWorker(SweepWorker),
    /// Time the first launch of a process: a part of selftest
    #[command(hide = true)]
    FirstLaunch(FirstLaunch),
    /// Let a kernel read an unmapped address: a part of selftest
    #[command(hide = true)]
    StrayPointer(StrayPointer),
    /// Every PTX file of a folder with its launch files, on the interpreter and on a GPU, bit by bit; random tensor maps as well
    #[command(hide = true)]
    SecondOpinion(SecondOpinion),
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
    /// Compile for this target, such as sm_90a; a .tile file names its own
    #[arg(long, value_parser = target)]
    pub(crate) target: Option<Target>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Plain {
    /// One JSON object on standard output, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
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

#[derive(Args, Debug)]
pub(crate) struct Run {
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
    /// Products of batch(strided) [default: 3 there, else 1]
    #[arg(long, value_name = "COUNT")]
    pub(crate) batch: Option<usize>,
    /// Leading dimension of A, in elements [default: the smallest possible]
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) lda: Option<usize>,
    /// Leading dimension of B
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) ldb: Option<usize>,
    /// Leading dimension of C
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) ldc: Option<usize>,
    /// Leading dimension of D
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) ldd: Option<usize>,
    /// Value of the epilogue's scalar `alpha` [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) alpha: Option<f64>,
    /// Value of the epilogue's scalar `beta` [default: 0]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) beta: Option<f64>,
    /// Value of any scalar of the epilogue [default: 1]
    #[arg(long, value_name = "NAME=X", value_parser = assignment, allow_hyphen_values = true)]
    pub(crate) set: Vec<(String, f64)>,
    /// Which data
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Small integers, and equality instead of a bound
    #[arg(long)]
    pub(crate) exact: bool,
    /// A NaN or an infinity as the first element of every matrix
    #[arg(long, conflicts_with = "exact")]
    pub(crate) special: bool,
    /// D is C as well
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "best", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Elements by which pointers are off an aligned address (interpreter)
    #[arg(long, value_name = "ELEMENTS", default_value_t = 0)]
    pub(crate) misalign: u32,
}

#[derive(Args, Debug)]
pub(crate) struct Ladder {
    /// Compile for this target, such as sm_90a [default: each case's own]
    #[arg(long, value_parser = target)]
    pub(crate) target: Option<Target>,
    /// One JSON object on standard output, and nothing else; also written to FILE if there is one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the figures
    #[arg(long, value_name = "FILE.svg", value_parser = picture())]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Selftest {
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "best", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Only a few sizes for each schedule
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only rows whose names contain this text: schedules, or the claims below them
    #[arg(long, value_name = "TEXT", conflicts_with = "sanitize")]
    pub(crate) only: Option<String>,
    /// The quick test under NVIDIA's compute-sanitizer, once for each of its tools
    #[arg(long)]
    pub(crate) sanitize: bool,
    /// Which of its tools
    #[arg(
        long,
        value_name = "TOOL",
        value_delimiter = ',',
        requires = "sanitize",
        default_value = "memcheck,racecheck,initcheck,synccheck"
    )]
    pub(crate) tool: Vec<String>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Fuzz {
    /// The seed of the first draw; the next ones follow
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Draw until this many pairs of a schedule and a product were right [default: 1000]
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) count: Option<usize>,
    /// Draw for this long
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Instead break random schedules, and count what the offered fixes lead to
    #[arg(long, conflicts_with_all = ["seconds", "device"])]
    pub(crate) fixes: bool,
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "interp", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Write what --json prints there as well
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct FirstLaunch {
    /// The name of a case with elements of type f32
    pub(crate) case: String,
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "best", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Mutants {
    /// A .gemm file, a .tile file or the name of a case [default: every case and tuned schedule]
    pub(crate) source: Option<OsString>,
    /// The same for a case
    #[arg(long, value_name = "NAME", conflicts_with = "source")]
    pub(crate) case: Option<OsString>,
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
    /// Also print how each of the others was found
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the figures of each case as a table in Markdown
    #[arg(long, value_name = "FILE.md")]
    pub(crate) table: Option<PathBuf>,
    /// Keep the figures of each kernel in this folder, and continue from those that are there
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
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

#[derive(Args, Debug)]
pub(crate) struct Exec {
    /// A file of PTX text
    pub(crate) ptx: PathBuf,
    /// The launch: entry, grid, block, arguments, buffers and tensor maps, in JSON
    #[arg(long, value_name = "FILE.json")]
    pub(crate) launch: PathBuf,
    /// Where to run: interp or cuda:N
    #[arg(long, default_value = "interp", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// In which order warps take turns and copies land: forward, backward, random:SEED, or all of these
    #[arg(long, default_value = "forward")]
    pub(crate) order: Orders,
    /// What to watch for on the interpreter: all, none, or rules separated by commas
    #[arg(long, default_value = "all", value_parser = Watched::parse)]
    pub(crate) checks: Watched,
    /// Level of optimisation of the driver's assembler, 0 to 4, on a GPU
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(0..=4))]
    pub(crate) opt: Option<u32>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct StrayPointer {
    /// Where to run: cuda:N
    #[arg(long, default_value = "cuda:0", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct SecondOpinion {
    /// PTX files NAME.ptx or NAME.WORD.ptx, and launch files NAME.json or NAME.WORD.json
    pub(crate) folder: PathBuf,
    /// Where to run: interp, for the interpreter's orders alone, or cuda:N
    #[arg(long, default_value = "interp", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Also write the findings to this file
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Products of one kind; several are separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) suite: Vec<Suite>,
    /// Products of these extents: M, MxNxK or MxNxKxBATCH; several are separated by commas
    #[arg(long, value_parser = Size::parse, value_delimiter = ',')]
    pub(crate) size: Vec<Size>,
    /// Type of the elements of A and B
    #[arg(long, default_value = "f32", value_parser = dtype)]
    pub(crate) types: DType,
    /// Cases, tuned schedules, .gemm or .tile files, instead of those of the suite
    #[arg(long, alias = "case", value_name = "NAME", value_delimiter = ',')]
    pub(crate) schedules: Vec<String>,
    /// Clauses of one more schedule; may be given several times
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Vec<String>,
    /// One JSON object on standard output, and nothing else; also written to FILE if there is one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the shares of cuBLAS and of the peak; with --table those of the file
    #[arg(long, value_name = "FILE.svg", value_parser = picture())]
    pub(crate) plot: Option<PathBuf>,
    /// Write SUITE.json and SUITE.svg there, each as soon as its suite has ended
    #[arg(long, value_name = "FOLDER")]
    pub(crate) results: Option<PathBuf>,
    /// Where to run: cuda:N
    #[arg(long, default_value = "cuda:0", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Start no further measurement after this time
    #[arg(long, value_name = "N", default_value_t = 480)]
    pub(crate) seconds: u64,
    /// Measure nothing: print a file of results as a table in Markdown, of all its schedules or of --schedules
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["suite", "size", "results"])]
    pub(crate) table: Option<PathBuf>,
    /// Of that table only the fastest schedule of each product
    #[arg(long, requires = "table")]
    pub(crate) best: bool,
    /// Next to that table the speeds of another file of results, by schedule
    #[arg(long, requires = "table", value_name = "FILE.json")]
    pub(crate) beside: Option<PathBuf>,
}

/// A device by name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceName {
    Best,
    Interpreter,
    Cuda(usize),
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Best => f.write_str("best"),
            DeviceName::Interpreter => f.write_str("interp"),
            DeviceName::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl DeviceName {
    fn parse(text: &str) -> Result<DeviceName, String> {
        match (text, text.strip_prefix("cuda:").map(str::parse)) {
            ("best", _) => Ok(DeviceName::Best),
            ("interp" | "interpreter", _) => Ok(DeviceName::Interpreter),
            ("cuda", _) => Ok(DeviceName::Cuda(0)),
            (_, Some(Ok(ordinal))) => Ok(DeviceName::Cuda(ordinal)),
            _ => Err("one of best, interp, cuda:N".into()),
        }
    }

    pub(crate) fn open(self, misalign: u32) -> Result<Device, Error> {
        let interpreter = || match misalign {
            0 => Device::interpreter(),
            _ => Device::interpreter_with(ptx_gemm::InterpreterOptions { misalign, ..Default::default() }),
        };
        match self {
            // Only the interpreter supports unaligned pointers.
            DeviceName::Best if misalign > 0 => Ok(interpreter()),
            DeviceName::Best => Device::best(),
            DeviceName::Interpreter => Ok(interpreter()),
            DeviceName::Cuda(ordinal) => Device::cuda(ordinal),
        }
    }
}

/// The name of a picture, whose ending determines its format.
fn picture() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err(format!("pictures are SVG: write {}", path.with_extension("svg").display())),
    })
}

fn target(text: &str) -> Result<Target, String> {
    text.parse().map_err(|_| {
        let known: Vec<String> = Target::ALL.iter().map(Target::to_string).collect();
        format!("one of {}", known.join(", "))
    })
}

fn dtype(text: &str) -> Result<DType, String> {
    DType::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
        let known: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("one of {}", known.join(", "))
    })
}

fn assignment(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=X, such as gamma=0.5")?;
    let value = value.trim().parse().map_err(|_| format!("`{}` is not a number", value.trim()))?;
    Ok((name.trim().to_string(), value))
}

/// The value of `--checks`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) rules: Checks,
    /// Whether the rules were listed one by one.
    listed: bool,
}

impl Watched {
    pub(crate) fn parse(text: &str) -> Result<Watched, String> {
        match text {
            "all" => Ok(Watched { rules: Checks::Full, listed: false }),
            "none" => Ok(Watched { rules: Checks::Off, listed: false }),
            list => {
                let rule = |name: &str| {
                    ViolationKind::from_name(name.trim()).ok_or_else(|| {
                        let known: Vec<String> = ViolationKind::ALL.iter().map(|kind| kind.name()).collect();
                        format!("`{name}` is not a rule; all, none, or some of {}", known.join(", "))
                    })
                };
                let rules = list.split(',').map(rule).collect::<Result<Vec<_>, _>>()?;
                Ok(Watched { rules: rules.into_iter().fold(Checks::Off, Checks::with), listed: true })
            }
        }
    }

    /// Whether this rule was requested by its name.
    pub(crate) fn named(&self, rule: ViolationKind) -> bool {
        self.listed && self.rules.has(rule)
    }
}
