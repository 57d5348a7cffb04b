//! Access widths: the elements per global and shared access, and the kernel entries that follow.

use crate::check::exchange;
use crate::check::geometry::WARP_ROWS;
use crate::check::output::Lines;
use crate::check::params::params;
use crate::check::settings::Settings;
use crate::check::staging::{Staging, clamp};
use crate::plan::{CopyPlan, Geometry, OperandPlan, Placement, StagedTile, Variant};
use crate::target::{BOX_ALIGN, LEAST_ASYNC_BYTES, MAX_ACCESS_BYTES, MAX_BOX, Target};
use crate::terms::{BoxShare, Extent3, Fast, Load, Side, Store, Swizzle};
use crate::types::{DType, Layout, Layouts};

/// The widest power of two that is at most `bound` elements and 16 bytes, and divides every run.
pub(super) fn widest(bound: u32, dtype: DType, runs: &[u32]) -> u32 {
    let mut width = 1;
    while width * 2 <= bound
        && width * 2 * dtype.bytes() <= MAX_ACCESS_BYTES
        && runs.iter().all(|run| run.is_multiple_of(width * 2))
    {
        width *= 2;
    }
    width
}

/// Rows of one TMA box of a K-tile, as many as possible up to `most`. Boxes have the same size and begin at legal TMA
/// addresses; each issuing block gets an equal [`BoxShare`] if there are boxes with equal shares. `None`: no such box
/// exists.
pub(super) fn share_of_boxes(placement: &Placement, dtype: DType, sharers: u32, most: u32) -> Option<u32> {
    let (slow, panels) = (placement.slow_extent, placement.panels());
    let row_bytes = placement.pitch.min(placement.fast_extent) * dtype.bytes();
    // A swizzle needs no more: it depends on bits of the address alone. A single box needs no aligned end.
    let only = |rows: u32| rows == slow && panels == 1 && sharers <= 1;
    let whole =
        |rows: &u32| slow.is_multiple_of(*rows) && (only(*rows) || (rows * row_bytes).is_multiple_of(BOX_ALIGN));
    let share = |rows: u32| BoxShare::of(panels, slow / rows, sharers);
    let legal = || (1..=slow.min(most)).rev().filter(whole);
    let equal = legal().find(|rows| share(*rows).is_some_and(|share| share.extra == 0));
    equal.or_else(|| legal().find(|rows| share(*rows).is_some()))
}

/// Elements in 16 bytes: the TMA granularity of addresses, strides and box rows.
pub(super) fn tma_width(dtype: DType) -> u32 {
    MAX_ACCESS_BYTES / dtype.bytes()
}

/// The contiguous dimension of an input operand in global memory.
pub(super) fn global_fast(side: Side, layout: Layout) -> Fast {
    match (side, layout) {
        (Side::A, Layout::Row) | (Side::B, Layout::Col) => Fast::K,
        (Side::A, Layout::Col) | (Side::B, Layout::Row) => Fast::Mn,
    }
}

/// The inputs to the access widths of one input operand.
#[derive(Clone, Copy)]
pub(super) struct Input {
    pub side: Side,
    pub dtype: DType,
    /// Contiguous dimension of the source in global memory: the matrix, or its planes.
    pub global_fast: Fast,
    pub extent: u32,
    pub depth: u32,
    /// Fragment extent along the operand's own dimension.
    pub fragment: u32,
    /// The width demanded by `vector(a = n)`.
    pub demand: Option<u32>,
    pub placement: Option<Placement>,
}

/// Both input operands.
pub(super) fn inputs(
    settings: &Settings,
    block: Extent3,
    geometry: &Geometry,
    staging: Option<&Staging>,
) -> [Input; 2] {
    let (layouts, vector) = (settings.problem.layouts, settings.staged.vector);
    // Planes are written in their staged order.
    let planes = settings.sums.emulation.is_some() && settings.staged.load != Load::Tma;
    let fast = |side, layout, placement: Option<Placement>| {
        placement.filter(|_| planes).map_or(global_fast(side, layout), |placement| placement.fast)
    };
    let input = |side, layout, extent, fragment, demand, placement| Input {
        side,
        dtype: settings.factor(side),
        global_fast: fast(side, layout, placement),
        extent,
        depth: block.k,
        fragment,
        demand,
        placement,
    };
    let fragment = geometry.fragment;
    [
        input(Side::A, layouts.a, block.m, fragment.m, vector.a, staging.map(|s| s.a)),
        input(Side::B, layouts.b, block.n, fragment.n, vector.b, staging.map(|s| s.b)),
    ]
}

impl Input {
    /// Contiguous elements that a global access may cover within one copied row or one direct load.
    pub fn global_run(&self) -> u32 {
        match (self.placement, self.global_fast) {
            // A copy runs along a row of the tile.
            (Some(_), Fast::K) => self.depth,
            (Some(_), Fast::Mn) => self.extent,
            // A direct load runs along the unrolled steps, or along the fragment.
            (None, Fast::K) => self.depth,
            (None, Fast::Mn) => self.fragment,
        }
    }

    /// Width of a global access under the upper bound `bound`.
    pub fn global_width(&self, settings: &Settings, bound: u32) -> u32 {
        let bound = self.demand.unwrap_or(bound);
        match self.placement {
            // cp.async bypasses registers: both sides must be contiguous, or elements are copied one by one.
            Some(_) if settings.staged.load == Load::Tma => tma_width(self.dtype),
            Some(placement) if settings.staged.load == Load::CpAsync => {
                if placement.fast == self.global_fast {
                    widest(bound, self.dtype, &[self.global_run(), placement.pitch])
                } else {
                    1
                }
            }
            _ => widest(bound, self.dtype, &[self.global_run()]),
        }
    }

    /// The copy of a tile by TMA.
    fn boxes(&self, sharers: u32, most: u32) -> CopyPlan {
        let rows = self.placement.map_or(0, |placement| placement.slow_extent);
        let panels = self.placement.map_or(0, |placement| placement.panels());
        // A missing share is reported separately.
        let share =
            self.placement.and_then(|placement| share_of_boxes(&placement, self.dtype, sharers, most)).unwrap_or(1);
        let boxes = panels * (rows / share.max(1));
        CopyPlan { width: tma_width(self.dtype), store_width: 0, chunks_per_row: 1, chunks: boxes, passes: boxes }
    }

    /// The copy of a tile by `threads` threads with accesses of `width` elements.
    fn copy(&self, width: u32, threads: u32) -> CopyPlan {
        let Some(placement) = self.placement else {
            return CopyPlan { width, store_width: 0, chunks_per_row: 0, chunks: 0, passes: 0 };
        };
        let (row, rows) = match self.global_fast {
            Fast::K => (self.depth, self.extent),
            Fast::Mn => (self.extent, self.depth),
        };
        let store_width = match placement.fast == self.global_fast {
            true => widest(width, self.dtype, &[placement.pitch]),
            false => 1,
        };
        let chunks_per_row = row / width;
        let chunks = chunks_per_row * rows;
        CopyPlan { width, store_width, chunks_per_row, chunks, passes: chunks.div_ceil(threads) }
    }

    /// Elements of one shared read of a fragment under the upper bound `bound`.
    fn read_width(&self, bound: u32, unroll: u32) -> u32 {
        let bound = bound.max(self.demand.unwrap_or(1));
        match self.placement {
            None => 1,
            Some(placement) => {
                let run = if placement.fast == Fast::K { unroll } else { self.fragment };
                widest(bound, self.dtype, &[run, placement.pitch])
            }
        }
    }

    pub fn plan(&self, settings: &Settings, unroll: u32) -> OperandPlan {
        OperandPlan {
            side: self.side,
            dtype: self.dtype,
            global_fast: self.global_fast,
            extent: self.extent,
            depth: self.depth,
            placement: self.placement,
            read_width: self.read_width(settings.width_bound(), unroll),
        }
    }
}

/// Contiguous elements of D that one thread holds.
pub(super) fn d_run(layouts: Layouts, geometry: &Geometry) -> u32 {
    if layouts.d == Layout::Row { geometry.fragment.n } else { geometry.fragment.m }
}

/// Contiguous elements of C that a thread reads at once. A thread visits its accumulators in D's order, so it reads a C
/// that is contiguous along the other dimension element by element.
pub(super) fn c_run(layouts: Layouts, geometry: &Geometry) -> u32 {
    if layouts.c == layouts.d { d_run(layouts, geometry) } else { 1 }
}

/// The first target with `stmatrix` (PTX ISA, "stmatrix").
const STMATRIX: u32 = 90;

/// The staged tile of D in shared memory; `None` if D is stored from registers. TMA needs an aligned D; otherwise the
/// threads copy the tile.
fn staged_tile(
    settings: &Settings,
    staging: Option<&Staging>,
    geometry: &Geometry,
    target: Target,
    aligned: bool,
) -> Option<StagedTile> {
    let (types, layouts) = (settings.problem.types, settings.problem.layouts);
    let (staging, lines) = (staging?, Lines::of(settings, settings.shape.tile?));
    let by_tma = settings.output.store == Store::Tma && aligned;
    let lent = if settings.lends() { lines.lent(types.d, staging.stage_bytes) } else { None };
    let panels = lines.panels(types.d).filter(|_| by_tma || lent.is_some());
    let (pitch, swizzle) =
        panels.as_ref().map_or((lines.padded(types.d), Swizzle::None), |panels| (panels.pitch, panels.swizzle));
    let width = widest(tma_width(types.d), types.d, &[d_run(layouts, geometry), pitch]);
    let offset_bytes = clamp(staging.d_offset(settings.staged.stages));
    let box_lines = panels.filter(|_| by_tma).map(|panels| panels.box_lines);
    let matrices = !settings.atom.by_threads()
        && target.capability >= STMATRIX
        && types.d.bytes() == 2
        && types.in_singles()
        && matrices_add_up(settings, geometry, lines, pitch);
    let holds_c = by_tma && settings.loads_c();
    let tile = StagedTile { offset_bytes, lent, pitch, swizzle, width, matrices, holds_c, box_lines };
    (settings.output.store != Store::Direct).then_some(tile)
}

/// Whether panels never split a warp's matrices: each matrix then has the same offset from the first one in every warp.
fn matrices_add_up(settings: &Settings, geometry: &Geometry, lines: Lines, pitch: u32) -> bool {
    let along = match (settings.problem.layouts.d, settings.atom.of_group()) {
        (Layout::Row, _) => geometry.region.n,
        // A warp holds 16 rows of every 64.
        (Layout::Col, Some(_)) => WARP_ROWS,
        (Layout::Col, _) => geometry.region.m,
    };
    pitch >= lines.elements || along.is_multiple_of(pitch) || pitch.is_multiple_of(along)
}

/// The entries, widest first. The last one requires only element alignment. TMA needs aligned inputs, so the last entry
/// of a TMA schedule copies by `cp.async` into the same slots, unless both operands are packed. `wgmma` schedules have
/// no such entry; in a group, which packs no operands, they require aligned inputs.
pub(super) fn variants(
    settings: &Settings,
    inputs: &[Input; 2],
    geometry: &Geometry,
    staging: Option<&Staging>,
    target: Target,
) -> Vec<Variant> {
    let bound = settings.width_bound();
    let (types, layouts) = (settings.problem.types, settings.problem.layouts);
    let [a, b] = inputs;
    let output = |demand: Option<u32>, dtype, run| widest(demand.unwrap_or(bound), dtype, &[run]);
    // Adjacent elements of D that a thread finishes.
    let run = exchange::plan(settings, geometry).map_or(d_run(layouts, geometry), |exchange| exchange.chunk);
    let d_width = match (settings.output.store, settings.shape.tile) {
        (Store::Tma, _) => tma_width(types.d),
        // Lines of the staged tile, not the elements that a thread computes.
        (Store::Staged, Some(tile)) => {
            let most = settings.staged.vector.d.unwrap_or(tma_width(types.d));
            widest(most, types.d, &[Lines::of(settings, tile).elements])
        }
        (Store::Direct, _) | (Store::Staged, None) => output(settings.staged.vector.d, types.d, run),
    };
    let c_width = match settings.problem.epilogue.uses_c() {
        true if settings.loads_c() => tma_width(types.c),
        true => output(settings.staged.vector.c, types.c, if layouts.c == layouts.d { run } else { 1 }),
        false => 1,
    };
    let (a_width, b_width) = (a.global_width(settings, bound), b.global_width(settings, bound));
    let copying = settings.copying_threads(geometry);
    let load = if settings.staged.load == Load::Tma { Load::CpAsync } else { settings.staged.load };
    // Asynchronous copies move at least 4 bytes; single 2-byte elements go through registers.
    let alone = match a.dtype.bytes().min(b.dtype.bytes()) {
        ..LEAST_ASYNC_BYTES if load == Load::CpAsync => Load::Registers,
        _ => load,
    };
    let staged = |aligned| staged_tile(settings, staging, geometry, target, aligned);
    let variant = |load, a_width, b_width, (c_width, d_width): (u32, u32), aligned| Variant {
        entry: format!("gemm_v{}", c_width.max(d_width).max(a_width).max(b_width)),
        load,
        a: a.copy(a_width, copying),
        b: b.copy(b_width, copying),
        c_width,
        d_width,
        staged: staged(aligned),
        params: params(settings, load, staged(aligned).as_ref()),
    };
    let scalar = variant(alone, 1, 1, (1, 1), false);
    if settings.staged.load == Load::Tma {
        let by_tma = |(c_width, d_width): (u32, u32), aligned| Variant {
            entry: format!("gemm_tma_v{}", c_width.max(d_width)),
            load: Load::Tma,
            a: a.boxes(settings.sharers(Side::A), MAX_BOX),
            b: b.boxes(settings.sharers(Side::B), MAX_BOX),
            c_width,
            d_width,
            staged: staged(aligned),
            params: params(settings, Load::Tma, staged(aligned).as_ref()),
        };
        let mut entries = vec![by_tma((c_width, d_width), true), by_tma((1, 1), false)];
        entries.dedup();
        if !(settings.atom.of_group().is_some() || settings.staged.pack.a && settings.staged.pack.b) {
            entries.push(scalar);
        }
        return entries;
    }
    let widest = variant(load, a_width, b_width, (c_width, d_width), true);
    if settings.sums.emulation.is_some() {
        // Planes are always aligned.
        let of_planes = |(c_width, d_width): (u32, u32), aligned| Variant {
            entry: format!("gemm_v{}", c_width.max(d_width)),
            ..variant(load, a_width, b_width, (c_width, d_width), aligned)
        };
        let mut entries = vec![of_planes((c_width, d_width), true), of_planes((1, 1), false)];
        entries.dedup();
        return entries;
    }
    if widest == scalar { vec![scalar] } else { vec![widest, scalar] }
}
