//! Sweeps as a library: what is judged, what is stored, and what happens to workers that hang.

use std::cell::Cell;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ptx_gemm_bench::suites::Size;
use ptx_gemm_bench::sweep::timing::{self, Timing, Workers};
use ptx_gemm_bench::sweep::worker::{self, Answer, Request};
use ptx_gemm_bench::sweep::{Failed, Failure, Gpu, Kept, MOST, Measured, Outcome, Space, Sweep, SweepError};

const SPACE: &str = "tile({64, 96, 128}, {64, 128}, {8, 16}); thread({4, 8}, 8); vector({1, 4}); {double_buffer | }";

fn sweep(text: &str) -> Sweep {
    Sweep::new(Space::parse(text).unwrap_or_else(|errors| panic!("{errors}"))).size(Size::cube(1024))
}

fn run(sweep: &Sweep) -> Outcome {
    sweep.run(|_| ()).expect("an outcome")
}

#[test]
fn every_combination_is_judged_once() {
    let outcome = run(&sweep(SPACE));
    assert_eq!((outcome.combinations, outcome.judged()), (96, 96));
    let space = Space::parse(SPACE).expect("a space");
    let legal = |index: u128| {
        let schedule = space.combination(index).expect("one of them").schedule().expect("clauses");
        schedule.check().is_ok().then(|| schedule.to_string().trim_end().replace('\n', " "))
    };
    let mut found: Vec<_> = outcome.legal.iter().map(|one| (one.index, one.schedule.clone())).collect();
    found.sort();
    let expected: Vec<_> = (0..96).filter_map(|index| Some((index, legal(index)?))).collect();
    assert_eq!(found, expected);
    for group in &outcome.illegal {
        assert!(legal(group.index).is_none() && !group.reason.message.is_empty(), "{group:?}");
    }
    let times: Vec<f64> = outcome.legal.iter().map(|candidate| candidate.estimate.ms).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// Combinations that are skipped are counted as well.
#[test]
fn what_a_rule_forbids_is_not_looked_at() {
    let many = sweep(
        "types(bf16); {transposed | }; tile({bm: 64, 128, 192, 256}, {bn: 8..=256 step 24}, {64, 128}); atom(wgmma(64, {bn}, 16)); \
         load(tma); stages({2..=12 step 5}); {cluster({2, 4}, 1); multicast(b) | cluster(1, {2, 4}); multicast(a) | }; \
         {persistent | split_k({2, 4}) | stream_k | }; {store(tma) | store(tma, memory = ring) | }; \
         {specialize(producers = 1) | specialize(producers = 1 warp)}; {raster(group = {4, 8}) | }",
    );
    let outcome = run(&many);
    assert_eq!(u128::from(outcome.judged()), outcome.combinations);
    assert!(outcome.combinations > 10_000, "{}", outcome.combinations);
}

#[test]
fn the_illegal_are_counted_with_their_reasons() {
    let outcome = run(&sweep("tile(64, 64, 8); thread({4, 8, 3, 128}, 4); vector({1, 4}); tail({predicate, none})"));
    let groups: Vec<(&str, u64)> = outcome.illegal.iter().map(|group| (group.rule.as_str(), group.count)).collect();
    assert_eq!(groups.iter().map(|(_, count)| count).sum::<u64>() + outcome.legal.len() as u64, 16);
    assert_eq!(groups.iter().map(|(_, count)| count).sum::<u64>(), 8, "{groups:?}");
    let first = &outcome.illegal[0];
    assert!(first.reason.message.contains("thread("), "{}", first.reason);
    assert!(first.example.contains("thread(3, 4)"), "{}", first.example);
    // A legal schedule that does not run this product is counted as well.
    let odd = run(&sweep("tile(64, 64, 8); thread(4, 4); tail({predicate, none})").size(Size::cube(1000)));
    assert_eq!((odd.legal.len(), odd.illegal[0].rule.as_str(), odd.illegal[0].count), (1, "size", 1));
    let other = run(&sweep("tile(64, 64, 8); thread(4, 4); target({sm_80, sm_100})"));
    assert_eq!((other.legal.len(), other.illegal[0].rule.as_str()), (1, "device"));
}

#[test]
fn too_many_are_counted_and_not_judged() {
    let text = "tile({8..=512 step 8}, {8..=512 step 8}, {1..=64}); thread({1..=16}, {1..=16});";
    let many = sweep(text);
    let begun = Instant::now();
    let Err(SweepError::TooMany(count)) = many.count() else { panic!("not refused") };
    assert_eq!(count, 64 * 64 * 64 * 256);
    assert!(count > MOST && begun.elapsed() < Duration::from_secs(1));
    let drawn = |seed| run(&many.clone().sample(300, seed));
    let outcome = drawn(1);
    assert_eq!((outcome.judged(), outcome.combinations), (300, count));
    assert_eq!(outcome, drawn(1), "the same seed draws the same");
    assert_ne!(outcome, drawn(2));
    assert_eq!(run(&sweep(SPACE).sample(1000, 1)).judged(), 96, "there are no more");
    let mut indices: Vec<u128> = run(&sweep(SPACE).sample(95, 3)).legal.iter().map(|one| one.index).collect();
    indices.sort_unstable();
    assert!(indices.is_sorted_by(|x, y| x < y), "{indices:?}");
}

/// The output of a script that replaces a worker.
fn says(answers: &[Answer]) -> String {
    answers.iter().map(|answer| format!("echo '{}'; ", serde_json::to_string(answer).expect("an answer"))).collect()
}

fn measured(ms: f64) -> Measured {
    Measured { ms, cublas_ms: Some(2.0), ratio: Some(2.0 / ms), spread: 0.01 }
}

/// Times the first four candidates with scripts, one after the other.
fn timed(scripts: &[String], kept: &mut Kept) -> (Outcome, timing::Timed, usize) {
    timed_until(scripts, kept, usize::MAX)
}

/// The same, interrupted after this many answers.
fn timed_until(scripts: &[String], kept: &mut Kept, enough: usize) -> (Outcome, timing::Timed, usize) {
    let next = Cell::new(0);
    let worker = || {
        let script = &scripts[next.get().min(scripts.len() - 1)];
        next.set(next.get() + 1);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("read -r request; {script}")]);
        command
    };
    let (outcome, told) = timed_by(&Workers::new(worker), kept, enough);
    (outcome, told, next.get())
}

fn timed_by(workers: &Workers<'_>, kept: &mut Kept, enough: usize) -> (Outcome, timing::Timed) {
    let mut outcome = run(&sweep(SPACE));
    outcome.legal.truncate(4);
    let deadline = Instant::now() + Duration::from_secs(60);
    let interrupt = AtomicBool::new(false);
    let timing = Timing {
        size: Size::cube(1024),
        gpu: Gpu::h200().clone(),
        device: "cuda:0",
        workers,
        deadline,
        patience: Duration::from_secs(2),
        interrupt: &interrupt,
    };
    let mut progress = |done| interrupt.store(done >= enough, Ordering::Relaxed);
    let told = timing::time(&mut outcome.legal, &timing, kept, &mut progress).expect("workers start");
    outcome.rank();
    (outcome, told)
}

/// One that has answered everything is asked again, unless it has ended since.
#[test]
fn a_worker_is_kept() {
    let all = (0..4).map(|index| Answer::Measured(index, measured(1.0)));
    let answers = says(&all.chain([Answer::Done]).collect::<Vec<_>>());
    for (script, expected) in [(format!("while read -r request; do {answers} done"), 1), (answers, 3)] {
        let started = Cell::new(0);
        let workers = Workers::new(|| {
            started.set(started.get() + 1);
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            command
        });
        for _ in 0..3 {
            let (outcome, told) = timed_by(&workers, &mut Kept::nowhere(), usize::MAX);
            assert_eq!((told.late, told.broken), (0, None));
            assert!(outcome.legal.iter().all(|one| one.timed == Some(Ok(measured(1.0)))));
            // It needs a moment to end.
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(started.get(), expected, "{script}");
    }
}

#[test]
fn a_kernel_that_hangs_or_is_wrong_costs_its_row() {
    let wrong = Failed { how: Failure::Wrong, what: "element 3 is NaN".into() };
    let first = [
        Answer::Device("a GPU".into()),
        Answer::Started(0),
        Answer::Measured(0, measured(3.0)),
        Answer::Started(1),
        Answer::Failed(1, wrong.clone()),
        Answer::Started(2),
    ];
    // The third hangs; the next worker is asked for the fourth alone.
    let second = [Answer::Started(0), Answer::Measured(0, measured(1.5))];
    let scripts = [format!("{} exec sleep 600", says(&first)), says(&second)];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.jsonl");
    let (outcome, told, workers) = timed(&scripts, &mut Kept::in_file(&path).expect("a new file"));
    assert_eq!((told.device.as_deref(), told.late, told.broken, workers), (Some("a GPU"), 0, None, 2));
    let times: Vec<_> = outcome.legal.iter().map(|candidate| candidate.timed.clone().expect("tried")).collect();
    assert_eq!(times[..2], [Ok(measured(1.5)), Ok(measured(3.0))], "by time");
    assert!(times[2..].contains(&Err(wrong)), "{times:?}");
    let hung = Failed { how: Failure::Hung, what: "no answer within 2 s: a kernel that does not end?".into() };
    assert!(times[2..].contains(&Err(hung)), "{times:?}");
    // Everything is known the next time: no worker is started.
    let (again, told, workers) = timed(&scripts, &mut Kept::in_file(&path).expect("known"));
    assert_eq!((again, told.known, workers), (outcome.clone(), 4, 0));
    // A line that was cut off is removed, and its schedule is timed again.
    let lines = std::fs::read_to_string(&path).expect("a file");
    std::fs::write(&path, &lines[..lines.len() - 7]).expect("written");
    let mut kept = Kept::in_file(&path).expect("repaired");
    assert_eq!(kept.len(), 3);
    assert!(std::fs::read_to_string(&path).expect("a file").ends_with('\n'), "the torn line is gone");
    let (_, told, workers) = timed(&scripts[1..], &mut kept);
    assert_eq!((told.known, workers), (3, 1));
    std::fs::write(&path, "{}\n{\"a\": 1}\n").expect("written");
    let error = Kept::in_file(&path).expect_err("another file").to_string();
    assert!(error.starts_with("line 1: "), "{error}");
}

#[test]
fn a_worker_that_dies_costs_its_row_and_one_that_cannot_work_ends_the_sweep() {
    let dies = format!("{} exit 3", says(&[Answer::Started(0)]));
    let rest = says(&[0, 1, 2].map(|index| Answer::Measured(index, measured(1.0 + index as f64))));
    let (outcome, told, workers) = timed(&[dies, rest], &mut Kept::nowhere());
    assert_eq!((told.broken, workers), (None, 2));
    let last = outcome.legal[3].timed.clone().expect("tried").expect_err("it died");
    assert!(last.how == Failure::Hung && last.what.contains("exit status: 3"), "{last:?}");

    let refuses = says(&[Answer::Broken("no such device".into())]);
    let (outcome, told, workers) = timed(&[refuses], &mut Kept::nowhere());
    assert_eq!((told.broken.as_deref(), told.late, workers), (Some("no such device"), 4, 1));
    assert!(outcome.legal.iter().all(|candidate| candidate.timed.is_none()));

    let (_, told, workers) = timed(&["echo nonsense".into()], &mut Kept::nowhere());
    assert!(told.broken.is_some_and(|why| why.starts_with("not an answer")) && workers == 1);
}

/// The outcome of an interrupted sweep is what was judged and timed before; what was running is not a failure.
#[test]
fn an_interrupted_sweep_has_what_was_found() {
    let begun = Instant::now();
    let started = [Answer::Started(0), Answer::Measured(0, measured(3.0)), Answer::Started(1)];
    let (outcome, told, workers) =
        timed_until(&[format!("{} exec sleep 600", says(&started))], &mut Kept::nowhere(), 1);
    assert_eq!((told.broken.as_deref(), told.late, workers), (Some("interrupted"), 3, 1));
    let timed: Vec<_> = outcome.legal.iter().filter_map(|candidate| candidate.timed.clone()).collect();
    assert_eq!(timed, [Ok(measured(3.0))]);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    let interrupt = Arc::new(AtomicBool::new(false));
    let sweep = sweep(SPACE).until(interrupt.clone());
    let part = sweep.run(|_| interrupt.store(true, Ordering::Relaxed)).expect("an outcome");
    assert!((1..96).contains(&part.judged()), "{}", part.judged());
}

#[test]
fn a_worker_answers_a_request() {
    let request =
        Request { size: [64, 64, 64, 1], seconds: 10.0, schedules: vec!["tile(64, 64, 8); thread(4, 4);".into()] };
    let ask = |text: &[u8], open: Result<ptx_gemm::Device, String>| {
        let mut said = Vec::new();
        let served = worker::serve(text, &mut said, || open);
        let said = String::from_utf8(said).expect("text");
        let answers: Vec<Answer> = said.lines().map(|line| serde_json::from_str(line).expect("an answer")).collect();
        served.map(|()| answers)
    };
    let text = serde_json::to_vec(&request).expect("JSON");
    assert_eq!(ask(&text, Err("no GPU".into())).expect("answered"), [Answer::Broken("no GPU".into())]);
    // The interpreter is not timed, and reports that.
    let answers = ask(&text, Ok(ptx_gemm::Device::interpreter())).expect("answered");
    assert!(matches!(&answers[..], [Answer::Device(_), Answer::Broken(_)]), "{answers:?}");
    assert!(ask(b"{", Err(String::new())).is_err());
    let mut text = Vec::new();
    text.write_all(b"not JSON").expect("memory");
    assert!(ask(&text, Err(String::new())).is_err());
}
