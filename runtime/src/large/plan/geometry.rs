//! The division of a product: the grid of devices, the blocks of C, and the slabs of K.
//!
//! Devices form a grid, and each keeps a block of C while K streams past. Blocks that do not fit the budget are divided
//! further. Then all devices go from one *round* to the next together, so that they can still share slabs.

use std::collections::BTreeMap;
use std::ops::Range;

use ptx_gemm_dsl::types::{Layout, Layouts, Types};

use super::{Addend, Allocation, Request, Workspace};
use crate::large::operation::Buffer;
use crate::large::region::Region;

/// Bytes of a strip of D: long enough for a copy to reach its full speed, short enough to hide all but the last.
const STRIP_BYTES: u64 = 256 << 20;
/// Most strips of a block.
const MOST_STRIPS: usize = 16;

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
    /// Most strips in which a block is finished.
    pub strips: usize,
}

impl Geometry {
    /// The division into this many rounds, with slabs of at most this depth.
    pub(super) fn with(request: &Request, grid: [usize; 2], rounds: [usize; 2], depth: usize, ring: usize) -> Geometry {
        let extent = |extent: usize, tile: usize, parts: usize| {
            (tiles(extent, tile).div_ceil(parts).max(1) * tile).min(extent.next_multiple_of(tile).max(1))
        };
        let rows = extent(request.m, request.tile[0], grid[0] * rounds[0]);
        let cols = extent(request.n, request.tile[1], grid[1] * rounds[1]);
        let slabs = request.k.div_ceil(depth).max(1);
        let result = rows as u64 * cols as u64 * u64::from(request.types.d.bytes());
        let strips = usize::try_from(result.div_ceil(STRIP_BYTES)).unwrap_or(MOST_STRIPS).clamp(1, MOST_STRIPS);
        // A strip has at least one row of tiles.
        let along = if request.layouts.d == Layout::Row { rows / request.tile[0] } else { cols / request.tile[1] };
        let strips = request.tuning.strips.unwrap_or(strips).min(along.max(1));
        let ring = ring.min(slabs * rounds[0] * rounds[1]);
        Geometry { grid, rounds, block: [rows, cols], depth: depth.min(request.k), slabs, ring, strips }
    }

    /// The block of a device in a round; empty beyond the end of the matrix.
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
        let matrix = Allocation::padded;
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
            block(Buffer::Sum, types.epilogue(), layouts.d);
        }
        if homes.result == Buffer::Result {
            block(Buffer::Result, types.d, layouts.d);
        }
        match homes.addend {
            Some(Buffer::Addend) => block(Buffer::Addend, types.c, layouts.c),
            Some(_) => block(Buffer::Sum, types.epilogue(), layouts.d),
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

    /// Bytes of memory on each device.
    pub(super) fn bytes(&self, request: &Request, workspace: Workspace<'_>) -> u64 {
        let buffers = self.buffers(request);
        let bytes = buffers.values().map(Allocation::bytes).fold(request.vector_bytes, u64::saturating_add);
        bytes.saturating_add(self.workspace_bytes(request, workspace))
    }
}

/// Which buffers hold D and C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homes {
    pub(crate) result: Buffer,
    /// `None` if C is not read.
    pub(crate) addend: Option<Buffer>,
}

impl Homes {
    pub(super) fn of(request: &Request) -> Homes {
        Homes::with(request.types, request.layouts, request.addend)
    }

    pub(crate) fn with(types: Types, layouts: Layouts, addend: Addend) -> Homes {
        let result = if types.d == types.epilogue() { Buffer::Sum } else { Buffer::Result };
        let alike = types.c == types.epilogue() && layouts.c == layouts.d;
        let home = if alike { Buffer::Sum } else { Buffer::Addend };
        Homes { result, addend: (addend == Addend::Read).then_some(home) }
    }
}

pub(crate) fn tiles(extent: usize, tile: usize) -> usize {
    extent.div_ceil(tile)
}
