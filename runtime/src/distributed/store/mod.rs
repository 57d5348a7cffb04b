//! Messages between the processes of a launch, through a place that all of them know: within one process, through a TCP
//! address, or through a folder.
//!
//! They carry what NCCL needs to start, agreement on what is computed, the beginning and the end of a product, and failures;
//! between interpreters, the panels as well. Each message has one sender, one receiver and a tag that is used once.

mod file;
mod heartbeat;
mod memory;
mod tcp;

use std::fmt;
use std::time::Duration;

use super::error::DistributedError;

pub(super) use file::Folder;
pub(super) use memory::{Mailbox, Member};
pub(super) use tcp::{Client, Server};

/// One process's access to the messages.
pub(super) trait Store: fmt::Debug + Send + Sync {
    /// Leaves a message for each of some processes: for all of them at the same moment, if this is process 0 and not in a
    /// folder. Also after a failure, since a product that is complete ends everywhere before the next one fails.
    fn send(&self, to: &[usize], tag: &str, bytes: &[u8]) -> Result<(), DistributedError>;

    /// Waits for a message and takes it. Ends early if any process has failed, or if the sender has left.
    fn receive(&self, from: usize, tag: &str, patience: Duration) -> Result<Vec<u8>, DistributedError>;

    /// Tells all processes that this one has failed.
    fn fail(&self, reason: &str);

    /// Whether a process has failed. Does not wait for anything but the answer.
    fn check(&self) -> Result<(), DistributedError>;
}
