//! Splits PTX text into tokens, one at a time and without copying; comments are kept separately with their lines.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a mnemonic with its modifiers: `%r1`, `%tid.x`, `ld.global.v4.f32`, `smem`.
    Word,
    /// A directive, one word with its dot: `.reg`, `.f32`.
    Directive,
    /// An integer or a float, as written.
    Number,
    /// Text in quotation marks, which are not part of it.
    Text,
    /// A single character of punctuation.
    Punct(u8),
    /// The end of the text.
    End,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    pub position: Position,
}

/// A position in the text, both numbers from 1; the column counts bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub line: u32,
    pub column: u32,
}

/// A comment that the lexer skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment<'a> {
    /// The text after the slashes, or between `/*` and `*/`.
    pub text: &'a str,
    pub line: u32,
    /// Whether a token precedes it on its line.
    pub trailing: bool,
    pub kind: CommentKind,
}

/// The form of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentKind {
    /// `// text`, its text as written.
    Line,
    /// One line of `/* text */`, trimmed.
    Block,
}

pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    /// Line of the newest token, 0 before the first.
    token_line: u32,
    /// Comments since the last call that took them.
    pub comments: Vec<Comment<'a>>,
}

/// Why the text cannot be split into tokens.
pub(crate) struct LexError {
    pub position: Position,
    pub message: String,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Lexer { text, at: 0, line: 1, line_start: 0, token_line: 0, comments: Vec::new() }
    }

    fn byte(&self, ahead: usize) -> u8 {
        // NUL is never legal in PTX, so it can mark the end.
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The byte right after the newest token.
    pub fn upcoming(&self) -> u8 {
        self.byte(0)
    }

    fn position(&self) -> Position {
        let column = self.at - self.line_start + 1;
        Position { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    /// The next token.
    pub fn token(&mut self) -> Result<Token<'a>, LexError> {
        self.skip_blanks()?;
        let position = self.position();
        let start = self.at;
        self.token_line = position.line;
        let kind = match self.byte(0) {
            0 if self.at >= self.text.len() => TokenKind::End,
            b'"' => return self.quoted(position),
            b'0'..=b'9' => self.number(),
            b'.' if self.byte(1).is_ascii_digit() => self.number(),
            b'.' => {
                self.at += 1;
                self.word_run();
                TokenKind::Directive
            }
            byte if is_word_start(byte) => {
                self.word();
                TokenKind::Word
            }
            byte if byte.is_ascii_graphic() => {
                self.at += 1;
                TokenKind::Punct(byte)
            }
            byte => {
                let found = self.text[self.at..].chars().next().unwrap_or(char::from(byte));
                return Err(LexError { position, message: format!("unexpected character {found:?}") });
            }
        };
        Ok(Token { kind, text: &self.text[start..self.at], position })
    }

    fn skip_blanks(&mut self) -> Result<(), LexError> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.at += 1;
                    self.newline();
                }
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'/', b'/') => self.line_comment(),
                (b'/', b'*') => self.block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn newline(&mut self) {
        self.line += 1;
        self.line_start = self.at;
    }

    fn line_comment(&mut self) {
        let rest = &self.text[self.at + 2..];
        let length = rest.bytes().position(|byte| byte == b'\n').unwrap_or(rest.len());
        let text = rest[..length].strip_suffix('\r').unwrap_or(&rest[..length]);
        let trailing = self.token_line == self.line;
        self.comments.push(Comment { text, line: self.line, trailing, kind: CommentKind::Line });
        self.at += 2 + length;
    }

    fn block_comment(&mut self) -> Result<(), LexError> {
        let rest = &self.text[self.at + 2..];
        let Some(length) = rest.find("*/") else {
            return Err(LexError { position: self.position(), message: "unclosed comment".to_owned() });
        };
        let start = self.at + 2;
        let mut offset = 0;
        for piece in rest[..length].split('\n') {
            if offset > 0 {
                self.at = start + offset;
                self.newline();
            }
            let trailing = self.token_line == self.line;
            self.comments.push(Comment { text: piece.trim(), line: self.line, trailing, kind: CommentKind::Block });
            offset += piece.len() + 1;
        }
        self.at = start + length + 2;
        Ok(())
    }

    fn quoted(&mut self, position: Position) -> Result<Token<'a>, LexError> {
        let rest = &self.text[self.at + 1..];
        match rest.bytes().position(|byte| byte == b'"' || byte == b'\n') {
            Some(length) if rest.as_bytes()[length] == b'"' => {
                self.at += length + 2;
                Ok(Token { kind: TokenKind::Text, text: &rest[..length], position })
            }
            _ => Err(LexError { position, message: "unclosed quotation mark".to_owned() }),
        }
    }

    /// Letters and digits, and one point followed by an exponent where they form a float.
    fn number(&mut self) -> TokenKind {
        let hexadecimal = self.byte(0) == b'0' && self.byte(1).is_ascii_alphabetic();
        while self.byte(0).is_ascii_alphanumeric() || (self.byte(0) == b'.' && !hexadecimal) {
            let exponent = matches!(self.byte(0), b'e' | b'E') && !hexadecimal;
            self.at += 1;
            if exponent && matches!(self.byte(0), b'+' | b'-') {
                self.at += 1;
            }
        }
        TokenKind::Number
    }

    fn word_run(&mut self) {
        while is_word_byte(self.byte(0)) || (self.byte(0) == b':' && self.byte(1) == b':') {
            self.at += if self.byte(0) == b':' { 2 } else { 1 };
        }
    }

    /// A name and its parts after dots.
    fn word(&mut self) {
        self.at += 1;
        self.word_run();
        while self.byte(0) == b'.' && is_word_byte(self.byte(1)) {
            self.at += 1;
            self.word_run();
        }
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}
