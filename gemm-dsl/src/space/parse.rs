//! Parses text to a tree of alternatives, and reports all errors.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::keys::KeySet;
use crate::lexer;
use crate::schedule::Schedule;
use crate::span::Span;
use crate::table;
use crate::token::{Delimiter, Token, TokenKind};

use super::Space;
use super::choices::{Alternative, Choice, Sequence};
use super::place::{bytes, enclosing};
use super::values::{self, pieces, single, spelling};

pub(super) fn parse(text: &str) -> Result<Space, Diagnostics> {
    let source: Arc<str> = text.into();
    let told = |errors: Vec<Diagnostic>| Diagnostics::new(errors).in_text(Some(source.clone()));
    let (tokens, errors) = lexer::tokens(text).map_err(|error| told(vec![*error]))?;
    let mut reader = Reader { text, errors, alternatives: 0, names: Vec::new() };
    let sequence = reader.clauses(&tokens, 0..text.len());
    reader.count(&sequence, &tokens);
    if reader.errors.is_empty() {
        reader.errors = grammar(text, &sequence);
    }
    if reader.errors.is_empty() { Ok(Space { text: source, sequence }) } else { Err(told(reader.errors)) }
}

/// The grammar's errors in the alternatives, each tried once, at their places in the text.
fn grammar(text: &str, sequence: &Sequence) -> Vec<Diagnostic> {
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for probe in sequence.probes() {
        let (schedule, places) = sequence.text(text, probe);
        for error in Schedule::read(&schedule).errors {
            let span = error.span.map(|span| places.span(span, text));
            if seen.insert((span.map(|span| (span.start, span.end)), error.rule, error.message.clone())) {
                errors.push(Diagnostic { span, ..error });
            }
        }
    }
    errors.sort_by_key(|error| error.span.map_or(u32::MAX, |span| span.start));
    errors
}

/// The kind of the clause of this name.
fn keys(clause: &str) -> KeySet {
    table::find(clause).map_or(KeySet::default(), |info| KeySet::of(&[info.key]))
}

fn brace(token: &Token) -> Option<&[Token]> {
    match &token.kind {
        TokenKind::Group(Delimiter::Brace, inner) => Some(inner),
        _ => None,
    }
}

struct Reader<'t> {
    text: &'t str,
    errors: Vec<Diagnostic>,
    alternatives: usize,
    /// The names of the choices so far, in this alternative and around it.
    names: Vec<String>,
}

impl Reader<'_> {
    fn error(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    /// Reads clauses and alternatives of clauses; `range` covers their text.
    fn clauses(&mut self, tokens: &[Token], range: Range<usize>) -> Sequence {
        let mut sequence = Sequence::default();
        let mut at = range.start;
        let mut begins = true;
        let mut clause = "schedule";
        for (index, token) in tokens.iter().enumerate() {
            match brace(token) {
                Some(inner) if begins => {
                    sequence.push_text(at..token.span.start as usize);
                    let choice = self.clause_choice(inner, token);
                    sequence.push_choice(choice);
                    at = token.span.end as usize;
                    self.after_choice(tokens.get(index + 1));
                    continue;
                }
                // `expect { … }` ends with its brace.
                Some(inner) if clause == "expect" => at = self.values(inner, at, "expect", &mut sequence),
                Some(_) => at = self.values(std::slice::from_ref(token), at, clause, &mut sequence),
                None => {
                    if begins {
                        clause = token.ident().unwrap_or("schedule");
                    }
                    at = self.values(std::slice::from_ref(token), at, clause, &mut sequence);
                }
            }
            begins = token.is_punct(';') || (clause == "expect" && brace(token).is_some());
        }
        sequence.push_text(at..range.end);
        sequence
    }

    /// A semicolon or the next clause must follow alternatives of clauses.
    fn after_choice(&mut self, next: Option<&Token>) {
        let Some(next) = next.filter(|next| !next.is_punct(';') && next.ident().is_none() && brace(next).is_none())
        else {
            return;
        };
        let message =
            format!("alternatives in the place of a clause are whole clauses, and {} follows", next.describe());
        let help = "write `{stages(2) | stages(3)}`, or `stages({2, 3})`";
        self.error(Diagnostic::error("alternatives", "schedule", message).help(help).at(next.span));
    }

    /// Finds the choices among values; returns the end of the consumed text.
    fn values(&mut self, tokens: &[Token], mut at: usize, clause: &str, sequence: &mut Sequence) -> usize {
        for token in tokens {
            match &token.kind {
                TokenKind::Group(Delimiter::Brace, inner) => {
                    sequence.push_text(at..token.span.start as usize);
                    match inner.as_slice() {
                        [name] if name.ident().is_some_and(|name| self.names.iter().any(|known| known == name)) => {
                            let at = bytes(std::slice::from_ref(token));
                            sequence.push_name(name.ident().unwrap_or_default(), at, keys(clause));
                        }
                        [name, colon, rest @ ..] if colon.is_punct(':') && name.ident().is_some() => {
                            let name = self.name(name, clause);
                            let choice = self.value_choice(rest, token, clause);
                            sequence.push_choice(Choice { name: Some(name), ..choice });
                        }
                        _ => {
                            let choice = self.value_choice(inner, token, clause);
                            sequence.push_choice(choice);
                        }
                    }
                    at = token.span.end as usize;
                }
                TokenKind::Group(_, inner) => at = self.values(inner, at, clause, sequence),
                _ => {}
            }
        }
        at
    }

    /// The name of a choice, valid from here on.
    fn name(&mut self, token: &Token, clause: &str) -> String {
        let name = token.ident().unwrap_or_default().to_owned();
        if self.names.contains(&name) {
            let message = format!("{clause}: `{name}` is the name of another choice");
            let help = format!("write `{{{name}}}` for what that chose, or take another name");
            self.error(Diagnostic::error("alternatives", clause, message).help(help).at(token.span));
        }
        self.names.push(name.clone());
        name
    }

    /// `{64, 128, 8..=32 step 8}`.
    fn value_choice(&mut self, tokens: &[Token], group: &Token, clause: &str) -> Choice {
        let mut choice = Choice { name: None, keys: keys(clause), alternatives: Vec::new(), end: "" };
        if tokens.is_empty() {
            let message = format!("{clause}: there are no alternatives in `{{}}`");
            let help = "write several, such as `{64, 128}`";
            self.error(Diagnostic::error("alternatives", clause, message).help(help).at(group.span));
            return choice;
        }
        let pieces = pieces(tokens);
        let mut seen = BTreeSet::new();
        for piece in &pieces {
            let Some(span) = (!piece.is_empty()).then(|| enclosing(piece)) else {
                let message = format!("{clause}: an alternative is missing before the comma");
                self.error(Diagnostic::error("alternatives", clause, message).at(group.span));
                continue;
            };
            if let [inner] = piece
                && brace(inner).is_some()
                && pieces.len() > 1
            {
                let inside = &self.text[span.start as usize + 1..span.end as usize - 1];
                let diagnostic =
                    Diagnostic::error("alternatives", clause, format!("{clause}: alternatives in alternatives"));
                let diagnostic = diagnostic.help(format!("write `{}` without its braces", inside.trim()));
                self.error(diagnostic.spell(inside.trim()).at(span));
                continue;
            }
            match values::range(piece, clause) {
                Some(Err(error)) => self.error(*error),
                Some(Ok(numbers)) => {
                    for number in numbers {
                        self.note(number.to_string(), span, clause, &mut seen);
                        choice.alternatives.push(Alternative::Number(number, bytes(piece)));
                    }
                }
                None => {
                    self.note(spelling(self.text, bytes(piece)), span, clause, &mut seen);
                    let mut written = Sequence::default();
                    let outer = self.names.len();
                    let at = self.values(piece, bytes(piece).start, clause, &mut written);
                    self.names.truncate(outer);
                    written.push_text(at..bytes(piece).end);
                    choice.alternatives.push(Alternative::Written(written));
                }
            }
        }
        if let ([_], [Alternative::Written(_)]) = (&pieces[..], &choice.alternatives[..]) {
            self.error(single(self.text, tokens, group, clause));
        }
        choice
    }

    /// `{double_buffer | stages(3); pace(free) | }`.
    fn clause_choice(&mut self, tokens: &[Token], group: &Token) -> Choice {
        // The first words are the names of clauses, and others do no harm.
        let words = tokens.iter().filter_map(Token::ident).map(keys);
        let keys = words.fold(KeySet::default(), KeySet::union);
        let mut choice = Choice { name: None, keys, alternatives: Vec::new(), end: "; " };
        let error = |message: String| Diagnostic::error("alternatives", "schedule", message).at(group.span);
        let pieces: Vec<&[Token]> = tokens.split(|token| token.is_punct('|')).collect();
        if pieces.len() == 1 {
            let commas = tokens.split(|token| token.is_punct(','));
            let clauses: Vec<&str> = commas.map(|piece| self.text[bytes(piece)].trim()).collect();
            let written = self.text[bytes(tokens)].trim();
            let diagnostic = match (tokens.is_empty(), clauses.len()) {
                (true, _) => {
                    error("there are no alternatives in `{}`".into()).help("write `{double_buffer | stages(3)}`")
                }
                (false, 1) => {
                    let with = format!("{{{} | }}", written.trim_end_matches(';'));
                    error(format!("`{{{written}}}` has one alternative, and is not a choice"))
                        .help(format!("write `{written}`, or `{with}` for schedules with and without it"))
                        .spell(format!("{};", written.trim_end_matches(';')))
                }
                _ => {
                    let spelling = format!("{{{}}}", clauses.join(" | "));
                    let diagnostic = error("`,` separates values, and these are clauses".into());
                    diagnostic.help(format!("write `{spelling}`")).spell(spelling)
                }
            };
            self.error(diagnostic);
            return choice;
        }
        let mut seen = BTreeSet::new();
        for piece in pieces {
            let range = bytes(piece);
            let span = if piece.is_empty() { group.span } else { enclosing(piece) };
            let written = spelling(self.text, range.clone());
            self.note(written.trim_end_matches([';', ' ']).into(), span, "schedule", &mut seen);
            let outer = self.names.len();
            choice.alternatives.push(Alternative::Written(self.clauses(piece, range)));
            self.names.truncate(outer);
        }
        choice
    }

    /// Counts an alternative, and rejects a duplicate in the same brace.
    fn note(&mut self, spelling: String, span: Span, clause: &str, seen: &mut BTreeSet<String>) {
        self.alternatives += 1;
        let what = if spelling.is_empty() { "no clause at all".into() } else { format!("`{spelling}`") };
        if !seen.insert(spelling) {
            let message = format!("{what} is among these alternatives twice");
            self.error(Diagnostic::error("alternatives", clause, message).help("keep one").at(span));
        }
    }

    /// Rejects spaces with too many alternatives or combinations.
    fn count(&mut self, sequence: &Sequence, tokens: &[Token]) {
        let (most, span) = (Space::MAX_ALTERNATIVES, enclosing(tokens));
        let error = |message: String| Diagnostic::error("alternatives", "schedule", message).at(span);
        if self.alternatives > most {
            let message = format!("there are {} alternatives, {most} at most are read", self.alternatives);
            self.error(error(message).help("leave some out"));
        } else if sequence.len() == u128::MAX {
            self.error(error("there are more combinations than can be counted".into()).help("leave alternatives out"));
        }
    }
}
