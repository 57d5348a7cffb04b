//! The schedule language of ptx-gemm: grammar, checks, diagnostics, plan.
//!
//! No GPU and no PTX: a schedule is clauses with spans, a plan is every number that follows from them.

pub mod epilogue;
pub mod plan;
pub mod target;
pub mod types;
