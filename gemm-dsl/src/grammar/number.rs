//! Reads numbers, and guesses the intended number from a wrong notation.

use crate::token::{Delimiter, Token, TokenKind};

/// The error of a number that is too large for any argument.
pub(super) const TOO_LARGE: &str = "is too large";

/// A decimal integer, or its error and the intended number.
pub(super) fn integer(text: &str) -> Result<u32, (&'static str, Option<String>)> {
    let whole = |digits: &str| digits.replace('_', "").parse::<u32>().ok().map(|value| value.to_string());
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let meant = u32::from_str_radix(&digits.replace('_', ""), radix).ok().map(|value| value.to_string());
            return Err(("is not decimal", meant));
        }
    }
    if text.contains('.') {
        let meant = text.split_once('.').filter(|(_, fraction)| fraction.chars().all(|c| c == '0'));
        return Err(("is not a whole number", meant.and_then(|(digits, _)| whole(digits))));
    }
    if let Some(at) = text.find(|c: char| !c.is_ascii_digit() && c != '_') {
        return Err(match text.as_bytes()[at] {
            b'e' | b'E' => ("has an exponent", power(text)),
            _ => ("has a suffix", whole(&text[..at])),
        });
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().map_err(|_| (TOO_LARGE, None))
}

/// `1e3` as a whole number, if it is one.
fn power(text: &str) -> Option<String> {
    let value: f64 = text.replace('_', "").parse().ok()?;
    (value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value)).then(|| format!("{value:.0}"))
}

/// The maximum number of tokens to evaluate: anything longer is not a slip.
const MAX_TOKENS: usize = 32;

/// The value of constants with `+ - * /` and parentheses; `None` if it is not a whole number from 0 to `u32::MAX`.
pub(super) fn value(tokens: &[Token]) -> Option<u32> {
    if tokens.len() > MAX_TOKENS {
        return None;
    }
    let mut rest = tokens;
    let value = sum(&mut rest)?;
    u32::try_from(value).ok().filter(|_| rest.is_empty())
}

fn sum(rest: &mut &[Token]) -> Option<i64> {
    let mut left = product(rest)?;
    while let Some(symbol) = operator(rest, ['+', '-']) {
        let right = product(rest)?;
        left = if symbol == '+' { left.checked_add(right)? } else { left.checked_sub(right)? };
    }
    Some(left)
}

fn product(rest: &mut &[Token]) -> Option<i64> {
    let mut left = operand(rest)?;
    while let Some(symbol) = operator(rest, ['*', '/']) {
        let right = operand(rest)?;
        // As in Rust, the usual source of such expressions.
        left = if symbol == '*' { left.checked_mul(right)? } else { left.checked_div(right)? };
    }
    Some(left)
}

fn operand(rest: &mut &[Token]) -> Option<i64> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    match &first.kind {
        TokenKind::Number(text) => integer(text).ok().map(i64::from),
        TokenKind::Group(Delimiter::Paren, inner) => value(inner).map(i64::from),
        _ => None,
    }
}

fn operator(rest: &mut &[Token], wanted: [char; 2]) -> Option<char> {
    let (first, after) = rest.split_first()?;
    let symbol = wanted.into_iter().find(|&symbol| first.is_punct(symbol))?;
    *rest = after;
    Some(symbol)
}

/// Whether these tokens may be a Rust expression that names something.
pub(super) fn is_rust(tokens: &[Token]) -> bool {
    // An assignment has no value, and `'` begins a lifetime.
    let foreign = |token: &Token| token.is_punct('=') || token.is_punct('\'');
    tokens.len() <= MAX_TOKENS && tokens.iter().any(named) && !tokens.iter().any(foreign)
}

fn named(token: &Token) -> bool {
    match &token.kind {
        TokenKind::Ident(_) => true,
        TokenKind::Group(Delimiter::Paren, inner) => inner.iter().any(named),
        _ => false,
    }
}

/// The tokens as text.
pub(super) fn text(tokens: &[Token]) -> String {
    let is_word = |token: &Token| matches!(token.kind, TokenKind::Ident(_) | TokenKind::Number(_));
    let mut text = String::new();
    let mut before: Option<&Token> = None;
    for token in tokens {
        let operator = matches!(token.kind, TokenKind::Punct('+' | '-' | '*' | '/'));
        match before {
            // An operator without an operand before it is a sign.
            Some(_) if operator => text.push(' '),
            Some(before) if is_word(before) && is_word(token) => text.push(' '),
            _ => {}
        }
        match &token.kind {
            TokenKind::Ident(word) | TokenKind::Number(word) | TokenKind::Other(word) => text.push_str(word),
            TokenKind::Punct(symbol) => text.push(*symbol),
            TokenKind::Group(delimiter, inner) => {
                let (open, close) = delimiter.characters();
                text.push(open);
                text.push_str(&self::text(inner));
                text.push(close);
            }
            TokenKind::Hole(_) => text.push_str("{...}"),
        }
        if operator && before.is_some() {
            text.push(' ');
        }
        before = (!operator).then_some(token);
    }
    text
}
