//! NVIDIA's assembler, if it is installed.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ptx_gemm_dsl::Target;
use wait_timeout::ChildExt;

use super::MachineCode;
use super::cubin::code_bytes;

/// Longer than ptxas takes for any kernel.
const AN_HOUR: Duration = Duration::from_secs(3600);

/// `ptxas`.
#[derive(Clone, Debug)]
pub struct Assembler {
    path: PathBuf,
    version: String,
}

/// The result of assembling a module.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The entries by name.
    pub entries: BTreeMap<String, MachineCode>,
    /// The machine code.
    pub cubin: Vec<u8>,
}

impl Assembler {
    /// The first ptxas that runs, from `$PTXAS`, a list of paths separated as in `$PATH`, and then from the folders in
    /// `$PATH`.
    pub fn find() -> Option<Assembler> {
        let named = env::var_os("PTXAS").unwrap_or_default();
        let folders = env::var_os("PATH").unwrap_or_default();
        let name = format!("ptxas{}", env::consts::EXE_SUFFIX);
        let named: Vec<PathBuf> = env::split_paths(&named).filter(|path| path.is_file()).collect();
        let found = env::split_paths(&folders).map(|folder| folder.join(&name)).filter(|path| path.is_file());
        named.into_iter().chain(found).find_map(|path| Assembler::at(&path))
    }

    /// The ptxas at a path, if it runs.
    pub fn at(path: &Path) -> Option<Assembler> {
        let output = Command::new(path).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split_whitespace().find(|word| word.starts_with('V') && word.contains('.'))?;
        Some(Assembler { path: path.into(), version: version.trim_start_matches('V').into() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Assembles a module. The error says why that failed, with the assembler's own message if there is one.
    pub fn assemble(&self, ptx: &str, target: Target) -> Result<Assembly, String> {
        self.assemble_within(ptx, target, AN_HOUR)
    }

    /// The same with a time limit: ptxas takes most of a minute for a thread with thousands of accumulators.
    pub fn assemble_within(&self, ptx: &str, target: Target, limit: Duration) -> Result<Assembly, String> {
        let failed = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(failed)?;
        let (source, cubin) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
        std::fs::write(&source, ptx).map_err(failed)?;
        let arch = format!("-arch={target}");
        // A file rather than a pipe, since nobody reads a pipe during the wait.
        let said = folder.path().join("log");
        let mut command = Command::new(&self.path);
        command.args(["-v", &arch, "-o"]).args([&cubin, &source]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(File::create(&said).map_err(failed)?).spawn().map_err(failed)?;
        let Some(status) = child.wait_timeout(limit).map_err(failed)? else {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Err(format!("it was not done after {:.1} s", limit.as_secs_f64()));
        };
        let log = std::fs::read(&said).map_err(failed)?;
        let log = String::from_utf8_lossy(&log);
        if !status.success() {
            return Err(log.lines().next().unwrap_or("it said nothing").to_string());
        }
        let cubin = std::fs::read(&cubin).map_err(failed)?;
        let mut entries = figures(&log);
        for (entry, code) in &mut entries {
            code.code_bytes = code_bytes(&cubin, entry).unwrap_or(0);
        }
        Ok(Assembly { entries, cubin })
    }
}

/// The figures of each entry in the output of `-v`.
fn figures(log: &str) -> BTreeMap<String, MachineCode> {
    let mut entries = BTreeMap::new();
    for about in log.split("Compiling entry function '").skip(1) {
        let Some((entry, rest)) = about.split_once('\'') else { continue };
        let before = |word: &str| -> Option<u32> {
            rest.split_once(word)?.0.rsplit([' ', ',']).find(|part| !part.is_empty())?.parse().ok()
        };
        let Some(registers) = before(" registers") else { continue };
        let (stores, loads) = (before(" bytes spill stores"), before(" bytes spill loads"));
        let (spill_stores, spill_loads) = (stores.unwrap_or(0), loads.unwrap_or(0));
        entries.insert(entry.into(), MachineCode { registers, spill_stores, spill_loads, code_bytes: 0 });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::{MachineCode, figures};

    #[test]
    fn figures_of_each_entry() {
        let log = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm_v1' for 'sm_90'
ptxas info    : Function properties for gemm_v1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 165 registers, used 1 barriers, 16384 bytes smem
ptxas info    : Compiling entry function 'gemm_v4' for 'sm_90'
ptxas info    : Function properties for gemm_v4
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 16384 bytes smem";
        let of = |registers, spill_stores, spill_loads| {
            Some(MachineCode { registers, spill_stores, spill_loads, code_bytes: 0 })
        };
        let found = figures(log);
        assert_eq!(found.get("gemm_v1").copied(), of(165, 0, 0));
        assert_eq!(found.get("gemm_v4").copied(), of(128, 12, 16));
        assert_eq!(found.len(), 2);
    }
}
