//! Products of host matrices of any size, on one or several devices that need not have memory for the whole matrices.
//!
//! C is stationary: each device keeps a block of it, and slabs of K stream past through a ring. Devices exchange slabs
//! directly if they are linked. Copies in both directions, exchanges and products overlap; only streams and events
//! order them.
//!
//! ```text
//! Schedule -> sums (a schedule for the first, middle and last slab)
//!                |
//! sizes, devices, budget -> plan (copies, launches, events; no device) -> races (checks the order)
//!                                |
//!                                v
//!                             perform -> executor: GPUs, or any devices one operation at a time
//! ```

mod arguments;
mod bounds;
mod error;
pub(crate) mod executor;
pub(crate) mod host;
mod linear;
pub(crate) mod operation;
mod perform;
pub mod plan;
mod product;
pub mod races;
mod region;
mod run;
pub(crate) mod sequential;
pub(crate) mod site;
#[cfg(test)]
pub(crate) mod tests;

pub use arguments::{Arguments, Progress};
pub use bounds::Bounds;
pub use error::{Incomplete, LargeError};
pub use linear::shuffled;
pub use operation::{Access, AccessKind, Action, Buffer, Memory, Operation, Place, Product, Stream};
pub use perform::Failure;
pub use plan::{Plan, PlanError};
pub use product::{Large, OnFailure};
pub use ptx_gemm_dsl::sums::Part;
pub use region::Region;
pub use run::LargeRun;
