//! Generates every edit of a module that makes a mutant.

mod order;
mod values;

use std::collections::HashSet;

use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::ptx::instruction::{Guard, Instruction, Opcode, Operand, Reg};
use ptx_gemm_runtime::ptx::module::{Entry, Module, RegisterFamily, Statement};
use ptx_gemm_runtime::ptx::print;
use ptx_gemm_runtime::ptx::types::Type;

use self::order::is_synchronisation;
use super::{Mutant, MutantKind, instruction};

/// Register families for the temporaries of an edit, appended to those of the mutated entry.
pub(super) fn scratch() -> [RegisterFamily; 3] {
    let family = |prefix: &str, ty| RegisterFamily { ty, prefix: prefix.into(), count: Some(1), comment: None };
    [family("%mutant_f", Type::F32), family("%mutant_d", Type::F64), family("%mutant_r", Type::B32)]
}

/// All of every kernel that a product may launch, in the order of their texts.
pub fn mutants_of(kernel: &Kernel) -> Vec<Mutant> {
    let of = |(index, kernel): (usize, &Kernel)| {
        mutants(kernel.module()).into_iter().map(move |mutant| Mutant { kernel: index, ..mutant })
    };
    kernel.launched().into_iter().enumerate().flat_map(of).collect()
}

/// All of a module, in the order of the text.
pub fn mutants(module: &Module) -> Vec<Mutant> {
    let mut all = Vec::new();
    for (index, entry) in module.entries.iter().enumerate() {
        let registers = entry.registers.iter().cloned().chain(scratch()).collect();
        let (name, params, directives) = (entry.name.clone(), Vec::new(), Vec::new());
        let declared = Entry { name, params, directives, registers, variables: Vec::new(), body: Vec::new() };
        let mut maker = Maker { entry, declared, index, at: 0, all: &mut all };
        for at in 0..entry.body.len() {
            maker.at = at;
            if let Statement::Instruction(instruction) = &entry.body[at] {
                maker.instruction(instruction);
            }
        }
    }
    all
}

struct Maker<'a> {
    entry: &'a Entry,
    /// Its registers with those of the edits, and no instructions, for printing.
    declared: Entry,
    index: usize,
    at: usize,
    all: &'a mut Vec<Mutant>,
}

impl Maker<'_> {
    /// Replaces one statement by others.
    fn push(&mut self, kind: MutantKind, by: Vec<Instruction>) {
        self.replace(kind, 1, by.into_iter().map(Statement::Instruction).collect());
    }

    fn replace(&mut self, kind: MutantKind, replaced: usize, by: Vec<Statement>) {
        let told = |statements: &[Statement]| {
            let texts = statements.iter().filter_map(|statement| match statement {
                Statement::Instruction(instruction) => Some(print::instruction(instruction, &self.declared)),
                Statement::Label(name) => Some(format!("{name}:")),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("; ")
        };
        let old = &self.entry.body[self.at..self.at + replaced];
        // A moved instruction is reported with its own text.
        let (before, after) = match kind {
            MutantKind::MovedSync => {
                let up = by.first() == old.last();
                let moved = if up { old.last() } else { old.first() };
                let past =
                    format!("{} {} instructions", if up { "moved up past" } else { "moved down past" }, replaced - 1);
                (told(moved.map(std::slice::from_ref).unwrap_or_default()), past)
            }
            _ => (told(old), told(&by)),
        };
        let Some(was) = old.iter().find_map(instruction).cloned() else { return };
        let origin = old.iter().filter_map(instruction).find_map(|instruction| instruction.note.clone());
        let note = origin.as_ref().map_or_else(String::new, |note| format!("{}: {}", note.clause, note.what));
        self.all.push(Mutant {
            kernel: 0,
            kind,
            entry: self.index,
            at: self.at,
            loops: loops(&self.entry.body, self.at),
            before,
            after,
            note,
            was,
            replaced,
            by,
            origin,
        });
    }

    fn scratch_register(&self, ty: Type) -> Option<Reg> {
        let place = scratch().iter().position(|family| family.ty == ty)?;
        Some(Reg { family: (self.entry.registers.len() + place) as u16, index: 0 })
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if matches!(instruction.op, Opcode::Ret | Opcode::Exit | Opcode::Unknown(_)) {
            return;
        }
        self.synchronisation(instruction);
        self.guards(instruction);
        self.numbers(instruction);
        self.operations(instruction);
        self.tensor_core(instruction);
        self.registers(instruction);
        if !is_synchronisation(&instruction.op) && !matches!(instruction.op, Opcode::Bra { .. }) {
            self.push(MutantKind::Deleted, Vec::new());
            self.swapped_accesses(instruction);
        }
    }

    fn guards(&mut self, instruction: &Instruction) {
        let Some(guard) = instruction.guard else { return };
        let opposite = Guard { negated: !guard.negated, ..guard };
        self.push(MutantKind::OppositeGuard, vec![Instruction { guard: Some(opposite), ..instruction.clone() }]);
        if !matches!(instruction.op, Opcode::Bra { .. }) {
            self.push(MutantKind::NoGuard, vec![Instruction { guard: None, ..instruction.clone() }]);
        }
    }
}

/// The number of loops around a statement: of labels before it that a branch after it goes back to.
fn loops(body: &[Statement], at: usize) -> usize {
    let (before, after) = body.split_at(at.min(body.len()));
    let branches: HashSet<&str> = after
        .iter()
        .filter_map(|statement| match statement {
            Statement::Instruction(Instruction { op: Opcode::Bra { .. }, operands, .. }) => operands.first(),
            _ => None,
        })
        .filter_map(|operand| match operand {
            Operand::Label(label) => Some(label.as_str()),
            _ => None,
        })
        .collect();
    let label =
        |statement: &&Statement| matches!(statement, Statement::Label(name) if branches.contains(name.as_str()));
    before.iter().filter(label).count()
}
