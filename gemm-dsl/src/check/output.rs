//! The tile of D in shared memory, staged for global memory.

use crate::check::settings::Settings;
use crate::clause::TileClause;
use crate::plan::LentSlots;
use crate::target::{BOX_ALIGN, MAX_ACCESS_BYTES, MAX_BOX};
use crate::terms::{Side, Store, Swizzle};
use crate::types::{DType, Layout};

/// Lines after which a swizzle repeats.
const SWIZZLED_LINES: u32 = 8;

/// The lines of a tile of D in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    /// Elements of a line, and the number of lines.
    pub elements: u32,
    pub count: u32,
    /// Elements of a line that one warp group computes, where `warp` says what that is.
    part: Option<u32>,
    /// Bytes of a slot at least, if the tile of D is in slots of the ring.
    slot: Option<u64>,
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
        let part = match (settings.atom.of_group(), settings.shape.warp, settings.problem.layouts.d) {
            (Some(_), Some(warp), Layout::Row) => Some(warp.n),
            // Rows are divided in multiples of 64, which every panel divides.
            _ => None,
        };
        let part = part.filter(|part| *part > 0 && tile.n.is_multiple_of(*part));
        let slot = tile.k.filter(|_| settings.lends()).map(|depth| {
            let [a, b] = [(Side::A, tile.m), (Side::B, tile.n)]
                .map(|(side, extent)| u64::from(extent) * u64::from(settings.factor(side).bytes()));
            (a + b) * u64::from(depth) * u64::from(settings.planes_in_slot(depth))
        });
        let (elements, count) = match settings.problem.layouts.d {
            Layout::Row => (tile.n, tile.m),
            Layout::Col => (tile.m, tile.n),
        };
        Lines { elements, count, part, slot }
    }

    /// The pitch of a line in elements if the threads copy the tile. A pad of 16 bytes puts adjacent lines in different
    /// banks and keeps 16-byte reads aligned.
    pub fn padded(self, dtype: DType) -> u32 {
        let width = MAX_ACCESS_BYTES / dtype.bytes();
        self.elements.next_multiple_of(width) + width
    }

    /// The panels for TMA: swizzled and as wide as the widest swizzle span that suits the tile, else whole lines.
    /// `None`: TMA cannot copy any box of this tile.
    ///
    /// Where `warp` says what a warp group computes, panels do not cross from one group's part into the next, so that
    /// each group can write matrices. If the two wider swizzles do not suit the part, lines of an odd number of 16-byte
    /// pieces are as free of bank conflicts, and boxes of 32 bytes are slow (docs/performance.md). If no panel suits the
    /// part, threads write their elements.
    pub fn panels(self, dtype: DType) -> Option<Panels> {
        let whole = self.part.unwrap_or(self.elements);
        let odd = |pitch: &u32| {
            let bytes = pitch * dtype.bytes();
            let fits = self.slot.is_none_or(|slot| u64::from(bytes) * u64::from(self.count) <= slot);
            let odd = bytes % (2 * MAX_ACCESS_BYTES) == MAX_ACCESS_BYTES;
            whole.is_multiple_of(*pitch) && bytes > 32 && odd && fits
        };
        let widest = self.part.and_then(|part| (1..=part.min(MAX_BOX)).rev().find(odd));
        let span = |of: u32, span: u32| Some((of, span / dtype.bytes(), Swizzle::Bytes(span)));
        let of_part =
            [span(whole, 128), span(whole, 64), widest.map(|pitch| (whole, pitch, Swizzle::None)), span(whole, 32)];
        let all = self.elements;
        let of_lines = [span(all, 128), span(all, 64), span(all, 32), Some((all, all, Swizzle::None))];
        of_part.into_iter().chain(of_lines).flatten().find_map(|(of, pitch, swizzle)| {
            let bytes = pitch * dtype.bytes();
            let whole = of.is_multiple_of(pitch) && pitch <= MAX_BOX && bytes.is_multiple_of(MAX_ACCESS_BYTES);
            let box_lines =
                (1..=self.count.min(MAX_BOX)).rev().find(|lines| self.boxed(pitch, bytes, swizzle, *lines))?;
            whole.then_some(Panels { pitch, swizzle, box_lines })
        })
    }

    /// The placement of panels in slots of `slot_bytes`; `None` if no panel fits.
    pub fn lent(self, dtype: DType, slot_bytes: u64) -> Option<LentSlots> {
        let panel = self.panel_bytes(dtype)?;
        let panels = u32::try_from(slot_bytes / panel).ok().filter(|panels| *panels > 0)?;
        let all = self.elements / self.panels(dtype)?.pitch;
        Some(LentSlots { panels: panels.min(all), slots: all.div_ceil(panels) })
    }

    /// Bytes of a panel.
    pub fn panel_bytes(self, dtype: DType) -> Option<u64> {
        let pitch = self.panels(dtype)?.pitch;
        Some(u64::from(pitch) * u64::from(self.count) * u64::from(dtype.bytes()))
    }

    /// Whether every box of `lines` lines begins at a legal address; a single box always does.
    fn boxed(self, pitch: u32, bytes: u32, swizzle: Swizzle, lines: u32) -> bool {
        let align = match swizzle {
            Swizzle::None => BOX_ALIGN,
            Swizzle::Bytes(span) => SWIZZLED_LINES * span,
        };
        let single = lines == self.count && pitch == self.elements;
        self.count.is_multiple_of(lines) && (single || (lines * bytes).is_multiple_of(align))
    }

    /// Bytes of the tile with pads, which take more than panels.
    pub fn bytes(self, dtype: DType, store: Store) -> u64 {
        let padded = if store == Store::Direct { 0 } else { self.padded(dtype) };
        u64::from(padded) * u64::from(self.count) * u64::from(dtype.bytes())
    }
}
