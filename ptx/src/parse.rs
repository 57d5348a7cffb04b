//! Reads PTX text. No other code in the project does.
//!
//! `parse(&print(&m)) == m` for every module `m` that passes [`crate::verify::verify`], including notes and comments.
//! Text from other compilers (nvcc, NVRTC) is accepted too; constructs that a [`Module`] cannot represent are mapped to
//! the nearest ones that it can:
//!
//! - nested `{ }` scopes are flattened, their registers, variables and labels renamed where they would clash;
//! - `.loc`, `.file`, `.section` and the target option `debug` (debug information) are skipped, as are `.visible` and
//!   `.weak` on variables and entries, and the `.ptr` attributes of parameters;
//! - functions become part of the entries that call them ([`functions`]);
//! - constant expressions become their values, vector registers become a register for each component, and variables of
//!   vectors become arrays;
//! - comments where a module has no place for them move to the nearest statement, or to the header;
//! - instructions and modifiers that this crate does not know stay as [`crate::instruction::Opcode::Unknown`].
//!
//! No text makes the parser panic,
//! recurse without bound, or allocate more than a small multiple of the text's length and the limits below.

mod entry;
mod expression;
mod functions;
mod initialiser;
mod operand;
mod scope;
mod vectors;

use std::collections::HashMap;

pub use self::functions::DEEPER;
use self::functions::Functions;
use crate::instruction::{Note, Opcode};
use crate::lexer::{Comment, CommentKind, LexError, Lexer, Position, Token, TokenKind};
use crate::module::{Module, Variable};
use crate::types::{Space, Type};

/// Longest text that is accepted, in bytes.
pub const MAX_TEXT: usize = 16 << 20;
/// Most statements, declarations and comments that are accepted in one text.
pub const MAX_STATEMENTS: usize = 1 << 20;
/// Deepest nesting of `{ }` scopes.
pub const MAX_NESTING: usize = 64;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Line, from 1; 0 when the text as a whole is rejected.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

/// A module, and the lines of its statements in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The module.
    pub module: Module,
    /// For each entry, the line (from 1) of each statement of its body: `lines[e][s]` is that of `entries[e].body[s]`.
    pub lines: Vec<Vec<u32>>,
}

/// Reads a module.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    parse_with_lines(text).map(|parsed| parsed.module)
}

/// Reads a module and keeps the line of each statement.
pub fn parse_with_lines(text: &str) -> Result<Parsed, ParseError> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes, and the limit is {MAX_TEXT}", text.len());
        return Err(ParseError { line: 0, column: 0, message });
    }
    // A lone carriage return is white space, even inside a comment, where the printer writes a space for it.
    if text.contains('\r') {
        return Parser::new(&text.replace("\r\n", "\n").replace('\r', " "))?.module();
    }
    Parser::new(text)?.module()
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, not yet consumed.
    token: Token<'a>,
    /// Line of the newest consumed token.
    line: u32,
    /// Variables of the module: their spaces, and the bytes of an element.
    symbols: HashMap<&'a str, (Space, u32)>,
    /// Opcodes already read: a kernel uses a few dozen mnemonics thousands of times.
    opcodes: HashMap<&'a str, Opcode>,
    /// Notes already read; their text is shared.
    notes: HashMap<&'a str, Note>,
    functions: Functions<'a>,
    /// Statements, declarations and comments so far.
    statements: usize,
    /// The module's `.version`.
    version: (u32, u32),
}

/// The linkage directive before a declaration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linkage {
    Own,
    Extern,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.token().map_err(lexical)?;
        Ok(Parser {
            lexer,
            token,
            line: 0,
            symbols: HashMap::new(),
            opcodes: HashMap::new(),
            notes: HashMap::new(),
            functions: Functions::default(),
            statements: 0,
            version: (0, 0),
        })
    }

    fn module(mut self) -> Result<Parsed> {
        let mut module = Module {
            header: self.comment_lines(),
            version: (0, 0),
            target: String::new(),
            variables: Vec::new(),
            entries: Vec::new(),
        };
        self.preamble(&mut module)?;
        let mut lines = Vec::new();
        loop {
            // Comments between entries go into the body of the one that follows.
            if module.entries.is_empty() && !self.at_entry() {
                let more = self.comment_lines();
                module.header.extend(more);
            }
            match (self.token.kind, self.token.text) {
                (TokenKind::End, _) => break,
                (TokenKind::Punct(b';'), _) => drop(self.next()?),
                (TokenKind::Directive, ".file" | ".loc") => self.skip_line()?,
                (TokenKind::Directive, ".section") => self.skip_section()?,
                (TokenKind::Directive, _) => self.item(&mut module, &mut lines)?,
                _ => return Err(self.unexpected("a directive")),
            }
        }
        self.functions.complete();
        let mut added = 0;
        for (entry, lines) in module.entries.iter_mut().zip(&mut lines) {
            functions::inline(entry, lines, &self.functions, &mut added).map_err(|message| self.error(&message))?;
        }
        Ok(Parsed { module, lines })
    }

    /// `.version`, `.target` and `.address_size`, which come first and in this order.
    fn preamble(&mut self, module: &mut Module) -> Result<()> {
        self.expect_directive(".version")?;
        let error = self.error("expected a version such as 8.0");
        let (major, minor) = self.expect(TokenKind::Number, "a version")?.text.split_once('.').ok_or(error.clone())?;
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) => module.version = (major, minor),
            _ => return Err(error),
        }
        self.version = module.version;
        self.expect_directive(".target")?;
        module.target = self.expect(TokenKind::Word, "a target such as sm_80")?.text.to_owned();
        while self.eat(b',')? {
            let option = self.expect(TokenKind::Word, "a target option")?.text;
            // Debug information is skipped, and ptxas rejects the option without it.
            if option != "debug" {
                module.target.push_str(", ");
                module.target.push_str(option);
            }
        }
        if self.eat_directive(".address_size")? && self.integer()? != 64 {
            return Err(self.error("only .address_size 64 is supported"));
        }
        Ok(())
    }

    fn at_entry(&self) -> bool {
        matches!(self.token.text, ".entry" | ".visible" | ".weak" | ".common")
    }

    /// A declaration at module scope: an entry or a variable.
    fn item(&mut self, module: &mut Module, lines: &mut Vec<Vec<u32>>) -> Result<()> {
        let linkage = self.linkage()?;
        match self.token.text {
            ".entry" if linkage == Linkage::Own => {
                let (entry, entry_lines) = self.entry()?;
                module.entries.push(entry);
                lines.push(entry_lines);
            }
            ".func" => self.function()?,
            ".alias" => self.alias()?,
            text if space(text).is_some() => {
                let space = space(text).unwrap_or(Space::Global);
                let (names, element) = self.variables(linkage, &mut module.variables)?;
                for name in names {
                    self.symbols.insert(name.text, (space, element));
                }
            }
            text => return Err(self.error(&format!("`{text}` is not supported here"))),
        }
        Ok(())
    }

    /// `.extern`, `.visible` and the like.
    fn linkage(&mut self) -> Result<Linkage> {
        let mut linkage = Linkage::Own;
        while self.token.kind == TokenKind::Directive {
            match self.token.text {
                ".extern" => linkage = Linkage::Extern,
                ".visible" | ".weak" | ".common" => {}
                _ => break,
            }
            self.next()?;
        }
        Ok(linkage)
    }

    /// Variables of one space and type: `.shared .align 16 .b8 a[1024], b[64];`. Returns the tokens of their names, and the
    /// bytes of an element. A variable of vectors becomes an array of their elements.
    fn variables(&mut self, linkage: Linkage, into: &mut Vec<Variable>) -> Result<(Vec<Token<'a>>, u32)> {
        let space = space(self.token.text).ok_or_else(|| self.unexpected("a state space"))?;
        self.next()?;
        let (mut align, mut lanes) = (None, 1);
        let ty = loop {
            let directive = self.expect(TokenKind::Directive, "a type")?;
            match directive.text {
                ".align" => align = Some(self.integer_u32()?),
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                text => break type_word(text).ok_or_else(|| self.error_at(directive.position, no_type(text)))?,
            }
        };
        let mut names = Vec::new();
        loop {
            self.count_statement()?;
            let name = self.expect(TokenKind::Word, "a name")?;
            names.push(name);
            let mut extents = self.dimensions()?;
            let open = extents.first() == Some(&0);
            if lanes > 1 {
                extents.push(lanes);
            }
            let mut count = self.elements_of(&extents)?;
            let init = if self.eat(b'=')? { self.initialiser(space, ty, &extents)? } else { Vec::new() };
            if open && !init.is_empty() {
                let line: u64 = extents[1..].iter().product();
                count = Some((init.len() as u64).next_multiple_of(line.max(1)));
            }
            if open && init.is_empty() && linkage != Linkage::Extern {
                let what = "an array without an extent is `.extern`, or has an initialiser";
                return Err(self.error_at(name.position, what.to_owned()));
            }
            if init.len() as u64 > count.unwrap_or(1) {
                return Err(self.error(&format!(
                    "the initialiser has {} values for {} elements",
                    init.len(),
                    count.unwrap_or(1)
                )));
            }
            let name = name.text.to_owned();
            let is_extern = linkage == Linkage::Extern;
            let align = align.or((lanes > 1).then_some(lanes as u32 * ty.bytes()));
            into.push(Variable { is_extern, space, align, ty, name, count, init, note: None });
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b';')?;
        let note = self.trailing_note();
        if let Some(last) = into.last_mut() {
            last.note = note;
        }
        Ok((names, lanes as u32 * ty.bytes()))
    }

    /// `[12]`, `[]`, `[4][3]`, or nothing.
    fn dimensions(&mut self) -> Result<Vec<u64>> {
        let mut extents = Vec::new();
        while self.eat(b'[')? {
            if extents.len() == MAX_NESTING {
                return Err(self.error(&format!("more than {MAX_NESTING} extents")));
            }
            extents.push(if self.token.kind == TokenKind::Number { self.integer()? } else { 0 });
            self.expect_punct(b']')?;
        }
        Ok(extents)
    }

    /// Their product; `None` for a scalar.
    fn elements_of(&self, extents: &[u64]) -> Result<Option<u64>> {
        let mut count = None;
        for extent in extents {
            let total = count.unwrap_or(1u64).checked_mul(*extent).filter(|total| *total <= 1 << 40);
            count = Some(total.ok_or_else(|| self.error("the array is too large"))?);
        }
        Ok(count)
    }

    fn skip_line(&mut self) -> Result<()> {
        let line = self.token.position.line;
        while self.token.position.line == line && self.token.kind != TokenKind::End {
            self.next()?;
        }
        Ok(())
    }

    fn skip_section(&mut self) -> Result<()> {
        while self.token.kind != TokenKind::Punct(b'}') {
            if self.token.kind == TokenKind::End {
                return Err(self.unexpected("`}`"));
            }
            self.next()?;
        }
        self.next().map(drop)
    }
}

/// Tokens, errors and comments.
impl<'a> Parser<'a> {
    fn next(&mut self) -> Result<Token<'a>> {
        let token = self.token;
        self.line = token.position.line;
        self.token = self.lexer.token().map_err(lexical)?;
        Ok(token)
    }

    fn error_at(&self, position: Position, message: String) -> ParseError {
        ParseError { line: position.line, column: position.column, message }
    }

    fn error(&self, message: &str) -> ParseError {
        self.error_at(self.token.position, message.to_owned())
    }

    fn unexpected(&self, wanted: &str) -> ParseError {
        match self.token.kind {
            TokenKind::End => self.error(&format!("expected {wanted}, found the end of the text")),
            _ => self.error(&format!("expected {wanted}, found `{}`", shortened(self.token.text))),
        }
    }

    fn expect(&mut self, kind: TokenKind, wanted: &str) -> Result<Token<'a>> {
        if self.token.kind == kind { self.next() } else { Err(self.unexpected(wanted)) }
    }

    fn expect_directive(&mut self, text: &str) -> Result<()> {
        if self.eat_directive(text)? { Ok(()) } else { Err(self.unexpected(&format!("`{text}`"))) }
    }

    fn expect_punct(&mut self, punct: u8) -> Result<()> {
        if self.eat(punct)? { Ok(()) } else { Err(self.unexpected(&format!("`{}`", char::from(punct)))) }
    }

    fn eat(&mut self, punct: u8) -> Result<bool> {
        let found = self.token.kind == TokenKind::Punct(punct);
        if found {
            self.next()?;
        }
        Ok(found)
    }

    fn eat_directive(&mut self, text: &str) -> Result<bool> {
        let found = self.token.kind == TokenKind::Directive && self.token.text == text;
        if found {
            self.next()?;
        }
        Ok(found)
    }

    /// An unsigned integer of a declaration.
    fn integer(&mut self) -> Result<u64> {
        let error = self.unexpected("an integer");
        let token = self.expect(TokenKind::Number, "an integer")?;
        operand::integer(token.text).ok_or(error)
    }

    fn integer_u32(&mut self) -> Result<u32> {
        let error = self.error("the number does not fit 32 bits");
        u32::try_from(self.integer()?).map_err(|_| error)
    }

    fn count_statement(&mut self) -> Result<()> {
        self.statements += 1;
        if self.statements > MAX_STATEMENTS {
            return Err(self.error(&format!("more than {MAX_STATEMENTS} statements")));
        }
        Ok(())
    }

    /// Takes all pending comments, as lines.
    fn comment_lines(&mut self) -> Vec<String> {
        self.lexer.comments.drain(..).map(|comment| comment_text(&comment).to_owned()).collect()
    }

    /// Takes the comment that follows the newest consumed token on its line.
    fn trailing_comment(&mut self) -> Option<Comment<'a>> {
        let line = self.line;
        let index = self.lexer.comments.iter().position(|comment| comment.trailing && comment.line == line)?;
        Some(self.lexer.comments.remove(index))
    }

    /// Takes the note that follows the newest consumed token; any other comment there stays.
    fn trailing_note(&mut self) -> Option<Note> {
        let line = self.line;
        let index = self.lexer.comments.iter().position(|comment| {
            comment.trailing
                && comment.line == line
                && comment.kind == CommentKind::Line
                && comment.text.starts_with('@')
        })?;
        let comment = self.lexer.comments.remove(index);
        Some(self.notes.entry(comment.text).or_insert_with(|| note(comment.text)).clone())
    }
}

fn lexical(error: LexError) -> ParseError {
    ParseError { line: error.position.line, column: error.position.column, message: error.message }
}

/// A note from the text after `//`: `@ clause: what`.
fn note(text: &str) -> Note {
    let text = text.strip_prefix('@').unwrap_or(text);
    let text = text.strip_prefix(' ').unwrap_or(text);
    let (clause, what) = text.split_once(": ").unwrap_or((text, ""));
    Note::new(clause, what)
}

fn comment_text<'a>(comment: &Comment<'a>) -> &'a str {
    comment.text.strip_prefix(' ').unwrap_or(comment.text)
}

fn space(directive: &str) -> Option<Space> {
    directive.strip_prefix('.').filter(|name| !name.is_empty()).and_then(Space::from_name)
}

fn type_word(directive: &str) -> Option<Type> {
    directive.strip_prefix('.').and_then(Type::from_name)
}

fn no_type(text: &str) -> String {
    format!("expected a type, found `{}`", shortened(text))
}

/// Text shortened for an error message: hostile names may be megabytes long.
fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
