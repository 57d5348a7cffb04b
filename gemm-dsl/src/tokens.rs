//! Schedules from tokens, for the macro: everything known at compile time is checked then.

use std::ops::Range;

use crate::check;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::grammar::{self, Origin};
use crate::keys::KeySet;
use crate::opened::Opened;
use crate::schedule::Schedule;
use crate::span::Span;
use crate::token::{Token, TokenKind};

pub use crate::lexer::too_deep;

/// A schedule read from tokens.
#[derive(Debug)]
pub struct Reading {
    /// Its clauses; a hole's value is a stand-in.
    pub schedule: Schedule,
    /// The tokens of `..base`, by their indices at the top level, without the dots.
    pub base: Option<Range<usize>>,
    /// Whether the whole schedule is known.
    pub knowledge: Knowledge,
    /// Each clause's name with its place.
    pub mentions: Vec<(&'static str, Span)>,
    /// Open values, and `schedule(?)`: what an estimate has to choose.
    pub open: Vec<Span>,
    /// `schedule(?)`.
    pub open_rest: Option<Span>,
    /// Every error that can be found at compile time.
    pub errors: Diagnostics,
}

/// How much of a schedule is known at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// All of it.
    Complete,
    /// It has holes or a base: the rest is checked at construction.
    Partial,
}

/// Reads and checks a schedule.
pub fn read(tokens: &[Token]) -> Reading {
    let mut parsed = grammar::parse(tokens, Origin::Macro);
    let base = parsed.base.clone();
    let outside = |index: usize| base.as_ref().is_none_or(|range| !range.contains(&index));
    let holes = tokens.iter().enumerate().any(|(index, token)| outside(index) && has_hole(token));
    let mut unknown = parsed.unknown;
    if base.is_some() {
        // Any missing clause may be in the base.
        let mut unsaid = KeySet::all();
        parsed.items.iter().for_each(|item| unsaid.remove(item.clause.key()));
        unknown = unknown.union(unsaid);
    }
    let open: Vec<Span> = parsed.open.iter().map(|open| open.span).chain(parsed.open_rest).collect();
    parsed.errors.extend(Opened::refused(&parsed));
    if let Some(at) = open.first().filter(|_| holes || base.is_some()) {
        let message = "open values are chosen while the crate is compiled, and a part of this schedule is known only when it runs";
        let help =
            "write the values, or make the whole text when the program runs: `text.parse::<Gemm>()` chooses as well";
        parsed.errors.push(Diagnostic::error("open", "schedule", message).help(help).at(*at));
    }
    let schedule = Schedule { items: parsed.items, ..Schedule::default() };
    let errors = check::report(&schedule, None, unknown, parsed.errors);
    let knowledge = if holes || base.is_some() { Knowledge::Partial } else { Knowledge::Complete };
    Reading { schedule, base, knowledge, mentions: parsed.mentions, open, open_rest: parsed.open_rest, errors }
}

fn has_hole(token: &Token) -> bool {
    match &token.kind {
        TokenKind::Hole(_) => true,
        TokenKind::Group(_, inner) => inner.iter().any(has_hole),
        _ => false,
    }
}
