//! `gemmc fuzz`: random legal schedules at random sizes, for the requested time; with `--fixes` random wrong ones.

mod fixes;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ptx_gemm::DeviceKind;
use ptx_gemm_check::draws::{Fate, Runs, Tally, execute, for_all};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::cli::Fuzz;
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};

/// The default number of pairs.
const COUNT: usize = 1000;

/// Draws that each thread executes before the results are counted.
const PER_THREAD: usize = 4;

/// The number of consecutive draws without the requested clause after which the search ends.
const NEVER: usize = 3000;

/// The number of failures after which the run stops: each is shrunk, which takes many times as long as a draw.
const ENOUGH: usize = 8;

pub(crate) fn run(args: &Fuzz, format: Format) -> Result<Reply, Failure> {
    if args.fixes {
        return fixes::run(args, format);
    }
    let device = args.device.open(0)?;
    let runs = match (device.kind() == DeviceKind::Interpreter, args.order) {
        (true, None) => Runs::AsDrawn,
        (true, Some(orders)) => Runs::Each(orders),
        (false, None) => Runs::On(&device),
        (false, Some(_)) => {
            return Err(Failure::refused("usage", "a GPU chooses its order by itself: --order is for --device interp"));
        }
    };
    let start = Instant::now();
    let pairs = args.count.unwrap_or(if args.seconds.is_some() { usize::MAX } else { COUNT });
    let limit = args.seconds.map_or(Duration::MAX, Duration::from_secs);
    let bar = progress::bar(0, format);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    let (mut seed, mut last) = (args.seed, args.seed);
    let (dead, mut at_fault) = (AtomicBool::new(false), Vec::new());
    let interrupt = Interrupt::watch();
    let going_on = |dead: &AtomicBool| !dead.load(Ordering::Relaxed) && !interrupt.came();
    while tally.pairs < pairs && start.elapsed() < limit && failures.len() < ENOUGH && going_on(&dead) {
        let batch = next(&mut seed, args.with.as_deref(), rayon::current_num_threads() * PER_THREAD)?;
        let fates = batch.par_iter().with_max_len(1).map(|seed| match dead.load(Ordering::Relaxed) {
            true => None,
            false => Some(fate_of(*seed, args.with.as_deref(), runs, &dead)),
        });
        let drawn: Vec<Option<Result<Fate, String>>> = fates.collect();
        for (seed, drawn) in batch.into_iter().zip(drawn) {
            // What the rest of the batch did after that would depend on the number of threads.
            if tally.pairs >= pairs || failures.len() >= ENOUGH {
                break;
            }
            let Some(drawn) = drawn else { continue };
            last = seed;
            match drawn {
                Ok(fate) => {
                    tally.add(&fate);
                    at_fault.extend((fate == Fate::Lost).then_some(seed));
                }
                Err(what) => {
                    bar.suspend(|| {
                        if format == Format::Text {
                            eprintln!("{what}")
                        }
                    });
                    failures.push(json!({ "seed": seed, "what": what }));
                }
            }
        }
        bar.set_message(format!("seed {last}: {} pairs, {} failures", tally.pairs, failures.len()));
        let (done, all) = match args.seconds {
            Some(seconds) => (start.elapsed().as_secs(), seconds),
            None => (tally.pairs as u64, pairs as u64),
        };
        bar.set_length(all);
        bar.set_position(done);
    }
    bar.finish_and_clear();
    let status = match failures.is_empty() && at_fault.is_empty() {
        false => Status::Wrong,
        true if interrupt.came() => Status::Refused,
        true if tally.pairs == 0 => Status::Uncompared,
        true => Status::Fine,
    };
    let report = json!({
        "ok": status == Status::Fine,
        "device": device.to_string(),
        "first_seed": args.seed,
        "last_seed": last,
        "draws": tally.draws + failures.len(),
        "pairs": tally.pairs,
        "empty": tally.empty,
        "not_compared": tally.uncompared,
        "refused": tally.refused,
        "failures": failures,
        "lost": at_fault,
        "interrupted": interrupt.came(),
        "seconds": start.elapsed().as_secs(),
        "command": command(args),
    });
    keep(args, &report)?;
    let mut text = format!(
        "{} draws on {device}, seeds {} to {}: {} pairs were right, {} schedules refused, {} draws failed\n",
        tally.draws + failures.len(),
        args.seed,
        last,
        tally.pairs,
        tally.refusals(),
        failures.len()
    );
    if tally.empty > 0 {
        text.push_str(&format!("{} more pairs have no elements of D\n", tally.empty));
    }
    if tally.uncompared > 0 {
        let why = "their data leave every element undefined, or without a bound";
        text.push_str(&format!("{} more pairs were not compared: {why}\n", tally.uncompared));
    }
    if interrupt.came() {
        text.push_str("interrupted\n");
    }
    if tally.pairs == 0 {
        text.push_str("NOT COMPARED: no draw led to a product with elements to compare\n");
    }
    let again =
        |seed: &Value| format!("seed {seed} again: gemmc fuzz --seed {seed} --count 1 --device {}\n", args.device);
    text.extend(failures.iter().map(|failure| again(&failure["seed"])));
    if !at_fault.is_empty() {
        text.push_str(
            "the GPU's context died while these draws ran as well, so that one of them may be at fault instead:\n",
        );
        text.extend(at_fault.iter().map(|seed| again(&json!(seed))));
    }
    Ok(Reply { text, json: report, status })
}

/// The seeds of the next draws that have the clause, if one is asked for. Every draw has its own seed, which is enough to
/// reproduce it.
fn next(seed: &mut u64, with: Option<&str>, count: usize) -> Result<Vec<u64>, Failure> {
    let (mut seeds, mut lacking) = (Vec::new(), 0);
    while seeds.len() < count {
        if with.is_none_or(|clause| draws(*seed, clause)) {
            seeds.push(*seed);
            lacking = 0;
        } else {
            lacking += 1;
        }
        *seed = seed.wrapping_add(1);
        if let (Some(clause), NEVER) = (with, lacking) {
            return Err(Failure::refused("usage", format!("{NEVER} random schedules in a row lack `{clause}`")));
        }
    }
    Ok(seeds)
}

/// Whether the schedule of a draw has a clause.
fn draws(seed: u64, clause: &str) -> bool {
    let found = Cell::new(false);
    let drawn = for_all(1, seed, |draw| {
        found.set(has(&draw.schedule, clause));
        Ok(())
    });
    drawn.is_ok() && found.get()
}

/// Executes a draw. The smallest failing draw has the clause, too. If the GPU's context has died, no smaller one is searched,
/// and `dead` is set.
fn fate_of(seed: u64, with: Option<&str>, runs: Runs<'_>, dead: &AtomicBool) -> Result<Fate, String> {
    let fate = Cell::new(None);
    for_all(1, seed, |draw| {
        if with.is_none_or(|clause| has(&draw.schedule, clause)) {
            let drawn = execute(draw, runs)?;
            dead.fetch_or(drawn == Fate::Lost, Ordering::Relaxed);
            fate.set(Some(drawn));
        }
        Ok(())
    })?;
    Ok(fate.into_inner().unwrap_or(Fate::Refused("nothing was drawn")))
}

/// Writes the report to the requested file.
fn keep(args: &Fuzz, report: &Value) -> Result<(), Failure> {
    let Some(path) = &args.out else { return Ok(()) };
    let written = std::fs::write(path, format!("{report:#}\n"));
    written.map_err(|error| Failure::refused("file", format!("{}: {error}", path.display())))
}

/// The command that reproduces a draw.
fn command(args: &Fuzz) -> String {
    let amount = match (args.seconds, args.count) {
        (Some(seconds), _) => format!("--seconds {seconds}"),
        (None, count) => format!("--count {}", count.unwrap_or(COUNT)),
    };
    let with = match &args.with {
        Some(clause) if clause.contains(['(', ' ']) => format!(" --with '{clause}'"),
        Some(clause) => format!(" --with {clause}"),
        None => String::new(),
    };
    let order = args.order.map_or(String::new(), |orders| format!(" --order {orders}"));
    format!("gemmc fuzz --seed {} {amount}{with}{order} --device {}", args.seed, args.device)
}

/// Whether a schedule has a clause, or an argument of a clause, that begins with these words.
fn has(schedule: &str, words: &str) -> bool {
    let of = |text: &str| {
        let rest = text.trim_start().strip_prefix(words);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    let arguments = |clause: &str| clause.split(['(', ',']).skip(1).any(of);
    schedule.split(';').any(|clause| of(clause) || arguments(clause))
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn clauses_and_arguments_are_found_by_their_first_words() {
        let schedule = "tile(64, 64, 8); load(tma); stages(3); specialize(producers = 1, pingpong); stream_k";
        for words in ["tile", "load", "load(tma)", "tma", "specialize(producers", "pingpong", "stream_k"] {
            assert!(has(schedule, words), "{words}");
        }
        for words in ["til", "tm", "stream", "load(tm", "cluster", "stage"] {
            assert!(!has(schedule, words), "{words}");
        }
    }
}
