//! The result of a launch.

use crate::cost::Cost;
use crate::violation::Violation;

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions executed, counted once per warp.
    pub instructions: u64,
    /// Floating-point multiply-adds (`fma`), counted once per thread, and twice if packed.
    pub fma: u64,
    /// Integer multiply-adds (`mad`), including those for addresses, counted once per thread.
    pub mad: u64,
    /// Broken rules that do not end a launch, each pair of instructions once, sorted by line.
    pub warnings: Vec<Violation>,
    /// What threads have printed by `vprintf`: cluster by cluster, at most 1 MiB of each.
    pub printed: Vec<u8>,
    /// Its cost, if counted.
    pub cost: Option<Cost>,
}
