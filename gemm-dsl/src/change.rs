//! Which clauses a fix changes.

use crate::clause::Clause;
use crate::diagnostic::{Change, Diagnostic, Edit, Fix};
use crate::keys::{Key, KeySet};
use crate::schedule::Schedule;
use crate::table;

impl Change {
    /// A change of the clause that settles `key`.
    pub(crate) fn of(key: Key) -> Change {
        Change { clause: table::of(key).name, group: key.group() }
    }
}

impl Fix {
    /// An edit of the clause that settles `key`; without a key, an edit outside all clauses.
    pub(crate) fn of(key: Option<Key>, edit: Edit) -> Fix {
        Fix { edit, changes: key.into_iter().map(Change::of).collect() }
    }
}

impl Edit {
    /// The kinds of clauses that the edit sets.
    pub(crate) fn sets(&self) -> KeySet {
        let mut keys = KeySet::default();
        if let Edit::Set(text) = self {
            Schedule::read(text).items.iter().for_each(|item| keys.insert(item.clause.key()));
        }
        keys
    }

    /// The clauses that the edit changes in a schedule. Clauses in `guessed` were misspelt and read as their likely
    /// meaning; writing or removing one counts as a change.
    pub(crate) fn changes(&self, schedule: &Schedule, guessed: &[Change]) -> Vec<Change> {
        let Some(after) = self.apply(schedule) else { return Vec::new() };
        let mut touched = self.sets();
        if let Edit::Remove(name) = self {
            table::find(name).into_iter().for_each(|info| touched.insert(info.key));
        }
        let mut keys: Vec<Key> = schedule.clauses().chain(after.clauses()).map(Clause::key).collect();
        keys.sort();
        keys.dedup();
        let changes = |key: &Key| {
            let guess = touched.contains(*key) && guessed.contains(&Change::of(*key));
            guess || said(schedule, *key) != said(&after, *key)
        };
        keys.into_iter().filter(changes).map(Change::of).collect()
    }
}

/// The clauses that settle `key`, without exact duplicates.
fn said(schedule: &Schedule, key: Key) -> Vec<&Clause> {
    let mut said: Vec<&Clause> = Vec::new();
    for clause in schedule.clauses().filter(|clause| clause.key() == key) {
        if !said.contains(&clause) {
            said.push(clause);
        }
    }
    said
}

impl Diagnostic {
    /// Adds the suggestion that a misspelt word was meant to be `word`.
    pub(crate) fn meant(self, word: &str) -> Diagnostic {
        self.help(format!("did you mean `{word}`?")).spell(word)
    }

    /// Adds a fix that replaces the text under the span, in the clause of this diagnostic.
    pub(crate) fn spell(self, text: impl Into<String>) -> Diagnostic {
        let key = table::find(&self.clause).map(|info| info.key);
        self.fix(Fix::of(key, Edit::Spell(text.into())))
    }
}
