//! The schedule language of ptx-gemm: grammar, checks, diagnostics, plan.
//!
//! This crate knows no GPU and no PTX. A schedule is clauses with spans; a plan is every number that follows from them.
//!
//! ```text
//! text or macro tokens -> tokens -> clauses -> Schedule -> Plan
//! ```
//!
//! A user writes a [`Schedule`], and the compiler reads a [`Plan`]. One set of rules leads from one to the other, and
//! [`Diagnostics`] report every broken rule.

pub mod atoms;
pub mod clause;
pub mod contract;
pub mod diagnostic;
pub mod diagnostics;
pub mod elements;
pub mod epilogue;
pub mod figure;
pub mod format;
pub mod interpolate;
pub mod limits;
pub mod map;
pub mod occupancy;
pub mod open;
pub mod opened;
pub mod plan;
pub mod promise;
pub mod reference;
pub mod repair;
pub mod sample;
pub mod schedule;
pub mod space;
pub mod span;
pub mod sums;
pub mod table;
pub mod target;
pub mod terms;
pub mod token;
pub mod tokens;
pub mod types;
pub mod words;

mod apply;
mod builder;
mod change;
mod check;
mod grammar;
mod implemented;
mod instead;
mod json;
mod keys;
mod lexer;
mod plan_text;
mod planning;
mod print;
mod suggest;

pub use check::Conflict;
pub use contract::Measured;
pub use diagnostic::{Change, Diagnostic, Edit, Fix, Severity};
pub use diagnostics::Diagnostics;
pub use figure::Figure;
pub use keys::KeySet;
pub use plan::Plan;
pub use schedule::Schedule;
pub use space::{Combination, Space};
pub use span::Span;
pub use table::clauses;
pub use target::Target;
pub use types::{DType, Layout, Problem};
