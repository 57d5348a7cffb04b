//! From text to a schedule, and from a schedule to its plan, checked by the rules of [`crate::check`].

use std::sync::Arc;

use crate::check::{self, Conflict};
use crate::clause::Clause;
use crate::diagnostics::Diagnostics;
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::table::Key;
use crate::target::Target;
use crate::types::Problem;

impl Schedule {
    /// Reads a schedule from text, such as a `.gemm` file.
    ///
    /// An error lists every mistake, not only those of the grammar.
    pub fn parse(text: &str) -> Result<Schedule, Diagnostics> {
        Schedule::parse_for(text, None)
    }

    /// The same for a target, which the rules take into account.
    pub fn parse_for(text: &str, target: Option<Target>) -> Result<Schedule, Diagnostics> {
        let source: Arc<str> = text.into();
        let parsed = Schedule::read(text);
        let (errors, unknown) = (parsed.errors, parsed.unknown);
        let schedule = Schedule { items: parsed.items, source: Some(source), ..Schedule::default() };
        if errors.is_empty() { Ok(schedule) } else { Err(check::report(&schedule, target, unknown, errors)) }
    }

    /// Reads clauses that need not be a whole schedule, such as those that every candidate of a search has.
    ///
    /// # Errors
    ///
    /// The mistakes of the grammar: what else a schedule needs is not asked for.
    pub fn parse_part(text: &str) -> Result<Schedule, Diagnostics> {
        let parsed = Schedule::read(text);
        let schedule = Schedule { items: parsed.items, source: Some(text.into()), ..Schedule::default() };
        if parsed.errors.is_empty() { Ok(schedule) } else { Err(check::mistakes(&schedule, parsed.errors)) }
    }

    /// The problem that the schedule computes: types, layouts, epilogue, batch.
    pub fn problem(&self) -> Result<Problem, Diagnostics> {
        check::problem(self)
    }

    /// Derives the plan for `target`, else for the schedule's own target, else for the first that suffices.
    pub fn plan(&self, target: Option<Target>) -> Result<Plan, Diagnostics> {
        check::plan(self, target).map(|(plan, _)| plan)
    }

    /// The plan for `target`, as [`Schedule::plan`] derives it. Its errors are for searches: they come without fixes, since finding
    /// these takes longer than the rules.
    ///
    /// # Errors
    ///
    /// Every rule that the schedule breaks.
    pub fn plan_or_conflicts(&self, target: Option<Target>) -> Result<Plan, Vec<Conflict>> {
        check::plan_or_conflicts(self, target)
    }

    /// The target to compile for if none is requested: the schedule's own target, else the newest one that a GPU of
    /// this compute capability runs. `None`, without a GPU, stands for the first target with sufficient instructions
    /// and limits.
    pub fn target_on(&self, capability: Option<u32>) -> Option<Target> {
        match self.get(Key::Target) {
            Some(Clause::Target(own)) => Some(*own),
            _ => capability.and_then(Target::newest),
        }
    }

    /// The plan for [`Schedule::target_on`]; for the first target that suffices if that one does not.
    pub fn plan_on(&self, capability: Option<u32>) -> Result<Plan, Diagnostics> {
        match self.plan(self.target_on(capability)) {
            // A contract that is broken on this GPU is an error, even if it holds elsewhere.
            Err(errors) if errors.errors().all(|error| error.rule == "expect") => Err(errors),
            // When a kernel of the more capable target is loaded, its plan tells what the GPU lacks.
            Err(_) => self.plan(None),
            plan => plan,
        }
    }

    /// Checks everything that a plan needs; returns notes about legal but noteworthy things.
    pub fn check(&self) -> Result<Diagnostics, Diagnostics> {
        check::plan(self, None).map(|(_, notes)| notes)
    }
}

/// The diagnostics about a text: errors, or notes.
pub(crate) fn read_for(text: &str, target: Option<Target>) -> Result<Diagnostics, Diagnostics> {
    let schedule = Schedule::parse_for(text, target)?;
    check::plan(&schedule, target).map(|(_, notes)| notes)
}

impl Plan {
    /// Derives the plan of `schedule` for `target`.
    pub fn new(problem: &Problem, schedule: &Schedule, target: Target) -> Result<Plan, Diagnostics> {
        check::plan_of(problem, schedule, target)
    }
}
