//! Inlines the calls of an entry.
//!
//! Parameters and results of a call are variables in local memory, under names that caller and callee share, or
//! registers. The registers and variables of a function exist once per entry, since two calls of it are never active at
//! the same time; its labels exist once per call.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::frames::Subroutine;
use super::{Formal, Function, Functions, Place, is_system, target};
use crate::asynchronous::PrefetchSize;
use crate::instruction::{Base, Cache, Compare, Guard, Instruction, Opcode, Operand, Order, Reg};
use crate::module::{Entry, RegisterFamily, Statement, Variable};
use crate::parse::MAX_NESTING;
use crate::parse::operand::narrowed;
use crate::types::{Space, Type};

/// Most statements, labels and parameters that inlining may add to one text.
const MAX_INLINED: usize = 1 << 20;

const TOO_MANY: &str = "more than 65536 register families";

pub(super) type Outcome<T = ()> = Result<T, String>;

/// Inlines the calls of an entry. `added` counts the statements that calls have added to the text so far.
pub(in crate::parse) fn inline(
    entry: &mut Entry,
    lines: &mut Vec<u32>,
    functions: &Functions<'_>,
    added: &mut usize,
) -> Outcome {
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
        subroutines: HashMap::new(),
        waiting: Vec::new(),
        stack: None,
        scratch: HashMap::new(),
    };
    let mut symbols = HashMap::new();
    for variable in inliner.variables.iter_mut().filter(|variable| variable.space == Space::Param) {
        variable.space = Space::Local;
        symbols.insert(variable.name.clone(), variable.name.clone());
    }
    let frame = Frame { own: Rc::new(symbols), ..Frame::default() };
    inliner.copy(&entry.body, lines, &frame)?;
    inliner.subroutines()?;
    (entry.registers, entry.variables) = (inliner.registers, inliner.variables);
    (entry.body, *lines) = (inliner.body, inliner.lines);
    Ok(())
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

/// Where a variable of a body is.
#[derive(Clone, Debug)]
pub(super) enum Home {
    /// In the variable of this name.
    Named(String),
    /// At an offset in the frame of the function that is being copied.
    Framed(i64),
}

/// What `ret` does in a body.
#[derive(Clone, Default)]
pub(super) enum End {
    #[default]
    Exit,
    /// Branches to this label.
    Branch(String),
    /// Branches to where the call came from: the list of labels, and where the frame holds the index.
    Return { list: String, index: i64 },
}

/// How the names of one body become names of the entry, for one call of it.
#[derive(Clone, Default)]
pub(super) struct Frame {
    /// Number of the body's first register family.
    pub(super) families: u16,
    /// Its variables.
    pub(super) own: Names,
    /// Its parameters and results, and the variables in its frame.
    pub(super) interface: HashMap<String, Home>,
    pub(super) labels: HashMap<String, String>,
    pub(super) end: End,
    /// The function of the frame that is active in this body, if any.
    pub(super) active: Option<String>,
}

pub(super) struct Inliner<'f, 'a> {
    pub(super) functions: &'f Functions<'a>,
    taken: HashSet<String>,
    pub(super) registers: Vec<RegisterFamily>,
    pub(super) variables: Vec<Variable>,
    /// The registers and variables of each function that was called so far.
    placed: HashMap<&'f str, (u16, Names)>,
    under_way: Vec<&'f str>,
    added: &'f mut usize,
    fresh: usize,
    pub(super) body: Vec<Statement>,
    pub(super) lines: Vec<u32>,
    /// The functions with frames that were called so far, and those whose bodies are not copied yet.
    pub(super) subroutines: HashMap<&'f str, Subroutine>,
    pub(super) waiting: Vec<&'f str>,
    /// The registers with the address of the active frame and with its limit.
    pub(super) stack: Option<[Reg; 2]>,
    /// Registers for intermediate values.
    scratch: HashMap<Type, Reg>,
}

impl<'f, 'a> Inliner<'f, 'a> {
    pub(super) fn fresh(&mut self, name: &str) -> String {
        loop {
            self.fresh += 1;
            // The last character is not a digit, so that the name cannot run into the number of a family's register.
            let fresh = format!("{name}_f{}_", self.fresh);
            if self.taken.insert(fresh.clone()) {
                return fresh;
            }
        }
    }

    pub(super) fn push(&mut self, statement: Statement, line: u32) {
        self.body.push(statement);
        self.lines.push(line);
    }

    pub(super) fn emit(&mut self, op: Opcode, operands: Vec<Operand>, line: u32) {
        self.push(Statement::Instruction(Instruction { guard: None, op, operands, note: None }), line);
    }

    /// Counts statements that are about to be added.
    pub(super) fn count(&mut self, statements: usize) -> Outcome {
        *self.added += statements;
        match *self.added > MAX_INLINED {
            true => Err(format!("calls add more than {MAX_INLINED} statements")),
            false => Ok(()),
        }
    }

    /// A new register.
    pub(super) fn register(&mut self, name: &str, ty: Type) -> Outcome<Reg> {
        let family = u16::try_from(self.registers.len()).map_err(|_| TOO_MANY)?;
        let prefix = self.fresh(name);
        self.registers.push(RegisterFamily { ty, prefix, count: None, comment: None });
        Ok(Reg { family, index: 0 })
    }

    /// A register for an intermediate value of a type.
    pub(super) fn scratch(&mut self, ty: Type) -> Outcome<Reg> {
        if let Some(reg) = self.scratch.get(&ty) {
            return Ok(*reg);
        }
        let reg = self.register("%call", ty)?;
        self.scratch.insert(ty, reg);
        Ok(reg)
    }

    pub(super) fn copy(&mut self, body: &[Statement], lines: &[u32], frame: &Frame) -> Outcome {
        for (statement, &line) in body.iter().zip(lines) {
            match statement {
                Statement::Instruction(instruction) => self.instruction(instruction, target(statement), line, frame)?,
                Statement::Label(name) => {
                    let name = frame.labels.get(name).unwrap_or(name);
                    self.push(Statement::Label(name.clone()), line);
                }
                Statement::Targets { name, labels } => {
                    let renamed = |name: &String| frame.labels.get(name).unwrap_or(name).clone();
                    let labels = labels.iter().map(renamed).collect();
                    self.push(Statement::Targets { name: renamed(name), labels }, line);
                }
                Statement::Comment(_) | Statement::Pragma(_) => self.push(statement.clone(), line),
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        instruction: &Instruction,
        target: Option<&Operand>,
        line: u32,
        frame: &Frame,
    ) -> Outcome {
        let functions = self.functions;
        match target {
            Some(Operand::Reg(_)) => return self.call_by_address(instruction, line, frame),
            Some(Operand::Symbol(name)) => {
                let found = functions.defined.get_key_value(name.as_str());
                let found = found.filter(|(_, function)| instruction.operands.len() == function.interface.len() + 1);
                if let Some((name, function)) = found {
                    return self.call(name, function, instruction, line, frame);
                }
                let mut call = Instruction { operands: vec![instruction.operands[0].clone()], ..instruction.clone() };
                if is_system(name) {
                    let places = instruction.operands[1..].iter().map(|operand| frame.place(operand, self.stack));
                    call.operands.extend(places);
                }
                call.guard = instruction.guard.map(|guard| frame.guard(guard));
                self.push(Statement::Instruction(call), line);
                return Ok(());
            }
            _ => {}
        }
        let mut instruction = self.addressed(frame.instruction(instruction, self.stack), frame, line)?;
        if instruction.op == Opcode::Ret {
            match &frame.end {
                End::Exit => {}
                End::Branch(end) => {
                    instruction.op = Opcode::Bra { uniform: false };
                    instruction.operands = vec![Operand::Label(Box::new(end.clone()))];
                }
                End::Return { list, index } => return self.return_to(instruction.guard, list, *index, line),
            }
        }
        self.push(Statement::Instruction(instruction), line);
        Ok(())
    }

    pub(super) fn call(
        &mut self,
        name: &'f str,
        function: &'f Function,
        call: &Instruction,
        line: u32,
        caller: &Frame,
    ) -> Outcome {
        if self.functions.framed.contains(name) {
            return self.call_framed(name, function, call, line, caller);
        }
        if self.under_way.len() >= MAX_NESTING {
            return Err(format!("calls nest deeper than {MAX_NESTING}"));
        }
        self.count(2 * function.interface.len() + function.body.iter().map(weight).sum::<usize>() + 2)?;
        let (families, own) = self.place(name, function)?;
        let end = self.fresh("return");
        self.branch_unless(call.guard.map(|guard| caller.guard(guard)), &end, line);
        let actuals = &call.operands[1..];
        let mut interface = HashMap::new();
        let mut results = Vec::new();
        for (index, (formal, actual)) in function.interface.iter().zip(actuals).enumerate() {
            let is_result = index < function.results;
            match (&formal.place, actual) {
                (Place::Memory { .. }, Operand::Symbol(actual)) => {
                    interface.insert(formal.name.clone(), caller.symbol(actual));
                }
                (Place::Memory { bytes, align }, actual) => {
                    let slot = self.slot(formal, *bytes, *align);
                    let address = Operand::Address(Box::new((Base::Symbol(Box::new(slot.clone())), 0)));
                    if is_result {
                        results.push((caller.operand(actual, self.stack), Source::Memory(formal.ty, address)));
                    } else {
                        let value = constant(caller.operand(actual, self.stack), formal.ty);
                        self.emit(store(formal.ty), vec![address, value], line);
                    }
                    interface.insert(formal.name.clone(), Home::Named(slot));
                }
                (Place::Registers(registers), actual) => {
                    let inner = |reg: &Reg| Reg { family: reg.family + families, ..*reg };
                    let actuals: Vec<Operand> = match caller.operand(actual, self.stack) {
                        Operand::Vector(elements) => elements.into_iter().collect(),
                        one => vec![one],
                    };
                    for (reg, actual) in registers.iter().map(inner).zip(actuals) {
                        match (is_result, caller.variable(&actual, self.stack)) {
                            (true, _) => results.push((actual, Source::Register(formal.ty, reg))),
                            (false, None) => {
                                let operands = vec![Operand::Reg(reg), constant(actual, formal.ty)];
                                self.emit(Opcode::Mov(formal.ty), operands, line);
                            }
                            (false, Some(address)) => {
                                self.emit(load(formal.ty), vec![Operand::Reg(reg), address], line);
                            }
                        }
                    }
                }
            }
        }
        let labels = self.labels(function);
        let end_of = End::Branch(end.clone());
        let frame = Frame { families, own, interface, labels, end: end_of, active: caller.active.clone() };
        self.under_way.push(name);
        self.copy(&function.body, &function.lines, &frame)?;
        self.under_way.pop();
        // A branch to here skips a call of which the guard does not hold; the results stay as they are then.
        let skipped = call.guard.is_some() && !results.is_empty();
        self.push(Statement::Label(end), line);
        for (actual, source) in results {
            self.result(actual, source, call.guard.filter(|_| skipped).map(|guard| caller.guard(guard)), caller, line);
        }
        Ok(())
    }

    /// Copies a result to where the caller wants it, if it does.
    fn result(&mut self, actual: Operand, source: Source, guard: Option<Guard>, caller: &Frame, line: u32) {
        let (op, operands) = match (caller.variable(&actual, self.stack), source) {
            _ if actual == Operand::Sink => return,
            (None, Source::Register(ty, reg)) => (Opcode::Mov(ty), vec![actual, Operand::Reg(reg)]),
            (Some(address), Source::Register(ty, reg)) => (store(ty), vec![address, Operand::Reg(reg)]),
            (_, Source::Memory(ty, address)) => (load(ty), vec![actual, address]),
        };
        self.push(Statement::Instruction(Instruction { guard, op, operands, note: None }), line);
    }

    /// The names of a function's labels for one copy of its body.
    pub(super) fn labels(&mut self, function: &Function) -> HashMap<String, String> {
        let mut labels = HashMap::new();
        for statement in &function.body {
            if let Statement::Label(name) | Statement::Targets { name, .. } = statement {
                labels.insert(name.clone(), self.fresh(name));
            }
        }
        labels
    }

    /// A variable for a parameter that a register or a number is passed in.
    fn slot(&mut self, formal: &Formal, bytes: u64, align: u32) -> String {
        let name = self.fresh(&formal.name);
        let (ty, count) = (Type::B8, Some(bytes.max(formal.ty.bytes().into())));
        let (space, align) = (Space::Local, Some(align));
        let variable = Variable { is_extern: false, space, align, ty, name, count, init: Vec::new(), note: None };
        let name = variable.name.clone();
        self.variables.push(variable);
        name
    }

    /// Branches if a guard does not hold; does nothing without a guard.
    pub(super) fn branch_unless(&mut self, guard: Option<Guard>, label: &str, line: u32) {
        if let Some(guard) = guard {
            self.branch(Some(Guard { negated: !guard.negated, ..guard }), label, line);
        }
    }

    pub(super) fn branch(&mut self, guard: Option<Guard>, label: &str, line: u32) {
        let (op, operands) = (Opcode::Bra { uniform: false }, vec![Operand::Label(Box::new(label.to_owned()))]);
        self.push(Statement::Instruction(Instruction { guard, op, operands, note: None }), line);
    }

    /// Inlines a call of the function at the address in a register. With any other address the call stays an unknown
    /// instruction.
    fn call_by_address(&mut self, call: &Instruction, line: u32, caller: &Frame) -> Outcome {
        let functions = self.functions;
        let fits = |(name, function): &(&&'a str, &Rc<Function>)| {
            !self.under_way.contains(*name) && call.operands.len() == function.interface.len() + 1
        };
        let mut candidates: Vec<(i64, &'f str, &'f Function)> = functions
            .defined
            .iter()
            .filter(fits)
            .map(|(name, function)| (functions.addresses.get(name).copied().unwrap_or(0), *name, &**function))
            .collect();
        candidates.sort_by_key(|(address, name, _)| (*address, *name));
        candidates.dedup_by_key(|(address, ..)| *address);
        let address = caller.operand(&call.operands[0], self.stack);
        let guard = call.guard.map(|guard| caller.guard(guard));
        if candidates.is_empty() {
            let unknown = Instruction { guard, operands: vec![address], ..call.clone() };
            self.push(Statement::Instruction(unknown), line);
            return Ok(());
        }
        let pred = self.register("%called", Type::Pred)?;
        let end = self.fresh("called");
        self.branch_unless(guard, &end, line);
        for (number, name, function) in candidates {
            self.count(4)?;
            let next = self.fresh("next");
            let op = Opcode::Setp { cmp: Compare::Ne, ty: Type::U64 };
            self.emit(op, vec![Operand::Reg(pred), address.clone(), Operand::Int(number)], line);
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
    fn place(&mut self, name: &'f str, function: &Function) -> Outcome<(u16, Names)> {
        if let Some(placed) = self.placed.get(name) {
            return Ok(placed.clone());
        }
        let families = self.families(function)?;
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

    /// Declares the registers of a function. Returns the number of the first family.
    pub(super) fn families(&mut self, function: &Function) -> Outcome<u16> {
        let families = u16::try_from(self.registers.len()).ok();
        let families = families.filter(|first| usize::from(*first) + function.registers.len() <= usize::from(u16::MAX));
        let families = families.ok_or(TOO_MANY)?;
        for family in &function.registers {
            let prefix = self.fresh(&family.prefix);
            self.registers.push(RegisterFamily { prefix, ..family.clone() });
        }
        Ok(families)
    }
}

/// Where a result is when the function returns.
enum Source {
    Register(Type, Reg),
    Memory(Type, Operand),
}

/// A store to local memory.
pub(super) fn store(ty: Type) -> Opcode {
    Opcode::St { order: Order::Weak, space: Space::Local, cache: Cache::None, vector: 1, ty }
}

/// A load from local memory.
pub(super) fn load(ty: Type) -> Opcode {
    let (cache, prefetch) = (Cache::None, PrefetchSize::None);
    Opcode::Ld { order: Order::Weak, space: Space::Local, cache, prefetch, vector: 1, ty }
}

/// A number as an operand of this type.
pub(super) fn constant(operand: Operand, ty: Type) -> Operand {
    if ty == Type::F32 { narrowed(operand) } else { operand }
}

impl Frame {
    /// Where a variable or parameter is, if the body declares it.
    fn known(&self, name: &str) -> Option<Home> {
        self.interface.get(name).cloned().or_else(|| self.own.get(name).cloned().map(Home::Named))
    }

    pub(super) fn symbol(&self, name: &str) -> Home {
        self.known(name).unwrap_or_else(|| Home::Named(name.to_owned()))
    }

    fn register(&self, reg: Reg) -> Reg {
        Reg { family: reg.family + self.families, ..reg }
    }

    pub(super) fn guard(&self, guard: Guard) -> Guard {
        Guard { pred: self.register(guard.pred), ..guard }
    }

    /// The address of a variable that is an operand of a call.
    pub(super) fn variable(&self, operand: &Operand, stack: Option<[Reg; 2]>) -> Option<Operand> {
        match operand {
            Operand::Symbol(name) => Some(Operand::Address(Box::new((Base::Symbol(name.clone()), 0)))),
            Operand::SymbolOffset(place) if place.0.is_empty() => {
                let [active, _] = stack?;
                Some(Operand::Address(Box::new((Base::Reg(active), place.1))))
            }
            _ => None,
        }
    }

    /// The same for an operand of the body; other operands stay what they are.
    fn place(&self, operand: &Operand, stack: Option<[Reg; 2]>) -> Operand {
        let operand = self.operand(operand, stack);
        self.variable(&operand, stack).unwrap_or(operand)
    }

    fn instruction(&self, instruction: &Instruction, stack: Option<[Reg; 2]>) -> Instruction {
        let guard = instruction.guard.map(|guard| self.guard(guard));
        let operands: Vec<Operand> = instruction.operands.iter().map(|operand| self.operand(operand, stack)).collect();
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

    /// An operand in the entry. The address of a variable in a frame becomes a distance from a variable without a name,
    /// which [`Inliner::addressed`] replaces.
    pub(super) fn operand(&self, operand: &Operand, stack: Option<[Reg; 2]>) -> Operand {
        match operand {
            Operand::Reg(reg) => Operand::Reg(self.register(*reg)),
            Operand::NotReg(reg) => Operand::NotReg(self.register(*reg)),
            Operand::Vector(elements) => {
                Operand::Vector(elements.iter().map(|element| self.operand(element, stack)).collect())
            }
            Operand::Address(address) => {
                let (base, offset) = self.base(&address.0, stack);
                Operand::Address(Box::new((base, address.1.wrapping_add(offset))))
            }
            Operand::TensorAddress(tensor) => {
                let coordinates = tensor.1.iter().map(|element| self.operand(element, stack)).collect();
                Operand::TensorAddress(Box::new((self.base(&tensor.0, stack).0, coordinates)))
            }
            Operand::Label(name) => Operand::Label(Box::new(self.labels.get(&**name).unwrap_or(name).clone())),
            Operand::Symbol(name) => self.address_of(name, 0),
            Operand::SymbolOffset(symbol) => self.address_of(&symbol.0, symbol.1),
            Operand::Pair(pair) => {
                Operand::Pair(Box::new((self.operand(&pair.0, stack), self.operand(&pair.1, stack))))
            }
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) | Operand::Special(_) | Operand::Sink => {
                operand.clone()
            }
        }
    }

    fn address_of(&self, name: &str, offset: i64) -> Operand {
        match self.symbol(name) {
            Home::Named(name) if offset == 0 => Operand::Symbol(Box::new(name)),
            Home::Named(name) => Operand::SymbolOffset(Box::new((name, offset))),
            Home::Framed(at) => Operand::SymbolOffset(Box::new((String::new(), at.wrapping_add(offset)))),
        }
    }

    fn base(&self, base: &Base, stack: Option<[Reg; 2]>) -> (Base, i64) {
        match base {
            Base::Reg(reg) => (Base::Reg(self.register(*reg)), 0),
            Base::Symbol(name) => match (self.symbol(name), stack) {
                (Home::Named(name), _) => (Base::Symbol(Box::new(name)), 0),
                (Home::Framed(offset), Some([active, _])) => (Base::Reg(active), offset),
                (Home::Framed(offset), None) => (Base::None, offset),
            },
            Base::None => (Base::None, 0),
        }
    }
}
