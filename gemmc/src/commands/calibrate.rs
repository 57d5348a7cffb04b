//! `gemmc calibrate`: the figures of a GPU with which estimates rank timed schedules best.

use std::time::{Duration, Instant};

use ptx_gemm::Schedule;
use ptx_gemm_bench::calibrate::{drawn, halves, of_times, plot, read};
use ptx_gemm_bench::pick::Effort;
use ptx_gemm_bench::sweep::Kept;
use ptx_gemm_check::figures::table;
use ptx_gemm_choose::{Gpu, Pick, Quality, Timed, fit, misses, quality};
use ptx_gemm_dsl::clause::Atom;
use serde_json::{Value, json};

use super::pick::{On, Wanted, problem};
use super::sweep::{cuda, workers};
use crate::cli;
use crate::interrupt::Interrupt;
use crate::reply::{Failure, Reply};
use crate::source::{self, unusable};

/// The figures that are fitted; data sheets and microbenchmarks have the others.
fn fitted(kind: Kind) -> Vec<&'static str> {
    const SIMT: [&str; 11] = [
        "issue_with_each",
        "issue_per_tile",
        "merged_reads",
        "l2_bytes_per_clock",
        "dram_bytes_per_clock",
        "latency_global",
        "latency_shared",
        "barrier",
        "around",
        "launch_us",
        "workspace_part",
    ];
    match kind {
        Kind::Threads => SIMT.to_vec(),
        Kind::Warps => vec!["mma_waits", "mma_per_clock"],
        Kind::Planes => vec!["tensor_planes"],
        Kind::WarpGroups => Gpu::FIGURES
            .iter()
            .copied()
            .filter(|name| name.starts_with("tensor_") && !name.ends_with("_ghz") && *name != "tensor_planes")
            .collect(),
    }
}

/// Candidates of a drawn product.
const FIRST: usize = 16;
/// How many products are shown.
const MISSES: usize = 8;
/// The fewest rows that figures are fitted to.
const FEWEST: usize = 100;

/// What multiplies: each has a model of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Threads,
    Warps,
    WarpGroups,
    Planes,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::WarpGroups, Kind::Planes, Kind::Threads, Kind::Warps];

    fn of(row: &Timed) -> Kind {
        match row.plan.atom {
            Atom::Fma => Kind::Threads,
            Atom::Mma(..) => Kind::Warps,
            Atom::Wgmma(..) if row.plan.sums.emulate.is_some() => Kind::Planes,
            Atom::Wgmma(..) => Kind::WarpGroups,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Threads => "fma",
            Kind::Warps => "mma",
            Kind::WarpGroups => "wgmma",
            Kind::Planes => "planes",
        }
    }
}

pub(crate) fn run(args: &cli::Calibrate) -> Result<Reply, Failure> {
    let mut rows = Vec::new();
    for path in &args.rows {
        let text = std::fs::read_to_string(path).map_err(|error| unusable(path, error))?;
        rows.extend(read(&text, args.gpu).map_err(|error| unusable(path, error))?);
    }
    if let Some(device) = args.device {
        rows.extend(timed(args, cuda(device)?)?);
    }
    let (ours, others) = halves(rows);
    let mut gpu = args.gpu.clone();
    if !args.judge {
        // `mma` shares figures of the model for threads, which are fitted before its own.
        for kind in Kind::ALL {
            let of_kind: Vec<Timed> = ours.iter().filter(|row| Kind::of(row) == kind).cloned().collect();
            if of_kind.len() >= FEWEST {
                gpu = fit(&gpu, &of_kind, &fitted(kind));
            }
        }
    }
    let (mut lines, mut json) = (Vec::new(), Vec::new());
    for (half, rows) in [("fitted", &ours), ("kept back", &others)] {
        let kinds = Kind::ALL.into_iter().map(Some).chain([None]);
        for kind in kinds {
            let judged: Vec<Timed> =
                rows.iter().filter(|row| kind.is_none_or(|kind| Kind::of(row) == kind)).cloned().collect();
            let name = kind.map_or("all", Kind::name);
            for (gpu, when) in [(args.gpu, "before"), (&gpu, "after")] {
                let quality = quality(gpu, &judged);
                if when == "after" && args.judge || quality.products == 0 {
                    continue;
                }
                lines.push(line(half, name, when, &quality));
                json.push(object(half, name, when, &quality));
            }
        }
    }
    let heads = ["products", "multiply", "figures", "number", "rows", "regret", "of first 8", "worst", "bias", "error"];
    let mut text = table(heads, lines);
    let all: Vec<Timed> = ours.iter().chain(&others).cloned().collect();
    text.push_str("\nthe slowest picks\n");
    for miss in misses(&gpu, &all, MISSES) {
        let (picked, fastest) = (&all[miss.picked.0], &all[miss.fastest.0]);
        text.push_str(&format!("{}: {:.0}% slower\n", picked.size, 100.0 * miss.regret));
        for (what, row, estimate) in [("picked", picked, miss.picked.1), ("fastest", fastest, miss.fastest.1)] {
            text.push_str(&format!("  {what:7} {:.4} ms, estimated {estimate:.4}: {}\n", row.ms, row.clauses));
        }
    }
    if let Some(path) = &args.plot {
        source::write(path, plot(&gpu, &others))?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    if let Some(path) = &args.output {
        source::write(path, gpu.text())?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    } else if !args.judge {
        text.push_str(&format!("\n{}", gpu.text()));
    }
    Ok(Reply::fine(text, json!({ "gpu": args.gpu.name, "quality": json, "figures": gpu.text() })))
}

/// Times the first candidates of products drawn at random, until the time is up.
fn timed(args: &cli::Calibrate, device: usize) -> Result<Vec<Timed>, Failure> {
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let (interrupt, workers) = (Interrupt::watch(), workers(device)?);
    let mut times = Vec::new();
    for (size, types, layouts) in drawn(args.seed) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || interrupt.came() {
            break;
        }
        let given = problem(Wanted { size, types, layouts, clauses: Schedule::new() }, None)?;
        let ranked = Pick { given: &given, size, gpu: args.gpu }.run(FIRST);
        let on = On { device, gpu: args.gpu, time: left, interrupt: &interrupt, workers: &workers };
        let picked = on.picked(&ranked, Effort::First, size, &mut Kept::nowhere())?;
        if let Some(why) = picked.timed.broken {
            return Err(Failure::refused("calibrate", why));
        }
        let measured = picked.candidates.into_iter().filter_map(|one| Some((one.schedule, one.timed?.ok()?.ms)));
        times.extend(measured.map(|(clauses, ms)| (clauses, size, ms)));
    }
    Ok(of_times(times, args.gpu))
}

fn line(half: &str, kind: &str, when: &str, quality: &Quality) -> Vec<String> {
    let Quality { products, rows, regret, regret_of_first, worst, bias, error, .. } = quality;
    let percent = |share: &f64| format!("{:.1}%", 100.0 * share);
    let mut line = vec![half.into(), kind.into(), when.into(), products.to_string(), rows.to_string()];
    line.extend([regret, regret_of_first, worst, bias, error].map(percent));
    line
}

fn object(half: &str, kind: &str, when: &str, quality: &Quality) -> Value {
    let Quality { products, rows, regret, regret_of_first, worst, bias, error, .. } = quality;
    json!({
        "products": half, "multiply": kind, "figures": when, "number": products, "rows": rows, "regret": regret,
        "regret_of_first": regret_of_first, "worst": worst, "bias": bias, "error": error,
    })
}
