//! Chooses the first change that works from those that a rule proposes.
//!
//! A change works if, with it, the finding is gone and nothing new is found. Proposals may therefore be generous: what a
//! rule cannot know (another clause that the change would break, a limit of the target) is found out here.

use crate::check::finding::Finding;
use crate::check::{Question, judge};
use crate::diagnostic::{Fix, Severity};
use crate::schedule::Schedule;

/// The maximum number of proposals that are tried for one finding.
const MAX_TRIES: usize = 48;

/// The maximum number of findings that get a fix: with more, a schedule is not one mistake away from a legal one.
const MAX_FIXED: usize = 16;

/// Gives every finding the proposal that leaves the fewest errors (the first one on a tie), if any works.
pub(super) fn choose(schedule: &Schedule, question: Question, mut findings: Vec<Finding>) -> Vec<Finding> {
    let errors: Vec<Identity> = findings.iter().filter(|f| is_error(f)).map(identity).collect();
    let unknown = question.unknown.union(schedule.unknown);
    for finding in findings.iter_mut().filter(|finding| is_error(finding)).take(MAX_FIXED) {
        let mut others = errors.clone();
        if let Some(own) = others.iter().position(|id| *id == identity(finding)) {
            others.swap_remove(own);
        }
        // A replacement for a clause that could not be read would be judged without that clause.
        let known = |fix: &Fix| !fix.keys().is_some_and(|keys| keys.meets(unknown));
        let candidates =
            std::mem::take(&mut finding.candidates).into_iter().filter(|(fix, _)| known(fix)).take(MAX_TRIES);
        let working = candidates.filter_map(|(fix, help)| Some((left(&fix, schedule, question, &others)?, fix, help)));
        if let Some((_, fix, help)) = working.min_by_key(|(left, ..)| *left) {
            finding.diagnostic.help = Some(help);
            finding.diagnostic.fix = Some(fix);
        }
    }
    findings
}

/// The number of errors left after a change; `None` if one of them is new.
fn left(fix: &Fix, schedule: &Schedule, question: Question, others: &[Identity]) -> Option<usize> {
    let after = judge(&fix.apply(schedule)?, question).findings;
    let mut others = others.to_vec();
    let mut count = 0;
    for error in after.iter().filter(|finding| is_error(finding)) {
        // An error that occurred twice may still occur twice.
        let known = others.iter().position(|id| *id == identity(error))?;
        others.swap_remove(known);
        count += 1;
    }
    Some(count)
}

fn is_error(finding: &Finding) -> bool {
    finding.diagnostic.severity == Severity::Error
}

/// What identifies a finding.
type Identity = (&'static str, String, String);

fn identity(finding: &Finding) -> Identity {
    (finding.diagnostic.rule, finding.diagnostic.clause.clone(), finding.subject.clone())
}
