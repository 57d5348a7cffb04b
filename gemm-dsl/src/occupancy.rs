//! The number of blocks that a multiprocessor should hold, which limits the registers per thread.
//!
//! Every kernel states this number (`.minnctapersm`). Without it, NVIDIA's assembler decides by how it is called: as
//! part of a link it takes 167 registers for `vectorized`, by itself 128. That means one block instead of two, and 24.3
//! instead of 35.6 TFLOP/s on an H200 at 4096. With the number stated, the registers are the same on every path to a
//! GPU, and the speeds are within 3%.

use crate::clause::Atom;
use crate::plan::{CopyPlan, OperandPlan, Plan, Variant};
use crate::target::{self, Target, WARP};
use crate::terms::{Fast, Load, Operands};

/// Overhead registers: addresses, counters and loads that the assembler hoists, as seen in the machine code of the
/// named cases. For `wgmma` this is exactly what the assembler demands: with fewer, ptxas (13.0, 12.9) refuses the
/// instruction, for every n from 16 to 256.
pub(crate) fn besides(atom: Atom) -> u32 {
    if atom.of_group().is_some() { 26 } else { 16 }
}

/// The resource of a multiprocessor that runs out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The limit on blocks per multiprocessor.
    Blocks,
    /// Its threads.
    Threads,
    /// Its shared memory.
    Shared,
    /// Its registers.
    Registers,
}

/// The number of blocks that a multiprocessor holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residency {
    /// Blocks.
    pub blocks: u32,
    /// The resource that is too small for one more block.
    pub limit: Resource,
}

impl Target {
    /// The number of blocks that a multiprocessor holds at once, each of `threads` threads, `shared_bytes` bytes of
    /// shared memory, and `registers` registers per thread if known.
    pub fn residency(self, threads: u32, shared_bytes: u32, registers: Option<u32>) -> Residency {
        let by_threads = self.sm_threads() / threads.max(1).next_multiple_of(WARP);
        let by_shared = match shared_bytes {
            0 => u32::MAX,
            bytes => self.sm_shared_bytes() / (bytes + self.reserved_shared_bytes()),
        };
        let by_registers = registers.map_or(u32::MAX, |registers| {
            (1..=self.sm_blocks()).rev().find(|&n| target::registers_per_thread(threads, n) >= registers).unwrap_or(0)
        });
        let limits = [
            (by_registers, Resource::Registers),
            (by_threads, Resource::Threads),
            (by_shared, Resource::Shared),
            (self.sm_blocks(), Resource::Blocks),
        ];
        let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, Resource::Blocks));
        Residency { blocks, limit }
    }
}

impl Plan {
    /// Blocks per multiprocessor to compile `variant` for: the number in `blocks_per_sm`, else the most that threads
    /// and shared memory allow and that leave each thread its live registers.
    pub fn resident_blocks(&self, variant: &Variant) -> u32 {
        let most = self.most_blocks();
        let derived = || (2..=most).rev().find(|&blocks| self.fits(variant, blocks)).unwrap_or(1);
        self.resources.blocks_per_sm.unwrap_or_else(derived)
    }

    /// Registers per thread when `blocks` blocks share a multiprocessor.
    pub fn registers_per_thread(&self, blocks: u32) -> u32 {
        target::registers_per_thread(self.threads(), blocks)
    }

    /// Blocks per multiprocessor that threads and shared memory allow.
    fn most_blocks(&self) -> u32 {
        self.target.residency(self.threads(), self.resources.shared_bytes, None).blocks.max(1)
    }

    /// Whether a thread's live registers fit when `blocks` blocks share a multiprocessor.
    pub(crate) fn fits(&self, variant: &Variant, blocks: u32) -> bool {
        let (live, given) = (self.live_registers(variant), self.registers_per_thread(blocks));
        // A second block is worth a few spilled registers: `double_buffered` on an H200 at 4096 reaches 38.2 TFLOP/s
        // with two blocks, although the assembler spills one register per thread, and 36.5 with one. Before sm_90 it
        // spills more. The registers that `wgmma` demands cannot spill.
        let spills = blocks == 2 && self.target.capability >= 90 && self.atom.of_group().is_none();
        let slack = if spills { given / 10 } else { 0 };
        let least = self.atom.row(self.ring.a.dtype).map_or(0, |row| row.least_registers);
        live <= given + slack && given >= least
    }

    /// Registers of a thread that hold data at once in the mainloop.
    pub(crate) fn live_registers(&self, variant: &Variant) -> u32 {
        let words = |operand: &OperandPlan, elements: u32| elements * operand.dtype.bytes().div_ceil(4);
        let fragments = match self.body.operands {
            _ if self.atom.of_group().is_some() => 0,
            // A lane holds its share of the rows of A and the columns of B.
            _ if self.atom.of_warp().is_some() => {
                let depth = if let Some((_, _, depth)) = self.atom.of_warp() { depth } else { 0 };
                let bits = (self.geometry.region.m + self.geometry.region.n) * depth * self.ring.a.dtype.element().bits;
                bits / (32 * WARP) * (1 + self.body.prefetch.min(1))
            }
            Operands::Shared => 2,
            Operands::Registers => {
                self.fragment_registers(&self.ring.a, variant.a.width, self.geometry.thread.m)
                    + self.fragment_registers(&self.ring.b, variant.b.width, self.geometry.thread.n)
            }
        };
        // With more than one stage, the next K-tile loads while this one is multiplied.
        let staged = self.ring.a.placement.is_some() && self.ring.stages > 1 && self.ring.load == Load::Registers;
        let staging = match staged {
            true => {
                words(&self.ring.a, variant.a.passes * variant.a.width)
                    + words(&self.ring.b, variant.b.passes * variant.b.width)
            }
            false => 0,
        };
        // Without staging, each row and column of the thread's tile has its own pointer, at least at edges, and
        // registers hold the leading dimensions of both operands.
        let thread = self.geometry.thread;
        let pointers = if self.ring.a.placement.is_none() { 2 * (thread.m + thread.n + 2) } else { 0 };
        let copies = self.scattered_addresses(&variant.a) + self.scattered_addresses(&variant.b);
        self.resources.accumulator_registers + fragments + staging + pointers + copies + besides(self.atom)
    }

    /// Registers of a copy with passes that read different columns of the K-tile. Each pass needs its own global
    /// address (two registers), a shared address, and at edges a position to compare. If the columns are the same, the
    /// assembler derives one pass from another, and [`besides`] covers the registers.
    fn scattered_addresses(&self, copy: &CopyPlan) -> u32 {
        let scattered = copy.passes > 1 && !self.copying_threads().is_multiple_of(copy.chunks_per_row);
        if scattered { 4 * copy.passes } else { 0 }
    }

    /// Registers of one operand's fragments: the group of steps read at once, the prefetched groups, and one group in
    /// the accumulator's type if it differs. `width` is the width of global accesses.
    fn fragment_registers(&self, operand: &OperandPlan, width: u32, count: u32) -> u32 {
        let group = match operand.placement {
            Some(placement) if placement.fast == Fast::K => operand.read_width,
            None if operand.global_fast == Fast::K => width,
            _ => 1,
        };
        let acc = self.problem.types.acc;
        let converted = if operand.dtype == acc { 0 } else { count * group * acc.bytes().div_ceil(4) };
        count * group * (1 + self.body.prefetch / group) * operand.dtype.bytes().div_ceil(4) + converted
    }
}

#[cfg(test)]
mod tests {
    use super::{Residency, Resource};
    use crate::target::Target;

    #[test]
    fn what_runs_out_first() {
        let of = |threads, shared, registers| Target::SM_90.residency(threads, shared, registers);
        assert_eq!(of(256, 0, None), Residency { blocks: 8, limit: Resource::Threads });
        assert_eq!(of(32, 0, None), Residency { blocks: 32, limit: Resource::Blocks });
        assert_eq!(of(256, 64 << 10, None), Residency { blocks: 3, limit: Resource::Shared });
        assert_eq!(of(256, 0, Some(128)), Residency { blocks: 2, limit: Resource::Registers });
        assert_eq!(of(256, 0, Some(129)).blocks, 1);
        assert_eq!(of(1024, 0, Some(255)), Residency { blocks: 0, limit: Resource::Registers });
    }
}
