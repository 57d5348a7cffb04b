//! A report to the user: the clause, the value, the limit, and a fix that works.

use std::fmt;

use serde::Serialize;

use crate::keys::Group;
use crate::span::Span;

/// Whether a schedule with this diagnostic can be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but the user should know.
    Note,
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The user: the schedule breaks a rule.
    Illegal,
    /// This project: the clause is part of the language and does not work yet.
    NotImplemented,
}

/// A change that removes the error and adds none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Fix {
    /// The text to write or to leave out.
    #[serde(flatten)]
    pub edit: Edit,
    /// The clauses that it changes.
    pub changes: Vec<Change>,
}

/// The effect of a fix on the text of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Edit {
    /// Write this text in place of the span.
    Spell(String),
    /// Use these clauses, each in place of an existing one of its kind.
    Set(String),
    /// Leave out the clause of this name.
    Remove(String),
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Spell(text) | Edit::Set(text) => f.write_str(text),
            Edit::Remove(name) => write!(f, "leaving {name} out"),
        }
    }
}

/// The clauses that a fix may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Clauses that say how the product is computed.
    Method,
    /// Also clauses that state the product, the contracts or the target.
    All,
}

impl Scope {
    /// Whether the fix changes no other clauses.
    pub fn permits(self, fix: &Fix) -> bool {
        self == Scope::All || fix.given().is_empty()
    }
}

/// A clause that a fix changes, adds or leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Change {
    /// Its name.
    pub clause: &'static str,
    /// Its group.
    pub group: Group,
}

impl Fix {
    /// The groups of user requests that the fix changes. If empty, it only changes how the product is computed.
    pub fn given(&self) -> Vec<Group> {
        let mut groups: Vec<Group> =
            self.changes.iter().map(|change| change.group).filter(|group| group.is_given()).collect();
        groups.sort();
        groups.dedup();
        groups
    }
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Name of the broken rule: stable and short, for tests and tools.
    pub rule: &'static str,
    /// Error or note.
    pub severity: Severity,
    /// A broken rule, or a missing feature.
    pub kind: Kind,
    /// Name of its clause; `schedule` if it is not about a single clause.
    pub clause: String,
    /// The error: the clause, its value, the limit.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The remedy as data: the clauses that the help names.
    pub fix: Option<Fix>,
    /// Its place, if the schedule came from text or tokens.
    pub span: Option<Span>,
}

impl Diagnostic {
    /// An error about `clause`.
    pub fn error(rule: &'static str, clause: impl Into<String>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            rule,
            severity: Severity::Error,
            kind: Kind::Illegal,
            clause: clause.into(),
            message: message.into(),
            help: None,
            fix: None,
            span: None,
        }
    }

    /// A note about `clause`.
    pub fn note(rule: &'static str, clause: impl Into<String>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::error(rule, clause, message) }
    }

    /// Adds a help text.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }

    /// Adds a place.
    pub fn at(self, span: Span) -> Diagnostic {
        Diagnostic { span: Some(span), ..self }
    }

    /// Adds a change that repairs it.
    pub fn fix(self, fix: Fix) -> Diagnostic {
        Diagnostic { fix: Some(fix), ..self }
    }
}

impl fmt::Display for Diagnostic {
    /// One line: the message, then the help.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}
