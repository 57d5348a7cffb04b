//! One operand's fragments, from memory to registers.

use ptx_gemm_dsl::terms::{Fast, Reads, Side};

use super::shared::SharedAddress;
use crate::kernel::{Expr, Locality, Reach as Extent, Reg};
use crate::tile::{Hold, Note};

/// One operand's fragments in a loop.
pub(super) struct Stream {
    pub side: Side,
    /// Positions of the thread's elements along m or n, relative to the first one.
    pub positions: Vec<u32>,
    /// Elements per access.
    pub width: u32,
    /// Steps covered by one group.
    pub group: u32,
    /// Number of steps by which a group is read before its first product.
    pub ahead: u32,
    /// Whether it stays in registers, or is read again for each product.
    pub hold: Hold,
    /// Register sets in rotation; each holds one group.
    pub sets: Vec<Vec<Reg>>,
    /// The elements of one step in the accumulator's type, if it differs. A group is converted step by step, just
    /// before its products, so that the conversion neither waits for the load nor holds a second copy of the whole
    /// group.
    pub converted: Vec<Reg>,
    pub from: Fragments,
    pub note: Note,
}

/// Where fragments are read from.
pub(super) enum Fragments {
    Slot(SlotSource),
    Global(GlobalSource),
}

impl Stream {
    /// The register set of the group that holds `step`.
    pub fn set(&self, step: u32) -> usize {
        (step / self.group) as usize % self.sets.len().max(1)
    }

    /// Registers that hold the operand at `step`.
    pub fn at(&self, step: u32) -> Vec<Reg> {
        if self.converted.is_empty() { self.raw(step) } else { self.converted.clone() }
    }

    /// Registers that hold the operand at `step` as it was read.
    pub fn raw(&self, step: u32) -> Vec<Reg> {
        let regs = &self.sets[self.set(step)];
        (0..self.positions.len() as u32).map(|i| regs[(i * self.group + step % self.group) as usize]).collect()
    }
}

/// The slot of a stream.
pub(super) struct SlotSource {
    /// Address of the thread's first element at step 0 of the body.
    pub address: SharedAddress,
    pub fast: Fast,
    pub pitch: u32,
    pub bytes: u32,
    pub reads: Reads,
}

impl SlotSource {
    /// Byte offset of the element at `position` in step `step`, relative to the base.
    pub fn offset(&self, position: u32, step: u32) -> u32 {
        offset(self.fast, self.pitch, self.bytes, position, step)
    }
}

pub(super) fn offset(fast: Fast, pitch: u32, bytes: u32, position: u32, step: u32) -> u32 {
    let (slow, fast) = match fast {
        Fast::K => (position, step),
        Fast::Mn => (step, position),
    };
    (slow * pitch + fast) * bytes
}

/// A stream's part of a matrix.
pub(super) struct GlobalSource {
    pub fast: Fast,
    /// The thread's elements, as the index of a shared pointer and a constant byte offset for each.
    pub elements: Vec<(usize, u32)>,
    pub pointers: Vec<Expr>,
    /// The pointers within a round, which step through the rows along m or n.
    pub at: Vec<Expr>,
    /// Byte distance between consecutive rows of the contiguous dimension.
    pub ld_bytes: Expr,
    pub bytes: u32,
    /// The tile along the operand's own dimension.
    pub own: Extent,
    /// The k left. Reads count from the position at which this register was computed.
    pub left: Option<Reg>,
    pub before: u32,
    pub locality: Locality,
    /// Note of the K-steps.
    pub note: Note,
}

impl GlobalSource {
    /// Byte distance between a step and the one `steps` later.
    pub fn distance(&self, steps: u32) -> Expr {
        match self.fast {
            Fast::K => Expr::Const(u64::from(steps * self.bytes)),
            Fast::Mn => self.ld_bytes.clone() * steps,
        }
    }
}
