//! The rules of `emulate` and `promote`: f32 operands as planes of a 16-bit type, and promoted sums.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, Emulation, PromoteClause, TileClause};
use crate::limits;
use crate::plan::Promotion;
use crate::table::Key;
use crate::terms::Operand;
use crate::types::Batch;

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    promoted(settings, findings);
    let Some(clause) = settings.get(Key::Emulate) else { return };
    types(settings, clause, findings);
    if let Some(Clause::Promote(promote @ PromoteClause { every: None, .. })) = settings.get(Key::Promote) {
        let message =
            format!("{} leaves the sums of {clause} to tensor cores, which truncate them", Clause::Promote(*promote));
        findings
            .error("promote-none", Key::Promote, &[Key::Emulate], message)
            .remove("promote", "leave promote out: sums are promoted every 128 of k");
    }
    if let (Batch::Grouped, Some(batch)) = (settings.problem.batch, settings.get(Key::Batch)) {
        let message =
            format!("{clause} conflicts with {batch}: the planes of a group's operands have no place in its list");
        findings
            .error("emulate-grouped", Key::Emulate, &[Key::Batch], message)
            .remove("emulate", "leave emulate out")
            .set("batch(strided)", "batch(strided) goes with emulate");
    }
}

/// A, B and the accumulators are f32.
fn types(settings: &Settings, clause: &Clause, findings: &mut Findings) {
    let types = settings.problem.types;
    let inputs = [Operand::A, Operand::B].map(|operand| types.of(operand));
    if inputs.iter().chain([&types.acc]).any(|dtype| *dtype != Emulation::OF) {
        let message =
            format!("{clause} computes f32 products, a is {}, b is {} and acc is {}", types.a, types.b, types.acc);
        findings
            .error("emulate-types", Key::Emulate, &[Key::Types], message)
            .set("types(f32)", "types(f32) is what it is for")
            .remove("emulate", "leave emulate out");
    }
}

/// Sums are promoted after whole K-tiles.
fn promoted(settings: &Settings, findings: &mut Findings) {
    let Some(Promotion { every, .. }) = settings.promotion() else { return };
    let Some(tile) = settings.shape.tile else { return };
    let Some(depth) = tile.k.filter(|k| *k > 0 && !every.is_multiple_of(*k)) else { return };
    let promote = settings.text(Key::Promote, &format!("promote(every = {every})"));
    let message = format!(
        "{promote} is not a multiple of the depth {depth} of {}: sums are promoted after whole K-tiles",
        settings.text(Key::Tile, "")
    );
    let depends = [Key::Tile, Key::Emulate, Key::Types, Key::Atom];
    let finding = findings.error("promote-depth", Key::Promote, &depends, message);
    for every in limits::EVERY.iter().filter(|every| every.is_multiple_of(depth)) {
        let text = Clause::Promote(PromoteClause {
            every: Some(*every),
            rounding: settings.sums.promote.and_then(|p| p.rounding),
        })
        .to_string();
        finding.set(&text, format!("{text} is"));
    }
    for k in [128, 64, 32, 16] {
        let text = Clause::Tile(TileClause { k: Some(k), ..tile }).to_string();
        finding.set(&text, format!("{text} divides it"));
    }
}
