//! `gemmc sweep`: every schedule of a text with alternatives, ranked.

use std::process::Command;
use std::time::{Duration, Instant};

use ptx_gemm::Diagnostics;
use ptx_gemm_bench::report as results;
use ptx_gemm_bench::suites::Size;
use ptx_gemm_bench::sweep::ranking::Ranking;
use ptx_gemm_bench::sweep::timing::{Timed, Timing, Workers, time};
use ptx_gemm_bench::sweep::{Failure as Fate, Kept, Outcome, Space, Sweep, report, worker};
use ptx_gemm_check::figures::table;
use serde_json::{Value, json};

use crate::cli::{self, DeviceName};
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source::{self, unusable};

/// The default number of candidates that are shown.
const SHOWN: usize = 20;
/// How long one schedule may take to be compiled, compared and timed.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) fn run(args: &cli::Sweep, format: Format) -> Result<Reply, Failure> {
    if !args.against.is_empty() {
        return against(args);
    }
    let (name, text) = source::space(args.source.as_deref(), args.clauses.as_deref())?;
    let space = Space::parse(&text).map_err(|errors: Diagnostics| errors.named(name))?;
    let size = Size { m: args.m, n: args.n, k: args.k, batch: args.batch };
    let sweep = Sweep::new(space).size(size).gpu(args.gpu.clone()).target(args.target);
    let sweep = args.sample.map_or(sweep.clone(), |count| sweep.sample(count, args.seed));
    let interrupt = Interrupt::watch();
    let sweep = sweep.until(interrupt.flag());
    let failed = |error| Failure::Other {
        clause: "sweep",
        help: report::advice(&error),
        message: error.to_string(),
        status: Status::Refused,
    };
    let count = sweep.count().map_err(failed)?;
    let device = args.device.map(cuda).transpose()?;
    let mut kept = match &args.keep {
        Some(path) => Kept::in_file(path).map_err(|error| unusable(path, error))?,
        None => Kept::nowhere(),
    };
    let bar = progress::bar(count as usize, format).with_message("judging");
    let outcome = sweep.run(|settled| bar.inc(settled));
    bar.finish_and_clear();
    let mut outcome = outcome.map_err(failed)?;
    let run = Run { args, size, format, interrupt: &interrupt };
    let timed = device.map(|device| run.timed(device, &mut outcome, &mut kept)).transpose()?;
    run.reply(count, &outcome, timed.as_ref())
}

/// The GPU to time on.
pub(super) fn cuda(device: DeviceName) -> Result<usize, Failure> {
    match device {
        DeviceName::Cuda(ordinal) => Ok(ordinal),
        other => Err(Failure::refused("device", format!("schedules are timed on a GPU, cuda:N, and not on {other}"))),
    }
}

/// The name of a GPU on the command line.
pub(super) fn device_name(device: usize) -> String {
    format!("cuda:{device}")
}

/// Processes that time schedules on a GPU.
pub(super) fn workers(device: usize) -> Result<Workers<'static>, Failure> {
    let failed = |error: std::io::Error| Failure::refused("timing", format!("cannot time: {error}"));
    let itself = std::env::current_exe().map_err(failed)?;
    Ok(Workers::new(move || {
        let mut command = Command::new(&itself);
        command.args(["sweep-worker", "--device", &device_name(device)]);
        command
    }))
}

/// A sweep of the command line.
struct Run<'a> {
    args: &'a cli::Sweep,
    size: Size,
    format: Format,
    interrupt: &'a Interrupt,
}

impl Run<'_> {
    fn timed(&self, device: usize, outcome: &mut Outcome, kept: &mut Kept) -> Result<Timed, Failure> {
        let Run { args, size, format, interrupt } = *self;
        let failed = |error: std::io::Error| Failure::refused("sweep", format!("cannot time: {error}"));
        let top = args.top.unwrap_or(usize::MAX).min(outcome.legal.len());
        let deadline = Instant::now() + Duration::from_secs(args.seconds);
        let timing = Timing {
            size,
            gpu: args.gpu.clone(),
            device: &device_name(device),
            workers: &workers(device)?,
            deadline,
            patience: PATIENCE,
            interrupt: &interrupt.flag(),
        };
        let bar = progress::bar(top, format).with_message("timing");
        let timed = time(&mut outcome.legal[..top], &timing, kept, &mut |done| bar.set_position(done as u64));
        bar.finish_and_clear();
        outcome.rank();
        timed.map_err(failed)
    }

    /// `count` combinations were to be judged.
    fn reply(&self, count: u64, outcome: &Outcome, timed: Option<&Timed>) -> Result<Reply, Failure> {
        let Run { args, size, interrupt, .. } = *self;
        let mut text = report::text(outcome, size, &args.gpu.name, args.top.unwrap_or(SHOWN));
        let mut json = report::json(outcome, size, &args.gpu.name, args.top.unwrap_or(usize::MAX));
        json["calibrated"] = args.gpu.calibrated.into();
        if let Some(caveat) = args.gpu.caveat() {
            text.push_str(&format!("\n{caveat}\n"));
        }
        if let Some(Timed { device, known, late, broken }) = timed {
            json["timed"] = json!({ "device": device, "known": known, "late": late, "broken": broken });
            if let Some(device) = device {
                text.push_str(&format!("\ntimed on {device}\n"));
            }
            if *known > 0 {
                text.push_str(&format!("{known} were timed before (--keep)\n"));
            }
            match broken {
                Some(why) => text.push_str(&format!("{late} not timed: {why}\n")),
                None if *late > 0 => {
                    text.push_str(&format!("{late} not timed: the {} s were up (--seconds)\n", args.seconds))
                }
                None => {}
            }
        }
        let unjudged = count - outcome.judged();
        if unjudged > 0 {
            text.push_str(&format!("{unjudged} not judged: interrupted\n"));
        }
        json["interrupted"] = interrupt.came().into();
        if let Some(path) = &args.csv {
            let csv = report::csv([(size, &outcome.legal[..])]).map_err(|error| Failure::refused("csv", error))?;
            source::write(path, csv)?;
            text.push_str(&format!("\nwrote {}\n", path.display()));
        }
        let failed = |fate: Fate| {
            outcome
                .legal
                .iter()
                .any(|one| one.timed.as_ref().is_some_and(|timed| timed.as_ref().is_err_and(|why| why.how == fate)))
        };
        let status = if failed(Fate::Wrong) {
            Status::Wrong
        } else if outcome.legal.is_empty() || unjudged > 0 || timed.is_some_and(|timed| timed.broken.is_some()) {
            Status::Refused
        } else if failed(Fate::Uncompared) {
            Status::Uncompared
        } else {
            Status::Fine
        };
        Ok(Reply { text, json, status })
    }
}

/// How well the estimates rank the measured schedules.
fn against(args: &cli::Sweep) -> Result<Reply, Failure> {
    let (mut lines, mut notes, mut files, mut empty) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    for path in &args.against {
        let read = std::fs::read_to_string(path).map_err(|error| unusable(path, error))?;
        let json: Value = serde_json::from_str(&read).map_err(|error| unusable(path, error))?;
        let none = || unusable(path, "not a file of results of `gemmc bench`");
        let (rows, _) = results::read(&json).ok_or_else(none)?;
        let ranking = Ranking::of(&rows, args.gpu);
        let (all, within) = (ranking.correlation(), ranking.within_products());
        let shown = |figure: Option<f64>| figure.map_or("-".into(), |figure| format!("{figure:.2}"));
        let name = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        let count = ranking.rows.len();
        let mut seen: Vec<&(String, String)> = Vec::new();
        for left_out in &ranking.left_out {
            if !seen.contains(&left_out) {
                seen.push(left_out);
                notes.push_str(&format!("{name} without {}: {}\n", left_out.0, left_out.1));
            }
        }
        if all.is_none() {
            empty.push(format!("{} (of {} rows)", path.display(), rows.len()));
        }
        lines.push(vec![name, count.to_string(), shown(all), shown(within)]);
        let left_out: Vec<&str> = ranking.left_out.iter().map(|(schedule, _)| schedule.as_str()).collect();
        files.push(
            json!({ "file": path, "rows": count, "all_rows": all, "within_products": within, "left_out": left_out }),
        );
    }
    let mut text = table(["Spearman's correlation", "rows", "all rows", "within a product"], lines);
    if !notes.is_empty() {
        text.push_str(&format!("\n{notes}"));
    }
    if !empty.is_empty() {
        text.push_str(&format!("\nNOT COMPARED: too few rows can be ranked in {}\n", empty.join(", ")));
    }
    let status = if empty.is_empty() { Status::Fine } else { Status::Uncompared };
    Ok(Reply { text, json: json!({ "gpu": args.gpu.name, "files": files }), status })
}

/// The process that times schedules: requests and answers are lines of its standard input and output.
pub(crate) fn work(args: &cli::SweepWorker) -> Result<Reply, Failure> {
    let open = || args.device.open(0).map_err(|error| error.to_string());
    let served = worker::serve(std::io::stdin().lock(), std::io::stdout().lock(), open);
    served.map_err(|error| Failure::refused("sweep-worker", error.to_string()))?;
    Ok(Reply::fine(String::new(), Value::Null))
}
