//! The cost of a product as counted by the interpreter, next to the cost predicted by a formula.
//!
//! The CUDA SGEMM worklog derives the bytes of A and B that all blocks together load from global memory:
//!
//! ```text
//! (m n / (block_m block_n)) * (block_m block_k + block_n block_k) * bytes * (k / block_k)
//! ```
//!
//! `block_k` cancels out: only the part of D that shares a load matters. Without staging each thread loads for itself,
//! so the thread tile takes the place of the block tile.

use std::fmt;
use std::sync::Arc;

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{Operand, Side};
use ptx_gemm_dsl::types::{Orientation, Problem};
use ptx_gemm_dsl::{Schedule, Target};
use ptx_gemm_runtime::interp::{Checks, Cost, Counting, GlobalCost, Options, SharedCost, Traffic, ViolationKind};
use ptx_gemm_runtime::tile::{Accumulator, Op, Pack, Program, Source, walk};
use ptx_gemm_runtime::{CompiledGemm, Device, INTERPRETER_WAVE, InterpreterOptions, Kernel, KernelCounts};

use crate::check::check;
use crate::compare::Verdict;
use crate::error::CheckError;
use crate::given::Given;
use crate::request::Request;
use crate::size::Size;

/// Tiles of D along each side, and K-tiles: enough for a pipeline to fill, run and drain.
const TILES: usize = 2;
pub(crate) const DEPTH: usize = 4;

/// The checks of a counted product. Race detection delays each wait once, which would distort the counts.
pub(crate) const WATCHED: Checks = Checks::Full.without(ViolationKind::Race);

/// The kind of the instructions with which tensor cores multiply.
pub(crate) const MATRIX_PRODUCT: &str = "matrix product";

/// The counted cost of one product that was also checked against its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Extents: whole tiles.
    pub size: Size,
    /// The entry that ran.
    pub entry: String,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Everything that was counted.
    pub cost: Cost,
    /// The same for each kernel, in the order of their first launches.
    pub kernels: Vec<KernelCounts>,
    /// Multiply-adds of the product, one for each warp; the epilogue's come on top.
    pub fma: u64,
    /// Bytes of A and B that the formula gives.
    pub formula_bytes: u64,
    /// The largest error, in units of its bound.
    pub max_error: f64,
    /// The Frobenius norm of the error, relative to that of D.
    pub relative_error: f64,
    /// What the comparison with the reference says.
    pub verdict: Verdict,
}

impl Profile {
    /// Multiplies 2 x 2 tiles over 4 K-tiles in the interpreter, with all checks except that for races, and with all
    /// counters.
    pub fn new(schedule: &Schedule) -> Result<Profile, CheckError> {
        Profile::for_target(schedule, None)
    }

    /// The same for a stated target.
    pub fn for_target(schedule: &Schedule, target: Option<Target>) -> Result<Profile, CheckError> {
        Profile::of(&Kernel::compile(schedule, target)?)
    }

    /// The same for a kernel, by the tiles of its first entry.
    pub fn of(kernel: &Arc<Kernel>) -> Result<Profile, CheckError> {
        Profile::at(kernel, sample_size(kernel))
    }

    /// The same for a product of these extents. The interpreter takes a second for some 10^9 multiply-adds.
    pub fn at(kernel: &Arc<Kernel>, size: Size) -> Result<Profile, CheckError> {
        Profile::watched(kernel, size, WATCHED)
    }

    /// The same with these checks. Without them it takes a third of the time, and the result is compared all the same.
    pub(crate) fn watched(kernel: &Arc<Kernel>, size: Size, checks: Checks) -> Result<Profile, CheckError> {
        Profile::loaded(&counting(kernel, checks)?, size)
    }

    /// The same for a kernel that [`counting`] has loaded.
    pub(crate) fn loaded(gemm: &CompiledGemm, size: Size) -> Result<Profile, CheckError> {
        let outcome = check(gemm, &request(size))?;
        let (max_error, verdict) = (outcome.max_error, outcome.verdict());
        let relative_error = outcome.relative_error();
        let counts = outcome.run.counts.unwrap_or_default();
        let (cost, kernels) = (counts.cost.unwrap_or_default(), counts.kernels);
        let entry = outcome.run.entry.unwrap_or_default();
        let ran = gemm.programs().entries.iter().find(|program| program.name == entry);
        Ok(Profile {
            size,
            entry,
            blocks: outcome.run.blocks,
            fma: ran.map_or(0, |program| multiply_adds(program, size)),
            cost,
            kernels,
            formula_bytes: ran.map_or(0, |program| formula_bytes(program, size)),
            max_error,
            relative_error,
            verdict,
        })
    }

    /// Loads from shared and global memory for each multiply-add, both counted as instructions of warps.
    pub fn loads_per_fma(&self) -> f64 {
        self.per_fma(loads(&self.cost))
    }

    /// A figure for each of the product's multiply-adds.
    pub fn per_fma(&self, figure: u64) -> f64 {
        figure as f64 / self.fma.max(1) as f64
    }

    /// What threads loaded from and stored to a matrix.
    pub fn traffic(&self, operand: Operand) -> Traffic {
        self.cost.traffic.get(&operand.name().to_uppercase()).copied().unwrap_or_default()
    }

    /// Bytes of A and B that were loaded from global memory.
    pub fn bytes(&self) -> u64 {
        self.traffic(Operand::A).read + self.traffic(Operand::B).read
    }

    /// Operations for each byte of A and B that was loaded.
    pub fn intensity(&self) -> f64 {
        self.operations() / self.bytes().max(1) as f64
    }

    /// The same by the formula.
    pub fn formula_intensity(&self) -> f64 {
        self.operations() / self.formula_bytes.max(1) as f64
    }

    /// Shared-memory passes that were lost to bank conflicts.
    pub fn bank_conflicts(&self) -> u64 {
        conflicts(&self.cost)
    }

    fn operations(&self) -> f64 {
        2.0 * self.size.m as f64 * self.size.n as f64 * self.size.k as f64
    }
}

/// A kernel on an interpreter that counts.
pub(crate) fn counting(kernel: &Arc<Kernel>, checks: Checks) -> Result<CompiledGemm, CheckError> {
    counting_on(kernel, checks, INTERPRETER_WAVE)
}

/// The same where a wave has `wave` blocks.
pub(crate) fn counting_on(kernel: &Arc<Kernel>, checks: Checks, wave: u32) -> Result<CompiledGemm, CheckError> {
    // Blocks that wait for each other poll, and the number of polls must not depend on the host: they run one at a
    // time, which the checks already ensure.
    let threads = (checks == Checks::Off).then_some(1);
    let options = Options { checks, counting: Counting::On, threads, ..Options::default() };
    let options = InterpreterOptions { options, ..InterpreterOptions::default() };
    let device = Device::interpreter_of_wave(options, wave);
    Ok(CompiledGemm::from_kernel(kernel.clone(), &device)?)
}

/// The product that is counted. By default beta is 0 and C is not read, so that every case counts only the product.
fn request(size: Size) -> Request {
    Request::random(size.m, size.n, size.k)
}

/// The cost of the kernel that writes D, loaded by [`counting`]; packing is not part of it. The result is not compared.
pub(crate) fn main_cost(gemm: &CompiledGemm, size: Size) -> Result<Cost, CheckError> {
    let (run, _) = Given::new(gemm, &request(size))?.multiply(gemm)?;
    let kernels = run.counts.map(|counts| counts.kernels).unwrap_or_default();
    let mut cost = Cost::default();
    kernels.iter().filter(|of| of.is_main).filter_map(|of| of.cost.as_ref()).for_each(|of| cost += of);
    Ok(cost)
}

/// Multiply-adds of a product of whole tiles, one for each warp.
pub(crate) fn multiply_adds(program: &Program, size: Size) -> u64 {
    let threads = multiplying_threads(program).max(1);
    (size.m * size.n * size.k) as u64 / threads * threads.div_ceil(u64::from(WARP))
}

/// Instructions of warps.
pub(crate) fn instructions(cost: &Cost) -> u64 {
    let mix = &cost.mix;
    let accesses = mix.load_shared + mix.store_shared + mix.load_global + mix.store_global + mix.atomic;
    let copies = mix.copy_async + mix.copy_bulk;
    mix.fma + mix.mad + mix.matrix + accesses + copies + mix.barrier + mix.branch + mix.other
}

/// Loads from shared and global memory.
pub(crate) fn loads(cost: &Cost) -> u64 {
    cost.mix.load_shared + cost.mix.load_global
}

/// Passes over the banks of shared memory that were lost to conflicts.
pub(crate) fn conflicts(cost: &Cost) -> u64 {
    cost.shared_loads.conflicts() + cost.shared_stores.conflicts()
}

/// The extents of `tiles` x `tiles` tiles of D and `depth` K-tiles of a kernel's first entry.
pub(crate) fn tiles(kernel: &Kernel, tiles: usize, depth: usize) -> Size {
    let tile = kernel.interface().entries.first().map(|entry| [entry.tile.m, entry.tile.n, entry.tile.k]);
    let [m, n, k] = tile.unwrap_or_default().map(|extent| extent as usize);
    Size::new(tiles * m, tiles * n, depth * k)
}

/// Threads of a block that multiply.
pub(crate) fn multiplying_threads(program: &Program) -> u64 {
    let multiplies = |body| {
        let mut found = false;
        walk(body, &mut |statement| found |= matches!(statement.op, Op::Steps { .. }));
        found
    };
    program.roles.iter().filter(|role| multiplies(&role.body)).map(|role| u64::from(role.len())).sum()
}

/// Bytes of A and B that a product of whole tiles loads from global memory, by the formula of the CUDA SGEMM worklog. For
/// an operand that is transposed, split into planes or scaled first, these are the bytes that those kernels read.
pub fn formula_bytes(program: &Program, size: Size) -> u64 {
    let [m, n, k] = [size.m, size.n, size.k].map(|extent| extent as u64);
    // For the product that the program computes, transposed or not.
    let (m, n) = if program.problem.orientation == Orientation::Transposed { (n, m) } else { (m, n) };
    let bytes = |side: Side| {
        let copied = |pack: &&Pack| pack.side == side && (pack.planes.is_some() || pack.transposes(program));
        if let Some(pack) = program.packs.iter().find(copied) {
            let extent = if side == Side::A { m } else { n };
            let element = u64::from(program.problem.types.of(side.operand()).bytes());
            return extent * k * element * if pack.scales() { 2 } else { 1 };
        }
        // The tile that shares a load: the block's, or without staging the thread's.
        let (tile_m, tile_n) = if staged(program, side) { (program.block.m, program.block.n) } else { thread(program) };
        let (tile_m, tile_n) = (u64::from(tile_m.max(1)), u64::from(tile_n.max(1)));
        let extent = if side == Side::A { tile_m } else { tile_n };
        // The blocks of a cluster load what they share once, and what they do not share even where their tile lies outside D.
        let (cluster, alike) = (program.scheduler.cluster, u64::from(program.scheduler.alike(side)));
        let (rows, columns) = (u64::from(cluster.m), u64::from(cluster.n));
        let tiles = m.div_ceil(tile_m * rows) * n.div_ceil(tile_n * columns) * rows * columns;
        let loads = if program.shares(side) { tiles / alike } else { tiles };
        loads * extent * u64::from(program.element(side).bytes()) * k
    };
    bytes(Side::A) + bytes(Side::B)
}

/// Bytes that a product moves at least: each matrix that is read once, and D once.
pub fn dram_bytes(problem: &Problem, size: Size) -> u64 {
    let elements = |operand| match operand {
        Operand::A => size.m * size.k,
        Operand::B => size.k * size.n,
        Operand::C | Operand::D => size.m * size.n,
    };
    problem.matrices().map(|operand| elements(operand) as u64 * u64::from(problem.types.of(operand).bytes())).sum()
}

/// The extents that a kernel is counted at: 2 x 2 tiles of D, and 4 K-tiles.
pub fn sample_size(kernel: &Kernel) -> Size {
    tiles(kernel, TILES, DEPTH)
}

/// Whether an operand goes through shared memory.
fn staged(program: &Program, side: Side) -> bool {
    !program.statements().iter().any(|statement| match &statement.op {
        Op::Steps { fetches, .. } => {
            fetches.iter().any(|(fetch, _)| fetch.side == side && fetch.from == Source::Global)
        }
        _ => false,
    })
}

/// Rows and columns that a thread computes.
fn thread(program: &Program) -> (u32, u32) {
    let extents = |Accumulator { map, .. }: &Accumulator| (map.rows().len() as u32, map.cols().len() as u32);
    program.accumulators.first().map_or((1, 1), extents)
}

impl fmt::Display for Profile {
    /// A short summary: a line for each kind of figure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profile { size: Size { m, n, k }, entry, blocks, .. } = self;
        writeln!(f, "{m} x {n} x {k}, {TILES} x {TILES} tiles, {DEPTH} K-tiles: {blocks} blocks of {entry}")?;
        self.mix(f)?;
        writeln!(f, "loads per multiply-add    {:.4}", self.loads_per_fma())?;
        self.shared(f, "shared loads", &self.cost.shared_loads)?;
        self.shared(f, "shared stores", &self.cost.shared_stores)?;
        global(f, "global loads", &self.cost.global_loads)?;
        global(f, "global stores", &self.cost.global_stores)?;
        let read = |operand| self.traffic(operand).read;
        let (a, b, written) = (read(Operand::A), read(Operand::B), self.traffic(Operand::D).written);
        writeln!(
            f,
            "bytes loaded              A {a} and B {b}, together {}, by the formula {}",
            a + b,
            self.formula_bytes
        )?;
        writeln!(f, "bytes stored              D {written}")?;
        let (counted, formula) = (self.intensity(), self.formula_intensity());
        writeln!(
            f,
            "intensity                 {counted:.3} operations per byte of A and B, by the formula {formula:.3}"
        )
    }
}

impl Profile {
    /// Instructions of warps.
    pub fn instructions(&self) -> u64 {
        instructions(&self.cost)
    }

    /// The same by kind: the product's multiply-adds first, everything else last.
    pub fn kinds(&self) -> Vec<(&'static str, u64)> {
        let mix = &self.cost.mix;
        // Tensor cores compute many of the product's multiply-adds with one instruction.
        let products = if mix.matrix > 0 { 0 } else { self.fma.min(mix.fma + mix.mad) };
        let rest = mix.fma + mix.mad + mix.other - products;
        let kinds = [
            ("product's multiply-add", products),
            (MATRIX_PRODUCT, mix.matrix),
            ("shared load", mix.load_shared),
            ("shared store", mix.store_shared),
            ("global load", mix.load_global),
            ("global store", mix.store_global),
            ("asynchronous copy", mix.copy_async),
            ("bulk copy", mix.copy_bulk),
            ("atomic", mix.atomic),
            ("barrier", mix.barrier),
            ("branch", mix.branch),
            ("everything else", rest),
        ];
        kinds.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn mix(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.instructions();
        writeln!(f, "instructions of warps     {all}")?;
        for (name, count) in self.kinds() {
            writeln!(f, "  {name:22}  {count} ({:.1} %)", 100.0 * count as f64 / all.max(1) as f64)?;
        }
        Ok(())
    }

    fn shared(&self, f: &mut fmt::Formatter<'_>, name: &str, cost: &SharedCost) -> fmt::Result {
        if cost.accesses == 0 {
            return Ok(());
        }
        let (passes, words) = (self.per_fma(cost.wavefronts), self.per_fma(cost.words));
        let SharedCost { accesses, wavefronts, .. } = cost;
        let conflicts = cost.conflicts();
        writeln!(
            f,
            "{name:24}  {wavefronts} passes over the banks for {accesses} instructions, {conflicts} of them for conflicts; \
             {passes:.4} passes and {words:.3} words per multiply-add"
        )
    }
}

fn global(f: &mut fmt::Formatter<'_>, name: &str, cost: &GlobalCost) -> fmt::Result {
    if cost.accesses == 0 {
        return Ok(());
    }
    let GlobalCost { accesses, sectors, ideal } = cost;
    let share = 100.0 * *ideal as f64 / (*sectors).max(1) as f64;
    writeln!(f, "{name:24}  {sectors} sectors for {accesses} instructions, {ideal} would do ({share:.0} %)")
}

#[cfg(test)]
mod tests {
    use ptx_gemm_runtime::Kernel;
    use ptx_gemm_runtime::interp::Checks;

    use super::{Profile, WATCHED, sample_size};

    /// So that a count without checks, which is faster, is comparable with one with checks.
    #[test]
    fn costs_do_not_depend_on_the_checks() {
        for clauses in [
            "tile(32, 32); thread(2, 2); shared(none);",
            "tile(32, 32, 8); thread(4, 4); vector(4); double_buffer;",
            "tile(32, 32, 8); thread(4, 4); load(cp_async); stages(3); target(sm_80);",
            "tile(32, 32, 8); thread(4, 4); load(cp_async); stages(3); specialize(producers = 1 warp); target(sm_80);",
            "tile(32, 32, 8); thread(4, 4); split_k(4, reduce = serial);",
            "tile(32, 32, 8); thread(4, 4); split_k(4, reduce = workspace);",
            "tile(32, 32, 8); thread(4, 4); persistent;",
        ] {
            let kernel = Kernel::compile(&clauses.parse().unwrap(), None).unwrap();
            let count = |checks| Profile::watched(&kernel, sample_size(&kernel), checks).unwrap();
            assert_eq!(count(WATCHED), count(Checks::Off), "{clauses}");
        }
    }
}
