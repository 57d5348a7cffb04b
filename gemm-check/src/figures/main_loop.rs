//! The loop over the K-tiles on its own: the cost of one more K-tile.
//!
//! Counted as the difference of two products of one tile of D that differ only in K. Everything that happens once,
//! before, after and between the loops of all roles, is the same in both. Kernels that pack operands are not counted: their work grows
//! with K, too, but is not part of the loop.

use std::sync::Arc;

use ptx_gemm_runtime::interp::{Checks, Cost};
use ptx_gemm_runtime::{CompiledGemm, Kernel};
use serde::Serialize;

use crate::error::CheckError;
use crate::landmarks::streamed;
use crate::profile::{conflicts, counting_on, instructions, loads, main_cost, multiply_adds, tiles};

/// Blocks that share the K-tiles of a tile by stream-K: the fewest possible.
const WAVE: u32 = 2;

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
    /// Counts the main loop of an entry for whole tiles. `gemm` is its kernel, loaded by [`counting`](profile::counting)
    /// without checks: these ran on the product that is counted as a whole. The results are not compared for the same
    /// reason.
    pub(super) fn of(kernel: &Arc<Kernel>, gemm: &CompiledGemm, entry: &str) -> Result<MainLoop, CheckError> {
        let program = kernel.programs().entries.iter().find(|program| program.name == entry);
        let rings = program.map(|program| program.rings.as_slice()).unwrap_or_default();
        let slots = rings.iter().map(|ring| ring.depth as usize).max().unwrap_or(1);
        let streamed = program.and_then(|program| streamed(program, WAVE));
        // Every additional block needs K-tiles of its own, and takes as long.
        let few = streamed.map(|_| counting_on(kernel, Checks::Off, WAVE)).transpose()?;
        let gemm = few.as_ref().unwrap_or(gemm);
        let parts = streamed
            .map_or_else(|| program.map_or(1, |program| program.scheduler.parts() as usize), |(blocks, _)| blocks);
        // The pipeline is full in both, in each part of k. Where blocks share the K-tiles, both have the same number of blocks.
        let shared = streamed
            .zip(program)
            .map_or(0, |((blocks, depth), program)| (blocks * depth).div_ceil(program.block.k.max(1) as usize));
        let first = (parts * (slots + 1).max(2)).max(shared);
        let k_tiles = [first, 2 * first];
        let sizes = k_tiles.map(|depth| tiles(kernel, 1, depth));
        let (short, long) = rayon::join(|| main_cost(gemm, sizes[0]), || main_cost(gemm, sizes[1]));
        let (short, long) = (short?, long?);
        let [short_fma, long_fma] = sizes.map(|size| program.map_or(0, |program| multiply_adds(program, size)));
        let fma = (long_fma - short_fma).max(1) as f64;
        let more = |figure: fn(&Cost) -> u64| (figure(&long) as f64 - figure(&short) as f64) / fma;
        let warps = program.map_or(1, |program| program.threads().div_ceil(32)).max(1);
        let warp_k_tiles = f64::from(warps) * (k_tiles[1] - k_tiles[0]) as f64;
        Ok(MainLoop {
            k_tiles,
            instructions_per_fma: more(instructions),
            loads_per_fma: more(loads),
            shared_passes_per_fma: more(|cost| cost.shared_loads.wavefronts + cost.shared_stores.wavefronts),
            conflicts_per_fma: more(conflicts),
            barriers_per_k_tile: more(Cost::barriers) * fma / warp_k_tiles,
        })
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_runtime::Kernel;

    use super::MainLoop;
    use crate::profile::{WATCHED, counting};

    /// The main loop does not include packing: it costs the same with an operand that needs none.
    #[test]
    fn packing_is_not_part_of_the_loop() {
        let of = |clauses: &str| {
            let ring = "target(sm_90); tile(32, 32, 8); thread(4, 4); load(tma); stages(2); shared(a = km, b = kn)";
            let kernel = Kernel::compile(&format!("{ring}; {clauses}").parse().unwrap(), None).unwrap();
            let entry = kernel.interface().entries[0].name.clone();
            MainLoop::of(&kernel, &counting(&kernel, WATCHED).unwrap(), &entry).unwrap()
        };
        assert_eq!(of("pack(a);"), of("layout(a = col);"));
    }
}
