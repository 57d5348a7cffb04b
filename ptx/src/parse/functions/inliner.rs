//! What inlining keeps while it copies bodies into an entry: names, registers, and where the variables of a body are.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::{Function, Functions};
use crate::asynchronous::PrefetchSize;
use crate::instruction::{Base, Cache, Guard, Instruction, Opcode, Operand, Order, Reg};
use crate::module::{RegisterFamily, Statement, Variable};
use crate::parse::operand::narrowed;
use crate::types::{Space, Type};

/// Most statements, labels and parameters that inlining may add to one text.
const MAX_INLINED: usize = 1 << 20;

pub(super) const TOO_MANY: &str = "more than 65536 register families";

pub(super) type Outcome<T = ()> = Result<T, String>;

/// Names of a body, and their names in the entry.
pub(super) type Names = Rc<HashMap<String, String>>;

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
    pub(super) taken: HashSet<String>,
    pub(super) registers: Vec<RegisterFamily>,
    pub(super) variables: Vec<Variable>,
    /// The registers and variables of each function that was called so far.
    pub(super) placed: HashMap<&'f str, (u16, Names)>,
    pub(super) under_way: Vec<&'f str>,
    pub(super) added: &'f mut usize,
    pub(super) fresh: usize,
    pub(super) body: Vec<Statement>,
    pub(super) lines: Vec<u32>,
    /// The functions with frames that were called so far, and those whose bodies are not copied yet.
    pub(super) subroutines: HashMap<&'f str, Subroutine>,
    pub(super) waiting: Vec<&'f str>,
    /// The registers with the address of the active frame and with its limit.
    pub(super) stack: Option<[Reg; 2]>,
    /// Registers for intermediate values.
    pub(super) scratch: HashMap<Type, Reg>,
}

/// A function with a frame, as an entry has it.
pub(super) struct Subroutine {
    pub(super) start: String,
    /// Its list of the labels to return to.
    pub(super) list: String,
    pub(super) returns: Vec<String>,
    pub(super) families: u16,
    /// Static variables of the function, which every call shares.
    pub(super) own: Rc<HashMap<String, String>>,
    pub(super) interface: HashMap<String, Home>,
    /// Offsets of the parameters and results, in the order of the interface.
    pub(super) formals: Vec<i64>,
    /// The registers that it saves around calls, and where.
    pub(super) saved: Vec<(Reg, i64)>,
    /// Where the number of the label to return to is.
    pub(super) index: i64,
    pub(super) bytes: i64,
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
    pub(super) fn known(&self, name: &str) -> Option<Home> {
        self.interface.get(name).cloned().or_else(|| self.own.get(name).cloned().map(Home::Named))
    }

    pub(super) fn symbol(&self, name: &str) -> Home {
        self.known(name).unwrap_or_else(|| Home::Named(name.to_owned()))
    }

    pub(super) fn register(&self, reg: Reg) -> Reg {
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
    pub(super) fn place(&self, operand: &Operand, stack: Option<[Reg; 2]>) -> Operand {
        let operand = self.operand(operand, stack);
        self.variable(&operand, stack).unwrap_or(operand)
    }

    pub(super) fn instruction(&self, instruction: &Instruction, stack: Option<[Reg; 2]>) -> Instruction {
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

    pub(super) fn address_of(&self, name: &str, offset: i64) -> Operand {
        match self.symbol(name) {
            Home::Named(name) if offset == 0 => Operand::Symbol(Box::new(name)),
            Home::Named(name) => Operand::SymbolOffset(Box::new((name, offset))),
            Home::Framed(at) => Operand::SymbolOffset(Box::new((String::new(), at.wrapping_add(offset)))),
        }
    }

    pub(super) fn base(&self, base: &Base, stack: Option<[Reg; 2]>) -> (Base, i64) {
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
