//! The time of schedules with `wgmma`: bounds of one K-tile, and what surrounds the K-tiles of a work tile.
//!
//! | a K-tile takes at least | cycles |
//! |---|---|
//! | its instructions | n / 2 each, for m64nNk16 of 16-bit elements, and not less than a fixed number |
//! | shared memory | each instruction reads 64 rows of A and n columns of B, 16 of k; this bounds narrow n |
//! | copies | the bytes of both operands, over the blocks of a cluster that share them |
//! | latency | that of a round through the ring, over its stages |
//!
//! Blocks that share a multiprocessor add up, except for latency. Work tiles run in waves over all blocks that are resident; `stream_k`
//! divides the last one. A work tile adds its prologue and epilogue. No product is faster than its bytes from memory, than all its copies
//! from the second-level cache, or than its operations within the power limit.

use ptx_gemm_dsl::clause::Atom;
use ptx_gemm_dsl::plan::{Plan, Variant};

use super::{Bound, PlaneWork};
use crate::gpu::{Gpu, Tensor};
use crate::size::Size;

/// Rows and k of a `wgmma` of 16-bit elements.
const ROWS: f64 = 64.0;
const DEPTH: f64 = 16.0;

/// A product by a schedule with `wgmma`; `size` has the extents that the program computes, transposed or not.
pub(super) struct Product<'p> {
    pub plan: &'p Plan,
    pub variant: &'p Variant,
    pub size: Size,
    pub planes: PlaneWork,
    pub gpu: &'p Gpu,
}

/// The cycles of a K-tile of one block.
struct Round {
    list: [(Bound, f64); 3],
    latency: f64,
}

impl Round {
    /// Cycles between K-tiles of `blocks` blocks on one multiprocessor.
    fn interval(&self, blocks: f64) -> (Bound, f64) {
        let (bound, most) = self.list.into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((Bound::Math, 0.0));
        if blocks * most < self.latency { (Bound::Latency, self.latency) } else { (bound, blocks * most) }
    }
}

impl Product<'_> {
    /// Milliseconds without the launch, and what bounds them.
    pub fn time(&self) -> (f64, Bound) {
        let Product { plan, variant, gpu, .. } = self;
        let of: &Tensor = &gpu.tensor;
        let (tiles, width) = self.tiles();
        let parts = f64::from(plan.split_k.map_or(1, |split| split.parts.max(1)));
        let k_tiles = (self.size.k as f64 / f64::from(plan.block.k.max(1))).ceil().max(1.0) * self.planes.rounds;
        let k_tiles = (k_tiles / parts).ceil();
        let work = tiles * parts * self.size.batch as f64;
        let resident = f64::from(plan.resident_blocks(variant));
        let processors = self.processors();
        let slots = processors * resident;

        let round = self.round(width);
        let (bound, interval) = round.interval(resident);
        let elements = f64::from(plan.block.m) * width;
        let epilogue = of.epilogue + elements * f64::from(plan.problem.types.d.bytes()) / of.store_bytes;
        // The threads of a persistent block continue while TMA stores, or while another group multiplies.
        let overlaps = plan.persistent.is_some() && (stores_by_tma(variant) || plan.turns > 1);
        let (full, rest) = ((work / slots).floor(), work % slots);
        let on_each = (rest / processors).ceil();
        let last = if rest > 0.0 { k_tiles * round.interval(on_each).1 } else { 0.0 };
        let cycles = if plan.stream_k {
            let waves = work / slots;
            waves * k_tiles * interval + of.prologue + (waves.ceil() + 1.0) * epilogue
        } else if plan.persistent.is_some() {
            let each = epilogue * if overlaps { of.overlapped } else { 1.0 };
            of.prologue + full * (k_tiles * interval + resident * each) + last + on_each * epilogue
        } else {
            let around = |blocks: f64| of.prologue + blocks.max(1.0) * epilogue;
            full * (k_tiles * interval + around(resident)) + if rest > 0.0 { last + around(on_each) } else { 0.0 }
        };
        let sums = match (plan.split_k, plan.exchange) {
            (None, _) => 0.0,
            (_, Some(_)) => of.exchange,
            (_, None) => of.workspace,
        };
        let ms = (cycles + sums) / of.clock_ghz / 1e6;
        [(ms, bound), self.memory(), self.copies(tiles, width), self.power()]
            .into_iter()
            .max_by(|x, y| x.0.total_cmp(&y.0))
            .unwrap_or((ms, bound))
    }

    /// Work tiles, including those that only fill up a cluster, and the columns of each.
    fn tiles(&self) -> (f64, f64) {
        let Product { plan, size, .. } = self;
        let (rows, columns) = (plan.block.m.max(1) as usize, plan.block.n.max(1) as usize);
        let (down, across) = (size.m.div_ceil(rows), size.n.div_ceil(columns));
        let width = match plan.grain {
            Some(grain) => size.n.div_ceil(across.max(1)).next_multiple_of(grain.max(1) as usize),
            None => columns,
        };
        let whole = |tiles: usize, cluster: u32| tiles.next_multiple_of(cluster.max(1) as usize) as f64;
        (whole(down, plan.cluster.m) * whole(across, plan.cluster.n), width.min(columns) as f64)
    }

    /// Multiprocessors that have work: clusters of several blocks do not fill up every group of multiprocessors.
    fn processors(&self) -> f64 {
        let plan = self.plan;
        let parts = plan.exchange.and(plan.split_k).map_or(1, |split| split.parts);
        let blocks = plan.cluster.m * plan.cluster.n * parts;
        let lost = if blocks > 2 { self.gpu.tensor.cluster_loss * f64::from(blocks) } else { 0.0 };
        (f64::from(self.gpu.processors) - lost).max(1.0)
    }

    /// Blocks of a cluster that share each copy of A, and of B.
    fn sharers(&self) -> [f64; 2] {
        let plan = self.plan;
        let shared = |by: bool, blocks: u32| if by { f64::from(blocks.max(1)) } else { 1.0 };
        [shared(plan.multicast[0], plan.cluster.n), shared(plan.multicast[1], plan.cluster.m)]
    }

    fn round(&self, width: f64) -> Round {
        let Product { plan, gpu, planes, .. } = self;
        let of = &gpu.tensor;
        let columns = match plan.atom {
            Atom::Wgmma(_, columns, _) => f64::from(columns),
            Atom::Fma | Atom::Mma(..) => width,
        };
        // A narrower tile is multiplied by narrower instructions.
        let at_once = columns.min(width).max(1.0);
        let bytes = f64::from(plan.problem.types.a.bytes().min(2));
        let deep = f64::from(plan.block.k) / DEPTH * (bytes / 2.0).max(0.5);
        let instructions = f64::from(plan.block.m) / ROWS * deep * (width / at_once).ceil() * planes.products;
        let read = ROWS * DEPTH * 2.0 + at_once * DEPTH * 2.0;
        let [a, b] = self.sharers();
        let copied = (f64::from(plan.block.m) / a + width / b) * f64::from(plan.block.k);
        let copied = copied * f64::from(plan.a.dtype.bytes()) * planes.copied;
        Round {
            list: [
                (Bound::Math, instructions * (at_once / 2.0).max(of.least_instruction)),
                (Bound::Shared, instructions * read / of.shared_bytes),
                (Bound::L2, copied / of.l2_bytes),
            ],
            latency: of.latency / f64::from(plan.stages.max(1)),
        }
    }

    /// Milliseconds to read both operands from memory once and to write D.
    fn memory(&self) -> (f64, Bound) {
        (self.size.bytes(self.plan.problem.types) as f64 / self.gpu.tensor.dram_tb / 1e9, Bound::Dram)
    }

    /// Milliseconds to read all copies from the second-level cache.
    fn copies(&self, tiles: f64, width: f64) -> (f64, Bound) {
        let [a, b] = self.sharers();
        let each =
            (f64::from(self.plan.block.m) / a + width / b) * f64::from(self.plan.a.dtype.bytes()) * self.planes.copied;
        let all = tiles * self.size.batch as f64 * self.size.k as f64 * self.planes.rounds * each;
        (all / self.gpu.tensor.l2_tb / 1e9, Bound::L2)
    }

    /// Milliseconds of the operations at the rate that the power limit allows.
    fn power(&self) -> (f64, Bound) {
        let operations = self.size.operations() * self.planes.products * self.planes.rounds;
        (operations / self.gpu.tensor.tflops / 1e9, Bound::Power)
    }
}

fn stores_by_tma(variant: &Variant) -> bool {
    variant.staged.is_some_and(|staged| staged.box_lines.is_some())
}
