//! `gemmc bench --suite large`: matrices of the host on one GPU and on several.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ptx_gemm::{DType, Device, Schedule};
use ptx_gemm_bench::Program;
use ptx_gemm_bench::large::{self, Event, Order, Row, suits};
use ptx_gemm_bench::suites::{Named, Size, Suite};
use ptx_gemm_check::case;
use serde_json::{Value, json};

use super::{Given, command, given, wanted};
use crate::cli::Bench;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status, complain};
use crate::source::{self, unusable};

/// What is timed where no schedules are named: multiply-adds, and both kinds of planes.
const CASES: [&str; 3] = ["nn_128x256_tma", "bf16x6_128x128", "f16x3_128x128"];

pub(super) fn run(args: &Bench, format: Format) -> Result<Reply, Failure> {
    let refused = |message: &str| Err(Failure::refused("usage", message));
    if args.suite.len() > 1 {
        return refused("--suite large is measured by itself: its matrices fill the host's memory");
    }
    if args.types != DType::F32 || args.beta != 0.0 {
        return refused("--suite large multiplies f32, without an epilogue");
    }
    if !args.layouts.is_empty() {
        return refused("--suite large has row-major matrices");
    }
    if args.device.is_some() || args.rest > 0 {
        return refused("--suite large is measured on every GPU at once, without rests");
    }
    let Some(sizes) = cubes(args) else { return refused("--suite large has cubes: --size 16384") };
    if sizes.is_empty() {
        return Err(Failure::refused("usage", format!("no product of large is called {}", args.only.join(" or "))));
    }
    let schedules = schedules(args)?;
    let devices = devices()?;
    let bar = progress::bar(0, format);
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let order = Order { schedules: &schedules, sizes: &sizes, devices: &devices, deadline };
    let mut notes = Vec::new();
    let rows = large::measure(&order, &mut |event| match event {
        Event::Row(row) => bar.suspend(|| complain(&line(row))),
        Event::Note(note) => {
            bar.suspend(|| complain(&format!("{note}\n")));
            notes.push(note);
        }
    })?;
    bar.finish_and_clear();
    reply(args, &devices, &rows, &notes)
}

/// The extents that are asked for; `None` if they are not of cubes.
fn cubes(args: &Bench) -> Option<Vec<usize>> {
    let suite = Suite::Large;
    let all = || suite.sizes().into_iter().filter(|size| wanted(&args.only, suite.name(), *size)).collect();
    let sizes: Vec<Size> = if args.size.is_empty() { all() } else { args.size.clone() };
    sizes.iter().map(|size| (size.m == size.n && size.n == size.k && size.batch == 1).then_some(size.m)).collect()
}

fn schedules(args: &Bench) -> Result<Vec<(String, Schedule)>, Failure> {
    let refused = |message: String| Err(Failure::refused("schedules", message));
    let schedule = |one: Given| match one {
        Given::Whole(Named { name, program: Program::Schedule(schedule) }) if suits(&schedule) => Ok((name, schedule)),
        Given::Whole(Named { name, .. }) => {
            refused(format!("{name} is not a schedule for plain products of row-major f32, as --suite large has them"))
        }
        Given::Open(text) => refused(format!("`{text}`: --suite large takes schedules without open values")),
    };
    let named = given(args)?;
    if named.is_empty() {
        let named = CASES.iter().filter_map(|name| Some(((*name).to_string(), case(name)?.schedule().ok()?)));
        return Ok(named.collect());
    }
    named.into_iter().map(schedule).collect()
}

/// Every GPU of this machine.
fn devices() -> Result<Vec<Device>, Failure> {
    let first = Device::cuda(0)?;
    let others = (1..).map_while(|index| Device::cuda(index).ok());
    Ok([first].into_iter().chain(others).collect())
}

fn line(row: &Row) -> String {
    let speedup = row.speedup.map_or(String::new(), |speedup| format!(", {speedup:.2} of one"));
    let bound = row.of_bound().map_or(String::new(), |share| format!(", {share:.2} of its bound"));
    let Row { n, schedule, devices, .. } = row;
    let (seconds, tflops, error) = (row.ms / 1e3, row.tflops, row.max_error);
    format!(
        "{n:>6}  {schedule:<24} {devices} GPUs  {seconds:>9.4} s  {tflops:>7.1} TFLOP/s  error {error:.3} of the allowed{speedup}{bound}\n"
    )
}

fn reply(args: &Bench, devices: &[Device], rows: &[Row], notes: &[String]) -> Result<Reply, Failure> {
    let device = match devices {
        [one] => one.name().to_string(),
        all => format!("{} x {}", all.len(), all.first().map_or("", |device| device.name())),
    };
    let json = json!({ "device": device, "command": command(), "f32_peak_tflops": Value::Null, "rows": rows });
    let stored = ptx_gemm_bench::report::file(&json);
    if let Some(folder) = &args.results {
        fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
        source::write(&folder.join("large.json"), stored.clone())?;
        source::write(&folder.join("large.svg"), large::plot(&device, rows))?;
    }
    if let Some(path) = args.json.as_deref().filter(|path| *path != Path::new("-")) {
        source::write(path, stored)?;
    }
    if let Some(path) = &args.plot {
        source::write(path, large::plot(&device, rows))?;
    }
    let mut text = format!("{device}\n");
    notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    text.push_str(&large::table(rows));
    let status = match (rows.iter().all(|row| row.max_error <= 1.0), rows.is_empty()) {
        (false, _) => Status::Wrong,
        (true, true) => Status::Refused,
        (true, false) => Status::Fine,
    };
    Ok(Reply { text, json, status })
}

/// The rows of a file of results, if it is one of this suite.
pub(super) fn rows(results: &Value) -> Option<Vec<Row>> {
    let rows = serde_json::from_value::<Vec<Row>>(results["rows"].clone()).ok()?;
    (!rows.is_empty() && rows.iter().all(|row| row.suite == Suite::Large.name())).then_some(rows)
}

/// Such a file as a table in Markdown.
pub(super) fn table(rows: &[Row], results: &Value, names: &[String]) -> String {
    let text = |field: &str| results[field].as_str().unwrap_or_default().to_string();
    let shown: Vec<Row> =
        rows.iter().filter(|row| names.is_empty() || names.contains(&row.schedule)).cloned().collect();
    format!("{}: `{}`.\n\n{}", text("device"), text("command"), large::table(&shown))
}
