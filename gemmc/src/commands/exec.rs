//! `gemmc exec`: runs any PTX file as described by a launch file.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

use ptx_gemm::interp::{MomentKind, Options, Program, Report, Severity, Site, Violation, ViolationKind};
use ptx_gemm::{Device, Target, TextErrors};
use ptx_gemm_check::exec::{
    ExecError, GpuRun, Interpreted, LaunchFile, Order, foreign, interpret, legal, on_gpu, resident,
};
use ptx_gemm_choose::Gpu;
use serde_json::{Map, Value, json};

use crate::cli::{DeviceName, Exec};
use crate::reply::{Failure, Reply, Status};

/// Elements of a buffer that the text shows; JSON has them all.
const SHOWN: usize = 16;

pub(crate) fn run(args: &Exec) -> Result<Reply, Failure> {
    let ptx = text(&args.ptx)?;
    let launch = text(&args.launch)?;
    let name = args.launch.display();
    let file = LaunchFile::parse(&launch).map_err(|error| Failure::refused("launch", format!("{name}: {error}")))?;
    match args.device {
        DeviceName::Interpreter | DeviceName::Best if args.opt.is_some() => Err(Failure::refused(
            "usage",
            "--opt is for the driver's assembler, and the interpreter runs PTX as it is: --device cuda:0 has both",
        )),
        DeviceName::Interpreter | DeviceName::Best => interpreted(args, &ptx, &file),
        DeviceName::Cuda(_) => gpu(args, &ptx, file),
    }
}

/// What is wrong with PTX text, where it is.
pub(super) fn broken(path: &Path, text: &str, errors: TextErrors) -> Failure {
    Failure::Text { clause: "ptx", name: path.display().to_string(), text: text.into(), errors }
}

pub(super) fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::refused("file", format!("{}: {error}", path.display())))
}

fn refused(args: &Exec, error: ExecError) -> Failure {
    match error {
        ExecError::Load(error) => Failure::refused("ptx", format!("{}: {error}", args.ptx.display())),
        ExecError::Runtime(error) => error.into(),
        other => Failure::refused("launch", format!("{}: {other}", args.launch.display())),
    }
}

fn interpreted(args: &Exec, ptx: &str, file: &LaunchFile) -> Result<Reply, Failure> {
    let target = legal(ptx).map_err(|errors| broken(&args.ptx, ptx, errors))?;
    let program = Program::from_text(ptx).map_err(|error| refused(args, error.into()))?;
    let file = &with_residency(args, &program, ptx, &target, file)?;
    // A violation of a rule that was requested by name is an error and not a warning.
    let severity = |kind| if args.checks.named(kind) { Severity::Deny } else { Severity::Warn };
    let (proxy_war, past_rows) = (severity(ViolationKind::ProxyWar), severity(ViolationKind::PastRows));
    let (checks, fenced_late) = (args.checks.rules, severity(ViolationKind::Proxy));
    let max_instructions = Some(args.max_instructions);
    let options = Options {
        checks,
        proxy_war,
        overtaken: proxy_war,
        fenced_late,
        proxy_init_own: severity(ViolationKind::ProxyInit),
        equal_stores: severity(ViolationKind::Race),
        past_rows,
        wide_parity: severity(ViolationKind::BarrierMisuse),
        max_instructions,
        ..foreign()
    };
    let mut runs: Vec<Interpreted> = Vec::new();
    for order in args.order.list() {
        runs.push(interpret(&program, file, order, &options).map_err(|error| refused(args, error))?);
    }
    let mut text = String::new();
    let broken_rules = distinct(runs.iter().flat_map(|run| Some((run.order, run.violation.as_ref()?))));
    broken_rules.iter().for_each(|one| text.push_str(&format!("{one}\n")));
    let limited = |run: &Interpreted| {
        run.violation.as_ref().is_some_and(|violation| violation.kind == ViolationKind::InstructionLimit)
    };
    if runs.iter().any(limited) {
        let more = args.max_instructions.saturating_mul(16);
        text.push_str(&format!("help: a loop that ends later may do so with --max-instructions {more}\n"));
    }
    let warned = runs.iter().flat_map(|run| run.report.iter().map(|report| (run.order, &report.warnings)));
    let warned = distinct(warned.flat_map(|(order, warnings)| warnings.iter().map(move |warning| (order, warning))));
    warned.iter().for_each(|one| text.push_str(&format!("warning, {one}\n")));
    let mut violations: Vec<Value> = broken_rules.iter().map(Found::told).collect();
    let warnings: Vec<Value> = warned.iter().map(Found::told).collect();
    let broken = runs.iter().any(|run| run.violation.is_some());
    let [first, others @ ..] = runs.as_slice() else {
        return Err(Failure::refused("launch", "no order to run in"));
    };
    // A kernel without a race gives the same bytes in every order.
    let different = others.iter().find(|run| !broken && run.contents != first.contents);
    if let Some(run) = different {
        let changed = run.contents.iter().zip(&first.contents).find(|(a, b)| a != b).map_or("", |((name, _), _)| name);
        let message = format!("`{changed}` is another in order {} than in order {}", run.order, first.order);
        text.push_str(&format!("{message}\n"));
        violations.push(json!({ "rule": "order-dependent", "message": message, "line": null, "instruction": null,
            "threads": [], "address": null, "order": run.order.to_string(), "orders": [run.order.to_string()] }));
    }
    let ok = !broken && different.is_none();
    // A refused launch is an error in the launch file, and nothing ran.
    let ran =
        |run: &Interpreted| run.violation.as_ref().is_none_or(|violation| violation.kind != ViolationKind::Launch);
    let status = match ok {
        true => Status::Fine,
        false if runs.iter().any(ran) => Status::Wrong,
        false => Status::Refused,
    };
    let printed = first.report.as_ref().map(|report| String::from_utf8_lossy(&report.printed)).unwrap_or_default();
    text.push_str(&printed);
    if !printed.is_empty() && !printed.ends_with('\n') {
        text.push('\n');
    }
    if status != Status::Refused {
        text.push_str(&shown_text(file, &first.contents));
    }
    let counters = first.report.as_ref().map(counters);
    if let (true, Some(report)) = (ok, &first.report) {
        text.push_str(&format!("{} instructions, {} multiply-adds\n", report.instructions, report.fma));
    }
    let json = json!({ "ok": ok, "device": "interp", "buffers": shown(file, &first.contents), "counters": counters,
        "resident": file.resident, "printed": printed, "violations": violations, "warnings": warnings });
    Ok(Reply { text, json, status })
}

/// The launch file with the number of resident blocks, if it does not state it and a GPU is known that has the target.
fn with_residency(
    args: &Exec,
    program: &Program,
    ptx: &str,
    target: &str,
    file: &LaunchFile,
) -> Result<LaunchFile, Failure> {
    let mut file = file.clone();
    let named = match (args.gpu, &file.gpu) {
        (Some(gpu), _) => Some(gpu),
        (None, Some(name)) => Some(Gpu::find(name).ok_or_else(|| {
            let known = Gpu::all().iter().map(|gpu| gpu.name.to_lowercase()).collect::<Vec<_>>().join(", ");
            Failure::refused(
                "launch",
                format!("{}: `{name}` is not a known GPU; one of {known}", args.launch.display()),
            )
        })?),
        (None, None) => None,
    };
    let target = target.split(',').next().and_then(|target| target.parse::<Target>().ok());
    let of_target = |target: Target| Gpu::all().iter().find(|gpu| gpu.capability == target.capability);
    let gpu = named.or_else(|| of_target(target?));
    if let (None, Some(gpu)) = (file.resident, gpu) {
        // The limits are those of the GPU, whatever older target the module is for.
        let on = Target::newest(gpu.capability).or(target);
        if let Some(on) = on {
            let count = resident(program, ptx, &file, on, gpu.processors).map_err(|error| refused(args, error))?;
            file.resident = Some(count);
        }
    }
    Ok(file)
}

fn gpu(args: &Exec, ptx: &str, mut file: LaunchFile) -> Result<Reply, Failure> {
    if file.entry.is_none() {
        // The driver finds entries by their names alone.
        let program = Program::from_text(ptx).map_err(|error| refused(args, error.into()))?;
        let known: Vec<&str> = program.entries().collect();
        match known.as_slice() {
            [one] => file.entry = Some((*one).to_string()),
            several => {
                let message = format!("the launch file names no entry; the module has {}", several.join(", "));
                return Err(Failure::refused("launch", message));
            }
        }
    }
    let device: Device = args.device.open(0)?;
    let run: GpuRun = on_gpu(&device, ptx, &file, args.opt).map_err(|error| refused(args, error))?;
    let time_ms = run.time.as_secs_f64() * 1e3;
    let text = shown_text(&file, &run.contents) + &format!("{time_ms:.3} ms on {device}\n");
    let json = json!({ "ok": true, "device": device.to_string(), "buffers": shown(&file, &run.contents),
        "counters": { "time_ms": time_ms }, "violations": [], "warnings": [] });
    Ok(Reply::fine(text, json))
}

/// The buffers to show, as JSON.
fn shown(file: &LaunchFile, contents: &[(String, Vec<u8>)]) -> Value {
    let mut all = Map::new();
    for name in file.shown() {
        let (Some(buffer), Some((_, bytes))) = (file.buffers.get(name), contents.iter().find(|(of, _)| of == name))
        else {
            continue;
        };
        let values = buffer.ty.values(bytes);
        all.insert(name.into(), json!({ "type": buffer.ty.to_string(), "shape": buffer.shape, "values": values }));
    }
    Value::Object(all)
}

fn shown_text(file: &LaunchFile, contents: &[(String, Vec<u8>)]) -> String {
    let mut text = String::new();
    for name in file.shown() {
        let (Some(buffer), Some((_, bytes))) = (file.buffers.get(name), contents.iter().find(|(of, _)| of == name))
        else {
            continue;
        };
        let most = (SHOWN * buffer.ty.bytes()).min(bytes.len());
        let first: Vec<String> = buffer.ty.values(&bytes[..most]).iter().map(Value::to_string).collect();
        let more = if most < bytes.len() { ", …" } else { "" };
        text.push_str(&format!("{name} {} {:?}: {}{more}\n", buffer.ty, buffer.shape, first.join(", ")));
    }
    text
}

/// A fault and the orders in which it was found.
struct Found<'a> {
    /// The report with the shortest interleaving, and its order.
    violation: &'a Violation,
    order: Order,
    /// All orders in which it was found.
    orders: Vec<Order>,
}

/// The faults of all orders, each once: the same rule at the same instructions, whichever of two racing accesses came second.
fn distinct<'a>(found: impl Iterator<Item = (Order, &'a Violation)>) -> Vec<Found<'a>> {
    let mut all: Vec<(BTreeSet<u32>, Found<'a>)> = Vec::new();
    for (order, violation) in found {
        let lines = accesses(&violation.site);
        let same = |(at, one): &&mut (BTreeSet<u32>, Found<'a>)| {
            let (known, own) = (&one.violation, violation);
            *at == lines && known.kind == own.kind && known.site.entry == own.site.entry
        };
        let Some((_, one)) = all.iter_mut().find(same) else {
            all.push((lines, Found { violation, order, orders: vec![order] }));
            continue;
        };
        if !one.orders.contains(&order) {
            one.orders.push(order);
        }
        if violation.site.timeline.len() < one.violation.site.timeline.len() {
            (one.violation, one.order) = (violation, order);
        }
    }
    all.into_iter().map(|(_, one)| one).collect()
}

/// The lines of the instructions that break the rule together.
fn accesses(site: &Site) -> BTreeSet<u32> {
    let both = site.timeline.iter().filter(|moment| moment.kind != MomentKind::Synchronise).map(|moment| moment.line);
    both.chain(site.line).collect()
}

impl Display for Found<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.order)?;
        let others = self.orders.iter().filter(|order| **order != self.order).map(Order::to_string);
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            write!(f, " (and {})", others.join(", "))?;
        }
        write!(f, ": {}", self.violation)
    }
}

impl Found<'_> {
    fn told(&self) -> Value {
        told(self.violation, self.order, &self.orders)
    }
}

/// A broken rule as JSON: the report of one order, and all orders in which it was found.
pub(super) fn told(violation: &Violation, order: Order, orders: &[Order]) -> Value {
    let Site { entry, line, instruction, note, block, threads, address, label, timeline } = &*violation.site;
    let moments: Vec<Value> = timeline
        .iter()
        .map(|moment| {
            let kind = match moment.kind {
                MomentKind::FirstAccess => "first access",
                MomentKind::SecondAccess => "second access",
                _ => "synchronises",
            };
            json!({ "what": kind, "block": moment.block, "thread": moment.thread, "line": moment.line,
                    "instruction": moment.instruction })
        })
        .collect();
    json!({
        "rule": violation.kind.name(),
        "message": violation.message,
        "entry": entry,
        "line": line,
        "instruction": instruction,
        "clause": note.as_ref().map(|note| note.clause.to_string()),
        "block": block,
        "threads": threads,
        "address": address,
        "allocation": label,
        "order": order.to_string(),
        "orders": orders.iter().map(Order::to_string).collect::<Vec<_>>(),
        "timeline": moments,
    })
}

fn counters(report: &Report) -> Value {
    let mut all = json!({ "instructions": report.instructions, "fma": report.fma, "mad": report.mad });
    if let (Some(cost), Value::Object(all)) = (&report.cost, &mut all) {
        let mix = &cost.mix;
        all.insert("barriers".into(), json!(mix.barrier));
        all.insert("bank_conflicts".into(), json!(cost.shared_loads.conflicts() + cost.shared_stores.conflicts()));
        all.insert("global_load_sectors".into(), json!(cost.global_loads.sectors));
        all.insert("global_store_sectors".into(), json!(cost.global_stores.sectors));
        all.insert("bytes_read".into(), json!(cost.bytes_read()));
        all.insert("bytes_written".into(), json!(cost.bytes_written()));
    }
    all
}
