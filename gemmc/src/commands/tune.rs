//! `gemmc tune`: the schedules of products, chosen by timing, in a file of entries.

use std::time::{Duration, Instant, SystemTime};

use ptx_gemm::{Kernel, Schedule, cuda, gpu_of};
use ptx_gemm_bench::pick::{Effort, POOL};
use ptx_gemm_bench::sweep::Kept;
use ptx_gemm_bench::sweep::timing::Workers;
use ptx_gemm_bench::tune::{in_turns, winner};
use ptx_gemm_check::digest;
use ptx_gemm_choose::{Entry, Gpu, Lock, Pick, target};
use ptx_gemm_dsl::table::{Group, Key};
use serde_json::{Value, json};

use super::pick::{On, Wanted, given, lock, shapes};
use super::sweep::{cuda as ordinal, workers};
use crate::cli;
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source::{self, unusable};

/// How many of those that a search found are timed in turns.
const FINALISTS: usize = 2;
/// How long these may take.
const FINAL: Duration = Duration::from_secs(30);
/// The outcome of a product that has no entry now.
const UNTIMED: &str = "nothing could be timed";

pub(crate) fn run(args: &cli::Tune, format: Format) -> Result<Reply, Failure> {
    let wanted = shapes(&args.shapes, args.given.types, args.given.layouts)?;
    let mut lock = if args.lock.exists() { lock(&args.lock)? } else { Lock::default() };
    let device = args.device.open(0)?;
    let tuning = Tuning {
        args,
        device: ordinal(args.device)?,
        gpu: gpu_of(&device),
        driver: cuda::status().map_or_else(|_| "-".into(), |status| format!("CUDA {}", status.driver)),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string()[..10].into(),
        interrupt: Interrupt::watch(),
        workers: workers(ordinal(args.device)?)?,
    };
    let bar = progress::bar(wanted.len(), format).with_message("tuning");
    let (mut text, mut products, mut status) = (String::new(), Vec::new(), Status::Fine);
    for wanted in wanted {
        if tuning.interrupt.came() {
            break;
        }
        let (line, json) = tuning.product(wanted, &mut lock)?;
        if json["outcome"] == UNTIMED {
            status = Status::Refused;
        }
        // Each entry took seconds, and the next one may be interrupted.
        let part = args.lock.with_extension("lock.part");
        source::write(&part, lock.to_string())?;
        std::fs::rename(&part, &args.lock).map_err(|error| unusable(&args.lock, error))?;
        text.push_str(&line);
        products.push(json);
        bar.inc(1);
    }
    bar.finish_and_clear();
    text.push_str(&format!("\nwrote {}: {} entries\n", args.lock.display(), lock.entries().len()));
    let json = json!({ "ok": status == Status::Fine, "gpu": tuning.gpu.name, "lock": args.lock, "products": products });
    Ok(Reply { text, json, status })
}

struct Tuning<'a> {
    args: &'a cli::Tune,
    device: usize,
    gpu: Gpu,
    driver: String,
    date: String,
    interrupt: Interrupt,
    workers: Workers<'static>,
}

impl Tuning<'_> {
    /// Searches for one product, times the best in turns with what its entry has, and keeps the winner.
    fn product(&self, wanted: Wanted, lock: &mut Lock) -> Result<(String, Value), Failure> {
        let Tuning { args, gpu, .. } = self;
        let size = wanted.size;
        let given = given(wanted, &args.given)?;
        let told = |what: &str| {
            let line = format!("{size} {}: {what}\n", given.one_line());
            let json = json!({ "size": size.to_string(), "given": given.one_line(), "outcome": what });
            Ok((line, json))
        };
        let mut entry = Entry {
            gpu: gpu.name.clone(),
            size,
            problem: given.clone(),
            chosen: Schedule::new(),
            ptx: 0,
            ms: 0.0,
            ratio: None,
            spread: 0.0,
            driver: self.driver.clone(),
            date: self.date.clone(),
            command: super::bench::command(),
        };
        let held = lock.entry_of(&entry).map(|entry| entry.schedule().one_line());
        if held.is_some() && args.missing {
            return told("has an entry");
        }
        let ranked = Pick { given: &given, size, gpu }.until(POOL, &self.interrupt.flag());
        if ranked.candidates.is_empty() {
            return told("no family computes it");
        }
        let time = Duration::from_secs(args.seconds);
        let on = On { device: self.device, gpu, time, interrupt: &self.interrupt, workers: &self.workers };
        let picked = on.picked(&ranked, Effort::Further, size, &mut Kept::nowhere())?;
        if let Some(why) = picked.timed.broken {
            return Err(Failure::refused("tune", why));
        }
        // To draw and compare a large product may take longer than the search. What has no time yet comes next, by its estimate.
        let timed = picked.candidates.iter().filter(|one| !matches!(one.timed, Some(Err(_))));
        let mut finalists: Vec<String> = held.iter().cloned().collect();
        for one in timed.map(|one| one.schedule.trim_end_matches(';').to_owned()).take(FINALISTS) {
            if !finalists.contains(&one) {
                finalists.push(one);
            }
        }
        let turns = on.with_timing(size, Instant::now() + FINAL, |timing| in_turns(&finalists, timing))?;
        let Some(won) = winner(&turns, held.as_ref().map(|_| 0)) else {
            return told(UNTIMED);
        };
        let schedule: Schedule = finalists[won.index].parse()?;
        entry.chosen = chosen(&schedule, &given);
        entry.ptx = ptx(&schedule, gpu)?;
        (entry.ms, entry.ratio, entry.spread) = (won.ms, won.ratio, won.spread);
        let outcome = match (&held, won.index) {
            (None, _) => "new",
            (Some(_), 0) => "kept",
            (Some(_), _) => "replaced",
        };
        let ratio = won.ratio.map_or(String::new(), |ratio| format!(", {ratio:.3} of cuBLAS"));
        let (given, chosen) = (given.one_line(), entry.chosen.one_line());
        let line = format!(
            "{size} {given}: {outcome}, {:.5} ms{ratio}, spread {:.1}%: {chosen}\n",
            won.ms,
            100.0 * won.spread
        );
        let json = json!({
            "size": size.to_string(), "given": given, "outcome": outcome, "ms": won.ms, "ratio": won.ratio, "spread": won.spread,
            "schedule": chosen,
        });
        lock.set(entry);
        Ok((line, json))
    }
}

/// The clauses of a schedule that were not given.
fn chosen(schedule: &Schedule, given: &Schedule) -> Schedule {
    let keys: Vec<Key> = given.clauses().map(|clause| clause.key()).collect();
    let states = |key: Key| key.group() == Group::Problem || keys.contains(&key);
    schedule.clauses().filter(|clause| !states(clause.key())).cloned().fold(Schedule::new(), Schedule::clause)
}

/// The digest of the PTX that a schedule has on a GPU.
pub(super) fn ptx(schedule: &Schedule, gpu: &Gpu) -> Result<u64, ptx_gemm::Error> {
    Ok(digest(Kernel::compile(schedule, target(schedule, gpu))?.ptx()))
}
