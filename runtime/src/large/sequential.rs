//! Runs every operation to its end before the next one: on the interpreter, and wherever the order is to be chosen.

use ptx_gemm_dsl::DType;

use super::executor::Executor;
use super::host::Host;
use super::operation::{Action, Operation, Place};
use super::site::Site;
use crate::arguments::DeviceMatrix;
use crate::error::Error;
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AnyRef, HostBytes, HostBytesMut, Runs, RunsMut};

/// Devices whose operations are waited for one by one.
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

    fn read(&self, device: usize, place: Place, into: &mut dyn RunsMut) -> Result<(), Error> {
        let Some((site, (dtype, DeviceMatrix { address, shape, .. }))) = self.at(device, place) else { return Ok(()) };
        let bytes = HostBytesMut::Runs(into);
        site.backend().download(address, "a part of a plan", AnyMut { dtype, shape, stack: Stack::ONE, bytes })
    }

    fn write(&self, device: usize, place: Place, from: &dyn Runs) -> Result<(), Error> {
        let Some((site, (dtype, DeviceMatrix { address, shape, .. }))) = self.at(device, place) else { return Ok(()) };
        site.backend().upload(address, AnyRef { dtype, shape, stack: Stack::ONE, bytes: HostBytes::Runs(from) })
    }

    fn at(&self, device: usize, place: Place) -> Option<(&'s Site, (DType, DeviceMatrix))> {
        let site = self.site(device)?;
        Some((site, site.matrix(place)?))
    }
}

impl Executor for Sequential<'_, '_> {
    fn start(&mut self, index: usize, operation: &Operation) -> Result<(), (usize, Error)> {
        let Operation { device, ref action, .. } = *operation;
        if let Action::Receive { from, place } = *action {
            let Some((_, (dtype, matrix))) = self.at(from, place) else { return Ok(()) };
            let mut between = Between::new(dtype, matrix.shape);
            self.read(from, place, &mut between).map_err(|error| (from, error))?;
            return self.write(device, place, &between).map_err(|error| (device, error));
        }
        self.run(index, operation).map_err(|error| (device, error))
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
        let device = operation.device;
        match &operation.action {
            Action::Upload { operand, host, to } => match self.host.input(*operand, *host) {
                Some(part) => self.write(device, *to, &part),
                None => Ok(()),
            },
            Action::Multiply(product) => {
                let Some(site) = self.site(device) else { return Ok(()) };
                let Some(ready) = site.ready(product)? else { return Ok(()) };
                if ready.flags.1 > 0 {
                    site.backend().zero(ready.flags.0, ready.flags.1)?;
                }
                site.backend().launch(&ready.steps).map(drop)
            }
            Action::Download { from, host } => {
                let Some((site, (dtype, DeviceMatrix { address, shape, .. }))) = self.at(device, *from) else {
                    return Ok(());
                };
                let mut part = self.host.output(*host);
                let bytes = HostBytesMut::Runs(&mut part);
                site.backend().download(address, "the last slab", AnyMut { dtype, shape, stack: Stack::ONE, bytes })?;
                self.ended.push(index);
                Ok(())
            }
            Action::Receive { .. } | Action::Record(_) | Action::Wait(_) => Ok(()),
        }
    }
}

/// The runs of a matrix on its way from one device to another.
struct Between {
    run: usize,
    bytes: Vec<u8>,
}

impl Between {
    fn new(dtype: DType, shape: Shape) -> Between {
        let run = shape.run() * dtype.bytes() as usize;
        Between { run, bytes: vec![0; run * shape.runs()] }
    }
}

impl Runs for Between {
    fn run(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.run..(index + 1) * self.run]
    }
}

impl RunsMut for Between {
    fn run_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.run..(index + 1) * self.run]
    }
}
