//! Tiles of D in shared memory, on their way to global memory.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::check::staging::Staging;
use crate::clause::{Clause, Roles, SpecializeClause, StoreClause, TileClause};
use crate::plan::LentSlots;
use crate::table::Key;
use crate::target::{BOX_ALIGN, MAX_ACCESS_BYTES, MAX_BOX};
use crate::terms::{StageMemory, Store, Swizzle};
use crate::types::{DType, Layout};

/// Where the tile of D may be on its way.
pub(super) fn check(settings: &Settings, staging: Option<&Staging>, findings: &mut Findings) {
    let Some(memory) = settings.memory else { return };
    let clause = StoreClause { way: settings.store, memory: Some(memory) };
    let text = |memory| Clause::Store(StoreClause { memory, ..clause }).to_string();
    let stated = text(Some(memory));
    let [plain, own] = [None, Some(StageMemory::Own)].map(text);
    if settings.store == Store::Direct {
        let message = format!("{stated}: threads store D from registers, and no tile of it is in shared memory");
        let finding = findings.error("store-memory", Key::Store, &[], message);
        finding.set(&plain, format!("{plain} stores from registers"));
        finding.set("store(staged)", "store(staged) puts the tile together in shared memory");
        return;
    }
    let Some(specialize) = settings.specialize else {
        let filled_by_others = settings.persistent.is_some() && settings.multicast.contains(&true);
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
    let (Some(tile), Some(staging)) = (settings.tile, staging) else { return };
    let (lines, dtype) = (Lines::of(settings, tile), settings.problem.types.d);
    let depends = [Key::Tile, Key::Types, Key::Layout, Key::Stages, Key::Shared, Key::Emulate, Key::Promote];
    let slot = staging.stage_bytes;
    let message = match (lines.panel_bytes(dtype), lines.lent(dtype, slot)) {
        // TMA's own rule says why.
        (None, _) if settings.store == Store::Tma => return,
        (None, _) => format!("{stated}: lines of {} {dtype} are not cut into panels of whole 16 B", lines.elements),
        (Some(panel), None) => {
            format!("{stated}: a panel of D's tile has {panel} B, and a slot has {slot} B: it holds whole panels")
        }
        (_, Some(LentSlots { slots, .. })) if slots > settings.stages => {
            format!("{stated}: D's tile takes {slots} slots of {slot} B, and the ring has {}", settings.stages)
        }
        _ => return,
    };
    let slots = lines.lent(dtype, slot).map_or(0, |lent| lent.slots);
    let finding = findings.error("store-slots", Key::Store, &depends, message);
    if slots > settings.stages {
        finding.set(format!("stages({slots})"), format!("stages({slots}) has as many"));
    }
    finding.set(&own, format!("{own} takes none"));
    finding.set("store(direct)", "store(direct) stores from registers");
}

/// Lines after which a swizzle repeats.
const SWIZZLED_LINES: u32 = 8;

/// The lines of a tile of D in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    /// Elements of a line, and the number of lines.
    pub elements: u32,
    pub count: u32,
}

/// Lines cut into panels, and the panels into boxes that TMA copies.
pub(super) struct Panels {
    /// Elements of a line of a panel.
    pub pitch: u32,
    pub swizzle: Swizzle,
    /// Lines of a box.
    pub box_lines: u32,
}

impl Lines {
    pub fn of(settings: &Settings, tile: TileClause) -> Lines {
        match settings.problem.layouts.d {
            Layout::Row => Lines { elements: tile.n, count: tile.m },
            Layout::Col => Lines { elements: tile.m, count: tile.n },
        }
    }

    /// The distance between lines where the threads copy the tile, in elements: with a pad of 16 bytes, so that threads one
    /// below the other use different banks, and 16 bytes can be read at once.
    pub fn padded(self, dtype: DType) -> u32 {
        let width = MAX_ACCESS_BYTES / dtype.bytes();
        self.elements.next_multiple_of(width) + width
    }

    /// The panels for TMA: swizzled, and as wide as the swizzle's span, the widest that suits the tile; else whole lines.
    /// `None`: no box of this tile can be copied.
    pub fn panels(self, dtype: DType) -> Option<Panels> {
        let spans = [128, 64, 32].map(|span| (span / dtype.bytes(), Swizzle::Bytes(span)));
        spans.into_iter().chain([(self.elements, Swizzle::None)]).find_map(|(pitch, swizzle)| {
            let bytes = pitch * dtype.bytes();
            let whole =
                self.elements.is_multiple_of(pitch) && pitch <= MAX_BOX && bytes.is_multiple_of(MAX_ACCESS_BYTES);
            let box_lines =
                (1..=self.count.min(MAX_BOX)).rev().find(|lines| self.boxed(pitch, bytes, swizzle, *lines))?;
            whole.then_some(Panels { pitch, swizzle, box_lines })
        })
    }

    /// How slots of this many bytes hold the panels; `None`: not even one fits.
    pub fn lent(self, dtype: DType, slot_bytes: u64) -> Option<LentSlots> {
        let panel = self.panel_bytes(dtype)?;
        let panels = u32::try_from(slot_bytes / panel).ok().filter(|panels| *panels > 0)?;
        let all = self.elements / self.panels(dtype)?.pitch;
        Some(LentSlots { panels: panels.min(all), slots: all.div_ceil(panels) })
    }

    /// Bytes of a panel.
    fn panel_bytes(self, dtype: DType) -> Option<u64> {
        let pitch = self.panels(dtype)?.pitch;
        Some(u64::from(pitch) * u64::from(self.count) * u64::from(dtype.bytes()))
    }

    /// Whether every box of `lines` lines begins where a box may begin; a single one always does.
    fn boxed(self, pitch: u32, bytes: u32, swizzle: Swizzle, lines: u32) -> bool {
        let align = match swizzle {
            Swizzle::None => BOX_ALIGN,
            Swizzle::Bytes(span) => SWIZZLED_LINES * span,
        };
        let single = lines == self.count && pitch == self.elements;
        self.count.is_multiple_of(lines) && (single || (lines * bytes).is_multiple_of(align))
    }

    /// Bytes of the tile: with pads, which take more than panels.
    pub fn bytes(self, dtype: DType, store: Store) -> u64 {
        let padded = if store == Store::Direct { 0 } else { self.padded(dtype) };
        u64::from(padded) * u64::from(self.count) * u64::from(dtype.bytes())
    }
}
