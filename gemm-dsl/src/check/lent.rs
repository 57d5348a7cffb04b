//! The rules for the memory of the staged tile of D: its own, or slots of the ring.

use crate::check::finding::Findings;
use crate::check::output::Lines;
use crate::check::settings::Settings;
use crate::check::staging::Staging;
use crate::clause::{Clause, Roles, SpecializeClause, StoreClause};
use crate::plan::LentSlots;
use crate::table::Key;
use crate::terms::{StageMemory, Store};

/// Checks the memory that `store` names.
pub(super) fn check(settings: &Settings, staging: Option<&Staging>, findings: &mut Findings) {
    let Some(memory) = settings.output.memory else { return };
    let clause = StoreClause { way: settings.output.store, memory: Some(memory) };
    let text = |memory| Clause::Store(StoreClause { memory, ..clause }).to_string();
    let stated = text(Some(memory));
    let [plain, own] = [None, Some(StageMemory::Own)].map(text);
    if settings.output.store == Store::Direct {
        let message = format!("{stated}: threads store D from registers, and no tile of it is in shared memory");
        let finding = findings.error("store-memory", Key::Store, &[], message);
        finding.set(&plain, format!("{plain} stores from registers"));
        finding.set("store(staged)", "store(staged) puts the tile together in shared memory");
        return;
    }
    let Some(specialize) = settings.roles.specialize else {
        let filled_by_others = settings.is_persistent() && settings.scheduler.multicast.contains(&true);
        let why = match (memory, filled_by_others) {
            (StageMemory::Own, false) => "the threads that store copy K-tiles as well, and none meanwhile",
            (StageMemory::Ring, true) => "other blocks of the cluster copy K-tiles to the slots meanwhile",
            _ => return,
        };
        let depends = [Key::Specialize, Key::Persistent, Key::Multicast];
        findings
            .error("store-memory", Key::Store, &depends, format!("{stated} without specialize: {why}"))
            .set(&plain, format!("{plain} takes the memory that suits"));
        return;
    };
    if memory == StageMemory::Own {
        return;
    }
    if settings.turns() > 1 {
        let together =
            Clause::Specialize(SpecializeClause { roles: Some(Roles::Cooperative), ..specialize }).to_string();
        let message = format!(
            "{stated} conflicts with pingpong: while one consumer's tile is in slots of the ring, the next one cannot tell \
             from their parity whether they have been filled with its K-tiles"
        );
        findings
            .error("store-pingpong", Key::Store, &[Key::Specialize], message)
            .set(&own, format!("{own} has memory for a tile of each"))
            .set(&together, format!("{together} has one tile at a time"));
        return;
    }
    let (Some(tile), Some(staging)) = (settings.shape.tile, staging) else { return };
    let (lines, dtype) = (Lines::of(settings, tile), settings.problem.types.d);
    let depends = [Key::Tile, Key::Warp, Key::Types, Key::Layout, Key::Stages, Key::Shared, Key::Emulate, Key::Promote];
    let slot = staging.stage_bytes;
    let message = match (lines.panel_bytes(dtype), lines.lent(dtype, slot)) {
        // TMA's own rule reports the reason.
        (None, _) if settings.output.store == Store::Tma => return,
        (None, _) => format!("{stated}: lines of {} {dtype} are not cut into panels of whole 16 B", lines.elements),
        (Some(panel), None) => {
            format!("{stated}: a panel of D's tile has {panel} B, and a slot has {slot} B: it holds whole panels")
        }
        (_, Some(LentSlots { slots, .. })) if slots > settings.staged.stages => {
            format!("{stated}: D's tile takes {slots} slots of {slot} B, and the ring has {}", settings.staged.stages)
        }
        _ => return,
    };
    let slots = lines.lent(dtype, slot).map_or(0, |lent| lent.slots);
    let finding = findings.error("store-slots", Key::Store, &depends, message);
    if slots > settings.staged.stages {
        finding.set(format!("stages({slots})"), format!("stages({slots}) has as many"));
    }
    finding.set(&own, format!("{own} takes none"));
    finding.set("store(direct)", "store(direct) stores from registers");
}
