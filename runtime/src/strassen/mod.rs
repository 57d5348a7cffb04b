//! Products by Strassen's algorithm: a plan of launches, and the kernels that it needs in addition to the schedule's.
//!
//! ```text
//! Schedule -> gemm-dsl's sums (the schedule, with epilogues that leave sums in the workspace)
//!                |
//! extents -> plan (launches on blocks of matrices; no device) -> addresses -> the launches of ordinary kernels, in order
//! ```
//!
//! Everything is on one stream, in the order of the plan: the same launches add the same numbers in each run.

mod kernels;
mod place;
pub mod plan;
#[cfg(test)]
mod tests;

pub(crate) use kernels::{Source, kernels};
pub(crate) use place::{Placed, granule, workspace_bytes};
