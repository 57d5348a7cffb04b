//! Applies each of the fixes that are offered for wrong schedules on its own.

use std::collections::BTreeMap;

use ptx_gemm_dsl::repair::{Repair, Scope, diagnose, repair};
use serde::Serialize;

use super::wrong::wrong_schedule;

/// The results of the fixes of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Errors of this rule.
    pub errors: usize,
    /// Errors that come with a fix.
    pub offered: usize,
    /// Fixes that lead to a legal schedule.
    pub legal: usize,
    /// Fixes that lead to fewer errors.
    pub fewer: usize,
    /// All other fixes.
    pub no_better: usize,
}

/// A fix that does not reduce the number of errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Useless {
    /// The seed of the wrong schedule.
    pub seed: u64,
    /// The wrong schedule.
    pub text: String,
    /// The error, with its help.
    pub error: String,
    /// The schedule with the fix; `None` if the fix cannot be applied.
    pub fixed: Option<String>,
    /// The diagnostics of that schedule.
    pub after: String,
}

/// A repair that changes what is computed, the contracts or the target without being asked to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unasked {
    /// The seed of the wrong schedule.
    pub seed: u64,
    /// The wrong schedule.
    pub text: String,
    /// What it changes.
    pub changes: Vec<String>,
}

/// The results of the fixes of many wrong schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fixes {
    /// Wrong schedules.
    pub schedules: usize,
    /// Those that the fixes make legal that only change how the product is computed.
    pub repaired: usize,
    /// Those that all the fixes together make legal.
    pub repaired_by_all: usize,
    /// By the name of the rule.
    pub rules: BTreeMap<&'static str, Outcomes>,
    /// Fixes that are not an improvement.
    pub useless: Vec<Useless>,
    /// Repairs that change more than they may.
    pub unasked: Vec<Unasked>,
}

impl Fixes {
    /// All rules together.
    pub fn total(&self) -> Outcomes {
        self.rules.values().fold(Outcomes::default(), |all, one| Outcomes {
            errors: all.errors + one.errors,
            offered: all.offered + one.offered,
            legal: all.legal + one.legal,
            fewer: all.fewer + one.fewer,
            no_better: all.no_better + one.no_better,
        })
    }

    /// Applies every fix of the wrong schedule of a seed, each on its own, and then all of them.
    pub fn add(&mut self, seed: u64) {
        let text = wrong_schedule(seed);
        let said = diagnose(&text, None);
        let before = said.errors().count();
        if before == 0 {
            return;
        }
        self.schedules += 1;
        self.repaired_by_all += usize::from(repair(&text, None, Scope::All).is_legal());
        let plain = repair(&text, None, Scope::Method);
        self.repaired += usize::from(plain.is_legal());
        let changes = given(&plain);
        if !changes.is_empty() {
            self.unasked.push(Unasked { seed, text: text.clone(), changes });
        }
        for error in said.errors() {
            let outcomes = self.rules.entry(error.rule).or_default();
            outcomes.errors += 1;
            if error.fix.is_none() {
                continue;
            }
            outcomes.offered += 1;
            let fixed = error.fixed(&text);
            let after = diagnose(fixed.as_deref().unwrap_or(&text), None);
            match after.errors().count() {
                0 => outcomes.legal += 1,
                left if left < before => outcomes.fewer += 1,
                _ => {
                    outcomes.no_better += 1;
                    let (error, after) = (error.to_string(), after.to_string());
                    self.useless.push(Useless { seed, text: text.clone(), error, fixed, after });
                }
            }
        }
    }
}

/// What a repair changes of what the user asks for.
fn given(repair: &Repair) -> Vec<String> {
    repair.changes.iter().flat_map(|change| &change.given).map(ToString::to_string).collect()
}
