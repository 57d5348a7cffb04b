//! Runs every operation to its end before the next one: on the interpreter, and in tests that choose the order.

use super::executor::Executor;
use super::host::Host;
use super::operation::{Action, Operation};
use super::site::{Between, Site};
use crate::error::Error;

/// Devices with a wait after each operation.
pub(crate) struct Sequential<'h, 's> {
    sites: &'s [Option<Site>],
    host: &'s mut Host<'h>,
    ended: Vec<usize>,
}

impl<'h, 's> Sequential<'h, 's> {
    pub(crate) fn new(sites: &'s [Option<Site>], host: &'s mut Host<'h>) -> Sequential<'h, 's> {
        Sequential { sites, host, ended: Vec::new() }
    }

    fn site(&self, device: usize) -> Option<&'s Site> {
        self.sites.get(device)?.as_ref()
    }
}

impl Executor for Sequential<'_, '_> {
    fn start(&mut self, index: usize, operation: &Operation) -> Result<(), (usize, Error)> {
        let Operation { device, ref action, .. } = *operation;
        let (owner, source, to) = match *action {
            Action::Receive { from, place } => (from, place, place),
            Action::Broadcast { root, .. } if root == device => return Ok(()),
            Action::Broadcast { root, from, to, .. } => (root, from, to),
            _ => return self.run(index, operation).map_err(|error| (device, error)),
        };
        let (Some(there), Some(here)) = (self.site(owner), self.site(device)) else { return Ok(()) };
        let Some((dtype, matrix)) = there.matrix(source) else { return Ok(()) };
        let mut between = Between::new(dtype, matrix.shape);
        there.read(source, "a part of a plan", &mut between).map_err(|error| (owner, error))?;
        here.write(to, &between).map_err(|error| (device, error))
    }

    fn poll(&mut self, ended: &mut dyn FnMut(usize)) -> Vec<(usize, Error)> {
        self.ended.drain(..).for_each(ended);
        Vec::new()
    }

    fn has_advanced(&mut self) -> bool {
        false
    }

    fn is_idle(&mut self) -> bool {
        true
    }

    fn abandon(&mut self) -> Vec<(usize, Error)> {
        Vec::new()
    }
}

impl Sequential<'_, '_> {
    /// Runs an operation of a single device.
    fn run(&mut self, index: usize, operation: &Operation) -> Result<(), Error> {
        let Some(site) = self.site(operation.device) else { return Ok(()) };
        match &operation.action {
            Action::Upload { operand, host, to } => match self.host.input(*operand, *host) {
                Some(part) => site.write(*to, &part),
                None => Ok(()),
            },
            Action::Multiply(product) => {
                site.multiply(product)?;
                self.ended.push(index);
                Ok(())
            }
            Action::Download { from, host } => {
                site.read(*from, "the last slab", &mut self.host.output(*host))?;
                self.ended.push(index);
                Ok(())
            }
            Action::Receive { .. } | Action::Broadcast { .. } | Action::Record(_) | Action::Wait(_) => Ok(()),
        }
    }
}
