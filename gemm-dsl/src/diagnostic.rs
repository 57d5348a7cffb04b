//! What is reported to a user: the clause, the value, the limit, and a fix that works.

use std::fmt;

use serde::Serialize;

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

/// Who has to change something.
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
#[serde(rename_all = "lowercase")]
pub enum Fix {
    /// Write this text in place of what the span covers.
    Spell(String),
    /// Use this clause, replacing the one of its kind if there is one.
    Set(String),
    /// Leave the clause of this name out.
    Remove(String),
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Name of the broken rule: stable, short, for tests and tools.
    pub rule: &'static str,
    /// Error or note.
    pub severity: Severity,
    /// A broken rule, or something that does not work yet.
    pub kind: Kind,
    /// Name of the clause that it is about; `schedule` if it is not about a single clause.
    pub clause: String,
    /// What is wrong: the clause, its value, the limit.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The same as data.
    pub fix: Option<Fix>,
    /// Where it is, if the schedule came from text or tokens.
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

    /// The same, with a help text.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }

    /// The same about a misspelt word, where `word` was probably meant.
    pub(crate) fn meant(self, word: &str) -> Diagnostic {
        self.help(format!("did you mean `{word}`?")).fix(Fix::Spell(word.into()))
    }

    /// The same, at a place.
    pub fn at(self, span: Span) -> Diagnostic {
        Diagnostic { span: Some(span), ..self }
    }

    /// The same, with a change that repairs it.
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
