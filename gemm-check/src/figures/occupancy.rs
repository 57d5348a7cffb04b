//! How many blocks a multiprocessor holds at once, and the resource that limits them.

use ptx_gemm_dsl::occupancy::Resource;
use ptx_gemm_dsl::target::WARP;
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::tile::Program;
use serde::Serialize;

/// The blocks that a multiprocessor holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// Blocks.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// The most warps that a multiprocessor of the target holds.
    pub most_warps: u32,
    /// The resource that does not suffice for one more block.
    pub limit: Resource,
    /// Registers per thread, if known from ptxas; otherwise the blocks are those that the kernel is compiled for.
    pub registers: Option<u32>,
}

impl Occupancy {
    /// Before anything is known.
    pub(super) const NONE: Occupancy =
        Occupancy { blocks: 0, warps: 0, most_warps: 1, limit: Resource::Blocks, registers: None };

    /// The warps as a share of the maximum.
    pub fn share(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.most_warps.max(1))
    }

    pub(super) fn of(kernel: &Kernel, program: &Program, registers: Option<u32>) -> Occupancy {
        let (target, threads) = (kernel.target(), program.threads());
        let shared = u32::try_from(program.shared_bytes()).unwrap_or(u32::MAX);
        let room = target.residency(threads, shared, registers);
        let (blocks, limit) = match registers {
            Some(_) => (room.blocks, room.limit),
            // Compiled for fewer blocks than fit, so that each thread gets more registers.
            None if program.blocks_per_sm < room.blocks => (program.blocks_per_sm, Resource::Registers),
            None => (program.blocks_per_sm.min(room.blocks), room.limit),
        };
        let warps = blocks * threads.div_ceil(WARP);
        Occupancy { blocks, warps, most_warps: target.sm_threads() / WARP, limit, registers }
    }
}
