//! Tokens to clauses: one grammar for the macro, for text and for `.gemm` files.
//!
//! ```text
//! schedule   = [ "<" ] { item ";" } [ item ] [ ">" ]
//! item       = name | name "(" arguments ")" | "expect" "{" contracts "}" | ".." base
//! arguments  = [ argument { "," argument } [ "," ] ]
//! argument   = [ name "=" ] value
//! value      = integer | word | word "+" "pad" "(" integer ")" | word "(" arguments ")" | hole | ...
//! ```
//!
//! An error ends its clause, never the schedule: the grammar continues after the next semicolon, so that one run
//! reports everything.

mod args;
mod choices;
mod clauses;
mod epilogue;
mod expect;
mod number;

use std::ops::Range;

use crate::clause::Clause;
use crate::diagnostic::{Diagnostic, Edit, Fix};
use crate::implemented;
use crate::keys::KeySet;
use crate::open::Open;
use crate::span::Span;
use crate::suggest;
use crate::table::{ALL, Info, Key, find};
use crate::token::{Delimiter, Token, TokenKind, abridged};

use args::{Args, Outcome};

/// A clause as it appeared in the source.
#[derive(Clone, Debug)]
pub struct Item {
    /// The clause.
    pub clause: Clause,
    /// Its place.
    pub span: Option<Span>,
}

/// A clause, known only by its position.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its name, corrected if the intended name is known.
    pub name: String,
    /// The setting it determines, if it is a clause of the language.
    pub key: Option<Key>,
    /// From its name to the end of its arguments.
    pub span: Span,
}

/// The result of parsing a list of tokens.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The clauses that could be read, in order.
    pub items: Vec<Item>,
    /// The tokens of `..base`, if there is one, by their indices at the top level.
    pub base: Option<Range<usize>>,
    /// The errors.
    pub errors: Vec<Diagnostic>,
    /// Settings with an unknown value, because their clause has an error or a hole.
    pub unknown: KeySet,
    /// Each clause's name with its span, for editors.
    pub mentions: Vec<(&'static str, Span)>,
    /// Open values, in the order of the text.
    pub open: Vec<Open>,
    /// `schedule(?)`, where everything else is open.
    pub open_rest: Option<Span>,
    /// Every clause that was written, readable or not.
    pub written: Vec<Written>,
    /// The settings that misspelled clauses were probably meant to determine.
    pub meant: Vec<Key>,
    /// The source of the tokens.
    pub origin: Origin,
}

/// The source of the tokens: only a macro can contain a value of the surrounding Rust code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Schedule text.
    #[default]
    Text,
    /// The tokens of `gemm!`.
    Macro,
}

/// Reads a decimal integer; `None` if it is not one.
pub fn whole_number(text: &str) -> Option<u32> {
    number::integer(text).ok()
}

/// Reads a schedule.
pub fn parse(tokens: &[Token], origin: Origin) -> Parsed {
    if let Some((inner, span)) = enclosed(tokens) {
        return within(inner, span, origin);
    }
    let mut parsed = Parsed { origin, ..Parsed::default() };
    // `gemm!(< ... >)`: the angle brackets are decoration.
    let (start, end) = match tokens {
        [first, .., last] if first.is_punct('<') && last.is_punct('>') => (1, tokens.len() - 1),
        _ => (0, tokens.len()),
    };
    let mut at = start;
    while at < end {
        if tokens[at].is_punct(';') {
            at += 1;
            continue;
        }
        let rest = &tokens[at..end];
        let length = rest.iter().position(|token| token.is_punct(';')).unwrap_or(rest.len());
        if rest[0].is_punct('.') && rest.get(1).is_some_and(|token| token.is_punct('.')) {
            parsed.base_at(tokens, at..at + length);
            at += length;
        } else {
            at += parsed.item(&rest[..length]);
        }
    }
    parsed.open.sort_by_key(|open| open.span.start);
    if parsed.open_rest.is_some() {
        // Any clause that is not written may be chosen.
        let mut unsaid = KeySet::all();
        parsed.items.iter().for_each(|item| unsaid.remove(item.clause.key()));
        parsed.unknown = parsed.unknown.union(unsaid);
    }
    for key in std::mem::take(&mut parsed.meant) {
        if !parsed.items.iter().any(|item| item.clause.key() == key) {
            parsed.unknown.insert(key);
        }
    }
    parsed
}

/// Finds the next word that names a clause. Everything before it is skipped.
fn next_clause(tokens: &[Token], from: usize) -> usize {
    let named = |token: &Token| token.ident().is_some_and(|name| find(name).is_some());
    tokens[from..].iter().position(named).map_or(tokens.len(), |skip| from + skip)
}

/// Finds the inside of a schedule that was pasted together with its Rust delimiters: `(< .. >)`, `{ .. }`, `gemm!( ..
/// )`.
fn enclosed(tokens: &[Token]) -> Option<(&[Token], Span)> {
    let (group, before) = match tokens {
        [before @ .., semicolon] if semicolon.is_punct(';') => before.split_last()?,
        _ => tokens.split_last()?,
    };
    let named = match before {
        [name] => name.ident() == Some("gemm"),
        [name, bang] => name.ident() == Some("gemm") && bang.is_punct('!'),
        _ => false,
    };
    match &group.kind {
        TokenKind::Group(_, inner) if before.is_empty() || named => Some((inner, tokens[0].span.to(group.span))),
        _ => None,
    }
}

/// Reads the inside and also reports its errors.
fn within(inner: &[Token], span: Span, origin: Origin) -> Parsed {
    let mut inner = inner;
    while let Some((deeper, _)) = enclosed(inner) {
        inner = deeper;
    }
    let mut parsed = parse(inner, origin);
    if parsed.base.take().is_some() {
        parsed.unknown = KeySet::all();
    }
    let message = "the clauses of a schedule have no brackets around them";
    parsed.error(Diagnostic::error("enclosed", "schedule", message).help("write the clauses alone").at(span));
    parsed
}

impl Parsed {
    /// The errors about open values in a text that nothing fills in.
    pub(crate) fn open_errors(&self) -> Vec<Diagnostic> {
        let help = "write a value, or let `gemmc check --fill` write one into the file; `gemm!` and `Gemm` choose by themselves";
        let of_one = self.open.iter().map(|open| {
            let message = format!("{}: {} is open, and values are not chosen here", open.clause, open.name);
            Diagnostic::error("open", open.clause, message).help(help).at(open.span)
        });
        let rest = self.open_rest.map(|span| {
            Diagnostic::error("open", "schedule", "`schedule(?)` is open, and clauses are not chosen here")
                .help(help)
                .at(span)
        });
        of_one.chain(rest).collect()
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    fn base_at(&mut self, tokens: &[Token], range: Range<usize>) {
        let span = tokens[range.start].span.to(tokens[range.end - 1].span);
        if range.len() == 2 {
            // Any missing clause may be in the missing base.
            self.unknown = KeySet::all();
            let message = "`..` needs the schedule to extend";
            self.error(Diagnostic::error("base", "schedule", message).help("write `..base;`").at(span));
        } else if self.base.is_some() {
            self.error(Diagnostic::error("base", "schedule", "a schedule extends one other, not two").at(span));
        } else {
            self.base = Some(range.start + 2..range.end);
        }
    }

    /// Reads one clause from `tokens`, which contain no semicolon; returns the number of tokens read.
    fn item(&mut self, tokens: &[Token]) -> usize {
        let head = &tokens[0];
        let Some(name) = head.ident() else {
            if choices::is_choice(head) {
                // Any missing clause may be in the alternatives.
                self.unknown = KeySet::all();
                self.error(choices::told("schedule", head.span));
                return next_clause(tokens, 1);
            }
            let message = format!("expected the name of a clause, got {}", head.describe());
            self.error(Diagnostic::error("clause-name", "schedule", message).at(head.span));
            let extends =
                |inner: &[Token]| matches!(inner, [first, second, ..] if first.is_punct('.') && second.is_punct('.'));
            if matches!(&head.kind, TokenKind::Group(_, inner) if extends(inner) || next_clause(inner, 0) < inner.len())
            {
                // Any missing clause may be in this group.
                self.unknown = KeySet::all();
            }
            return next_clause(tokens, 1);
        };
        let (group, taken) = match &tokens[1..] {
            [Token { kind: TokenKind::Group(Delimiter::Paren | Delimiter::Brace, inner), .. }, ..] => {
                (Some(inner.as_slice()), 2)
            }
            // `stages = 3` and `tile = (64, 64, 8)`: read as `stages(3)` and `tile(64, 64, 8)`.
            [equals, Token { kind: TokenKind::Group(Delimiter::Paren, inner), .. }] if equals.is_punct('=') => {
                (Some(inner.as_slice()), tokens.len())
            }
            [equals, value @ ..] if equals.is_punct('=') && !value.is_empty() => (Some(value), tokens.len()),
            _ => (None, 1),
        };
        let span = head.span.to(tokens[taken - 1].span);
        if let (Some(info), Some(value)) = (find(name).or_else(|| meant(name)), group.filter(|_| taken > 2)) {
            let message = format!("{} takes its arguments in parentheses", info.name);
            let spelling = format!("{}({})", info.name, number::text(value));
            let diagnostic = Diagnostic::error("brackets", info.name, message).help(format!("write {spelling}"));
            self.error(diagnostic.spell(spelling).at(span));
        }
        let braces = matches!(tokens.get(1).map(|t| &t.kind), Some(TokenKind::Group(Delimiter::Brace, _)));
        self.written.push(Written { name: name.into(), key: find(name).map(|info| info.key), span });
        match find(name) {
            None if name == "schedule" => self.rest(span, group),
            None => self.unknown_clause((name, head.span), span, group, braces),
            Some(info) => {
                self.mentions.push((info.name, head.span));
                self.clause(info, span, group, braces);
            }
        }
        // `expect { ... }` ends with its brace, everything else with a semicolon.
        match tokens.get(taken) {
            None => taken,
            Some(_) if braces && name == "expect" => taken,
            Some(next) => {
                let shown = abridged(name);
                let message = format!("expected `;` after {shown}, got {}", next.describe());
                let diagnostic = Diagnostic::error("semicolon", shown, message).at(next.span);
                let mut diagnostic = diagnostic.help("a schedule is clauses, each ended by a semicolon");
                let after = next_clause(tokens, taken);
                if let Some(clause) = next.ident().filter(|_| after == taken) {
                    diagnostic = diagnostic.fix(Fix::of(None, Edit::Spell(format!("; {clause}"))));
                }
                self.error(diagnostic);
                after
            }
        }
    }

    /// `schedule(?)`.
    fn rest(&mut self, span: Span, group: Option<&[Token]>) {
        let twice = self.open_rest.is_some();
        match group {
            Some([mark]) if mark.is_punct('?') && !twice => self.open_rest = Some(span),
            _ => {
                // Any missing clause may be meant by it.
                self.unknown = KeySet::all();
                let message =
                    if twice { "`schedule(?)` is written twice" } else { "schedule: it takes a question mark" };
                let help = "`schedule(?)`, once, chooses all clauses that are not written";
                self.error(Diagnostic::error("open", "schedule", message).help(help).at(span));
            }
        }
    }

    fn clause(&mut self, info: &'static Info, span: Span, group: Option<&[Token]>, braces: bool) {
        let (clause, outcome) = read(info, span, self.origin, group, braces);
        self.keep(info, span, clause, outcome);
    }

    /// Records a clause; for an unreadable one, only that it was there.
    fn keep(&mut self, info: &'static Info, span: Span, clause: Option<Clause>, outcome: Outcome) {
        let clause = clause.filter(|_| !outcome.lost);
        if outcome.holes || clause.is_none() {
            self.unknown.insert(info.key);
        }
        self.items.extend(clause.map(|clause| Item { clause, span: Some(span) }));
        self.errors.extend(outcome.errors);
        self.open.extend(outcome.open);
    }

    /// Handles an unknown name: it may be a misspelt clause, which is read in its place.
    fn unknown_clause(&mut self, head: (&str, Span), span: Span, group: Option<&[Token]>, braces: bool) {
        let (name, at) = head;
        let shown = abridged(name);
        let message = format!("unknown clause `{shown}`");
        let diagnostic = Diagnostic::error("unknown-clause", shown, message).at(at);
        let Some(near) = meant(name) else {
            return self.error(diagnostic);
        };
        if !implemented::has(near.key) {
            // The rules would make the same suggestion: leave it out.
            let help = format!("did you mean `{}`? it is not implemented yet: leave it out", near.name);
            return self.error(diagnostic.help(help).fix(Fix::of(Some(near.key), Edit::Remove(name.into()))));
        }
        let (clause, outcome) = read(near, span, self.origin, group, braces);
        if outcome.lost || clause.is_none() {
            // Another clause takes other arguments.
            self.meant.push(near.key);
            return self.error(diagnostic.help(format!("did you mean `{}`? write {}", near.name, near.signature)));
        }
        let fix = Fix::of(Some(near.key), Edit::Spell(near.name.into()));
        self.error(diagnostic.meant(near.name).fix(fix));
        if let Some(written) = self.written.last_mut() {
            (written.name, written.key) = (near.name.into(), Some(near.key));
        }
        self.keep(near, span, clause, outcome);
    }
}

/// The clause that an unknown name probably means.
fn meant(name: &str) -> Option<&'static Info> {
    suggest::nearest(name, ALL.iter().map(|info| info.name)).and_then(find)
}

/// Reads one clause; if argument names are misspelt, reads it again with the intended names.
fn read(
    info: &'static Info,
    span: Span,
    origin: Origin,
    group: Option<&[Token]>,
    braces: bool,
) -> (Option<Clause>, Outcome) {
    let choices = choices::inside(group.unwrap_or(&[]));
    if !choices.is_empty() {
        let errors = choices.into_iter().map(|span| choices::told(info.name, span)).collect();
        return (None, Outcome { errors, holes: true, lost: false, open: Vec::new() });
    }
    let mut args = Args::new(info, span, origin);
    let mut clause = arguments(&mut args, group, braces);
    if let Some(mut again) = args.again() {
        clause = arguments(&mut again, group, braces);
        args = again;
    }
    (clause, args.outcome())
}

fn arguments<'t>(args: &mut Args<'t>, group: Option<&'t [Token]>, braces: bool) -> Option<Clause> {
    let info = args.info;
    if info.name == "expect" {
        return expect::parse(args, group.filter(|_| braces));
    }
    if braces {
        args.fail("brackets", format!("{} takes its arguments in parentheses", info.name), args.span);
        return None;
    }
    if info.name == "epilogue" {
        return epilogue::parse(args, group.unwrap_or(&[])).map(Clause::Epilogue);
    }
    args.split(group.unwrap_or(&[]));
    let clause = clauses::parse(args, group.is_some());
    args.finish();
    clause
}
