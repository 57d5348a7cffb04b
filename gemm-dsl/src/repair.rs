//! The repair of `gemmc check --fix`: applies the fixes that diagnostics show, while each leaves fewer errors.

use std::cmp::Reverse;
use std::fmt;

use crate::diagnostic::{Change, Diagnostic, Edit, Fix};
use crate::diagnostics::Diagnostics;
use crate::grammar::{Parsed, Written};
use crate::planning;
use crate::schedule::Schedule;
use crate::table::{ALL, Key};
use crate::target::Target;

pub use crate::diagnostic::Scope;

/// A text after its repair.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The text, with its comments.
    pub text: String,
    /// The repairs, in order.
    pub changes: Vec<Repaired>,
    /// The remaining diagnostics; the text is legal if none of them is an error.
    pub left: Diagnostics,
}

/// A repaired error.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The error with its fix, as shown before any fix was applied.
    pub error: Diagnostic,
    /// The changes of clauses that state what the user asks for.
    pub given: Vec<Replaced>,
}

/// A clause before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The clause.
    pub change: Change,
    /// Its text; `None` if there was none.
    pub before: Option<String>,
    /// Its text afterwards; `None` if it is left out.
    pub after: Option<String>,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "{before} became {after}"),
            (Some(before), None) => write!(f, "{before} is left out"),
            (None, Some(after)) => write!(f, "{after} is new"),
            (None, None) => Ok(()),
        }
    }
}

impl Repair {
    /// True if the text is a legal schedule.
    pub fn is_legal(&self) -> bool {
        self.left.errors().next().is_none()
    }

    /// The remaining errors with a fix that [`Scope::Method`] does not permit.
    pub fn withheld(&self) -> impl Iterator<Item = &Diagnostic> {
        self.left.errors().filter(|error| error.fix.as_ref().is_some_and(|fix| !Scope::Method.permits(fix)))
    }

    /// Applies the fixes of all remaining errors; true if one of them leaves fewer errors. An error that was first
    /// shown with another fix is skipped: the next repair starts from the fix shown then.
    fn round(&mut self, shown: &Diagnostics, target: Option<Target>, scope: Scope) -> bool {
        let stays = |error: &&Diagnostic| {
            let same = |other: &&Diagnostic| (other.rule, &other.message) == (error.rule, &error.message);
            let mut before = shown.errors().filter(same).filter(|other| other.fix.is_some()).peekable();
            before.peek().is_none() || before.any(|other| other.fix == error.fix)
        };
        let permitted = |error: &&Diagnostic| error.fix.as_ref().is_some_and(|fix| scope.permits(fix));
        let mut next: Vec<Diagnostic> = self.left.errors().filter(permitted).filter(stays).cloned().collect();
        let before = self.changes.len();
        next.sort_by_key(turn);
        // The start of the last spelling that was replaced: overlapping spellings wait for the next round.
        let mut written = u32::MAX;
        for error in next {
            let spelled = error.span.filter(|_| matches!(error.fix, Some(Fix { edit: Edit::Spell(_), .. })));
            let Some(fixed) = error.fixed(&self.text).filter(|_| spelled.is_none_or(|span| span.end <= written)) else {
                continue;
            };
            let after = diagnose(&fixed, target);
            if after.errors().count() < self.left.errors().count() {
                let given = replaced(&self.text, &fixed);
                written = spelled.map_or(written, |span| span.start);
                self.changes.push(Repaired { error, given });
                (self.text, self.left) = (fixed, after);
            }
        }
        self.changes.len() > before
    }
}

/// The order of fixes. Spans refer to the text before all changes, so spellings come first, from last to first. Clauses
/// follow in the order in which their fixes were chosen; those that state what the user asks for come last.
fn turn(error: &Diagnostic) -> (bool, Reverse<u32>, bool) {
    match &error.fix {
        Some(Fix { edit: Edit::Spell(_), .. }) => (false, Reverse(error.span.map_or(0, |span| span.start)), false),
        fix => (true, Reverse(0), fix.as_ref().is_some_and(|fix| !fix.given().is_empty())),
    }
}

/// The clauses stating what the user asks for that differ between two texts: in meaning, or, if that is uncertain, in
/// their text.
fn replaced(before: &str, after: &str) -> Vec<Replaced> {
    let [old, new] = [before, after].map(Schedule::read);
    let given = ALL.iter().map(|info| info.key).filter(|key| key.group().is_given());
    let differ = |key: Key| {
        let [old, new] = [said(before, &old, key), said(after, &new, key)];
        let same = old.iter().map(|(what, _)| what).eq(new.iter().map(|(what, _)| what));
        let text = |said: Vec<(String, &str)>| {
            let texts: Vec<&str> = said.into_iter().map(|(_, text)| text).collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        };
        (!same).then(|| Replaced { change: Change::of(key), before: text(old), after: text(new) })
    };
    given.filter_map(differ).collect()
}

/// The meaning of each clause of a text that settles `key`, without duplicates, with its text.
fn said<'t>(text: &'t str, parsed: &Parsed, key: Key) -> Vec<(String, &'t str)> {
    let mut said: Vec<(String, &str)> = Vec::new();
    for Written { span, .. } in parsed.written.iter().filter(|written| written.key == Some(key)) {
        let wrong = |error: &Diagnostic| error.span.is_some_and(|at| span.start <= at.start && at.end <= span.end);
        let read = parsed.items.iter().find(|item| item.span == Some(*span));
        let read = read.filter(|_| !parsed.errors.iter().any(wrong));
        let text = &text[span.start as usize..span.end as usize];
        let what = read.map_or_else(|| text.to_string(), |item| item.clause.to_string());
        if said.iter().all(|(known, _)| *known != what) {
            said.push((what, text));
        }
    }
    said
}

/// All diagnostics about a text, for `target` or for the schedule's own target.
pub fn diagnose(text: &str, target: Option<Target>) -> Diagnostics {
    match planning::read_for(text, target) {
        Ok(said) | Err(said) => said,
    }
}

/// Applies the fixes that diagnostics show and `scope` permits, until none leads to fewer errors.
///
/// ```
/// use ptx_gemm_dsl::repair::{Scope, repair};
///
/// let repaired = repair("tiel(128, 128, 8); // block\nthread(8, 8u32);", None, Scope::Method);
/// assert_eq!(repaired.text, "tile(128, 128, 8); // block\nthread(8, 8);");
/// assert!(repaired.is_legal());
///
/// // The type is what is computed.
/// let text = "types(i8, acc = f32); tile(64, 64, 8); thread(8, 8);";
/// assert_eq!(repair(text, None, Scope::Method).text, text);
/// assert_eq!(repair(text, None, Scope::All).text, "types(i8, acc = i32); tile(64, 64, 8); thread(8, 8);");
/// ```
pub fn repair(text: &str, target: Option<Target>, scope: Scope) -> Repair {
    let shown = diagnose(text, target);
    let mut repair = Repair { text: text.to_string(), changes: Vec::new(), left: shown.clone() };
    while repair.round(&shown, target, scope) {}
    repair
}
