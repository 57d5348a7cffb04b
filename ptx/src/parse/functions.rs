//! Inlines functions, which a module cannot represent: each becomes part of the entries that call it, at every call.
//!
//! Parameters and results of a call are variables in local memory, under names that caller and callee share. The
//! registers and variables of a function exist once per entry, since two calls of it are never active at the same time;
//! its labels exist once per call. A function that calls itself, or that has no body, is not inlined: the call stays an
//! unknown instruction that names it.
//!
//! The address of a function is a number that this module chooses. A call by address compares the register with the
//! addresses of all functions that have the call's numbers of parameters and results, whatever the prototype or the
//! list of targets names, and calls the function that matches.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::entry::{Body, is_call};
use super::{MAX_NESTING, Parser, Result};
use crate::instruction::{Base, Compare, Guard, Instruction, Opcode, Operand, Reg};
use crate::lexer::TokenKind;
use crate::module::{Entry, RegisterFamily, Statement, Variable};
use crate::types::{Space, Type};

/// Address of the first function, and the distance to the next: values that a program does not compute by accident.
const FIRST_ADDRESS: i64 = 0x0F00_0000_0000;
const ADDRESSES_APART: i64 = 128;

/// Most statements, labels and parameters that inlining may add to one text.
pub const MAX_INLINED: usize = 1 << 20;

const TOO_MANY: &str = "more than 65536 register families";

/// A function with its body.
pub(super) struct Function {
    address: i64,
    /// Names of the results, then of the parameters.
    interface: Vec<String>,
    registers: Vec<RegisterFamily>,
    variables: Vec<Variable>,
    body: Vec<Statement>,
    lines: Vec<u32>,
}

impl<'a> Parser<'a> {
    /// A function, from `.func` on; a declaration without a body is ignored.
    pub(super) fn function(&mut self) -> Result<()> {
        self.expect_directive(".func")?;
        let mut body = Body::new();
        let mut interface = Vec::new();
        if self.token.kind == TokenKind::Punct(b'(') {
            interface.extend(self.params(&mut body)?.into_iter().map(|param| param.name));
        }
        let name = self.expect(TokenKind::Word, "the function's name")?.text;
        let next = FIRST_ADDRESS + ADDRESSES_APART * self.addresses.len() as i64;
        let address = *self.addresses.entry(name).or_insert(next);
        interface.extend(self.params(&mut body)?.into_iter().map(|param| param.name));
        self.directives()?;
        if self.eat(b';')? {
            return Ok(());
        }
        self.expect_punct(b'{')?;
        self.body(&mut body)?;
        let Body { names, variables, statements, lines } = body;
        let registers = names.registers;
        self.functions.insert(name, Function { address, interface, registers, variables, body: statements, lines });
        Ok(())
    }

    /// `call.uni (results), function, (arguments);` becomes an unknown instruction. Its operands are the function's
    /// name, or the register with its address, and the names of the variables for the results and the arguments.
    pub(super) fn call(&mut self, guard: Option<Guard>, word: &str, line: u32, body: &mut Body<'a>) -> Result<()> {
        let mut mnemonic = word.to_owned();
        while self.token.kind == TokenKind::Directive {
            mnemonic.push_str(self.next()?.text);
        }
        let mut operands = Vec::new();
        if self.token.kind == TokenKind::Punct(b'(') {
            self.call_names(body, &mut operands)?;
            self.expect_punct(b',')?;
        }
        let name = self.expect(TokenKind::Word, "a function's name")?;
        let symbol = || Operand::Symbol(Box::new(name.text.to_owned()));
        operands.insert(0, body.names.find_register(name.text).map_or_else(symbol, Operand::Reg));
        while self.eat(b',')? {
            if self.token.kind == TokenKind::Punct(b'(') {
                self.call_names(body, &mut operands)?;
            } else {
                // The prototype of a call by address, or its list of functions.
                self.expect(TokenKind::Word, "a prototype")?;
            }
        }
        self.expect_punct(b';')?;
        let note = self.trailing_note();
        let op = Opcode::Unknown(mnemonic);
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

    fn call_names(&mut self, body: &Body<'a>, operands: &mut Vec<Operand>) -> Result<()> {
        self.expect_punct(b'(')?;
        while self.token.kind != TokenKind::Punct(b')') {
            let name = self.expect(TokenKind::Word, "the name of a parameter")?;
            let flat = body.names.find_symbol(name.text).unwrap_or(name.text);
            operands.push(Operand::Symbol(Box::new(flat.to_owned())));
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b')')
    }
}

/// Inlines the calls of an entry. `added` counts the statements that calls have added to the text so far.
pub(super) fn inline(
    entry: &mut Entry,
    lines: &mut Vec<u32>,
    functions: &HashMap<&str, Function>,
    added: &mut usize,
) -> std::result::Result<(), String> {
    if !entry.body.iter().any(|statement| target(statement).is_some()) {
        return Ok(());
    }
    let names = entry.params.iter().map(|param| &param.name).chain(entry.variables.iter().map(|one| &one.name));
    let labels = entry.body.iter().filter_map(|statement| match statement {
        Statement::Label(name) | Statement::Targets { name, .. } => Some(name),
        _ => None,
    });
    let prefixes = entry.registers.iter().map(|family| &family.prefix);
    let mut inliner = Inliner {
        functions,
        taken: names.chain(labels).chain(prefixes).cloned().collect(),
        registers: std::mem::take(&mut entry.registers),
        variables: std::mem::take(&mut entry.variables),
        placed: HashMap::new(),
        under_way: Vec::new(),
        added,
        fresh: 0,
        body: Vec::new(),
        lines: Vec::new(),
    };
    let mut symbols = HashMap::new();
    for variable in inliner.variables.iter_mut().filter(|variable| variable.space == Space::Param) {
        variable.space = Space::Local;
        symbols.insert(variable.name.clone(), variable.name.clone());
    }
    let frame = Frame { own: Rc::new(symbols), ..Frame::default() };
    inliner.copy(&entry.body, lines, &frame)?;
    (entry.registers, entry.variables) = (inliner.registers, inliner.variables);
    (entry.body, *lines) = (inliner.body, inliner.lines);
    Ok(())
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

/// The function that a statement calls by its name.
fn callee(statement: &Statement) -> Option<&str> {
    match target(statement) {
        Some(Operand::Symbol(name)) => Some(name),
        _ => None,
    }
}

/// What a statement counts towards [`MAX_INLINED`].
fn weight(statement: &Statement) -> usize {
    match statement {
        Statement::Targets { labels, .. } => 1 + labels.len(),
        _ => 1,
    }
}

/// Names of a body, and their names in the entry.
type Names = Rc<HashMap<String, String>>;

/// How the names of one body become names of the entry, for one call of it.
#[derive(Clone, Default)]
struct Frame {
    /// Number of the body's first register family.
    families: u16,
    /// Its variables.
    own: Names,
    /// Its parameters and results, which are variables of the caller.
    interface: HashMap<String, String>,
    labels: HashMap<String, String>,
    /// The label that `ret` branches to; `None` if it leaves the entry.
    end: Option<String>,
}

struct Inliner<'f> {
    functions: &'f HashMap<&'f str, Function>,
    taken: HashSet<String>,
    registers: Vec<RegisterFamily>,
    variables: Vec<Variable>,
    /// The registers and variables of each function that was called so far.
    placed: HashMap<&'f str, (u16, Names)>,
    under_way: Vec<&'f str>,
    added: &'f mut usize,
    fresh: usize,
    body: Vec<Statement>,
    lines: Vec<u32>,
}

impl<'f> Inliner<'f> {
    fn fresh(&mut self, name: &str) -> String {
        loop {
            self.fresh += 1;
            // The last character is not a digit, so that the name cannot run into the number of a family's register.
            let fresh = format!("{name}_f{}_", self.fresh);
            if self.taken.insert(fresh.clone()) {
                return fresh;
            }
        }
    }

    fn push(&mut self, statement: Statement, line: u32) {
        self.body.push(statement);
        self.lines.push(line);
    }

    fn copy(&mut self, body: &[Statement], lines: &[u32], frame: &Frame) -> std::result::Result<(), String> {
        for (statement, &line) in body.iter().zip(lines) {
            let known = callee(statement).and_then(|name| self.functions.get_key_value(name));
            match (statement, known) {
                (Statement::Instruction(call), Some((name, function)))
                    if !self.under_way.contains(name) && call.operands.len() == function.interface.len() + 1 =>
                {
                    self.call(name, function, call, line, frame)?;
                }
                (Statement::Instruction(call), _) if matches!(target(statement), Some(Operand::Reg(_))) => {
                    self.call_by_address(call, line, frame)?;
                }
                (Statement::Instruction(instruction), _) => {
                    let mut instruction = frame.instruction(instruction);
                    if target(statement).is_some() {
                        instruction.operands.truncate(1);
                    }
                    if let (Opcode::Ret, Some(end)) = (&instruction.op, &frame.end) {
                        instruction.op = Opcode::Bra { uniform: false };
                        instruction.operands = vec![Operand::Label(Box::new(end.clone()))];
                    }
                    self.push(Statement::Instruction(instruction), line);
                }
                (Statement::Label(name), _) => {
                    let name = frame.labels.get(name).unwrap_or(name);
                    self.push(Statement::Label(name.clone()), line);
                }
                (Statement::Targets { name, labels }, _) => {
                    let renamed = |name: &String| frame.labels.get(name).unwrap_or(name).clone();
                    let labels = labels.iter().map(renamed).collect();
                    self.push(Statement::Targets { name: renamed(name), labels }, line);
                }
                (other, _) => self.push(other.clone(), line),
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        name: &'f str,
        function: &'f Function,
        call: &Instruction,
        line: u32,
        caller: &Frame,
    ) -> std::result::Result<(), String> {
        if self.under_way.len() >= MAX_NESTING {
            return Err(format!("calls nest deeper than {MAX_NESTING}"));
        }
        *self.added += function.interface.len() + function.body.iter().map(weight).sum::<usize>() + 2;
        if *self.added > MAX_INLINED {
            return Err(format!("calls add more than {MAX_INLINED} statements"));
        }
        let (families, own) = self.place(name, function)?;
        let mut interface = HashMap::new();
        for (formal, actual) in function.interface.iter().zip(&call.operands[1..]) {
            if let Operand::Symbol(actual) = actual {
                interface.insert(formal.clone(), caller.symbol(actual).clone());
            }
        }
        let end = self.fresh("return");
        let mut labels = HashMap::new();
        for statement in &function.body {
            if let Statement::Label(name) | Statement::Targets { name, .. } = statement {
                labels.insert(name.clone(), self.fresh(name));
            }
        }
        self.branch_unless(call.guard.map(|guard| caller.guard(guard)), &end, line);
        let frame = Frame { families, own, interface, labels, end: Some(end.clone()) };
        self.under_way.push(name);
        self.copy(&function.body, &function.lines, &frame)?;
        self.under_way.pop();
        self.push(Statement::Label(end), line);
        Ok(())
    }

    /// Branches if a guard does not hold; does nothing without a guard.
    fn branch_unless(&mut self, guard: Option<Guard>, label: &str, line: u32) {
        if let Some(guard) = guard {
            self.branch(Some(Guard { negated: !guard.negated, ..guard }), label, line);
        }
    }

    fn branch(&mut self, guard: Option<Guard>, label: &str, line: u32) {
        let (op, operands) = (Opcode::Bra { uniform: false }, vec![Operand::Label(Box::new(label.to_owned()))]);
        self.push(Statement::Instruction(Instruction { guard, op, operands, note: None }), line);
    }

    /// Inlines a call of the function at the address in a register. With any other address the call stays an unknown
    /// instruction.
    fn call_by_address(&mut self, call: &Instruction, line: u32, caller: &Frame) -> std::result::Result<(), String> {
        let functions = self.functions;
        let fits = |(name, function): &(&&'f str, &'f Function)| {
            !self.under_way.contains(*name) && call.operands.len() == function.interface.len() + 1
        };
        let mut candidates: Vec<_> = functions.iter().filter(fits).collect();
        candidates.sort_by_key(|(_, function)| function.address);
        if candidates.is_empty() {
            let mut instruction = caller.instruction(call);
            instruction.operands.truncate(1);
            self.push(Statement::Instruction(instruction), line);
            return Ok(());
        }
        let family = u16::try_from(self.registers.len()).map_err(|_| TOO_MANY)?;
        let prefix = self.fresh("%called");
        self.registers.push(RegisterFamily { ty: Type::Pred, prefix, count: None, comment: None });
        let pred = Reg { family, index: 0 };
        let address = caller.operand(&call.operands[0]);
        let end = self.fresh("called");
        self.branch_unless(call.guard.map(|guard| caller.guard(guard)), &end, line);
        for (name, function) in candidates {
            *self.added += 4;
            let next = self.fresh("next");
            let op = Opcode::Setp { cmp: Compare::Ne, ty: Type::U64 };
            let operands = vec![Operand::Reg(pred), address.clone(), Operand::Int(function.address)];
            self.push(Statement::Instruction(Instruction { guard: None, op, operands, note: None }), line);
            self.branch(Some(Guard { pred, negated: false }), &next, line);
            let mut direct = Instruction { guard: None, ..call.clone() };
            direct.operands[0] = Operand::Symbol(Box::new((*name).to_owned()));
            self.call(name, function, &direct, line, caller)?;
            self.branch(None, &end, line);
            self.push(Statement::Label(next), line);
        }
        let unknown = Instruction { guard: None, operands: vec![address], ..call.clone() };
        self.push(Statement::Instruction(unknown), line);
        self.push(Statement::Label(end), line);
        Ok(())
    }

    /// Declares the registers and variables of a function, at its first call.
    fn place(&mut self, name: &'f str, function: &Function) -> std::result::Result<(u16, Names), String> {
        if let Some(placed) = self.placed.get(name) {
            return Ok(placed.clone());
        }
        let families = u16::try_from(self.registers.len()).ok();
        let families = families.filter(|first| usize::from(*first) + function.registers.len() <= usize::from(u16::MAX));
        let families = families.ok_or(TOO_MANY)?;
        for family in &function.registers {
            let prefix = self.fresh(&family.prefix);
            self.registers.push(RegisterFamily { prefix, ..family.clone() });
        }
        let mut symbols = HashMap::new();
        for variable in &function.variables {
            let fresh = self.fresh(&variable.name);
            symbols.insert(variable.name.clone(), fresh.clone());
            let space = if variable.space == Space::Param { Space::Local } else { variable.space };
            self.variables.push(Variable { name: fresh, space, ..variable.clone() });
        }
        let placed = (families, Rc::new(symbols));
        self.placed.insert(name, placed.clone());
        Ok(placed)
    }
}

impl Frame {
    /// The entry's name for a variable or parameter, if the body declares it.
    fn known(&self, name: &str) -> Option<&String> {
        self.interface.get(name).or_else(|| self.own.get(name))
    }

    fn symbol<'a>(&'a self, name: &'a String) -> &'a String {
        self.known(name).unwrap_or(name)
    }

    fn register(&self, reg: Reg) -> Reg {
        Reg { family: reg.family + self.families, ..reg }
    }

    fn guard(&self, guard: Guard) -> Guard {
        Guard { pred: self.register(guard.pred), ..guard }
    }

    fn instruction(&self, instruction: &Instruction) -> Instruction {
        let guard = instruction.guard.map(|guard| self.guard(guard));
        let operands: Vec<Operand> = instruction.operands.iter().map(|operand| self.operand(operand)).collect();
        let local = instruction.operands.iter().any(|operand| match operand {
            Operand::Address(address) => matches!(&address.0, Base::Symbol(name) if self.known(name).is_some()),
            _ => false,
        });
        let mut op = instruction.op.clone();
        match &mut op {
            Opcode::Ld { space, .. } | Opcode::St { space, .. } if local && *space == Space::Param => {
                *space = Space::Local;
            }
            _ => {}
        }
        Instruction { guard, op, operands, note: instruction.note.clone() }
    }

    fn operand(&self, operand: &Operand) -> Operand {
        match operand {
            Operand::Reg(reg) => Operand::Reg(self.register(*reg)),
            Operand::NotReg(reg) => Operand::NotReg(self.register(*reg)),
            Operand::Vector(elements) => {
                Operand::Vector(elements.iter().map(|element| self.operand(element)).collect())
            }
            Operand::Address(address) => Operand::Address(Box::new((self.base(&address.0), address.1))),
            Operand::TensorAddress(tensor) => {
                let coordinates = tensor.1.iter().map(|element| self.operand(element)).collect();
                Operand::TensorAddress(Box::new((self.base(&tensor.0), coordinates)))
            }
            Operand::Label(name) => Operand::Label(Box::new(self.labels.get(&**name).unwrap_or(name).clone())),
            Operand::Symbol(name) => Operand::Symbol(Box::new(self.symbol(name).clone())),
            Operand::SymbolOffset(symbol) => {
                Operand::SymbolOffset(Box::new((self.symbol(&symbol.0).clone(), symbol.1)))
            }
            Operand::Pair(pair) => Operand::Pair(Box::new((self.operand(&pair.0), self.operand(&pair.1)))),
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) | Operand::Special(_) | Operand::Sink => {
                operand.clone()
            }
        }
    }

    fn base(&self, base: &Base) -> Base {
        match base {
            Base::Reg(reg) => Base::Reg(self.register(*reg)),
            Base::Symbol(name) => Base::Symbol(Box::new(self.symbol(name).clone())),
            Base::None => Base::None,
        }
    }
}
