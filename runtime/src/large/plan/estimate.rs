//! The time of a plan, by a roofline: the slowest of the products and the links, plus the parts that cannot overlap.

use ptx_gemm_dsl::types::DType;

use super::{Plan, Request};
use crate::large::operation::{Action, Operation, Stream};

/// Bytes that a plan moves, counted in its operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Host to each device.
    pub up: Vec<u64>,
    /// Each device to the host.
    pub down: Vec<u64>,
    /// To each device from the others.
    pub peer: Vec<u64>,
    /// Multiplications and additions of each device.
    pub flops: Vec<u128>,
    /// Bytes of traffic in each device's memory for the sums, between slabs.
    pub sums: Vec<u64>,
}

/// The resource that a plan keeps busy longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The products of the busiest device.
    Products,
    /// Copies from the host to one device.
    Up,
    /// Copies from one device to the host.
    Down,
    /// The host's memory, which all copies from and to the host share.
    Host,
    /// Copies between devices.
    Peer,
}

/// Times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Time of each resource, if it were the only one.
    pub seconds: [(Bound, f64); 5],
    /// Time of the first slab, before anything can be multiplied.
    pub fill: f64,
    /// Time of the last strip of D, after everything is multiplied.
    pub drain: f64,
}

impl Estimate {
    /// The bottleneck, and its time.
    pub fn bound(&self) -> (Bound, f64) {
        let slower = |best: (Bound, f64), one: (Bound, f64)| if one.1 > best.1 { one } else { best };
        self.seconds.into_iter().fold((Bound::Products, 0.0), slower)
    }

    /// The whole plan.
    pub fn total(&self) -> f64 {
        self.bound().1 + self.fill + self.drain
    }
}

impl Plan {
    /// Bytes and arithmetic operations by device.
    pub fn traffic(&self) -> Traffic {
        let devices = self.request.devices;
        let zeros = || vec![0; devices];
        let (up, down, peer, sums) = (zeros(), zeros(), zeros(), zeros());
        let mut traffic = Traffic { up, down, peer, flops: vec![0; devices], sums };
        let types = self.request.types;
        let size = |dtype: DType| u64::from(dtype.bytes());
        for Operation { device, action, .. } in &self.operations {
            match action {
                Action::Upload { operand, host, .. } => {
                    traffic.up[*device] += host.elements() * size(types.of(*operand));
                }
                Action::Receive { place, .. } => {
                    let dtype = self.buffers.get(&place.buffer).map_or(types.a, |buffer| buffer.dtype);
                    traffic.peer[*device] += place.region.elements() * size(dtype);
                }
                Action::Broadcast { operand, root, to, .. } if root != device => {
                    traffic.peer[*device] += to.region.elements() * size(types.of(*operand));
                }
                Action::Multiply(product) => {
                    let (elements, depth) = (product.d.region.elements(), product.a.region.cols as u64);
                    traffic.flops[*device] += 2 * u128::from(elements) * u128::from(depth);
                    let read = product.c.map_or(0, |_| size(types.epilogue()));
                    traffic.sums[*device] += elements * (read + size(types.epilogue()));
                }
                Action::Download { from, .. } => traffic.down[*device] += from.region.elements() * size(types.d),
                Action::Broadcast { .. } | Action::Record(_) | Action::Wait(_) => {}
            }
        }
        traffic
    }

    /// The time on a machine with the request's [`Rates`](super::Rates).
    pub fn estimate(&self) -> Estimate {
        let traffic = self.traffic();
        let rates = &self.request.rates;
        let most = |bytes: &[u64]| bytes.iter().copied().max().unwrap_or(0) as f64;
        let all = |bytes: &[u64]| bytes.iter().sum::<u64>() as f64;
        let products = traffic.flops.iter().zip(&traffic.sums);
        let products = products.map(|(flops, sums)| *flops as f64 / rates.flops + *sums as f64 / rates.memory);
        let (up, down) = (all(&traffic.up), all(&traffic.down));
        let host = (up / rates.host[0]).max(down / rates.host[1]).max((up + down) / rates.host[2]);
        let seconds = [
            (Bound::Products, products.fold(0.0, f64::max)),
            (Bound::Up, most(&traffic.up) / rates.up),
            (Bound::Down, most(&traffic.down) / rates.down),
            (Bound::Host, host),
            (Bound::Peer, most(&traffic.peer) / rates.peer),
        ];
        let (fill, drain) = self.ends();
        Estimate { seconds, fill, drain }
    }

    /// Seconds before the first product, and after the last.
    fn ends(&self) -> (f64, f64) {
        let Request { types, rates, .. } = &self.request;
        let first = |device| {
            let own = move |operation: &&Operation| operation.device == device && operation.stream == Stream::Upload;
            let before = self.operations.iter().take_while(|operation| operation.stream != Stream::Compute);
            let bytes = before.filter(own).map(|operation| match operation.action {
                Action::Upload { operand, host, .. } => host.elements() * u64::from(types.of(operand).bytes()),
                _ => 0,
            });
            bytes.sum::<u64>() as f64 / rates.up
        };
        let fill = (0..self.request.devices).map(first).fold(0.0, f64::max);
        let last = self.strips().last().map_or(0, |strip| strip.elements() * u64::from(types.d.bytes()));
        (fill, last as f64 / rates.down)
    }
}
