//! Schedule text to tokens.
//!
//! The lexer never stops halfway: stray characters become [`TokenKind::Other`], so that the grammar can report them
//! with everything else. Only text that is too long, nested too deep or unbalanced is refused here, before any
//! recursion.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::token::{Delimiter, MAX_DEPTH, Token, TokenKind};

/// The longest accepted schedule text, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// The top-level tokens of `text`, and the errors between them.
pub fn tokens(text: &str) -> Result<(Vec<Token>, Vec<Diagnostic>), Box<Diagnostic>> {
    if text.len() > MAX_BYTES {
        // The caller may have stopped reading soon after the limit, so the text's length would be meaningless.
        let message = format!("the schedule is longer than {MAX_BYTES} bytes, the most that are read");
        return Err(Diagnostic::error("text-size", "schedule", message).help("leave clauses or comments out").into());
    }
    let mut lexer = Lexer { text, chars: text.char_indices().peekable(), line: 1, column: 1, errors: Vec::new() };
    let tokens = lexer.run()?;
    Ok((tokens, lexer.errors))
}

struct Lexer<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    line: u32,
    column: u32,
    errors: Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<Vec<Token>, Box<Diagnostic>> {
        // The open groups: the bracket, its place, and the tokens of the level outside it.
        let mut open: Vec<(Delimiter, Span, Vec<Token>)> = Vec::new();
        let mut level: Vec<Token> = Vec::new();
        while let Some(c) = self.skip_blank()? {
            let start = self.here();
            if let Some(delimiter) = opening(c) {
                self.bump();
                if open.len() as u32 >= MAX_DEPTH {
                    return Err(too_deep(self.since(start)));
                }
                open.push((delimiter, self.since(start), std::mem::take(&mut level)));
            } else if let Some(delimiter) = closing(c) {
                self.bump();
                let close = self.since(start);
                let Some((opened, from, outer)) = open.pop().filter(|(opened, ..)| *opened == delimiter) else {
                    return Err(unbalanced(format!("`{c}` closes nothing"), close));
                };
                let group = std::mem::replace(&mut level, outer);
                level.push(Token { kind: TokenKind::Group(opened, group), span: from.to(close) });
            } else {
                let kind = self.single(c);
                level.push(Token { kind, span: self.since(start) });
            }
        }
        match open.pop() {
            None => Ok(level),
            Some((opened, from, _)) => Err(unbalanced(format!("`{}` is never closed", opened.characters().0), from)),
        }
    }

    /// One token that is not a bracket.
    fn single(&mut self, c: char) -> TokenKind {
        let from = self.offset();
        if c == '_' || c.is_alphabetic() {
            self.bump_while(|c| c == '_' || c.is_alphanumeric());
            TokenKind::Ident(self.text[from..self.offset()].into())
        } else if c.is_ascii_digit() || self.begins_fraction(from) {
            self.number();
            TokenKind::Number(self.text[from..self.offset()].into())
        } else if c == '"' {
            self.bump();
            self.bump_while(|c| c != '"' && c != '\n');
            self.bump();
            TokenKind::Other(self.text[from..self.offset()].into())
        } else {
            self.bump();
            if c.is_ascii_punctuation() { TokenKind::Punct(c) } else { TokenKind::Other(c.to_string()) }
        }
    }

    /// True at the point of `.5`, but not at the last point of `4..5`.
    fn begins_fraction(&self, at: usize) -> bool {
        let rest = self.text.as_bytes().get(at..at + 2);
        rest.is_some_and(|rest| rest[0] == b'.' && rest[1].is_ascii_digit()) && !self.text[..at].ends_with('.')
    }

    /// Digits with underscores, a fraction, an exponent, and any letters glued to them.
    fn number(&mut self) {
        let word = |c: char| c == '_' || c.is_alphanumeric();
        let integer = self.offset();
        self.bump_while(word);
        // `1.5` and `1.` are floats, `1..` and `1.max` are not.
        let mut ahead = self.chars.clone();
        if ahead.next().is_some_and(|(_, c)| c == '.')
            && !ahead.peek().is_some_and(|&(_, c)| c == '.' || c == '_' || c.is_alphabetic())
        {
            self.bump();
            self.bump_while(word);
        }
        let so_far = &self.text[integer..self.offset()];
        let exponent = so_far.ends_with(['e', 'E']) && so_far.starts_with(|c: char| c == '.' || c.is_ascii_digit());
        if exponent && self.chars.peek().is_some_and(|&(_, c)| c == '-' || c == '+') {
            self.bump();
            self.bump_while(word);
        }
    }

    /// Skips white space and comments; returns the next character without taking it.
    fn skip_blank(&mut self) -> Result<Option<char>, Box<Diagnostic>> {
        loop {
            let Some(&(at, c)) = self.chars.peek() else { return Ok(None) };
            let rest = &self.text[at..];
            if c.is_whitespace() || c == '\u{feff}' {
                self.bump();
            } else if rest.starts_with("//") {
                self.bump_while(|c| c != '\n');
            } else if rest.starts_with("/*") {
                self.block_comment()?;
            } else if c == '#' {
                self.hash();
            } else {
                return Ok(Some(c));
            }
        }
    }

    /// A comment in another language's syntax: reported and skipped, so that the clauses after it are read.
    fn hash(&mut self) {
        let start = self.here();
        self.bump();
        let message = "`#` does not begin a comment";
        let diagnostic = Diagnostic::error("comment", "schedule", message).at(self.since(start));
        self.errors.push(diagnostic.help("write `//`").spell("//"));
        self.bump_while(|c| c != '\n');
    }

    /// Skips a block comment, which may be nested as in Rust.
    fn block_comment(&mut self) -> Result<(), Box<Diagnostic>> {
        let start = self.here();
        let mut depth = 0u32;
        loop {
            let Some(&(at, _)) = self.chars.peek() else {
                return Err(unbalanced("the comment is never closed".into(), Span { end: start.start + 2, ..start }));
            };
            let rest = &self.text[at..];
            if rest.starts_with("/*") {
                depth += 1;
                self.bump();
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.bump();
            }
            self.bump();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn offset(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |&(at, _)| at)
    }

    fn here(&mut self) -> Span {
        let at = self.offset() as u32;
        Span { start: at, end: at, line: self.line, column: self.column }
    }

    fn since(&mut self, start: Span) -> Span {
        Span { end: self.offset() as u32, ..start }
    }

    fn bump(&mut self) {
        match self.chars.next() {
            Some((_, '\n')) => (self.line, self.column) = (self.line + 1, 1),
            Some(_) => self.column += 1,
            None => {}
        }
    }

    fn bump_while(&mut self, test: impl Fn(char) -> bool) {
        while self.chars.peek().is_some_and(|&(_, c)| test(c)) {
            self.bump();
        }
    }
}

/// The error for groups nested deeper than [`MAX_DEPTH`].
pub fn too_deep(span: Span) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("depth", "schedule", format!("brackets are nested more than {MAX_DEPTH} deep")).at(span))
}

fn unbalanced(message: String, span: Span) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("brackets", "schedule", message).at(span))
}

fn opening(c: char) -> Option<Delimiter> {
    [Delimiter::Paren, Delimiter::Bracket, Delimiter::Brace].into_iter().find(|d| d.characters().0 == c)
}

fn closing(c: char) -> Option<Delimiter> {
    [Delimiter::Paren, Delimiter::Bracket, Delimiter::Brace].into_iter().find(|d| d.characters().1 == c)
}
