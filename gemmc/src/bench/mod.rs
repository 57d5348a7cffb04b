//! Speed beside cuBLAS: which products, on which data, how they are timed, and what is said about it.
//!
//! ```text
//! suites -> session (a thread of its own) -> operands -> agree (right?) -> measure (how fast?) -> rows -> report, plot
//! ```
//!
//! The session runs apart from the thread that prints, so that a kernel that never ends costs its row, and not the rows
//! before it.

pub(crate) mod agree;
pub(crate) mod host;
pub(crate) mod markdown;
pub(crate) mod measure;
pub(crate) mod operands;
pub(crate) mod plot;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod suites;
