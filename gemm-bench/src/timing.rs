//! Times some programs on one product next to cuBLAS in one session, for `profile`, `ablate` and `ladder`.

use std::fmt;
use std::time::{Duration, Instant};

use ptx_gemm::Device;
use ptx_gemm::cuda::Properties;
use ptx_gemm_check::ladder::Timing;

use crate::rivals::Against;
use crate::session::{self, Event, Order, Orders, Reason};
use crate::suites::{Named, Size};

/// How long a kernel may exceed the time limit for all before it counts as one that never ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// The measurements.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The name of the GPU, if the session started.
    pub properties: Option<Properties>,
    /// For each program, in order, its time, or why it has none.
    pub timings: Vec<Result<Timing, Untimed>>,
}

/// Why a program has no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untimed {
    /// The kind of reason.
    pub reason: Reason,
    /// The reason in words.
    pub what: String,
}

impl fmt::Display for Untimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Untimed { reason, what } = self;
        match reason {
            Reason::Wrong => write!(f, "WRONG: {what}"),
            Reason::Uncompared => write!(f, "NOT COMPARED: {what}"),
            Reason::Refused | Reason::Late => f.write_str(what),
        }
    }
}

/// Times programs one after another; none starts after `budget`. Programs are identified by name.
pub fn time(device: &Device, programs: Vec<Named>, size: Size, budget: Duration) -> Timed {
    let late = || Err(Untimed { reason: Reason::Late, what: "the time was up".into() });
    let names: Vec<String> = programs.iter().map(|named| named.name.clone()).collect();
    let mut timed = Timed { properties: None, timings: names.iter().map(|_| late()).collect() };
    let end = Instant::now() + budget;
    let suites = vec![Order { suite: "product".into(), sizes: vec![size], schedules: programs, left_out: Vec::new() }];
    let (device, against) = (device.clone(), Against::Cublas);
    let events = session::start(Orders { device, suites, against, beta: 0.0, rest: Duration::ZERO, deadline: end });
    while let Ok(event) = events.recv_timeout((end + PATIENCE).saturating_duration_since(Instant::now())) {
        timed.hear(event, &names, size);
    }
    timed
}

impl Timed {
    fn hear(&mut self, event: Event, names: &[String], size: Size) {
        let mut record = |name: &str, what: Result<Timing, Untimed>| {
            for (timing, _) in self.timings.iter_mut().zip(names).filter(|(_, known)| *known == name) {
                *timing = what.clone();
            }
        };
        match event {
            Event::Begin { properties, .. } => self.properties = Some(properties),
            Event::Row(row) => {
                let (ms, noise, cublas_ms) = (row.times.ms, row.times.spread, row.times.cublas_ms);
                record(&row.schedule, Ok(Timing { size: [size.m, size.n, size.k], ms, noise, cublas_ms }));
            }
            Event::Missing { schedule, reason, what, .. } => record(&schedule, Err(Untimed { reason, what })),
            Event::Started { .. } | Event::Note(_) | Event::End { .. } => {}
            Event::Broken(why) => {
                // Only programs without an answer so far get this reason.
                let late =
                    |timing: &Result<Timing, Untimed>| timing.as_ref().is_err_and(|why| why.reason == Reason::Late);
                let broken = Untimed { reason: Reason::Refused, what: why };
                self.timings.iter_mut().filter(|timing| late(timing)).for_each(|timing| *timing = Err(broken.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::cuda::Properties;

    use super::{Timed, Untimed};
    use crate::agree::Accuracy;
    use crate::measure::{How, Times};
    use crate::rivals::Versions;
    use crate::session::{Event, Reason, Row};
    use crate::suites::Size;

    #[test]
    fn each_program_has_its_time_or_the_reason() {
        let names = ["one", "two", "three"].map(String::from);
        let untimed = |reason, what: &str| Err(Untimed { reason, what: what.into() });
        let mut timed =
            Timed { properties: None, timings: names.iter().map(|_| untimed(Reason::Late, "late")).collect() };
        let size = Size::parse("64x32x16").unwrap();
        let times = Times {
            ms: 2.0,
            cublas_ms: Some(1.0),
            ratio: Some(0.5),
            cublaslt_ms: None,
            cublaslt_ratio: None,
            spread: 0.01,
            samples: 9,
            how: How::Stream,
        };
        let versions = Versions { cublas: Err("none".into()), cublaslt: None };
        let properties = Properties { processors: 132, clock_khz: 1_980_000, ..Properties::default() };
        timed.hear(Event::Begin { properties, versions }, &names, size);
        let row = Row {
            suite: "product".into(),
            types: "f32".into(),
            layout: "row,row,row".into(),
            size,
            schedule: "two".into(),
            times,
            accuracy: Accuracy::default(),
        };
        timed.hear(Event::Row(row), &names, size);
        let (suite, schedule) = ("product".into(), "three".into());
        let missing = Event::Missing { suite, schedule, size: None, reason: Reason::Wrong, what: "D[0]".into() };
        timed.hear(missing, &names, size);
        assert_eq!(timed.properties, Some(properties));
        timed.hear(Event::Broken("it stopped".into()), &names, size);
        assert_eq!(timed.timings[0], untimed(Reason::Refused, "it stopped"));
        assert_eq!(
            timed.timings[1].as_ref().map(|timing| (timing.size, timing.share())),
            Ok(([64, 32, 16], Some(0.5)))
        );
        // A wrong result is not just a missing time.
        assert_eq!(timed.timings[2], untimed(Reason::Wrong, "D[0]"));
        assert!(timed.timings[2].as_ref().is_err_and(|why| why.to_string() == "WRONG: D[0]"));
    }
}
