//! The loop over the K-tiles on its own: the cost of one more K-tile.
//!
//! Counted as the difference of two products of one tile of D that differ only in K. Everything that happens once,
//! before, after and between the loops of all roles, is the same in both.

use std::sync::Arc;

use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interp::Checks;
use serde::Serialize;

use crate::error::CheckError;
use crate::landmarks::streamed;
use crate::profile::{Profile, tiles};

/// The cost of the main loop for each multiply-add of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MainLoop {
    /// K-tiles of the two products.
    pub k_tiles: [usize; 2],
    /// Instructions.
    pub instructions_per_fma: f64,
    /// Loads from shared and global memory.
    pub loads_per_fma: f64,
    /// Passes over the banks of shared memory, loads and stores.
    pub shared_passes_per_fma: f64,
    /// Passes lost to conflicts.
    pub conflicts_per_fma: f64,
    /// Barriers that a warp executes in one K-tile.
    pub barriers_per_k_tile: f64,
}

impl MainLoop {
    /// Counts the main loop of the entry for whole tiles.
    pub(super) fn of(kernel: &Arc<Kernel>, entry: &str) -> Result<MainLoop, CheckError> {
        let program = kernel.programs().entries.iter().find(|program| program.name == entry);
        let rings = program.map(|program| program.rings.as_slice()).unwrap_or_default();
        let slots = rings.iter().map(|ring| ring.depth as usize).max().unwrap_or(1);
        let streamed = program.and_then(streamed);
        let parts = streamed
            .map_or_else(|| program.map_or(1, |program| program.scheduler.parts() as usize), |(blocks, _)| blocks);
        // The pipeline is full in both, in each part of k. Where blocks share the K-tiles, they are equally many in both.
        let shared = streamed
            .zip(program)
            .map_or(0, |((blocks, depth), program)| (blocks * depth).div_ceil(program.block.k.max(1) as usize));
        let first = (parts * (slots + 1).max(2)).max(shared);
        let k_tiles = [first, 2 * first];
        // The checks have seen this kernel on the product that is counted as a whole.
        let count = |depth| Profile::watched(kernel, tiles(kernel, 1, depth), Checks::Off);
        let (short, long) = rayon::join(|| count(k_tiles[0]), || count(k_tiles[1]));
        let (short, long) = (short?, long?);
        let fma = (long.fma - short.fma).max(1) as f64;
        let more = |figure: &dyn Fn(&Profile) -> u64| (figure(&long) as f64 - figure(&short) as f64) / fma;
        let warps = program.map_or(1, |program| program.threads().div_ceil(32)).max(1);
        let turns = f64::from(warps) * (k_tiles[1] - k_tiles[0]) as f64;
        Ok(MainLoop {
            k_tiles,
            instructions_per_fma: more(&Profile::instructions),
            loads_per_fma: more(&|p| p.cost.mix.load_shared + p.cost.mix.load_global),
            shared_passes_per_fma: more(&|p| p.cost.shared_loads.wavefronts + p.cost.shared_stores.wavefronts),
            conflicts_per_fma: more(&Profile::bank_conflicts),
            barriers_per_k_tile: more(&|p| p.cost.barriers()) * fma / turns,
        })
    }
}
