//! Open values, `?` in the place of a number or of a word, and what was chosen for them.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::clause::Clause;
use crate::keys::Key;
use crate::span::Span;

/// An open value.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its clause.
    pub clause: &'static str,
    /// The kind of the clause.
    pub key: Key,
    /// The argument.
    pub name: String,
    /// The question mark.
    pub span: Span,
    /// What it may be.
    pub(crate) values: OpenValues,
}

/// What an open value may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpenValues {
    Numbers,
    Words(Vec<&'static str>),
}

/// What was filled in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filled {
    /// The clauses with open values, or all that were chosen.
    #[serde(skip)]
    pub clauses: Vec<Clause>,
    /// The product that they were chosen for, such as `4096 x 4096 x 4096`.
    pub size: String,
    /// The GPU.
    pub gpu: String,
    /// The estimated time in milliseconds.
    pub ms: f64,
    /// What binds, and what else a reader should know, as a sentence without a full stop.
    pub why: String,
}

impl Filled {
    /// What is left of it if clauses are replaced.
    pub(crate) fn without(&self, replaced: impl Fn(Key) -> bool) -> Option<Arc<Filled>> {
        let clauses: Vec<Clause> = self.clauses.iter().filter(|clause| !replaced(clause.key())).cloned().collect();
        (!clauses.is_empty()).then(|| Arc::new(Filled { clauses, ..self.clone() }))
    }

    /// The clauses, separated by semicolons.
    pub fn text(&self) -> String {
        self.clauses.iter().map(Clause::to_string).collect::<Vec<_>>().join("; ")
    }

    /// What they were chosen for, and why.
    pub fn reason(&self) -> String {
        let Filled { size, gpu, ms, why, .. } = self;
        format!("for {size} on {gpu}: {ms:.4} ms by the estimate, {why}")
    }
}

impl fmt::Display for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, chosen {}", self.text(), self.reason())
    }
}
