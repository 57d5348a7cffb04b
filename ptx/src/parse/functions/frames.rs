//! Functions that may be active several times at once, in recursion.
//!
//! The body of such a function exists once in an entry. Its parameters, results and variables are in a frame on a stack
//! in local memory, together with the registers that it saves around calls and with the number of the place to return to:
//!
//! ```text
//! st.local.b32 [active+144], 2;       // a parameter of the callee, in the frame after this one
//! st.local.b32 [active+16], %r1;      // the caller's registers
//! setp.gt.u64 %p, active, limit;      // is there room for another frame?
//! @%p call.deeper f;                  // an unknown instruction, which says so when it is reached
//! st.local.b32 [active+152], 3;       // return to the label number 3
//! add.u64 active, active, 128;
//! bra f;
//! returned_3:
//! sub.u64 active, active, 128;
//! ld.local.b32 %r1, [active+16];
//! ld.local.b32 %r2, [active+128];     // the result
//! ```

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::inliner::{End, Frame, Home, Inliner, Outcome, Subroutine, constant, load, store};
use super::{Function, Place};
use crate::instruction::{Base, Compare, Guard, Instruction, Opcode, Operand, Reg, Rounding};
use crate::module::{Statement, Variable};
use crate::types::{Space, Type};

/// Bytes of the stack.
const STACK: i64 = 32 << 10;
/// Most bytes of a frame.
const MAX_FRAME: i64 = 4 << 10;
/// The mnemonic of the unknown instruction that is reached if a thread's stack has no room for another call.
pub const DEEPER: &str = "call.deeper";

impl<'f> Inliner<'f, '_> {
    /// Calls a function with a frame.
    pub(super) fn call_framed(
        &mut self,
        name: &'f str,
        function: &'f Function,
        call: &Instruction,
        line: u32,
        caller: &Frame,
    ) -> Outcome {
        self.subroutine(name, function)?;
        let stack @ [active, limit] = self.stack.ok_or("there is no stack")?;
        let (own_bytes, saved) = match caller.active.as_deref().and_then(|name| self.subroutines.get(name)) {
            Some(own) => (own.bytes, own.saved.clone()),
            None => (0, Vec::new()),
        };
        let callee = &self.subroutines[name];
        let (start, list_index, formals) = (callee.start.clone(), callee.index, callee.formals.clone());
        self.count(2 * saved.len() + 4 * function.interface.len() + 8)?;
        let over = self.fresh("over");
        self.branch_unless(call.guard.map(|guard| caller.guard(guard)), &over, line);
        let at = |offset: i64| Operand::Address(Box::new((Base::Reg(active), own_bytes + offset)));
        let places: Vec<_> = function.interface.iter().zip(&call.operands[1..]).zip(&formals).collect();
        let (results, arguments) = places.split_at(function.results.min(places.len()));
        for ((formal, actual), offset) in arguments {
            let actual = caller.operand(actual, Some(stack));
            match (&formal.place, caller.variable(&actual, Some(stack))) {
                (Place::Memory { bytes, align }, Some(from)) => {
                    self.move_bytes((&from, &at(**offset)), *bytes, *align, line)?;
                }
                (Place::Registers(_), Some(from)) => {
                    self.move_bytes((&from, &at(**offset)), formal.ty.bytes().into(), formal.ty.bytes(), line)?;
                }
                (_, None) => {
                    for (value, skip) in elements(actual).into_iter().zip(0..) {
                        let to = at(**offset + skip * i64::from(formal.ty.bytes()));
                        self.emit(store(untyped(formal.ty)), vec![to, constant(value, formal.ty)], line);
                    }
                }
            }
        }
        let in_own = |offset: i64| Operand::Address(Box::new((Base::Reg(active), offset)));
        for (reg, offset) in &saved {
            self.save(*reg, in_own(*offset), line)?;
        }
        let pred = self.scratch(Type::Pred)?;
        let compare = Opcode::Setp { cmp: Compare::Gt, ty: Type::U64 };
        self.emit(compare, vec![Operand::Reg(pred), Operand::Reg(active), Operand::Reg(limit)], line);
        let guard = Some(Guard { pred, negated: false });
        let (op, operands) = (Opcode::Unknown(DEEPER.to_owned()), vec![Operand::Symbol(Box::new(name.to_owned()))]);
        self.push(Statement::Instruction(Instruction { guard, op, operands, note: None }), line);
        let returned = self.fresh("returned");
        let callee = self.subroutines.get_mut(name).ok_or("the function is unknown")?;
        let number = callee.returns.len() as i64;
        callee.returns.push(returned.clone());
        self.emit(store(Type::B32), vec![at(list_index), Operand::Int(number)], line);
        let (add, sub) =
            (Opcode::Add { rnd: Rounding::None, ty: Type::U64 }, Opcode::Sub { rnd: Rounding::None, ty: Type::U64 });
        let step = || vec![Operand::Reg(active), Operand::Reg(active), Operand::Int(own_bytes)];
        self.emit(add, step(), line);
        self.branch(None, &start, line);
        self.push(Statement::Label(returned), line);
        self.emit(sub, step(), line);
        for (reg, offset) in &saved {
            self.restore(*reg, in_own(*offset), line)?;
        }
        for ((formal, actual), offset) in results {
            let actual = caller.operand(actual, Some(stack));
            match (&formal.place, caller.variable(&actual, Some(stack))) {
                (Place::Memory { bytes, align }, Some(to)) => {
                    self.move_bytes((&at(**offset), &to), *bytes, *align, line)?;
                }
                (Place::Registers(_), Some(to)) => {
                    self.move_bytes((&at(**offset), &to), formal.ty.bytes().into(), formal.ty.bytes(), line)?;
                }
                (_, None) => {
                    for (value, skip) in elements(actual).into_iter().zip(0..) {
                        let from = at(**offset + skip * i64::from(formal.ty.bytes()));
                        if value != Operand::Sink {
                            self.emit(load(untyped(formal.ty)), vec![value, from], line);
                        }
                    }
                }
            }
        }
        self.push(Statement::Label(over), line);
        Ok(())
    }

    /// Declares what an entry needs for a function with a frame, at its first call.
    fn subroutine(&mut self, name: &'f str, function: &'f Function) -> Outcome {
        if self.stack.is_none() {
            self.begin_stack()?;
        }
        if self.subroutines.contains_key(name) {
            return Ok(());
        }
        let families = self.families(function)?;
        let mut bytes = 0i64;
        let mut place = |size: u64, align: u32| {
            let align = i64::from(align.clamp(1, 16));
            bytes = (bytes + align - 1) / align * align;
            let at = bytes;
            bytes = bytes.saturating_add(i64::try_from(size).unwrap_or(MAX_FRAME + 1).min(MAX_FRAME + 1));
            match bytes > MAX_FRAME {
                true => Err(format!(
                    "`{name}` calls itself, and has more than {MAX_FRAME} bytes of variables and registers"
                )),
                false => Ok(at),
            }
        };
        let (mut interface, mut formals) = (HashMap::new(), Vec::new());
        for formal in &function.interface {
            let offset = match &formal.place {
                Place::Memory { bytes, align } => place(*bytes, *align)?,
                Place::Registers(registers) => {
                    place(u64::from(formal.ty.bytes()) * registers.len() as u64, formal.ty.bytes())?
                }
            };
            interface.insert(formal.name.clone(), Home::Framed(offset));
            formals.push(offset);
        }
        let mut fixed = Vec::new();
        for variable in &function.variables {
            match variable.space {
                Space::Param | Space::Local => {
                    let offset = place(variable.bytes(), variable.align.unwrap_or(variable.ty.bytes()))?;
                    interface.insert(variable.name.clone(), Home::Framed(offset));
                }
                _ => fixed.push(variable),
            }
        }
        let mut saved = Vec::new();
        for reg in used(function) {
            let ty = function.registers.get(usize::from(reg.family)).map_or(Type::B32, |family| family.ty);
            let offset = place(u64::from(ty.bytes().max(4)), ty.bytes().max(4))?;
            saved.push((Reg { family: reg.family + families, ..reg }, offset));
        }
        let index = place(4, 4)?;
        let bytes = (bytes + 15) / 16 * 16;
        let mut own = HashMap::new();
        for variable in fixed {
            let fresh = self.fresh(&variable.name);
            own.insert(variable.name.clone(), fresh.clone());
            self.variables.push(Variable { name: fresh, ..variable.clone() });
        }
        let (start, list) = (self.fresh(name), self.fresh("returns"));
        let (returns, own) = (Vec::new(), Rc::new(own));
        let subroutine = Subroutine { start, list, returns, families, own, interface, formals, saved, index, bytes };
        self.subroutines.insert(name, subroutine);
        self.waiting.push(name);
        Ok(())
    }

    /// Declares the stack, and makes the entry start with it.
    fn begin_stack(&mut self) -> Outcome {
        let name = self.fresh("stack");
        let [active, limit] = [self.register("%frame", Type::B64)?, self.register("%limit", Type::B64)?];
        self.stack = Some([active, limit]);
        let (count, align) = (Some(STACK as u64), Some(16));
        let (space, ty) = (Space::Local, Type::B8);
        let symbol = Box::new(name.clone());
        let variable = Variable { is_extern: false, space, align, ty, name, count, init: Vec::new(), note: None };
        self.variables.push(variable);
        let starts = [
            (active, Operand::Symbol(symbol.clone())),
            // A frame and the next one fit after the limit.
            (limit, Operand::SymbolOffset(Box::new((*symbol, STACK - 2 * MAX_FRAME)))),
        ];
        let line = self.lines.first().copied().unwrap_or(1);
        for (reg, from) in starts.into_iter().rev() {
            let (op, operands) = (Opcode::Mov(Type::U64), vec![Operand::Reg(reg), from]);
            self.body.insert(0, Statement::Instruction(Instruction { guard: None, op, operands, note: None }));
            self.lines.insert(0, line);
        }
        Ok(())
    }

    /// Copies the bodies of all functions with frames that were called, after the entry's own.
    pub(super) fn subroutines(&mut self) -> Outcome {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let line = self.lines.last().copied().unwrap_or(1);
        self.emit(Opcode::Ret, Vec::new(), line);
        let functions = self.functions;
        while let Some(name) = self.waiting.pop() {
            let Some(function) = functions.defined.get(name) else { continue };
            self.count(function.body.len() + 4)?;
            let labels = self.labels(function);
            let own = &self.subroutines[name];
            let end = End::Return { list: own.list.clone(), index: own.index };
            let frame = Frame {
                families: own.families,
                own: own.own.clone(),
                interface: own.interface.clone(),
                labels,
                end: end.clone(),
                active: Some(name.to_owned()),
            };
            let line = function.lines.first().copied().unwrap_or(line);
            let start = own.start.clone();
            self.push(Statement::Label(start), line);
            self.registers_of_formals(name, function, Way::In, line)?;
            self.copy(&function.body, &function.lines, &frame)?;
            let End::Return { list, index } = end else { continue };
            self.return_from(name, function, None, (&list, index), line)?;
        }
        let lists: Vec<(String, Vec<String>)> =
            self.subroutines.values_mut().map(|one| (one.list.clone(), std::mem::take(&mut one.returns))).collect();
        for (name, labels) in lists {
            self.push(Statement::Targets { name, labels }, line);
        }
        Ok(())
    }

    /// Loads the parameters that a function has in registers, or stores its results.
    fn registers_of_formals(&mut self, name: &str, function: &Function, way: Way, line: u32) -> Outcome {
        let [active, _] = self.stack.ok_or("there is no stack")?;
        let own = &self.subroutines[name];
        let (families, formals) = (own.families, own.formals.clone());
        for (number, (formal, offset)) in function.interface.iter().zip(formals).enumerate() {
            let Place::Registers(registers) = &formal.place else { continue };
            for (reg, skip) in registers.iter().zip(0..) {
                let reg = Operand::Reg(Reg { family: reg.family + families, ..*reg });
                let offset = offset + skip * i64::from(formal.ty.bytes());
                let address = Operand::Address(Box::new((Base::Reg(active), offset)));
                match way {
                    Way::In if number >= function.results => {
                        self.emit(load(untyped(formal.ty)), vec![reg, address], line)
                    }
                    Way::Out if number < function.results => {
                        self.emit(store(untyped(formal.ty)), vec![address, reg], line)
                    }
                    Way::In | Way::Out => {}
                }
            }
        }
        Ok(())
    }

    /// Returns from the function with this list of labels.
    pub(super) fn return_to(&mut self, guard: Option<Guard>, list: &str, index: i64, line: u32) -> Outcome {
        let functions = self.functions;
        let name = self.subroutines.iter().find(|(_, one)| one.list == list).map(|(name, _)| *name);
        let name = name.ok_or("the function is unknown")?;
        let function = functions.defined.get(name).ok_or("the function is unknown")?;
        self.return_from(name, function, guard, (list, index), line)
    }

    fn return_from(
        &mut self,
        name: &str,
        function: &Function,
        guard: Option<Guard>,
        (list, index): (&str, i64),
        line: u32,
    ) -> Outcome {
        self.count(function.results + 4)?;
        let on = self.fresh("on");
        self.branch_unless(guard, &on, line);
        self.registers_of_formals(name, function, Way::Out, line)?;
        let [active, _] = self.stack.ok_or("there is no stack")?;
        let number = Operand::Reg(self.scratch(Type::B32)?);
        let address = Operand::Address(Box::new((Base::Reg(active), index)));
        self.emit(load(Type::B32), vec![number.clone(), address], line);
        let list = Operand::Label(Box::new(list.to_owned()));
        self.emit(Opcode::BraIndexed { uniform: false }, vec![number, list], line);
        self.push(Statement::Label(on), line);
        Ok(())
    }

    /// Replaces addresses of variables in the active frame by registers with these addresses.
    pub(super) fn addressed(&mut self, mut instruction: Instruction, frame: &Frame, line: u32) -> Outcome<Instruction> {
        let Some([active, _]) = self.stack.filter(|_| frame.active.is_some()) else { return Ok(instruction) };
        for operand in &mut instruction.operands {
            let Operand::SymbolOffset(place) = operand else { continue };
            if !place.0.is_empty() {
                continue;
            }
            let reg = Operand::Reg(self.scratch(Type::B64)?);
            let add = Opcode::Add { rnd: Rounding::None, ty: Type::U64 };
            self.emit(add, vec![reg.clone(), Operand::Reg(active), Operand::Int(place.1)], line);
            *operand = reg;
        }
        Ok(instruction)
    }

    fn type_of(&self, reg: Reg) -> Type {
        self.registers.get(usize::from(reg.family)).map_or(Type::B32, |family| family.ty)
    }

    fn save(&mut self, reg: Reg, to: Operand, line: u32) -> Outcome {
        let ty = self.type_of(reg);
        if ty != Type::Pred {
            self.emit(store(untyped(ty)), vec![to, Operand::Reg(reg)], line);
            return Ok(());
        }
        let word = Operand::Reg(self.scratch(Type::B32)?);
        let operands = vec![word.clone(), Operand::Int(1), Operand::Int(0), Operand::Reg(reg)];
        self.emit(Opcode::Selp(Type::B32), operands, line);
        self.emit(store(Type::B32), vec![to, word], line);
        Ok(())
    }

    fn restore(&mut self, reg: Reg, from: Operand, line: u32) -> Outcome {
        let ty = self.type_of(reg);
        if ty != Type::Pred {
            self.emit(load(untyped(ty)), vec![Operand::Reg(reg), from], line);
            return Ok(());
        }
        let word = Operand::Reg(self.scratch(Type::B32)?);
        self.emit(load(Type::B32), vec![word.clone(), from], line);
        let op = Opcode::Setp { cmp: Compare::Ne, ty: Type::B32 };
        self.emit(op, vec![Operand::Reg(reg), word, Operand::Int(0)], line);
        Ok(())
    }

    /// Copies bytes within local memory.
    fn move_bytes(&mut self, (from, to): (&Operand, &Operand), bytes: u64, align: u32, line: u32) -> Outcome {
        if bytes > MAX_FRAME as u64 {
            return Err(format!("a parameter of {bytes} bytes, and {MAX_FRAME} are supported in recursion"));
        }
        let mut done = 0;
        while done < bytes {
            let largest =
                [8, 4, 2, 1].into_iter().find(|size| align.is_multiple_of(*size) && bytes - done >= u64::from(*size));
            let (size, ty, of) = match largest {
                Some(8) => (8, Type::B64, Type::B64),
                Some(4) => (4, Type::B32, Type::B32),
                Some(2) => (2, Type::B16, Type::B16),
                _ => (1, Type::B8, Type::B16),
            };
            self.count(2)?;
            let reg = Operand::Reg(self.scratch(of)?);
            self.emit(load(ty), vec![reg.clone(), further(from, done as i64)], line);
            self.emit(store(ty), vec![further(to, done as i64), reg], line);
            done += size;
        }
        Ok(())
    }
}

/// The way of parameters into a function, and of results out of it.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// An address some bytes further on.
fn further(address: &Operand, bytes: i64) -> Operand {
    match address {
        Operand::Address(place) => Operand::Address(Box::new((place.0.clone(), place.1 + bytes))),
        other => other.clone(),
    }
}

fn elements(operand: Operand) -> Vec<Operand> {
    match operand {
        Operand::Vector(elements) => elements.into_iter().collect(),
        one => vec![one],
    }
}

/// The type of the same width for loads and stores of any register.
fn untyped(ty: Type) -> Type {
    match ty.bits() {
        8 => Type::B8,
        16 => Type::B16,
        64 => Type::B64,
        128 => Type::B128,
        _ => Type::B32,
    }
}

/// The registers that a function uses, each once.
fn used(function: &Function) -> Vec<Reg> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let mut note = |reg: Reg| {
        if seen.insert(reg) {
            all.push(reg);
        }
    };
    for statement in &function.body {
        let Statement::Instruction(instruction) = statement else { continue };
        instruction.guard.iter().for_each(|guard| note(guard.pred));
        instruction.operands.iter().for_each(|operand| registers_of(operand, &mut note));
    }
    for formal in &function.interface {
        if let Place::Registers(registers) = &formal.place {
            registers.iter().for_each(|reg| note(*reg));
        }
    }
    all
}

fn registers_of(operand: &Operand, note: &mut impl FnMut(Reg)) {
    match operand {
        Operand::Reg(reg) | Operand::NotReg(reg) => note(*reg),
        Operand::Vector(elements) => elements.iter().for_each(|element| registers_of(element, note)),
        Operand::Pair(pair) => [&pair.0, &pair.1].into_iter().for_each(|one| registers_of(one, note)),
        Operand::Address(address) => {
            if let Base::Reg(reg) = address.0 {
                note(reg);
            }
        }
        Operand::TensorAddress(tensor) => {
            if let Base::Reg(reg) = tensor.0 {
                note(reg);
            }
            tensor.1.iter().for_each(|element| registers_of(element, note));
        }
        Operand::Int(_)
        | Operand::F32(_)
        | Operand::F64(_)
        | Operand::Label(_)
        | Operand::Symbol(_)
        | Operand::SymbolOffset(_)
        | Operand::Special(_)
        | Operand::Sink => {}
    }
}
