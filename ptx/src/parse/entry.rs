//! Entries: parameters, directives, declarations and statements.

use super::scope::{Names, Refused};
use super::{MAX_NESTING, Parser, Result, comment_text, no_type, shortened, space, type_word};
use crate::instruction::{Guard, Instruction};
use crate::lexer::{Comment, Token, TokenKind};
use crate::mnemonic;
use crate::module::{Directive, Entry, Param, RegisterFamily, Statement, Variable};
use crate::types::Type;

/// A body while it is being read.
pub(super) struct Body<'a> {
    pub(super) names: Names<'a>,
    pub(super) variables: Vec<Variable>,
    pub(super) statements: Vec<Statement>,
    pub(super) lines: Vec<u32>,
}

impl Body<'_> {
    pub(super) fn new() -> Self {
        Body { names: Names::new(), variables: Vec::new(), statements: Vec::new(), lines: Vec::new() }
    }

    pub(super) fn push(&mut self, statement: Statement, line: u32) {
        self.statements.push(statement);
        self.lines.push(line);
    }
}

impl<'a> Parser<'a> {
    /// An entry from `.entry` on, and the lines of its statements.
    pub(super) fn entry(&mut self) -> Result<(Entry, Vec<u32>)> {
        self.expect_directive(".entry")?;
        let name = self.expect(TokenKind::Word, "the entry's name")?.text.to_owned();
        let mut body = Body::new();
        let params = self.params(&mut body)?;
        let directives = self.directives()?;
        if self.eat(b';')? {
            return Err(self.error("an entry needs a body"));
        }
        self.expect_punct(b'{')?;
        self.body(&mut body)?;
        let Body { names, variables, statements, lines } = body;
        Ok((Entry { name, params, directives, registers: names.registers, variables, body: statements }, lines))
    }

    pub(super) fn params(&mut self, body: &mut Body<'a>) -> Result<Vec<Param>> {
        let mut params = Vec::new();
        if !self.eat(b'(')? || self.eat(b')')? {
            return Ok(params);
        }
        loop {
            self.count_statement()?;
            let mut param = self.param(body)?;
            let more = self.eat(b',')?;
            param.comment = self.trailing_comment().map(|comment| comment_text(&comment).to_owned());
            params.push(param);
            if !more {
                break;
            }
        }
        self.expect_punct(b')')?;
        Ok(params)
    }

    pub(super) fn param(&mut self, body: &mut Body<'a>) -> Result<Param> {
        self.expect_directive(".param")?;
        let (mut align, mut ty, mut pointer) = (None, None, false);
        while self.token.kind == TokenKind::Directive {
            let directive = self.next()?;
            match directive.text {
                ".ptr" => pointer = true,
                ".align" => {
                    let bytes = self.integer_u32()?;
                    // After `.ptr` the alignment is a hint about the pointee.
                    align = if pointer { align } else { Some(bytes) };
                }
                text if pointer && space(text).is_some() => {}
                text => {
                    let found = type_word(text).ok_or_else(|| self.error_at(directive.position, no_type(text)))?;
                    ty = Some(found);
                }
            }
        }
        let ty = ty.ok_or_else(|| self.unexpected("a type"))?;
        let name = self.expect(TokenKind::Word, "a parameter's name")?;
        let extents = self.dimensions()?;
        let count = self.elements_of(&extents)?;
        if count == Some(0) {
            return Err(self.error("a parameter of an entry has an extent"));
        }
        let declared = body.names.symbol(name.text, ty.bytes());
        let name = declared.ok_or_else(|| self.error_at(name.position, declared_twice(name.text)))?;
        Ok(Param { ty, align, name, count, comment: None })
    }

    /// Performance directives between the parameters and the body.
    pub(super) fn directives(&mut self) -> Result<Vec<Directive>> {
        let mut directives = Vec::new();
        while self.token.kind == TokenKind::Directive {
            self.count_statement()?;
            let word = self.next()?.text;
            directives.push(match word {
                ".reqntid" => Directive::Reqntid(self.extents()?),
                ".maxntid" => Directive::Maxntid(self.extents()?),
                ".reqnctapercluster" => Directive::ReqNctaPerCluster(self.extents()?),
                ".maxclusterrank" => Directive::MaxClusterRank(self.integer_u32()?),
                ".explicitcluster" => Directive::ExplicitCluster,
                ".minnctapersm" => Directive::MinNctaPerSm(self.integer_u32()?),
                ".maxnreg" => Directive::MaxNreg(self.integer_u32()?),
                word => Directive::Other(self.other_directive(word)?),
            });
        }
        Ok(directives)
    }

    fn extents(&mut self) -> Result<Vec<u32>> {
        let mut extents = vec![self.integer_u32()?];
        while self.eat(b',')? {
            if extents.len() == 3 {
                return Err(self.error("more than three extents"));
            }
            extents.push(self.integer_u32()?);
        }
        Ok(extents)
    }

    /// Any other directive with its numbers and strings, in a normalised spelling.
    fn other_directive(&mut self, word: &str) -> Result<String> {
        let mut text = word.to_owned();
        loop {
            match self.token.kind {
                TokenKind::Number => {
                    text.push(' ');
                    text.push_str(self.token.text);
                }
                TokenKind::Text => {
                    text.push_str(" \"");
                    text.push_str(self.token.text);
                    text.push('"');
                }
                TokenKind::Punct(b',') => text.push(','),
                TokenKind::Punct(b';') if word == ".pragma" => text.push(';'),
                _ => return Ok(text),
            }
            self.next()?;
        }
    }

    /// Statements up to the brace that closes the entry.
    pub(super) fn body(&mut self, body: &mut Body<'a>) -> Result<()> {
        loop {
            self.comments_into(body)?;
            let token = self.token;
            match (token.kind, token.text) {
                (TokenKind::End, _) => return Err(self.unexpected("`}`")),
                (TokenKind::Punct(b'}'), _) => {
                    self.next()?;
                    if body.names.depth() == 1 {
                        return Ok(());
                    }
                    body.names.close(&mut body.statements);
                }
                (TokenKind::Punct(b'{'), _) => {
                    if body.names.depth() > MAX_NESTING {
                        return Err(self.error(&format!("scopes nest deeper than {MAX_NESTING}")));
                    }
                    self.next()?;
                    body.names.open(body.statements.len());
                }
                (TokenKind::Punct(b';'), _) => drop(self.next()?),
                (TokenKind::Directive, ".loc" | ".file") => self.skip_line()?,
                (TokenKind::Directive, _) => self.declaration(body)?,
                (TokenKind::Punct(b'@') | TokenKind::Word, _) => self.statement(body)?,
                _ => return Err(self.unexpected("a statement")),
            }
        }
    }

    fn declaration(&mut self, body: &mut Body<'a>) -> Result<()> {
        match self.token.text {
            ".reg" => self.registers(body),
            ".pragma" => self.pragma(body),
            text if text == ".extern" || space(text).is_some() => {
                let linkage = self.linkage()?;
                let first = body.variables.len();
                let (names, element) = self.variables(linkage, &mut body.variables)?;
                for (name, variable) in names.into_iter().zip(&mut body.variables[first..]) {
                    let declared = body.names.symbol(name.text, element);
                    variable.name = declared.ok_or_else(|| self.error_at(name.position, declared_twice(name.text)))?;
                }
                Ok(())
            }
            text => Err(self.error(&format!("`{}` is not supported in a body", shortened(text)))),
        }
    }

    /// `.reg .b32 %r<10>, %x;`
    fn registers(&mut self, body: &mut Body<'a>) -> Result<()> {
        self.next()?;
        let lanes = self.lanes()?;
        let directive = self.expect(TokenKind::Directive, "a type")?;
        let ty = type_word(directive.text).ok_or_else(|| self.error_at(directive.position, no_type(directive.text)))?;
        loop {
            self.count_statement()?;
            let name = self.expect(TokenKind::Word, "a register's name")?;
            let mut count = None;
            if self.eat(b'<')? {
                count = Some(self.integer_u32()?);
                self.expect_punct(b'>')?;
            }
            self.declare_registers(body, name, lanes, ty, count)?;
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b';')?;
        let comment = self.trailing_comment().map(|comment| comment_text(&comment).to_owned());
        if let Some(family) = body.names.registers.last_mut() {
            family.comment = comment;
        }
        Ok(())
    }

    /// `.v2`, `.v4` or nothing.
    pub(super) fn lanes(&mut self) -> Result<u16> {
        let lanes = match self.token.text {
            ".v2" => 2,
            ".v4" => 4,
            _ => return Ok(1),
        };
        self.next()?;
        Ok(lanes)
    }

    /// Declares a register, a vector of them, or a family.
    pub(super) fn declare_registers(
        &mut self,
        body: &mut Body<'a>,
        name: Token<'a>,
        lanes: u16,
        ty: Type,
        count: Option<u32>,
    ) -> Result<()> {
        let family = RegisterFamily { ty, prefix: name.text.to_owned(), count, comment: None };
        let declared = match lanes {
            1 => body.names.register(name.text, family),
            _ if ty == Type::Pred || u32::from(lanes) * ty.bytes() > 16 => {
                let message = format!("{lanes} .{} registers do not make a vector of at most 16 bytes", ty.name());
                return Err(self.error_at(name.position, message));
            }
            lanes => body.names.vectors(name.text, lanes, &family),
        };
        declared.map_err(|refused| {
            let message = match refused {
                Refused::Twice => declared_twice(name.text),
                Refused::TooMany => "more than 65536 register families".to_owned(),
            };
            self.error_at(name.position, message)
        })
    }

    /// `.pragma "nounroll";`; each string becomes a statement.
    fn pragma(&mut self, body: &mut Body<'a>) -> Result<()> {
        let line = self.token.position.line;
        self.next()?;
        loop {
            self.count_statement()?;
            let text = self.expect(TokenKind::Text, "a string")?.text;
            body.push(Statement::Pragma(text.to_owned()), line);
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b';')
    }

    /// A label or an instruction.
    fn statement(&mut self, body: &mut Body<'a>) -> Result<()> {
        self.count_statement()?;
        let line = self.token.position.line;
        let guard = self.guard(body)?;
        let word = self.expect(TokenKind::Word, "an instruction")?;
        if guard.is_none() && self.eat(b':')? {
            if self.prototype()? {
                return Ok(());
            }
            body.names.label(word.text);
            if self.eat_directive(".branchtargets")? {
                let labels = self.targets()?;
                body.push(Statement::Targets { name: word.text.to_owned(), labels }, line);
                return Ok(());
            }
            body.push(Statement::Label(word.text.to_owned()), line);
            return Ok(());
        }
        if self.version < (7, 8) && (word.text.starts_with("bar.cta.") || word.text.starts_with("barrier.cta.")) {
            return Err(self.error_at(word.position, format!("`{}` needs .version 7.8", shortened(word.text))));
        }
        if is_call(word.text) {
            return self.call(guard, word.text, line, body);
        }
        let (op, operands) = if self.token.kind == TokenKind::Directive {
            // White space, even a line end, may separate modifiers from their mnemonic.
            let mut mnemonic = word.text.to_owned();
            while self.token.kind == TokenKind::Directive {
                mnemonic.push_str(self.next()?.text);
            }
            if self.vector_move(guard, &mnemonic, line, body)? {
                return Ok(());
            }
            let op = mnemonic::read(&mnemonic);
            let operands = self.operands(&op, &mnemonic, &body.names)?;
            (op, operands)
        } else if word.text.starts_with("mov.v") && self.vector_move(guard, word.text, line, body)? {
            return Ok(());
        } else {
            let op = self.opcodes.entry(word.text).or_insert_with(|| mnemonic::read(word.text)).clone();
            let operands = self.operands(&op, word.text, &body.names)?;
            (op, operands)
        };
        let note = self.trailing_note();
        // A plain comment after or inside an instruction moves to a line of its own before it.
        self.inner_comments_into(body)?;
        body.push(Statement::Instruction(Instruction { guard, op, operands, note }), line);
        Ok(())
    }

    /// The labels of a list, up to the semicolon, which is consumed.
    fn targets(&mut self) -> Result<Vec<String>> {
        let mut labels = Vec::new();
        loop {
            self.count_statement()?;
            labels.push(self.expect(TokenKind::Word, "a label")?.text.to_owned());
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b';')?;
        Ok(labels)
    }

    fn guard(&mut self, body: &Body<'a>) -> Result<Option<Guard>> {
        if !self.eat(b'@')? {
            return Ok(None);
        }
        let negated = self.eat(b'!')?;
        Ok(Some(Guard { pred: self.register(&body.names)?, negated }))
    }

    /// Moves all pending comments into the body, as statements.
    fn comments_into(&mut self, body: &mut Body<'a>) -> Result<()> {
        let waiting = self.lexer.comments.len();
        self.take_comments(waiting, body)
    }

    /// Moves the comments up to the newest consumed token's line into the body.
    fn inner_comments_into(&mut self, body: &mut Body<'a>) -> Result<()> {
        let last = self.line;
        let count = self.lexer.comments.iter().take_while(|c| c.line < last || (c.line == last && c.trailing)).count();
        self.take_comments(count, body)
    }

    fn take_comments(&mut self, count: usize, body: &mut Body<'a>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        for _ in 0..count {
            self.count_statement()?;
        }
        let comments: Vec<Comment<'a>> = self.lexer.comments.drain(..count).collect();
        for comment in comments {
            body.push(Statement::Comment(comment_text(&comment).to_owned()), comment.line);
        }
        Ok(())
    }
}

/// Whether a mnemonic is a call.
pub(super) fn is_call(word: &str) -> bool {
    word == "call" || word.starts_with("call.")
}

fn declared_twice(name: &str) -> String {
    format!("`{}` is declared twice", shortened(name))
}
