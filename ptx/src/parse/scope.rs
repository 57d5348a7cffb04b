//! Names of an entry (registers, variables and labels) in nested scopes, which a module cannot represent.

use std::collections::{HashMap, HashSet};

use crate::instruction::{Instruction, Operand, Reg};
use crate::module::{RegisterFamily, Statement};
use crate::types::Type;

/// The names of one `{ }`.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// Registers declared on their own.
    singles: HashMap<&'a str, u16>,
    /// Families by prefix.
    families: HashMap<&'a str, u16>,
    /// Vectors of registers, and families of them.
    vectors: HashMap<&'a str, Vectors>,
    /// Variables and parameters: the module's names for them, and the bytes of an element.
    symbols: HashMap<&'a str, (String, u32)>,
    /// Labels bound here.
    labels: Vec<&'a str>,
    /// Index of the body's statement at which the scope starts.
    start: usize,
}

/// Vector registers: each component is a register of its own, or a family.
#[derive(Clone, Copy)]
struct Vectors {
    /// The family of the first component.
    first: u16,
    lanes: u16,
    count: Option<u32>,
}

/// The names of one entry.
pub(super) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    pub registers: Vec<RegisterFamily>,
    /// Names that the flat entry already uses, without their trailing digits: `%r5` and `%r<10>` would clash.
    taken: HashSet<String>,
    /// Number of the latest renaming. It never repeats, which keeps the search for a free name short.
    renamings: usize,
}

/// Why a register cannot be declared.
pub(super) enum Refused {
    Twice,
    TooMany,
}

impl<'a> Names<'a> {
    pub fn new() -> Self {
        Names { scopes: vec![Scope::default()], registers: Vec::new(), taken: HashSet::new(), renamings: 0 }
    }

    pub fn depth(&self) -> usize {
        self.scopes.len()
    }

    pub fn open(&mut self, start: usize) {
        self.scopes.push(Scope { start, ..Scope::default() });
    }

    /// Closes a nested scope. Its labels are renamed, since the flat body may bind each name only once.
    pub fn close(&mut self, body: &mut [Statement]) {
        let Some(scope) = self.scopes.pop() else { return };
        if scope.labels.is_empty() {
            return;
        }
        let mut renamed = HashMap::new();
        for label in scope.labels {
            let fresh = self.fresh(label);
            renamed.insert(label, fresh);
        }
        for statement in body.get_mut(scope.start..).unwrap_or_default() {
            match statement {
                Statement::Label(name) => rename(name, &renamed),
                Statement::Targets { name, labels } => {
                    rename(name, &renamed);
                    labels.iter_mut().for_each(|label| rename(label, &renamed));
                }
                Statement::Instruction(Instruction { operands, .. }) => {
                    for operand in operands {
                        if let Operand::Label(name) = operand {
                            rename(name, &renamed);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    pub fn label(&mut self, name: &'a str) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.labels.push(name);
        }
    }

    /// Declares a variable or parameter and returns the module's name for it.
    pub fn symbol(&mut self, name: &'a str, element: u32) -> Option<String> {
        let flat = if self.scopes.len() > 1 { self.free(name) } else { name.to_owned() };
        self.taken.insert(stem(name).to_owned());
        let scope = self.scopes.last_mut()?;
        scope.symbols.insert(name, (flat.clone(), element)).is_none().then_some(flat)
    }

    /// Declares a register or, with a count, a family.
    pub fn register(&mut self, name: &'a str, mut family: RegisterFamily) -> Result<(), Refused> {
        let index = u16::try_from(self.registers.len()).map_err(|_| Refused::TooMany)?;
        if self.scopes.len() > 1 {
            family.prefix = self.free(name);
        }
        self.taken.insert(stem(name).to_owned());
        let scope = self.scopes.last_mut().ok_or(Refused::TooMany)?;
        let names = if family.count.is_some() { &mut scope.families } else { &mut scope.singles };
        if names.insert(name, index).is_some() {
            return Err(Refused::Twice);
        }
        self.registers.push(family);
        Ok(())
    }

    /// Declares vectors of registers.
    pub fn vectors(&mut self, name: &'a str, lanes: u16, family: &RegisterFamily) -> Result<(), Refused> {
        let end = u16::try_from(self.registers.len() + usize::from(lanes)).map_err(|_| Refused::TooMany)?;
        let vectors = Vectors { first: end - lanes, lanes, count: family.count };
        for component in ["x", "y", "z", "w"].into_iter().take(lanes.into()) {
            let prefix = self.fresh(&format!("{name}_{component}"));
            self.registers.push(RegisterFamily { prefix, ..family.clone() });
        }
        let scope = self.scopes.last_mut().ok_or(Refused::TooMany)?;
        scope.vectors.insert(name, vectors).map_or(Ok(()), |_| Err(Refused::Twice))
    }

    /// A register for an intermediate value.
    pub fn scratch(&mut self, ty: Type) -> Option<Reg> {
        let family = u16::try_from(self.registers.len()).ok()?;
        let prefix = self.fresh("%moved");
        self.registers.push(RegisterFamily { ty, prefix, count: None, comment: None });
        Some(Reg { family, index: 0 })
    }

    /// The registers of a vector, innermost scope first.
    pub fn find_vector(&self, name: &str) -> Option<impl Iterator<Item = Reg> + use<>> {
        let (vectors, index) =
            self.scopes.iter().rev().filter(|scope| !scope.vectors.is_empty()).find_map(|scope| {
                let single = scope.vectors.get(name).filter(|vectors| vectors.count.is_none());
                single.map(|vectors| (*vectors, 0)).or_else(|| {
                    splits(name).find_map(|(prefix, index)| {
                        let vectors = scope.vectors.get(prefix)?;
                        (index < vectors.count?).then_some((*vectors, index))
                    })
                })
            })?;
        Some((vectors.first..vectors.first + vectors.lanes).map(move |family| Reg { family, index }))
    }

    /// The register of this name, innermost scope first.
    pub fn find_register(&self, name: &str) -> Option<Reg> {
        self.find_scalar(name).or_else(|| {
            // A component of a vector, by its place or as a colour.
            let (vector, component) = name.split_once('.')?;
            let index = match component {
                "x" | "r" => 0,
                "y" | "g" => 1,
                "z" | "b" => 2,
                "w" | "a" => 3,
                _ => return None,
            };
            self.find_vector(vector)?.nth(index)
        })
    }

    fn find_scalar(&self, name: &str) -> Option<Reg> {
        self.scopes.iter().rev().find_map(|scope| {
            if let Some(&family) = scope.singles.get(name) {
                return Some(Reg { family, index: 0 });
            }
            if scope.families.is_empty() {
                return None;
            }
            splits(name).find_map(|(prefix, index)| {
                let &family = scope.families.get(prefix)?;
                let count = self.registers.get(usize::from(family))?.count?;
                (index < count).then_some(Reg { family, index })
            })
        })
    }

    /// The module's name for this variable.
    pub fn find_symbol(&self, name: &str) -> Option<&str> {
        self.scopes.iter().rev().find_map(|scope| scope.symbols.get(name)).map(|(flat, _)| flat.as_str())
    }

    /// Bytes of an element of this variable.
    pub fn find_element(&self, name: &str) -> Option<u32> {
        self.scopes.iter().rev().find_map(|scope| scope.symbols.get(name)).map(|(_, element)| *element)
    }

    /// The name itself if nothing clashes with it, otherwise a fresh one.
    fn free(&mut self, name: &str) -> String {
        if self.taken.contains(stem(name)) { self.fresh(name) } else { name.to_owned() }
    }

    fn fresh(&mut self, name: &str) -> String {
        loop {
            self.renamings += 1;
            // The last character is not a digit, so that the name cannot run into the number of a family's register.
            let fresh = format!("{name}_s{}_", self.renamings);
            if self.taken.insert(fresh.clone()) {
                return fresh;
            }
        }
    }
}

fn rename(name: &mut String, renamed: &HashMap<&str, String>) {
    if let Some(fresh) = renamed.get(name.as_str()) {
        name.clone_from(fresh);
    }
}

fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Every way to read a name as a prefix and a number without leading zeros: `%r10` is `%r` and 10, or `%r1` and 0.
fn splits(name: &str) -> impl Iterator<Item = (&str, u32)> {
    let digits = name.len() - stem(name).len();
    // A u32 has at most ten digits.
    (1..=digits.min(10)).rev().filter_map(move |digits| {
        let (prefix, number) = name.split_at(name.len() - digits);
        let canonical = number == "0" || !number.starts_with('0');
        Some((prefix, number.parse().ok().filter(|_| canonical)?))
    })
}
