//! A typed builder of entries. It is thin on purpose: it numbers registers and labels and attaches the current note to
//! each instruction.
//!
//! ```
//! use ptx_gemm_ptx::build::EntryBuilder;
//! use ptx_gemm_ptx::instruction::{Opcode, Operand, Rounding, Special};
//! use ptx_gemm_ptx::module::Module;
//! use ptx_gemm_ptx::types::Type;
//!
//! let mut entry = EntryBuilder::new("half");
//! let index = entry.family("%i", Type::B32, "indices");
//! entry.note("thread(1, 1)", "the thread's index");
//! let tid = entry.define(index, Opcode::Mov(Type::U32), [Special::TidX.into()]);
//! let half = entry.define(index, Opcode::Shr(Type::U32), [tid.into(), Operand::Int(1)]);
//! entry.emit(Opcode::Ret, []);
//! let mut module = Module::new("sm_80");
//! module.entries.push(entry.finish());
//! ```

use std::sync::Arc;

use crate::instruction::{Base, Guard, Instruction, Note, Opcode, Operand, Reg, Special};
use crate::module::{Directive, Entry, Module, Param, RegisterFamily, Statement, Variable};
use crate::types::Type;

/// A family of registers in an [`EntryBuilder`]; it grows as registers are taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FamilyId(u16);

/// A label that has a name but may not be bound yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelId(String);

/// Builds one entry, statement by statement.
#[derive(Clone, Debug)]
pub struct EntryBuilder {
    entry: Entry,
    note: Option<Note>,
    labels: u32,
}

impl EntryBuilder {
    /// An empty entry.
    pub fn new(name: impl Into<String>) -> Self {
        let entry = Entry {
            name: name.into(),
            params: Vec::new(),
            directives: Vec::new(),
            registers: Vec::new(),
            variables: Vec::new(),
            body: Vec::new(),
        };
        EntryBuilder { entry, note: None, labels: 0 }
    }

    /// Reserves room for this many more statements, so that growing the entry does not copy them.
    pub fn reserve(&mut self, statements: usize) {
        self.entry.body.reserve(statements);
    }

    /// Adds a scalar parameter.
    pub fn param(&mut self, ty: Type, name: impl Into<String>, comment: impl Into<String>) {
        let (name, comment) = (name.into(), Some(comment.into()));
        self.entry.params.push(Param { ty, align: None, name, count: None, comment });
    }

    /// Adds a parameter of bytes, such as a tensor map: `.param .align 64 .b8 name[128]`.
    pub fn param_bytes(&mut self, align: u32, bytes: u64, name: impl Into<String>, comment: impl Into<String>) {
        let (name, comment) = (name.into(), Some(comment.into()));
        self.entry.params.push(Param { ty: Type::B8, align: Some(align), name, count: Some(bytes), comment });
    }

    /// Adds a performance directive.
    pub fn directive(&mut self, directive: Directive) {
        self.entry.directives.push(directive);
    }

    /// Adds a variable of the entry.
    pub fn variable(&mut self, variable: Variable) {
        self.entry.variables.push(variable);
    }

    /// Opens a family of registers; `prefix` includes the `%`. An entry has at most 65536 families; the verifier
    /// rejects the rest.
    pub fn family(&mut self, prefix: impl Into<String>, ty: Type, comment: impl Into<String>) -> FamilyId {
        let id = FamilyId(u16::try_from(self.entry.registers.len()).unwrap_or(u16::MAX));
        let (prefix, comment) = (prefix.into(), Some(comment.into()).filter(|comment: &String| !comment.is_empty()));
        self.entry.registers.push(RegisterFamily { ty, prefix, count: Some(0), comment });
        id
    }

    /// The next register of a family.
    pub fn reg(&mut self, family: FamilyId) -> Reg {
        let Some(RegisterFamily { count: Some(count), .. }) = self.entry.registers.get_mut(usize::from(family.0))
        else {
            return Reg { family: family.0, index: 0 };
        };
        *count += 1;
        Reg { family: family.0, index: *count - 1 }
    }

    /// The next `count` registers of a family.
    pub fn regs(&mut self, family: FamilyId, count: u32) -> Vec<Reg> {
        (0..count).map(|_| self.reg(family)).collect()
    }

    /// The type of a register's family.
    pub fn type_of(&self, reg: Reg) -> Option<Type> {
        self.entry.registers.get(usize::from(reg.family)).map(|family| family.ty)
    }

    /// Sets the note of the instructions that follow.
    pub fn note(&mut self, clause: impl Into<Arc<str>>, what: impl Into<Arc<str>>) {
        self.set_note(Some(Note::new(clause, what)));
    }

    /// Like [`note`](Self::note), with an existing note; `None` clears it. Returns the previous note.
    pub fn set_note(&mut self, note: Option<Note>) -> Option<Note> {
        std::mem::replace(&mut self.note, note)
    }

    /// Appends an instruction.
    pub fn emit(&mut self, op: Opcode, operands: impl Into<Vec<Operand>>) {
        self.push(None, op, operands.into());
    }

    /// Appends an instruction under a guard.
    pub fn emit_if(&mut self, guard: Guard, op: Opcode, operands: impl Into<Vec<Operand>>) {
        self.push(Some(guard), op, operands.into());
    }

    /// Appends an instruction that writes a new register of `family`, and returns that register.
    pub fn define(&mut self, family: FamilyId, op: Opcode, sources: impl IntoIterator<Item = Operand>) -> Reg {
        let reg = self.reg(family);
        let operands = std::iter::once(Operand::Reg(reg)).chain(sources).collect();
        self.push(None, op, operands);
        reg
    }

    #[inline]
    fn push(&mut self, guard: Option<Guard>, op: Opcode, operands: Vec<Operand>) {
        let note = self.note.clone();
        self.entry.body.push(Statement::Instruction(Instruction { guard, op, operands, note }));
    }

    /// A fresh label, `stem_0`, to branch to and to bind once.
    pub fn label(&mut self, stem: &str) -> LabelId {
        let label = LabelId(format!("{stem}_{}", self.labels));
        self.labels += 1;
        label
    }

    /// Binds a label to the current position.
    pub fn bind(&mut self, label: &LabelId) {
        self.entry.body.push(Statement::Label(label.0.clone()));
    }

    /// Appends a branch.
    pub fn branch(&mut self, label: &LabelId) {
        self.emit(Opcode::Bra { uniform: false }, [Operand::from(label)]);
    }

    /// Appends a branch under a guard.
    pub fn branch_if(&mut self, guard: Guard, label: &LabelId) {
        self.emit_if(guard, Opcode::Bra { uniform: false }, [Operand::from(label)]);
    }

    /// Appends a comment on a line of its own.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.entry.body.push(Statement::Comment(text.into()));
    }

    /// Appends a pragma.
    pub fn pragma(&mut self, text: impl Into<String>) {
        self.entry.body.push(Statement::Pragma(text.into()));
    }

    /// Finishes the entry.
    pub fn finish(self) -> Entry {
        self.entry
    }
}

impl Module {
    /// An empty module for a target such as `sm_90a`. Its version is the lowest that has the target; call
    /// [`crate::verify::required_version`] on the finished module for the version that its instructions need.
    pub fn new(target: impl Into<String>) -> Self {
        let target = target.into();
        let (header, variables, entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut module = Module { header, version: (6, 3), target, variables, entries };
        module.version = crate::verify::required_version(&module);
        module
    }
}

impl Instruction {
    /// An instruction without a guard or a note.
    pub fn new(op: Opcode, operands: impl IntoIterator<Item = Operand>) -> Self {
        Instruction { guard: None, op, operands: operands.into_iter().collect(), note: None }
    }
}

impl Guard {
    /// `@%p`.
    pub const fn when(pred: Reg) -> Self {
        Guard { pred, negated: false }
    }

    /// `@!%p`.
    pub const fn unless(pred: Reg) -> Self {
        Guard { pred, negated: true }
    }
}

impl Operand {
    /// `[base + offset]`.
    pub fn address(base: impl Into<Base>, offset: i64) -> Self {
        Operand::Address(Box::new((base.into(), offset)))
    }

    /// `{%a, %b}`.
    pub fn vector(regs: &[Reg]) -> Self {
        Operand::Vector(regs.iter().copied().map(Operand::Reg).collect())
    }

    /// The address of a variable.
    pub fn symbol(name: impl Into<String>) -> Self {
        Operand::Symbol(Box::new(name.into()))
    }

    /// `%p|%q`.
    pub fn pair(first: impl Into<Operand>, second: impl Into<Operand>) -> Self {
        Operand::Pair(Box::new((first.into(), second.into())))
    }
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Operand::Reg(reg)
    }
}

impl From<Special> for Operand {
    fn from(special: Special) -> Self {
        Operand::Special(special)
    }
}

impl From<&LabelId> for Operand {
    fn from(label: &LabelId) -> Self {
        Operand::Label(Box::new(label.0.clone()))
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Self {
        Operand::Int(value)
    }
}

impl From<u32> for Operand {
    fn from(value: u32) -> Self {
        Operand::Int(value.into())
    }
}

impl From<f32> for Operand {
    fn from(value: f32) -> Self {
        Operand::F32(value.to_bits())
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Self {
        Operand::F64(value.to_bits())
    }
}

impl From<Reg> for Base {
    fn from(reg: Reg) -> Self {
        Base::Reg(reg)
    }
}

impl From<&str> for Base {
    fn from(symbol: &str) -> Self {
        Base::Symbol(Box::new(symbol.to_owned()))
    }
}
