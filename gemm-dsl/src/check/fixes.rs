//! Tries the changes that rules propose and chooses those that work, alone and together.
//!
//! A change works if it removes the finding and adds no new one. Proposals may therefore be generous: the trial finds
//! what a rule cannot know, such as another clause that the change would break or a limit of the target.
//!
//! A repair applies the fixes that diagnostics show. So each error's fix is chosen for the schedule with the earlier
//! fixes applied, and must also work in the unfixed schedule. Clauses that state what the user asks for change last,
//! and only if nothing else helps.

use crate::check::finding::Finding;
use crate::check::{Question, judge};
use crate::diagnostic::{Edit, Fix, Scope, Severity};
use crate::keys::Group;
use crate::schedule::Schedule;

/// The maximum number of proposals to try for one finding.
const MAX_TRIES: usize = 48;

/// The maximum number of findings that get a fix: a schedule with more is more than one mistake away from a legal one.
const MAX_FIXED: usize = 16;

/// The order in which fixes are chosen. Some work only after the fixes of later errors.
const PASSES: [Scope; 3] = [Scope::Method, Scope::Method, Scope::All];

/// Gives each finding the working proposal that leaves the fewest errors; the first one wins a tie. Findings are in
/// display order.
pub(super) fn choose(schedule: &Schedule, question: Question, mut findings: Vec<Finding>) -> Vec<Finding> {
    let errors: Vec<Finding> = findings.iter().filter(|finding| is_error(finding)).cloned().collect();
    let choices: Vec<Choice> = errors.iter().take(MAX_FIXED).map(|_| Choice::default()).collect();
    let mut course = Course { start: State { schedule: schedule.clone(), errors }, now: None, choices, question };
    for scope in PASSES {
        (0..course.choices.len()).for_each(|place| course.advance(place, scope));
    }
    let told: Vec<(Option<Fix>, Option<String>)> = (0..course.choices.len()).map(|place| course.told(place)).collect();
    for (finding, (fix, help)) in findings.iter_mut().filter(|finding| is_error(finding)).zip(told) {
        finding.diagnostic.help = help.or(finding.diagnostic.help.take());
        finding.diagnostic.fix = fix;
    }
    findings
}

/// A schedule and its errors.
struct State {
    schedule: Schedule,
    errors: Vec<Finding>,
}

/// The path from a schedule to one with fewer errors.
struct Course<'q> {
    start: State,
    /// After the chosen fixes; `None` before the first one.
    now: Option<State>,
    /// The choice for each error of the first state.
    choices: Vec<Choice>,
    question: Question<'q>,
}

/// The results of trying the proposals for an error.
#[derive(Default)]
struct Choice {
    /// The fix to apply, with its help.
    fix: Option<(Fix, String)>,
    /// The help of a proposal that works only after the fixes of other errors: not yet a fix.
    later: Option<String>,
    /// The number of chosen fixes when no proposal that keeps the user's request worked.
    tried: Option<usize>,
}

/// The outcome of the proposals for an error.
enum Found {
    /// The state after the best one, and its help.
    Fix(State, Fix, String),
    /// The help of a proposal that works only after the chosen fixes.
    Later(String),
    Nothing,
}

impl Course<'_> {
    /// Chooses a fix for an error that is still there.
    fn advance(&mut self, place: usize, scope: Scope) {
        let choice = &self.choices[place];
        if choice.fix.is_some() || (scope == Scope::All && choice.later.is_some()) {
            return;
        }
        let id = identity(&self.start.errors[place]);
        // Its current proposals include earlier changes of the same clause.
        let Some(error) = self.now().errors.iter().find(|error| identity(error) == id) else { return };
        let chosen = self.choices.iter().filter(|choice| choice.fix.is_some()).count();
        let tried = choice.tried == Some(chosen);
        let mut found = self.best(&error.candidates, &id, scope, tried);
        if let Found::Nothing = found {
            found = self.best(&error.last_resorts, &id, scope, tried);
        }
        let choice = &mut self.choices[place];
        match found {
            Found::Fix(after, fix, help) => {
                choice.fix = Some((fix, help));
                self.now = Some(after);
            }
            Found::Later(help) => (choice.tried, choice.later) = (Some(chosen), Some(help)),
            Found::Nothing => choice.tried = Some(chosen),
        }
    }

    /// The state after the chosen fixes.
    fn now(&self) -> &State {
        self.now.as_ref().unwrap_or(&self.start)
    }

    /// The proposal for an error that `scope` permits and that leaves the fewest errors. If `tried`, proposals that
    /// keep the user's request are skipped.
    fn best(&self, proposals: &[(Edit, String)], id: &Identity, scope: Scope, tried: bool) -> Found {
        let now = self.now();
        let unknown = self.question.unknown.union(now.schedule.unknown);
        // A replacement for an unreadable clause would be judged without that clause.
        let known = |edit: &Edit| !edit.sets().meets(unknown);
        let mut found = Found::Nothing;
        for (edit, help) in proposals.iter().filter(|(edit, _)| known(edit)).take(MAX_TRIES) {
            let changes = edit.changes(&self.start.schedule, self.question.guessed);
            let fix = Fix { edit: edit.clone(), changes };
            let keeps = fix.given().is_empty();
            if !scope.permits(&fix) || keeps && tried {
                continue;
            }
            let after = edit.apply(&now.schedule).and_then(|after| now.without(id, after, self.question));
            let Some(after) = after else { continue };
            match &found {
                Found::Fix(best, ..) if best.errors.len() <= after.errors.len() => {}
                _ if self.now.is_none() || self.start.repaired_by(id, edit, self.question) => {
                    let last = after.errors.is_empty();
                    found = Found::Fix(after, fix, help.clone());
                    if last {
                        break;
                    }
                }
                Found::Nothing if keeps => found = Found::Later(format!("{help}, after the other fixes")),
                _ => {}
            }
        }
        found
    }

    /// The fix and the help of an error: its own, or those of a fix that repairs both errors.
    fn told(&self, place: usize) -> (Option<Fix>, Option<String>) {
        let (error, choice) = (&self.start.errors[place], &self.choices[place]);
        let id = identity(error);
        let other = || {
            // A fix that repairs both alone may leave this error after earlier fixes.
            if self.now.as_ref().is_none_or(|now| now.errors.iter().any(|left| identity(left) == id)) {
                return None;
            }
            let fixes = self.choices.iter().filter_map(|choice| choice.fix.as_ref());
            let (fix, _) = fixes.into_iter().find(|(fix, _)| self.start.repaired_by(&id, &fix.edit, self.question))?;
            let own = error.candidates.iter().chain(&error.last_resorts).find(|(edit, _)| *edit == fix.edit);
            let several = matches!(&fix.edit, Edit::Set(clauses) if clauses.contains(';'));
            let also = || format!("{} {} this, too", fix.edit, if several { "repair" } else { "repairs" });
            Some((fix.clone(), own.map_or_else(also, |(_, help)| help.clone())))
        };
        let Some((fix, help)) = choice.fix.clone().or_else(other) else { return (None, choice.later.clone()) };
        let subjects: Vec<&str> = fix.given().into_iter().map(Group::subject).collect();
        let help = if subjects.is_empty() { help } else { format!("{help} (changes {})", subjects.join(" and ")) };
        (Some(fix), Some(help))
    }
}

impl State {
    /// The state of a changed schedule, if the change repairs an error and adds none.
    fn without(&self, id: &Identity, schedule: Schedule, question: Question) -> Option<State> {
        let mut others: Vec<Identity> = self.errors.iter().map(identity).collect();
        others.swap_remove(others.iter().position(|other| other == id)?);
        let errors: Vec<Finding> = judge(&schedule, question).findings.into_iter().filter(is_error).collect();
        for error in &errors {
            // An error that occurred twice may still occur twice.
            let known = others.iter().position(|other| *other == identity(error))?;
            others.swap_remove(known);
        }
        Some(State { schedule, errors })
    }

    fn repaired_by(&self, id: &Identity, edit: &Edit, question: Question) -> bool {
        edit.apply(&self.schedule).is_some_and(|schedule| self.without(id, schedule, question).is_some())
    }
}

fn is_error(finding: &Finding) -> bool {
    finding.diagnostic.severity == Severity::Error
}

/// What identifies a finding.
type Identity = (&'static str, String, String);

fn identity(finding: &Finding) -> Identity {
    (finding.diagnostic.rule, finding.diagnostic.clause.clone(), finding.subject.clone())
}
