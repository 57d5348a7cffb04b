//! A rule's report, before its suggestions are tried.

use crate::diagnostic::{Diagnostic, Edit};
use crate::keys::KeySet;
use crate::schedule::Schedule;
use crate::table::{self, Key};

/// A diagnostic under construction.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub diagnostic: Diagnostic,
    /// The clause it is about, which sets its span.
    pub anchor: Option<Key>,
    /// The item it is about, if a key names several.
    pub item: Option<usize>,
    /// The part of the clause it is about, if one clause can break the rule in several ways; otherwise empty.
    pub subject: String,
    /// The kinds of clauses that decide the finding, absent ones included.
    pub depends: KeySet,
    /// Changes that may repair it, best first, each with its help text.
    pub candidates: Vec<(Edit, String)>,
    /// Changes to try if no candidate works.
    pub last_resorts: Vec<(Edit, String)>,
}

impl Finding {
    /// The item it is about, if the schedule has it.
    pub fn place(&self, schedule: &Schedule) -> Option<usize> {
        self.item.or_else(|| {
            let key = self.anchor?;
            schedule.items.iter().position(|item| item.clause.key() == key)
        })
    }

    /// Its position among other findings: source order, missing clauses last.
    pub fn order(&self, schedule: &Schedule) -> u32 {
        self.place(schedule)
            .map_or(u32::MAX, |index| schedule.items[index].span.map_or(index as u32, |span| span.start))
    }

    /// Names the part of the clause it is about; see [`Finding::subject`].
    pub fn about(&mut self, subject: &str) -> &mut Finding {
        self.subject = subject.into();
        self
    }

    /// Proposes clauses that may repair it.
    pub fn set(&mut self, clauses: impl ToString, help: impl Into<String>) -> &mut Finding {
        self.candidates.push((Edit::Set(clauses.to_string()), help.into()));
        self
    }

    /// Proposes to leave a clause out.
    pub fn remove(&mut self, clause: &str, help: impl Into<String>) -> &mut Finding {
        self.candidates.push((Edit::Remove(clause.into()), help.into()));
        self
    }

    /// Proposes clauses to try if no other proposal works.
    pub fn last_resort(&mut self, clauses: impl ToString, help: impl Into<String>) -> &mut Finding {
        self.last_resorts.push((Edit::Set(clauses.to_string()), help.into()));
        self
    }

    /// The help text if no proposal works.
    pub fn otherwise(&mut self, help: impl Into<String>) -> &mut Finding {
        self.diagnostic.help = Some(help.into());
        self
    }
}

/// Everything that the rules found.
#[derive(Default)]
pub(super) struct Findings {
    pub list: Vec<Finding>,
}

impl Findings {
    /// An error about the clause of kind `key` that depends on the clauses in `depends`.
    pub fn error(&mut self, rule: &'static str, key: Key, depends: &[Key], message: impl Into<String>) -> &mut Finding {
        let diagnostic = Diagnostic::error(rule, table::of(key).name, message);
        let mut depends = KeySet::of(depends);
        depends.insert(key);
        self.push(Finding {
            diagnostic,
            anchor: Some(key),
            item: None,
            subject: String::new(),
            depends,
            candidates: Vec::new(),
            last_resorts: Vec::new(),
        })
    }

    /// A note about the clause of kind `key` that depends on the clauses in `depends`.
    pub fn note(&mut self, rule: &'static str, key: Key, depends: &[Key], message: impl Into<String>) -> &mut Finding {
        let finding = self.error(rule, key, depends, message);
        finding.diagnostic.severity = crate::diagnostic::Severity::Note;
        finding
    }

    pub fn push(&mut self, finding: Finding) -> &mut Finding {
        let at = self.list.len();
        self.list.push(finding);
        &mut self.list[at]
    }
}
