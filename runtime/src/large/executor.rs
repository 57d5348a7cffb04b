//! What a plan needs of devices: streams, events, copies and launches.

use super::operation::Operation;
use crate::error::Error;

/// Devices that run operations in the order in which they are started, each stream of each device by itself.
pub(crate) trait Executor {
    /// Starts an operation, whose index in the plan is given. It may still fail afterwards. An error comes with the index of
    /// the device that failed.
    fn start(&mut self, index: usize, operation: &Operation) -> Result<(), (usize, Error)>;

    /// Reports the index of each product and each download that has ended since the last call, and the devices that have
    /// failed. Does not wait.
    fn poll(&mut self, ended: &mut dyn FnMut(usize)) -> Vec<(usize, Error)>;

    /// True if some event has ended since the last call.
    fn has_advanced(&mut self) -> bool;

    /// True if nothing that was started is still running, except on devices that have failed.
    fn is_idle(&mut self) -> bool;

    /// Ends what will not end by itself since another device has failed; reports the devices that this costs.
    fn abandon(&mut self) -> Vec<(usize, Error)>;
}
