//! The operations that a plan needs of devices: streams, events, copies and launches.

use super::operation::Operation;
use crate::error::Error;

/// Devices that run operations in the order in which they are started, independently for each stream of each device.
pub(crate) trait Executor {
    /// Starts the operation with this index in the plan. It may still fail afterwards. An error has the index of the
    /// device that failed.
    fn start(&mut self, index: usize, operation: &Operation) -> Result<(), (usize, Error)>;

    /// Reports the index of each product and each download that has ended since the last call, and the devices that have
    /// failed. Does not wait.
    fn poll(&mut self, ended: &mut dyn FnMut(usize)) -> Vec<(usize, Error)>;

    /// True if some event has ended since the last call.
    fn has_advanced(&mut self) -> bool;

    /// True if nothing that was started is still running, except on devices that have failed.
    fn is_idle(&mut self) -> bool;

    /// Ends the work of devices that wait for a failed one forever. Reports the devices that this costs.
    fn abandon(&mut self) -> Vec<(usize, Error)>;
}
