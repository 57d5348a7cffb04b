//! Of the changes that a rule proposes, the first one that works.
//!
//! A change works if, with it, the finding is gone and nothing new is found. Proposals may therefore be generous: what a
//! rule cannot know (another clause that the change would break, a limit of the target) is found out here.

use crate::check::finding::Finding;
use crate::check::judge;
use crate::diagnostic::{Fix, Severity};
use crate::keys::KeySet;
use crate::schedule::Schedule;
use crate::target::Target;

/// Most proposals that are tried for one finding.
const MAX_TRIES: usize = 48;

/// Gives every finding the first of its proposals that works.
pub(super) fn choose(
    schedule: &Schedule,
    target: Option<Target>,
    unknown: KeySet,
    mut findings: Vec<Finding>,
) -> Vec<Finding> {
    let before: Vec<(&'static str, String)> = findings.iter().map(identity).collect();
    for (index, finding) in findings.iter_mut().enumerate() {
        let works = |fix: &Fix| {
            let Some(changed) = fix.apply(schedule) else { return false };
            let after = judge(&changed, target, unknown).findings;
            let errors = after.iter().filter(|finding| finding.diagnostic.severity == Severity::Error);
            let mut allowed = before.clone();
            allowed.remove(index);
            // Each error that is left must have been there before, as often as before.
            errors.map(identity).all(|id| match allowed.iter().position(|known| *known == id) {
                Some(at) => {
                    allowed.swap_remove(at);
                    true
                }
                None => false,
            })
        };
        let candidates = std::mem::take(&mut finding.candidates);
        if let Some((fix, help)) = candidates.into_iter().take(MAX_TRIES).find(|(fix, _)| works(fix)) {
            finding.diagnostic.help = Some(help);
            finding.diagnostic.fix = Some(fix);
        }
    }
    findings
}

/// What makes two findings the same one.
fn identity(finding: &Finding) -> (&'static str, String) {
    (finding.diagnostic.rule, finding.diagnostic.clause.clone())
}

impl Fix {
    /// The schedule with this change; `None` for [`Fix::Spell`], which changes text before it is a schedule.
    pub fn apply(&self, schedule: &Schedule) -> Option<Schedule> {
        match self {
            Fix::Spell(_) => None,
            Fix::Set(text) => Some(schedule.clone().with(Schedule::parse(text).ok()?)),
            Fix::Remove(name) => {
                let mut schedule = schedule.clone();
                schedule.items.retain(|item| item.clause.name() != name);
                Some(schedule)
            }
        }
    }
}
