//! The state of the traversal in [`super::memory`]: the number that each register holds, and what is known about each
//! number.

use super::value::{Fact, Facts, Known, NOWHERE, Number, START, TID};
use crate::kernel::{Expr, Kernel, Numbering, Reg};

/// How registers are looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// As they were assigned.
    Assigned,
    /// Recomputed from their definitions, under the assumed facts.
    Recomputed,
}

/// The number that a register holds, and the time of the assignment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) number: Number,
    pub(super) since: u32,
}

pub(super) struct Analysis<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) numbering: Numbering,
    pub(super) registers: Vec<Held>,
    /// By number: what is known about it.
    pub(super) known: Vec<Known>,
    /// By number: the expression that computed it, and when.
    pub(super) made: Vec<Option<(&'k Expr, u32)>>,
    pub(super) facts: Vec<Fact>,
    /// The number of assignments so far.
    pub(super) clock: u32,
}

impl<'k> Analysis<'k> {
    pub(super) fn number(&self, reg: Reg) -> Number {
        self.registers[self.numbering.of(reg)].number
    }

    /// The number of an expression that is a single register or the thread's index.
    pub(super) fn number_of(&self, value: &Expr) -> Number {
        match value {
            Expr::Reg(reg, _) => self.number(*reg),
            Expr::Tid(_) => TID,
            _ => NOWHERE,
        }
    }

    pub(super) fn known(&self, number: Number, assume: &[Fact]) -> Known {
        // Copied as a whole, like a table entry: if it were assembled here, each later copy would wait for its parts.
        static ANY: Known = Known::any(true);
        let mut known = *self.known.get(number.0 as usize).unwrap_or(&ANY);
        assume.iter().for_each(|fact| known.refine(number, *fact));
        known
    }

    pub(super) fn facts(&self, facts: Facts) -> &[Fact] {
        &self.facts[facts.start as usize..facts.end as usize]
    }

    /// Collects the facts that concern one number.
    pub(super) fn list(&mut self, facts: impl IntoIterator<Item = Fact>) -> Facts {
        let start = self.facts.len() as u32;
        self.facts.extend(facts.into_iter().filter(|fact| {
            let (Fact::AtLeast(number, _) | Fact::Below(number, _)) = fact;
            *number != NOWHERE && *number != START
        }));
        Facts { start, end: self.facts.len() as u32 }
    }

    pub(super) fn both(&mut self, x: Facts, y: Facts) -> Facts {
        let start = self.facts.len() as u32;
        self.facts.extend_from_within(x.start as usize..x.end as usize);
        self.facts.extend_from_within(y.start as usize..y.end as usize);
        Facts { start, end: self.facts.len() as u32 }
    }

    pub(super) fn renew(&mut self, register: usize, known: Known, made: Option<&'k Expr>) {
        self.clock += 1;
        self.known.push(known);
        self.made.push(made.map(|value| (value, self.clock)));
        // An expression that reads the register it is assigned to was computed from the register's previous value.
        self.registers[register] = Held { number: Number(self.known.len() as u32 - 1), since: self.clock + 1 };
        self.clock += 1;
    }

    pub(super) fn hold(&mut self, reg: Reg, number: Number) {
        self.clock += 1;
        self.registers[self.numbering.of(reg)] = Held { number, since: self.clock };
    }
}
