//! K-tiles in shared memory: orders, pads, slots, stages.

use crate::check::exchange;
use crate::check::output::Lines;
use crate::check::settings::Settings;
use crate::clause::{Skew, StagedOrder, TileClause};
use crate::plan::Placement;
use crate::target::{BOX_ALIGN, MBARRIER_BYTES, MBARRIER_PAIR, SWIZZLE_PERIOD};
use crate::terms::{Fast, Load, Side, Swizzle};

/// The placement of the two operands in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Staging {
    pub a: Placement,
    pub b: Placement,
    /// Bytes of a K-tile of A, or of one plane of it.
    pub a_bytes: u64,
    /// The same for B.
    pub b_bytes: u64,
    /// Bytes of one stage: a K-tile of A, then one of B; with planes, all planes of A, then all planes of B.
    pub stage_bytes: u64,
    /// Bytes of the mbarriers of one stage; 0 in a ring without mbarriers.
    pub barrier_bytes: u64,
    /// Bytes of the staged tiles of D, one for each ping-pong warp group; 0 if D is stored from registers or from slots
    /// of the ring.
    pub d_bytes: u64,
    /// Whether the tile of D needs its own memory, because producers, or another block of the cluster that began its
    /// next tile, fill slots while D is staged.
    d_apart: bool,
    /// Bytes of the sums that the blocks of a cluster exchange. They reuse the memory of all slots.
    sums_bytes: u64,
    /// Bytes of the ping-pong mbarriers.
    turn_bytes: u64,
    /// Bytes of the mbarriers of C, which TMA copies into the memory of D's tile.
    c_bytes: u64,
    /// Bytes of all stages and of the mbarriers after them.
    pub shared_bytes: u64,
}

impl Staging {
    /// Shared memory of a ring of `stages` slots, the tile of D, and the mbarriers.
    pub fn bytes_of(&self, stages: u32) -> u64 {
        self.slots_bytes(stages) + self.barrier_bytes * u64::from(stages) + self.turn_bytes + self.c_bytes
    }

    /// The same without the mbarriers, which come last.
    pub fn slots_bytes(&self, stages: u32) -> u64 {
        let ring = self.stage_bytes * u64::from(stages);
        let end = ring.max(self.d_offset(stages) + self.d_bytes).max(self.sums_bytes);
        end.next_multiple_of(u64::from(MBARRIER_PAIR))
    }

    /// Byte offset of the tile of D.
    pub fn d_offset(&self, stages: u32) -> u64 {
        let ring = self.stage_bytes * u64::from(stages);
        if self.d_apart { ring.next_multiple_of(u64::from(SWIZZLE_PERIOD)) } else { 0 }
    }
}

/// The placement of the schedule's K-tiles; `None` with `shared(none)` or without a depth.
pub(super) fn derive(settings: &Settings) -> Option<Staging> {
    of(settings, settings.shape.tile?)
}

/// The placement of the K-tiles of any tile.
pub(super) fn of(settings: &Settings, tile: TileClause) -> Option<Staging> {
    let (order_a, order_b) = settings.staged.shared?;
    let depth = tile.k?;
    let types = settings.problem.types;
    let align = alignment(order_a).max(alignment(order_b)).max(match settings.staged.load {
        // Suits the panels of D for any swizzle.
        _ if settings.lends() => u64::from(SWIZZLE_PERIOD),
        Load::Tma => u64::from(BOX_ALIGN),
        Load::CpAsync | Load::Registers => 1,
    });
    let panels = settings.atom.of_group().is_some();
    let (a, a_bytes) = place(order_a, (tile.m, depth), settings.factor(Side::A).bytes(), align, panels);
    let (b, b_bytes) = place(order_b, (tile.n, depth), settings.factor(Side::B).bytes(), align, panels);
    let planes = u64::from(settings.planes_in_slot(depth));
    let stage_bytes = planes * (a_bytes + b_bytes);
    let b = Placement { offset_bytes: clamp(planes * a_bytes), ..b };
    let barrier_bytes = if settings.mbarriers() { u64::from(MBARRIER_PAIR) } else { 0 };
    let tile_bytes = if settings.lends() { 0 } else { Lines::of(settings, tile).bytes(types.d, settings.output.store) };
    let (d_bytes, turn_bytes) = match u64::from(settings.turns()) {
        1 => (tile_bytes, 0),
        turns => (tile_bytes.next_multiple_of(u64::from(SWIZZLE_PERIOD)) * turns, u64::from(MBARRIER_BYTES) * turns),
    };
    let filled_by_others = settings.is_persistent() && settings.scheduler.multicast.contains(&true);
    let d_apart = d_bytes > 0 && (settings.producer_warps() > 0 || filled_by_others);
    let c_bytes = if settings.loads_c() { u64::from(MBARRIER_BYTES) * u64::from(settings.turns()) } else { 0 };
    let shared_bytes = 0;
    let staging = Staging {
        a,
        b,
        a_bytes,
        b_bytes,
        stage_bytes,
        barrier_bytes,
        d_bytes,
        d_apart,
        sums_bytes: exchange::bytes(settings, tile),
        turn_bytes,
        c_bytes,
        shared_bytes,
    };
    Some(Staging { shared_bytes: staging.bytes_of(settings.staged.stages), ..staging })
}

/// The alignment of a slot's base in bytes: 16 for the widest access; for a swizzle 8 rows of its span, the period of
/// its address function.
fn alignment(order: StagedOrder) -> u64 {
    match order.skew {
        Skew::Swizzle(span) => 8 * u64::from(span.max(2)),
        _ => 16,
    }
}

/// The placement of one operand. With `panels`, tensor cores read swizzled tiles in panels as wide as the span.
fn place(order: StagedOrder, (extent, depth): (u32, u32), element: u32, align: u64, panels: bool) -> (Placement, u64) {
    let (fast_extent, slow_extent) = match order.fast {
        Fast::K => (depth, extent),
        Fast::Mn => (extent, depth),
    };
    let (pad, swizzle) = match order.skew {
        Skew::None => (0, Swizzle::None),
        Skew::Pad(elements) => (elements, Swizzle::None),
        Skew::Swizzle(bytes) => (0, Swizzle::Bytes(bytes)),
    };
    let row = u64::from(fast_extent) + u64::from(pad);
    let pitch = row;
    let (row, pitch) = match swizzle {
        // The last panel of a row may be partly filled.
        Swizzle::Bytes(span) if panels => {
            let pitch = pitch.min(u64::from(span / element).max(1));
            (row.next_multiple_of(pitch.max(1)), pitch)
        }
        _ => (row, pitch),
    };
    let bytes = (row * u64::from(slow_extent) * u64::from(element)).next_multiple_of(align);
    let placement = Placement {
        fast: order.fast,
        fast_extent,
        slow_extent,
        pitch: clamp(pitch),
        swizzle,
        offset_bytes: 0,
        slot_bytes: clamp(bytes),
    };
    (placement, bytes)
}

/// Sizes that do not fit are errors, so the clamped value is never used.
pub(super) fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
