//! References, error bounds, edge sizes and the named cases of ptx-gemm: for its tests, for `gemmc`, and for tests of
//! your own schedules.
//!
//! ```
//! use ptx_gemm_check::{Request, check};
//! use ptx_gemm_dsl::Schedule;
//! use ptx_gemm_runtime::{CompiledGemm, Device};
//!
//! let schedule: Schedule = "tile(32, 32, 32); thread(2, 2);".parse()?;
//! let gemm = CompiledGemm::new(&schedule, &Device::interpreter())?;
//! let outcome = check(&gemm, &Request::random(33, 31, 65))?;
//! assert!(outcome.is_right(), "{outcome}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A result is right if every element is within a bound that is computed together with the reference, in f64, by
//! running error analysis: see [`bound`]. With exact data the bound is 0, so right means equal.

pub mod ablate;
mod abridge;
mod bits;
pub mod bound;
mod cases;
mod check;
mod compare;
mod data;
pub mod differences;
#[cfg(feature = "draws")]
pub mod draws;
mod effect;
mod element;
pub mod epilogue;
mod error;
pub mod exec;
pub mod figures;
mod given;
pub mod integer;
pub mod ladder;
mod landmarks;
pub mod mechanisms;
mod memory;
pub mod mutants;
pub mod netlib;
pub mod part;
mod planes;
mod product;
mod profile;
mod request;
mod size;
mod sizes;
mod suite;
mod survey;
pub mod texts;

pub use abridge::{abridge, digest, operation};
pub use bits::{Agreement, Rule, agree, bit_requests};
pub use cases::{Case, case, cases};
pub use check::check;
pub use compare::{Mismatch, Outcome, Verdict};
pub use data::{Data, Values};
pub use effect::Effect;
pub use element::{decode, encode};
pub use error::CheckError;
pub use figures::Figures;
pub use profile::{Profile, dram_bytes, formula_bytes, sample_size};
pub use request::{Leading, Output, Request};
pub use size::Size;
pub use sizes::{edge_sizes, quick_sizes, work};
pub use suite::{edge_requests, quick_requests, rereads_tma};
pub use survey::{Finding, Survey, survey};
