//! What a launch hands back.

use crate::cost::Cost;

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions executed, counted once per warp.
    pub instructions: u64,
    /// Multiply-adds of floats (`fma`), counted once per thread, and twice where they are packed.
    pub fma: u64,
    /// Multiply-adds of integers (`mad`), addresses included, counted once per thread.
    pub mad: u64,
    /// What it cost, if that was asked for.
    pub cost: Option<Cost>,
}
