//! What is compiled: a schedule or tile programs.

use ptx_gemm::{CompiledGemm, Device, Diagnostics, Error, Problem, Schedule, TileProgram};

/// What is compiled.
#[derive(Clone, Debug)]
pub enum Program {
    /// Clauses.
    Schedule(Schedule),
    /// A text of tile IR.
    Tile(TileProgram),
}

impl Program {
    /// What it computes.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the schedule.
    pub fn problem(&self) -> Result<Problem, Diagnostics> {
        match self {
            Program::Schedule(schedule) => schedule.problem(),
            Program::Tile(program) => Ok(program.kernel().problem().clone()),
        }
    }

    /// Compiles and loads it on a device.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the schedule for this device, or with the device.
    pub fn on(&self, device: &Device) -> Result<CompiledGemm, Error> {
        match self {
            Program::Schedule(schedule) => CompiledGemm::new(schedule, device),
            Program::Tile(program) => program.on(device),
        }
    }
}
