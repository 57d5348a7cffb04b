//! A schedule: clauses in order, from text, a builder, a macro, or another schedule.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::clause::Clause;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::grammar::{self, Item, Origin, Parsed};
use crate::keys::KeySet;
use crate::lexer;
use crate::open::Filled;
use crate::span::Span;
use crate::table::Key;

/// The computation of a product, as a list of clauses.
///
/// Two schedules are equal if they hold equal clauses in the same order, whatever their source.
///
/// ```
/// use ptx_gemm_dsl::Schedule;
///
/// let text = "tile(128, 128, 8); thread(8, 8); vector(4); double_buffer;";
/// let built = Schedule::new().tile(128, 128, 8).thread(8, 8).vector(4).double_buffer();
/// assert_eq!(text.parse::<Schedule>()?, built);
/// # Ok::<(), ptx_gemm_dsl::Diagnostics>(())
/// ```
#[derive(Clone, Default)]
pub struct Schedule {
    pub(crate) items: Vec<Item>,
    /// Errors of clauses that the builder could not read; reported by [`Schedule::check`].
    pub(crate) errors: Vec<Diagnostic>,
    /// The settings of those clauses.
    pub(crate) unknown: KeySet,
    /// The text that the spans refer to.
    pub(crate) source: Option<Arc<str>>,
    /// What was filled in for open values, if there were any; it says nothing about what is computed.
    pub(crate) filled: Option<Arc<Filled>>,
}

impl Schedule {
    /// The longest schedule text that is read, in bytes.
    pub const MAX_BYTES: usize = lexer::MAX_BYTES;

    /// An empty schedule, for building one.
    pub fn new() -> Schedule {
        Schedule::default()
    }

    /// Parses a text.
    pub(crate) fn read(text: &str) -> Parsed {
        let (tokens, errors) = match lexer::tokens(text) {
            Ok(tokens) => tokens,
            Err(error) => return Parsed { errors: vec![*error], unknown: KeySet::all(), ..Parsed::default() },
        };
        let mut parsed = grammar::parse(&tokens, Origin::Text);
        parsed.errors.extend(errors);
        parsed.errors.extend(parsed.open_errors());
        if let Some(base) = &parsed.base {
            let span = tokens[base.start - 2].span.to(tokens[base.end - 1].span);
            let message = "`..` extends a schedule of Rust code, and this schedule is text";
            parsed.errors.push(Diagnostic::error("base", "schedule", message).help("write out its clauses").at(span));
            parsed.unknown = KeySet::all();
        }
        parsed
    }

    /// The clauses in one line, separated by semicolons.
    pub fn one_line(&self) -> String {
        self.to_string().trim_end().trim_end_matches(';').replace('\n', " ")
    }

    /// This schedule's clauses on top of `base`, in place of clauses of the same kind: `..base` in the macro.
    pub fn extend_from(self, base: &Schedule) -> Schedule {
        base.clone().with(self)
    }

    /// The same schedule with the clauses of `changes`, which replace clauses of the same kind.
    pub fn with(mut self, changes: Schedule) -> Schedule {
        let replaced = |item: &Item| changes.items.iter().any(|new| new.clause.key() == item.clause.key());
        self.items.retain(|item| !replaced(item));
        if self.items.is_empty() {
            let (errors, unknown) = ([self.errors, changes.errors].concat(), self.unknown.union(changes.unknown));
            return Schedule { errors, unknown, ..changes };
        }
        let changed = changes.items.iter().fold(KeySet::default(), |mut keys, item| {
            keys.insert(item.clause.key());
            keys
        });
        // Spans of two sources do not mix: clauses from the other source lose theirs.
        self.items.iter_mut().for_each(|item| item.span = None);
        self.items.extend(changes.items);
        self.errors.extend(changes.errors);
        self.unknown = self.unknown.union(changes.unknown);
        self.source = changes.source;
        self.filled = self.filled.and_then(|filled| filled.without(|key| changed.contains(key)));
        self
    }

    /// The same schedule without the clauses that settle `key`.
    pub fn without(mut self, key: Key) -> Schedule {
        self.items.retain(|item| item.clause.key() != key);
        self
    }

    /// The same schedule without its settings for accesses to C, for an epilogue that does not read C.
    pub fn without_c(mut self) -> Schedule {
        for item in &mut self.items {
            match &mut item.clause {
                Clause::Vector(vector) => vector.c = None,
                Clause::Load(load) => load.c = None,
                _ => {}
            }
        }
        self.items.retain(|item| !item.clause.says_nothing());
        self
    }

    /// The same schedule, with a note of what was filled in.
    pub fn with_filled(self, filled: Filled) -> Schedule {
        Schedule { filled: Some(Arc::new(filled)), ..self }
    }

    /// What was filled in for open values, if there were any.
    pub fn filled(&self) -> Option<&Filled> {
        self.filled.as_deref()
    }

    /// The clauses in order.
    pub fn clauses(&self) -> impl Iterator<Item = &Clause> {
        self.items.iter().map(|item| &item.clause)
    }

    /// The clauses in order, with their places.
    pub fn spans(&self) -> impl Iterator<Item = (&Clause, Option<Span>)> {
        self.items.iter().map(|item| (&item.clause, item.span))
    }

    /// The clause that settles `key`.
    pub fn get(&self, key: Key) -> Option<&Clause> {
        self.clauses().find(|clause| clause.key() == key)
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Schedule) -> bool {
        self.clauses().eq(other.clauses()) && self.errors == other.errors
    }
}

impl FromStr for Schedule {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Schedule, Diagnostics> {
        Schedule::parse(text)
    }
}

impl fmt::Display for Schedule {
    /// The canonical text: one clause per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for clause in self.clauses() {
            let end = if matches!(clause, Clause::Expect(_)) { "" } else { ";" };
            writeln!(f, "{clause}{end}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clauses().map(|clause| clause.to_string())).finish()
    }
}
