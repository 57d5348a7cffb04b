//! Speed next to cuBLAS's: which products, on which data, how they are timed, and what is said about it.
//!
//! ```text
//! suites -> session (a thread of its own) -> operands -> agree (right?) -> measure (how fast?) -> rows -> report, plot
//! ```
//!
//! The session runs apart from the thread that prints, so that a kernel that never ends costs its row, and not the rows
//! before it.

mod agree;
mod host;
pub mod markdown;
mod measure;
mod operands;
pub mod plot;
mod program;
pub mod report;
pub mod session;
pub mod suites;
pub mod sweep;

pub use measure::{How, Times};
pub use program::Program;
