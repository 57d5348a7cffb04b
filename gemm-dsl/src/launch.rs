//! What a launch of a plan takes: blocks, workspace, alignment of its operands.

use crate::plan::{Alignment, Plan, Variant};
use crate::terms::{Operand, Reduce, SplitK, Wave};
use crate::types::Batch;

impl Plan {
    /// Tiles of an m x n result: the blocks of the flat grid, where one block computes one tile.
    pub fn grid(&self, m: u64, n: u64) -> u64 {
        m.div_ceil(u64::from(self.block.m)).saturating_mul(n.div_ceil(u64::from(self.block.n)))
    }

    /// Units of work of a launch: tiles, times `batch` products, times parts of k. Without `persistent` each is a block.
    pub fn units(&self, m: u64, n: u64, batch: u64) -> u64 {
        self.grid(m, n).saturating_mul(batch).saturating_mul(self.split_k.map_or(1, |split| u64::from(split.parts)))
    }

    /// The blocks of a launch as a formula: what [`Plan::units`] counts, and no more than the wave of a persistent grid.
    pub fn grid_formula(&self) -> String {
        let mut formula = format!("ceil(m / {}) * ceil(n / {})", self.block.m, self.block.n);
        if self.problem.batch == Batch::Strided {
            formula.push_str(" * batch");
        }
        if let Some(split) = self.split_k {
            formula.push_str(&format!(" * {}", split.parts));
        }
        match self.persistent {
            None => formula,
            Some(Wave::Blocks(blocks)) => format!("min({formula}, {blocks})"),
            Some(Wave::Device) => format!("min({formula}, blocks that the device holds at once)"),
        }
    }

    /// The bytes of the workspace as a formula, and which of them are zero at a launch; `None` without split-K.
    pub fn workspace_formula(&self) -> Option<String> {
        let slot_bytes = self.partial_bytes(self.split_k?);
        let batch = if self.problem.batch == Batch::Strided { " * batch" } else { "" };
        let threads = self.geometry.threads;
        Some(format!(
            "tiles * {} bytes, up to a multiple of 256, of zeros (zero again afterwards), then tiles * {slot_bytes} bytes; \
             tiles = ceil(m / {}) * ceil(n / {}){batch}",
            threads * 4,
            self.block.m,
            self.block.n
        ))
    }

    /// Bytes of the workspace's flags, which are at its start: one u32 per tile and thread, rounded up to 256 bytes. They
    /// must be zero at a launch, and are zero again after it. 0 without split-K.
    pub fn flag_bytes(&self, m: u64, n: u64, batch: u64) -> u64 {
        let Some(_) = self.split_k else { return 0 };
        let flags = self.grid(m, n).saturating_mul(batch).saturating_mul(u64::from(self.geometry.threads) * 4);
        flags.checked_next_multiple_of(256).unwrap_or(u64::MAX)
    }

    /// Bytes of the workspace: the flags, then partial sums in the accumulator's type, a slot per tile (`serial`) or per
    /// tile and part (`workspace`). 0 without split-K.
    pub fn workspace_bytes(&self, m: u64, n: u64, batch: u64) -> u64 {
        let Some(split) = self.split_k else { return 0 };
        let sums = self.grid(m, n).saturating_mul(batch).saturating_mul(self.partial_bytes(split));
        self.flag_bytes(m, n, batch).saturating_add(sums)
    }

    /// Bytes of the partial sums of one tile.
    fn partial_bytes(&self, split: SplitK) -> u64 {
        let slots = match split.reduce {
            Reduce::Serial => 1,
            Reduce::Workspace => split.parts,
        };
        let sums = u64::from(self.accumulators()) * u64::from(self.geometry.threads);
        u64::from(slots) * sums * u64::from(self.problem.types.acc.bytes())
    }

    /// What `operand` must be aligned to for `variant`.
    pub fn alignment(&self, variant: &Variant, operand: Operand) -> Alignment {
        let elements = match operand {
            Operand::A => variant.a.width,
            Operand::B => variant.b.width,
            Operand::C => variant.c_width,
            Operand::D => variant.d_width,
        };
        Alignment { elements, bytes: elements * self.problem.types.of(operand).bytes() }
    }
}
