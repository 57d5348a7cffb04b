//! The alternatives of a value: a list, or a range of numbers.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::grammar::whole_number;
use crate::token::{Delimiter, Token, TokenKind};

use super::Space;
use super::place::{bytes, enclosing};

/// Reads one piece of a brace as a range if it looks like one, and reports all errors in it.
pub(super) fn range(tokens: &[Token], clause: &str) -> Option<Result<Vec<u32>, Box<Diagnostic>>> {
    let dots = tokens.windows(2).position(|pair| pair.iter().all(|token| token.is_punct('.')))?;
    let whole = enclosing(tokens);
    let fail = |message: String| {
        let help = "a range is `8..=32`, `8..=32 step 8` or `8..=32 step *2`";
        Box::new(Diagnostic::error("range", clause, message).help(help).at(whole))
    };
    let (first, rest) = (&tokens[..dots], &tokens[dots + 2..]);
    let (inclusive, rest) = match rest {
        [equals, rest @ ..] if equals.is_punct('=') => (true, rest),
        _ => (false, rest),
    };
    let step_at = rest.iter().position(|token| token.ident() == Some("step")).unwrap_or(rest.len());
    let (last, step) = (&rest[..step_at], rest.get(step_at + 1..));
    let number = |tokens: &[Token], what: &str| match tokens {
        [Token { kind: TokenKind::Number(text), .. }] => whole_number(text)
            .ok_or_else(|| fail(format!("{what} of this range, {text}, is not a whole number up to {}", u32::MAX))),
        [] => Err(fail(format!("{what} of this range is missing"))),
        [other, ..] => Err(fail(format!("{what} of this range must be a whole number, got {}", other.describe()))),
    };
    let read = || {
        let (first, last) = (number(first, "the start")?, number(last, "the end")?);
        let steps = match step {
            None => Step::Add(1),
            Some([star, by @ ..]) if star.is_punct('*') => Step::Times(number(by, "the factor")?),
            Some(by) => Step::Add(number(by, "the step")?),
        };
        match steps {
            Step::Add(0) => return Err(fail("a range with `step 0` has no end".into())),
            Step::Times(0 | 1) => return Err(fail("a range multiplies by 2 or more".into())),
            Step::Times(_) if first == 0 => {
                return Err(fail("a range from 0 stays there when it is multiplied".into()));
            }
            _ => {}
        }
        let numbers: Vec<u32> = steps.from(first, last, inclusive).take(Space::MAX_ALTERNATIVES + 1).collect();
        match numbers.len() {
            0 => Err(fail(format!("this range is empty: it begins at {first} and ends at {last}"))),
            count if count > Space::MAX_ALTERNATIVES => {
                Err(fail(format!("this range has more than {} numbers", Space::MAX_ALTERNATIVES)))
            }
            _ => Ok(numbers),
        }
    };
    Some(read())
}

#[derive(Clone, Copy)]
enum Step {
    Add(u32),
    Times(u32),
}

impl Step {
    fn from(self, first: u32, last: u32, inclusive: bool) -> impl Iterator<Item = u32> {
        let next = move |value: &u32| match self {
            Step::Add(by) => value.checked_add(by),
            Step::Times(by) => value.checked_mul(by),
        };
        std::iter::successors(Some(first), next).take_while(move |&value| value < last || (inclusive && value == last))
    }
}

/// Reports a single alternative: it is not a choice, and probably a mistake.
pub(super) fn single(text: &str, tokens: &[Token], group: &Token, clause: &str) -> Diagnostic {
    let written = &text[bytes(tokens)];
    let error = |message: String| Diagnostic::error("alternatives", clause, message).at(group.span);
    match tokens {
        [inner] if matches!(inner.kind, TokenKind::Group(Delimiter::Brace, _)) => {
            error("alternatives in alternatives".into())
                .help("write one pair of braces")
                .spell(written)
        }
        _ if tokens.iter().any(|token| token.is_punct('|')) => {
            let pieces: Vec<&str> =
                tokens.split(|token| token.is_punct('|')).map(|piece| text[bytes(piece)].trim()).collect();
            let spelling = format!("{{{}}}", pieces.join(", "));
            error("`|` separates clauses, and these are values".into())
                .help(format!("write `{spelling}`; alternatives of a whole epilogue are clauses: `{{epilogue(…) | epilogue(…)}}`"))
                .spell(spelling)
        }
        [Token { kind: TokenKind::Ident(name), .. }] => error(format!(
            "{{{name}}} has one alternative, and is not a choice"
        ))
        .help(format!(
            "write several, such as `{{64, 128}}`, or choose `{name}` before: `{{{name}: 64, 128}}`; if it is a value of Rust \
             code, write the number itself: only gemm! takes such values"
        )),
        _ => error(format!("{{{written}}} has one alternative, and is not a choice"))
            .help(format!("write `{written}`, or several, such as `{{64, 128}}`"))
            .spell(written),
    }
}

/// The pieces between commas; an empty last one is a trailing comma.
pub(super) fn pieces(tokens: &[Token]) -> Vec<&[Token]> {
    let mut pieces: Vec<&[Token]> = tokens.split(|token| token.is_punct(',')).collect();
    if pieces.len() > 1 && pieces.last().is_some_and(|piece| piece.is_empty()) {
        pieces.pop();
    }
    pieces
}

/// The normalized text, for comparing alternatives.
pub(super) fn spelling(text: &str, range: Range<usize>) -> String {
    text[range].split_whitespace().collect::<Vec<_>>().join(" ")
}
