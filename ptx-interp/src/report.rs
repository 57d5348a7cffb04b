//! What a launch hands back.

use crate::cost::Cost;
use crate::violation::Violation;

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions executed, counted once per warp.
    pub instructions: u64,
    /// Multiply-adds of floats (`fma`), counted once per thread, and twice where they are packed.
    pub fma: u64,
    /// Multiply-adds of integers (`mad`), addresses included, counted once per thread.
    pub mad: u64,
    /// Rules that were broken and are not to end a launch, each pair of instructions once, by their lines.
    pub warnings: Vec<Violation>,
    /// What it cost, if that was asked for.
    pub cost: Option<Cost>,
}
