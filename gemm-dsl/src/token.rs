//! Tokens: the input of the grammar, from text or from a Rust macro.

use std::borrow::Cow;

use crate::span::Span;

/// The maximum nesting of groups, so that no recursive walk overflows the stack.
pub const MAX_DEPTH: u32 = 64;

/// The brackets around a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// `( )`
    Paren,
    /// `[ ]`
    Bracket,
    /// `{ }`
    Brace,
}

impl Delimiter {
    /// The opening and the closing character.
    pub fn characters(self) -> (char, char) {
        match self {
            Delimiter::Paren => ('(', ')'),
            Delimiter::Bracket => ('[', ']'),
            Delimiter::Brace => ('{', '}'),
        }
    }
}

/// The maximum number of characters of a word that a message quotes.
const MAX_SHOWN: usize = 40;

/// A word as a message shows it: all of it, or its beginning.
pub fn abridged(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(MAX_SHOWN) {
        None => word.into(),
        Some((end, _)) => format!("{}…", &word[..end]).into(),
    }
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// A name.
    Ident(String),
    /// Anything that starts with a digit, or with a point and a digit, as written: `128`, `1_000`, `0.5`, `.5`, `1e-3`,
    /// but also `8u32`.
    Number(String),
    /// One punctuation character.
    Punct(char),
    /// A bracketed group.
    Group(Delimiter, Vec<Token>),
    /// `{expression}` in a macro: a value known only when the schedule is constructed, by its number.
    Hole(u32),
    /// Anything the language does not use: string literals, lifetimes, stray characters.
    Other(String),
}

/// A token with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its place; for a group, from bracket to bracket.
    pub span: Span,
}

impl Token {
    /// True for the punctuation character `c`.
    pub fn is_punct(&self, c: char) -> bool {
        self.kind == TokenKind::Punct(c)
    }

    /// The name, if the token is one.
    pub fn ident(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// The token as a short text for messages.
    pub fn describe(&self) -> String {
        match &self.kind {
            TokenKind::Ident(text) | TokenKind::Number(text) | TokenKind::Other(text) => {
                format!("`{}`", abridged(text))
            }
            TokenKind::Punct(c) => format!("`{c}`"),
            TokenKind::Group(delimiter, _) => {
                let (open, close) = delimiter.characters();
                format!("`{open}...{close}`")
            }
            TokenKind::Hole(_) => "`{...}`".into(),
        }
    }
}
