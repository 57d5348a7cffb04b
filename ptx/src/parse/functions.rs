//! Functions, which a module cannot represent: each becomes part of the entries that call it.
//!
//! A function is inlined at every call ([`inline`]), unless calls may come back to a function that is still active, as in
//! recursion. Then it exists once, and calls of it use a stack in local memory ([`frames`]). A function without a body is
//! not inlined: the call stays an unknown instruction that names it, with the places of its results and arguments if it
//! is one of CUDA's ([`is_system`]).
//!
//! The address of a function is a number that this module chooses. A call by address compares the register with the
//! addresses of all functions that have the call's numbers of parameters and results, whatever the prototype or the
//! list of targets names, and calls the function that matches.

mod frames;
mod inline;
mod inliner;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

pub use self::frames::DEEPER;
pub(super) use self::inline::inline;
use super::entry::{Body, is_call};
use super::{Parser, Result, type_word};
use crate::instruction::{Guard, Instruction, Opcode, Operand, Reg};
use crate::lexer::TokenKind;
use crate::module::{RegisterFamily, Statement, Variable};
use crate::types::Type;

/// Address of the first function, and the distance to the next: values that a program does not compute by accident.
const FIRST_ADDRESS: i64 = 0x0F00_0000_0000;
const ADDRESSES_APART: i64 = 128;

/// A function with its body.
pub(super) struct Function {
    /// The results, then the parameters.
    interface: Vec<Formal>,
    results: usize,
    registers: Vec<RegisterFamily>,
    variables: Vec<Variable>,
    body: Vec<Statement>,
    lines: Vec<u32>,
}

/// A parameter or result.
pub(super) struct Formal {
    name: String,
    ty: Type,
    place: Place,
}

/// Where a parameter or result is.
enum Place {
    /// `.param`: in memory.
    Memory { bytes: u64, align: u32 },
    /// `.reg`: in a register, or in those of a vector.
    Registers(Vec<Reg>),
}

/// The functions of a module.
#[derive(Default)]
pub(super) struct Functions<'a> {
    /// Those with a body.
    defined: HashMap<&'a str, Rc<Function>>,
    /// Addresses of all.
    pub(super) addresses: HashMap<&'a str, i64>,
    aliases: Vec<(&'a str, &'a str)>,
    /// Those that have a frame: calls may come back to them while they are active.
    framed: HashSet<&'a str>,
}

/// Whether calls of a function without a body keep their operands: `vprintf` and what a failed assertion calls.
fn is_system(name: &str) -> bool {
    matches!(name, "vprintf" | "__assertfail")
}

impl<'a> Parser<'a> {
    /// A function, from `.func` on; of a declaration without a body, only the address counts.
    pub(super) fn function(&mut self) -> Result<()> {
        self.expect_directive(".func")?;
        let mut body = Body::new();
        let mut interface = Vec::new();
        if self.token.kind == TokenKind::Punct(b'(') {
            self.formals(&mut body, &mut interface)?;
        }
        let results = interface.len();
        let name = self.expect(TokenKind::Word, "the function's name")?.text;
        let next = FIRST_ADDRESS + ADDRESSES_APART * self.functions.addresses.len() as i64;
        self.functions.addresses.entry(name).or_insert(next);
        self.formals(&mut body, &mut interface)?;
        self.directives()?;
        if self.eat(b';')? {
            return Ok(());
        }
        self.expect_punct(b'{')?;
        self.body(&mut body)?;
        let Body { names, variables, statements, lines } = body;
        let registers = names.registers;
        let function = Function { interface, results, registers, variables, body: statements, lines };
        self.functions.defined.insert(name, Rc::new(function));
        Ok(())
    }

    /// Parameters or results in parentheses, if there are any.
    fn formals(&mut self, body: &mut Body<'a>, formals: &mut Vec<Formal>) -> Result<()> {
        if !self.eat(b'(')? || self.eat(b')')? {
            return Ok(());
        }
        loop {
            self.count_statement()?;
            formals.push(if self.eat_directive(".reg")? {
                self.register_formal(body)?
            } else {
                self.param_formal(body)?
            });
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b')')
    }

    fn param_formal(&mut self, body: &mut Body<'a>) -> Result<Formal> {
        let param = self.param(body)?;
        let bytes = u64::from(param.ty.bytes()).saturating_mul(param.count.unwrap_or(1));
        let align = param.align.unwrap_or(param.ty.bytes()).max(1);
        Ok(Formal { name: param.name, ty: param.ty, place: Place::Memory { bytes, align } })
    }

    fn register_formal(&mut self, body: &mut Body<'a>) -> Result<Formal> {
        let lanes = self.lanes()?;
        let directive = self.expect(TokenKind::Directive, "a type")?;
        let ty = type_word(directive.text);
        let ty = ty.ok_or_else(|| self.error_at(directive.position, super::no_type(directive.text)))?;
        let name = self.expect(TokenKind::Word, "a register's name")?;
        self.declare_registers(body, name, lanes, ty, None)?;
        let vector = body.names.find_vector(name.text).map(Iterator::collect);
        let registers = vector.unwrap_or_else(|| body.names.find_register(name.text).into_iter().collect());
        Ok(Formal { name: name.text.to_owned(), ty, place: Place::Registers(registers) })
    }

    /// `.alias name, function;`
    pub(super) fn alias(&mut self) -> Result<()> {
        self.expect_directive(".alias")?;
        self.count_statement()?;
        let alias = self.expect(TokenKind::Word, "a function's name")?;
        self.expect_punct(b',')?;
        let function = self.expect(TokenKind::Word, "a function's name")?;
        self.expect_punct(b';')?;
        for name in [alias, function] {
            if !self.functions.addresses.contains_key(name.text) {
                let message = format!("the function `{}` is not declared", super::shortened(name.text));
                return Err(self.error_at(name.position, message));
            }
        }
        self.functions.aliases.push((alias.text, function.text));
        Ok(())
    }

    /// `call.uni (results), function, (arguments);` becomes an unknown instruction. Its operands are the function's
    /// name, or the register with its address, and the results and the arguments: names of variables, registers, or
    /// numbers.
    pub(super) fn call(&mut self, guard: Option<Guard>, word: &str, line: u32, body: &mut Body<'a>) -> Result<()> {
        let mut mnemonic = word.to_owned();
        while self.token.kind == TokenKind::Directive {
            mnemonic.push_str(self.next()?.text);
        }
        let op = Opcode::Unknown(mnemonic);
        let mut operands = Vec::new();
        if self.token.kind == TokenKind::Punct(b'(') {
            self.actuals(&op, body, &mut operands, Actuals::Results)?;
            self.expect_punct(b',')?;
        }
        let name = self.expect(TokenKind::Word, "a function's name")?;
        let symbol = || Operand::Symbol(Box::new(name.text.to_owned()));
        operands.insert(0, body.names.find_register(name.text).map_or_else(symbol, Operand::Reg));
        while self.eat(b',')? {
            match self.token.kind {
                TokenKind::Punct(b'(') => self.actuals(&op, body, &mut operands, Actuals::Arguments)?,
                // The prototype of a call by address, or its list of functions.
                TokenKind::Word if body.names.find_register(self.token.text).is_none() => drop(self.next()?),
                // As the printer writes the operands.
                _ => operands.push(self.operand(&op, &body.names)?),
            }
        }
        self.expect_punct(b';')?;
        let note = self.trailing_note();
        body.push(Statement::Instruction(Instruction { guard, op, operands, note }), line);
        Ok(())
    }

    /// Skips a `.callprototype` or `.calltargets`, including its semicolon: the address alone says which function is
    /// called. Returns whether there was one.
    pub(super) fn prototype(&mut self) -> Result<bool> {
        if !self.eat_directive(".callprototype")? && !self.eat_directive(".calltargets")? {
            return Ok(false);
        }
        while !self.eat(b';')? {
            if self.token.kind == TokenKind::End {
                return Err(self.unexpected("`;`"));
            }
            self.next()?;
        }
        Ok(true)
    }

    fn actuals(&mut self, op: &Opcode, body: &Body<'a>, operands: &mut Vec<Operand>, which: Actuals) -> Result<()> {
        self.expect_punct(b'(')?;
        while self.token.kind != TokenKind::Punct(b')') {
            let error = self.unexpected("the name of a parameter");
            let operand = self.operand(op, &body.names)?;
            let fits = match &operand {
                Operand::Reg(_) | Operand::Sink | Operand::Vector(_) | Operand::Symbol(_) | Operand::Label(_) => true,
                Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => which == Actuals::Arguments,
                _ => false,
            };
            // A name that is not declared is as good as one of a variable: the call may never be reached.
            operands.push(match operand {
                Operand::Label(name) => Operand::Symbol(name),
                operand if fits => operand,
                _ => return Err(error),
            });
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b')')
    }
}

/// The side of a call that a list belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Actuals {
    Results,
    Arguments,
}

impl<'a> Functions<'a> {
    /// Resolves the aliases, and finds the functions that need a frame: those from which calls may come back.
    pub(super) fn complete(&mut self) {
        for (alias, function) in std::mem::take(&mut self.aliases) {
            if let (Some(body), Some(address)) = (self.defined.get(function).cloned(), self.addresses.get(function)) {
                let address = *address;
                self.defined.insert(alias, body);
                self.addresses.insert(alias, address);
            }
        }
        // Functions are removed when all that they call are. What stays reaches a cycle.
        let mut callers: HashMap<Callee<'_>, Vec<Callee<'a>>> = HashMap::new();
        let mut waiting: HashMap<Callee<'a>, usize> = HashMap::new();
        for (name, function) in &self.defined {
            let caller = Callee::Named(name);
            // A call by address with as many operands may be a call of this function.
            callers.entry(caller).or_default().push(Callee::Address(function.interface.len()));
            *waiting.entry(Callee::Address(function.interface.len())).or_default() += 1;
            waiting.entry(caller).or_default();
            for statement in &function.body {
                let callee = match (target(statement), statement) {
                    (Some(Operand::Symbol(name)), _) => match self.defined.get_key_value(name.as_str()) {
                        Some((name, _)) => Callee::Named(name),
                        None => continue,
                    },
                    (Some(_), Statement::Instruction(call)) => Callee::Address(call.operands.len() - 1),
                    _ => continue,
                };
                callers.entry(callee).or_default().push(caller);
                *waiting.entry(caller).or_default() += 1;
                waiting.entry(callee).or_default();
            }
        }
        let mut ready: Vec<Callee<'a>> =
            waiting.iter().filter(|(_, count)| **count == 0).map(|(callee, _)| *callee).collect();
        while let Some(done) = ready.pop() {
            for caller in callers.remove(&done).unwrap_or_default() {
                let count = waiting.entry(caller).or_default();
                *count -= 1;
                if *count == 0 {
                    ready.push(caller);
                }
            }
        }
        let left = waiting.into_iter().filter(|(_, count)| *count > 0);
        self.framed = left.filter_map(|(callee, _)| callee.name()).collect();
    }
}

/// What may be called: a function, or any with this number of parameters and results.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Callee<'a> {
    Named(&'a str),
    Address(usize),
}

impl<'a> Callee<'a> {
    fn name(self) -> Option<&'a str> {
        match self {
            Callee::Named(name) => Some(name),
            Callee::Address(_) => None,
        }
    }
}

/// What a statement calls, if it is a call: a function's name, or a register.
fn target(statement: &Statement) -> Option<&Operand> {
    match statement {
        Statement::Instruction(Instruction { op: Opcode::Unknown(word), operands, .. }) if is_call(word) => {
            operands.first()
        }
        _ => None,
    }
}
