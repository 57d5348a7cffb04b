//! The source of a program: a schedule in a file, a case, the command line or standard input; or tile programs in a
//! `.tile` file.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ptx_gemm::{
    CompiledGemm, Device, Diagnostics, Error, Gemm, Kernel, Level, Plan, Schedule, Target, TileProgram, gpu_of,
};
use ptx_gemm_check::{Case, case, cases};
use ptx_gemm_choose::{Gpu, Text as Filled, fill, fill_for};

use crate::cli::{Compile, Source};
use crate::reply::{Failure, Status};
use ptx_gemm_bench::Program;

/// Reading slightly more than the longest legal schedule is enough for the parser to report the excess.
const MAX_SCHEDULE: u64 = Schedule::MAX_BYTES as u64 + 1;

/// The number of characters shown of a name that is neither a file nor a case.
const MAX_SHOWN: usize = 120;

/// Bytes of a `.tile` file; an entry takes a few thousand.
const MAX_TILE: u64 = 1 << 20;

/// A program of the command line, and what is known about it.
pub(crate) enum Loaded {
    Schedule { schedule: Schedule, plan: Box<Plan>, name: String },
    Tile { program: TileProgram, name: String },
}

impl Loaded {
    /// Notes about the schedule.
    pub(crate) fn notes(&self) -> Result<Diagnostics, Failure> {
        let Loaded::Schedule { schedule, name, .. } = self else { return Ok(Diagnostics::default()) };
        let notes = schedule.check().map_err(|errors| errors.named(name))?;
        Ok(notes.named(name))
    }

    /// Its name: that of its file or case.
    pub(crate) fn name(&self) -> &str {
        match self {
            Loaded::Schedule { name, .. } | Loaded::Tile { name, .. } => name.strip_prefix("case ").unwrap_or(name),
        }
    }

    /// The same for timing: the kernel of the plan, on any device.
    pub(crate) fn program(self) -> Program {
        match self {
            Loaded::Schedule { schedule, plan, .. } => Program::Schedule(for_target(&schedule, plan.target)),
            Loaded::Tile { program, .. } => Program::Tile(program),
        }
    }

    /// The target that it is compiled for.
    pub(crate) fn target(&self) -> Target {
        match self {
            Loaded::Schedule { plan, .. } => plan.target,
            Loaded::Tile { program, .. } => program.target(),
        }
    }

    /// Compiles it.
    pub(crate) fn kernel(&self) -> Result<Arc<Kernel>, Failure> {
        match self {
            Loaded::Schedule { schedule, plan, name } => {
                Ok(Kernel::compile(schedule, Some(plan.target)).map_err(|error| in_file(error, name))?)
            }
            Loaded::Tile { program, .. } => Ok(program.kernel().clone()),
        }
    }

    /// Compiles and loads it on a device.
    pub(crate) fn on(&self, device: &Device) -> Result<CompiledGemm, Failure> {
        match self {
            Loaded::Schedule { schedule, plan, name } => {
                let gemm = CompiledGemm::for_target(schedule, plan.target, device);
                Ok(gemm.map_err(|error| in_file(error, name))?)
            }
            Loaded::Tile { program, .. } => Ok(program.on(device)?),
        }
    }

    /// The text of one level.
    pub(crate) fn ir(&self, level: Level) -> Result<String, Failure> {
        match self {
            Loaded::Schedule { schedule, plan, .. } => Ok(Gemm::try_from(schedule.clone())?.ir(level, plan.target)?),
            Loaded::Tile { program, .. } => Ok(program.ir(level)?),
        }
    }
}

/// The same error, with the name of the file that the schedule is in.
fn in_file(error: Error, name: &str) -> Error {
    match error {
        Error::Schedule(errors) => Error::Schedule(errors.named(name)),
        error => error,
    }
}

/// Reads and parses a program, and plans it if it is a schedule, by the rule of [`TARGET`](crate::cli::TARGET). Errors in it name
/// its file.
pub(crate) fn load(args: &Compile) -> Result<Loaded, Failure> {
    loaded(&text(&args.source)?, args)
}

fn loaded(text: &Text, args: &Compile) -> Result<Loaded, Failure> {
    let loaded = planned(text, args.target, args.gpu)?;
    let target = loaded.target();
    match args.gpu.filter(|gpu| !target.runs_on(gpu.capability)) {
        Some(gpu) => Err(other_gpu(&gpu.title, target)),
        None => Ok(loaded),
    }
}

/// The error for code that a GPU does not run.
pub(crate) fn other_gpu(gpu: &str, target: Target) -> Failure {
    let able = Gpu::all().iter().filter(|gpu| target.runs_on(gpu.capability));
    let able: Vec<String> = able.map(|gpu| gpu.name.to_lowercase()).collect();
    Failure::Other {
        clause: "gpu",
        message: format!("{gpu} does not run code for {target}"),
        help: Some(format!("--gpu takes {}", able.join(", "))).filter(|_| !able.is_empty()),
        status: Status::Refused,
    }
}

/// The same for a device, which is opened after the program's errors are known.
pub(crate) fn load_on(
    args: &Compile,
    open: impl FnOnce() -> Result<Device, Failure>,
) -> Result<(Loaded, Device), Failure> {
    let text = text(&args.source)?;
    let loaded = loaded(&text, args)?;
    let device = open()?;
    match device.limits().target {
        Some(_) if args.gpu.is_none() => {
            let own = gpu_of(&device);
            Ok((planned(&text, args.target, Some(&own))?, device))
        }
        // The device says whether it runs what was asked for.
        Some(_) | None => Ok((loaded, device)),
    }
}

/// The schedule for exactly this target.
pub(crate) fn for_target(schedule: &Schedule, target: Target) -> Schedule {
    schedule.clone().with(Schedule::new().target(target))
}

/// The same for the name of a file or of a case, for the target that it names.
pub(crate) fn load_named(name: &OsStr) -> Result<Loaded, Failure> {
    planned(&named(name)?, None, None)
}

fn planned(Text { name, text, kind, .. }: &Text, asked: Option<Target>, gpu: Option<&Gpu>) -> Result<Loaded, Failure> {
    let name = name.clone();
    if *kind == Kind::Tile {
        let program = tile(&name, text)?;
        return match asked {
            Some(wanted) if wanted != program.target() => Err(other_target(&name, program.target(), wanted)),
            _ => Ok(Loaded::Tile { program, name }),
        };
    }
    let planned = fill_for(text, asked, gpu).and_then(|Filled { schedule, .. }| {
        let plan = match asked {
            Some(_) => schedule.plan(asked)?,
            None => schedule.plan_on(gpu.map(|gpu| gpu.capability))?,
        };
        Ok((schedule, Box::new(plan)))
    });
    let (schedule, plan) = planned.map_err(|errors| errors.named(&name))?;
    Ok(Loaded::Schedule { schedule, plan, name })
}

/// A program of `gemmc bench`: the name of a case or of a file.
pub(crate) fn program(name: &str) -> Result<Program, Failure> {
    let Text { name, text, kind, .. } = match case(name) {
        Some(case) => Text { name: name.into(), text: case.text.into(), kind: Kind::Schedule, path: None },
        None => named(name.as_ref())?,
    };
    match kind {
        Kind::Tile => Ok(Program::Tile(tile(&name, &text)?)),
        Kind::Schedule => {
            let filled = fill(&text).map_err(|errors| errors.named(name))?;
            Ok(Program::Schedule(filled.schedule))
        }
    }
}

fn tile(name: &str, text: &str) -> Result<TileProgram, Failure> {
    TileProgram::parse(text).map_err(|error| match error {
        Error::Tile(errors) => Failure::Text { clause: "tile", name: name.into(), text: text.into(), errors },
        other => other.into(),
    })
}

fn other_target(name: &str, own: Target, wanted: Target) -> Failure {
    Failure::Other {
        clause: "target",
        message: format!("{name}: target({own}) conflicts with the requested {wanted}"),
        help: Some(format!("leave --target out, or change the target in {name}")),
        status: Status::Refused,
    }
}

/// The text that was read.
pub(crate) struct Text {
    /// The name to show in diagnostics.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// The file that it is in.
    pub(crate) path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Schedule,
    Tile,
}

/// Writes a file of the user's.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| unusable(path, error))
}

/// The error for a file that cannot be read or written, or holds something else.
pub(crate) fn unusable(path: &Path, error: impl Display) -> Failure {
    Failure::refused("file", format!("{}: {error}", path.display()))
}

/// The text of a schedule or of tile programs.
pub(crate) fn text(source: &Source) -> Result<Text, Failure> {
    let schedule = |name: &str, text| Text { name: name.into(), text, kind: Kind::Schedule, path: None };
    match (&source.clauses, &source.source) {
        (Some(text), _) => Ok(schedule("-e", text.clone())),
        (None, Some(name)) if name == "-" => {
            Ok(schedule("stdin", read(io::stdin(), "standard input", Kind::Schedule)?))
        }
        (None, Some(name)) => named(name),
        (None, None) => {
            Err(Failure::refused("usage", "no schedule: name a .gemm or .tile file or a case, or use -e 'clauses'"))
        }
    }
}

/// The name and the text of a sweep: clauses with alternatives, or the file that contains them.
pub(crate) fn space(source: Option<&OsStr>, clauses: Option<&str>) -> Result<(String, String), Failure> {
    if let Some(text) = clauses {
        return Ok(("-e".into(), text.into()));
    }
    let name =
        source.ok_or_else(|| Failure::refused("usage", "no schedules: name them as 'tile({64, 128}, 64, 8); …'"))?;
    let shown = name.to_string_lossy();
    // The name of a case never contains a bracket, but that of a file may.
    if shown.contains(['(', '{']) && !Path::new(name).exists() {
        return Ok(("sweep".into(), shown.into_owned()));
    }
    if name == "-" {
        return Ok(("stdin".into(), read(io::stdin(), "standard input", Kind::Schedule)?));
    }
    let Text { name, text, kind, .. } = named(name)?;
    match kind {
        Kind::Schedule => Ok((name, text)),
        Kind::Tile => Err(Failure::refused("file", format!("{name}: a tile program has no clauses to vary"))),
    }
}

/// A file if there is one of that name or it looks like a path, else a case.
fn named(name: &OsStr) -> Result<Text, Failure> {
    let path = Path::new(name);
    let shown = name.to_string_lossy();
    if !path.exists() && is_clauses(&shown) {
        return Err(no_case(&shown));
    }
    if path.is_file() || path.extension().is_some() || path.components().count() > 1 {
        return file(path);
    }
    match name.to_str().and_then(case) {
        Some(case) => {
            Ok(Text { name: format!("case {shown}"), text: case.text.into(), kind: Kind::Schedule, path: None })
        }
        None => Err(no_case(&shown)),
    }
}

/// The error for a name that is neither a file nor a case.
pub(crate) fn no_case(name: &str) -> Failure {
    let shown: String = name.chars().take(MAX_SHOWN).collect();
    let (message, help) = if is_clauses(name) {
        let message = format!("`{shown}` is clauses, not the name of a file or of a case");
        (message, "use -e: clauses by themselves follow it".into())
    } else {
        let help = match nearest_case(&shown) {
            Some(near) => format!("did you mean `{near}`? `gemmc cases` lists the cases"),
            None => "`gemmc cases` lists the cases; clauses by themselves go with -e".into(),
        };
        (format!("`{shown}` is neither a file nor a case"), help)
    };
    Failure::Other { clause: "file", message, help: Some(help), status: Status::Refused }
}

/// Whether a name looks like the text of a schedule.
fn is_clauses(name: &str) -> bool {
    let name = name.trim_end();
    name.contains('(') && (name.contains(';') || name.ends_with(')'))
}

/// The case that was most likely meant: at most a few typing errors away.
pub(crate) fn nearest_case(name: &str) -> Option<&'static str> {
    let distance = |case: &Case| strsim::damerau_levenshtein(&name.to_lowercase(), case.name);
    let all = cases().map(|case| (distance(&case), case.name));
    let (slips, near) = all.min_by_key(|(slips, _)| *slips)?;
    (slips <= (name.chars().count() / 4).clamp(1, 4)).then_some(near)
}

/// Tile programs if its name ends in `.tile`, else a schedule.
fn file(path: &Path) -> Result<Text, Failure> {
    let name = path.to_string_lossy().into_owned();
    if path.extension().is_some_and(|extension| extension == "ptx") {
        let message =
            format!("{name} is PTX, and a schedule is wanted: `gemmc diff` compares PTX, and `gemmc exec` runs it");
        return Err(Failure::refused("file", message));
    }
    let kind = if path.extension().is_some_and(|extension| extension == "tile") { Kind::Tile } else { Kind::Schedule };
    let file = File::open(path).map_err(|error| Failure::refused("file", format!("{name}: {error}")))?;
    let text = read(file, &name, kind)?;
    Ok(Text { name, text, kind, path: Some(path.into()) })
}

fn read(from: impl Read, name: &str, kind: Kind) -> Result<String, Failure> {
    let most = if kind == Kind::Tile { MAX_TILE + 1 } else { MAX_SCHEDULE };
    let mut bytes = Vec::new();
    let read = from.take(most).read_to_end(&mut bytes);
    read.map_err(|error| Failure::refused("file", format!("{name}: {error}")))?;
    // A text that is too long is rejected for its length, wherever it is cut; for a schedule, the parser does that.
    match (bytes.len() as u64 == most, kind) {
        (true, Kind::Schedule) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
        (true, Kind::Tile) => {
            return Err(Failure::refused("file", format!("{name}: a .tile file has at most {MAX_TILE} bytes")));
        }
        (false, _) => {}
    }
    String::from_utf8(bytes).map_err(|_| Failure::refused("file", format!("{name} is not UTF-8 text")))
}
