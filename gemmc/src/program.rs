//! What is compiled: a schedule or tile programs.

use ptx_gemm::{CompiledGemm, Device, Diagnostics, Error, Problem, Schedule, TileProgram};

/// What is compiled.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    Schedule(Schedule),
    Tile(TileProgram),
}

impl Program {
    /// What it computes, if it is legal.
    pub(crate) fn problem(&self) -> Result<Problem, Diagnostics> {
        match self {
            Program::Schedule(schedule) => schedule.problem(),
            Program::Tile(program) => Ok(program.kernel().problem().clone()),
        }
    }

    /// Compiles and loads it on a device.
    pub(crate) fn on(&self, device: &Device) -> Result<CompiledGemm, Error> {
        match self {
            Program::Schedule(schedule) => CompiledGemm::new(schedule, device),
            Program::Tile(program) => program.on(device),
        }
    }
}
