//! Memory accesses, counted from the plan: bank conflicts, sectors, loads.
//!
//! The plan's numbers determine every access of the mainloop and of a tile of D staged in shared memory, so their cost
//! is known before compilation. The counts are for the plan's *sample*: 2 x 2 tiles of D and 4 K-tiles of packed
//! matrices, all whole tiles. The interpreter counts the same for this product (`tests/all/contracts.rs`).
//!
//! Shared memory has 32 banks of 4 bytes. Half-warps serve an access of 8 bytes, quarter-warps one of 16 bytes. Each of
//! these groups takes as many passes as the busiest bank has different words; without conflicts it takes one pass per
//! 32 words.

mod matrices;

use std::collections::BTreeMap;

use crate::atoms::MATRIX_BYTES;
use crate::figure::Figure;
use crate::plan::{CopyPlan, Exchange, Geometry, OperandPlan, Placement, Plan, StagedTile, Variant};
use crate::target::{SWIZZLE_PERIOD, WARP};
use crate::terms::{Extent3, Fast, Load, Operands, Pace, Side, Swizzle};
use crate::types::Layout;

/// Tiles of D along each side, and K-tiles: enough for a pipeline to fill, run and drain.
pub const SAMPLE_TILES: u32 = 2;
/// K-tiles of the sample.
pub const SAMPLE_DEPTH: u32 = 4;

/// Banks of shared memory, and bytes of a bank's word.
const BANKS: u32 = 32;
const WORD: u32 = 4;

/// Bytes of a sector of global memory, the smallest unit of a transfer.
const SECTOR: u64 = 32;

/// Passes over the banks for some accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// Warp instructions.
    pub accesses: u64,
    /// All passes, including those lost to conflicts.
    pub passes: u64,
    /// Passes lost to conflicts.
    pub conflicts: u64,
}

/// The memory accesses of one entry's mainloop, and of its staged tile of D, in the product of [`Plan::sample`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Multiply-adds, counted per warp.
    pub fma: u64,
    /// Fragments read from shared memory.
    pub reads: Passes,
    /// K-tiles stored to shared memory.
    pub stores: Passes,
    /// The number of those K-tiles: the sample's own, plus those that pipelines store past the end of k.
    pub stored_tiles: u64,
    /// Loads of A and B from global memory, asynchronous copies included.
    pub loads: u64,
    /// The same without asynchronous copies: the loads that a thread's registers wait for.
    pub register_loads: u64,
    /// Sectors that the loads touch.
    pub sectors: u64,
    /// Elements of D written to its staged tile, or the sums that the blocks of a cluster exchange.
    pub d_writes: Passes,
    /// The same data read again: D to be stored by threads, or the exchanged sums.
    pub d_reads: Passes,
}

impl Sample {
    /// K-tiles of the sample, over all blocks.
    pub const K_TILES: u64 = (SAMPLE_TILES * SAMPLE_TILES * SAMPLE_DEPTH) as u64;

    /// Passes lost to bank conflicts.
    pub fn bank_conflicts(&self) -> Figure {
        [self.reads, self.stores, self.d_writes, self.d_reads].iter().map(|of| of.conflicts).sum::<u64>().into()
    }

    /// Average sectors per load.
    pub fn sectors_per_load(&self) -> Figure {
        Figure::ratio(self.sectors, self.loads)
    }

    /// Loads per multiply-add.
    pub fn loads_per_fma(&self) -> Figure {
        Figure::ratio(self.reads.accesses + self.d_reads.accesses + self.register_loads, self.fma)
    }
}

impl Plan {
    /// Extents of the sample product.
    pub fn sample_extents(&self) -> Extent3 {
        let Extent3 { m, n, k } = self.block;
        Extent3 { m: SAMPLE_TILES * m, n: SAMPLE_TILES * n, k: SAMPLE_DEPTH * k }
    }

    /// Counts the memory accesses of `variant` in the mainloop and in staged tiles of D.
    pub fn sample(&self, variant: &Variant) -> Sample {
        let Geometry { threads, thread, .. } = self.geometry;
        let tiles = u64::from(SAMPLE_TILES * SAMPLE_TILES);
        let k_tiles = tiles * u64::from(SAMPLE_DEPTH);
        let warps = u64::from(threads.div_ceil(WARP));
        let fma = u64::from(thread.m * thread.n * self.block.k) * warps * k_tiles;
        // Each pair of planes has its own K-tiles.
        let k_tiles = k_tiles * self.pairs();
        let stored_tiles = k_tiles + tiles * self.past_the_end();
        let mut sample = Sample { fma, stored_tiles, ..Sample::default() };
        for (operand, copy) in [(&self.ring.a, &variant.a), (&self.ring.b, &variant.b)] {
            match operand.placement {
                Some(placement) => {
                    let slot = Slot { operand, placement };
                    // `wgmma` reads the tiles itself.
                    if self.atom.of_group().is_none() {
                        sample.reads += self.reads(slot).times(k_tiles);
                    }
                    // TMA accesses memory without warp instructions.
                    if variant.load != Load::Tma {
                        sample.stores += self.stores(slot, copy).times(stored_tiles);
                        self.copies(operand, copy, &mut sample);
                    }
                }
                None => self.direct_loads(operand, copy.width, &mut sample),
            }
        }
        if let Some(staged) = variant.staged {
            sample.d_writes = self.d_writes(&staged).times(tiles);
            if staged.box_lines.is_none() {
                sample.d_reads = self.d_reads(&staged, variant.d_width).times(tiles);
            }
        }
        if let Some(exchange) = &self.sums.exchange {
            let parts = self.scheduler.split_k.map_or(1, |split| u64::from(split.parts));
            sample.d_writes = self.shared_sums(exchange).times(tiles * parts);
            sample.d_reads = self.added_sums(exchange).times(tiles * parts);
        }
        sample
    }

    /// Multiplied pairs of planes; 1 without planes.
    pub(crate) fn pairs(&self) -> u64 {
        self.sums.emulate.map_or(1, |emulate| emulate.by.pairs().len() as u64)
    }

    /// K-tiles past the end of k, all zeros, that a tile's pipeline stores. A loop that copies for later iterations
    /// also does so in its last ones, once per part of k. Producers and TMA know where to stop, and so do persistent
    /// blocks with a pipeline that continues into the next tile.
    fn past_the_end(&self) -> u64 {
        // Parts with K-tiles: equally many each; the last parts have the remainder or none.
        let parts = self.scheduler.split_k.map_or(1, |split| {
            let each = SAMPLE_DEPTH.div_ceil(split.parts.max(1));
            SAMPLE_DEPTH.div_ceil(each)
        });
        let carried = self.scheduler.persistent.is_some() && self.ring.pace == Pace::Free;
        let stops = self.roles.producer_warps > 0 || self.ring.load == Load::Tma || carried;
        if stops { 0 } else { u64::from(parts * (self.ring.stages - 1)) }
    }

    /// The fragment reads of all warps for one K-tile.
    fn reads(&self, slot: Slot<'_>) -> Passes {
        let map = self.map();
        if let Some((_, _, depth)) = self.atom.of_warp() {
            return match slot.operand.dtype.bytes() {
                8 => self.element_reads(slot, depth),
                _ => self.matrix_reads(slot, depth),
            };
        }
        let operand = slot.operand;
        let side = operand.side;
        let positions = map.all_of(side);
        let width = if self.body.operands == Operands::Shared { 1 } else { operand.read_width };
        let along_k = slot.placement.fast == Fast::K;
        // A read along k covers several steps, any other read several positions.
        let (step, position) = if along_k { (width, 1) } else { (1, width) };
        // Each product reads its operands again.
        let times = match (self.body.operands, side) {
            (Operands::Registers, _) => 1,
            (Operands::Shared, Side::A) => self.geometry.thread.n,
            (Operands::Shared, Side::B) => self.geometry.thread.m,
        };
        let mut total = Passes::default();
        for warp in warps(self.geometry.threads) {
            let starts: Vec<u32> = warp.map(|thread| map.first_of(side, thread)).collect();
            let mut known = BTreeMap::new();
            for k in (0..operand.depth).step_by(step as usize) {
                for &at in positions.iter().step_by(position as usize) {
                    // An offset common to the whole warp rotates all banks alike, unless a swizzle permutes it.
                    let distance = slot.offset(at, k);
                    let residue = if slot.placement.swizzle == Swizzle::None { 0 } else { distance % SWIZZLE_PERIOD };
                    total += *known.entry(residue).or_insert_with(|| {
                        let offsets = starts.iter().map(|start| slot.address(start + at, k));
                        passes(offsets.enumerate(), width * operand.dtype.bytes()).times(times.into())
                    });
                }
            }
        }
        total
    }

    /// The stores of one K-tile to shared memory.
    fn stores(&self, slot: Slot<'_>, copy: &CopyPlan) -> Passes {
        let piece = if self.ring.load == Load::CpAsync { copy.width } else { copy.store_width };
        let mut total = Passes::default();
        for_chunks(self.copying_threads(), copy, |lanes| {
            for element in (0..copy.width).step_by(piece.max(1) as usize) {
                let offsets = lanes.iter().map(|&(lane, outer, inner)| {
                    let (own, k) = slot.operand.coordinates(outer, inner + element);
                    (lane, slot.address(own, k))
                });
                total += passes(offsets, piece * slot.operand.dtype.bytes());
            }
        });
        total
    }

    /// The writes of one block's sums of a tile, by its warps.
    fn shared_sums(&self, exchange: &Exchange) -> Passes {
        let map = self.map();
        let sides = if self.problem.layouts.d == Layout::Row { [Side::A, Side::B] } else { [Side::B, Side::A] };
        let [lines, elements] = sides.map(|side| map.all_of(side));
        let bytes = self.problem.types.acc.bytes();
        let mut total = Passes::default();
        for warp in warps(self.geometry.threads) {
            for line in &lines {
                for element in elements.iter().step_by(exchange.write_width as usize) {
                    let starts = warp.clone().map(|thread| sides.map(|side| map.first_of(side, thread)));
                    let offsets = starts.map(|[l, e]| ((l + line) * exchange.pitch + e + element) * bytes);
                    total += passes(offsets.enumerate(), exchange.write_width * bytes);
                }
            }
        }
        total
    }

    /// The reads of one block's sums by the blocks of its cluster, each for its share.
    fn added_sums(&self, exchange: &Exchange) -> Passes {
        let &Exchange { pitch, chunk, across, chunks, at_once, steps, .. } = exchange;
        let (count, bytes) = (self.d_lines().0, self.problem.types.acc.bytes());
        let parts = self.scheduler.split_k.map_or(1, |split| split.parts);
        let share = count.div_ceil(parts);
        let mut total = Passes::default();
        for first in (0..parts).map(|part| part * share) {
            let lines = share.min(count.saturating_sub(first));
            for warp in warps(across * at_once) {
                for (step, place) in (0..steps).flat_map(|step| (0..chunks).map(move |place| (step, place))) {
                    let lanes = warp.clone().enumerate().filter_map(|(lane, thread)| {
                        let (line, element) =
                            (thread / across + step * at_once, (thread % across + place * across) * chunk);
                        (line < lines).then_some((lane, ((first + line) * pitch + element) * bytes))
                    });
                    let lanes: Vec<_> = lanes.collect();
                    if !lanes.is_empty() {
                        total += passes(lanes.into_iter(), chunk * bytes);
                    }
                }
            }
        }
        total
    }

    /// The writes of one tile of D by the warps.
    fn d_writes(&self, staged: &StagedTile) -> Passes {
        let map = self.map();
        let sides = if self.problem.layouts.d == Layout::Row { [Side::A, Side::B] } else { [Side::B, Side::A] };
        let [lines, elements] = sides.map(|side| map.all_of(side));
        let mut total = Passes::default();
        if staged.matrices {
            return self.d_matrices(staged, sides);
        }
        for warp in warps(self.geometry.threads) {
            for line in &lines {
                for element in elements.iter().step_by(staged.width as usize) {
                    let starts = warp.clone().map(|thread| sides.map(|side| map.first_of(side, thread)));
                    let offsets = starts.map(|[l, e]| self.d_address(staged, l + line, e + element));
                    total += passes(offsets.enumerate(), staged.width * self.problem.types.d.bytes());
                }
            }
        }
        total
    }

    /// The writes of one tile of D as 8 x 8 matrices: four per instruction, 16 rows by 16 columns; two at the end of an
    /// odd number of eight-column groups of a warp or, if lines of D run along n, of a panel.
    fn d_matrices(&self, staged: &StagedTile, sides: [Side; 2]) -> Passes {
        let map = self.map();
        let Geometry { region, .. } = self.geometry;
        let mut total = Passes::default();
        let panel = if sides[0] == Side::A { staged.pitch.min(region.n) } else { region.n };
        let in_panel = |panel_start: u32| {
            let end = region.n.min(panel_start + panel);
            (panel_start..end).step_by(16).map(move |col| (col, if end - col >= 16 { WARP } else { WARP / 2 }))
        };
        let blocks: Vec<(u32, u32)> = (0..region.n).step_by(panel.max(1) as usize).flat_map(in_panel).collect();
        for warp in warps(self.geometry.threads) {
            let origin = [Side::A, Side::B].map(|side| map.first_of(side, warp.start));
            for row in (0..region.m).step_by(16) {
                for &(col, lanes) in &blocks {
                    let offsets = (0..lanes).map(|lane| {
                        let (line, below, right) = (lane % 8, lane / 8 % 2 * 8, lane / 16 * 8);
                        let [down, along] = if sides[0] == Side::A { [line, 0] } else { [0, line] };
                        let at = [origin[0] + row + below + down, origin[1] + col + right + along];
                        let [l, e] = sides.map(|side| if side == Side::A { at[0] } else { at[1] });
                        self.d_address(staged, l, e)
                    });
                    total += passes(offsets.enumerate(), MATRIX_BYTES);
                }
            }
        }
        total
    }

    /// The reads of one tile of D by the consumer threads, `width` elements at a time.
    fn d_reads(&self, staged: &StagedTile, width: u32) -> Passes {
        let (lines, elements) = self.d_lines();
        let copy = CopyPlan {
            width,
            store_width: width,
            chunks_per_row: elements / width,
            chunks: lines * (elements / width),
            passes: (lines * (elements / width)).div_ceil(self.geometry.threads),
        };
        let mut total = Passes::default();
        for_chunks(self.geometry.threads, &copy, |lanes| {
            let offsets = lanes.iter().map(|&(lane, line, element)| (lane, self.d_address(staged, line, element)));
            total += passes(offsets, width * self.problem.types.d.bytes());
        });
        total
    }

    /// The byte offset of an element of D in shared memory.
    fn d_address(&self, staged: &StagedTile, line: u32, element: u32) -> u32 {
        let pitch = staged.pitch;
        let at = (element / pitch * self.d_lines().0 + line) * pitch + element % pitch;
        staged.swizzle.of(staged.offset_bytes + at * self.problem.types.d.bytes())
    }

    /// All loads of a staged operand.
    fn copies(&self, operand: &OperandPlan, copy: &CopyPlan, sample: &mut Sample) {
        let bytes = copy.width * operand.dtype.bytes();
        let matrix = Matrix::of(self, operand);
        let mut known = BTreeMap::new();
        for (own, k) in matrix.tiles() {
            // A shift by whole sectors does not change their number.
            let start = matrix.address(own, k);
            let (accesses, sectors) = *known.entry(start % SECTOR).or_insert_with(|| {
                let (mut accesses, mut sectors) = (0, 0);
                for_chunks(self.copying_threads(), copy, |lanes| {
                    let addresses = lanes.iter().map(|&(_, outer, inner)| {
                        let (in_tile, depth) = operand.coordinates(outer, inner);
                        matrix.address(own + in_tile, k + depth)
                    });
                    accesses += 1;
                    sectors += touched(addresses, bytes);
                });
                (accesses, sectors)
            });
            // Each tile is loaded for every tile of D that needs it, and with planes for every pair.
            let times = u64::from(SAMPLE_TILES) * self.pairs();
            sample.loads += accesses * times;
            sample.sectors += sectors * times;
            sample.register_loads += if self.ring.load == Load::CpAsync { 0 } else { accesses * times };
        }
    }

    /// All loads of an operand that threads read directly from global memory.
    fn direct_loads(&self, operand: &OperandPlan, width: u32, sample: &mut Sample) {
        let map = self.map();
        let positions = map.all_of(operand.side);
        let matrix = Matrix::of(self, operand);
        let bytes = width * operand.dtype.bytes();
        let (step, position) = if operand.global_fast == Fast::K { (width, 1) } else { (1, width) };
        for warp in warps(self.geometry.threads) {
            let starts: Vec<u32> = warp.map(|thread| map.first_of(operand.side, thread)).collect();
            let mut known = BTreeMap::new();
            for (own, k) in matrix.tiles() {
                for depth in (0..operand.depth).step_by(step as usize) {
                    for at in positions.iter().step_by(position as usize) {
                        let residue = matrix.address(own + at, k + depth) % SECTOR;
                        let sectors = *known.entry(residue).or_insert_with(|| {
                            let all = starts.iter().map(|start| matrix.address(own + start + at, k + depth));
                            touched(all, bytes)
                        });
                        sample.loads += u64::from(SAMPLE_TILES);
                        sample.register_loads += u64::from(SAMPLE_TILES);
                        sample.sectors += sectors * u64::from(SAMPLE_TILES);
                    }
                }
            }
        }
    }
}

/// An operand's K-tile in its first slot.
#[derive(Clone, Copy)]
struct Slot<'p> {
    operand: &'p OperandPlan,
    placement: Placement,
}

impl Slot<'_> {
    /// Bytes from the first element to this one, before any swizzle.
    fn offset(&self, own: u32, k: u32) -> u32 {
        let (slow, fast) = if self.placement.fast == Fast::K { (own, k) } else { (k, own) };
        (slow * self.placement.pitch + fast) * self.operand.dtype.bytes()
    }

    /// The byte offset of an element in shared memory.
    fn address(&self, own: u32, k: u32) -> u32 {
        self.placement.swizzle.of(self.placement.offset_bytes + self.offset(own, k))
    }
}

impl OperandPlan {
    /// Coordinates in the tile, along the operand's own dimension and along k, of an element in a row of global memory.
    fn coordinates(&self, outer: u32, inner: u32) -> (u32, u32) {
        if self.global_fast == Fast::K { (outer, inner) } else { (inner, outer) }
    }
}

/// A packed operand of the sample.
struct Matrix {
    fast: Fast,
    bytes: u64,
    ld: u64,
    /// Extents of a tile, along the operand's own dimension and along k.
    tile: (u32, u32),
}

impl Matrix {
    fn of(plan: &Plan, operand: &OperandPlan) -> Matrix {
        let (own, k) = (SAMPLE_TILES * operand.extent, SAMPLE_DEPTH * operand.depth);
        let ld = if operand.global_fast == Fast::K { k } else { own };
        assert_eq!(operand.depth, plan.block.k);
        Matrix {
            fast: operand.global_fast,
            bytes: operand.dtype.bytes().into(),
            ld: ld.into(),
            tile: (operand.extent, operand.depth),
        }
    }

    /// The origins of the tiles.
    fn tiles(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (own, k) = self.tile;
        (0..SAMPLE_TILES).flat_map(move |i| (0..SAMPLE_DEPTH).map(move |j| (i * own, j * k)))
    }

    fn address(&self, own: u32, k: u32) -> u64 {
        let (slow, fast) = if self.fast == Fast::K { (own, k) } else { (k, own) };
        (u64::from(slow) * self.ld + u64::from(fast)) * self.bytes
    }
}

/// The threads of each warp.
fn warps(threads: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
    (0..threads.div_ceil(WARP)).map(move |warp| warp * WARP..threads.min((warp + 1) * WARP))
}

/// Calls `f` for every copy instruction, with the lanes that have a chunk and the chunk's position in the tile.
fn for_chunks(threads: u32, copy: &CopyPlan, mut f: impl FnMut(&[(usize, u32, u32)])) {
    for pass in 0..copy.passes {
        for warp in warps(threads) {
            let first = warp.start;
            let lanes: Vec<_> = warp
                .map(|thread| (thread, pass * threads + thread))
                .filter(|(_, chunk)| *chunk < copy.chunks)
                .map(|(thread, chunk)| {
                    let (outer, inner) = (chunk / copy.chunks_per_row, chunk % copy.chunks_per_row * copy.width);
                    ((thread - first) as usize, outer, inner)
                })
                .collect();
            if !lanes.is_empty() {
                f(&lanes);
            }
        }
    }
}

/// The passes of one instruction over the banks, from its lanes' addresses in lane order.
fn passes(lanes: impl Iterator<Item = (usize, u32)>, bytes: u32) -> Passes {
    let lanes: Vec<_> = lanes.collect();
    let at_once = (BANKS * WORD / bytes.max(WORD)) as usize;
    let mut total = Passes { accesses: 1, ..Passes::default() };
    for group in lanes.chunk_by(|a, b| a.0 / at_once == b.0 / at_once) {
        let mut words: Vec<u32> =
            group.iter().flat_map(|(_, address)| address / WORD..(address + bytes).div_ceil(WORD)).collect();
        words.sort_unstable();
        words.dedup();
        let mut demand = [0u64; BANKS as usize];
        words.iter().for_each(|word| demand[(word % BANKS) as usize] += 1);
        let taken = demand.into_iter().max().unwrap_or(0);
        total.passes += taken;
        total.conflicts += taken - (words.len() as u64).div_ceil(BANKS.into());
    }
    total
}

/// The number of distinct sectors of some accesses that do not cross sector boundaries.
fn touched(addresses: impl Iterator<Item = u64>, bytes: u32) -> u64 {
    assert!(u64::from(bytes) <= SECTOR);
    let mut sectors: Vec<u64> = addresses.map(|address| address / SECTOR).collect();
    sectors.sort_unstable();
    sectors.dedup();
    sectors.len() as u64
}

impl Passes {
    fn times(self, count: u64) -> Passes {
        let Passes { accesses, passes, conflicts } = self;
        Passes { accesses: accesses * count, passes: passes * count, conflicts: conflicts * count }
    }
}

impl std::ops::AddAssign for Passes {
    fn add_assign(&mut self, other: Passes) {
        self.accesses += other.accesses;
        self.passes += other.passes;
        self.conflicts += other.conflicts;
    }
}
