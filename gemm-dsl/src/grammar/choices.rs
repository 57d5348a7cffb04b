//! Alternatives in braces, which belong to a [`Space`](crate::Space) and are an error in a single schedule.

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::token::{Delimiter, Token, TokenKind};

/// Whether a token is alternatives in braces: values, a range, or clauses. A single value, as in `{BM}`, is a Rust
/// value.
pub(super) fn is_choice(token: &Token) -> bool {
    let TokenKind::Group(Delimiter::Brace, inner) = &token.kind else { return false };
    let is_range = |pair: &[Token]| pair.iter().all(|token| token.is_punct('.'));
    inner.iter().any(|token| token.is_punct(',') || token.is_punct('|')) || inner.windows(2).any(is_range)
}

/// The spans of the alternatives in the arguments of a clause.
pub(super) fn inside(arguments: &[Token]) -> Vec<Span> {
    let within = |token: &Token| match &token.kind {
        _ if is_choice(token) => vec![token.span],
        TokenKind::Group(_, inner) => inside(inner),
        _ => Vec::new(),
    };
    arguments.iter().flat_map(within).collect()
}

/// The error about alternatives.
pub(super) fn told(clause: &'static str, span: Span) -> Diagnostic {
    let message = format!("{clause}: `{{...}}` has alternatives, and this is a single schedule");
    let help = "write one of them, or compare all of them with `gemmc sweep`";
    Diagnostic::error("alternatives", clause, message).help(help).at(span)
}
