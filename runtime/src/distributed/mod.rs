//! One product on many processes, each with its own device: on one host or on several, under an ordinary launcher.
//!
//! ```text
//! launcher's variables -> Launch -> World (processes that have met; messages)
//!                                     |
//! Schedule, sizes, grid -> Plan (SUMMA: broadcasts, launches, events; no device) -> the rules of `large::races`
//!                                     |
//!                                     v
//!                        exchange: NCCL and streams on GPUs, messages on interpreters -> Share (a part of D)
//! ```

mod error;
mod estimate;
mod exchange;
mod launch;
pub mod plan;
mod product;
mod share;
mod store;
#[cfg(test)]
mod tests;
mod text;
mod tiles;
mod world;

pub use error::DistributedError;
pub use estimate::{Estimate, Network};
pub use launch::{Launch, LaunchError};
pub use plan::Plan;
pub use product::{Distributed, plan_for};
pub use share::Share;
pub use tiles::Tiles;
pub use world::{Rendezvous, World};
