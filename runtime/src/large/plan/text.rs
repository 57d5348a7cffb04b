//! A plan as a table: how it is divided, what moves over which link, and the bottleneck.

use std::fmt;

use super::{Addend, Allocation, Bound, Plan};
use crate::large::operation::Buffer;

/// A number of bytes in units of 1024.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let (mut value, mut unit) = (self.0 as f64, 0);
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.2} {}", UNITS[unit]) }
    }
}

/// Seconds with a unit that suits them.
pub(crate) struct Seconds(pub(crate) f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds >= 1.0 => write!(f, "{seconds:.2} s"),
            seconds if seconds >= 1e-3 => write!(f, "{:.2} ms", seconds * 1e3),
            seconds => write!(f, "{:.2} us", seconds * 1e6),
        }
    }
}

impl Bound {
    /// The resource in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Products => "the products",
            Bound::Up => "host to device",
            Bound::Down => "device to host",
            Bound::Host => "the host's memory",
            Bound::Peer => "device to device",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (request, geometry) = (&self.request, &self.geometry);
        let types = request.types;
        let devices = if request.devices == 1 { "device" } else { "devices" };
        writeln!(f, "{} x {} x {} on {} {devices}", request.m, request.n, request.k, request.devices)?;
        let c = if request.addend == Addend::Read { format!(", c {}", types.c) } else { String::new() };
        writeln!(f, "types      a {}, b {}{c}, d {}, sums {}", types.a, types.b, types.d, types.epilogue())?;
        if self.operations.is_empty() {
            return writeln!(f, "nothing to compute");
        }
        let [rows, cols] = geometry.block;
        let [grid_m, grid_n] = geometry.grid;
        let [rounds_m, rounds_n] = geometry.rounds;
        writeln!(f, "devices    {grid_m} along m, {grid_n} along n, each with a block of {rows} x {cols} of D")?;
        writeln!(f, "rounds     {}: {rounds_m} along m, {rounds_n} along n", rounds_m * rounds_n)?;
        let strips = geometry.strips(request, rows, cols).len();
        writeln!(
            f,
            "slabs      {} of {} of K, {} at once; strips of D per block: {strips}",
            geometry.slabs, geometry.depth, geometry.ring
        )?;
        self.memory(f)?;
        writeln!(f)?;
        self.links(f)?;
        let estimate = self.estimate();
        let (bound, seconds) = estimate.bound();
        writeln!(f)?;
        for (name, seconds) in [("fill", estimate.fill), ("drain", estimate.drain)] {
            writeln!(f, "{name:<10} {}", Seconds(seconds))?;
        }
        writeln!(
            f,
            "time       {}: {} bind{}, {}",
            Seconds(estimate.total()),
            bound.name(),
            bound.ending(),
            Seconds(seconds)
        )
    }
}

impl Bound {
    fn ending(self) -> &'static str {
        if self == Bound::Products { "" } else { "s" }
    }
}

impl Plan {
    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: &dyn Fn(&Buffer) -> bool| {
            let chosen = self.buffers.iter().filter(|(buffer, _)| of(buffer));
            chosen.map(|(_, allocation): (_, &Allocation)| allocation.bytes()).sum::<u64>()
        };
        let parts = [
            ("slabs", sum(&|buffer| matches!(buffer, Buffer::A(_) | Buffer::B(_)))),
            ("sums", sum(&|buffer| matches!(buffer, Buffer::Sum))),
            ("C", sum(&|buffer| matches!(buffer, Buffer::Addend))),
            ("D", sum(&|buffer| matches!(buffer, Buffer::Result))),
            ("vectors", self.request.vector_bytes),
            ("workspace", self.workspace_bytes),
        ];
        let parts = parts.iter().filter(|(_, bytes)| *bytes > 0);
        let parts: Vec<String> = parts.map(|(name, bytes)| format!("{name} {}", Bytes(*bytes))).collect();
        let (used, budget) = (Bytes(self.device_bytes()), Bytes(self.request.budget));
        writeln!(f, "memory     {used} of {budget} per device: {}", parts.join(", "))
    }

    fn links(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (traffic, estimate) = (self.traffic(), self.estimate());
        let all = |bytes: &[u64]| bytes.iter().sum::<u64>();
        let most = |bytes: &[u64]| bytes.iter().copied().max().unwrap_or(0);
        writeln!(f, "{:<18} {:>12} {:>12} {:>12}", "link", "busiest", "all", "time")?;
        for (bound, seconds) in estimate.seconds {
            let (busiest, total) = match bound {
                Bound::Products => {
                    let tera = |flops: u128| format!("{:.3} TFLOP", flops as f64 / 1e12);
                    let busiest = traffic.flops.iter().copied().max().unwrap_or(0);
                    (tera(busiest), tera(traffic.flops.iter().sum()))
                }
                Bound::Up => (Bytes(most(&traffic.up)).to_string(), Bytes(all(&traffic.up)).to_string()),
                Bound::Down => (Bytes(most(&traffic.down)).to_string(), Bytes(all(&traffic.down)).to_string()),
                Bound::Host => (String::new(), Bytes(all(&traffic.up) + all(&traffic.down)).to_string()),
                Bound::Peer => (Bytes(most(&traffic.peer)).to_string(), Bytes(all(&traffic.peer)).to_string()),
            };
            writeln!(f, "{:<18} {busiest:>12} {total:>12} {:>12}", bound.name(), Seconds(seconds).to_string())?;
        }
        Ok(())
    }
}
