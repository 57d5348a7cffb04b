//! `gemmc bench`: schedules and tile programs next to cuBLAS on one GPU.

mod collect;
mod large;

use std::fs;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ptx_gemm::cuda::{CublasLt, Properties};
use ptx_gemm::{Batch, DType, Device, DeviceKind, Schedule, gpu_of};
use ptx_gemm_choose::{Gpu, fill_for};
use ptx_gemm_dsl::opened::Opened;
use ptx_gemm_dsl::table::Key;
use serde_json::Value;

use crate::cli::{Bench, DeviceName};
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status, complain};
use crate::source::{self, unusable};
use ptx_gemm_bench::Program;
use ptx_gemm_bench::markdown::{self, Shown};
use ptx_gemm_bench::progress::Progress;
use ptx_gemm_bench::rivals::{Against, Versions};
use ptx_gemm_bench::session::{self, Event, Order, Orders, Reason, Row};
use ptx_gemm_bench::suites::{LayoutPair, Named, SIZES, Size, Suite};
use ptx_gemm_bench::{plot, report, spelling};

/// How long a kernel may exceed the deadline before it counts as one that never ends.
const PATIENCE: Duration = Duration::from_secs(40);

/// How often a wait looks whether it is interrupted.
const GLANCE: Duration = Duration::from_millis(100);

/// The result of a run.
struct Results<'a> {
    args: &'a Bench,
    bar: ProgressBar,
    progress: Progress,
    device: String,
    command: String,
    /// The peak in TFLOP/s in f32.
    peak: f64,
    rows: Vec<Row>,
    /// The lines on standard output before the table.
    notes: Vec<String>,
    wrong: usize,
    uncompared: usize,
    /// Measurements for which there was no time left.
    late: usize,
    broken: bool,
}

pub(crate) fn run(args: &Bench, format: Format) -> Result<Reply, Failure> {
    if let Some(path) = &args.table {
        return table(path, args);
    }
    if !args.only.is_empty() && args.suite.is_empty() {
        return Err(Failure::refused("usage", "--only chooses among the products of --suite or of --table"));
    }
    if args.suite.contains(&Suite::Large) {
        return large::run(args, format);
    }
    // Errors in the programs and the arguments are reported before those of the machine.
    let given = given(args)?;
    if args.suite.is_empty() && args.size.is_empty() {
        return Err(Failure::refused("usage", "nothing to measure: --suite square, or --size 4096"));
    }
    let device = args.device.unwrap_or(DeviceName::Cuda(0)).open(0)?;
    let orders = orders(args, &given, &device)?;
    if let Some(folder) = &args.results {
        fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
    }
    let mut results = Results {
        args,
        bar: progress::bar(0, format),
        progress: Progress::of(&orders),
        device: device.name().into(),
        command: command(),
        peak: 0.0,
        rows: Vec::new(),
        notes: Vec::new(),
        wrong: 0,
        uncompared: 0,
        late: 0,
        broken: false,
    };
    results.collect(orders)?;
    results.bar.finish_and_clear();
    results.reply()
}

/// This run's own command line.
pub(super) fn command() -> String {
    let arguments = std::env::args().skip(1).map(|arg| quoted(&arg)).collect::<Vec<_>>().join(" ");
    format!("gemmc {arguments}")
}

/// A file of results as a table in Markdown.
fn table(path: &Path, args: &Bench) -> Result<Reply, Failure> {
    let mut results = read(path)?;
    keep_wanted(&mut results, &args.only)
        .map_err(|what| Failure::refused("usage", format!("{}: {what}", path.display())))?;
    if let Some(rows) = large::rows(&results) {
        if args.best || args.beside.is_some() {
            let message = "--best and --beside compare schedules of one GPU, and this is a file of --suite large";
            return Err(Failure::refused("usage", message));
        }
        are_there(path, &results, &args.schedules)?;
        if let Some(all) = &args.rows {
            collect::collect(all, path, &results)?;
        }
        if let Some(picture) = &args.plot {
            let device = results["device"].as_str().unwrap_or_default();
            source::write(picture, ptx_gemm_bench::large::plot(device, &rows))?;
        }
        return Ok(Reply::fine(large::table(&rows, &results, &args.schedules), results));
    }
    let beside = args.beside.as_deref().map(read).transpose()?;
    let shown = Shown { best: args.best, schedules: &args.schedules, beside: beside.as_ref() };
    let of = |path: &Path| Failure::refused("file", format!("{}: no file of results", path.display()));
    let none = || of(path);
    if let (Some(path), Some(beside)) = (&args.beside, &beside)
        && !markdown::is_comparable(beside)
    {
        return Err(of(path));
    }
    let table = if args.means { markdown::means } else { markdown::table };
    let text = table(&results, shown).ok_or_else(none)?;
    are_there(path, &results, &args.schedules)?;
    if let (Some(path), Some(beside)) = (&args.beside, &beside)
        && !markdown::has_common_rows(&results, shown, beside)
    {
        let message =
            format!("{} has no row of the same schedule, product and types: nothing to compare", path.display());
        return Err(Failure::Other { clause: "beside", message, help: None, status: Status::Uncompared });
    }
    if let Some(picture) = &args.plot {
        let (rows, _) = report::read(&results).ok_or_else(none)?;
        draw(picture, rows.first().map_or("", |row| row.suite.as_str()), &results)?;
    }
    if let Some(rows) = &args.rows {
        collect::collect(rows, path, &results)?;
    }
    let results = markdown::shown(&results, shown).ok_or_else(none)?;
    if let Some(copy) = args.json.as_deref().filter(|copy| *copy != Path::new("-")) {
        source::write(copy, report::file(&results))?;
    }
    Ok(Reply::fine(text, results))
}

/// A file of results, with one spelling of its types.
fn read(path: &Path) -> Result<Value, Failure> {
    let text = fs::read_to_string(path).map_err(|error| unusable(path, error))?;
    let mut results = serde_json::from_str(&text).map_err(|error| unusable(path, error))?;
    spelling::unify(&mut results);
    Ok(results)
}

/// Refuses names of schedules that a file has no results of.
fn are_there(path: &Path, results: &Value, schedules: &[String]) -> Result<(), Failure> {
    let absent = markdown::absent(results, schedules);
    if absent.is_empty() {
        return Ok(());
    }
    let known = markdown::names(results).join(", ");
    let message = format!("{}: no results of {}", path.display(), absent.join(", "));
    let help = Some(format!("it has {known}"));
    Err(Failure::Other { clause: "schedules", message, help, status: Status::Refused })
}

/// Leaves only the rows of products asked for; an error says that there are none.
fn keep_wanted(results: &mut Value, only: &[String]) -> Result<(), String> {
    let Some(rows) = results["rows"].as_array_mut().filter(|_| !only.is_empty()) else { return Ok(()) };
    let is_wanted = |row: &Value| {
        let extent = |name: &str| row[name].as_u64().map(|extent| extent as usize);
        let size =
            || Some(Size { m: extent("m")?, n: extent("n")?, k: extent("k")?, batch: extent("batch").unwrap_or(1) });
        size().is_some_and(|size| wanted(only, row["suite"].as_str().unwrap_or_default(), size))
    };
    rows.retain(is_wanted);
    if rows.is_empty() { Err(format!("no product is called {}", only.join(" or "))) } else { Ok(()) }
}

fn orders(args: &Bench, given: &[Given], device: &Device) -> Result<Orders, Failure> {
    let DeviceKind::Cuda(_) = device.kind() else {
        let why = ptx_gemm::cuda::status().err().map_or("--device says so".into(), |error| error.to_string());
        return Err(Failure::refused("device", format!("there is nothing to time in the interpreter: {why}")));
    };
    let gpu = gpu_of(device);
    let mut suites: Vec<Order> = Vec::new();
    let mut order = |name: &str, suite: Suite, sizes: Vec<Size>| {
        if given.is_empty() {
            // What is chosen for a product is timed on that one alone.
            suites.extend(sizes.into_iter().map(|size| Order {
                suite: name.into(),
                sizes: vec![size],
                schedules: suite.schedules(size, args.types, &args.layouts, &gpu),
                left_out: Vec::new(),
            }));
            return Ok::<(), Failure>(());
        }
        let (open, whole): (Vec<&Given>, Vec<&Given>) = given.iter().partition(|one| matches!(one, Given::Open(_)));
        let whole: Vec<Named> = whole.into_iter().filter_map(Given::whole).collect();
        if !whole.is_empty() {
            let (schedules, left_out) = fitting(&whole, suite.batch(), &args.layouts);
            suites.push(Order { suite: name.into(), sizes: sizes.clone(), schedules, left_out });
        }
        for size in if open.is_empty() { Vec::new() } else { sizes } {
            let filled: Result<Vec<Named>, Failure> = open.iter().map(|one| one.filled(size, &gpu)).collect();
            let (schedules, left_out) = fitting(&filled?, suite.batch(), &args.layouts);
            suites.push(Order { suite: name.into(), sizes: vec![size], schedules, left_out });
        }
        Ok(())
    };
    for suite in &args.suite {
        let sizes: Vec<Size> =
            suite.sizes().into_iter().filter(|size| wanted(&args.only, suite.name(), *size)).collect();
        if sizes.is_empty() {
            let message = format!("no product of {} is called {}", suite.name(), args.only.join(" or "));
            return Err(Failure::refused("usage", message));
        }
        order(suite.name(), *suite, sizes)?;
    }
    if !args.size.is_empty() {
        let batched = args.size.iter().any(|size| size.batch > 1);
        order(SIZES, if batched { Suite::Batched } else { Suite::Square }, args.size.clone())?;
    }
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    Ok(Orders {
        device: device.clone(),
        suites,
        against: Against::BestOfCublasLt,
        beta: args.beta,
        rest: Duration::from_millis(args.rest),
        deadline,
    })
}

/// Whether a product of a suite is one of those asked for.
fn wanted(only: &[String], suite: &str, size: Size) -> bool {
    let name = Suite::product(suite, size).unwrap_or_default();
    // As an argument has them, and as tables have them.
    let extents = [format!("{}x{}x{}", size.m, size.n, size.k), size.to_string()];
    let called = |text: &String| name.contains(text) || extents.iter().any(|extents| extents.contains(text));
    only.is_empty() || only.iter().any(called)
}

/// Programs for one product, or for many, in these layouts if there are any; and the names of those that cannot be used, with
/// the reason.
fn fitting(given: &[Named], batch: Batch, layouts: &[LayoutPair]) -> (Vec<Named>, Vec<(String, String)>) {
    let (mut fit, mut left_out) = (Vec::new(), Vec::new());
    for named in given {
        let versions = match (named.clone().batched(batch), layouts) {
            (Ok(named), [_, ..]) => layouts.iter().map(|pair| named.clone().with_layouts(*pair)).collect(),
            (named, _) => vec![named],
        };
        for version in versions {
            match version {
                Ok(named) => fit.push(named),
                Err(why) => left_out.push((named.name.clone(), why)),
            }
        }
    }
    (fit, left_out)
}

/// A program of the command line.
enum Given {
    Whole(Named),
    /// A text with open values, which are filled in for each product.
    Open(String),
}

impl Given {
    fn whole(&self) -> Option<Named> {
        match self {
            Given::Whole(named) => Some(named.clone()),
            Given::Open(_) => None,
        }
    }

    /// The same for a product, with the values that are best by the estimates.
    fn filled(&self, size: Size, gpu: &Gpu) -> Result<Named, Failure> {
        match self {
            Given::Whole(named) => Ok(named.clone()),
            Given::Open(text) => {
                let Size { m, n, k, batch } = size;
                let text = text.trim_end().trim_end_matches(';');
                let text = format!("{text};\nshape({m}, {n}, {k}, batch = {batch});");
                let filled = fill_for(&text, None, Some(gpu)).map_err(|errors| errors.named("-e"))?;
                Ok(Named::by_clauses(filled.schedule.without(Key::Shape)))
            }
        }
    }
}

/// The programs of the command line, each legal for some target.
fn given(args: &Bench) -> Result<Vec<Given>, Failure> {
    let mut given = Vec::new();
    for name in &args.schedules {
        let program = source::program(name)?;
        legal(&program, name)?;
        let stem = Path::new(name).file_stem().map_or(name.clone(), |stem| stem.to_string_lossy().into_owned());
        given.push(Given::Whole(Named { name: stem, program }));
    }
    for clauses in &args.clauses {
        if let Some(opened) = Opened::parse(clauses).map_err(|errors| errors.named("-e"))? {
            if opened.shape.is_some() {
                let message = "-e: `shape` names a product, and open values are filled in for each that is timed";
                return Err(Failure::refused("shape", message));
            }
            given.push(Given::Open(clauses.clone()));
            continue;
        }
        let schedule: Schedule = clauses.parse().map_err(|errors: ptx_gemm::Diagnostics| errors.named("-e"))?;
        let named = Named::by_clauses(schedule);
        legal(&named.program, "-e")?;
        given.push(Given::Whole(named));
    }
    Ok(given)
}

/// Rejects a schedule that cannot be compiled for any target.
fn legal(program: &Program, name: &str) -> Result<(), Failure> {
    if let Program::Schedule(schedule) = program {
        schedule.check().map_err(|errors| errors.named(name))?;
    }
    Ok(())
}

impl Results<'_> {
    /// Receives the session's events, until it ends or stops answering.
    fn collect(&mut self, orders: Orders) -> Result<(), Failure> {
        let end = orders.deadline + PATIENCE;
        let interrupt = Interrupt::watch();
        self.bar.set_length(self.progress.total() as u64);
        self.say(&format!("{}\n{}\n", self.device, report::heading()));
        let events = session::start(orders);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match events.recv_timeout(left.min(GLANCE)) {
                Ok(event) => self.take(event)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if interrupt.came() => return self.stop("interrupted"),
                Err(RecvTimeoutError::Timeout) if left > GLANCE => {}
                Err(RecvTimeoutError::Timeout) => {
                    return self.stop("the GPU did not answer in time: a kernel that does not end?");
                }
            }
            if interrupt.came() {
                return self.stop("interrupted");
            }
        }
    }

    /// Ends with the rows so far.
    fn stop(&mut self, why: &str) -> Result<(), Failure> {
        self.note(why.into());
        self.broken = true;
        self.suites().into_iter().try_for_each(|suite| self.save(suite))
    }

    fn take(&mut self, event: Event) -> Result<(), Failure> {
        self.progress.take(&event);
        self.bar.set_position(self.progress.begun() as u64);
        match event {
            Event::Begin { properties, versions } => self.begin(properties, versions),
            Event::Note(what) => self.note(what),
            Event::Started { schedule, size, .. } => self.bar.set_message(format!("{schedule} at {size}")),
            Event::Row(row) => {
                self.say(&format!("{}\n", row.line(self.peak)));
                self.rows.push(row);
            }
            Event::Missing { suite, schedule, size, reason, what } => {
                let size = size.map_or(String::new(), |size| format!(" at {size}"));
                match reason {
                    Reason::Wrong => {
                        self.wrong += 1;
                        self.note(format!("WRONG: {suite}: {schedule}{size}: {what}"));
                    }
                    Reason::Uncompared => {
                        self.uncompared += 1;
                        self.note(format!("NOT COMPARED: {suite}: {schedule}{size}: {what}"));
                    }
                    Reason::Refused => self.note(format!("refused: {suite}: {schedule}{size}: {what}")),
                    Reason::Late => self.late += 1,
                }
            }
            Event::End { suite } => self.save(&suite)?,
            Event::Broken(what) => {
                self.note(what);
                self.broken = true;
            }
        }
        Ok(())
    }

    fn begin(&mut self, properties: Properties, versions: Versions) {
        self.peak = report::peak(properties);
        let Properties { processors, clock_khz, l2_bytes, .. } = properties;
        let (mhz, mib) = (clock_khz / 1000, l2_bytes >> 20);
        self.note(format!(
            "{processors} multiprocessors, {mhz} MHz at most, {mib} MiB of L2; f32 peak {:.1} TFLOP/s",
            self.peak
        ));
        self.note(match versions.cublas {
            Ok(version) => format!("cuBLAS {version}"),
            Err(why) => format!("no comparison with cuBLAS: {why}"),
        });
        match versions.cublaslt {
            Some(Ok(version)) => self.note(format!(
                "cuBLASLt {version}: the fastest of its first {} proposals on each product, column `to Lt`",
                CublasLt::PROPOSALS
            )),
            Some(Err(why)) => self.note(format!("no comparison with cuBLASLt: {why}")),
            None => {}
        }
    }

    /// Writes to standard error, above the bar.
    fn say(&self, text: &str) {
        self.bar.suspend(|| complain(text));
    }

    fn note(&mut self, note: String) {
        self.say(&format!("{note}\n"));
        self.notes.push(note);
    }

    /// Writes the rows of a suite to the folder of results.
    fn save(&self, suite: &str) -> Result<(), Failure> {
        let Some(folder) = &self.args.results else { return Ok(()) };
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.suite == suite).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let stem = match self.args.types {
            DType::F32 => suite.to_string(),
            other => format!("{suite}_{other}"),
        };
        let results = report::json(&self.device, &self.command, self.peak, &rows);
        source::write(&folder.join(format!("{stem}.json")), report::file(&results))?;
        draw(&folder.join(format!("{stem}.svg")), suite, &results)
    }

    fn reply(self) -> Result<Reply, Failure> {
        let rows: Vec<&Row> = self.rows.iter().collect();
        let json = report::json(&self.device, &self.command, self.peak, &rows);
        // `--json` alone means standard output, which the reply takes care of.
        if let Some(path) = self.args.json.as_deref().filter(|path| *path != Path::new("-")) {
            source::write(path, report::file(&json))?;
        }
        if let Some(path) = &self.args.plot {
            draw(path, &self.suites().join(", "), &json)?;
        }
        let mut text = format!("{}\n", self.device);
        self.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        if self.late > 0 {
            let seconds = self.args.seconds;
            text.push_str(&format!("{} measurements not begun: the {seconds} s were up (--seconds)\n", self.late));
        }
        text.push_str(&self.summary());
        let status = match (self.wrong, self.uncompared, self.broken) {
            (1.., ..) => Status::Wrong,
            (0, _, true) => Status::Refused,
            (0, 1.., false) => Status::Uncompared,
            (0, 0, false) if self.rows.is_empty() => Status::Refused,
            (0, 0, false) => Status::Fine,
        };
        Ok(Reply { text, json, status })
    }

    /// The suites that have rows.
    fn suites(&self) -> Vec<&str> {
        let mut suites: Vec<&str> = self.rows.iter().map(|row| row.suite.as_str()).collect();
        suites.dedup();
        suites
    }

    /// All rows of a suite with one product, by speed; for other suites, the best row of each product.
    fn summary(&self) -> String {
        let mut text = String::new();
        for suite in self.suites() {
            let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.suite == suite).collect();
            if suite == Suite::Ladder.name() {
                rows.sort_by(|x, y| y.times.ms.total_cmp(&x.times.ms));
            } else {
                rows = report::best(&rows);
            }
            text.push_str(&format!("\n{suite}\n{}\n", report::heading()));
            rows.iter().for_each(|row| text.push_str(&format!("{}\n", row.line(self.peak))));
            if suite != Suite::Ladder.name() {
                text.push_str(&report::means(&rows));
            }
        }
        text
    }
}

/// Draws what is in a file of results, whose figures are rounded: whoever draws the file again gets the same picture.
fn draw(path: &Path, suite: &str, results: &Value) -> Result<(), Failure> {
    let (rows, peak) = report::read(results).unwrap_or_default();
    let rows: Vec<&Row> = rows.iter().collect();
    source::write(path, plot::plot(suite, results["device"].as_str().unwrap_or_default(), &rows, peak))
}

/// An argument, quoted for a shell.
fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) { arg.into() } else { format!("'{arg}'") }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::{Batch, TileProgram};
    use ptx_gemm_bench::Program;
    use ptx_gemm_bench::suites::{LayoutPair, Named, Suite};

    use super::{fitting, wanted};

    #[test]
    fn a_schedule_has_a_version_for_each_layout_or_a_reason() {
        let named = |name: &str, text: &str| Named {
            name: name.into(),
            program: Program::Schedule(text.parse().expect("a schedule")),
        };
        let tile = TileProgram::parse(include_str!("../../../examples/tile/two_sums.tile")).expect("a program");
        let tile = Named { name: "tile".into(), program: Program::Tile(tile) };
        let given = [named("nt", "tile(32, 32, 8); thread(2, 2); layout(b = col);"), tile];
        let names = |layouts: &[LayoutPair]| {
            let (fit, left_out) = fitting(&given, Batch::One, layouts);
            (fit.into_iter().map(|named| named.name).collect::<Vec<_>>(), left_out)
        };
        assert_eq!(names(&[]), (vec!["nt".into(), "tile".into()], vec![]));
        let why = vec![("tile".to_string(), "a tile program for layout(a = row, b = row)".to_string())];
        assert_eq!(
            names(&[LayoutPair::Nn, LayoutPair::Tn]),
            (vec!["nt".into(), "nt".into(), "tile".into()], why.clone())
        );
        assert_eq!(names(&[LayoutPair::Tt]), (vec!["nt".into()], why));
    }

    #[test]
    fn products_are_chosen_by_their_names_or_extents() {
        let chosen = |suite: Suite, texts: &[&str]| {
            let only: Vec<String> = texts.iter().map(ToString::to_string).collect();
            suite.sizes().into_iter().filter(|size| wanted(&only, suite.name(), *size)).count()
        };
        assert_eq!(chosen(Suite::Llm, &[]), 72);
        assert_eq!(chosen(Suite::Llm, &["Mixtral", "DeepSeek"]), 3 * (2 + 6));
        assert_eq!(chosen(Suite::Llm, &["Llama-3 8B qkv"]), 3);
        assert_eq!(chosen(Suite::Llm, &["32 x 6144 x 4096"]), 1);
        assert_eq!(chosen(Suite::Square, &["4096x"]), 1);
        // A name is of the suite of language models alone.
        assert_eq!(chosen(Suite::Square, &["Llama"]), 0);
    }
}
