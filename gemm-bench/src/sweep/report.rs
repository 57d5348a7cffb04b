//! Reports a sweep: a table for the terminal, JSON, CSV.

use serde_json::{Value, json};

use crate::suites::Size;
use crate::sweep::{Candidate, Group, Outcome, SweepError};

/// Milliseconds to TFLOP/s.
fn tflops(size: Size, ms: f64) -> f64 {
    size.operations() / ms / 1e9
}

/// The table: the first `top` candidates, the illegal combinations with their reasons, and the best schedule as
/// clauses.
pub fn text(outcome: &Outcome, size: Size, gpu: &str, top: usize) -> String {
    let (judged, legal) = (outcome.judged(), outcome.legal.len());
    let of =
        if outcome.combinations == judged.into() { String::new() } else { format!(" of {}", outcome.combinations) };
    let plural = if outcome.combinations == 1 { "" } else { "s" };
    let mut text = format!("{judged}{of} combination{plural}, {legal} of them legal\n");
    if legal > 0 {
        let shown = table(&outcome.legal[..top.min(legal)], size);
        text.push_str(&format!("\n{size}, estimated for an {gpu}\n\n{shown}"));
        if legal > top {
            text.push_str(&format!("and {} more\n", legal - top));
        }
    }
    if !outcome.illegal.is_empty() {
        text.push_str("\nillegal\n");
        outcome.illegal.iter().for_each(|group| text.push_str(&illegal(group)));
    }
    if let Some(best) = outcome.legal.first().filter(|best| !matches!(best.timed, Some(Err(_)))) {
        text.push_str(&format!("\nthe best, as clauses\n\n{}\n", best.schedule.replace("; ", ";\n")));
    }
    text
}

/// A table of candidates in the order of a slice.
pub fn table(candidates: &[Candidate], size: Size) -> String {
    let lines = candidates.iter().enumerate().map(|(rank, candidate)| line(rank + 1, candidate, size));
    std::iter::once(heading()).chain(lines).map(|line| line + "\n").collect()
}

/// The heads of the columns of [`line`], which ends with text of any length. In a table of comfy-table, every line would be as
/// long as the longest schedule.
fn heading() -> String {
    format!(
        "{:>4} {:>10} {:>7} {:>10} {:>7} {:>6} {:<12} {:>3} {:>6} {:>5}  schedule",
        "", "est. ms", "TFLOP/s", "ms", "TFLOP/s", "ratio", "bound", "r", "waves", "ld/f"
    )
}

fn line(rank: usize, candidate: &Candidate, size: Size) -> String {
    let estimate = &candidate.estimate;
    let measured = candidate.timed.as_ref().and_then(|timed| timed.as_ref().ok());
    let dash = || "-".to_string();
    let ms = measured.map_or_else(dash, |measured| format!("{:.4}", measured.ms));
    let speed = measured.map_or_else(dash, |measured| format!("{:.2}", tflops(size, measured.ms)));
    let ratio = measured.and_then(|measured| measured.ratio).map_or_else(dash, |ratio| format!("{ratio:.3}"));
    let bound = format!("{} {:.0}%", estimate.bound, 100.0 * estimate.share);
    let failed = match &candidate.timed {
        Some(Err(failed)) => format!("  {:?}: {}", failed.how, failed.what).to_lowercase(),
        _ => String::new(),
    };
    format!(
        "{rank:>4} {:>10.4} {:>7.2} {ms:>10} {speed:>7} {ratio:>6} {bound:<12} {:>3} {:>6.2} {:>5.3}  {}{failed}",
        estimate.ms,
        tflops(size, estimate.ms),
        estimate.resident_blocks,
        estimate.waves,
        estimate.loads_per_fma,
        candidate.schedule,
    )
}

fn illegal(group: &Group) -> String {
    let Group { rule, count, example, reason, .. } = group;
    let example = example.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{count:>8}  {rule}: {reason}\n          such as {example}\n")
}

/// A candidate as an object.
pub fn candidate(rank: usize, candidate: &Candidate) -> Value {
    let mut row = json!({
        "rank": rank,
        "index": number(candidate.index),
        "schedule": candidate.schedule,
        "estimate": candidate.estimate,
        "measured": null,
        "failed": null,
    });
    match &candidate.timed {
        Some(Ok(measured)) => row["measured"] = json!(measured),
        Some(Err(failed)) => row["failed"] = json!(failed),
        None => {}
    }
    row
}

/// One object: the counts, the first `top` candidates, the illegal groups.
pub fn json(outcome: &Outcome, size: Size, gpu: &str, top: usize) -> Value {
    let group = |group: &Group| {
        json!({
            "rule": group.rule,
            "count": group.count,
            "example": group.example,
            "message": group.reason.message,
            "help": group.reason.help,
        })
    };
    json!({
        "combinations": number(outcome.combinations),
        "judged": outcome.judged(),
        "legal": outcome.legal.len(),
        "m": size.m, "n": size.n, "k": size.k, "batch": size.batch,
        "gpu": gpu,
        "best": outcome.legal.first().map(|best| &best.schedule),
        "candidates": outcome.legal.iter().take(top).enumerate().map(|(rank, one)| candidate(rank + 1, one)).collect::<Vec<_>>(),
        "illegal": outcome.illegal.iter().map(group).collect::<Vec<_>>(),
    })
}

/// A number of combinations: beyond 2^64, the nearest f64.
fn number(combinations: u128) -> Value {
    u64::try_from(combinations).map_or_else(|_| json!(combinations as f64), Value::from)
}

/// One line for each candidate of each product.
///
/// # Errors
///
/// Returns an error if the CSV cannot be written, which only happens when memory runs out.
pub fn csv<'c>(products: impl IntoIterator<Item = (Size, &'c [Candidate])>) -> Result<String, String> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let columns = [
        "rank",
        "schedule",
        "m",
        "n",
        "k",
        "batch",
        "estimated_ms",
        "bound",
        "resident_blocks",
        "waves",
        "loads_per_fma",
        "passes_per_fma",
        "bank_conflicts",
        "sectors_per_load",
        "ms",
        "tflops",
        "cublas_ms",
        "ratio",
        "spread",
        "failed",
    ];
    csv.write_record(columns).map_err(|error| error.to_string())?;
    let ranked =
        products.into_iter().flat_map(|(size, all)| all.iter().enumerate().map(move |(rank, one)| (size, rank, one)));
    for (size, rank, candidate) in ranked {
        let estimate = &candidate.estimate;
        let measured = candidate.timed.as_ref().and_then(|timed| timed.as_ref().ok());
        let failed = candidate.timed.as_ref().and_then(|timed| timed.as_ref().err());
        let figure = |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
        csv.write_record([
            (rank + 1).to_string(),
            candidate.schedule.clone(),
            size.m.to_string(),
            size.n.to_string(),
            size.k.to_string(),
            size.batch.to_string(),
            estimate.ms.to_string(),
            estimate.bound.to_string(),
            estimate.resident_blocks.to_string(),
            estimate.waves.to_string(),
            estimate.loads_per_fma.to_string(),
            estimate.passes_per_fma.to_string(),
            estimate.bank_conflicts.to_string(),
            estimate.sectors_per_load.to_string(),
            figure(measured.map(|measured| measured.ms)),
            figure(measured.map(|measured| tflops(size, measured.ms))),
            figure(measured.and_then(|measured| measured.cublas_ms)),
            figure(measured.and_then(|measured| measured.ratio)),
            figure(measured.map(|measured| measured.spread)),
            failed.map_or(String::new(), |failed| failed.what.clone()),
        ])
        .map_err(|error| error.to_string())?;
    }
    let bytes = csv.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// The message for too many combinations.
pub fn advice(error: &SweepError) -> Option<String> {
    matches!(error, SweepError::TooMany(_))
        .then(|| "judge some of them: --sample 10000, another set with --seed 2".into())
}
