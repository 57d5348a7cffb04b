//! The time of schedules with `wgmma`: demands of one K-tile, and what surrounds the K-tiles of a work tile.
//!
//! | a K-tile takes at least | cycles |
//! |---|---|
//! | its instructions | n / 2 each, for 64 rows and 32 bytes of k, and not less than a fixed number; and the additions of a promotion |
//! | shared memory | each instruction reads 64 rows of A and n columns of B, 32 bytes of k; this bounds narrow n |
//! | copies | the bytes of both operands, over the blocks of a cluster that share them; more if rows begin within a sector |
//! | latency | that of a round through the pipeline, over its stages |
//!
//! Blocks that share a multiprocessor add up, except for latency. Work tiles run in waves over all resident blocks; `stream_k`
//! divides the last wave. A work tile adds its prologue and epilogue. No product is faster than its bytes from memory, than all its
//! copies from the second-level cache, or than its operations within the power limit. A wave reads rows of A and columns of B from
//! memory again if the operands do not fit into the second-level cache.

use ptx_gemm_dsl::atoms::{WGMMA_DEPTH_BYTES, WGMMA_ROWS};
use ptx_gemm_dsl::clause::Atom;
use ptx_gemm_dsl::plan::{OperandPlan, Plan, Variant};
use ptx_gemm_dsl::terms::{Along, Fast};

use super::{Bound, Estimate, PlaneWork, TMA_BYTES, factor, packing, planes};
use crate::gpu::Gpu;
use crate::size::Size;

/// Rows of a `wgmma`, and the bytes of its k in each of them.
const ROWS: f64 = WGMMA_ROWS as f64;
const DEPTH_BYTES: f64 = WGMMA_DEPTH_BYTES as f64;
/// Bytes of a sector of the second-level cache, and of a line.
const SECTOR: usize = 32;
const LINE: usize = 128;
/// Consecutive work tiles that run close to each other, on the multiprocessors of one group (GPC).
const NEIGHBOURS: f64 = 16.0;
/// Additions of f32 that a multiprocessor begins in a cycle.
const LANES: f64 = 128.0;
/// Bytes of a partial sum.
const SUM: f64 = 4.0;

/// Estimates a product; `size` has the extents that the program computes, transposed or not.
pub(super) fn estimate(plan: &Plan, variant: &Variant, size: Size, gpu: &Gpu) -> Estimate {
    let product = Product { plan, variant, size, planes: planes(plan), gpu };
    let (ms, (bound, alone), waves) = product.time();
    let whole = ms + packing(plan, size, gpu) / gpu.clock_ghz / 1e6 + gpu.tensor_launch_us / 1e3;
    Estimate {
        ms: whole,
        share: (alone / whole).min(1.0),
        bound,
        resident_blocks: plan.resident_blocks(variant),
        waves,
        loads_per_fma: 0.0,
        passes_per_fma: 0.0,
        bank_conflicts: 0,
        sectors_per_load: 0.0,
    }
}

/// A product by a schedule with `wgmma`.
struct Product<'p> {
    plan: &'p Plan,
    variant: &'p Variant,
    size: Size,
    planes: PlaneWork,
    gpu: &'p Gpu,
}

/// The cycles of a K-tile of one block.
struct Round {
    list: [(Bound, f64); 3],
    latency: f64,
    norm: f64,
}

impl Round {
    /// Cycles between K-tiles of `blocks` blocks on one multiprocessor.
    fn interval(&self, blocks: f64) -> (Bound, f64) {
        let (bound, most) = self.list.into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((Bound::Math, 0.0));
        let demands = self.list.iter().map(|(_, cycles)| blocks * cycles).chain([self.latency]);
        let together = demands.map(|cycles| cycles.powf(self.norm)).sum::<f64>().powf(self.norm.recip());
        if blocks * most < self.latency { (Bound::Latency, together) } else { (bound, together) }
    }
}

impl Product<'_> {
    /// Milliseconds without the launch, what bounds them and how long that takes alone, and the waves.
    fn time(&self) -> (f64, (Bound, f64), f64) {
        let Product { plan, variant, gpu, .. } = self;
        let (tiles, width) = self.tiles();
        let parts = f64::from(plan.scheduler.split_k.map_or(1, |split| split.parts.max(1)));
        let k_tiles = (self.size.k as f64 / f64::from(plan.block.k.max(1))).ceil().max(1.0) * self.planes.rounds;
        let k_tiles = (k_tiles / parts).ceil();
        let work = tiles * parts * self.size.batch as f64;
        let resident = f64::from(plan.resident_blocks(variant)).max(1.0);
        let processors = self.processors();
        let slots = processors * resident;

        let round = self.round(width);
        let (bound, interval) = round.interval(resident);
        let elements = f64::from(plan.block.m) * width;
        let each = plan.problem.types.d.bytes()
            + if plan.problem.epilogue.uses_c() { plan.problem.types.c.bytes() } else { 0 };
        let by = if variant.staged.is_none() { gpu.tensor_direct_bytes } else { gpu.tensor_store_bytes };
        let epilogue = gpu.tensor_epilogue + elements * f64::from(each) / by;
        // The threads of a persistent block go on while TMA stores, or while another warp group multiplies.
        let overlapped = match plan.roles.turns {
            1 if plan.scheduler.persistent.is_none() => 1.0,
            1 if stores_by_tma(variant) => gpu.tensor_overlapped,
            1 => 1.0,
            _ => gpu.tensor_turns,
        };
        let (full, rest) = ((work / slots).floor(), work % slots);
        let on_each = (rest / processors).ceil();
        let last = if rest > 0.0 { k_tiles * round.interval(on_each).1 } else { 0.0 };
        let through_workspace = gpu.tensor_workspace + 2.0 * elements * SUM / gpu.tensor_workspace_bytes;
        let waves = work / slots;
        let cycles = if plan.scheduler.stream_k {
            // Of few tiles, each is the work of many blocks, which add their sums one after the other.
            let sharers = (slots / work).clamp(1.0, k_tiles);
            waves.max(1.0 / k_tiles) * k_tiles * interval
                + gpu.tensor_prologue
                + waves.ceil() * epilogue
                + through_workspace
                + (sharers - 1.0) * gpu.sharer
        } else if plan.scheduler.persistent.is_some() {
            gpu.tensor_prologue
                + full * (k_tiles * interval + resident * epilogue * overlapped)
                + last
                + if rest > 0.0 { on_each * epilogue } else { epilogue * (1.0 - overlapped) }
        } else {
            let around = |blocks: f64| gpu.tensor_prologue + blocks.max(1.0) * epilogue;
            full * (k_tiles * interval + around(resident)) + if rest > 0.0 { last + around(on_each) } else { 0.0 }
        };
        let sums = match (plan.scheduler.split_k, plan.sums.exchange) {
            (None, _) => 0.0,
            (_, Some(_)) => {
                gpu.tensor_exchange + elements * SUM * (parts - 1.0) / parts / gpu.tensor_exchange_bytes * waves.ceil()
            }
            (_, None) => through_workspace * waves.ceil(),
        };
        let ms = (cycles + sums) / gpu.tensor_clock_ghz / 1e6;
        let all = [(ms, bound), self.memory(tiles, slots / parts), self.copies(tiles, width), self.power()];
        // A schedule that is close to a bound is slowed down by it.
        let norm = gpu.tensor_norm.max(1.0);
        let together = all.iter().map(|(ms, _)| ms.powf(norm)).sum::<f64>().powf(norm.recip());
        let (most, bound) = all.into_iter().max_by(|x, y| x.0.total_cmp(&y.0)).unwrap_or((ms, bound));
        let of_round = |found: f64| found * k_tiles * (work / processors).max(1.0) / gpu.tensor_clock_ghz / 1e6;
        let alone = match round.list.iter().find(|(of, _)| *of == bound) {
            // A bound of K-tiles, and not one of the whole product that has the same name.
            Some((_, cycles)) if most == ms => of_round(*cycles),
            None if bound == Bound::Latency => of_round(round.latency / resident),
            _ => most,
        };
        (together, (bound, alone), waves)
    }

    /// Work tiles, including those that only fill up a cluster, and the columns of each.
    fn tiles(&self) -> (f64, f64) {
        let Product { plan, size, .. } = self;
        let (rows, columns) = (plan.block.m.max(1) as usize, plan.block.n.max(1) as usize);
        let (down, across) = (size.m.div_ceil(rows), size.n.div_ceil(columns));
        let width = match plan.edges.grain {
            Some(grain) => size.n.div_ceil(across.max(1)).next_multiple_of(grain.max(1) as usize),
            None => columns,
        };
        let whole = |tiles: usize, cluster: u32| tiles.next_multiple_of(cluster.max(1) as usize) as f64;
        (whole(down, plan.scheduler.cluster.m) * whole(across, plan.scheduler.cluster.n), width.min(columns) as f64)
    }

    /// Multiprocessors that have work: clusters of several blocks do not fill up every group of multiprocessors.
    fn processors(&self) -> f64 {
        let plan = self.plan;
        let parts = plan.sums.exchange.and(plan.scheduler.split_k).map_or(1, |split| split.parts);
        let blocks = plan.scheduler.cluster.m * plan.scheduler.cluster.n * parts;
        let lost = if blocks > 2 { self.gpu.tensor_cluster_loss * f64::from(blocks) } else { 0.0 };
        (f64::from(self.gpu.processors) - lost).max(1.0)
    }

    /// Blocks of a cluster that share each copy of A, and of B.
    fn sharers(&self) -> [f64; 2] {
        let plan = self.plan;
        let shared = |by: bool, blocks: u32| if by { f64::from(blocks.max(1)) } else { 1.0 };
        [
            shared(plan.scheduler.multicast[0], plan.scheduler.cluster.n),
            shared(plan.scheduler.multicast[1], plan.scheduler.cluster.m),
        ]
    }

    /// How much longer copies of A and of B take because rows begin within a line or a sector: the bytes of a row of a K-tile are in two
    /// lines then, and are two requests.
    fn off_sector(&self) -> [f64; 2] {
        let Product { plan, size, gpu, .. } = self;
        let longer = |operand: &OperandPlan, own: usize| {
            let pitch = operand.dtype.bytes() as usize * if operand.global_fast == Fast::K { size.k } else { own };
            match pitch {
                // What TMA cannot copy is packed first, into rows of whole lines.
                _ if !pitch.is_multiple_of(TMA_BYTES) || pitch.is_multiple_of(LINE) => 1.0,
                _ if pitch.is_multiple_of(SECTOR) => gpu.tensor_off_line.max(1.0),
                _ => gpu.tensor_off_sector.max(1.0),
            }
        };
        [longer(&plan.ring.a, size.m), longer(&plan.ring.b, size.n)]
    }

    /// Bytes that a block fetches for each k, and those beyond the edge of its operands, which TMA fills in. Rows that begin within a
    /// sector count as more bytes.
    fn fetched(&self, width: f64) -> [f64; 2] {
        let Product { plan, size, .. } = self;
        let off = self.off_sector();
        let [a, b] = self.sharers();
        let inside = |extent: usize, tile: f64| extent as f64 / (extent as f64 / tile).ceil().max(1.0);
        let height = f64::from(plan.block.m);
        let rows = inside(size.m, height);
        let columns = inside(size.n, f64::from(plan.block.n)).min(width);
        let read = off[0] * rows / a + off[1] * columns / b;
        [read, (height - rows) / a + (width - columns) / b].map(|extent| extent * self.copied())
    }

    /// How much longer memory takes to deliver short runs of bytes: an operand that is contiguous along its rows or columns has runs as
    /// long as the tile. Along k, one K-tile follows the other.
    fn scattered(&self) -> f64 {
        let Product { plan, gpu, .. } = self;
        let longer = |operand: &OperandPlan, extent: u32| match operand.global_fast {
            Fast::K => 1.0,
            Fast::Mn => 1.0 + gpu.tensor_run_bytes / f64::from((extent * operand.dtype.bytes()).max(1)),
        };
        longer(&plan.ring.a, plan.block.m).max(longer(&plan.ring.b, plan.block.n))
    }

    /// Bytes of an element of the operands as they are copied, planes included.
    fn copied(&self) -> f64 {
        f64::from(self.plan.ring.a.dtype.bytes()) * self.planes.copied
    }

    fn round(&self, width: f64) -> Round {
        let Product { plan, gpu, planes, .. } = self;
        let (columns, depth) = match plan.atom {
            Atom::Wgmma(_, columns, depth) => (f64::from(columns), f64::from(depth)),
            Atom::Fma | Atom::Mma(..) => (width, f64::from(plan.block.k)),
        };
        // A narrower tile is multiplied by narrower instructions.
        let at_once = columns.min(width).max(1.0);
        let longer = if plan.sums.emulate.is_some() { gpu.tensor_planes } else { 1.0 };
        let instructions = f64::from(plan.block.m) / ROWS
            * (f64::from(plan.block.k) / depth)
            * (width / at_once).ceil()
            * planes.products
            * longer;
        // Threads add their accumulators to others at the end of each chunk, while the tensor cores wait.
        let promotions = plan.sums.promote.map_or(0.0, |of| f64::from(plan.block.k) / f64::from(of.every.max(1)));
        let promoted = promotions * f64::from(plan.block.m) * width / LANES;
        let alone = plan.roles.turns > 1 && plan.block.m == WGMMA_ROWS;
        let gaps = if alone { gpu.tensor_alone.max(1.0) } else { 1.0 };
        let shares = plan.scheduler.multicast.contains(&true);
        let slowest = if shares { gpu.tensor_shared_latency.max(1.0) } else { 1.0 };
        let operands = (ROWS + at_once) * DEPTH_BYTES;
        let [read, filled] = self.fetched(width).map(|bytes| bytes * f64::from(plan.block.k));
        let copied = read / gpu.tensor_l2_bytes + filled / gpu.tensor_filled_bytes;
        Round {
            list: [
                (Bound::Math, instructions * gaps * (at_once / 2.0).max(gpu.tensor_least_instruction) + promoted),
                (Bound::Shared, instructions * operands / gpu.tensor_shared_bytes),
                (Bound::L2, copied),
            ],
            latency: gpu.tensor_latency * slowest * self.scattered() / f64::from(plan.ring.stages.max(1)),
            norm: gpu.tensor_norm.max(1.0),
        }
    }

    /// Milliseconds to read both operands from memory and to write D, with this many work tiles at once.
    fn memory(&self, tiles: f64, at_once: f64) -> (f64, Bound) {
        let Product { plan, size, gpu, .. } = self;
        let once = size.bytes(plan.problem.types) as f64;
        let waves = (tiles / at_once).max(1.0);
        let of_wave = self.touched(at_once).iter().sum::<f64>() * size.k as f64 * self.copied();
        let operands = once - (size.m * size.n * size.batch) as f64 * f64::from(plan.problem.types.d.bytes());
        // What the cache holds is read once.
        let again = (waves * of_wave * size.batch as f64 - operands).max(0.0);
        let beyond = (1.0 - gpu.tensor_l2_mb * 1e6 / operands).max(0.0);
        ((once + again * beyond) * self.scattered() / gpu.tensor_dram_tb / 1e9, Bound::Dram)
    }

    /// Rows of A and columns of B that this many consecutive work tiles need in the order of the raster.
    fn touched(&self, tiles: f64) -> [f64; 2] {
        let Product { plan, size, .. } = self;
        let unit = [plan.scheduler.cluster.m * plan.block.m, plan.scheduler.cluster.n * plan.block.n]
            .map(|extent| f64::from(extent.max(1)));
        let [down, across] = [size.m as f64 / unit[0], size.n as f64 / unit[1]].map(|count| count.ceil().max(1.0));
        let units = (tiles / f64::from((plan.scheduler.cluster.m * plan.scheduler.cluster.n).max(1))).max(1.0);
        // Within a band, tiles follow each other across it.
        let along_n = plan.scheduler.raster.along == Along::N;
        let (width, length) = if along_n { (down, across) } else { (across, down) };
        let band = f64::from(plan.scheduler.raster.group.max(1)).min(width);
        let length = (units / band).clamp(1.0, length);
        let width = (units / length).min(width);
        let [rows, columns] = if along_n { [width, length] } else { [length, width] };
        [rows * unit[0], columns * unit[1]]
    }

    /// Milliseconds to read all copies from the second-level cache, which answers requests of neighbours for the same lines at once.
    fn copies(&self, tiles: f64, width: f64) -> (f64, Bound) {
        let Product { plan, size, gpu, .. } = self;
        let [a, b] = self.off_sector();
        let [rows, columns] = self.touched(NEIGHBOURS);
        let of_neighbours = a * rows + b * columns * width / f64::from(plan.block.n.max(1));
        let all = tiles / NEIGHBOURS * size.batch as f64 * size.k as f64 * self.planes.rounds * of_neighbours;
        (all * self.copied() / gpu.tensor_l2_tb / 1e9, Bound::L2)
    }

    /// Milliseconds of the operations at the rate that the power limit allows.
    fn power(&self) -> (f64, Bound) {
        let operations = self.size.operations() * self.planes.products * self.planes.rounds;
        (operations / self.gpu.tflops_of(factor(self.plan)) / 1e9, Bound::Power)
    }
}

fn stores_by_tma(variant: &Variant) -> bool {
    variant.staged.is_some_and(|staged| staged.box_lines.is_some())
}
