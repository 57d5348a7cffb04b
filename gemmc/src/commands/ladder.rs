//! `gemmc ladder`: every case in one table, with what it costs, and on a GPU how long it takes beside cuBLAS.

use std::path::Path;
use std::time::{Duration, Instant};

use ptx_gemm::{Device, DeviceKind};
use ptx_gemm_check::Case;
use ptx_gemm_check::ladder::{Assembler, Climb, Ladder, Timing, plot};
use serde_json::Value;

use crate::cli;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use ptx_gemm_bench::Program;
use ptx_gemm_bench::session::{self, Event, Order, Orders};
use ptx_gemm_bench::suites::{Named, Size};

/// The cube that is timed on a GPU.
const EXTENT: usize = 4096;

/// Time for one case: its last measurement begins within the first, and has ended within the second.
const BEGIN: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(80);

pub(crate) fn run(args: &cli::Ladder, format: Format) -> Result<Reply, Failure> {
    let gpu = Device::best().ok().filter(|device| matches!(device.kind(), DeviceKind::Cuda(_)));
    let timer = |case: &Case, _: &_| time(gpu.as_ref()?, case);
    let climb = Climb { target: args.target, assembler: Assembler::find(), timer: Some(&timer) };
    let bar = progress::bar(0, format);
    let ladder = climb.run(|done, all, case| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(case.to_string());
    })?;
    bar.finish_and_clear();
    reply(&ladder, args)
}

/// Times one case beside cuBLAS; `None` where there is no GPU, or the case cannot be timed there.
fn time(gpu: &Device, case: &Case) -> Option<Timing> {
    let schedule = case.schedule().ok()?;
    let sizes = vec![Size { m: EXTENT, n: EXTENT, k: EXTENT, batch: 1 }];
    let schedules = vec![Named { name: case.name.into(), program: Program::Schedule(schedule) }];
    let suites = vec![Order { suite: "ladder".into(), sizes, schedules, left_out: Vec::new() }];
    let begun = Instant::now();
    let events = session::start(Orders { device: gpu.clone(), suites, deadline: begun + BEGIN });
    while let Ok(event) = events.recv_timeout((begun + END).saturating_duration_since(Instant::now())) {
        if let Event::Row(row) = event {
            let (ms, noise, cublas_ms) = (row.times.ms, row.times.spread, row.times.cublas_ms);
            return Some(Timing { size: [EXTENT; 3], ms, noise, cublas_ms });
        }
    }
    None
}

fn reply(ladder: &Ladder, args: &cli::Ladder) -> Result<Reply, Failure> {
    let json = serde_json::to_value(ladder).map_err(|error| Failure::refused("json", error.to_string()))?;
    let mut text = ladder.to_string();
    // `--json` alone means standard output, which the reply takes care of.
    if let Some(path) = args.json.as_deref().filter(|path| *path != Path::new("-")) {
        write(path, &pretty(&json))?;
    }
    if let Some(path) = &args.plot {
        write(path, &plot(ladder).map_err(|error| Failure::refused("plot", error.to_string()))?)?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    let status = if ladder.rungs.iter().all(|rung| rung.ok) { Status::Fine } else { Status::Wrong };
    Ok(Reply { text, json, status })
}

fn pretty(json: &Value) -> String {
    format!("{json:#}\n")
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::refused("file", format!("{}: {error}", path.display())))
}
