//! Clauses that are missing, given twice, or contradict each other.

use crate::check::finding::{Finding, Findings};
use crate::check::settings::Settings;
use crate::clause::Atom;
use crate::clauses::Key;
use crate::diagnostic::Diagnostic;
use crate::keys::KeySet;
use crate::schedule::Schedule;

pub(super) fn check(schedule: &Schedule, settings: &Settings, findings: &mut Findings) {
    twice(schedule, findings);
    missing(settings, findings);
}

fn twice(schedule: &Schedule, findings: &mut Findings) {
    for (index, item) in schedule.items.iter().enumerate() {
        let key = item.clause.key();
        let Some(first) = schedule.items[..index].iter().find(|earlier| earlier.clause.key() == key) else { continue };
        let (name, first_name) = (item.clause.name(), first.clause.name());
        let message = if name == first_name {
            format!("{name} is given twice: {} and {}", first.clause, item.clause)
        } else {
            format!("{} conflicts with {}", item.clause, first.clause)
        };
        let mut finding = Finding {
            diagnostic: Diagnostic::error("twice", name, message),
            anchor: Some(key),
            item: Some(index),
            depends: KeySet::default(),
            candidates: Vec::new(),
        };
        finding.set(&first.clause, format!("keep one, such as {}", first.clause));
        findings.push(finding);
    }
}

fn missing(settings: &Settings, findings: &mut Findings) {
    if settings.tile.is_none() {
        let finding =
            findings.error("required", Key::Tile, &[], "the schedule has no tile: what one thread block computes");
        finding.diagnostic.clause = "tile".into();
        for text in ["tile(128, 128, 8)", "tile(32, 32)", "tile(32, 32, 8)"] {
            finding.set(text, format!("such as {text}"));
        }
    }
    if settings.thread.is_none() && settings.atom == Atom::Fma {
        let message = "the schedule has no thread: what one thread computes with atom(fma)";
        let finding = findings.error("required", Key::Thread, &[Key::Atom], message);
        for size in [8, 4, 2, 1] {
            let text = format!("thread({size}, {size})");
            finding.set(&text, format!("such as {text}"));
        }
    }
}
