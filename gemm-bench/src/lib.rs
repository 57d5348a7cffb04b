//! Measures speed against cuBLAS and cuBLASLt: which products, on which data, how they are timed, and how they are
//! reported.
//!
//! ```text
//! suites -> session (a thread of its own) -> operands -> agree (right?) -> measure (how fast?) -> rows -> report, plot
//!                                                        rivals (the libraries) ^
//! ```
//!
//! The session runs on a separate thread from the one that prints, so that a kernel that never ends loses its own row,
//! and not the rows before it.

mod agree;
pub mod calibrate;
pub mod cpu;
mod host;
pub mod large;
mod library;
pub mod markdown;
mod measure;
pub mod ncu;
mod operands;
pub mod pick;
pub mod plot;
pub mod process;
mod program;
pub mod progress;
pub mod report;
pub mod rivals;
pub mod roofline;
pub mod rows;
pub mod session;
pub mod spelling;
pub mod suites;
pub mod sweep;
pub mod timing;
pub mod tune;

pub use agree::Accuracy;
pub use measure::{How, Times};
pub use program::Program;
