//! The work on the GPU, on a separate thread: suite by suite, size by size, schedule by schedule.

use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ptx_gemm::cuda::{Accumulation, Enqueue, Properties, Queue};
use ptx_gemm::{CompiledGemm, Device, DeviceError, Error, Problem};

use crate::agree::{Accuracy, Agreement, Reference};
use crate::measure::{Pace, Times, measure};
use crate::operands::Operands;
use crate::program::Program;
use crate::rivals::{Against, Rivals, Theirs, Versions};
use crate::spelling::RowTypes;
use crate::suites::{Named, Size};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The GPU.
    pub device: Device,
    /// The suites, which run one after another.
    pub suites: Vec<Order>,
    /// The libraries to compare with.
    pub against: Against,
    /// The value of a scalar called `beta`; every other one is 1.
    pub beta: f64,
    /// A pause before each sample: zero keeps the GPU busy, a second lets it cool down to its highest clock.
    pub rest: Duration,
    /// The time after which nothing new is started.
    pub deadline: Instant,
}

/// One suite.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its name in the rows.
    pub suite: String,
    /// Its products.
    pub sizes: Vec<Size>,
    /// The programs that multiply each of them.
    pub schedules: Vec<Named>,
    /// Programs that cannot run its products, by name, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A schedule on a product, measured.
#[derive(Clone, Debug)]
pub struct Row {
    /// The suite.
    pub suite: String,
    /// As [`RowTypes`] spells them; products from planes are not compared with the others.
    pub types: String,
    /// The layouts of A, B and D.
    pub layout: String,
    /// The product.
    pub size: Size,
    /// The schedule's name.
    pub schedule: String,
    /// Its times.
    pub times: Times,
    /// The accuracy of its result.
    pub accuracy: Accuracy,
}

/// Why a row is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The result is wrong.
    Wrong,
    /// No element of the result could be compared.
    Uncompared,
    /// The schedule, the device or cuBLAS reported an error.
    Refused,
    /// The time was used up.
    Late,
}

/// An event of the session.
#[derive(Clone, Debug)]
pub enum Event {
    /// It has begun.
    Begin {
        /// The name of the GPU.
        properties: Properties,
        /// The libraries.
        versions: Versions,
    },
    /// Something that a reader of the rows should know.
    Note(String),
    /// A schedule is about to be loaded and timed on a product. The next event is its row, or the reason why it is
    /// missing.
    Started {
        /// The suite.
        suite: String,
        /// The schedule.
        schedule: String,
        /// The product.
        size: Size,
    },
    /// A row.
    Row(Row),
    /// A missing row.
    Missing {
        /// The suite.
        suite: String,
        /// The schedule.
        schedule: String,
        /// The product; `None` for all of them.
        size: Option<Size>,
        /// The reason.
        reason: Reason,
        /// The same in words.
        what: String,
    },
    /// A suite has ended.
    End {
        /// Its name.
        suite: String,
    },
    /// The session ended early.
    Broken(String),
}

/// Starts; the channel closes after the last event.
pub fn start(orders: Orders) -> Receiver<Event> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        if let Err(error) = all(&orders, &sender) {
            send(&sender, Event::Broken(error.to_string()));
        }
    });
    receiver
}

/// If the receiver is gone, nobody needs further events.
fn send(sender: &Sender<Event>, event: Event) {
    let _ = sender.send(event);
}

/// The state of a session.
struct Session<'a> {
    device: &'a Device,
    queue: Queue,
    properties: Properties,
    rivals: Rivals,
    beta: f64,
    rest: Duration,
    deadline: Instant,
    events: &'a Sender<Event>,
}

fn all(orders: &Orders, events: &Sender<Event>) -> Result<(), Error> {
    let device = &orders.device;
    let queue = Queue::new(device)?;
    let properties = queue.properties()?;
    let (rivals, versions) = Rivals::open(&queue, orders.against);
    send(events, Event::Begin { properties, versions });
    let (beta, rest, deadline) = (orders.beta, orders.rest, orders.deadline);
    let session = Session { device, queue, properties, rivals, beta, rest, deadline, events };
    for order in &orders.suites {
        session.suite(order)?;
        send(events, Event::End { suite: order.suite.clone() });
    }
    Ok(())
}

/// A schedule, loaded on first use: the assembler takes a second for some, and a sweep has hundreds.
struct Loaded<'a> {
    name: &'a str,
    program: &'a Program,
    problem: Problem,
    /// `None` if it cannot be loaded, which has been reported.
    gemm: OnceCell<Option<CompiledGemm>>,
}

impl Session<'_> {
    fn suite(&self, order: &Order) -> Result<(), Error> {
        for (name, why) in &order.left_out {
            let (suite, schedule, what) = (order.suite.clone(), name.clone(), why.clone());
            send(self.events, Event::Missing { suite, schedule, size: None, reason: Reason::Refused, what });
        }
        let mut loaded = Vec::new();
        for Named { name, program } in &order.schedules {
            match program.problem() {
                Ok(problem) => loaded.push(Loaded { name, program, problem, gemm: OnceCell::new() }),
                Err(errors) => self.missing(order, name, None, Error::Schedule(errors))?,
            }
        }
        for &size in &order.sizes {
            // Schedules that multiply the same data share it.
            let mut rest: Vec<&Loaded<'_>> = loaded.iter().collect();
            while let Some(first) = rest.first() {
                let problem = &first.problem;
                let same =
                    |one: &&&Loaded<'_>| (one.problem.types, one.problem.layouts) == (problem.types, problem.layouts);
                let group: Vec<&Loaded<'_>> = rest.iter().filter(same).copied().collect();
                rest.retain(|one| !same(&one));
                self.size(order, size, &group)?;
            }
        }
        Ok(())
    }

    /// Schedules that multiply the same data.
    fn size(&self, order: &Order, size: Size, group: &[&Loaded<'_>]) -> Result<(), Error> {
        let late = || Instant::now() >= self.deadline;
        let begun = match group.first() {
            Some(_) if late() => Err(None),
            Some(first) => self.begin(first, size).map_err(Some),
            None => return Ok(()),
        };
        let (operands, reference) = match begun {
            Ok(begun) => begun,
            Err(reason) => {
                for one in group {
                    match reason.clone() {
                        Some(error) => self.missing(order, one.name, Some(size), error)?,
                        None => self.late(order, one.name, size),
                    }
                }
                return Ok(());
            }
        };
        let (theirs, right) = self.rivals.on(self.device, &self.queue, &operands, &reference);
        if let Err(what) = right {
            send(self.events, Event::Note(format!("{}: {size}: {what}", order.suite)));
        }
        for (index, one) in group.iter().enumerate() {
            // What the data cost is not lost, even if they took all of the time.
            if index > 0 && late() {
                self.late(order, one.name, size);
                continue;
            }
            let (suite, schedule) = (order.suite.clone(), one.name.to_string());
            send(self.events, Event::Started { suite, schedule, size });
            let Some(gemm) = self.loaded(order, one)? else { continue };
            match self.row(order, one.name, gemm, (&operands, &reference, &theirs)) {
                Ok(event) => send(self.events, event),
                Err(error) => self.missing(order, one.name, Some(size), error)?,
            }
        }
        Ok(())
    }

    fn begin(&self, first: &Loaded<'_>, size: Size) -> Result<(Operands, Reference), Error> {
        let operands = Operands::new(self.device, self.properties, &first.problem, size, 1)?;
        let library = self.rivals.library(&self.queue, &operands, Accumulation::Exact).zip(self.rivals.cublas.as_ref());
        let reference = Reference::new(self.device, &self.queue, library, &operands, 2)?;
        Ok((operands, reference))
    }

    /// Loads a schedule, or reports once why it cannot be loaded.
    fn loaded<'l>(&self, order: &Order, one: &'l Loaded<'_>) -> Result<Option<&'l CompiledGemm>, Error> {
        if one.gemm.get().is_none() {
            let gemm = match one.program.on(self.device) {
                Ok(gemm) => Some(gemm),
                Err(error) => {
                    self.missing(order, one.name, None, error)?;
                    None
                }
            };
            one.gemm.get_or_init(|| gemm);
        }
        Ok(one.gemm.get().and_then(Option::as_ref))
    }

    fn row(
        &self,
        order: &Order,
        name: &str,
        gemm: &CompiledGemm,
        (operands, reference, theirs): (&Operands, &Reference, &Theirs<'_>),
    ) -> Result<Event, Error> {
        let (suite, schedule, size) = (order.suite.clone(), name.to_string(), operands.listed);
        let extras = operands.extras(self.device, gemm.problem(), self.beta)?;
        let accuracy = match reference.compare(self.device, &self.queue, operands, (gemm, &extras))? {
            Agreement::Right(accuracy) => accuracy,
            Agreement::Wrong(what) => {
                return Ok(Event::Missing { suite, schedule, size: Some(size), reason: Reason::Wrong, what });
            }
            Agreement::Uncompared(what) => {
                return Ok(Event::Missing { suite, schedule, size: Some(size), reason: Reason::Uncompared, what });
            }
        };
        let ours = operands.prepared(gemm, &extras)?;
        let ours = ours.iter().map(|one| one as &dyn Enqueue).collect();
        // Only a kernel that promotes no sums adds as fast accumulation does.
        let never =
            gemm.kernel().interface().entries.iter().any(|entry| entry.coarse.is_some_and(|of| of.chunk.is_none()));
        let accumulation = if never { Accumulation::Fast } else { Accumulation::Exact };
        let times = measure(
            &self.queue,
            theirs.next_to(ours, accumulation),
            Pace { rest: self.rest, deadline: self.deadline },
        )?;
        let problem = &operands.problem;
        let (types, layouts) = (problem.types, problem.layouts);
        let layout = format!("{},{},{}", layouts.a, layouts.b, layouts.d);
        let planes = gemm.kernel().interface().entries.iter().find_map(|entry| entry.emulated);
        let planes = planes.map(|of| format!("{}x{}", of.dtype, of.products));
        let types = RowTypes { types: [types.a, types.b, types.acc, types.d], planes }.to_string();
        Ok(Event::Row(Row { suite, types, layout, size, schedule, times, accuracy }))
    }

    fn late(&self, order: &Order, schedule: &str, size: Size) {
        let (suite, schedule) = (order.suite.clone(), schedule.to_string());
        let what = "the time was up".to_string();
        send(self.events, Event::Missing { suite, schedule, size: Some(size), reason: Reason::Late, what });
    }

    /// Reports an error and continues, unless the session cannot continue.
    fn missing(&self, order: &Order, schedule: &str, size: Option<Size>, error: Error) -> Result<(), Error> {
        let (suite, schedule, what) = (order.suite.clone(), schedule.to_string(), error.to_string());
        send(self.events, Event::Missing { suite, schedule, size, reason: Reason::Refused, what });
        match error {
            Error::Device(DeviceError::ContextDead { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}
