//! Times the candidates of a sweep on a GPU, in a process that can be stopped.

use std::cell::RefCell;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ptx_gemm::{Kernel, Schedule};

use crate::process::LineProcess;
use crate::suites::Size;
use crate::sweep::keep::{Kept, Record};
use crate::sweep::worker::{Answer, Request};
use crate::sweep::{Candidate, Failed, Failure, Gpu, target};

/// How often a wait looks whether it is interrupted.
const GLANCE: Duration = Duration::from_millis(100);

/// How candidates are timed.
pub struct Timing<'a> {
    /// The product.
    pub size: Size,
    /// The GPU that the candidates were estimated for.
    pub gpu: Gpu,
    /// The device's name in stored results.
    pub device: &'a str,
    /// Those that time them.
    pub workers: &'a Workers<'a>,
    /// The time after which nothing new is started.
    pub deadline: Instant,
    /// The time limit for one schedule: to compile it, compare its result, and time it.
    pub patience: Duration,
    /// Once this is true, nothing new is started, and what is running is abandoned.
    pub interrupt: &'a AtomicBool,
}

/// The result of timing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timed {
    /// The device that the worker opened; `None` if everything was known.
    pub device: Option<String>,
    /// Candidates that were timed before.
    pub known: usize,
    /// Candidates for which there was no time left.
    pub late: usize,
    /// Why timing ended early.
    pub broken: Option<String>,
}

/// The state of the timing.
struct Work<'c> {
    candidates: &'c mut [Candidate],
    /// Numbers of those that are still to be timed.
    open: Vec<usize>,
    outcome: Timed,
}

/// Times the first `top` candidates. Each of them then has a time or a reason for a missing one, unless the deadline
/// came first. `progress` is called after each, with the number of answers so far. If a worker hangs or dies, the
/// candidate that it was timing fails, and another worker continues with the rest.
///
/// # Errors
///
/// No worker can be started, or the results cannot be stored.
pub fn time(
    candidates: &mut [Candidate],
    timing: &Timing<'_>,
    kept: &mut Kept,
    progress: &mut dyn FnMut(usize),
) -> io::Result<Timed> {
    let all = candidates.len();
    let mut work = Work { candidates, open: (0..all).collect(), outcome: Timed::default() };
    work.recall(timing, kept);
    work.outcome.known = all - work.open.len();
    progress(all - work.open.len());
    while !work.open.is_empty() && work.outcome.broken.is_none() && Instant::now() < timing.deadline {
        let before = work.open.len();
        let why = work.run_worker(timing, kept, &mut |open| progress(all - open))?;
        if timing.is_interrupted() {
            work.outcome.broken = Some("interrupted".into());
            break;
        }
        // A worker that did not finish a single candidate will not do so the next time either.
        if work.open.len() == before && Instant::now() < timing.deadline {
            work.outcome.broken = Some(why.unwrap_or_else(|| "the worker ended without an answer".into()));
        }
    }
    work.outcome.late = work.open.len();
    kept.finish()?;
    Ok(work.outcome)
}

impl Timing<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

impl Work<'_> {
    /// Takes over the results of an earlier run.
    fn recall(&mut self, timing: &Timing<'_>, kept: &Kept) {
        let candidates = &mut *self.candidates;
        self.open.retain(|&index| {
            candidates[index].timed =
                match key(&candidates[index].schedule, timing).and_then(|key| kept.get(&key).cloned()) {
                    Some(Record::Measured(measured)) => Some(Ok(measured)),
                    Some(Record::Failed(failed)) => Some(Err(failed)),
                    None => return true,
                };
            false
        });
    }

    /// Runs one worker until it has answered everything, hangs or dies; returns the reason if it could not work.
    fn run_worker(
        &mut self,
        timing: &Timing<'_>,
        kept: &mut Kept,
        progress: &mut dyn FnMut(usize),
    ) -> io::Result<Option<String>> {
        let asked = self.open.clone();
        let mut worker = timing.workers.one()?;
        worker.ask(timing, asked.iter().map(|&index| self.candidates[index].schedule.clone()))?;
        let mut started = None;
        let mut broken = None;
        loop {
            let answer = worker.answer(timing);
            // An interrupt of this process may have ended the worker as well, which says nothing about its schedule.
            if answer.is_err() && timing.is_interrupted() {
                return Ok(None);
            }
            let (index, outcome) = match answer {
                Ok(Answer::Device(name)) => {
                    self.outcome.device = Some(name);
                    continue;
                }
                Ok(Answer::Started(index)) => {
                    started = Some(index);
                    continue;
                }
                Ok(Answer::Broken(why)) => {
                    broken = Some(why);
                    continue;
                }
                Ok(Answer::Done) => {
                    timing.workers.idle.replace(Some(worker));
                    return Ok(None);
                }
                Ok(Answer::Measured(index, measured)) => (index, Ok(measured)),
                Ok(Answer::Failed(index, failed)) => (index, Err(failed)),
                Err(why) => {
                    let what = worker.stop(why, timing.patience);
                    let Some(index) = started else { return Ok(broken.or(what)) };
                    let what = broken.clone().or(what).unwrap_or_else(|| "the process that timed it has ended".into());
                    (index, Err(Failed { how: Failure::Hung, what }))
                }
            };
            let Some(&candidate) = asked.get(index) else { continue };
            let ended = started.is_some() && matches!(&outcome, Err(failed) if failed.how == Failure::Hung);
            self.note(candidate, outcome, timing, kept)?;
            progress(self.open.len());
            if ended {
                return Ok(broken);
            }
            started = None;
        }
    }

    fn note(
        &mut self,
        index: usize,
        outcome: Result<crate::sweep::Measured, Failed>,
        timing: &Timing<'_>,
        kept: &mut Kept,
    ) -> io::Result<()> {
        if let Some(key) = key(&self.candidates[index].schedule, timing) {
            let record = match &outcome {
                Ok(measured) => Record::Measured(measured.clone()),
                Err(failed) => Record::Failed(failed.clone()),
            };
            kept.keep(key, record);
            // Each answer costs seconds, so none may be lost.
            kept.finish()?;
        }
        self.candidates[index].timed = Some(outcome);
        self.open.retain(|open| *open != index);
        Ok(())
    }
}

/// The key of a time; `None` for a schedule that does not compile, which the worker reports.
fn key(schedule: &str, timing: &Timing<'_>) -> Option<crate::sweep::keep::Key> {
    let parsed: Schedule = schedule.parse().ok()?;
    let kernel = Kernel::compile(&parsed, target(&parsed, &timing.gpu)).ok()?;
    Some(Kept::timed(schedule, timing.size, timing.device, kernel.ptx()))
}

/// The processes that time schedules, one at a time: one that has answered a request waits for the next one.
pub struct Workers<'a> {
    /// Starts one; its standard input and output are taken over.
    start: Box<dyn Fn() -> Command + 'a>,
    idle: RefCell<Option<Worker>>,
}

/// A worker process.
struct Worker(LineProcess);

impl<'a> Workers<'a> {
    /// None is started yet. `start` is the command of one, without its standard input and output.
    pub fn new(start: impl Fn() -> Command + 'a) -> Workers<'a> {
        Workers { start: Box::new(start), idle: RefCell::default() }
    }

    /// The one that is idle, if it still runs, or a new one.
    fn one(&self) -> io::Result<Worker> {
        if let Some(mut idle) = self.idle.take()
            && idle.0.runs()
        {
            return Ok(idle);
        }
        LineProcess::start((self.start)()).map(Worker)
    }
}

impl Worker {
    fn ask(&mut self, timing: &Timing<'_>, schedules: impl Iterator<Item = String>) -> io::Result<()> {
        let Size { m, n, k, batch } = timing.size;
        let seconds = timing.deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        let request = Request { size: [m, n, k, batch], seconds, schedules: schedules.collect() };
        self.0.ask(&serde_json::to_string(&request)?);
        Ok(())
    }

    /// The next answer, unless there is none in time, or waiting for it is interrupted.
    fn answer(&self, timing: &Timing<'_>) -> Result<Answer, RecvTimeoutError> {
        let end = Instant::now() + timing.patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.0.answer(left.min(GLANCE)) {
                Err(RecvTimeoutError::Timeout) if left > GLANCE && !timing.is_interrupted() => {}
                Err(why) => return Err(why),
                Ok(line) => {
                    let answer = serde_json::from_str(&line);
                    return Ok(answer.unwrap_or_else(|error| Answer::Broken(format!("not an answer: {error}"))));
                }
            }
        }
    }

    /// Ends a worker that no longer answers; returns the reason.
    fn stop(&mut self, why: RecvTimeoutError, patience: Duration) -> Option<String> {
        if why == RecvTimeoutError::Timeout {
            self.0.stop();
            return Some(format!("no answer within {} s: a kernel that does not end?", patience.as_secs_f64()));
        }
        let status = self.0.ended()?;
        (!status.success()).then(|| format!("the process that timed it has ended: {status}"))
    }
}
