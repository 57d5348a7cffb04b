//! The result of NVIDIA's assembler for an entry, if this machine has it, with the machine instructions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ptx_gemm_dsl::Target;
use ptx_gemm_runtime::{Assembler as Ptxas, Kernel, ptx};
use serde::Serialize;

use super::sass::{self, Loop};

/// `ptxas`, and `nvdisasm` if it is in the same folder.
#[derive(Clone, Debug)]
pub struct Assembler {
    ptxas: Ptxas,
    disassembler: Option<PathBuf>,
}

/// The result of assembling one entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assembled {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of spilled registers that each thread stores.
    pub spill_stores: u32,
    /// The same, loaded.
    pub spill_loads: u32,
    /// The loop that multiplies, if there is a disassembler.
    pub main_loop: Option<Loop>,
}

impl Assembler {
    /// The first one that runs; see [`Ptxas::find`].
    pub fn find() -> Option<Assembler> {
        let ptxas = Ptxas::find()?;
        let neighbour = ptxas.path().with_file_name(format!("nvdisasm{}", env::consts::EXE_SUFFIX));
        let disassembler = Some(neighbour).filter(|path| path.is_file());
        Some(Assembler { ptxas, disassembler })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.ptxas.path()
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.ptxas.version()
    }

    /// The machine code of a module. The error is the assembler's message.
    pub fn cubin(&self, ptx: &str, target: Target) -> Result<Vec<u8>, String> {
        Ok(self.ptxas.assemble(ptx, target)?.cubin)
    }

    /// Assembles one entry of a kernel; returns its figures, or why it could not be assembled.
    pub fn assemble(&self, kernel: &Kernel, entry: &str, limit: Duration) -> Result<Assembled, String> {
        let acc = kernel.problem().types.acc;
        // The other entries would take time as well, and do not affect this one.
        let mut alone = kernel.module().clone();
        alone.entries.retain(|other| other.name == entry);
        let assembly = self.ptxas.assemble_within(&ptx::print::print(&alone), kernel.target(), limit)?;
        let code = assembly.entries.get(entry).ok_or("it says nothing about the entry")?;
        let disassemble = |disassembler: &PathBuf| {
            let folder = tempfile::tempdir().ok()?;
            let cubin = folder.path().join("kernel.cubin");
            std::fs::write(&cubin, &assembly.cubin).ok()?;
            let run = Command::new(disassembler).arg("-c").arg(&cubin).output().ok()?;
            sass::main_loop(&String::from_utf8_lossy(&run.stdout), entry, acc)
        };
        let main_loop = self.disassembler.as_ref().and_then(disassemble);
        let (registers, spill_stores, spill_loads) = (code.registers, code.spill_stores, code.spill_loads);
        Ok(Assembled { registers, spill_stores, spill_loads, main_loop })
    }
}
