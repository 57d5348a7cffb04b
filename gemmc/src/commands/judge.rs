//! `gemmc judge`: a verdict for each of many candidates.
//!
//! Candidates are hostile: each is judged in a process that is stopped when its time is up, and that has no more memory than its
//! budget. This process alone reads files, and only those in the folder of the batch.

mod candidate;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Component, Path};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ptx_gemm_bench::process::LineProcess;
use serde_json::{Value, json};

use self::candidate::{Candidate, Judged, Text, judge, refused};
use crate::cli::{Budget, Judge, JudgeWorker};
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source::unusable;

/// Bytes of a file that a candidate names, and of a line, which may have a text of that size with all of it escaped.
const LONGEST_FILE: u64 = 1 << 20;
const LONGEST_LINE: usize = 8 << 20;
/// How often a wait looks whether it is interrupted.
const GLANCE: Duration = Duration::from_millis(100);
/// Verdicts after which a worker is replaced: what its memory holds of earlier candidates may not decide later ones.
const RENEWED: usize = 100;
/// What a worker may take to start, and to answer after a candidate's own time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A line of the batch: its id, and the candidate, or what is wrong with the line.
type Line = (Value, Result<Box<Candidate>, Judged>);

pub(crate) fn run(args: &Judge, format: Format) -> Result<Reply, Failure> {
    let lines = lines(&args.candidates)?;
    let done = done(&args.output)?;
    let open: Vec<&Line> = lines.iter().filter(|(id, _)| !done.contains(&id.to_string())).collect();
    let mut output = OpenOptions::new().create(true).append(true).open(&args.output);
    let output = output.as_mut().map_err(|error| unusable(&args.output, error))?;
    let interrupt = Interrupt::watch();
    let stopped = AtomicBool::new(false);
    let bar = progress::bar(open.len(), format).with_message("judging");
    let jobs = args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let next = AtomicUsize::new(0);
    let written = thread::scope(|scope| {
        let (sender, verdicts) = channel();
        let (open, next, stopped) = (&open, &next, &stopped);
        for _ in 0..jobs.min(open.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut worker = None;
                while !stopped.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, candidate)) = open.get(index) else { return };
                    let judged = match candidate {
                        Ok(candidate) => judged(&mut worker, candidate, &args.budget, stopped),
                        Err(judged) => Ok(judged.clone()),
                    };
                    if sender.send((index, judged)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Verdicts are written in the order of the candidates, so that two runs of a batch write the same file.
        let (mut waiting, mut at) = (BTreeMap::new(), 0);
        loop {
            stopped.fetch_or(interrupt.came(), Ordering::Relaxed);
            match verdicts.recv_timeout(GLANCE) {
                Ok((index, judged)) => waiting.insert(index, judged),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(at),
            };
            while let Some(judged) = waiting.remove(&at) {
                let mut line = match judged {
                    Ok(judged) => json!({ "id": open[at].0 })
                        .as_object()
                        .cloned()
                        .unwrap_or_default()
                        .into_iter()
                        .chain(judged)
                        .collect::<Judged>(),
                    Err(error) => {
                        stopped.store(true, Ordering::Relaxed);
                        return if interrupt.came() { Ok(at) } else { Err(error) };
                    }
                };
                line.entry("schema").or_insert_with(|| SCHEMA.into());
                let name = line.get("verdict").and_then(Value::as_str).unwrap_or_default().to_string();
                *counts.entry(name).or_default() += 1;
                let text = Value::Object(line).to_string();
                if let Err(error) = writeln!(output, "{text}").and_then(|()| output.flush()) {
                    stopped.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                at += 1;
                bar.inc(1);
            }
        }
    });
    bar.finish_and_clear();
    let count = written.map_err(|error| unusable(&args.output, error))?;
    let mut text =
        format!("{count} of {} candidates judged, {} were judged before\n", lines.len(), lines.len() - open.len());
    counts.iter().for_each(|(name, count)| text.push_str(&format!("{count:>8}  {name}\n")));
    let json = json!({ "schema": SCHEMA, "candidates": lines.len(), "judged": count, "verdicts": counts });
    let status = if count == open.len() { Status::Fine } else { Status::Refused };
    Ok(Reply { text, json, status })
}

/// How every verdict begins.
const BEGIN: &[u8] = br#"{"id":"#;
/// The form of a verdict.
const SCHEMA: &str = "gemmc-verdict-1";

/// The candidates of a file, each with the texts of the files that it names.
fn lines(path: &Path) -> Result<Vec<Line>, Failure> {
    let file = File::open(path).map_err(|error| unusable(path, error))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| unusable(path, error))?;
    let (mut reader, mut lines, mut ids) = (BufReader::new(file), Vec::new(), HashSet::new());
    for number in 1.. {
        let mut line = Vec::new();
        let most = LONGEST_LINE as u64 + 1;
        let read = reader.by_ref().take(most).read_until(b'\n', &mut line).map_err(|error| unusable(path, error))?;
        if read == 0 {
            break;
        }
        if line.len() > LONGEST_LINE {
            skip_line(&mut reader).map_err(|error| unusable(path, error))?;
            let judged = refused("candidate", format!("a line has at most {LONGEST_LINE} bytes"));
            lines.push((json!({ "line": number }), Err(judged)));
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (id, candidate) = match serde_json::from_slice::<Candidate>(&line) {
            Err(error) => (json!({ "line": number }), Err(refused("candidate", error.to_string()))),
            Ok(candidate) if !matches!(candidate.id, Value::String(_) | Value::Number(_)) => {
                (json!({ "line": number }), Err(refused("candidate", "an id is a text or a number")))
            }
            Ok(candidate) if !ids.insert(candidate.id.to_string()) => (
                json!({ "line": number }),
                Err(refused("candidate", format!("another line has the id {}", candidate.id))),
            ),
            Ok(candidate) => (candidate.id.clone(), with_files(candidate, &folder)),
        };
        lines.push((id, candidate.map(Box::new)));
    }
    Ok(lines)
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let (end, used) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (true, at + 1),
            None => (buffer.is_empty(), buffer.len()),
        };
        reader.consume(used);
        if end {
            return Ok(());
        }
    }
}

/// The candidate with the text of each file in its place.
fn with_files(mut candidate: Candidate, folder: &Path) -> Result<Candidate, Judged> {
    for text in [&mut candidate.schedule, &mut candidate.tile, &mut candidate.ptx].into_iter().flatten() {
        if let Text::In { file } = text {
            *text = Text::Here(read(file, folder)?);
        }
    }
    if let Some(Value::Object(launch)) = &candidate.launch
        && let (1, Some(Value::String(file))) = (launch.len(), launch.get("file"))
    {
        let text = read(file, folder)?;
        let launch = serde_json::from_str(&text).map_err(|error| refused("launch", error.to_string()))?;
        candidate.launch = Some(launch);
    }
    Ok(candidate)
}

/// A regular file in the folder of the batch; its name may not lead out of it, and neither may a link.
fn read(name: &str, folder: &Path) -> Result<String, Judged> {
    let wrong = |why: String| refused("file", format!("`{name}`: {why}"));
    if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(wrong("a file is named relative to the batch, and lies in its folder".into()));
    }
    let path = folder.join(name).canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !path.starts_with(folder) {
        return Err(wrong("it leads out of the folder of the batch".into()));
    }
    let about = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
    if !about.is_file() || about.len() > LONGEST_FILE {
        return Err(wrong(format!("it is not a regular file of at most {LONGEST_FILE} bytes")));
    }
    let mut text = String::new();
    let file = File::open(&path).map_err(|error| wrong(error.to_string()))?;
    file.take(LONGEST_FILE).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    Ok(text)
}

/// The ids that have a verdict. What a stopped run left of a line is taken off the file.
fn done(path: &Path) -> Result<HashSet<String>, Failure> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashSet::new()),
        Err(error) => return Err(unusable(path, error)),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let no_verdict = || unusable(path, "it has something else than verdicts: give another output");
    let id = |line: &[u8]| {
        let verdict: Value = serde_json::from_slice(line).map_err(|_| no_verdict())?;
        match (&verdict["id"], &verdict["verdict"]) {
            (Value::Null, _) | (_, Value::Null) => Err(no_verdict()),
            (id, _) => Ok(id.to_string()),
        }
    };
    let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let ids = lines.map(id).collect::<Result<HashSet<String>, Failure>>()?;
    let rest = &text[whole..];
    if !rest.is_empty() {
        if !rest.starts_with(BEGIN) && !BEGIN.starts_with(rest) {
            return Err(no_verdict());
        }
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.set_len(whole as u64)).map_err(|error| unusable(path, error))?;
    }
    Ok(ids)
}

/// The verdict of a worker, or that of one that was stopped or died. An error: no worker can be started, or the batch was stopped.
/// `worker` is the one that answered last, with the number of its verdicts.
fn judged(
    worker: &mut Option<(LineProcess, usize)>,
    candidate: &Candidate,
    budget: &Budget,
    stopped: &AtomicBool,
) -> io::Result<Judged> {
    let (mut process, count) = match worker.take().filter(|(_, count)| *count < RENEWED) {
        Some(worker) => worker,
        None => (LineProcess::start(command(budget)?)?, 0),
    };
    process.ask(&serde_json::to_string(candidate)?);
    let end = Instant::now() + Duration::from_secs(budget.seconds) + PATIENCE;
    loop {
        if stopped.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        let left = end.saturating_duration_since(Instant::now());
        match process.answer(left.min(GLANCE)) {
            Ok(line) => {
                let judged: Judged = serde_json::from_str(&line)?;
                *worker = Some((process, count + 1));
                return Ok(judged);
            }
            Err(RecvTimeoutError::Timeout) if left > GLANCE => {}
            Err(RecvTimeoutError::Timeout) => {
                let mut judged = refused("seconds", format!("it takes more than {} s (--seconds)", budget.seconds));
                judged.insert("verdict".into(), "hang".into());
                return Ok(judged);
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = process.ended().map_or_else(String::new, |status| format!(": {status}"));
                let what =
                    format!("the process that judged it has ended, most likely for want of memory (--memory){how}");
                return Ok(refused("memory", what));
            }
        }
    }
}

fn command(budget: &Budget) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("judge-worker");
    for (name, value) in [
        ("--max-instructions", budget.max_instructions),
        ("--seconds", budget.seconds),
        ("--memory", budget.memory),
        ("--work", budget.work),
    ] {
        command.args([name, &value.to_string()]);
    }
    // One candidate at a time, on one core: the others have theirs.
    command.env("RAYON_NUM_THREADS", "1");
    Ok(command)
}

/// Answers candidates with verdicts.
pub(crate) fn work(args: &JudgeWorker) -> Result<Reply, Failure> {
    let failed = |error: io::Error| Failure::refused("judge-worker", error.to_string());
    limit(&args.budget);
    // What a panic says would be lost, and the candidate's verdict says that there was one.
    std::panic::set_hook(Box::new(|_| ()));
    for line in io::stdin().lock().lines() {
        let candidate: Candidate =
            serde_json::from_str(&line.map_err(failed)?).map_err(|error| failed(error.into()))?;
        let judged = Value::Object(judge(&candidate, &args.budget));
        writeln!(io::stdout(), "{judged}").map_err(failed)?;
    }
    Ok(Reply::fine(String::new(), Value::Null))
}

/// Limits the address space of this process.
fn limit(budget: &Budget) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let bytes = Some(budget.memory << 20);
        // If the system refuses, the budget of the interpreter's own memory is left.
        let _ = setrlimit(Resource::As, Rlimit { current: bytes, maximum: bytes });
    }
    #[cfg(not(unix))]
    let _ = budget;
}
