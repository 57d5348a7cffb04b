//! The rasterisation: the order in which the compiled code assigns tiles of D to blocks.
//!
//! The rasterisation of the program is compiled with tiles of one element and run by the interpreter, with one block,
//! with two, and so on: the newly written element is the tile of the last block.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ptx_gemm_dsl::terms::{Along, Param, Raster};
use ptx_gemm_dsl::{Schedule, Target};
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interp::{Arg, Checks, Launch, Memory, Options, Program as Ptx, launch};
use ptx_gemm_runtime::tile::{Program, print};

use crate::error::DrawError;

/// A program that stores a zero for each tile, whatever A and B are.
const PROBE: &str = "tile(1, 1, 1); thread(1, 1); shared(none);";

/// Tile rows and columns in the order of the blocks.
type Order = Arc<Vec<(u32, u32)>>;

/// Orders that are known, by the raster and the tiles of the grid.
static KNOWN: Mutex<BTreeMap<(u32, bool, u32, u32), Order>> = Mutex::new(BTreeMap::new());

/// The tile row and column of each block, in the order of the blocks, in a grid of `rows` x `cols` tiles.
pub(crate) fn tiles(program: &Program, rows: u32, cols: u32) -> Result<Order, DrawError> {
    let Raster { group, along } = program.scheduler.raster;
    let key = (group, along == Along::M, rows, cols);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(order) = known().get(&key) {
        return Ok(order.clone());
    }
    let order = Arc::new(run(program, rows, cols)?);
    known().insert(key, order.clone());
    Ok(order)
}

fn run(program: &Program, rows: u32, cols: u32) -> Result<Vec<(u32, u32)>, DrawError> {
    let kernel = probe(program)?;
    let entry = kernel.programs().entries.last().ok_or_else(|| failed("the probe has no entry"))?;
    let ptx = Ptx::from_text(kernel.ptx()).map_err(failed)?;
    let memory = Memory::new();
    let all = rows as usize * cols as usize;
    let nothing = memory.alloc_from("A and B", &[0; 4], 256).map_err(failed)?;
    let ones: Vec<u8> = (0..all).flat_map(|_| 1f32.to_le_bytes()).collect();
    let d = memory.alloc_from("D", &ones, 256).map_err(failed)?;
    let value = |param: &Param| match param {
        Param::Matrix(operand) if operand.name() == "d" => Arg::U64(d.address),
        Param::Matrix(_) => Arg::U64(nothing.address),
        Param::M => Arg::U32(rows),
        Param::N => Arg::U32(cols),
        Param::Ld(_) => Arg::U64(cols.into()),
        _ => Arg::U32(0),
    };
    let args: Vec<Arg> = entry.params.iter().map(value).collect();
    let options = Options { checks: Checks::Off, threads: Some(1), ..Options::default() };
    let mut order = Vec::new();
    let mut known = vec![false; all];
    let mut bytes = vec![0; ones.len()];
    for blocks in 1..=all as u32 {
        let what = Launch { entry: &entry.name, grid: [blocks, 1, 1], block: [1; 3], args: &args, ..Launch::default() };
        launch(&ptx, &memory, &what, &options).map_err(failed)?;
        memory.read(d.address, &mut bytes).map_err(failed)?;
        let written = bytes.chunks_exact(4).map(|one| one == [0; 4]);
        for (index, written) in written.enumerate() {
            if written && !std::mem::replace(&mut known[index], true) {
                order.push((index as u32 / cols, index as u32 % cols));
            }
        }
    }
    Ok(order)
}

/// A kernel with the program's rasterisation, one block for each tile, and tiles of one element.
fn probe(program: &Program) -> Result<Arc<Kernel>, DrawError> {
    let schedule: Schedule = PROBE.parse().map_err(failed)?;
    let mut programs = Kernel::compile(&schedule, Some(Target::SM_75)).map_err(failed)?.programs().clone();
    for entry in &mut programs.entries {
        entry.scheduler.raster = program.scheduler.raster;
    }
    Kernel::compile_text(&print::print(&programs)).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> DrawError {
    DrawError::Figures(format!("the order of the tiles: {error}"))
}

#[cfg(test)]
mod tests {
    use super::tiles;
    use ptx_gemm_dsl::Schedule;
    use ptx_gemm_runtime::Kernel;

    fn order(raster: &str, rows: u32, cols: u32) -> Vec<(u32, u32)> {
        let schedule: Schedule = format!("tile(16, 16, 4); thread(1, 1); {raster};").parse().unwrap();
        let kernel = Kernel::compile(&schedule, None).unwrap();
        tiles(&kernel.programs().entries[0], rows, cols).unwrap().to_vec()
    }

    #[test]
    fn every_tile_once_and_as_the_raster_says() {
        let flat = order("raster(group = 1)", 2, 3);
        assert_eq!(flat, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
        let grouped = order("raster(group = 2)", 3, 2);
        assert_eq!(grouped, [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]);
        let along_m = order("raster(group = 1, along = m)", 2, 3);
        assert_eq!(along_m, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
    }
}
