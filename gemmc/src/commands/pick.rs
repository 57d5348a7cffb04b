//! `gemmc pick`: the best schedule for a product.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use ptx_gemm::{Batch, DType, Schedule, gpu_of};
use ptx_gemm_bench::calibrate::drawn;
use ptx_gemm_bench::pick::{self, Effort, POOL, Picked};
use ptx_gemm_bench::rows::{Rows, Run};
use ptx_gemm_bench::suites::{LayoutPair, Size};
use ptx_gemm_bench::sweep::timing::{Timing, Workers};
use ptx_gemm_bench::sweep::{Candidate, Failure as Fate, Kept, report};
use ptx_gemm_choose::{Choice, Gpu, Lock, Pick, Ranked, Source, choose, estimate, target, with_article};
use serde_json::{Value, json};

use super::sweep::{PATIENCE, cuda, device_name, workers};
use crate::cli;
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source::{self, unusable};

/// How long the first candidates of a product may take to be timed, in seconds, and in estimated times of the product.
const FIRST: (f64, f64) = (10.0, 200.0);

pub(crate) fn run(args: &cli::Pick, format: Format) -> Result<Reply, Failure> {
    let wanted = match (&args.shapes, args.draw) {
        (Some(path), _) => shapes(path, args.given.types, args.given.layouts)?,
        (None, Some(count)) => drawn(args.seed)
            .take(count)
            .map(|(size, types, layouts)| Wanted { size, types, layouts, clauses: Schedule::new() })
            .collect(),
        (None, None) => {
            let size = Size { m: args.m, n: args.n, k: args.k, batch: args.batch };
            vec![Wanted { size, types: args.given.types, layouts: args.given.layouts, clauses: Schedule::new() }]
        }
    };
    let device = args.device.map(cuda).transpose()?;
    let gpu = match (args.gpu, args.device) {
        (Some(gpu), _) => gpu.clone(),
        (None, Some(device)) => gpu_of(&device.open(0)?),
        (None, None) => Gpu::h200().clone(),
    };
    let mut kept = match &args.keep {
        Some(path) => Kept::in_file(path).map_err(|error| unusable(path, error))?,
        None => Kept::nowhere(),
    };
    let lock = args.lock.as_deref().map(lock).transpose()?;
    let interrupt = Interrupt::watch();
    let workers = device.map(workers).transpose()?;
    let bar = progress::bar(wanted.len(), format).with_message("picking");
    let mut products = Vec::new();
    for wanted in wanted {
        if interrupt.came() {
            break;
        }
        let on = device.zip(workers.as_ref());
        products.push(Product::new(args, wanted, (on, &gpu, lock.as_ref()), &mut kept, &interrupt)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut text = products.iter().map(|product| product.text(args, &gpu)).collect::<Vec<_>>().join("\n");
    if let Some(path) = &args.csv {
        let rows = products.iter().map(|product| (product.size, &product.candidates[..product.shown(args)]));
        source::write(path, report::csv(rows).map_err(|error| Failure::refused("csv", error))?)?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    if let Some((name, path)) = &args.rows {
        add_rows(name, path, &products)?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    let status = products.iter().fold(Status::Fine, |status, product| status.worse(product.status()));
    let json = match (args.shapes.is_none() && args.draw.is_none(), &products[..]) {
        (true, [product]) => product.json(args, &gpu),
        _ => json!({ "products": products.iter().map(|product| product.json(args, &gpu)).collect::<Vec<_>>() }),
    };
    Ok(Reply { text, json, status: if interrupt.came() { status.worse(Status::Refused) } else { status } })
}

/// A file of entries.
pub(super) fn lock(path: &Path) -> Result<Lock, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| unusable(path, error))?;
    Lock::parse(&text).map_err(|error| Failure::refused("lock", format!("{}: {error}", path.display())))
}

/// How many candidates are wanted.
fn candidates(args: &cli::Pick) -> usize {
    if args.seconds.is_some() { POOL } else { usize::from(args.top).max(16) }
}

/// A schedule that was chosen, as the only candidate.
fn judged(choice: Choice, size: Size, gpu: &Gpu) -> Option<ptx_gemm_choose::Candidate> {
    let plan = choice.schedule.plan_or_conflicts(target(&choice.schedule, gpu)).ok()?;
    let family = match choice.source {
        Source::Family(family) => family,
        Source::Entry(_) => "lock",
        Source::Near(_) => "lock, of a product that is near",
    };
    Some(ptx_gemm_choose::Candidate { family, estimate: estimate(&plan, size, gpu).ok()?, schedule: choice.schedule })
}

/// Adds the times to a file of all rows.
fn add_rows(name: &str, path: &Path, products: &[Product]) -> Result<(), Failure> {
    let mut rows = match std::fs::read_to_string(path) {
        Ok(text) => Rows::read(&text).map_err(|error| unusable(path, error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Rows::default(),
        Err(error) => return Err(unusable(path, error)),
    };
    let device = products.iter().find_map(|product| product.device.clone()).unwrap_or_default();
    let run = Run { name: name.into(), device, command: super::bench::command() };
    let timed = products.iter().flat_map(|product| {
        let timed = |one: &Candidate| one.timed.as_ref().is_some_and(Result::is_ok);
        product.candidates.iter().filter(move |one| timed(one)).map(|one| (product.size, one))
    });
    let times = timed.filter_map(|(size, one)| Some((one.schedule.as_str(), size, one.timed.as_ref()?.as_ref().ok()?)));
    rows.add_timed(run, times);
    source::write(path, rows.text())
}

/// A product that a schedule is wanted for.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) size: Size,
    pub(super) types: DType,
    pub(super) layouts: LayoutPair,
    /// Clauses that the schedule has.
    pub(super) clauses: Schedule,
}

/// The products of a file, of this type and these layouts unless a line has others.
pub(super) fn shapes(path: &Path, types: DType, layouts: LayoutPair) -> Result<Vec<Wanted>, Failure> {
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| unusable(path, error))?;
    let mut products = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let (product, clauses) = line.split_once(';').unwrap_or((line, ""));
        let mut words = product.split_whitespace();
        let Some(size) = words.next() else { continue };
        let refused =
            |why: String| Failure::refused("shapes", format!("{}: line {}: {why}", path.display(), number + 1));
        let clauses = Schedule::parse_part(clauses).map_err(|errors| refused(errors.to_string()))?;
        let mut wanted = Wanted { size: Size::parse(size).map_err(refused)?, types, layouts, clauses };
        for word in words {
            match (cli::dtype(word), LayoutPair::from_str(word, true)) {
                (Ok(types), _) => wanted.types = types,
                (_, Ok(layouts)) => wanted.layouts = layouts,
                _ => return Err(refused(format!("`{word}` is neither a type nor one of nn, nt, tn, tt"))),
            }
        }
        products.push(wanted);
    }
    Ok(products)
}

/// Where and how long candidates are timed.
pub(super) struct On<'a> {
    pub(super) device: usize,
    pub(super) gpu: &'a Gpu,
    pub(super) time: Duration,
    pub(super) interrupt: &'a Interrupt,
    pub(super) workers: &'a Workers<'static>,
}

impl On<'_> {
    /// Times candidates of a ranking.
    pub(super) fn picked(
        &self,
        ranked: &Ranked,
        effort: Effort,
        size: Size,
        kept: &mut Kept,
    ) -> Result<Picked, Failure> {
        let deadline = Instant::now() + self.time;
        self.with_timing(size, deadline, |timing| pick::pick(ranked, effort, timing, kept, &mut |_| ()))
    }

    /// Times something.
    pub(super) fn with_timing<T>(
        &self,
        size: Size,
        deadline: Instant,
        run: impl FnOnce(&Timing<'_>) -> std::io::Result<T>,
    ) -> Result<T, Failure> {
        let failed = |error: std::io::Error| Failure::refused("timing", format!("cannot time: {error}"));
        let (gpu, device, workers) = (self.gpu.clone(), &device_name(self.device), self.workers);
        let interrupt = &self.interrupt.flag();
        run(&Timing { size, gpu, device, workers, deadline, patience: PATIENCE, interrupt }).map_err(failed)
    }
}

/// What was found for one product.
struct Product {
    size: Size,
    given: String,
    candidates: Vec<Candidate>,
    families: Vec<&'static str>,
    combinations: u128,
    legal: usize,
    device: Option<String>,
    /// Why not everything was timed.
    broken: Option<String>,
    /// How many of those that were to be timed at last had no time.
    late: usize,
}

impl Product {
    fn new(
        args: &cli::Pick,
        wanted: Wanted,
        (device, gpu, lock): (Option<(usize, &Workers<'static>)>, &Gpu, Option<&Lock>),
        kept: &mut Kept,
        interrupt: &Interrupt,
    ) -> Result<Product, Failure> {
        let (size, given) = (wanted.size, given(wanted, &args.given)?);
        let mut ranked = Ranked::default();
        if args.matmul {
            let pick = Pick { given: &given, size: size.bucket(), gpu };
            ranked.candidates.extend(choose(&pick, lock).and_then(|choice| judged(choice, size, gpu)));
            ranked.legal = ranked.candidates.len();
            ranked.combinations = ranked.legal as u128;
        } else {
            ranked = Pick { given: &given, size, gpu }.until(candidates(args), &interrupt.flag());
        }
        let (combinations, legal) = (ranked.combinations, ranked.legal);
        let families = ranked.candidates.iter().map(|one| one.family).collect();
        let (mut candidates, mut name, mut broken, mut late) = (pick::candidates(&ranked), None, None, 0);
        if let (Some((device, workers)), Some(best)) = (device, ranked.candidates.first()) {
            let first = Duration::from_secs_f64(FIRST.0.max(FIRST.1 * best.estimate.ms / 1e3));
            let (effort, time) = match args.seconds {
                Some(seconds) => (Effort::Further, Duration::from_secs(seconds)),
                None => (Effort::First, first),
            };
            let on = On { device, gpu, time, interrupt, workers };
            let picked = on.picked(&ranked, effort, size, kept)?;
            (candidates, name, broken) = (picked.candidates, picked.timed.device, picked.timed.broken);
            late = picked.timed.late;
        }
        let given = given.one_line();
        Ok(Product { size, given, candidates, families, combinations, legal, device: name, broken, late })
    }

    /// How many candidates are shown.
    fn shown(&self, args: &cli::Pick) -> usize {
        let timed = self.candidates.iter().filter(|one| one.timed.is_some()).count();
        usize::from(args.top).max(timed).min(self.candidates.len())
    }

    fn family(&self, candidate: &Candidate) -> &'static str {
        self.families[candidate.index as usize]
    }

    fn status(&self) -> Status {
        match self.candidates.first() {
            _ if self.broken.is_some() => Status::Refused,
            None => Status::Refused,
            Some(_) => {
                let failed = self.candidates.iter().filter_map(|one| one.timed.as_ref()?.as_ref().err());
                if failed.into_iter().any(|failed| failed.how == Fate::Wrong) { Status::Wrong } else { Status::Fine }
            }
        }
    }

    fn text(&self, args: &cli::Pick, gpu: &Gpu) -> String {
        let Product { size, given, combinations, legal, .. } = self;
        let name = with_article(self.device.as_ref().unwrap_or(&gpu.name));
        let mut text = match args.matmul {
            true => format!("{size} {given} on {name}: what matmul takes\n"),
            false => format!("{size} {given} on {name}: {legal} legal schedules of {combinations} combinations\n"),
        };
        if let Some(caveat) = gpu.caveat() {
            text.push_str(&format!("{caveat}\n"));
        }
        let Some(best) = self.candidates.first() else {
            text.push_str("no family computes this product: write a schedule of your own, or leave clauses out (-e)\n");
            return text;
        };
        let shown = report::table(&self.candidates[..self.shown(args)], *size);
        text.push_str(&format!("\n{shown}"));
        if let Some(why) = &self.broken {
            text.push_str(&format!("not all are timed: {why}\n"));
        } else if self.late > 0 && args.seconds.is_none() {
            text.push_str(&format!("{} more had no time: --seconds gives them some\n", self.late));
        }
        // Those that failed come after those that have no time.
        for failed in self.candidates[self.shown(args)..].iter().filter_map(|one| one.timed.as_ref()?.as_ref().err()) {
            text.push_str(&format!("{:?}: {}\n", failed.how, failed.what).to_lowercase());
        }
        let clauses = best.schedule.replace("; ", ";\n");
        let from = if args.matmul { "from" } else { "the best, of the family" };
        text.push_str(&format!("\n{from} {}\n\n{clauses}\n", self.family(best)));
        text
    }

    fn json(&self, args: &cli::Pick, gpu: &Gpu) -> Value {
        let candidate = |(rank, one): (usize, &Candidate)| {
            let mut row = report::candidate(rank + 1, one);
            row["family"] = self.family(one).into();
            row
        };
        let shown = self.candidates[..self.shown(args)].iter().enumerate();
        json!({
            "m": self.size.m, "n": self.size.n, "k": self.size.k, "batch": self.size.batch,
            "given": self.given,
            "gpu": gpu.name,
            "calibrated": gpu.calibrated,
            "device": self.device,
            "combinations": u64::try_from(self.combinations).ok(),
            "legal": self.legal,
            "best": self.candidates.first().map(|best| candidate((0, best))),
            "candidates": shown.map(candidate).collect::<Vec<_>>(),
            "broken": self.broken,
        })
    }
}

/// The clauses that every candidate has.
pub(super) fn given(wanted: Wanted, all: &cli::Given) -> Result<Schedule, Failure> {
    let of_line = wanted.clauses.clone();
    let problem = problem(wanted, all.epilogue.as_deref())?.with(of_line);
    Ok(match &all.clauses {
        Some(clauses) => problem.with(Schedule::parse_part(clauses).map_err(|errors| errors.named("-e"))?),
        None => problem,
    })
}

/// The clauses that say what is computed.
pub(super) fn problem(wanted: Wanted, epilogue: Option<&str>) -> Result<Schedule, Failure> {
    let [a, b] = wanted.layouts.of_a_and_b();
    let mut text = format!("types({}); layout(a = {a}, b = {b});", wanted.types);
    if wanted.size.batch > 1 {
        text.push_str(&format!(" batch({});", Batch::Strided));
    }
    if let Some(closure) = epilogue {
        text.push_str(&format!(" epilogue({closure});"));
    }
    Ok(Schedule::parse_part(&text)?)
}
