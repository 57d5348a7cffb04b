//! How many blocks of a launch are resident on a GPU at once: the others wait until one of these exits.

use ptx_gemm_dsl::Target;
use ptx_gemm_dsl::target::registers_per_thread;
use ptx_gemm_runtime::Assembler;
use ptx_gemm_runtime::interp::Program;

use super::interpreter::entry_of;
use super::{ExecError, LaunchFile};

/// The number of blocks of a launch that a GPU with this many multiprocessors holds at once. It follows from the threads
/// and the shared memory of a block, and from the registers of a thread: those that ptxas gives it, if it is found, else
/// the most that `.maxnreg` and `.minnctapersm` allow. Blocks of a small grid, of which each multiprocessor has at most
/// one, are all resident, and ptxas is not asked.
///
/// # Errors
/// The launch file names no entry, and the module has several.
pub fn resident(
    program: &Program,
    ptx: &str,
    file: &LaunchFile,
    target: Target,
    processors: u32,
) -> Result<u32, ExecError> {
    let entry = entry_of(program, file)?;
    let blocks = file.grid.iter().fold(1u64, |all, extent| all.saturating_mul((*extent).into()));
    if blocks <= u64::from(processors) {
        return Ok(processors);
    }
    let threads = file.block.iter().fold(1u32, |all, extent| all.saturating_mul(*extent));
    let shared = program.shared_bytes(entry).unwrap_or(0).saturating_add(file.shared);
    let assembled = Assembler::find().and_then(|assembler| assembler.assemble(ptx, target).ok());
    let assembled = assembled.and_then(|assembly| Some(assembly.entries.get(entry)?.registers));
    let allowed = || {
        let of_blocks = program.min_blocks(entry).map(|blocks| registers_per_thread(threads, blocks));
        [program.max_registers(entry), of_blocks].into_iter().flatten().min()
    };
    let residency = target.residency(threads, shared, assembled.or_else(allowed));
    // A launch that does not fit at all is refused for its own reason.
    Ok(residency.blocks.max(1).saturating_mul(processors))
}
