//! The register rule, and what `blocks_per_sm` makes of it.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::Spills;
use crate::plan::Geometry;
use crate::table::Key;
use crate::target::registers_per_thread;

/// Registers that a thread needs beside its accumulators, at the very least.
const BESIDE: u32 = 16;

/// Accumulators, and [`BESIDE`] more, fit what a thread can have; or `spills(allow)`.
pub(super) fn check(settings: &Settings, geometry: &Geometry, findings: &mut Findings) {
    let acc = settings.problem.types.acc;
    let words = acc.bytes().div_ceil(4);
    let kept = geometry.thread.m * geometry.thread.n * words;
    let limit = registers_per_thread(geometry.threads, 1);
    if settings.spills == Spills::Allow {
        return;
    }
    if kept + BESIDE <= limit {
        return occupancy(settings, geometry, kept, findings);
    }
    let message = format!(
        "{} keeps {} {acc} accumulators: with the {BESIDE} registers that everything else needs that is {}, {} threads get at most {limit} each",
        settings.text(Key::Thread, ""),
        geometry.thread.m * geometry.thread.n,
        kept + BESIDE,
        geometry.threads
    );
    let finding = findings.error("registers", Key::Thread, &[Key::Tile, Key::Types, Key::Spills], message);
    for (m, n) in [(1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4), (8, 8)] {
        let (m, n) = (geometry.thread.m / m, geometry.thread.n / n);
        if m > 0 && n > 0 {
            let text = format!("thread({m}, {n})");
            finding.set(&text, format!("{text} keeps {}", m * n));
        }
    }
    if let Some(tile) = settings.tile {
        for (m, n) in [(2, 1), (1, 2), (2, 2)] {
            let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
            let text = format!("tile({}, {}{depth})", tile.m / m, tile.n / n);
            finding.set(&text, format!("{text} takes {} threads", geometry.threads / (m * n)));
        }
    }
    finding.set("spills(allow)", "spills(allow) accepts that ptxas spills");
}

/// Several blocks share the register file: legal, but ptxas may have to spill.
fn occupancy(settings: &Settings, geometry: &Geometry, kept: u32, findings: &mut Findings) {
    let Some(blocks) = settings.blocks_per_sm else { return };
    let share = registers_per_thread(geometry.threads, blocks);
    if blocks <= 1 || kept + BESIDE <= share {
        return;
    }
    let message = format!(
        "blocks_per_sm({blocks}) leaves {share} registers a thread, of which {kept} are accumulators: ptxas will spill"
    );
    findings.note("registers-occupancy", Key::BlocksPerSm, &[Key::Thread, Key::Tile, Key::Types, Key::Spills], message);
}
