//! What NVIDIA's assembler makes of an entry, if this machine has it, and the machine's own instructions.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use ptx_gemm_dsl::{DType, Target};
use ptx_gemm_runtime::Assembler as Ptxas;
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

    /// Assembles a module and says what became of one entry; `None` if it did not take the text or said something unknown.
    pub fn assemble(&self, ptx: &str, target: Target, entry: &str, acc: DType) -> Option<Assembled> {
        let assembly = self.ptxas.assemble(ptx, target).ok()?;
        let code = assembly.entries.get(entry)?;
        let disassemble = |disassembler: &PathBuf| {
            let folder = tempfile::tempdir().ok()?;
            let cubin = folder.path().join("kernel.cubin");
            std::fs::write(&cubin, &assembly.cubin).ok()?;
            let run = Command::new(disassembler).arg("-c").arg(&cubin).output().ok()?;
            sass::main_loop(&String::from_utf8_lossy(&run.stdout), entry, acc)
        };
        let main_loop = self.disassembler.as_ref().and_then(disassemble);
        let (registers, spill_stores, spill_loads) = (code.registers, code.spill_stores, code.spill_loads);
        Some(Assembled { registers, spill_stores, spill_loads, main_loop })
    }
}
