//! The cost of a compiled schedule in one structure: `gemmc profile` prints it, `ladder` tabulates it, `ablate`
//! compares it and `sweep` ranks by it.
//!
//! ```text
//! kernel -> Profile (the interpreter counts a product) ----+-> Figures -> text, JSON, Advice
//!        -> main loop (the difference of two depths)   ----+
//!        -> ptxas, nvdisasm (registers, spills, SASS)  ----+
//! ```
//!
//! Each figure has one source: the interpreter counts, on whole tiles unless an extent is given, and NVIDIA's assembler
//! supplies registers, spills and SASS.

mod advice;
mod assembler;
mod main_loop;
mod measures;
mod occupancy;
mod sass;
mod text;

use std::sync::Arc;
use std::time::Duration;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_runtime::interp::{Checks, Cost, GlobalCost, SharedCost};
use ptx_gemm_runtime::tile::Program;
use ptx_gemm_runtime::{Kernel, KernelCounts};
use serde::Serialize;

pub use advice::Advice;
pub use assembler::{Assembled, Assembler};
pub use main_loop::MainLoop;
pub use measures::{Measure, side_by_side};
pub use occupancy::Occupancy;
pub use sass::Loop;
pub use text::table;

use crate::compare::Verdict;
use crate::error::CheckError;
use crate::profile::{Profile, WATCHED, counting, instructions, sample_size};
use crate::size::Size;

/// The default time to wait for ptxas, which takes most of a minute for a thread with thousands of accumulators.
pub const PATIENCE: Duration = Duration::from_millis(2500);

/// What to count, and which other tools to use.
#[derive(Clone, Debug)]
pub struct How<'a> {
    /// Extents of the product; by default 2 x 2 tiles of D and 4 K-tiles.
    pub size: Option<Size>,
    /// The rules that the interpreter checks while it counts; by default all but the one about races, which distorts counts.
    /// The result is compared in any case.
    pub checks: Checks,
    /// The assembler, which reports registers, spills and machine instructions.
    pub assembler: Option<&'a Assembler>,
    /// How long to wait for it.
    pub patience: Duration,
}

impl Default for How<'_> {
    fn default() -> Self {
        How { size: None, checks: WATCHED, assembler: None, patience: PATIENCE }
    }
}

/// The cost of a kernel. Instructions, multiply-adds included, are counted per warp: one for all lanes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Compiled for.
    pub target: String,
    /// The entry that ran.
    pub entry: String,
    /// M, N and K of the product that was counted.
    pub size: [usize; 3],
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The blocks that a multiprocessor holds at once.
    pub occupancy: Occupancy,
    /// Instructions of the product, prologue and epilogue included.
    pub instructions: u64,
    /// The same by kind.
    pub mix: Vec<Kind>,
    /// The product's multiply-adds, one for each warp.
    pub fma: u64,
    /// The loop over the K-tiles on its own.
    pub main_loop: MainLoop,
    /// Loads from shared and global memory for each multiply-add.
    pub loads_per_fma: f64,
    /// Distinct words of shared memory that warps read for each multiply-add.
    pub shared_words_per_fma: f64,
    /// Each buffer in shared memory.
    pub buffers: Vec<BufferFigures>,
    /// Passes over the banks of shared memory that conflicts took, all buffers together.
    pub bank_conflicts: u64,
    /// Each matrix in global memory.
    pub operands: Vec<OperandFigures>,
    /// Each kernel of a product that takes several, in launch order; empty for a single kernel.
    pub kernels: Vec<KernelFigures>,
    /// Sectors of 32 bytes that loads from global memory touched, relative to the number that the same bytes would fill
    /// contiguously.
    pub sector_overhead: f64,
    /// Bytes of A and B that were loaded from global memory.
    pub bytes: u64,
    /// The same by the formula of [`formula_bytes`](crate::formula_bytes).
    pub formula_bytes: u64,
    /// Operations for each of these bytes.
    pub intensity: f64,
    /// The same by the formula.
    pub formula_intensity: f64,
    /// The figures of NVIDIA's assembler.
    pub assembled: Option<Assembled>,
    /// Why they are missing, if the assembler was run.
    pub not_assembled: Option<String>,
    /// The largest error, in units of its bound.
    pub max_error: f64,
    /// The Frobenius norm of the error, relative to that of D, where operands are split into planes.
    pub relative_error: Option<f64>,
    /// Whether the result was compared, and is right.
    pub ok: bool,
    /// The verdict of the comparison.
    pub verdict: Verdict,
    /// Advice on bad figures, with the clauses to look at.
    pub advice: Vec<Advice>,
}

/// Instructions of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// What they do.
    pub name: &'static str,
    /// Instructions of warps.
    pub count: u64,
}

/// Accesses to one buffer in shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BufferFigures {
    /// Its name in tile IR.
    pub name: String,
    /// Fragments read from it.
    pub loads: Passes,
    /// K-tiles stored to it, asynchronous copies included.
    pub stores: Passes,
}

/// Passes over the 32 banks of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Passes {
    /// Instructions.
    pub instructions: u64,
    /// Passes that they took.
    pub passes: u64,
    /// Of these, lost to conflicts.
    pub conflicts: u64,
}

impl From<SharedCost> for Passes {
    fn from(cost: SharedCost) -> Passes {
        Passes { instructions: cost.accesses, passes: cost.wavefronts, conflicts: cost.conflicts() }
    }
}

/// Accesses to one matrix in global memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperandFigures {
    /// A, B, C, D, or another parameter of the kernel.
    pub name: String,
    /// Bytes that threads loaded.
    pub bytes_loaded: u64,
    /// Bytes that threads stored.
    pub bytes_stored: u64,
    /// Sectors of loads, asynchronous copies included.
    pub loads: Sectors,
    /// Sectors of stores.
    pub stores: Sectors,
}

/// The part of one kernel in a product that takes several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelFigures {
    /// Its name.
    pub name: String,
    /// Instructions of warps.
    pub instructions: u64,
    /// Bytes that threads and bulk copies loaded from global memory.
    pub bytes_loaded: u64,
    /// Bytes that they stored there.
    pub bytes_stored: u64,
}

/// Sectors of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sectors {
    /// Instructions.
    pub instructions: u64,
    /// Sectors touched, instruction by instruction.
    pub sectors: u64,
    /// Sectors that the same number of different bytes would fill contiguously.
    pub ideal: u64,
}

impl From<GlobalCost> for Sectors {
    fn from(cost: GlobalCost) -> Sectors {
        Sectors { instructions: cost.accesses, sectors: cost.sectors, ideal: cost.ideal }
    }
}

impl Figures {
    /// Runs a product of a kernel in the interpreter, counts it, and asks the assembler if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the interpreter finds a fault in the kernel, and if the product needs more memory than there
    /// is.
    pub fn of(kernel: &Arc<Kernel>, how: &How<'_>) -> Result<Figures, CheckError> {
        let size = how.size.unwrap_or_else(|| sample_size(kernel));
        let counted = || {
            let unwatched = counting(kernel, Checks::Off)?;
            let profile = match how.checks {
                Checks::Off => Profile::loaded(&unwatched, size)?,
                checks => Profile::watched(kernel, size, checks)?,
            };
            Ok::<_, CheckError>((MainLoop::of(kernel, &unwatched, &profile.entry)?, profile))
        };
        let first = kernel.interface().entries.first().map(|entry| entry.name.clone()).unwrap_or_default();
        let assemble = |entry: &str| how.assembler.map(|a| a.assemble(kernel, entry, how.patience));
        // Usually the first entry runs, so the assembler does not have to wait for the interpreter.
        let (counted, assembled) = rayon::join(counted, || assemble(&first));
        let (main_loop, profile) = counted?;
        let assembled = if profile.entry == first { assembled } else { assemble(&profile.entry) };
        let mut figures = Figures::counted(kernel, &profile, main_loop);
        if let Some(assembled) = assembled {
            figures.take(kernel, assembled);
        }
        Ok(figures)
    }

    /// Assembles the entry that was counted.
    pub fn assemble(&mut self, kernel: &Kernel, assembler: &Assembler, patience: Duration) {
        self.take(kernel, assembler.assemble(kernel, &self.entry, patience));
    }

    fn take(&mut self, kernel: &Kernel, assembled: Result<Assembled, String>) {
        match assembled {
            Ok(assembled) => (self.assembled, self.not_assembled) = (Some(assembled), None),
            Err(why) => (self.assembled, self.not_assembled) = (None, Some(why)),
        }
        self.judge(kernel);
    }

    /// Computes the figures that follow from the others.
    fn judge(&mut self, kernel: &Kernel) {
        let programs = &kernel.programs().entries;
        let Some(program) = programs.iter().find(|program| program.name == self.entry).or(programs.first()) else {
            return;
        };
        self.occupancy = Occupancy::of(kernel, program, self.assembled.as_ref().map(|of| of.registers));
        self.advice = advice::of(self, kernel, program);
    }

    fn counted(kernel: &Kernel, profile: &Profile, main_loop: MainLoop) -> Figures {
        let cost = &profile.cost;
        let programs = &kernel.programs().entries;
        let program = programs.iter().find(|program| program.name == profile.entry).or(programs.first());
        let splits = program.is_some_and(|program| program.packs.iter().any(|pack| pack.planes.is_some()));
        let mut figures = Figures {
            target: kernel.target().to_string(),
            entry: profile.entry.clone(),
            size: [profile.size.m, profile.size.n, profile.size.k],
            blocks: profile.blocks,
            threads: program.map_or(0, Program::threads),
            shared_bytes: program.map_or(0, |program| u32::try_from(program.shared_bytes()).unwrap_or(u32::MAX)),
            occupancy: Occupancy::NONE,
            instructions: profile.instructions(),
            mix: profile.kinds().into_iter().map(|(name, count)| Kind { name, count }).collect(),
            fma: profile.fma,
            main_loop,
            loads_per_fma: profile.loads_per_fma(),
            shared_words_per_fma: profile.per_fma(cost.shared_loads.words),
            buffers: buffers(profile),
            bank_conflicts: profile.bank_conflicts(),
            operands: operands(profile),
            kernels: kernels(profile),
            sector_overhead: cost.global_loads.sectors as f64 / cost.global_loads.ideal.max(1) as f64,
            bytes: profile.bytes(),
            formula_bytes: profile.formula_bytes,
            intensity: profile.intensity(),
            formula_intensity: profile.formula_intensity(),
            assembled: None,
            not_assembled: None,
            max_error: profile.max_error,
            relative_error: splits.then_some(profile.relative_error),
            ok: profile.verdict.holds(),
            verdict: profile.verdict,
            advice: Vec::new(),
        };
        figures.judge(kernel);
        figures
    }

    /// The matrix of that name.
    pub fn operand(&self, operand: Operand) -> Option<&OperandFigures> {
        self.operands.iter().find(|figures| figures.name.eq_ignore_ascii_case(operand.name()))
    }
}

fn buffers(profile: &Profile) -> Vec<BufferFigures> {
    let buffer = |(name, cost): (&String, &ptx_gemm_runtime::interp::BufferCost)| BufferFigures {
        name: name.clone(),
        loads: cost.loads.into(),
        stores: cost.stores.into(),
    };
    profile.cost.buffers.iter().map(buffer).collect()
}

fn kernels(profile: &Profile) -> Vec<KernelFigures> {
    if profile.kernels.len() < 2 {
        return Vec::new();
    }
    let kernel = |of: &KernelCounts| KernelFigures {
        name: of.kernel.clone(),
        instructions: of.cost.as_ref().map_or(0, instructions),
        bytes_loaded: of.cost.as_ref().map_or(0, Cost::bytes_read),
        bytes_stored: of.cost.as_ref().map_or(0, Cost::bytes_written),
    };
    profile.kernels.iter().map(kernel).collect()
}

fn operands(profile: &Profile) -> Vec<OperandFigures> {
    let operand = |(name, traffic): (&String, &ptx_gemm_runtime::interp::Traffic)| OperandFigures {
        name: name.clone(),
        bytes_loaded: traffic.read,
        bytes_stored: traffic.written,
        loads: traffic.loads.into(),
        stores: traffic.stores.into(),
    };
    profile.cost.traffic.iter().map(operand).collect()
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::occupancy::Resource;
    use ptx_gemm_runtime::Kernel;

    use super::{Figures, How};
    use crate::size::Size;

    fn figures(clauses: &str, how: &How<'_>) -> Figures {
        let kernel = Kernel::compile(&clauses.parse().unwrap(), None).unwrap();
        Figures::of(&kernel, how).unwrap()
    }

    const TRANSPOSED: &str = "tile(128, 128, 8); thread(8, 8); fragment(4, 4); vector(4); shared(a = km);";

    #[test]
    fn every_buffer_and_every_operand_has_its_own_figures() {
        let found = figures(TRANSPOSED, &How::default());
        assert_eq!(found.size, [256, 256, 32]);
        let names: Vec<&str> = found.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
        assert_eq!(names, ["As", "Bs"]);
        // A is transposed when it is copied, B is not.
        assert!(found.buffers[0].stores.conflicts > 0 && found.buffers[1].stores.conflicts == 0);
        let sum: u64 = found.buffers.iter().map(|b| b.loads.conflicts + b.stores.conflicts).sum();
        assert_eq!(sum, found.bank_conflicts);
        let names: Vec<&str> = found.operands.iter().map(|operand| operand.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "D"]);
        // 8 floats of a row of A are one sector, which is all of it.
        assert!(found.operands.iter().all(|o| o.loads.sectors == o.loads.ideal && o.stores.sectors == o.stores.ideal));
        assert_eq!(found.operands[0].bytes_loaded + found.operands[1].bytes_loaded, found.bytes);
        assert_eq!(found.mix.iter().map(|kind| kind.count).sum::<u64>(), found.instructions);
        assert!(found.ok);
    }

    #[test]
    fn what_is_bad_names_its_clause() {
        let look_at = |clauses: &str, figure: &str| {
            let found = figures(clauses, &How::default());
            found.advice.iter().find(|a| a.figure == figure).map(|a| a.look_at.clone())
        };
        assert!(look_at(TRANSPOSED, "bank conflicts of As").is_some_and(|clause| clause.contains("shared(a = km")));
        let padded = TRANSPOSED.replace("km", "km + pad(4)");
        assert_eq!(look_at(&padded, "bank conflicts of As"), None);
        let column = "tile(32, 32, 32); thread(1, 1); lanes(along = m); shared(none);";
        assert!(look_at(column, "sectors of B").is_some() || look_at(column, "sectors of A").is_some());
        assert!(
            look_at("tile(32, 32, 32); thread(1, 1);", "loads per FMA").is_some_and(|c| c.contains("thread(1, 1)"))
        );
    }

    #[test]
    fn a_size_that_is_asked_for_is_counted() {
        let how = How { size: Some(Size::new(33, 65, 7)), ..How::default() };
        let found = figures("tile(32, 32, 8); thread(2, 2); vector(4);", &how);
        assert_eq!((found.size, found.blocks, found.ok), ([33, 65, 7], 6, true));
        assert_eq!(found.entry, "gemm_v1", "33 rows of 7 elements suit scalar accesses alone");
    }

    /// The kernels that split the operands have figures of their own: one total would hide their cost.
    #[test]
    fn each_kernel_of_a_product_has_its_part() {
        let planes = "target(sm_80); types(f32); emulate(f16x3); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16));";
        let found = figures(planes, &How::default());
        let [.., split_b, main] = &found.kernels[..] else { panic!("{:?}", found.kernels) };
        assert_eq!(main.name, found.entry);
        let [m, n, k] = found.size.map(|extent| extent as u64);
        assert_eq!(split_b.bytes_stored, n * k * 2 * 2, "two planes of two bytes: {split_b:?}");
        assert_eq!(main.bytes_stored, m * n * 4);
        assert_eq!(found.kernels.iter().map(|of| of.instructions).sum::<u64>(), found.instructions);
        let text = found.to_string();
        assert!(found.kernels.iter().all(|of| text.contains(&of.name)), "{text}");
        assert_eq!(found.mix.iter().map(|kind| kind.count).sum::<u64>(), found.instructions, "{:?}", found.mix);
        assert_eq!(figures(TRANSPOSED, &How::default()).kernels, []);
    }

    #[test]
    fn occupancy_follows_from_what_runs_out() {
        let found = figures("target(sm_90); tile(128, 128, 8); thread(8, 8); vector(4);", &How::default());
        let occupancy = found.occupancy;
        assert_eq!((occupancy.blocks, occupancy.warps, occupancy.most_warps), (2, 16, 64));
        assert_eq!(occupancy.limit, Resource::Registers);
        let found = figures("target(sm_90); tile(32, 32, 8); thread(1, 1);", &How::default());
        assert_eq!((found.occupancy.blocks, found.occupancy.limit), (2, Resource::Threads));
    }
}
