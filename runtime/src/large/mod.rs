//! Products of host matrices of any size, on one or several devices whose memory need not hold them.
#![allow(dead_code)] // The executors follow.

mod linear;
mod operation;
pub mod plan;
pub mod races;
mod region;
mod sums;
#[cfg(test)]
mod tests;

pub use linear::shuffled;
pub use operation::{Access, AccessKind, Action, Buffer, Memory, Operation, Place, Product, Stream};
pub use plan::{Plan, PlanError};
pub use region::Region;
pub use sums::Part;
