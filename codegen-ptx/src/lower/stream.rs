//! One operand's fragments on their way into registers.

use ptx_gemm_dsl::terms::{Fast, Operands, Side};

use super::shared::SharedAddress;
use crate::kernel::{Expr, Locality, Reach as Extent, Reg};
use crate::tile::Note;

/// One operand's fragments in a loop.
pub(super) struct Stream {
    pub side: Side,
    /// Positions of the thread's elements along m or n, from its first.
    pub positions: Vec<u32>,
    /// Elements of one access.
    pub width: u32,
    /// Steps that one group serves.
    pub group: u32,
    /// Steps that a group is read before its first product.
    pub ahead: u32,
    /// Held in registers, or read again for each product.
    pub hold: Operands,
    /// Register sets in rotation; each holds one group.
    pub sets: Vec<Vec<Reg>>,
    /// The same in the accumulator's type, where that differs; they rotate too, or one serves all groups.
    pub converted: Vec<Vec<Reg>>,
    pub from: Fragments,
    pub note: Note,
}

/// Where fragments are read.
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
        let set = self.set(step);
        let regs = match self.converted.len() {
            0 => &self.sets[set],
            n => &self.converted[set % n],
        };
        (0..self.positions.len() as u32).map(|i| regs[(i * self.group + step % self.group) as usize]).collect()
    }
}

/// A stream's slot.
pub(super) struct SlotSource {
    /// Address of the thread's first element at step 0 of the body.
    pub address: SharedAddress,
    pub fast: Fast,
    pub pitch: u32,
    pub bytes: u32,
}

impl SlotSource {
    /// Bytes from the base to the element at `position`, step `step`.
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
    /// Elements of the thread, in pieces that share a pointer: (pointer, constant bytes) of each element.
    pub elements: Vec<(usize, u32)>,
    pub pointers: Vec<Expr>,
    /// The pointers within a round: along m or n they are stepped through.
    pub at: Vec<Expr>,
    /// Bytes from one row of the contiguous dimension to the next.
    pub ld_bytes: Expr,
    pub bytes: u32,
    /// The tile along the operand's own dimension.
    pub own: Extent,
    /// What is left of k, and how far that register is ahead of the round whose steps are read.
    pub left: Option<Reg>,
    pub behind: u32,
    pub locality: Locality,
    /// Note of the steps.
    pub note: Note,
}

impl GlobalSource {
    /// Bytes from a step to the one `steps` later.
    pub fn distance(&self, steps: u32) -> Expr {
        match self.fast {
            Fast::K => Expr::Const(u64::from(steps * self.bytes)),
            Fast::Mn => self.ld_bytes.clone() * steps,
        }
    }
}
