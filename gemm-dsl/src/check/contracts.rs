//! Checks the contracts of `expect` that the plan alone decides, and rejects impossible limits.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, Expectation, Metric, Relation, SharedClause, Skew, StagedOrder, VectorClause};
use crate::contract::Measured;
use crate::figure::Figure;
use crate::keys::KeySet;
use crate::limits;
use crate::plan::Plan;
use crate::table::Key;
use crate::target::Target;
use crate::terms::Along;

/// Checks a plan against its contracts. A plan depends on every clause, so an unknown clause makes every verdict here
/// uncertain.
pub(super) fn check(settings: &Settings, plan: &Plan, findings: &mut Findings) {
    let mut broken: Vec<Measured> = plan.measured().into_iter().filter(|measured| !measured.holds()).collect();
    // If several entries break a contract, only the first is reported.
    broken.dedup_by_key(|measured| measured.contract);
    for measured in broken {
        let finding = findings.error("expect", Key::Expect, &[], measured.to_string());
        finding.subject = measured.contract.metric.name().into();
        finding.depends = match measured.contract.metric {
            Metric::Shared => {
                KeySet::of(&[Key::Tile, Key::Types, Key::Shared, Key::Stages, Key::Pace, Key::Specialize, Key::Expect])
            }
            Metric::Threads => KeySet::of(&[Key::Tile, Key::Thread, Key::Warp, Key::Specialize, Key::Expect]),
            _ => KeySet::all(),
        };
        for (clause, help) in
            units(&settings.limits.expect, &measured.contract).into_iter().chain(changes(settings, plan, &measured))
        {
            finding.set(clause, help);
        }
        let figure = measured.figure;
        let relation = match measured.contract.relation {
            Relation::Below => Relation::AtMost,
            Relation::Above => Relation::AtLeast,
            other => other,
        };
        let repaired = |c: &Expectation| match c.metric == measured.contract.metric {
            true => Expectation { limit: figure, relation, ..*c },
            false => *c,
        };
        let fixed = Clause::Expect(settings.limits.expect.iter().map(repaired).collect());
        finding.set(&fixed, format!("{fixed} holds"));
    }
}

/// A smaller byte limit probably means KiB, if the contract then holds.
const LEAST_BYTES: u64 = 1024;

/// A larger number of blocks probably means a percentage of the warps, if the contract then holds: few kernels reach
/// it.
const MOST_BLOCKS: u64 = 16;

/// The contracts, with the probably intended unit for one of them.
pub(super) fn units(list: &[Expectation], contract: &Expectation) -> Option<(String, String)> {
    let number = contract.limit.whole()?;
    let (meant, unit) = match contract.metric {
        Metric::Shared | Metric::CodeBytes if (1..LEAST_BYTES).contains(&number) => {
            (Expectation { limit: (1024 * number).into(), ..*contract }, "bytes")
        }
        Metric::Occupancy if number > MOST_BLOCKS => {
            (Expectation { metric: Metric::OccupancyPercent, ..*contract }, "blocks of a multiprocessor")
        }
        _ => return None,
    };
    let all = list.iter().map(|other| if other == contract { meant } else { *other }).collect();
    let text = Clause::Expect(all).to_string();
    let help = format!("{number} counts {unit}: write {text}");
    Some((text, help))
}

/// Changes of one clause that may satisfy a contract; the trial of fixes weeds out the others.
fn changes(settings: &Settings, plan: &Plan, measured: &Measured) -> Vec<(String, String)> {
    let clause = |text: String, why: &str| (text.clone(), format!("{text} {why}"));
    let mut out = Vec::new();
    match measured.contract.metric {
        Metric::BankConflicts => {
            let thread = plan.geometry.thread;
            for size in [4, 2, 1] {
                if thread.m.is_multiple_of(size) && thread.n.is_multiple_of(size) {
                    out.push(clause(format!("fragment({size}, {size})"), "reads from other banks"));
                }
            }
            if let Some((a, b)) = settings.staged.shared {
                let pad = |order: StagedOrder, n| StagedOrder { skew: Skew::Pad(n), ..order };
                for n in [4, 1, 2, 8] {
                    for (a, b) in [(pad(a, n), b), (a, pad(b, n)), (pad(a, n), pad(b, n))] {
                        let text = Clause::Shared(SharedClause::Orders { a: Some(a), b: Some(b) }).to_string();
                        out.push(clause(text, "keeps rows out of each other's banks"));
                    }
                }
            }
        }
        Metric::SectorsPerLoad => {
            for along in [Along::N, Along::M].into_iter().filter(|along| *along != settings.shape.along) {
                out.push(clause(Clause::Lanes(along).to_string(), "gives neighbours to neighbouring lanes"));
            }
        }
        Metric::LoadsPerFma => {
            for width in [4, 2] {
                let vector = Clause::Vector(VectorClause { all: Some(width), ..settings.staged.vector });
                out.push(clause(vector.to_string(), "loads more at once"));
            }
            out.push(clause("operands(registers)".into(), "reads each fragment once"));
        }
        Metric::Occupancy | Metric::OccupancyPercent => {
            for stages in (1..settings.staged.stages).rev().take(8) {
                out.push(clause(format!("stages({stages})"), "leaves room for more blocks"));
            }
            if settings.target.is_none() {
                for target in Target::ALL {
                    out.push(clause(format!("target({target})"), "holds as many"));
                }
            }
            for blocks in [2, 3, 4, 6, 8, 16] {
                out.push(clause(format!("blocks_per_sm({blocks})"), "demands it"));
            }
        }
        _ => {}
    }
    out
}

/// Limits that no figure can reach.
pub(super) fn nonsense(contract: &Expectation) -> Option<String> {
    let Expectation { metric, limit, .. } = contract;
    if !limit.is_number() {
        return Some(format!("the limit of {} is not a number from 0 up", metric.name()));
    }
    if *metric == Metric::Occupancy && *limit > Figure::from(u64::from(*limits::BLOCKS.end())) {
        let most = limits::BLOCKS.end();
        return Some(format!(
            "occupancy counts blocks, and no multiprocessor holds more than {most}; `%` makes it a share of the warps"
        ));
    }
    if *metric == Metric::OccupancyPercent && *limit > Figure::from(100) {
        return Some(format!("occupancy is at most 100 %, and {limit} % is not a share"));
    }
    (!metric.is_fraction() && limit.whole().is_none()).then(|| format!("{} is a whole number", metric.name()))
}
