//! Performs the operations of a plan on an executor, and determines what is finished when something fails.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use super::executor::Executor;
use super::operation::{Action, Operation, Stream};
use super::plan::Plan;
use super::region::Region;
use crate::error::Error;

/// Longest time from the failure of a device, or from an event after it, to the next event of another device. No launch
/// takes this long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two checks of the devices at the end of a plan.
const PAUSE: Duration = Duration::from_micros(200);

/// A device that failed, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Index of the device.
    pub device: usize,
    /// The operation that could not be started; `None` if it failed later, or before the first one.
    pub operation: Option<String>,
    /// The reason.
    pub error: Error,
}

/// The outcome.
#[derive(Debug, Default)]
pub(crate) struct Performed {
    /// Strips of D that are complete on the host, in the plan's coordinates.
    pub(crate) finished: Vec<Region>,
    pub(crate) failures: Vec<Failure>,
}

/// Starts every operation in the given order, and waits for the end.
///
/// After a failure, it starts no operation of that device, and none that waits for an operation that was not started;
/// the others continue. Calls `progress` for each product and each download when it has ended.
pub(crate) fn perform(
    plan: &Plan,
    order: impl Iterator<Item = usize>,
    executor: &mut dyn Executor,
    progress: &mut dyn FnMut(&Action),
) -> Performed {
    let mut state = State { plan, performed: Performed::default(), dead: BTreeSet::new(), progress };
    let mut recorded: BTreeSet<usize> = BTreeSet::new();
    let mut blocked: BTreeSet<(usize, Stream)> = BTreeSet::new();
    for index in order {
        let operation = &plan.operations[index];
        let Operation { device, stream, ref action } = *operation;
        // Memory of a dead device cannot be read either.
        let source = match action {
            Action::Receive { from, .. } => Some(*from),
            Action::Broadcast { root, .. } => Some(*root),
            _ => None,
        };
        let lost = state.dead.contains(&device) || source.is_some_and(|from| state.dead.contains(&from));
        let early = matches!(action, Action::Wait(event) if !recorded.contains(event));
        if lost || early || blocked.contains(&(device, stream)) {
            blocked.insert((device, stream));
            continue;
        }
        match executor.start(index, operation) {
            Ok(()) => {
                if let Action::Record(event) = action {
                    recorded.insert(*event);
                }
            }
            Err((failed, error)) => {
                blocked.insert((device, stream));
                state.fail(failed, Some(operation.to_string()), error);
            }
        }
        if matches!(action, Action::Multiply(_) | Action::Download { .. }) {
            state.poll(executor);
        }
    }
    let mut since = Instant::now();
    loop {
        state.poll(executor);
        if executor.is_idle() {
            break;
        }
        if state.dead.is_empty() || executor.has_advanced() {
            since = Instant::now();
        } else if since.elapsed() > PATIENCE {
            for (device, error) in executor.abandon() {
                state.fail(device, None, error);
            }
            break;
        }
        thread::sleep(PAUSE);
    }
    state.poll(executor);
    state.performed
}

struct State<'p> {
    plan: &'p Plan,
    performed: Performed,
    dead: BTreeSet<usize>,
    progress: &'p mut dyn FnMut(&Action),
}

impl State<'_> {
    fn fail(&mut self, device: usize, operation: Option<String>, error: Error) {
        if self.dead.insert(device) {
            self.performed.failures.push(Failure { device, operation, error });
        }
    }

    fn poll(&mut self, executor: &mut dyn Executor) {
        let failed = executor.poll(&mut |index| {
            let action = &self.plan.operations[index].action;
            if let Action::Download { host, .. } = action {
                self.performed.finished.push(*host);
            }
            (self.progress)(action);
        });
        failed.into_iter().for_each(|(device, error)| self.fail(device, None, error));
    }
}
