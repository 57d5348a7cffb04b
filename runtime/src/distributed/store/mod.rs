//! Messages between the processes of a launch, through a place that all of them know: memory of one process, a TCP
//! address, or a folder.
//!
//! They carry the data that NCCL needs to start, agreement on the product, the beginning and the end of a product,
//! failures, and between interpreters also the panels. Each message has one sender, one receiver and a tag that is used
//! once.

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
    /// Sends a message to each of some processes. All of them get it at the same moment, if this is process 0 and the
    /// store is not a folder. This also works after a failure, since a product that is complete ends everywhere before
    /// the next one fails.
    fn send(&self, to: &[usize], tag: &str, bytes: &[u8]) -> Result<(), DistributedError>;

    /// Waits for a message and takes it. Ends early if any process has failed, or if the sender has left.
    fn receive(&self, from: usize, tag: &str, patience: Duration) -> Result<Vec<u8>, DistributedError>;

    /// Notifies all processes that this one has failed.
    fn fail(&self, reason: &str);

    /// Returns an error if a process has failed. Waits for nothing but the answer.
    fn check(&self) -> Result<(), DistributedError>;
}
