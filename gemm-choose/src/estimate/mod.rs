//! Estimates the time of a product from the figures of a plan, in microseconds and without a GPU or a compilation.
//!
//! # The model
//!
//! Everything is counted for one K-tile of one block, from the plan's sample ([`ptx_gemm_dsl::sample`]), in cycles of a
//! multiprocessor. Each resource has a demand:
//!
//! | resource | demand |
//! |---|---|
//! | multiply-adds | instructions of warps, and one slot for every register that a read of shared memory fills, over the lanes; on tensor cores, products of elements over their rate |
//! | issue slots | multiply-adds, reads, stores, loads, and the instructions that accompany each of them, over four per cycle |
//! | shared memory | passes over the banks, those lost to conflicts included; and lines of global loads, which share its data path |
//! | second-level cache | sectors of the copies; without staging the data that the block needs, once, since the first level has the rest |
//! | spills | stores and loads of the accumulators that have no register |
//!
//! The greatest demand is the time of a K-tile when enough blocks hide its latency. A single block also waits: for its loads
//! (divided by the K-tiles that the pipeline runs ahead), for barriers, for the first fragments of an unrolled body, for chains
//! of dependent multiply-adds. With r blocks on a multiprocessor a K-tile takes `max(r * demand, demand + latency)`. A wave is
//! r blocks on each multiprocessor; the last one is as slow as its fullest multiprocessor. Each wave adds a prologue and an
//! epilogue, with the stores of D. Parts of a split K are separate blocks, with the traffic of their partial sums, and so are
//! the equal shares of the last wave with `stream_k`. A packed operand costs a launch and its bytes twice. No product is faster
//! than the transfer of its operands from memory.
//!
//! # How far to trust it
//!
//! Schedules with `wgmma` have a separate model, `tensor.rs`.
//!
//! It is an estimate for ranking. It does not model the assembler running out of registers, the order of multiply-adds (`order`), or
//! reads that the assembler merges. docs/choosing.md compares it with measured times, and a test in gemm-bench fails if what it picks
//! is too slow.

mod tensor;

use std::fmt;

use ptx_gemm_dsl::Layout;
use ptx_gemm_dsl::clause::Atom;
use ptx_gemm_dsl::plan::{OperandPlan, Plan, STREAM_DEPTH, Variant};
use ptx_gemm_dsl::sample::{SAMPLE_TILES, Sample};
use ptx_gemm_dsl::terms::{Fast, Operands, Reduce, Tail};
use ptx_gemm_dsl::types::{DType, Orientation, Types};
use serde::{Deserialize, Serialize};

use crate::gpu::{Gpu, with_article};
use crate::size::Size;

/// Bytes of a sector of global memory, and of a line of the first-level cache.
const SECTOR: f64 = 32.0;
const LINE: f64 = 128.0;
/// Threads of a warp.
const WARP: f64 = 32.0;
/// Registers of a thread that hold no accumulators.
const BESIDES: f64 = 24.0;
/// Cycles from a multiply-add to one that needs its result.
const CHAIN: f64 = 4.0;
/// How the demands for resources add up: 1 would be their sum, infinity their maximum.
const NORM: f64 = 16.0;
/// The same for the time of all K-tiles and that of memory.
const CLOSE: f64 = 6.0;
/// The alignment in bytes of the rows of an operand that TMA copies.
const TMA_BYTES: usize = 16;
/// Bytes per cycle that a multiprocessor moves when its threads spill.
const SPILL_BYTES: f64 = 8.0;

/// The estimated time of one product, and the figures behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Milliseconds.
    pub ms: f64,
    /// The resource that limits it.
    pub bound: Bound,
    /// The share of the time that this resource alone takes: 1 if nothing else matters.
    pub share: f64,
    /// Blocks that a multiprocessor holds at once.
    pub resident_blocks: u32,
    /// Waves of blocks; the last one may be partial.
    pub waves: f64,
    /// Loads for each multiply-add.
    pub loads_per_fma: f64,
    /// Passes over the banks for each multiply-add.
    pub passes_per_fma: f64,
    /// Passes lost to bank conflicts, in the plan's sample.
    pub bank_conflicts: u64,
    /// Sectors of a global load.
    pub sectors_per_load: f64,
}

/// The resource that a K-tile waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Multiply-adds.
    Math,
    /// Issue slots.
    Issue,
    /// Shared memory, and the first-level cache, which is the same.
    Shared,
    /// The second-level cache.
    L2,
    /// Memory.
    Dram,
    /// The rate of operations that the power limit allows.
    Power,
    /// Latency that too few blocks leave exposed.
    Latency,
    /// Accumulators without registers.
    Spills,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bound::Math => "math",
            Bound::Issue => "issue",
            Bound::Shared => "shared",
            Bound::L2 => "l2",
            Bound::Dram => "dram",
            Bound::Power => "power",
            Bound::Latency => "latency",
            Bound::Spills => "spills",
        })
    }
}

/// Estimates how long a plan takes for packed matrices of that size.
///
/// # Errors
///
/// Returns why it does not run there: `tail(none)` and extents that its tile does not divide, another GPU's instructions,
/// or matrices that exceed its memory.
pub fn estimate(plan: &Plan, size: Size, gpu: &Gpu) -> Result<Estimate, Unsuited> {
    if !plan.target.runs_on(gpu.capability) {
        let message = format!("code for {} does not run on {}", plan.target, with_article(&gpu.name));
        return Err(Unsuited { rule: "device", message });
    }
    let block = plan.problem.asked_extents(plan.block);
    let extents = [(size.m, block.m), (size.n, block.n), (size.k, block.k)];
    if plan.edges.tail == Tail::None && extents.iter().any(|(size, tile)| !size.is_multiple_of((*tile).max(1) as usize))
    {
        let message = format!("tail(none) takes multiples of {} x {} x {}, not {size}", block.m, block.n, block.k);
        return Err(Unsuited { rule: "size", message });
    }
    let bytes = size.bytes(plan.problem.asked().types);
    if bytes > gpu.memory_bytes.into() {
        let (needed, has) = (bytes as f64 / 1e9, gpu.memory_bytes as f64 / 1e9);
        let gpu = with_article(&gpu.name);
        let message = format!("the matrices of {size} take {needed:.4} GB, and {gpu} has {has} GB");
        return Err(Unsuited { rule: "memory", message });
    }
    // Extents of the product that the plan computes, transposed or not.
    let Size { m, n, .. } = size;
    let size = if plan.problem.orientation == Orientation::Transposed { Size { m: n, n: m, ..size } } else { size };
    let plan = &as_assembled(plan);
    let variant = entry(plan, size);
    if matches!(plan.atom, Atom::Wgmma(..)) {
        return Ok(tensor::estimate(plan, variant, size, gpu));
    }
    Ok(Model { plan, variant, sample: plan.sample(variant), size, gpu }.estimate())
}

/// Milliseconds that the multiply-adds of a product take at least if threads compute them.
pub(crate) fn least_of_threads(types: Types, size: Size, gpu: &Gpu) -> f64 {
    let lanes = gpu.fma_of(types.acc) * WARP * f64::from(gpu.processors);
    size.operations() / 2.0 / lanes / gpu.clock_ghz / 1e6
}

/// The plan as optimised by NVIDIA's assembler: repeated reads are merged, and contiguous reads are combined.
///
/// On an H200 at 4096 `registers` reads its fragments one by one and takes 4.1 ms; `vectorized`, by fours, 3.7 ms. The
/// same reads would take 6.6 ms if they were not combined. `thread_2d`, which reads each operand for each product,
/// takes 4.3 ms.
fn as_assembled(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.body.operands = Operands::Registers;
    let (fragment, unroll) = (plan.geometry.fragment, plan.body.unroll);
    for (operand, fragment) in [(&mut plan.ring.a, fragment.m), (&mut plan.ring.b, fragment.n)] {
        let Some(placement) = operand.placement else { continue };
        let together = if placement.fast == Fast::K { unroll } else { fragment };
        let aligned = |width: &u32| [together, placement.pitch].iter().all(|extent| extent.is_multiple_of(*width));
        let widest = [4, 2].into_iter().filter(|width| width * operand.dtype.bytes() <= 16).find(aligned);
        operand.read_width = operand.read_width.max(widest.unwrap_or(1));
    }
    plan
}

/// Why a legal schedule does not run a product on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuited {
    /// A short name, like those of the language's rules.
    pub rule: &'static str,
    /// The reason.
    pub message: String,
}

/// The entry that a launch uses: the first one with accesses that packed leading dimensions allow.
fn entry(plan: &Plan, size: Size) -> &Variant {
    let leading = |operand: &OperandPlan, own: usize| if operand.global_fast == Fast::K { size.k } else { own };
    let layouts = plan.problem.layouts;
    let d = if layouts.d == Layout::Row { size.n } else { size.m };
    let fits = |variant: &&Variant| {
        let inputs = [(&plan.ring.a, size.m, variant.a.width), (&plan.ring.b, size.n, variant.b.width)];
        let loaded = inputs.into_iter().filter(|(operand, ..)| !plan.ring.pack.contains(&operand.side));
        loaded
            .map(|(operand, own, width)| (leading(operand, own), width))
            .chain([(d, variant.d_width)])
            .all(|(extent, width)| extent.is_multiple_of(width.max(1) as usize))
    };
    plan.variants.iter().find(fits).unwrap_or(&plan.variants[plan.variants.len() - 1])
}

struct Model<'p> {
    plan: &'p Plan,
    variant: &'p Variant,
    sample: Sample,
    size: Size,
    gpu: &'p Gpu,
}

/// The demand of one K-tile of one block for each resource, in cycles.
struct Demand {
    list: [(Bound, f64); 5],
    latency: f64,
}

/// How planes change a schedule's work.
struct PlaneWork {
    /// Products of a K-tile, relative to a schedule without planes.
    products: f64,
    /// Number of K-tiles, relative to the same.
    rounds: f64,
    /// Bytes copied for a K-tile, relative to those of the original operands.
    copied: f64,
}

impl Demand {
    /// The greatest demand, and its resource.
    fn most(&self) -> (Bound, f64) {
        self.list.into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((Bound::Math, 0.0))
    }

    /// Cycles of one K-tile of each of `blocks` blocks on one multiprocessor.
    fn interval(&self, blocks: f64) -> (Bound, f64) {
        // Demands close to the greatest interfere with it: the norm is between their maximum and their sum.
        let bound = self.most().0;
        let busy = self.list.iter().map(|(_, cycles)| cycles.powf(NORM)).sum::<f64>().powf(NORM.recip());
        let (together, alone) = (blocks * busy, busy + self.latency);
        if alone > together { (Bound::Latency, alone) } else { (bound, together) }
    }
}

impl Model<'_> {
    fn estimate(&self) -> Estimate {
        let Model { plan, size, gpu, sample, .. } = self;
        let parts = plan.scheduler.split_k.map_or(1, |split| split.parts.max(1));
        let tiles = [size.m.div_ceil(plan.block.m as usize), size.n.div_ceil(plan.block.n as usize), size.batch];
        let blocks = tiles.iter().map(|&count| count as f64).product::<f64>() * f64::from(parts);
        let k_tiles = (size.k as f64 / f64::from(plan.block.k.max(1)) / f64::from(parts)).ceil().max(1.0);
        let k_tiles = k_tiles * planes(self.plan).rounds;
        let resident = plan.resident_blocks(self.variant);
        let demand = self.demand();
        let per_wave = f64::from(gpu.processors * resident);
        let (full, rest) = ((blocks / per_wave).floor(), blocks % per_wave);
        let mut cycles = 0.0;
        let mut bound = (Bound::Latency, 0.0);
        // With stream-K every block has the same share of the last wave, and a whole product may have fewer blocks.
        let (streaming, share) = match plan.scheduler.stream_k {
            true if full > 0.0 => (per_wave, rest / per_wave),
            true => {
                let shares = (size.k as f64 / f64::from(plan.block.k.max(STREAM_DEPTH))).ceil().max(1.0);
                let streaming = (rest * shares).min(per_wave);
                (streaming, rest / streaming.max(1.0))
            }
            false => (rest, 1.0),
        };
        let last = (streaming / f64::from(gpu.processors)).ceil();
        let whole = (full, 1.0, f64::from(resident));
        for (waves, share, on_each) in [whole, (1.0, share, last)] {
            if waves > 0.0 && on_each > 0.0 && share > 0.0 {
                let (why, interval) = demand.interval(on_each);
                let divided = plan.scheduler.split_k.is_some() || share < 1.0;
                // Few tiles with stream-K: many blocks add their sums to one of them, one after the other.
                let chain = (share.recip() - 1.0) * gpu.sharer;
                let time = waves * ((k_tiles * share).ceil() * interval + self.around(on_each, divided) + chain);
                if time > bound.1 {
                    bound = (why, time);
                }
                cycles += time;
            }
        }
        let memory = self.memory();
        if memory > cycles {
            bound.0 = Bound::Dram;
        }
        let waits = if matches!(plan.atom, Atom::Mma(..)) { gpu.mma_waits } else { 1.0 };
        // As in a K-tile, two bounds that are close interfere.
        let together =
            [waits * cycles, memory].map(|cycles| cycles.powf(CLOSE)).iter().sum::<f64>().powf(CLOSE.recip());
        let ms = together / gpu.clock_ghz / 1e6;
        let per_fma = |figure: u64| figure as f64 / sample.fma.max(1) as f64;
        let whole = ms + packing(plan, *size, gpu) / gpu.clock_ghz / 1e6 + gpu.launch_us / 1e3;
        let others = [(Bound::Dram, memory / k_tiles), (Bound::Latency, demand.latency)];
        let demand = demand.list.iter().chain(&others);
        let alone = demand.filter(|(of, _)| *of == bound.0).map(|(_, cycles)| cycles).sum::<f64>();
        let at_once = if bound.0 == Bound::Dram { 1.0 } else { (blocks / f64::from(gpu.processors)).max(1.0) };
        let alone = alone * k_tiles * at_once / gpu.clock_ghz / 1e6;
        Estimate {
            share: (alone / whole).min(1.0),
            ms: whole,
            bound: bound.0,
            resident_blocks: resident,
            waves: blocks / per_wave,
            loads_per_fma: sample.loads_per_fma().as_f64(),
            passes_per_fma: per_fma(sample.reads.passes + sample.stores.passes),
            bank_conflicts: sample.bank_conflicts().as_f64() as u64,
            sectors_per_load: sample.sectors_per_load().as_f64(),
        }
    }

    /// The demands of one K-tile of one block.
    fn demand(&self) -> Demand {
        let Model { plan, gpu, sample, .. } = self;
        let k_tiles = Sample::K_TILES as f64;
        let (fma, loads, sectors) =
            (sample.fma as f64 / k_tiles, sample.loads as f64 / k_tiles, sample.sectors as f64 / k_tiles);
        let reads = (sample.reads.accesses as f64 / k_tiles, sample.reads.passes as f64 / k_tiles);
        let stored = sample.stored_tiles.max(1) as f64;
        let stores = (sample.stores.accesses as f64 / stored, sample.stores.passes as f64 / stored);
        let warps = (f64::from(plan.threads()) / WARP).ceil();

        let body = f64::from(plan.accumulators() * plan.body.unroll);
        let (math, products) = self.products(fma);
        let refetched = if plan.atom == Atom::Fma && body > gpu.cached_fma { 2.0 } else { 1.0 };
        let instructions = products
            + reads.0
            + stores.0
            + (loads + stores.0) * gpu.issue_with_each
            + loads
            + warps * gpu.issue_per_tile;
        let issue = instructions * refetched / gpu.issue_per_clock;
        // Lanes with scattered addresses take a line each; contiguous lanes take the lines that their bytes fill.
        let whole = loads * self.load_bytes() * WARP / SECTOR;
        let lines = (sectors.min(whole) * SECTOR / LINE).max(loads) + (sectors - whole).max(0.0);
        let staged = plan.ring.a.placement.is_some();
        let once = f64::from(plan.block.m * plan.ring.a.dtype.bytes() + plan.block.n * plan.ring.b.dtype.bytes())
            * f64::from(plan.block.k);
        let copied = planes(self.plan).copied;
        let l2 = copied * if staged { sectors * SECTOR } else { once.min(sectors * SECTOR) } / gpu.l2_bytes_per_clock;
        let spilled = self.spilled() * fma * 2.0 * WARP * f64::from(plan.problem.types.acc.bytes()) / SPILL_BYTES;
        let list = [
            (Bound::Math, math),
            (Bound::Issue, issue),
            (Bound::Shared, gpu.merged_reads * reads.1 + stores.1 + lines),
            (Bound::L2, l2),
            (Bound::Spills, spilled),
        ];
        Demand { list, latency: self.latency(math.max(issue), warps) }
    }

    /// Cycles and instructions of the products of a K-tile, which has `fma` multiply-adds of warps.
    fn products(&self, fma: f64) -> (f64, f64) {
        let (gpu, elements) = (self.gpu, fma * WARP * planes(self.plan).products);
        match self.plan.atom {
            Atom::Fma => {
                let cycles = fma / gpu.fma_of(self.plan.problem.types.acc);
                (cycles + self.fragment_registers() / gpu.issue_per_clock, fma)
            }
            Atom::Mma(m, n, k) | Atom::Wgmma(m, n, k) => {
                (elements / gpu.mma_of(factor(self.plan)), elements / (f64::from(m) * f64::from(n) * f64::from(k)))
            }
        }
    }

    /// Cycles of a K-tile in which a single block waits.
    fn latency(&self, busy: f64, warps: f64) -> f64 {
        let Gpu { latency_global: global, latency_first_level: first_level, latency_shared: shared, .. } = *self.gpu;
        let plan = self.plan;
        let depth = f64::from(plan.block.k);
        let bodies = (depth / f64::from(plan.body.unroll.max(1))).max(1.0);
        // The other warps of a scheduler hide a dependency chain.
        let chain = if plan.atom == Atom::Fma { (depth * CHAIN - busy).max(0.0) } else { 0.0 };
        if plan.ring.a.placement.is_none() {
            // Rows of D share lines: most loads find theirs in the first level.
            let ahead = f64::from(plan.body.prefetch + 1).min(f64::from(plan.body.unroll.max(1)));
            return chain + depth / ahead * first_level + global * depth * SECTOR.recip();
        }
        let ahead = f64::from(plan.ring.stages.max(1)) - 1.0;
        let (waited, barriers) = if ahead == 0.0 { (global, 2.0) } else { ((global / ahead - busy).max(0.0), 1.0) };
        let barriers = if warps > 1.0 { barriers } else { 0.2 * barriers };
        waited + chain + barriers * self.gpu.barrier + bodies * shared
    }

    /// Registers that reads of shared memory fill, per warp; each takes the slot of a multiply-add.
    fn fragment_registers(&self) -> f64 {
        let plan = self.plan;
        if plan.ring.a.placement.is_none() {
            return 0.0;
        }
        let thread = plan.geometry.thread;
        let words = thread.m * plan.ring.a.dtype.bytes().div_ceil(4) + thread.n * plan.ring.b.dtype.bytes().div_ceil(4);
        let warps = (f64::from(plan.geometry.threads) / WARP).ceil();
        f64::from(words) * f64::from(plan.block.k) * warps
    }

    /// Bytes of one lane's global load, on average.
    fn load_bytes(&self) -> f64 {
        let bytes = |operand: &OperandPlan, width: u32| f64::from(operand.dtype.bytes() * width);
        (bytes(&self.plan.ring.a, self.variant.a.width) + bytes(&self.plan.ring.b, self.variant.b.width)) / 2.0
    }

    /// The share of the accumulators that have no register.
    fn spilled(&self) -> f64 {
        let given = f64::from(self.plan.registers_per_thread(self.plan.resident_blocks(self.variant)));
        let held = f64::from(self.plan.resources.accumulator_registers);
        ((held + BESIDES - given) / held.max(1.0)).clamp(0.0, 1.0)
    }

    /// Cycles of a wave before its first and after its last K-tile, with `blocks` blocks on each multiprocessor.
    /// `divided`: the partial sums of several blocks are added up.
    fn around(&self, blocks: f64, divided: bool) -> f64 {
        let Model { plan, gpu, sample, .. } = self;
        let tile = f64::from(plan.block.m * plan.block.n);
        let staged = (sample.d_writes.passes + sample.d_reads.passes) as f64 / f64::from(SAMPLE_TILES * SAMPLE_TILES);
        let stored = tile * f64::from(plan.problem.types.d.bytes());
        // Partial sums are written and read.
        let times = match plan.scheduler.split_k {
            Some(split) if split.reduce == Reduce::Serial => 2.0 * f64::from(split.parts),
            _ => 2.0,
        };
        // In a cluster they go through shared memory, which the sample counts.
        let divided = divided && plan.sums.exchange.is_none();
        let sums = if divided { times * tile * f64::from(plan.problem.types.acc.bytes()) } else { 0.0 };
        let further = plan.scheduler.split_k.map_or(0.0, |split| f64::from(split.parts.max(1)) - 1.0);
        let waits = if divided { gpu.latency_global + further * gpu.workspace_part } else { 0.0 };
        gpu.around + waits + blocks * ((stored + sums) / gpu.l2_bytes_per_clock + staged)
    }

    /// Cycles to read every operand from memory once.
    fn memory(&self) -> f64 {
        self.size.bytes(self.plan.problem.types) as f64 / self.gpu.dram_bytes_per_clock
    }
}

/// The type that is multiplied: that of the planes, if operands are split.
fn factor(plan: &Plan) -> DType {
    plan.sums.emulate.as_ref().map_or(plan.ring.a.dtype, |emulate| emulate.by.factor())
}

/// The additional work of a K-tile and the additional K-tiles, if operands are split into planes.
fn planes(plan: &Plan) -> PlaneWork {
    let Some(emulate) = &plan.sums.emulate else { return PlaneWork { products: 1.0, rounds: 1.0, copied: 1.0 } };
    let pairs = emulate.by.pairs().len() as f64;
    let narrow = f64::from(emulate.by.factor().bytes()) / f64::from(plan.ring.a.dtype.bytes());
    match plan.ring.planes_in_slot {
        0 | 1 => PlaneWork { products: 1.0, rounds: pairs, copied: narrow },
        planes => PlaneWork { products: pairs, rounds: 1.0, copied: narrow * f64::from(planes) },
    }
}

/// Cycles of packing operands: one launch each, which reads and writes the operand; or a launch that reads it and writes its
/// planes, after one that only reads it, if it is scaled.
fn packing(plan: &Plan, Size { m, n, k, batch }: Size, gpu: &Gpu) -> f64 {
    let launch = gpu.launch_us * 1e3 * gpu.clock_ghz + 2.0 * gpu.latency_global;
    let cycles = |operand: &OperandPlan, own: usize| {
        let elements = own as f64 * k as f64 * batch as f64;
        if let Some(emulate) = &plan.sums.emulate {
            let launches = if emulate.by.factor() == DType::F16 { 2.0 } else { 1.0 };
            let planes = f64::from(emulate.by.planes() * emulate.by.factor().bytes());
            let bytes = elements * (launches * f64::from(operand.dtype.bytes()) + planes);
            return launches * launch + bytes / gpu.dram_bytes_per_clock;
        }
        let run = if operand.global_fast == Fast::K { k } else { own };
        let same = operand.placement.is_none_or(|placement| placement.fast == operand.global_fast);
        let aligned = (run * operand.dtype.bytes() as usize).is_multiple_of(TMA_BYTES);
        if !plan.ring.pack.contains(&operand.side) || same && aligned {
            return 0.0;
        }
        let bytes = elements * f64::from(operand.dtype.bytes());
        launch + 2.0 * bytes / gpu.dram_bytes_per_clock
    };
    cycles(&plan.ring.a, m) + cycles(&plan.ring.b, n)
}
