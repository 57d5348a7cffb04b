//! `gemmc run`: multiply, and compare every element with a reference.

use std::time::Duration;

use indicatif::ProgressBar;
use ptx_gemm::{Batch, CompiledGemm, Problem};
use ptx_gemm_check::{Data, Leading, Outcome, Output, Request, Verdict, check};
use serde_json::json;

use crate::cli::{DeviceName, Run};
use crate::reply::{Failure, Format, Reply, contract};
use crate::source;

pub(crate) fn run(args: &Run, format: Format) -> Result<Reply, Failure> {
    if args.misalign > 0 && matches!(args.device, DeviceName::Cuda(_)) {
        let message = "--misalign is for the interpreter: memory of a GPU is aligned";
        return Err(Failure::refused("usage", message));
    }
    let (loaded, device) = source::load_on(&args.compile, || Ok(args.device.open(args.misalign)?))?;
    let gemm = loaded.on(&device)?;
    let batch = gemm.problem().batch;
    if !args.group.is_empty() && batch != Batch::Grouped {
        return Err(Failure::refused(
            "--group",
            format!("--group is for batch(grouped), and the schedule computes {batch}"),
        ));
    }
    unambiguous(args, gemm.problem())?;
    let request = request(args, gemm.problem());
    let outcome = watched(format, || check(&gemm, &request))?;
    Ok(reply(&request, &gemm, &outcome))
}

/// Values of the epilogue's scalars, in the order of the arguments that state them.
fn scalars(args: &Run) -> Vec<(String, f64)> {
    let mut scalars: Vec<(String, f64)> = Vec::new();
    scalars.extend(args.alpha.map(|value| ("alpha".into(), value)));
    scalars.extend(args.beta.map(|value| ("beta".into(), value)));
    scalars.extend(args.set.iter().cloned());
    scalars
}

/// Rejects arguments that would be ignored: a second value of a scalar, and arguments about a C that the epilogue does not read.
fn unambiguous(args: &Run, problem: &Problem) -> Result<(), Failure> {
    let mut seen: Vec<(String, f64)> = Vec::new();
    for (name, value) in scalars(args) {
        if let Some((_, first)) = seen.iter().find(|(known, _)| *known == name) {
            return Err(Failure::refused(
                "argument",
                format!("`{name}` is set twice, to {first} and to {value}: once is enough"),
            ));
        }
        seen.push((name, value));
    }
    let of_c = [("--ldc", args.ldc.is_some()), ("--in-place", args.in_place)];
    let unread = of_c.into_iter().find(|(_, given)| *given && !problem.epilogue.uses_c());
    if let Some((argument, _)) = unread {
        let message =
            format!("{argument} is about C, which the epilogue does not read: epilogue(|acc, c| acc + c) does");
        return Err(Failure::refused("argument", message));
    }
    if let (true, Some(ldc), Some(ldd)) = (args.in_place, args.ldc, args.ldd)
        && ldc != ldd
    {
        let message = format!(
            "--in-place makes C and D one matrix, which cannot have --ldc {ldc} and --ldd {ldd}: write one of them"
        );
        return Err(Failure::refused("argument", message));
    }
    let (types, layouts) = (&problem.types, &problem.layouts);
    if args.in_place && (types.c, layouts.c) != (types.d, layouts.d) {
        let message = format!(
            "--in-place reads C from D, and the schedule has c = {} {}, d = {} {}: leave it out, or give both one type and layout",
            types.c, layouts.c, types.d, layouts.d
        );
        return Err(Failure::refused("argument", message));
    }
    Ok(())
}

fn request(args: &Run, problem: &Problem) -> Request {
    let scalars = scalars(args);
    // In place there is one matrix, whichever of its names is used.
    let d = args.ldd.or(args.ldc.filter(|_| args.in_place));
    Request {
        m: args.m,
        n: args.n,
        k: args.k,
        batch: args.batch.unwrap_or(if problem.batch == Batch::Strided { 3 } else { 1 }),
        others: args.group.clone(),
        gap: 0,
        multiple: 1,
        leading: Leading { a: args.lda, b: args.ldb, c: args.ldc, d },
        data: match (args.exact, args.special) {
            (true, _) => Data::Exact,
            (false, true) => Data::Special,
            (false, false) => Data::Random,
        },
        seed: args.seed,
        scalars,
        output: if args.in_place { Output::InPlace } else { Output::Apart },
    }
}

/// Shows progress if standard error is a terminal.
fn watched<T>(format: Format, work: impl FnOnce() -> T) -> T {
    if format == Format::Json {
        return work();
    }
    let spinner = ProgressBar::new_spinner().with_message("multiplying and checking");
    spinner.enable_steady_tick(Duration::from_millis(200));
    let result = work();
    spinner.finish_and_clear();
    result
}

fn reply(request: &Request, gemm: &CompiledGemm, outcome: &Outcome) -> Reply {
    let (run, verdict) = (&outcome.run, outcome.verdict());
    let Request { m, n, k, batch, others, .. } = request;
    let time_ms = run.time.as_secs_f64() * 1e3;
    let entry = run.entry.as_deref().unwrap_or("none, there is nothing to compute");
    let mut text = format!("device     {}\nentry      {entry}\n", gemm.device());
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let blocks = match run.products {
        0 | 1 => format!("in {} blocks", run.blocks),
        products => format!("by {products} products, the last one in {} blocks", run.blocks),
    };
    text.push_str(&format!("size       {m} x {n} x {k}{more}: {} elements {blocks}\n", outcome.elements()));
    if run.products > 1 {
        let (launches, bytes) = (run.launches, run.workspace_bytes);
        text.push_str(&format!("launches   {launches}, with a workspace of {bytes} bytes\n"));
    }
    if outcome.compared > 0 {
        text.push_str(&format!("max error  {:.6} of the bound\n", outcome.max_error));
    }
    text.push_str(&format!("time       {time_ms:.3} ms\n"));
    for note in &run.notes {
        text.push_str(&format!("note       {note}\n"));
    }
    text.push_str(&told(outcome));
    let worst = outcome.worst.map(|worst| {
        json!({ "row": worst.row, "col": worst.col, "got": number(worst.got), "expected": number(worst.expected),
            "bound": number(worst.bound) })
    });
    let contracts: Vec<_> = gemm.contracts().iter().map(contract).collect();
    let counts = run.counts.as_ref().map(|counts| json!({ "instructions": counts.instructions, "fma": counts.fma }));
    let json = json!({
        "device": gemm.device().to_string(),
        "target": gemm.interface().target.to_string(),
        "entry": run.entry,
        "m": m,
        "n": n,
        "k": k,
        "batch": batch,
        "group": others.iter().map(|size| [size.m, size.n, size.k]).collect::<Vec<_>>(),
        "ok": verdict.holds(),
        "verdict": verdict,
        "elements": outcome.elements(),
        "compared": outcome.compared,
        "not_compared": outcome.left_out(),
        "max_error": outcome.max_error.min(f64::MAX),
        "bound": 1,
        "time_ms": time_ms,
        "blocks": run.blocks,
        "products": run.products,
        "launches": run.launches,
        "workspace_bytes": run.workspace_bytes,
        "padding_intact": outcome.padding_intact,
        "worst": worst,
        "counts": counts,
        "notes": run.notes,
        "contracts": contracts,
    });
    Reply { text, json, status: verdict.into() }
}

/// The verdict, and what it does not cover.
fn told(outcome: &Outcome) -> String {
    let verdict = outcome.verdict();
    match (verdict, outcome.left_out()) {
        (Verdict::Wrong, _) => format!("{verdict}: {outcome}\n"),
        (Verdict::Right | Verdict::Empty, None) => format!("{verdict}\n"),
        (Verdict::Right | Verdict::Empty, Some(left_out)) => {
            format!("not compared {left_out}\n{verdict}, where compared\n")
        }
        (Verdict::Uncompared, left_out) => {
            let help = match outcome.undefined {
                0 => "a smaller -k has a bound, and --exact compares integers without one",
                _ => "other scalars (--set NAME=X) or other data (--seed N) divide by something else",
            };
            format!("{verdict}: {}\nhelp: {help}\n", left_out.unwrap_or_default())
        }
    }
}

/// JSON has no infinities and no NaN: these are strings.
fn number(value: f64) -> serde_json::Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}
