//! The plan of a product across processes: SUMMA on a grid (van de Geijn and Watts, "SUMMA: scalable universal matrix
//! multiplication algorithm", 1997).
//!
//! Processes form a grid of P x Q, and each keeps a block of D. K is divided into panels. Panel t of A belongs to column
//! t mod Q of the grid and is broadcast along each row; panel t of B belongs to row t mod P and is broadcast along each
//! column. A process multiplies the panels as they arrive. Those that belong to it are in its memory from the start, one
//! buffer each; the others go through a ring, so that some arrive while one is multiplied.
//!
//! Like a plan of [`crate::large`], a plan is pure, and consists of the same operations and events. A broadcast is one
//! operation of each process that takes part. Every process has the broadcasts in one order, by panel, A before B, so
//! they cannot wait for each other in a cycle.

use std::collections::BTreeMap;
use std::ops::Range;

use ptx_gemm_codegen::kernel::MAX_EXTENT;
use ptx_gemm_dsl::sums::Part;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::{Layouts, Types};

use crate::large::plan::{Addend, Allocation, Division, Homes, Workspace, schedule, tiles};
use crate::large::{Action, Buffer, Operation, Place, PlanError, Product, Region, Stream};

/// Default depth of a panel: deep enough for the speed of the products, shallow enough for little memory.
const DEPTH: usize = 2048;
/// Panels that a process receives into: one arrives while another is multiplied.
const RING: usize = 2;

/// A product to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element types.
    pub types: Types,
    /// Layouts of the parts of A, B and D.
    pub layouts: Layouts,
    /// Whether K may be divided.
    pub division: Division,
    /// The block tile of the kernels, m, n and k.
    pub tile: [usize; 3],
    /// Processes along m and n.
    pub grid: [usize; 2],
    /// Depth of a panel, if it is not to be derived.
    pub depth: Option<usize>,
}

/// A product as broadcasts, launches and events of each process.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What was planned.
    pub request: Request,
    /// Rows and columns of a block of D; the last ones may be smaller, or empty.
    pub block: [usize; 2],
    /// Depth of a panel; the last one may be shallower.
    pub depth: usize,
    /// Panels; at least one, which is empty if K is 0.
    pub panels: usize,
    /// Panels of A, and of B, that a process receives into.
    pub ring: usize,
    /// Bytes of the kernels' workspace on each process.
    pub workspace_bytes: u64,
}

impl Plan {
    /// Plans a product. `workspace` returns the bytes of workspace of a launch by its m, n and k.
    ///
    /// # Errors
    /// [`PlanError`]: numbers outside their range.
    pub fn new(request: Request, workspace: Workspace<'_>) -> Result<Plan, PlanError> {
        let Request { m, n, k, tile, grid, .. } = request;
        for (name, got) in [("M", m), ("N", n), ("K", k)] {
            let limit = MAX_EXTENT as usize;
            if got > limit {
                return Err(PlanError::Extent { name, got, limit });
            }
        }
        if grid.contains(&0) {
            return Err(PlanError::NoDevice);
        }
        if request.depth == Some(0) {
            return Err(PlanError::Zero { name: "the depth of panels" });
        }
        let block = [(m, 0), (n, 1)].map(|(extent, axis)| tiles(extent, tile[axis]).div_ceil(grid[axis]) * tile[axis]);
        let block = [block[0].min(m), block[1].min(n)];
        // At least one panel for every process of a row or column, so that each holds a part of A and B.
        let even = k.div_ceil(grid[0].max(grid[1])).clamp(1, DEPTH);
        let depth = match request.division {
            Division::Whole => k,
            Division::Slabs => request.depth.unwrap_or(even).next_multiple_of(tile[2]).min(k),
        };
        let panels = k.div_ceil(depth.max(1)).max(1);
        let workspace_bytes = workspace(block[0], block[1], depth);
        Ok(Plan { request, block, depth, panels, ring: RING.min(panels), workspace_bytes })
    }

    /// The processes.
    pub fn size(&self) -> usize {
        self.request.grid[0] * self.request.grid[1]
    }

    /// Row and column of a process in the grid: neighbours of a row have neighbouring numbers.
    pub fn place(&self, rank: usize) -> [usize; 2] {
        let [_, cols] = self.request.grid;
        [rank / cols, rank % cols]
    }

    /// The part of D that a process keeps.
    pub fn part(&self, rank: usize) -> Region {
        let place = self.place(rank);
        let range = |axis: usize, extent: usize| {
            let start = (place[axis] * self.block[axis]).min(extent);
            start..(start + self.block[axis]).min(extent)
        };
        Region::new(range(0, self.request.m), range(1, self.request.n))
    }

    /// The range of K of a panel.
    pub fn panel(&self, panel: usize) -> Range<usize> {
        let start = (panel * self.depth).min(self.request.k);
        start..(start + self.depth).min(self.request.k)
    }

    /// The parts of A, or of B, that a process has from the start: the buffer of each, and its place in the matrix.
    pub fn own(&self, rank: usize, operand: Operand) -> Vec<(Buffer, Region)> {
        let part = self.part(rank);
        let own = (0..self.panels).filter(|panel| self.root(rank, operand, *panel) == rank);
        let parts = own.map(|panel| {
            let k = self.panel(panel);
            match operand {
                Operand::A => Region::new(part.row..part.row + part.rows, k),
                _ => Region::new(k, part.col..part.col + part.cols),
            }
        });
        let buffer = |index| if operand == Operand::A { Buffer::OwnA(index) } else { Buffer::OwnB(index) };
        parts.enumerate().map(|(index, part)| (buffer(index), part)).filter(|(_, part)| !part.is_empty()).collect()
    }

    /// The process that has a panel, among those of a process's row (for A) or column (for B).
    pub fn root(&self, rank: usize, operand: Operand, panel: usize) -> usize {
        let ([row, col], [rows, cols]) = (self.place(rank), self.request.grid);
        match operand {
            Operand::A => row * cols + panel % cols,
            _ => (panel % rows) * cols + col,
        }
    }

    /// The processes that share a process's panels of A (its row), or of B (its column), in ascending order.
    pub fn sharing(&self, rank: usize, operand: Operand) -> Vec<usize> {
        let ([row, col], [rows, cols]) = (self.place(rank), self.request.grid);
        match operand {
            Operand::A => (0..cols).map(|col| row * cols + col).collect(),
            _ => (0..rows).map(|row| row * cols + col).collect(),
        }
    }

    /// The buffers of a process.
    pub fn buffers(&self, rank: usize) -> BTreeMap<Buffer, Allocation> {
        let Request { types, layouts, grid, .. } = &self.request;
        let [rows, cols] = self.block;
        let a = Allocation::padded(types.a, rows, self.depth, layouts.a);
        let b = Allocation::padded(types.b, self.depth, cols, layouts.b);
        let own = |operand, processes: usize| {
            let belongs = move |panel: &usize| self.root(rank, operand, *panel) == rank;
            // A panel of K = 0 is empty, but it is still a matrix.
            (0..self.panels).filter(belongs).map(move |panel| panel / processes)
        };
        let mut buffers: BTreeMap<Buffer, Allocation> = BTreeMap::new();
        buffers.extend(own(Operand::A, grid[1]).map(|index| (Buffer::OwnA(index), a)));
        buffers.extend(own(Operand::B, grid[0]).map(|index| (Buffer::OwnB(index), b)));
        for slot in 0..self.ring {
            buffers.extend((grid[1] > 1).then_some((Buffer::A(slot), a)));
            buffers.extend((grid[0] > 1).then_some((Buffer::B(slot), b)));
        }
        let result = self.homes().result;
        if self.panels > 1 || result == Buffer::Sum {
            buffers.insert(Buffer::Sum, Allocation::padded(types.epilogue(), rows, cols, layouts.d));
        }
        if result == Buffer::Result {
            buffers.insert(Buffer::Result, Allocation::padded(types.d, rows, cols, layouts.d));
        }
        buffers
    }

    /// Bytes of device memory of the process that needs most.
    pub fn device_bytes(&self) -> u64 {
        let bytes = |rank| self.buffers(rank).values().map(Allocation::bytes).fold(0, u64::saturating_add);
        // The first process has the first panels, and the most.
        bytes(0).saturating_add(self.workspace_bytes)
    }

    /// The buffers that hold D at the end.
    pub(super) fn homes(&self) -> Homes {
        Homes::with(self.request.types, self.request.layouts, Addend::Absent)
    }

    /// The operations of a process, in the order of issue. Devices are processes.
    pub fn operations(&self, rank: usize) -> Vec<Operation> {
        schedule(self.steps(rank)).0
    }

    /// The operations of all processes, with separate events, one process after another. One thread can run them in
    /// this order, since a broadcast reads a panel that is there from the start.
    pub fn world(&self) -> Vec<Operation> {
        schedule((0..self.size()).flat_map(|rank| self.steps(rank)).collect()).0
    }

    /// The operations of a process without events, in the order of one thread.
    fn steps(&self, rank: usize) -> Vec<Operation> {
        let part = self.part(rank);
        let mut steps = Vec::new();
        for panel in 0..self.panels {
            let depth = self.panel(panel).len();
            let mut bring = |operand: Operand| {
                let root = self.root(rank, operand, panel);
                let (region, own, slot) = match operand {
                    Operand::A => {
                        let region = Region { row: 0, col: 0, rows: part.rows, cols: depth };
                        (region, Buffer::OwnA(panel / self.request.grid[1]), Buffer::A(panel % self.ring))
                    }
                    _ => {
                        let region = Region { row: 0, col: 0, rows: depth, cols: part.cols };
                        (region, Buffer::OwnB(panel / self.request.grid[0]), Buffer::B(panel % self.ring))
                    }
                };
                let from = Place { buffer: own, region };
                let to = if root == rank { from } else { Place { buffer: slot, region } };
                if !region.is_empty() {
                    let action = Action::Broadcast { operand, panel, root, from, to };
                    steps.push(Operation { device: rank, stream: Stream::Exchange, action });
                }
                to
            };
            let (a, b) = (bring(Operand::A), bring(Operand::B));
            if !part.is_empty() {
                let action = Action::Multiply(self.product(panel, part, a, b));
                steps.push(Operation { device: rank, stream: Stream::Compute, action });
            }
        }
        steps
    }

    fn product(&self, panel: usize, part: Region, a: Place, b: Place) -> Product {
        let result = self.homes().result;
        let last = self.panels - 1;
        let (which, c, d) = match panel {
            0 if last == 0 => (Part::Whole, None, result),
            0 => (Part::First, None, Buffer::Sum),
            panel if panel == last => (Part::Last, Some(Buffer::Sum), result),
            _ => (Part::Middle, Some(Buffer::Sum), Buffer::Sum),
        };
        let at = |buffer| Place { buffer, region: Region { row: 0, col: 0, ..part } };
        Product { part: which, a, b, c: c.map(at), d: at(d), host: part }
    }
}

/// The most square grid of this many processes. It has at least as many along m as along n if m is larger, and
/// conversely.
pub fn grid(size: usize, m: usize, n: usize) -> [usize; 2] {
    let size = size.max(1);
    let least = (1..=size.isqrt()).rev().find(|rows| size.is_multiple_of(*rows)).unwrap_or(1);
    if m > n { [size / least, least] } else { [least, size / least] }
}
