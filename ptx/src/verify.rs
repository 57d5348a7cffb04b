//! Checks a module before anything else uses it. The rules:
//!
//! - the target is known, and the target and the `.version` have every instruction, special register and state space
//!   used;
//! - each opcode's type and modifiers are compatible, and its operands match its row of the instruction table in
//!   number, kind and register type; constants fit their type; vectors have 2 or 4 elements and at most 16 bytes, and up to 32 in global memory on
//!   sm_100;
//! - a register's family exists and its number is below the family's count; no two families define the same register
//!   name;
//! - each label is bound once in its entry, and each label of a branch or a list of targets is bound;
//! - names are declared, in a state space that the instruction can address, and declared once; names and pragmas can be
//!   written in PTX text.
//!
//! The verifier runs after every compilation; on the path without errors it allocates nothing per instruction.

mod operands;

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::instruction::{Base, Instruction, Opcode, Operand};
use crate::legality;
use crate::module::{Entry, Module, RegisterFamily, Statement, Variable};
use crate::print;
use crate::signature::{Row, Since};
use crate::table;
use crate::target::{Target, Version};
use crate::types::{Space, Type};
use operands::Legal;

/// A violated rule: a bug in the program that made the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The entry's name; empty if the violation concerns the module as a whole.
    pub entry: String,
    /// Index into the entry's body; `None` if the violation concerns its declarations.
    pub statement: Option<usize>,
    /// What is wrong, with the instruction's text.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.entry.as_str(), self.statement) {
            ("", _) => write!(f, "{}", self.message),
            (entry, None) => write!(f, "{entry}: {}", self.message),
            (entry, Some(statement)) => write!(f, "{entry}, statement {statement}: {}", self.message),
        }
    }
}

impl std::error::Error for Violation {}

/// Most violations that one verification reports.
const MAX_VIOLATIONS: usize = 100;

/// Checks a module against the rules above. Unknown instructions pass, since nothing is known about them.
pub fn verify(module: &Module) -> Result<(), Vec<Violation>> {
    let mut violations = Vec::new();
    let target = Target::from_words(&module.target);
    match target {
        None => violations.push(of_module(format!("`{}` is not a known target", module.target))),
        Some(target) if module.version < target.version() => {
            let (major, minor) = target.version();
            violations.push(of_module(format!("{} needs .version {major}.{minor}", module.target)));
        }
        Some(_) => {}
    }
    let mut declared = HashSet::new();
    for variable in &module.variables {
        let undeclared = variable.init.iter().find(|value| match value {
            Operand::Symbol(name) => !declared.contains(name.as_str()),
            Operand::SymbolOffset(symbol) => !declared.contains(symbol.0.as_str()),
            Operand::Address(address) => match &address.0 {
                Base::Symbol(name) => !declared.contains(name.as_str()),
                _ => false,
            },
            _ => false,
        });
        if undeclared.is_some() {
            violations.push(of_module(format!(
                "`{}` has the address of a variable that is not declared before it",
                variable.name
            )));
        }
        declared.insert(variable.name.as_str());
    }
    let mut entries = HashSet::new();
    for entry in &module.entries {
        if !entries.insert(entry.name.as_str()) {
            violations.push(of_module(format!("the entry `{}` is defined twice", entry.name)));
        }
        let context = Context::new(module, entry, target, &mut violations);
        context.statements(&mut violations);
    }
    violations.truncate(MAX_VIOLATIONS);
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Why an instruction does not exist in PTX, whatever module it is in: a type, a modifier or a constant that it cannot
/// have. `None` for an unknown one. The verifier checks more, and rejects all of these as well.
pub fn refusal(instruction: &Instruction) -> Option<String> {
    if let Opcode::Unknown(_) = instruction.op {
        return None;
    }
    let row = table::row(&instruction.op);
    if let Err(reason) = exists(&instruction.op, &row) {
        return Some(reason);
    }
    if let Some(reason) = legality::refuse_constants(instruction) {
        return Some(reason.to_owned());
    }
    let constants = row.slots.iter().zip(&instruction.operands);
    constants.filter_map(|(slot, operand)| operands::constant(*slot, operand).err()).next()
}

/// What an instruction needs that a module lacks: a target or a newer `.version`. `None` if it lacks nothing, and for
/// unknown instructions and targets.
pub fn lacking(instruction: &Instruction, target: Option<Target>, version: Version) -> Option<String> {
    if let Opcode::Unknown(_) = instruction.op {
        return None;
    }
    gone(&instruction.op, target, version).or_else(|| dated(instruction_since(instruction))?.lacking(target, version))
}

/// Why newer modules no longer have an instruction.
fn gone(op: &Opcode, target: Option<Target>, version: Version) -> Option<String> {
    let synced = match op {
        Opcode::ShflActive(_) => "shfl.sync",
        Opcode::VoteActive(_) => "vote.sync",
        _ => return None,
    };
    let gone = version >= (6, 4) && target.is_some_and(|target| target.sm >= 70);
    gone.then(|| format!("exists before sm_70 or before .version 6.4 only: use {synced}"))
}

/// When an instruction came. The table does not date most of those that sm_75 has; older targets may have them as well.
fn dated(since: Since) -> Option<Since> {
    Some(since).filter(|since| *since != Since::ALWAYS)
}

/// Whether an opcode has this type and these modifiers.
fn exists(op: &Opcode, row: &Row) -> Result<(), String> {
    if !row.legal.has(row.types[0]) {
        return Err(format!("`{}` has no .{} form", row.stem, row.types[0].name()));
    }
    legality::refuse(op).map_or(Ok(()), |reason| Err(reason.to_owned()))
}

/// The lowest `.version` that has the module's target and every instruction in it.
pub fn required_version(module: &Module) -> Version {
    let target = Target::from_words(&module.target);
    let mut version = target.map_or((6, 3), Target::version);
    let mut last = None;
    for statement in module.entries.iter().flat_map(|entry| &entry.body) {
        let Statement::Instruction(instruction) = statement else { continue };
        // Runs of one opcode are long, and the requirements mostly follow from the opcode.
        if last == Some(&instruction.op) && !needs_more(instruction) {
            continue;
        }
        version = version.max(instruction_since(instruction).version_for(target));
        last = Some(&instruction.op);
    }
    version
}

/// True if an operand may need a newer target or version than the opcode does: a special register, or a count of
/// arrivals.
fn needs_more(instruction: &Instruction) -> bool {
    match (&instruction.op, instruction.operands.as_slice()) {
        (Opcode::Mov(_), [_, from]) => matches!(from, Operand::Special(_)),
        (Opcode::MbarrierArrive { .. }, _) => true,
        (Opcode::Min { .. } | Opcode::Max { .. } | Opcode::Modified { .. }, [_, _, _, _]) => true,
        _ => false,
    }
}

/// The minimum or maximum of three values.
const OF_THREE: Since = Since::sm(100, (8, 8));

/// The target and version that an instruction needs.
fn instruction_since(instruction: &Instruction) -> Since {
    let special = instruction.operands.iter().filter_map(|operand| match operand {
        Operand::Special(special) => Some(table::special(*special).since),
        _ => None,
    });
    let since = special.fold(table::row(&instruction.op).since, Since::with);
    match (&instruction.op, instruction.operands.len()) {
        (Opcode::Min { ty: Type::F32, .. } | Opcode::Max { ty: Type::F32, .. }, 4) => since.with(OF_THREE),
        (Opcode::Modified { op, .. }, 4) if matches!(**op, Opcode::Min { .. } | Opcode::Max { .. }) => {
            since.with(OF_THREE)
        }
        // An arrival with a count.
        (Opcode::MbarrierArrive { .. }, 3) => since.with(table::HOPPER),
        _ => since,
    }
}

fn of_module(message: String) -> Violation {
    Violation { entry: String::new(), statement: None, message }
}

/// What instructions are checked against.
struct Context<'a> {
    entry: &'a Entry,
    target: Option<Target>,
    version: Version,
    labels: HashSet<&'a str>,
    /// Lists of labels.
    targets: HashSet<&'a str>,
    symbols: HashMap<&'a str, Space>,
}

impl<'a> Context<'a> {
    /// Collects the entry's names, and reports clashes.
    fn new(module: &'a Module, entry: &'a Entry, target: Option<Target>, violations: &mut Vec<Violation>) -> Self {
        let mut context = Context {
            entry,
            target,
            version: module.version,
            labels: HashSet::new(),
            targets: HashSet::new(),
            symbols: HashMap::new(),
        };
        let mut report =
            |statement, message| violations.push(Violation { entry: entry.name.clone(), statement, message });
        let variables =
            module.variables.iter().chain(&entry.variables).map(|Variable { name, space, .. }| (name, *space));
        let params = entry.params.iter().map(|param| (&param.name, Space::Param));
        if !is_name(&entry.name) {
            report(None, format!("`{}` is not a valid name", entry.name));
        }
        for (name, space) in variables.chain(params) {
            if !is_name(name) {
                report(None, format!("`{name}` is not a valid name"));
            }
            if context.symbols.insert(name, space).is_some() {
                report(None, format!("`{name}` is declared twice"));
            }
        }
        for (i, statement) in entry.body.iter().enumerate() {
            match statement {
                Statement::Label(name) if !is_name(name) => report(Some(i), format!("`{name}` is not a valid name")),
                Statement::Label(name) if !context.labels.insert(name) => {
                    report(Some(i), format!("the label `{name}` is bound again"));
                }
                Statement::Targets { name, .. } if !is_name(name) => {
                    report(Some(i), format!("`{name}` is not a valid name"))
                }
                Statement::Targets { name, .. } if !context.targets.insert(name) => {
                    report(Some(i), format!("the list `{name}` is defined again"));
                }
                Statement::Pragma(text) if text.contains(['"', '\n']) => {
                    report(Some(i), "a pragma's text cannot contain quotation marks or line ends".to_owned());
                }
                _ => {}
            }
        }
        for (i, statement) in entry.body.iter().enumerate() {
            let Statement::Targets { name, labels } = statement else { continue };
            if labels.is_empty() || context.labels.contains(name.as_str()) {
                report(Some(i), format!("the list `{name}` is empty, or its name is also a label"));
            }
            if let Some(label) = labels.iter().find(|label| !context.labels.contains(label.as_str())) {
                report(Some(i), format!("the label `{label}` of the list `{name}` is not bound"));
            }
        }
        families(&entry.registers, &mut |message| report(None, message));
        context
    }

    fn statements(&self, violations: &mut Vec<Violation>) {
        let mut last = None;
        for (i, statement) in self.entry.body.iter().enumerate() {
            if let Statement::Instruction(instruction) = statement
                && let Err(reason) = self.instruction(instruction, &mut last)
            {
                if violations.len() >= MAX_VIOLATIONS {
                    return;
                }
                let message = format!("`{}`: {reason}", print::instruction(instruction, self.entry));
                violations.push(Violation { entry: self.entry.name.clone(), statement: Some(i), message });
            }
        }
    }

    /// Checks an instruction. `last` is the last opcode found legal: runs of one opcode are long.
    fn instruction<'i>(&self, instruction: &'i Instruction, last: &mut Option<Legal<'i>>) -> Result<(), String> {
        if let Some(guard) = &instruction.guard
            && self.register_type(guard.pred)? != Type::Pred
        {
            return Err("the guard is not a predicate".to_owned());
        }
        if let Opcode::Unknown(_) = instruction.op {
            return Ok(());
        }
        let legal = match last {
            Some(last) if *last.op == instruction.op && !needs_more(instruction) => last,
            _ => last.insert(self.legal(instruction)?),
        };
        self.operands(legal, &instruction.operands)?;
        legality::refuse_constants(instruction).map_or(Ok(()), |reason| Err(reason.to_owned()))
    }

    /// The opcode of an instruction, if it exists with these modifiers and the target has it.
    fn legal<'i>(&self, instruction: &'i Instruction) -> Result<Legal<'i>, String> {
        let row = table::row(&instruction.op);
        exists(&instruction.op, &row)?;
        self.availability(instruction, &row)?;
        Ok(Legal::new(&instruction.op, row))
    }

    fn availability(&self, instruction: &Instruction, row: &Row) -> Result<(), String> {
        if let Some(reason) = gone(&instruction.op, self.target, self.version) {
            return Err(reason);
        }
        let since = if needs_more(instruction) { instruction_since(instruction) } else { row.since };
        dated(since).and_then(|since| since.lacking(self.target, self.version)).map_or(Ok(()), Err)
    }
}

/// PTX's own rule: a letter, or `_`, `$` or `%` followed by at least one more character; then letters, digits, `_` and
/// `$`.
fn is_name(name: &str) -> bool {
    let (first, rest) = match name.as_bytes() {
        [first, rest @ ..] => (*first, rest),
        [] => return false,
    };
    let rest_fits = rest.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
    rest_fits && (first.is_ascii_alphabetic() || (matches!(first, b'_' | b'$' | b'%') && !rest.is_empty()))
}

/// No two families may define the same register name: `%r1<10>` and `%r<20>` both define `%r15`.
fn families(families: &[RegisterFamily], report: &mut impl FnMut(String)) {
    let mut names: HashMap<&str, &RegisterFamily> = HashMap::new();
    for family in families {
        if !is_name(&family.prefix) {
            report(format!("`{}` is not a valid name", family.prefix));
        }
        if let Some(other) = names.insert(&family.prefix, family)
            && (other.count.is_some() == family.count.is_some())
        {
            report(format!("`{}` is declared twice", family.prefix));
        }
    }
    // A clash needs a name that ends in a digit, which few do.
    for family in families.iter().filter(|family| family.prefix.ends_with(|c: char| c.is_ascii_digit())) {
        let digits = family.prefix.len() - family.prefix.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        for length in 1..=digits.min(10) {
            let (prefix, number) = family.prefix.split_at(family.prefix.len() - length);
            let first: u64 = number.parse().unwrap_or(u64::MAX);
            let clash = names.get(prefix).and_then(|other| other.count).is_some_and(|count| first < u64::from(count));
            if clash {
                report(format!("`{}` is also a register of `{prefix}<…>`", family.prefix));
            }
        }
    }
}
