//! What NVIDIA's assembler makes of an entry, if this machine has it, and the machine's own instructions.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ptx_gemm_dsl::Target;
use ptx_gemm_runtime::{Assembler as Ptxas, Kernel, ptx};
use serde::Serialize;

use super::sass::{self, Loop};

/// `ptxas`, and `nvdisasm` if that lies beside it.
#[derive(Clone, Debug)]
pub struct Assembler {
    ptxas: Ptxas,
    disassembler: Option<PathBuf>,
}

/// What the assembler made of one entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assembled {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of registers that each thread keeps in memory: stored.
    pub spill_stores: u32,
    /// The same, loaded.
    pub spill_loads: u32,
    /// The loop that multiplies, if there is a disassembler.
    pub main_loop: Option<Loop>,
}

impl Assembler {
    /// The first that answers; see [`Ptxas::find`].
    pub fn find() -> Option<Assembler> {
        let ptxas = Ptxas::find()?;
        let beside = ptxas.path().with_file_name(format!("nvdisasm{}", env::consts::EXE_SUFFIX));
        let disassembler = Some(beside).filter(|path| path.is_file());
        Some(Assembler { ptxas, disassembler })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.ptxas.version()
    }

    /// The machine code of a module. The error is what the assembler said.
    pub fn cubin(&self, ptx: &str, target: Target) -> Result<Vec<u8>, String> {
        Ok(self.ptxas.assemble(ptx, target)?.cubin)
    }

    /// Assembles one entry of a kernel and says what became of it, or what stood in the way.
    pub fn assemble(&self, kernel: &Kernel, entry: &str, limit: Duration) -> Result<Assembled, String> {
        let acc = kernel.problem().types.acc;
        // The others would take their time as well, and change nothing about this one.
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
