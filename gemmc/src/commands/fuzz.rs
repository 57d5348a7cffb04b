//! `gemmc fuzz`: random legal schedules at random sizes, for the requested time; with `--fixes` random wrong ones.

mod fixes;

use std::time::{Duration, Instant};

use ptx_gemm::DeviceKind;
use ptx_gemm_check::draws::{Fate, Runs, Tally, execute, for_all};
use serde_json::{Value, json};

use crate::cli::Fuzz;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};

/// The default number of pairs.
const COUNT: usize = 1000;

/// The number of draws in a row that lack the clause asked for, after which no draw is expected to have it.
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
    let (mut seed, mut lacking) = (args.seed, 0);
    while tally.pairs < pairs && start.elapsed() < limit && failures.len() < ENOUGH {
        // Every draw has its own seed, which is enough to reproduce it.
        let fate = std::cell::RefCell::new(None);
        let drawn = for_all(1, seed, |draw| {
            if args.with.as_ref().is_some_and(|clause| !has(&draw.schedule, clause)) {
                return Ok(());
            }
            *fate.borrow_mut() = Some(execute(draw, runs)?);
            Ok(())
        });
        match (drawn, fate.into_inner()) {
            (Ok(()), Some(fate)) => {
                lacking = 0;
                tally.add(&fate);
            }
            (Ok(()), None) => match &args.with {
                None => tally.add(&Fate::Refused("nothing was drawn")),
                Some(clause) if lacking == NEVER => {
                    return Err(Failure::refused(
                        "usage",
                        format!("{NEVER} random schedules in a row lack `{clause}`"),
                    ));
                }
                Some(_) => lacking += 1,
            },
            (Err(what), _) => {
                bar.suspend(|| {
                    if format == Format::Text {
                        eprintln!("{what}")
                    }
                });
                failures.push(json!({ "seed": seed, "what": what }));
            }
        }
        bar.set_message(format!("seed {seed}: {} pairs, {} failures", tally.pairs, failures.len()));
        let (done, all) = match args.seconds {
            Some(seconds) => (start.elapsed().as_secs(), seconds),
            None => (tally.pairs as u64, pairs as u64),
        };
        bar.set_length(all);
        bar.set_position(done);
        seed = seed.wrapping_add(1);
    }
    bar.finish_and_clear();
    let report = json!({
        "ok": failures.is_empty(),
        "device": device.to_string(),
        "first_seed": args.seed,
        "last_seed": seed.wrapping_sub(1),
        "draws": tally.draws + failures.len(),
        "pairs": tally.pairs,
        "refused": tally.refused,
        "failures": failures,
        "seconds": start.elapsed().as_secs(),
        "command": command(args),
    });
    keep(args, &report)?;
    let mut text = format!(
        "{} draws on {device}, seeds {} to {}: {} pairs were right, {} schedules refused, {} draws failed\n",
        tally.draws + failures.len(),
        args.seed,
        seed.wrapping_sub(1),
        tally.pairs,
        tally.refusals(),
        failures.len()
    );
    for failure in &failures {
        text.push_str(&format!("seed {} again: gemmc fuzz --seed {} --count 1\n", failure["seed"], failure["seed"]));
    }
    let status = if failures.is_empty() { Status::Fine } else { Status::Wrong };
    Ok(Reply { text, json: report, status })
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
        Some(clause) if clause.contains('(') => format!(" --with '{clause}'"),
        Some(clause) => format!(" --with {clause}"),
        None => String::new(),
    };
    let order = args.order.map_or(String::new(), |orders| format!(" --order {orders}"));
    format!("gemmc fuzz --seed {} {amount}{with}{order} --device {}", args.seed, args.device)
}

/// Whether a schedule, with a clause after each semicolon, has one that begins with these words, or one of whose arguments
/// does.
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
