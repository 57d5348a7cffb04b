//! `gemmc ladder`: every case in one table, with its cost, and on a GPU its time compared with cuBLAS; with `--cpu` the steps of
//! a product on the CPU.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ptx_gemm::cuda::Queue;
use ptx_gemm::{Device, DeviceKind, Kernel};
use ptx_gemm_check::figures::Assembler;
use ptx_gemm_check::ladder::{Climb, Ladder, Timing};
use ptx_gemm_check::{Case, cases};
use ptx_gemm_draw::Scheme;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli;
use crate::commands::profile::status_of;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source;
use ptx_gemm_bench::suites::{Named, Size};
use ptx_gemm_bench::timing::{Untimed, time};
use ptx_gemm_bench::{Program, cpu, report};

/// The cube that is timed on a GPU.
const EXTENT: usize = 4096;

/// How long a product on the CPU is repeated.
const REPEAT: Duration = Duration::from_millis(200);

/// The last measurement of a case starts within this time.
const BUDGET: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &cli::Ladder, format: Format) -> Result<Reply, Failure> {
    if args.cpu {
        return on_the_cpu(args, format);
    }
    let gpu = Device::best().ok().filter(|device| matches!(device.kind(), DeviceKind::Cuda(_)));
    let untimed = Mutex::new(Vec::new());
    let timer = |case: &Case, kernel: &Kernel| {
        let timing = timed(gpu.as_ref()?, case, kernel)?;
        timing.map_err(|why| untimed.lock().unwrap_or_else(PoisonError::into_inner).push((case.name, why))).ok()
    };
    let asked = args.gpu.map(|gpu| gpu.capability);
    let capability = asked.or_else(|| gpu.as_ref().and_then(|gpu| gpu.limits().target).map(|target| target.capability));
    let climb = Climb { target: args.target, gpu: capability, assembler: Assembler::find(), timer: Some(&timer) };
    let bar = progress::bar(0, format);
    if let Some(unknown) = args.cases.iter().find(|name| !cases().any(|case| case.name == **name)) {
        let near = source::nearest_case(unknown).map_or(String::new(), |near| format!(", {near} is"));
        let message = format!("`{unknown}` is not a case{near}; `gemmc cases` lists them");
        return Err(Failure::refused("case", message));
    }
    let wanted = |case: &Case| args.cases.is_empty() || args.cases.iter().any(|name| *name == case.name);
    let cases: Vec<Case> = cases().filter(wanted).collect();
    let ladder = climb.run(&cases, |done, all, case| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(case.to_string());
    })?;
    bar.finish_and_clear();
    let untimed = untimed.into_inner().unwrap_or_else(PoisonError::into_inner);
    reply(&ladder, args, gpu.as_ref().and_then(peak), &untimed)
}

/// The steps of a product on the CPU, next to libraries.
fn on_the_cpu(args: &cli::Ladder, format: Format) -> Result<Reply, Failure> {
    if let Some(path) = &args.table {
        let text = std::fs::read_to_string(path).map_err(|error| source::unusable(path, error))?;
        let stored = serde_json::from_str::<Steps>(&text);
        let of = |error| Failure::refused("file", format!("{}: no file of results of --cpu: {error}", path.display()));
        return steps(stored.map_err(of)?, args);
    }
    let sizes = if args.sizes.is_empty() { cpu::fitting() } else { args.sizes.clone() };
    let product = limit(args.seconds)?;
    let budget = cpu::Budget { product, repeat: REPEAT };
    let bar = progress::bar(0, format);
    let climb = cpu::climb(&sizes, budget, &mut |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_string());
    });
    bar.finish_and_clear();
    let cpu::Climb { rows, left_out } = climb.map_err(|error| Failure::refused("sizes", error.to_string()))?;
    steps(Steps { host: cpu::host(), seconds: args.seconds, rows, left_out }, args)
}

/// How long a product on the CPU may take.
fn limit(seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).map_err(|error| Failure::refused("seconds", format!("{seconds}: {error}")))
}

/// Results of the steps on the CPU, as a file holds them.
#[derive(Deserialize, Serialize)]
struct Steps {
    host: String,
    /// Products that are expected to take longer were left out.
    seconds: f64,
    rows: Vec<cpu::Row>,
    left_out: Vec<cpu::LeftOut>,
}

fn steps(steps: Steps, args: &cli::Ladder) -> Result<Reply, Failure> {
    let json = json!(steps);
    let Steps { host, seconds, rows, left_out } = steps;
    let ok = rows.iter().all(|row| row.max_error <= 1.0);
    let mut text = format!("{host}\n\n{}", cpu::table(&rows));
    let missing = cpu::left_out(&left_out, limit(seconds)?);
    if !missing.is_empty() {
        text.push_str(&format!("\n{missing}"));
    }
    for row in rows.iter().filter(|row| row.max_error > 1.0) {
        text.push_str(&format!("WRONG: {} at {}: {} of the bound\n", row.rung, row.n, row.max_error));
    }
    if let Some(path) = args.json.as_deref().filter(|path| *path != Path::new("-")) {
        source::write(path, pretty(&json))?;
    }
    if let Some(path) = &args.plot {
        source::write(path, cpu::plot(&rows))?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    let status = match (ok, rows.is_empty()) {
        (false, _) => Status::Wrong,
        (true, true) => Status::Refused,
        (true, false) => Status::Fine,
    };
    Ok(Reply { text, json, status })
}

/// The peak of a GPU in f32, in TFLOP/s.
fn peak(gpu: &Device) -> Option<f64> {
    let properties = Queue::new(gpu).and_then(|queue| queue.properties());
    properties.ok().map(report::peak)
}

/// Times one case next to cuBLAS, or says why it cannot.
fn timed(gpu: &Device, case: &Case, kernel: &Kernel) -> Option<Result<Timing, Untimed>> {
    let program = Program::Schedule(source::for_target(&case.schedule().ok()?, kernel.target()));
    let size = Size { m: EXTENT, n: EXTENT, k: EXTENT, batch: 1 };
    let timings = time(gpu, vec![Named { name: case.name.into(), program }], size, BUDGET).timings;
    timings.into_iter().next()
}

fn reply(
    ladder: &Ladder,
    args: &cli::Ladder,
    peak: Option<f64>,
    untimed: &[(&str, Untimed)],
) -> Result<Reply, Failure> {
    let json = serde_json::to_value(ladder).map_err(|error| Failure::refused("json", error.to_string()))?;
    let mut text = ladder.to_string();
    // `--json` alone means standard output, which the reply takes care of.
    if let Some(path) = args.json.as_deref().filter(|path| *path != Path::new("-")) {
        source::write(path, pretty(&json))?;
    }
    if let Some(path) = &args.plot {
        source::write(path, ptx_gemm_draw::ladder(ladder, peak, Scheme::Auto))?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    for (case, why) in untimed {
        text.push_str(&format!("{case} was not timed: {why}\n"));
    }
    let counted = ladder.rungs.iter().map(|rung| Status::from(rung.figures.verdict));
    let status = counted.chain(untimed.iter().map(|(_, why)| status_of(why))).fold(Status::Fine, Status::worse);
    Ok(Reply { text, json, status })
}

fn pretty(json: &Value) -> String {
    format!("{json:#}\n")
}
