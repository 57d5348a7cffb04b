//! How many blocks a multiprocessor should hold, which limits the registers that the assembler may give a thread.
//!
//! The demand is always stated (`.minnctapersm`). Left to itself, NVIDIA's assembler decides by how it is called: as part of
//! a link it takes 167 registers for `vectorized`, by itself 128, which is one block instead of two and 24.3 instead of
//! 35.6 TFLOP/s on an H200 at 4096. With the demand stated, the registers are the same on every path to a GPU, and the
//! speeds are within 3%.

use crate::clause::Atom;
use crate::plan::{CopyPlan, OperandPlan, Plan, Variant};
use crate::target::{self, Target, WARP};
use crate::terms::{Fast, Load, Operands};

/// Registers for addresses, counters and loads that the assembler hoists, as seen in the machine code of the named
/// cases. Of `wgmma`, exactly what it demands: with fewer, ptxas (13.0, 12.9) refuses to assemble the instruction, for every n
/// from 16 to 256.
pub(crate) fn besides(atom: Atom) -> u32 {
    match atom {
        Atom::Fma | Atom::Mma(..) => 16,
        Atom::Wgmma(..) => 26,
    }
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

/// How many blocks a multiprocessor holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residency {
    /// Blocks.
    pub blocks: u32,
    /// The resource that does not suffice for one more.
    pub limit: Resource,
}

impl Target {
    /// Blocks of `threads` threads and `shared_bytes` bytes of shared memory that a multiprocessor holds at once, each thread with
    /// `registers` registers where that is known.
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
    /// Blocks per multiprocessor that `variant` is compiled for: what `blocks_per_sm` states, else the most that threads
    /// and shared memory allow and that leave every thread the registers it holds data in.
    pub fn resident_blocks(&self, variant: &Variant) -> u32 {
        let most = self.most_blocks();
        let derived = || (2..=most).rev().find(|&blocks| self.fits(variant, blocks)).unwrap_or(1);
        self.blocks_per_sm.unwrap_or_else(derived)
    }

    /// Registers that a thread can have when `blocks` blocks share a multiprocessor.
    pub fn registers_per_thread(&self, blocks: u32) -> u32 {
        target::registers_per_thread(self.threads(), blocks)
    }

    /// Blocks that fit on one multiprocessor by threads and shared memory.
    fn most_blocks(&self) -> u32 {
        self.target.residency(self.threads(), self.shared_bytes, None).blocks.max(1)
    }

    /// Whether a thread of `blocks` blocks has registers for what it holds at once.
    pub(crate) fn fits(&self, variant: &Variant, blocks: u32) -> bool {
        let (live, given) = (self.live_registers(variant), self.registers_per_thread(blocks));
        // A second block is worth a few spilled registers. `double_buffered` on an H200 at 4096: 38.2 TFLOP/s with two
        // blocks, for which the assembler keeps one register of a thread in memory, 36.5 with one. Before sm_90 it
        // spills more than that. What `wgmma` demands it does not spill.
        let spills = blocks == 2 && self.target.capability >= 90 && !matches!(self.atom, Atom::Wgmma(..));
        let slack = if spills { given / 10 } else { 0 };
        live <= given + slack
    }

    /// Registers of a thread that hold data at once in the main loop.
    pub(crate) fn live_registers(&self, variant: &Variant) -> u32 {
        let words = |operand: &OperandPlan, elements: u32| elements * operand.dtype.bytes().div_ceil(4);
        let fragments = match self.operands {
            _ if matches!(self.atom, Atom::Wgmma(..)) => 0,
            // Pairs of elements: of 16 rows or columns and 16 of k, four and two registers.
            _ if matches!(self.atom, Atom::Mma(..)) => {
                let depth = if let Atom::Mma(_, _, depth) = self.atom { depth } else { 0 };
                let matrices = (self.geometry.region.m / 8 + self.geometry.region.n / 8) * (depth / 8);
                matrices * (1 + self.prefetch.min(1))
            }
            Operands::Shared => 2,
            Operands::Registers => {
                self.fragment_registers(&self.a, variant.a.width, self.geometry.thread.m)
                    + self.fragment_registers(&self.b, variant.b.width, self.geometry.thread.n)
            }
        };
        // With more than one stage the next tile is loaded while this one is multiplied.
        let staged = self.a.placement.is_some() && self.stages > 1 && self.load == Load::Registers;
        let staging = match staged {
            true => {
                words(&self.a, variant.a.passes * variant.a.width) + words(&self.b, variant.b.passes * variant.b.width)
            }
            false => 0,
        };
        // Without staging each row and column of the thread's tile is read through a pointer of its own, at edges at
        // least, and the leading dimensions of both operands are kept in registers.
        let thread = self.geometry.thread;
        let pointers = if self.a.placement.is_none() { 2 * (thread.m + thread.n + 2) } else { 0 };
        let copies = self.scattered_addresses(&variant.a) + self.scattered_addresses(&variant.b);
        self.accumulator_registers + fragments + staging + pointers + copies + besides(self.atom)
    }

    /// Registers of a copy whose passes do not all read the same columns of the K-tile: each pass has a global address of
    /// its own, which takes two, a shared one, and at edges a position to compare. Where the columns are the same, the
    /// assembler derives one pass from another, and [`besides`] has what it needs.
    fn scattered_addresses(&self, copy: &CopyPlan) -> u32 {
        let scattered = copy.passes > 1 && !self.copying_threads().is_multiple_of(copy.chunks_per_row);
        if scattered { 4 * copy.passes } else { 0 }
    }

    /// Registers of one operand's fragments: groups of steps read at once, and as many again as are read ahead; and one
    /// group in the accumulator's type, where that is another. `width` is that of global accesses.
    fn fragment_registers(&self, operand: &OperandPlan, width: u32, count: u32) -> u32 {
        let group = match operand.placement {
            Some(placement) if placement.fast == Fast::K => operand.read_width,
            None if operand.global_fast == Fast::K => width,
            _ => 1,
        };
        let acc = self.problem.types.acc;
        let converted = if operand.dtype == acc { 0 } else { count * group * acc.bytes().div_ceil(4) };
        count * group * (1 + self.prefetch / group) * operand.dtype.bytes().div_ceil(4) + converted
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
