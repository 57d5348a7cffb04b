//! The text of a plan.

use std::fmt;

use super::plan::Plan;
use crate::large::plan::Bytes;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = &self.request;
        let ([rows, cols], [block_m, block_n], types) = (request.grid, self.block, request.types);
        writeln!(f, "{} x {} x {} on {rows} x {cols} processes", request.m, request.n, request.k)?;
        writeln!(f, "types      a {}, b {}, d {}, sums {}", types.a, types.b, types.d, types.epilogue())?;
        writeln!(f, "part of D  {block_m} x {block_n}")?;
        writeln!(f, "panels     {} of {} of K, {} received at once", self.panels, self.depth, self.ring)?;
        writeln!(f, "memory     {} per process", Bytes(self.device_bytes()))
    }
}
