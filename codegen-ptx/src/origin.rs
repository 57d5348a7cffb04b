//! Where a statement comes from: the clause that asked for it and what it does for that clause.

use std::sync::Arc;

/// A clause and a purpose; printed behind each PTX line as `//@ clause: what`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The clause, as canonical text.
    pub clause: Arc<str>,
    /// What the statement does for it.
    pub what: Arc<str>,
}

impl Origin {
    /// An origin from plain text.
    pub fn new(clause: &str, what: &str) -> Origin {
        Origin { clause: clause.into(), what: what.into() }
    }
}
