//! NVIDIA's assembler, if this machine has it: registers, spills, and the machine's own instructions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptx_gemm_dsl::{DType, Target};
use serde::Serialize;

use super::sass::{self, Loop};

/// `ptxas`, and `nvdisasm` if that lies beside it.
#[derive(Clone, Debug)]
pub struct Assembler {
    path: PathBuf,
    disassembler: Option<PathBuf>,
    version: String,
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
    /// The first that answers: of `$PTXAS`, a list of paths separated as in `$PATH`, then of the folders in `$PATH`.
    pub fn find() -> Option<Assembler> {
        let named = env::var_os("PTXAS").unwrap_or_default();
        let folders = env::var_os("PATH").unwrap_or_default();
        let name = format!("ptxas{}", env::consts::EXE_SUFFIX);
        let named: Vec<PathBuf> = env::split_paths(&named).filter(|path| path.is_file()).collect();
        let found = env::split_paths(&folders).map(|folder| folder.join(&name)).filter(|path| path.is_file());
        named.into_iter().chain(found).find_map(|path| Assembler::at(&path))
    }

    /// The one at a path, if it answers.
    pub fn at(path: &Path) -> Option<Assembler> {
        let output = Command::new(path).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split_whitespace().find(|word| word.starts_with('V') && word.contains('.'))?;
        let beside = path.with_file_name(format!("nvdisasm{}", env::consts::EXE_SUFFIX));
        let disassembler = Some(beside).filter(|path| path.is_file());
        Some(Assembler { path: path.into(), disassembler, version: version.trim_start_matches('V').into() })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Assembles a module and says what became of one entry; `None` if it did not take the text or said something unknown.
    pub fn assemble(&self, ptx: &str, target: Target, entry: &str, acc: DType) -> Option<Assembled> {
        let folder = tempfile::tempdir().ok()?;
        let (source, cubin) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
        std::fs::write(&source, ptx).ok()?;
        let arch = format!("-arch={target}");
        let run = Command::new(&self.path).args(["-v", &arch, "-o"]).args([&cubin, &source]).output().ok()?;
        let mut assembled = figures(&String::from_utf8_lossy(&run.stderr), entry)?;
        if let Some(disassembler) = &self.disassembler {
            let run = Command::new(disassembler).arg("-c").arg(&cubin).output().ok()?;
            assembled.main_loop = sass::main_loop(&String::from_utf8_lossy(&run.stdout), entry, acc);
        }
        Some(assembled)
    }
}

/// The lines about one entry in what `-v` prints.
fn figures(log: &str, entry: &str) -> Option<Assembled> {
    let start = log.find(&format!("Compiling entry function '{entry}'"))?;
    let rest = &log[start..];
    let rest = rest[1..].find("Compiling entry function").map_or(rest, |end| &rest[..end]);
    let before = |word: &str| rest.split_once(word)?.0.rsplit([' ', ',']).find(|part| !part.is_empty())?.parse().ok();
    Some(Assembled {
        registers: before(" registers")?,
        spill_stores: before(" bytes spill stores").unwrap_or(0),
        spill_loads: before(" bytes spill loads").unwrap_or(0),
        main_loop: None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Assembled, figures};

    #[test]
    fn figures_of_one_entry_of_several() {
        let log = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm_v1' for 'sm_90'
ptxas info    : Function properties for gemm_v1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 165 registers, used 1 barriers, 16384 bytes smem
ptxas info    : Compiling entry function 'gemm_v4' for 'sm_90'
ptxas info    : Function properties for gemm_v4
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 16384 bytes smem";
        let found = |entry| figures(log, entry);
        let of = |registers, spill_stores, spill_loads| {
            Some(Assembled { registers, spill_stores, spill_loads, main_loop: None })
        };
        assert_eq!(found("gemm_v1"), of(165, 0, 0));
        assert_eq!(found("gemm_v4"), of(128, 12, 16));
        assert_eq!(found("gemm_v2"), None);
    }
}
