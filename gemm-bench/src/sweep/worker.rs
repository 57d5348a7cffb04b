//! The process that times schedules: it reads [`Request`]s and writes [`Answer`]s to each of them, every one a line of JSON. It keeps
//! the device between requests: opening one takes longer than timing a schedule.
//!
//! It is a separate process because a kernel that does not end cannot be stopped otherwise.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use ptx_gemm::{Device, Schedule};
use serde::{Deserialize, Serialize};

use crate::program::Program;
use crate::rivals::Against;
use crate::session::{self, Event, Order, Orders, Reason};
use crate::suites::{Named, Size};
use crate::sweep::{Failed, Failure, Measured};

/// The schedules to time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `m`, `n`, `k` and the number of products.
    pub size: [usize; 4],
    /// Seconds after which nothing new is started.
    pub seconds: f64,
    /// Texts of schedules.
    pub schedules: Vec<String>,
}

/// One message of the worker. Numbers are indices into the request's schedules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It opened this device.
    Device(String),
    /// This schedule is next.
    Started(usize),
    /// The time of a schedule.
    Measured(usize, Measured),
    /// Why a schedule has no time.
    Failed(usize, Failed),
    /// The worker cannot continue, and ends.
    Broken(String),
    /// The request is answered; another one may follow.
    Done,
}

/// Answers the requests of `input`, a line each, on the device that `open` opens.
///
/// # Errors
///
/// A line is not a request, or the output cannot be written.
pub fn serve(
    input: impl BufRead,
    mut output: impl Write,
    open: impl FnOnce() -> Result<Device, String>,
) -> io::Result<()> {
    let mut say = |answer: Answer| -> io::Result<()> {
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()
    };
    let mut lines = input.lines().map(|line| Ok(serde_json::from_str::<Request>(&line?)?)).peekable();
    if lines.peek().is_none_or(io::Result::is_err) {
        return lines.next().map_or(Ok(()), |request| request.map(|_| ()));
    }
    let device = match open() {
        Ok(device) => device,
        Err(why) => return say(Answer::Broken(why)),
    };
    for request in lines {
        say(Answer::Device(device.name().into()))?;
        if let Some(why) = answers(request?, &device, &mut say)? {
            return say(Answer::Broken(why));
        }
        say(Answer::Done)?;
    }
    Ok(())
}

/// Answers one request; returns why the worker cannot continue.
fn answers(
    request: Request,
    device: &Device,
    say: &mut impl FnMut(Answer) -> io::Result<()>,
) -> io::Result<Option<String>> {
    let mut schedules = Vec::new();
    for (index, text) in request.schedules.iter().enumerate() {
        match text.parse::<Schedule>() {
            Ok(schedule) => schedules.push(Named { name: index.to_string(), program: Program::Schedule(schedule) }),
            Err(errors) => say(Answer::Failed(index, Failed { how: Failure::Refused, what: errors.to_string() }))?,
        }
    }
    compile_ahead(device, &schedules);
    let [m, n, k, batch] = request.size;
    let sizes = vec![Size { m, n, k, batch }];
    let suites = vec![Order { suite: "sweep".into(), sizes, schedules, left_out: Vec::new() }];
    let deadline = Instant::now() + Duration::try_from_secs_f64(request.seconds).unwrap_or(Duration::ZERO);
    let device = device.clone();
    let orders = Orders { device, suites, against: Against::Cublas, beta: 0.0, rest: Duration::ZERO, deadline };
    let mut broken = None;
    for event in session::start(orders) {
        if let Event::Broken(why) = event {
            broken = Some(why);
        } else if let Some(answer) = answer(event) {
            say(answer)?;
        }
    }
    Ok(broken)
}

/// How many schedules are compiled before the first one is timed, and how long that may take. The driver's assembler needs longer than
/// the timing, and one core for each kernel.
const AHEAD: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

/// Compiles the first schedules, all at once. What takes too long, or is wrong, is waited for and reported in its turn.
fn compile_ahead(device: &Device, schedules: &[Named]) {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let schedules: Arc<[Program]> = schedules.iter().take(AHEAD).map(|one| one.program.clone()).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let (done, all_done) = channel::<()>();
    for _ in 0..cores.min(schedules.len()) {
        let (device, schedules, next, done) = (device.clone(), schedules.clone(), next.clone(), done.clone());
        thread::spawn(move || {
            while let Some(program) = schedules.get(next.fetch_add(1, Ordering::Relaxed)) {
                let _ = program.on(&device);
            }
            drop(done);
        });
    }
    drop(done);
    // It ends when the last thread has dropped its sender.
    let _ = all_done.recv_timeout(PATIENCE);
}

/// The answer for an event about a request's schedule. Schedules that were too late get no answer, since they were not
/// tried.
fn answer(event: Event) -> Option<Answer> {
    match event {
        Event::Started { schedule, .. } => Some(Answer::Started(schedule.parse().ok()?)),
        Event::Row(row) => {
            let times = row.times;
            let measured =
                Measured { ms: times.ms, cublas_ms: times.cublas_ms, ratio: times.ratio, spread: times.spread };
            Some(Answer::Measured(row.schedule.parse().ok()?, measured))
        }
        Event::Missing { reason: Reason::Late, .. } => None,
        Event::Missing { schedule, reason, what, .. } => {
            let how = match reason {
                Reason::Wrong => Failure::Wrong,
                Reason::Uncompared => Failure::Uncompared,
                Reason::Refused | Reason::Late => Failure::Refused,
            };
            Some(Answer::Failed(schedule.parse().ok()?, Failed { how, what }))
        }
        Event::Begin { .. } | Event::Note(_) | Event::End { .. } | Event::Broken(_) => None,
    }
}
