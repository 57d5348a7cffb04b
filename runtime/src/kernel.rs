//! A schedule compiled for a target, or a tile program: its launch interface and its PTX, made once per process.

use std::sync::{Arc, LazyLock, OnceLock};

use ptx_gemm_codegen::{Compiled, Interface, tile};
use ptx_gemm_dsl::epilogue::{Epilogue, Expr};
use ptx_gemm_dsl::table::Key as Clauses;
use ptx_gemm_dsl::{Plan, Problem, Schedule, Target};
use ptx_gemm_ptx::module::Module;

use crate::cache::OncePerKey;
use crate::contracts::{self, Assembler, Contract, Made, Ran};
use crate::error::Error;
use crate::strassen::plan::Piece;
use crate::strassen::{self, Source};

/// Number of kernels that the process keeps; one takes about 200 KB.
const KEPT: usize = 128;

/// The source of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A schedule's canonical text, and the target.
    Schedule(String, Target),
    /// The text of tile programs, which names its target.
    Tile(String),
    /// PTX that was edited.
    Edited(String),
}

static KERNELS: LazyLock<OncePerKey<Key, Result<Arc<Kernel>, Error>>> = LazyLock::new(|| OncePerKey::new(KEPT));

/// A compiled schedule, or compiled tile programs.
#[derive(Debug)]
pub struct Kernel {
    key: Key,
    plan: Option<Plan>,
    compiled: Compiled,
    /// The result of ptxas, once a contract has needed it.
    assembled: OnceLock<Made>,
    /// The other kernels of `strassen`.
    pieces: Vec<(Piece, Arc<Kernel>)>,
}

impl Kernel {
    /// Compiles `schedule` for `target` (`None`: the target that it names, or the lowest that suffices), or reuses the
    /// kernel if this process has compiled it before. Contracts about machine code are checked with ptxas, if it is
    /// found; see [`Kernel::contracts`].
    pub fn compile(schedule: &Schedule, target: Option<Target>) -> Result<Arc<Kernel>, Error> {
        let kernel = Kernel::unheld(schedule, target)?;
        contracts::hold(&kernel.contracts(), Some(schedule))?;
        Ok(kernel)
    }

    /// The same, but the caller checks contracts about machine code.
    pub(crate) fn unheld(schedule: &Schedule, target: Option<Target>) -> Result<Arc<Kernel>, Error> {
        // Planned every time: errors have spans in the source of this schedule, and equal schedules may have other
        // sources.
        Kernel::of_plan(schedule, schedule.plan(target)?)
    }

    fn of_plan(schedule: &Schedule, plan: Plan) -> Result<Arc<Kernel>, Error> {
        let key = Key::Schedule(schedule.to_string(), plan.target);
        KERNELS.get(&key, || {
            let compiled = ptx_gemm_codegen::compile(&plan)?;
            let compile = |(piece, source): (Piece, Source)| match source {
                Source::Schedule(schedule) => Ok((piece, Kernel::unheld(&schedule, Some(plan.target))?)),
                Source::Tile(programs) => Ok((piece, Kernel::of_tile(&programs)?)),
            };
            let pieces = strassen::kernels(schedule, &plan)?;
            let pieces = pieces.into_iter().map(compile).collect::<Result<_, Error>>()?;
            let assembled = OnceLock::new();
            Ok(Arc::new(Kernel { key: key.clone(), plan: Some(plan), compiled, assembled, pieces }))
        })
    }

    /// Compiles the text of a `.tile` file for the target that it names, or reuses the kernel if this process has
    /// compiled it before.
    ///
    /// # Errors
    /// [`Error::Tile`]: everything that is wrong with the text, with lines and columns.
    pub fn compile_text(text: &str) -> Result<Arc<Kernel>, Error> {
        let key = Key::Tile(text.into());
        KERNELS.get(&key, || {
            let compiled = ptx_gemm_codegen::compile_text(text, None)?;
            let (assembled, pieces) = (OnceLock::new(), Vec::new());
            Ok(Arc::new(Kernel { key: key.clone(), plan: None, compiled, assembled, pieces }))
        })
    }

    /// Compiles tile programs, or reuses the kernel if this process has compiled it before.
    pub(crate) fn of_tile(programs: &tile::Module) -> Result<Arc<Kernel>, Error> {
        Kernel::compile_text(&tile::print::print(programs))
    }

    /// Compiles a schedule for a device: for the target that the schedule names, or else for the newest target that the
    /// device runs. The limits of that target decide how many blocks a multiprocessor should hold. A device without a
    /// target runs any. The device checks contracts about machine code.
    pub fn compile_for(schedule: &Schedule, device: Option<Target>) -> Result<Arc<Kernel>, Error> {
        Kernel::of_plan(schedule, schedule.plan_on(device.map(|device| device.capability))?)
    }

    /// The results of the contracts of `expect`: those about the plan hold, those about machine code are checked with
    /// ptxas, if it is found (in `$PTXAS`, a list of paths, or in the path), and those about products are not checked.
    pub fn contracts(&self) -> Vec<Contract> {
        let why = "a device has to multiply first; `gemmc run` and loading the kernel on a device do";
        self.contracts_with(|| self.assembled(), &Err(why.into()))
    }

    /// The same, with the given machine code and the given product.
    pub(crate) fn contracts_with(
        &self,
        made: impl FnOnce() -> Result<Made, String>,
        ran: &Result<Ran, String>,
    ) -> Vec<Contract> {
        self.plan.as_ref().map(|plan| contracts::of_plan(plan, made, ran)).unwrap_or_default()
    }

    /// The kernel that computes the products of a contract: the same without its epilogue, or this one if it has none.
    ///
    /// # Errors
    /// Says why there is none.
    pub(crate) fn without_epilogue(self: &Arc<Kernel>) -> Result<Arc<Kernel>, String> {
        let Epilogue { expr, .. } = &self.problem().epilogue;
        if *expr == Expr::Acc {
            return Ok(self.clone());
        }
        let Key::Schedule(text, target) = &self.key else {
            return Err("the epilogue of a kernel without a schedule is part of it".into());
        };
        let plain = |error: &dyn std::fmt::Display| format!("without its epilogue it is not legal: {error}");
        let schedule = text.parse::<Schedule>().map_err(|error| plain(&error))?;
        let schedule = schedule.without(Clauses::Epilogue).without(Clauses::Expect).without_c();
        Kernel::unheld(&schedule, Some(*target)).map_err(|error| plain(&error))
    }

    /// Assembles it with ptxas.
    pub(crate) fn assembled(&self) -> Result<Made, String> {
        if let Some(made) = self.assembled.get() {
            return Ok(made.clone());
        }
        let Some(assembler) = Assembler::find() else {
            return Err("no ptxas was found; set PTXAS to its path, or run on a GPU".into());
        };
        let by = format!("ptxas {}", assembler.version());
        let assembly =
            assembler.assemble(self.ptx(), self.target()).map_err(|error| format!("{by} failed: {error}"))?;
        Ok(self.assembled.get_or_init(|| Made { by, entries: assembly.entries }).clone())
    }

    /// The same kernel with another PTX text, which has the same entries and parameters. For tests that plant a fault
    /// and check whether it is found.
    ///
    /// # Errors
    /// [`Error::Load`]: what is wrong with the text.
    pub fn edited(&self, ptx: &str) -> Result<Arc<Kernel>, Error> {
        ptx_gemm_interp::Program::from_text(ptx)?;
        let module = ptx_gemm_ptx::parse::parse(ptx).unwrap_or_else(|_| self.compiled.module.clone());
        let compiled = Compiled { ptx: ptx.into(), module, ..self.compiled.clone() };
        let (plan, pieces) = (self.plan.clone(), self.pieces.clone());
        Ok(Arc::new(Kernel { key: Key::Edited(ptx.into()), plan, compiled, assembled: OnceLock::new(), pieces }))
    }

    /// Every kernel that a product may launch: this one, and with `strassen` the others of its plan.
    pub fn launched(&self) -> Vec<&Kernel> {
        [self].into_iter().chain(self.pieces.iter().map(|(_, kernel)| &**kernel)).collect()
    }

    /// One of the kernels that it launches, by its index in [`Kernel::launched`], without a plan of several launches.
    pub fn alone(&self, index: usize) -> Option<Arc<Kernel>> {
        let Some(piece) = index.checked_sub(1) else {
            let mut plan = self.plan.clone();
            if let Some(plan) = &mut plan {
                plan.sums.strassen = None;
            }
            let (key, compiled) = (Key::Edited(self.ptx().into()), self.compiled.clone());
            return Some(Arc::new(Kernel { key, plan, compiled, assembled: OnceLock::new(), pieces: Vec::new() }));
        };
        self.pieces.get(piece).map(|(_, kernel)| kernel.clone())
    }

    /// The same kernel with another PTX text for one of the kernels that it launches, by its index in
    /// [`Kernel::launched`].
    ///
    /// # Errors
    /// [`Error::Load`]: what is wrong with the text.
    pub fn edited_in(&self, index: usize, ptx: &str) -> Result<Arc<Kernel>, Error> {
        let Some(piece) = index.checked_sub(1).filter(|piece| *piece < self.pieces.len()) else {
            return self.edited(ptx);
        };
        let mut pieces = self.pieces.clone();
        pieces[piece].1 = pieces[piece].1.edited(ptx)?;
        let (key, plan, compiled) = (self.key.clone(), self.plan.clone(), self.compiled.clone());
        Ok(Arc::new(Kernel { key, plan, compiled, assembled: OnceLock::new(), pieces }))
    }

    /// How it is launched.
    pub fn interface(&self) -> &Interface {
        &self.compiled.interface
    }

    /// What it computes.
    pub fn problem(&self) -> &Problem {
        &self.compiled.interface.problem
    }

    /// The target it is compiled for.
    pub fn target(&self) -> Target {
        self.compiled.interface.target
    }

    /// The tile programs that it was lowered from, one for each entry of the interface.
    pub fn programs(&self) -> &tile::Module {
        &self.compiled.programs
    }

    /// Every number that follows from the schedule; `None` if it was compiled from the text of tile programs.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Levels of Strassen's algorithm that use this kernel. With levels, it is one of several kernels that a plan
    /// launches.
    pub fn levels(&self) -> Option<u32> {
        self.plan.as_ref().and_then(|plan| plan.sums.strassen)
    }

    /// The other kernels of `strassen`.
    pub(crate) fn pieces(&self) -> &[(Piece, Arc<Kernel>)] {
        &self.pieces
    }

    /// Whether it multiplies; some kernels only add.
    pub fn multiplies(&self) -> bool {
        self.programs().entries.iter().all(|program| !program.reads_sums())
    }

    /// The PTX text.
    pub fn ptx(&self) -> &str {
        &self.compiled.ptx
    }

    /// The PTX as data.
    pub fn module(&self) -> &Module {
        &self.compiled.module
    }

    /// A kernel of programs without a source text.
    #[cfg(test)]
    pub(crate) fn of_programs(name: &str, programs: &tile::Module) -> Arc<Kernel> {
        let compiled = ptx_gemm_codegen::compile_programs(programs, None).unwrap();
        let (key, assembled) = (Key::Tile(name.into()), OnceLock::new());
        Arc::new(Kernel { key, plan: None, compiled, assembled, pieces: Vec::new() })
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}
