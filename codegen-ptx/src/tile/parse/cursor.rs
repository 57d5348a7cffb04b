//! One line of a `.tile` text, read from left to right.

use ptx_gemm_dsl::terms::Side;
use ptx_gemm_dsl::words::Word;

use crate::tile::Note;
use crate::tile::lexer::{Line, Spot, Token};
use crate::tile::text::TextError;

pub(super) type Parsed<T> = Result<T, TextError>;

/// The rest of one line.
pub(super) struct Cursor<'t> {
    pub line: &'t Line<'t>,
    pub at: usize,
}

impl<'t> Cursor<'t> {
    pub fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        let column = self.line.tokens.get(self.at).map_or(self.line.end, |spot| spot.column);
        Err(TextError { line: self.line.number, column, message: message.into() })
    }

    /// The same error, at the previous token.
    pub fn error_before<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Cursor { line: self.line, at: self.at.saturating_sub(1) }.error(message)
    }

    pub fn peek(&self) -> Option<Token<'t>> {
        self.line.tokens.get(self.at).map(|spot: &Spot<'t>| spot.token)
    }

    pub fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the line".to_string(),
            Some(Token::Word(word) | Token::Mark(word)) => format!("`{word}`"),
            Some(Token::Number(number)) => format!("`{number}`"),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    pub fn any_word(&mut self, what: &str) -> Parsed<&'t str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    pub fn number(&mut self) -> Parsed<u32> {
        match self.peek() {
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(number)
            }
            _ => self.expected("a number"),
        }
    }

    pub fn takes(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    pub fn word(&mut self, word: &str) -> Parsed<()> {
        if self.takes(Token::Word(word)) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    pub fn mark(&mut self, mark: &str) -> Parsed<()> {
        if self.takes(Token::Mark(mark)) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    /// `word n`
    pub fn named(&mut self, word: &str) -> Parsed<u32> {
        self.word(word)?;
        self.number()
    }

    /// `n B`
    pub fn bytes(&mut self) -> Parsed<u32> {
        let bytes = self.number()?;
        self.word("B")?;
        Ok(bytes)
    }

    /// `(n)`
    pub fn in_parentheses(&mut self) -> Parsed<u32> {
        self.mark("(")?;
        let number = self.number()?;
        self.mark(")")?;
        Ok(number)
    }

    /// A word of one of the language's enumerations.
    pub fn of<T: Word>(&mut self) -> Parsed<T> {
        let word = self.any_word(T::WHAT)?;
        match T::TABLE.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => Ok(*value),
            None => {
                let all: Vec<&str> = T::TABLE.iter().map(|(name, _)| *name).collect();
                self.error_before(format!("`{word}` is not {}: {}", T::WHAT, all.join(", ")))
            }
        }
    }

    pub fn end(&self) -> Parsed<()> {
        if self.at == self.line.tokens.len() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// `{` at the end of the line.
    pub fn open(&mut self) -> Parsed<()> {
        self.mark("{")?;
        self.end()
    }

    pub fn note(&self) -> Note {
        self.line.note.into()
    }

    /// The position of the line's first token.
    pub fn start(&self) -> (usize, usize) {
        (self.line.number, self.line.tokens.first().map_or(1, |spot| spot.column))
    }

    /// The index of the item with the name that follows.
    pub fn find<'n>(&mut self, what: &str, mut names: impl Iterator<Item = &'n str>) -> Parsed<usize> {
        let name = self.any_word(&format!("the name of {what}"))?;
        match names.position(|known| known == name) {
            Some(index) => Ok(index),
            None => self.error_before(format!("there is no {} `{name}`", what.split_once(' ').map_or(what, |w| w.1))),
        }
    }

    pub fn side(&mut self) -> Parsed<Side> {
        match self.any_word("`a` or `b`")? {
            "a" => Ok(Side::A),
            "b" => Ok(Side::B),
            other => self.error_before(format!("expected `a` or `b`, found `{other}`")),
        }
    }
}

/// A name that no other item of its kind has.
pub(super) fn fresh<'n>(cursor: &mut Cursor<'_>, mut names: impl Iterator<Item = &'n String>) -> Parsed<String> {
    let name = cursor.any_word("a name")?;
    if names.any(|known| known == name) {
        return cursor.error_before(format!("the name `{name}` is already taken"));
    }
    Ok(name.into())
}
