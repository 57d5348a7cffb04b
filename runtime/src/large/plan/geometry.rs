//! The division of a product: the grid of devices, the blocks of C, and the slabs of K.
//!
//! Devices form a grid, and each keeps a block of C while K streams past. Blocks that do not fit the budget are divided
//! further; then all devices go from one *round* to the next together, so that they can still share slabs. Every possibility is
//! estimated, and the fastest is taken; of equals the first, which has the deeper slabs.

use std::collections::BTreeMap;
use std::ops::Range;

use ptx_gemm_codegen::kernel::MAX_EXTENT;
use ptx_gemm_dsl::types::{DType, Layout};

use super::estimate::seconds;
use super::{Addend, Allocation, Division, PlanError, Request, Workspace};
use crate::large::operation::Buffer;
use crate::large::region::Region;
use crate::shape::Shape;

/// Depths of a slab to choose from. Shallower slabs read and write the sums more often.
const DEPTHS: [usize; 7] = [4096, 2048, 1024, 512, 256, 128, 64];
/// Slabs of a ring to choose from: one is multiplied while others arrive.
const RINGS: [usize; 2] = [3, 2];
/// Bytes of a strip of D: long enough for a copy to reach its full speed, short enough to hide all but the last.
const STRIP_BYTES: u64 = 256 << 20;
/// Strips of a block at most.
const MOST_STRIPS: usize = 16;
/// The most launches of a plan, which takes about 100 bytes for each.
const MOST_LAUNCHES: u64 = 1 << 19;
/// Rows on the devices begin at multiples of this many bytes, so that every kernel's widest accesses are aligned.
const PITCH: usize = 128;

/// The division of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Devices along m and n.
    pub grid: [usize; 2],
    /// Rounds along m and n: each computes one block per device.
    pub rounds: [usize; 2],
    /// Rows and columns of a block; the last ones may be smaller.
    pub block: [usize; 2],
    /// Depth of a slab.
    pub depth: usize,
    /// Slabs; at least one, which is empty if K is 0.
    pub slabs: usize,
    /// Slabs that a device holds at once.
    pub ring: usize,
    /// Strips in which a block is finished, at most.
    pub strips: usize,
}

impl Geometry {
    /// The fastest division that fits the budget.
    pub(super) fn choose(request: &Request, workspace: Workspace<'_>) -> Result<Geometry, PlanError> {
        let Request { m, n, k, devices, tuning, .. } = *request;
        if devices == 0 {
            return Err(PlanError::NoDevice);
        }
        for (name, got) in [("M", m), ("N", n), ("K", k)] {
            let limit = MAX_EXTENT as usize;
            if got > limit {
                return Err(PlanError::Extent { name, got, limit });
            }
        }
        for (name, value) in
            [("the depth of slabs", tuning.depth), ("the ring", tuning.ring), ("strips", tuning.strips)]
        {
            if value == Some(0) {
                return Err(PlanError::Zero { name });
            }
        }
        let mut best: Option<(f64, Geometry)> = None;
        let mut smallest: Option<(u64, Geometry)> = None;
        for grid in grids(devices) {
            for (depth, ring) in request.depths_and_rings() {
                let of = |rounds| Geometry::with(request, grid, rounds, depth, ring);
                for rounds_m in candidates(tiles(m, request.tile[0]).div_ceil(grid[0])) {
                    let most = tiles(n, request.tile[1]).div_ceil(grid[1]).max(1);
                    let bytes = |rounds_n| of([rounds_m, rounds_n]).bytes(request, workspace);
                    let fits = |rounds_n: &usize| bytes(*rounds_n) <= request.budget;
                    let least = of([rounds_m, most]);
                    let needed = least.bytes(request, workspace);
                    if smallest.is_none_or(|(bytes, _)| needed < bytes) {
                        smallest = Some((needed, least));
                    }
                    if needed > request.budget {
                        continue;
                    }
                    // More rounds need less memory.
                    let rounds_n = partition(1..most, |rounds| !fits(rounds));
                    let geometry = of([rounds_m, rounds_n]);
                    let seconds = seconds(request, &geometry);
                    if best.is_none_or(|(fastest, _)| seconds < fastest) {
                        best = Some((seconds, geometry));
                    }
                }
            }
        }
        let Some((_, geometry)) = best else {
            let (needed, least) = smallest.unwrap_or_default();
            let why = match (request.division, tuning.depth) {
                (Division::Whole, _) => {
                    ", which the epilogue needs whole: it combines the sum with C other than by adding"
                }
                (_, Some(_)) => ", as requested",
                _ => "",
            };
            let Geometry { block: [rows, cols], depth, .. } = least;
            return Err(PlanError::Budget { budget: request.budget, needed, rows, cols, depth, why });
        };
        let launches = |geometry: &Geometry| {
            let rounds = geometry.rounds.map(|rounds| rounds as u64).iter().product::<u64>();
            rounds.saturating_mul(devices as u64).saturating_mul((geometry.slabs + 2 * geometry.strips) as u64)
        };
        let count = launches(&geometry);
        if count > MOST_LAUNCHES {
            return Err(PlanError::TooLong { count, limit: MOST_LAUNCHES });
        }
        Ok(geometry)
    }

    fn with(request: &Request, grid: [usize; 2], rounds: [usize; 2], depth: usize, ring: usize) -> Geometry {
        let extent = |extent: usize, tile: usize, parts: usize| {
            (tiles(extent, tile).div_ceil(parts).max(1) * tile).min(extent.next_multiple_of(tile).max(1))
        };
        let rows = extent(request.m, request.tile[0], grid[0] * rounds[0]);
        let cols = extent(request.n, request.tile[1], grid[1] * rounds[1]);
        let slabs = request.k.div_ceil(depth).max(1);
        let result = rows as u64 * cols as u64 * u64::from(request.types.d.bytes());
        let strips = usize::try_from(result.div_ceil(STRIP_BYTES)).unwrap_or(MOST_STRIPS).clamp(1, MOST_STRIPS);
        let strips = request.tuning.strips.unwrap_or(strips);
        let ring = ring.min(slabs * rounds[0] * rounds[1]);
        Geometry { grid, rounds, block: [rows, cols], depth: depth.min(request.k), slabs, ring, strips }
    }

    /// The block of a device in a round; empty where the matrix has ended.
    pub fn block(&self, request: &Request, round: [usize; 2], device: usize) -> Region {
        let [i, j] = [device / self.grid[1], device % self.grid[1]];
        let part = |index: usize, block: usize, extent: usize| {
            let start = (index * block).min(extent);
            start..(start + block).min(extent)
        };
        let rows = part(round[0] * self.grid[0] + i, self.block[0], request.m);
        Region::new(rows, part(round[1] * self.grid[1] + j, self.block[1], request.n))
    }

    /// The range of K of a slab.
    pub fn slab(&self, request: &Request, slab: usize) -> Range<usize> {
        let start = (slab * self.depth).min(request.k);
        start..(start + self.depth).min(request.k)
    }

    /// The strips of a block of this many rows and columns, relative to it: along its rows if D is row major.
    pub fn strips(&self, request: &Request, rows: usize, cols: usize) -> Vec<Region> {
        let (along, tile) = match request.layouts.d {
            Layout::Row => (rows, request.tile[0]),
            Layout::Col => (cols, request.tile[1]),
        };
        let size = tiles(along, tile).div_ceil(self.strips).max(1) * tile;
        let ranges = (0..along).step_by(size).map(|start| start..(start + size).min(along));
        let strip = |range| match request.layouts.d {
            Layout::Row => Region::new(range, 0..cols),
            Layout::Col => Region::new(0..rows, range),
        };
        ranges.map(strip).filter(|strip| !strip.is_empty()).collect()
    }

    /// The buffers of each device.
    pub(super) fn buffers(&self, request: &Request) -> BTreeMap<Buffer, Allocation> {
        let [rows, cols] = self.block;
        let (types, layouts) = (request.types, request.layouts);
        let matrix = |dtype: DType, rows, cols, layout| {
            let shape = Shape::packed(rows, cols, layout);
            let ld = shape.ld.next_multiple_of(PITCH / dtype.bytes() as usize);
            Allocation { dtype, shape: Shape { ld, ..shape } }
        };
        let mut buffers = BTreeMap::new();
        for slot in 0..self.ring {
            buffers.insert(Buffer::A(slot), matrix(types.a, rows, self.depth, layouts.a));
            buffers.insert(Buffer::B(slot), matrix(types.b, self.depth, cols, layouts.b));
        }
        let homes = Homes::of(request);
        let mut block = |buffer, dtype, layout| {
            buffers.insert(buffer, matrix(dtype, rows, cols, layout));
        };
        if self.slabs > 1 || homes.result == Buffer::Sum {
            block(Buffer::Sum, types.acc, layouts.d);
        }
        if homes.result == Buffer::Result {
            block(Buffer::Result, types.d, layouts.d);
        }
        match homes.addend {
            Some(Buffer::Addend) => block(Buffer::Addend, types.c, layouts.c),
            Some(_) => block(Buffer::Sum, types.acc, layouts.d),
            None => {}
        }
        buffers
    }

    /// Bytes of the workspace of its largest launch.
    pub(super) fn workspace_bytes(&self, request: &Request, workspace: Workspace<'_>) -> u64 {
        let [rows, cols] = self.block;
        let strips = self.strips(request, rows, cols);
        let launches = strips.first().into_iter().map(|strip| workspace(strip.rows, strip.cols, self.depth));
        launches.chain([workspace(rows, cols, self.depth)]).max().unwrap_or(0)
    }

    fn bytes(&self, request: &Request, workspace: Workspace<'_>) -> u64 {
        let buffers = self.buffers(request);
        let bytes = buffers.values().map(Allocation::bytes).fold(request.vector_bytes, u64::saturating_add);
        bytes.saturating_add(self.workspace_bytes(request, workspace))
    }
}

/// Which buffers hold D and C.
#[derive(Clone, Copy, Debug)]
pub(super) struct Homes {
    pub(super) result: Buffer,
    /// `None` if C is not read.
    pub(super) addend: Option<Buffer>,
}

impl Homes {
    pub(super) fn of(request: &Request) -> Homes {
        let (types, layouts) = (request.types, request.layouts);
        let result = if types.d == types.acc { Buffer::Sum } else { Buffer::Result };
        let alike = types.c == types.acc && layouts.c == layouts.d;
        let addend = if alike { Buffer::Sum } else { Buffer::Addend };
        Homes { result, addend: (request.addend == Addend::Read).then_some(addend) }
    }
}

impl Request {
    /// Depths of slabs, deepest first, with lengths of the ring.
    fn depths_and_rings(&self) -> Vec<(usize, usize)> {
        let k = self.k.max(1);
        let depths = match (self.tuning.depth, self.division) {
            (_, Division::Whole) => vec![k],
            // A slab ends where a K-tile does.
            (Some(depth), _) => vec![depth.next_multiple_of(self.tile[2])],
            (None, _) => {
                let even = |depth: usize| k.div_ceil(k.div_ceil(depth)).next_multiple_of(self.tile[2]);
                DEPTHS.map(even).to_vec()
            }
        };
        let rings = self.tuning.ring.map_or(RINGS.to_vec(), |ring| vec![ring]);
        let mut pairs: Vec<_> = depths.iter().flat_map(|&depth| rings.iter().map(move |&ring| (depth, ring))).collect();
        pairs.dedup();
        pairs
    }
}

/// Every grid of this many devices.
fn grids(devices: usize) -> impl Iterator<Item = [usize; 2]> {
    (1..=devices).filter(move |rows| devices.is_multiple_of(*rows)).map(move |rows| [rows, devices / rows])
}

fn tiles(extent: usize, tile: usize) -> usize {
    extent.div_ceil(tile)
}

/// Numbers of rounds to try: all small ones, then ever fewer.
fn candidates(most: usize) -> impl Iterator<Item = usize> {
    let most = most.max(1);
    let next = move |&rounds: &usize| Some(if rounds < 16 { rounds + 1 } else { rounds + rounds / 4 });
    std::iter::successors(Some(1), next).take_while(move |rounds| *rounds < most).chain([most])
}

/// The first value of a range for which `before` is false, if it is true up to some point; else the end.
fn partition(range: Range<usize>, before: impl Fn(&usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(&middle) { low = middle + 1 } else { high = middle }
    }
    low
}
