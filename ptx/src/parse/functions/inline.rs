//! Inlines the calls of an entry.
//!
//! Parameters and results of a call are variables in local memory, under names that caller and callee share, or
//! registers. The registers and variables of a function exist once per entry, since two calls of it are never active at
//! the same time; its labels exist once per call.

use std::collections::HashMap;
use std::rc::Rc;

use super::inliner::{End, Frame, Home, Inliner, Names, Outcome, constant, load, store};
use super::{Formal, Function, Functions, Place, is_system, target};
use crate::instruction::{Base, Compare, Guard, Instruction, Opcode, Operand, Reg};
use crate::module::{Entry, Statement, Variable};
use crate::parse::MAX_NESTING;
use crate::types::{Space, Type};

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

impl<'f, 'a> Inliner<'f, 'a> {
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
}

/// Where a result is when the function returns.
enum Source {
    Register(Type, Reg),
    Memory(Type, Operand),
}
