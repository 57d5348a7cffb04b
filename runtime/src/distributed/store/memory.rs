//! Messages in the memory of one process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Store;
use crate::distributed::error::DistributedError;

/// Messages that have not been received, and the state of the processes.
#[derive(Debug, Default)]
pub(in crate::distributed) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By sender, receiver and tag.
    messages: BTreeMap<(usize, usize, String), Vec<u8>>,
    /// The first process that failed, and its reason.
    failure: Option<(usize, String)>,
    /// Processes that do not send any more.
    left: BTreeSet<usize>,
}

impl State {
    fn check(&self) -> Result<(), DistributedError> {
        match &self.failure {
            Some((rank, reason)) => Err(DistributedError::Peer { rank: *rank, reason: reason.clone() }),
            None => Ok(()),
        }
    }
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    pub(super) fn send(&self, from: usize, to: &[usize], tag: &str, bytes: &[u8]) {
        self.change(|state| {
            state.messages.extend(to.iter().map(|to| ((from, *to, tag.to_string()), bytes.to_vec())));
        });
    }

    pub(super) fn receive(
        &self,
        (from, to): (usize, usize),
        tag: &str,
        patience: Duration,
    ) -> Result<Vec<u8>, DistributedError> {
        let begun = Instant::now();
        let key = (from, to, tag.to_string());
        let mut state = self.state();
        loop {
            // A message that was sent counts, whatever happened since.
            if let Some(bytes) = state.messages.remove(&key) {
                return Ok(bytes);
            }
            state.check()?;
            if state.left.contains(&from) {
                return Err(DistributedError::Peer { rank: from, reason: format!("has left ({tag} was expected)") });
            }
            let Some(rest) = patience.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero()) else {
                return Err(DistributedError::silent(from, tag, patience));
            };
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn fail(&self, rank: usize, reason: String) {
        self.change(|state| {
            state.failure.get_or_insert((rank, reason));
        });
    }

    pub(super) fn check(&self) -> Result<(), DistributedError> {
        self.state().check()
    }

    /// Records that the process does not send any more.
    pub(super) fn leave(&self, rank: usize) {
        self.change(|state| {
            state.left.insert(rank);
        });
    }

    /// Waits until this many processes have left.
    pub(super) fn wait_for_leaving(&self, count: usize, patience: Duration) {
        let (state, waiting) = (self.state(), |state: &mut State| state.left.len() < count);
        drop(self.changed.wait_timeout_while(state, patience, waiting));
    }
}

/// A process, or a thread that acts as one.
#[derive(Debug)]
pub(in crate::distributed) struct Member {
    pub(in crate::distributed) rank: usize,
    pub(in crate::distributed) mailbox: Arc<Mailbox>,
}

impl Store for Member {
    fn send(&self, to: &[usize], tag: &str, bytes: &[u8]) -> Result<(), DistributedError> {
        self.mailbox.send(self.rank, to, tag, bytes);
        Ok(())
    }

    fn receive(&self, from: usize, tag: &str, patience: Duration) -> Result<Vec<u8>, DistributedError> {
        self.mailbox.receive((from, self.rank), tag, patience)
    }

    fn fail(&self, reason: &str) {
        self.mailbox.fail(self.rank, reason.into());
    }

    fn check(&self) -> Result<(), DistributedError> {
        self.mailbox.check()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail("panicked");
        }
        self.mailbox.leave(self.rank);
    }
}
