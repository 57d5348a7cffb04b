//! Every rule of the language, and the plan that follows if none is broken.
//!
//! Rules see the whole schedule and report everything at once. Each rule states the kinds of clauses that its verdict
//! depends on. The same rules therefore serve a partly unknown schedule (holes in a macro, an extended base, a clause
//! with a syntax error): verdicts that depend on something unknown are dropped, the others are kept.

mod access;
mod assemble;
mod cluster;
mod conflicts;
mod contracts;
mod demands;
mod emulation;
mod epilogue;
mod even;
mod exchange;
mod finding;
mod fixes;
mod geometry;
mod lent;
mod loaded_c;
mod output;
mod params;
mod problem;
mod registers;
mod requirements;
mod resources;
mod roles;
mod settings;
mod staging;
mod steps;
mod strassen;
mod tensor;
mod tma;
mod values;

use crate::clause::Clause;
use crate::diagnostic::{Change, Diagnostic, Kind, Severity};
use crate::diagnostics::Diagnostics;
use crate::implemented;
use crate::keys::{Group, KeySet};
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::table::Key;
use crate::target::Target;
use crate::types::Problem;

use finding::{Finding, Findings};
use settings::Settings;

/// The maximum number of diagnostics for one schedule: more than anyone reads, and a bound for hostile text.
const MAX_TOLD: usize = 64;

/// The context in which the rules judge a schedule.
#[derive(Clone, Copy, Default)]
struct Question<'p> {
    /// The problem to compute, if it differs from the schedule's own clauses.
    problem: Option<&'p Problem>,
    /// The target that the caller compiles for.
    target: Option<Target>,
    /// The unknown kinds of clauses.
    unknown: KeySet,
    /// Misspelt clauses, read as their likely meaning.
    guessed: &'p [Change],
}

/// The verdict of the rules on one schedule.
struct Verdict {
    /// In clause order.
    findings: Vec<Finding>,
    plan: Option<Plan>,
}

/// Runs every rule.
fn judge(schedule: &Schedule, question: Question) -> Verdict {
    let mut unknown = question.unknown.union(schedule.unknown);
    if unknown.contains(Key::Transposed) {
        // Unknown: the operand that a type or a layout belongs to.
        unknown = unknown.union(KeySet::of(&[Key::Types, Key::Layout, Key::Epilogue]));
    }
    let mut own = Findings::default();
    values::check(schedule, &mut own);
    // A clause with impossible numbers is unknown to every other rule.
    let senseless = own.list.iter().fold(KeySet::default(), |keys, finding| keys.union(finding.depends));

    let mut settings = Settings::new(schedule, senseless);
    if let Some(problem) = question.problem {
        settings.asked = problem.asked();
        settings.problem = settings::computed(schedule, problem.asked());
    }
    let mut findings = Findings::default();
    conflicts::check(schedule, &settings, &mut findings);
    problem::check(&settings, &mut findings);
    tensor::check(&settings, &mut findings);
    emulation::check(&settings, &mut findings);
    strassen::check(&settings, &mut findings);
    let geometry = geometry::derive(&settings, &mut findings);
    let staging = staging::derive(&settings);
    steps::check(&settings, &mut findings);
    roles::check(&settings, geometry.as_ref(), &mut findings);
    let mut known = None;
    if let Some(geometry) = &geometry {
        registers::check(&settings, geometry, &mut findings);
        epilogue::check(&settings, geometry, &mut findings);
        if let Some(block) = assemble::block(&settings) {
            let inputs = access::inputs(&settings, block, geometry, staging.as_ref());
            demands::check(&settings, &inputs, geometry, &mut findings);
            known = Some(inputs);
        }
    }
    lent::check(&settings, staging.as_ref(), &mut findings);
    loaded_c::check(&settings, &mut findings);
    tma::check(&settings, known.as_ref(), &mut findings);
    cluster::check(&settings, known.as_ref(), &mut findings);
    even::check(&settings, &mut findings);
    exchange::check(&settings, geometry.as_ref(), &mut findings);
    let needs = resources::Needs::new(&settings, geometry.as_ref(), staging.as_ref());
    let target = needs.target(question.target, unknown.union(senseless), &mut findings);
    findings.list.retain(|finding| !finding.depends.meets(unknown.union(senseless)));
    own.list.extend(findings.list);
    not_implemented(schedule, &mut own);
    own.list.retain(|finding| !finding.depends.meets(unknown));

    let fine = own.list.iter().all(|finding| finding.diagnostic.severity != Severity::Error);
    let plan = geometry.filter(|_| fine).and_then(|geometry| assemble::plan(&settings, geometry, staging, target));
    let plan = plan.map(|plan| Plan { filled: schedule.filled().cloned(), ..plan });
    // Contracts are checked only if the plan has no other error.
    let mut broken = Findings::default();
    if let Some(plan) = plan.as_ref().filter(|_| !settings.limits.expect.is_empty()) {
        contracts::check(&settings, plan, &mut broken);
        broken.list.retain(|finding| !finding.depends.meets(unknown));
    }
    let plan = plan.filter(|_| broken.list.is_empty());
    if let Some(plan) = &plan {
        registers::occupancy(&settings, plan, &mut broken);
    }
    own.list.extend(broken.list);
    own.list.sort_by_key(|finding| finding.order(schedule));
    Verdict { findings: own.list, plan }
}

fn not_implemented(schedule: &Schedule, findings: &mut Findings) {
    let clauses: Vec<&Clause> = schedule.clauses().collect();
    for missing in implemented::missing(&clauses) {
        let message = format!("{} is not implemented yet", missing.what);
        let finding = findings.error("not-implemented", missing.key, &[], message);
        finding.diagnostic.kind = Kind::NotImplemented;
        if missing.instead.is_empty() {
            let name = finding.diagnostic.clause.clone();
            finding.remove(&name, format!("leave {name} out"));
        }
        for text in missing.instead {
            let verb = if text.contains(';') { "work" } else { "works" };
            finding.set(&text, format!("{text} {verb} today"));
        }
    }
}

/// The verdict's findings as diagnostics in source order, merged with earlier ones.
fn diagnostics(schedule: &Schedule, findings: Vec<Finding>, before: Vec<Diagnostic>) -> Diagnostics {
    // Spelling errors come before errors of meaning.
    let told = |diagnostic: Diagnostic| (diagnostic.span.map_or(u32::MAX, |span| span.start), diagnostic);
    let mut list: Vec<(u32, Diagnostic)> = before.into_iter().map(told).collect();
    for finding in findings {
        let order = finding.order(schedule);
        let item = finding.place(schedule);
        let mut diagnostic = finding.diagnostic;
        if let Some(index) = item {
            diagnostic.span = schedule.items[index].span;
            diagnostic.clause = schedule.items[index].clause.name().into();
        }
        list.push((order, diagnostic));
    }
    list.sort_by_key(|(order, _)| *order);
    let mut list: Vec<Diagnostic> = list.into_iter().map(|(_, diagnostic)| diagnostic).collect();
    if list.len() > MAX_TOLD {
        let message = format!("and {} more", list.len() - MAX_TOLD);
        list.truncate(MAX_TOLD);
        list.push(Diagnostic::error("more", "schedule", message));
    }
    Diagnostics::new(list).in_text(schedule.source.clone())
}

/// The plan and the notes, or the errors together with the notes.
pub(crate) fn plan(schedule: &Schedule, target: Option<Target>) -> Result<(Plan, Diagnostics), Diagnostics> {
    answer(schedule, Question { target, ..Question::default() })
}

/// A rule that a schedule breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The rule's name.
    pub rule: &'static str,
    /// The kinds of clauses that the verdict depends on, absent ones included: every schedule with the same clauses of these kinds
    /// breaks the rule.
    pub keys: KeySet,
}

/// The plan, or every broken rule.
pub(crate) fn plan_or_conflicts(schedule: &Schedule, target: Option<Target>) -> Result<Plan, Vec<Conflict>> {
    let verdict = judge(schedule, Question { target, ..Question::default() });
    let unreadable = schedule.errors.iter().map(|error| Conflict { rule: error.rule, keys: KeySet::all() });
    let broken = verdict.findings.iter().filter(|finding| finding.diagnostic.severity == Severity::Error);
    let broken = broken.map(|error| Conflict { rule: error.diagnostic.rule, keys: error.depends });
    match verdict.plan {
        Some(plan) if schedule.errors.is_empty() => Ok(plan),
        _ => Err(unreadable.chain(broken).collect()),
    }
}

/// The plan of a schedule for a problem and a target.
pub(crate) fn plan_of(problem: &Problem, schedule: &Schedule, target: Target) -> Result<Plan, Diagnostics> {
    let question = Question { problem: Some(problem), target: Some(target), ..Question::default() };
    answer(schedule, question).map(|(plan, _)| plan)
}

fn answer(schedule: &Schedule, question: Question) -> Result<(Plan, Diagnostics), Diagnostics> {
    let verdict = judge(schedule, question);
    let findings = fixes::choose(schedule, question, verdict.findings);
    let all = diagnostics(schedule, findings, schedule.errors.clone());
    match verdict.plan {
        Some(plan) if schedule.errors.is_empty() => Ok((plan, all)),
        _ => Err(all),
    }
}

/// Every error in a schedule that already has `errors`; its clauses in `unknown` are not known.
pub(crate) fn report(
    schedule: &Schedule,
    target: Option<Target>,
    unknown: KeySet,
    errors: Vec<Diagnostic>,
) -> Diagnostics {
    let spelled = errors.iter().filter_map(|error| error.fix.as_ref());
    let guessed: Vec<Change> = spelled.flat_map(|fix| fix.changes.iter().copied()).collect();
    let question = Question { target, unknown, guessed: &guessed, ..Question::default() };
    let findings = fixes::choose(schedule, question, judge(schedule, question).findings);
    let mut all = diagnostics(schedule, findings, errors);
    all.retain_errors();
    all
}

/// What is wrong with a text, by the grammar alone.
pub(crate) fn mistakes(schedule: &Schedule, errors: Vec<Diagnostic>) -> Diagnostics {
    diagnostics(schedule, Vec::new(), errors)
}

/// What the schedule computes.
pub(crate) fn problem(schedule: &Schedule) -> Result<Problem, Diagnostics> {
    let question = Question::default();
    let concerns = |finding: &Finding| {
        let of_problem = finding.anchor.is_some_and(|key| key.group() == Group::Problem);
        finding.diagnostic.severity == Severity::Error && of_problem
    };
    let findings = judge(schedule, question).findings;
    if !findings.iter().any(concerns) && schedule.errors.is_empty() {
        return Ok(settings::problem(schedule));
    }
    let mut findings = fixes::choose(schedule, question, findings);
    findings.retain(concerns);
    Err(diagnostics(schedule, findings, schedule.errors.clone()))
}
