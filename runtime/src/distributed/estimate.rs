//! The time of a product across processes, by a roofline: the slower of the products and the exchange, after the first
//! panel.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::DType;

use super::plan::Plan;
use crate::large::plan::Rates;

/// Assumptions about the links between GPUs, in bytes per second and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// GPUs per host; neighbouring processes are on one host.
    pub per_host: usize,
    /// Between two GPUs of a host.
    pub inside: f64,
    /// From one GPU to other hosts: each GPU has its own network card.
    pub between: f64,
    /// Seconds from one process of a broadcast to the next.
    pub latency: f64,
}

impl Network {
    /// Hosts of eight H200s: NVLink at the speed measured for the blocks of a broadcast; a network of 400 Gbit/s for
    /// each GPU at its nominal speed; and 10 us from process to process, which is an assumption.
    pub const H200: Network = Network { per_host: 8, inside: 135e9, between: 50e9, latency: 10e-6 };
}

/// Times in seconds, of the process with the most work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// All products, with the memory traffic of the accumulators between panels.
    pub products: f64,
    /// All broadcasts, one after another.
    pub exchange: f64,
    /// The first panels, before anything can be multiplied.
    pub fill: f64,
    /// The share of the time in which all processes multiply at full speed.
    pub efficiency: f64,
}

impl Estimate {
    /// The whole product.
    pub fn total(&self) -> f64 {
        self.fill + self.products.max(self.exchange)
    }
}

impl Plan {
    /// The time on such GPUs and links.
    ///
    /// A broadcast goes around its row or column in pieces, so that each link carries every byte once. It takes the
    /// time of its bytes on the slowest link, and a latency for every process but the first. Broadcasts of A and B
    /// share a GPU's link, and follow each other.
    pub fn estimate(&self, rates: &Rates, network: &Network) -> Estimate {
        let request = &self.request;
        let size = |dtype: DType| f64::from(dtype.bytes());
        let ([rows, cols], k) = (self.block.map(|extent| extent as f64), request.k as f64);
        let (panels, depth) = (self.panels as f64, self.depth as f64);
        let sums = (2.0 * panels - 1.0) * rows * cols * size(request.types.epilogue());
        let products = 2.0 * rows * cols * k / rates.flops + sums / rates.memory;
        let broadcast = |operand, bytes: f64, broadcasts: f64| match self.sharing(0, operand).len() {
            1 => 0.0,
            members => {
                let speed = if self.leaves_host(operand, network) { network.between } else { network.inside };
                bytes / speed + broadcasts * network.latency * (members - 1) as f64
            }
        };
        let both = |depth: f64, broadcasts: f64| {
            broadcast(Operand::A, rows * depth * size(request.types.a), broadcasts)
                + broadcast(Operand::B, cols * depth * size(request.types.b), broadcasts)
        };
        let (exchange, fill) = (both(k, panels), both(depth, 1.0));
        let estimate = Estimate { products, exchange, fill, efficiency: 0.0 };
        let ideal = 2.0 * request.m as f64 * request.n as f64 * k / rates.flops / self.size() as f64;
        let total = estimate.total();
        Estimate { efficiency: if total > 0.0 { ideal / total } else { 1.0 }, ..estimate }
    }

    /// Whether some broadcast of A, or of B, reaches another host.
    fn leaves_host(&self, operand: Operand, network: &Network) -> bool {
        let host = |rank: usize| rank / network.per_host.max(1);
        (0..self.size()).any(|rank| self.sharing(rank, operand).iter().any(|other| host(*other) != host(rank)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::{plan::grid, plan_for};

    fn estimate(size: usize, per_host: usize, extent: usize) -> Estimate {
        let schedule = "tile(128, 128, 8); thread(8, 8);".parse().unwrap();
        let plan = plan_for(&schedule, grid(size, extent, extent), Some(2048), [extent; 3]).unwrap();
        plan.estimate(&Rates { memory: f64::INFINITY, ..Rates::h200(50e12) }, &Network { per_host, ..Network::H200 })
    }

    #[test]
    fn the_roofline_is_the_slower_of_two() {
        // One process: 2 x 32768^3 at 50 TFLOP/s, and nothing to exchange.
        let alone = estimate(1, 8, 32768);
        assert!((alone.total() - 1.4074).abs() < 1e-3 && alone.exchange == 0.0, "{alone:?}");
        assert!((alone.efficiency - 1.0).abs() < 1e-9);
        // Four on one host: half of A's rows and half of B's columns, 2 GiB each, over NVLink.
        let four = estimate(4, 8, 32768);
        let bytes = 2.0 * 16384.0 * 32768.0 * 4.0;
        assert!((four.exchange - bytes / 135e9 - 32.0 * 10e-6).abs() < 1e-9, "{four:?}");
        assert!((four.products * 4.0 - alone.products).abs() < 1e-9 && four.efficiency > 0.98, "{four:?}");
        // On hosts with one GPU each, over the network.
        let apart = estimate(4, 1, 32768);
        assert!(apart.exchange > 2.5 * four.exchange && apart.efficiency < four.efficiency, "{apart:?}");
        // 1,024 processes on a product that is too small for them are bound by the exchange.
        let many = estimate(1024, 8, 32768);
        assert!(many.exchange > many.products && many.efficiency < 0.5, "{many:?}");
        assert!(estimate(1024, 8, 524_288).efficiency > 0.9);
    }
}
