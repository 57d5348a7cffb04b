//! The contracts of `expect` whose figure is known from the plan alone.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::check::staging::Staging;
use crate::clause::{Clause, Expectation, Metric, Relation};
use crate::plan::Geometry;
use crate::table::Key;
use crate::words::Word;

pub(super) fn check(
    settings: &Settings,
    geometry: Option<&Geometry>,
    staging: Option<&Staging>,
    findings: &mut Findings,
) {
    for contract in &settings.expect {
        let figure = match contract.metric {
            Metric::Shared if settings.shared.is_none() => Some(0),
            Metric::Shared => staging.map(|s| s.shared_bytes),
            Metric::Threads => geometry.map(|g| u64::from(settings.threads(g))),
            // Known to ptxas and the interpreter.
            Metric::Spills | Metric::BankConflicts | Metric::Registers => None,
        };
        let Some(figure) = figure.filter(|figure| !contract.relation.holds(*figure, contract.limit)) else { continue };
        let unit = if contract.metric == Metric::Shared { " B" } else { "" };
        let message = format!("expect {contract} is broken: {} is {figure}{unit}", contract.metric.word());
        let relation = match contract.relation {
            Relation::Below => Relation::AtMost,
            Relation::Above => Relation::AtLeast,
            other => other,
        };
        let repaired = |c: &Expectation| match c.metric == contract.metric {
            true => Expectation { limit: figure, relation, ..*c },
            false => *c,
        };
        let fixed = Clause::Expect(settings.expect.iter().map(repaired).collect());
        let depends = [Key::Tile, Key::Types, Key::Shared, Key::Stages, Key::Pace, Key::Thread, Key::Specialize];
        findings.error("expect", Key::Expect, &depends, message).set(&fixed, format!("{fixed} holds"));
    }
}
