//! The names between the bars of an epilogue.

use crate::epilogue::{Axis, Function};
use crate::grammar::args::Args;
use crate::span::Span;
use crate::token::{Delimiter, Token, TokenKind, abridged};
use crate::words::Word;

/// Rust keywords that begin more than an expression and mean nothing here.
pub(super) const CONTROL: [&str; 8] = ["if", "else", "match", "while", "for", "loop", "let", "return"];

/// The reason that a name cannot be declared.
pub(super) fn undeclarable(name: &str) -> Option<&'static str> {
    if Function::TABLE.iter().any(|(function, _)| *function == name) {
        Some("is a function")
    } else if CONTROL.contains(&name) {
        Some("is a word of Rust")
    } else {
        (!name.is_ascii()).then_some("is not plain ASCII")
    }
}

/// The declarations between the bars.
#[derive(Default)]
pub(super) struct Declarations {
    pub names: Vec<String>,
    /// Names declared with an index, which belongs to their uses.
    pub indexed: Vec<Indexed>,
}

/// `bias[n]` between the bars.
#[derive(Clone, Copy)]
pub(super) struct Indexed {
    /// Its index among the names.
    pub name: usize,
    pub axis: Axis,
    pub span: Span,
}

/// Reads the names between the bars. A name that cannot be declared is reported and counts as declared in the
/// expression.
pub(super) fn declarations(args: &mut Args, tokens: &[Token]) -> Option<Declarations> {
    let mut all = Declarations::default();
    let pieces: Vec<&[Token]> = tokens.split(|token| token.is_punct(',')).collect();
    let last = pieces.len() - 1;
    for (index, piece) in pieces.into_iter().enumerate() {
        match piece {
            [] if index == last => {}
            [Token { kind: TokenKind::Ident(name), span }, rest @ ..]
                if rest.is_empty() || vector(name, rest).is_some() =>
            {
                if let Some(axis) = vector(name, rest) {
                    all.indexed.push(Indexed { name: all.names.len(), axis, span: span.to(rest[0].span) });
                }
                let twice = all.names.contains(name).then_some("is declared twice");
                let problem = undeclarable(name).or(twice);
                if let Some(problem) = problem {
                    let message = format!("epilogue: `{}` {problem}", abridged(name));
                    args.fail_with("epilogue-name", message, "declare another name", *span);
                }
                all.names.push(name.clone());
            }
            [Token { kind: TokenKind::Ident(name), .. }, extra, ..] => {
                let shown = abridged(name);
                let message = format!("epilogue: expected `,` or `|` after `{shown}`, got {}", extra.describe());
                args.fail_with("epilogue", message, format!("declare `{shown}` alone"), extra.span);
                return None;
            }
            other => {
                let (got, span) = other.first().map_or(("nothing".into(), args.span), |t| (t.describe(), t.span));
                args.fail("epilogue", format!("epilogue: expected a name to declare, got {got}"), span);
                return None;
            }
        }
    }
    Some(all)
}

/// The index of a vector, if the tokens after a name are one.
fn vector(name: &str, rest: &[Token]) -> Option<Axis> {
    match rest {
        [Token { kind: TokenKind::Group(Delimiter::Bracket, index), .. }] if name != "acc" && name != "c" => {
            axis(index)
        }
        _ => None,
    }
}

/// `m` or `n`, between the brackets of a vector.
pub(super) fn axis(index: &[Token]) -> Option<Axis> {
    let [axis] = index else { return None };
    Axis::TABLE.iter().find(|(word, _)| axis.ident() == Some(word)).map(|(_, axis)| *axis)
}
