//! `gemmc ablate`: what each clause of a schedule contributes.

use ptx_gemm::{Device, Target};
use ptx_gemm_bench::Program;
use ptx_gemm_bench::session::Reason;
use ptx_gemm_bench::suites::{Named, Size};
use ptx_gemm_bench::timing::{Untimed, time};
use ptx_gemm_check::ablate::{Ablated, ablate};
use ptx_gemm_check::figures::{Figures, Measure, table};
use ptx_gemm_check::ladder::Timing;
use serde_json::{Value, json};

use crate::cli::Ablate;
use crate::commands::profile::{assembler, opened, status_of};
use crate::reply::{Failure, Reply, Status};
use crate::source::{self, Loaded};

/// Printed for a figure that equals the unchanged schedule's.
const SAME: &str = "=";

/// Times of the unchanged schedule and of its variants.
type Times = Vec<Result<Timing, Untimed>>;

pub(crate) fn run(args: &Ablate) -> Result<Reply, Failure> {
    let (loaded, gpu) = opened(&args.compile, args.device)?;
    let name = loaded.name().to_string();
    let Loaded::Schedule { schedule, plan, .. } = loaded else {
        let message = "clauses are dropped from a schedule; a .tile file has none";
        return Err(Failure::refused("ablate", message));
    };
    let assembler = assembler(args.wait.0);
    let (own, all) = ablate(&schedule, Some(plan.target), assembler.as_ref(), args.wait.0)?;
    let times = gpu.map(|gpu| measured(&gpu, args, plan.target, &schedule, &all)).unwrap_or_default();
    let verdicts = all.iter().filter_map(|one| one.figures.as_ref().ok()).map(|figures| figures.verdict);
    let counted = verdicts.chain([own.verdict]).map(Status::from);
    let timed = times.iter().filter_map(|timing| timing.as_ref().err()).map(status_of);
    let status = counted.chain(timed).fold(Status::Fine, Status::worse);
    let json = json!({
        "name": name,
        "target": plan.target.to_string(),
        "schedule": { "figures": own, "timing": times.first().and_then(|timing| timing.as_ref().ok()) },
        "variants": all.iter().enumerate().map(|(index, one)| variant(one, times.get(index + 1))).collect::<Vec<_>>(),
    });
    Ok(Reply { text: text(&name, &own, &all, &times), json, status })
}

/// All legal ones in one session, so that the ratios are measured at the same clock.
fn measured(gpu: &Device, args: &Ablate, target: Target, schedule: &ptx_gemm::Schedule, all: &[Ablated]) -> Times {
    let named = |(name, schedule): (String, &ptx_gemm::Schedule)| Named {
        name,
        program: Program::Schedule(source::for_target(schedule, target)),
    };
    let legal = |(index, one): (usize, &'_ Ablated)| one.figures.is_ok().then_some(index);
    let own = std::iter::once(named(("0".into(), schedule)));
    let indices: Vec<usize> = all.iter().enumerate().filter_map(legal).collect();
    let variants = indices.iter().map(|&index| named(((index + 1).to_string(), &all[index].variant.schedule)));
    let size = Size { m: args.size, n: args.size, k: args.size, batch: 1 };
    let timed = time(gpu, own.chain(variants).collect(), size, args.seconds.0);
    let illegal = Untimed { reason: Reason::Refused, what: "illegal".into() };
    let mut times: Times = vec![Err(illegal); all.len() + 1];
    let places = std::iter::once(0).chain(indices.iter().map(|index| index + 1));
    places.zip(timed.timings).for_each(|(place, timing)| times[place] = timing);
    times
}

fn variant(one: &Ablated, timing: Option<&Result<Timing, Untimed>>) -> Value {
    let timing = timing.filter(|_| one.figures.is_ok());
    json!({
        "clause": one.variant.clause,
        "changed": one.variant.changed,
        "schedule": one.variant.schedule.to_string(),
        "figures": one.figures.as_ref().ok(),
        "illegal": one.figures.as_ref().err(),
        "timing": timing.and_then(|timing| timing.as_ref().ok()),
        "not_timed": timing.and_then(|timing| timing.as_ref().err()).map(ToString::to_string),
    })
}

fn text(name: &str, own: &Figures, all: &[Ablated], times: &Times) -> String {
    let [m, n, k] = own.size;
    let measures = own.measures();
    let mut text =
        format!("{name} for {}, counted on whole tiles (as it is {m} x {n} x {k}); `{SAME}`: as it is\n\n", own.target);
    // An empty column is left out.
    let of = |figures: &Figures| figures.measures();
    let known: Vec<usize> = (0..measures.len())
        .filter(|&index| {
            let mut legal = all.iter().filter_map(|one| one.figures.as_ref().ok());
            measures[index].value.is_some() || legal.any(|figures| of(figures)[index].value.is_some())
        })
        .collect();
    let mut head = vec!["schedule"];
    head.extend(known.iter().map(|&index| measures[index].short));
    if !times.is_empty() {
        head.extend(["ms", "time"]);
    }
    let mut rows = vec![row("as it is", &measures, None, &known)];
    let legal = all.iter().enumerate().filter_map(|(index, one)| one.figures.as_ref().ok().map(|of| (index, one, of)));
    let mut places = vec![0];
    for (index, one, figures) in legal {
        rows.push(row(&one.variant.name(), &of(figures), Some(&measures), &known));
        places.push(index + 1);
    }
    let base = times.first().and_then(|timing| timing.as_ref().ok()).map(|timing| timing.ms);
    for (row, place) in rows.iter_mut().zip(places).filter(|_| !times.is_empty()) {
        let ms = times[place].as_ref().ok().map(|timing| timing.ms);
        row.push(ms.map_or("-".into(), |ms| format!("{ms:.4}")));
        row.push(ms.zip(base).map_or("-".into(), |(ms, base)| format!("x{:.3}", ms / base)));
    }
    text.push_str(&table(head, rows));
    let unassembled =
        all.iter().filter_map(|one| one.figures.as_ref().ok()).filter(|of| of.assembled.is_none()).count();
    if unassembled > 0 && own.assembled.is_some() {
        text.push_str(&format!("\n{unassembled} were not assembled in the time for it; a larger --wait is longer\n"));
    }
    let illegal: Vec<String> = all
        .iter()
        .filter_map(|one| Some(format!("  {}: {}\n", one.variant.name(), one.figures.as_ref().err()?)))
        .collect();
    if !illegal.is_empty() {
        text.push_str(&format!("\nillegal\n{}", illegal.concat()));
    }
    text
}

fn row(name: &str, measures: &[Measure], own: Option<&[Measure]>, known: &[usize]) -> Vec<String> {
    let cell = |&index: &usize| match own {
        Some(own) if own[index].value.is_some() && own[index].text() == measures[index].text() => SAME.into(),
        _ => measures[index].text(),
    };
    std::iter::once(name.to_string()).chain(known.iter().map(cell)).collect()
}
