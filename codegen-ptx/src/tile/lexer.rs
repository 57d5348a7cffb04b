//! Tokens of a `.tile` text. Lines matter: each holds one declaration or statement, and the text after a `;` is its
//! note.

use super::text::TextError;

/// Longest text that is accepted, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    Number(u32),
    Mark(&'t str),
}

/// A token and its column, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'t> {
    pub token: Token<'t>,
    pub column: usize,
}

/// A line that holds more than a note.
#[derive(Clone, Debug)]
pub(super) struct Line<'t> {
    /// From 1.
    pub number: usize,
    pub tokens: Vec<Spot<'t>>,
    /// The text without its note, for the parts that have their own grammar.
    pub text: &'t str,
    pub note: &'t str,
    /// Column after the last token.
    pub end: usize,
}

/// Punctuation of two characters, then of one.
const MARKS: [&str; 18] =
    ["->", "<-", "+=", "..", "{", "}", "[", "]", "(", ")", ",", ":", "*", "+", "|", "-", "/", "."];

/// The lines of a text.
pub(super) fn lines(text: &str) -> Result<Vec<Line<'_>>, Vec<TextError>> {
    if text.len() > MAX_BYTES {
        let message = format!("the text has {} bytes, and the limit is {MAX_BYTES}", text.len());
        return Err(vec![TextError { line: 1, column: 1, message }]);
    }
    let (mut lines, mut errors) = (Vec::new(), Vec::new());
    for (index, whole) in text.lines().enumerate() {
        let (text, note) = whole.split_once(';').unwrap_or((whole, ""));
        let mut line = Line {
            number: index + 1,
            tokens: Vec::new(),
            text,
            note: note.trim(),
            end: text.trim_end().chars().count() + 1,
        };
        match tokens(&mut line) {
            Ok(()) if line.tokens.is_empty() => {}
            Ok(()) => lines.push(line),
            Err((column, message)) => errors.push(TextError { line: index + 1, column, message }),
        }
    }
    if errors.is_empty() { Ok(lines) } else { Err(errors) }
}

fn tokens<'t>(line: &mut Line<'t>) -> Result<(), (usize, String)> {
    let text: &'t str = line.text;
    // An epilogue has its own grammar, which checks its characters.
    let free = text.trim_start().starts_with("epilogue");
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let column = text[..at].chars().count() + 1;
        let length = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let number = rest[..length].parse();
            let number = number.map_err(|_| (column, format!("`{}` does not fit 32 bits", &rest[..length])))?;
            line.tokens.push(Spot { token: Token::Number(number), column });
            length
        } else if c.is_ascii_alphabetic() || c == '_' {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            line.tokens.push(Spot { token: Token::Word(&rest[..length]), column });
            if free {
                return Ok(());
            }
            length
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            let mark = mark.ok_or_else(|| (column, format!("`{c}` is not allowed here")))?;
            line.tokens.push(Spot { token: Token::Mark(&rest[..mark.len()]), column });
            mark.len()
        };
        at += length;
    }
    Ok(())
}
