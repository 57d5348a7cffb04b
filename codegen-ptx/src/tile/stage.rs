//! The stage of D in shared memory: its position, and the copy of C to it.

use std::ops::Range;

use ptx_gemm_dsl::terms::Swizzle;
use ptx_gemm_dsl::types::{DType, Layout};

use super::{Note, Turn};

/// A tile of D in shared memory, on its way to global memory.
///
/// Its lines run along D's contiguous dimension, and are cut into panels of `pitch` elements. A single panel may be
/// wider than the lines. Each panel holds its part of every line.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Elements from one line of a panel to the next.
    pub pitch: u32,
    /// XOR on byte addresses.
    pub swizzle: Swizzle,
    /// Its position in the block's shared memory.
    pub place: StagePlace,
    /// Its note.
    pub note: Note,
}

/// Mbarriers that count the bytes of the tile of C, which TMA copies to the stage of D. Each thread then replaces its
/// elements of C by those of D.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Byte offset in shared memory of one mbarrier for each group of threads that takes turns, 8 bytes each.
    pub offset_bytes: u32,
    /// Its note.
    pub note: Note,
}

impl Arrival {
    /// The byte in shared memory after its mbarriers.
    pub fn end(&self, groups: u32) -> u64 {
        u64::from(self.offset_bytes) + u64::from(Turn::distance(groups))
    }
}

/// Where the stage of D is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagePlace {
    /// At a byte offset.
    At(u32),
    /// In lent slots of a ring; [`Program::lent`](super::Program::lent) gives their number.
    Slots(usize),
}

/// The slots that hold the stage of D: whole panels, one after the other, from the beginning of each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Index of the ring.
    pub ring: usize,
    /// Byte offset of its first slot.
    pub first_bytes: u32,
    /// Bytes of a panel.
    pub panel_bytes: u32,
    /// Most panels in a slot; 0 if none fits.
    pub panels: u32,
    /// Slots that the panels take.
    pub slots: u32,
}

impl Stage {
    /// Number of panels that lines of this many elements are cut into.
    pub fn panels(&self, elements: u32) -> u32 {
        elements.div_ceil(self.pitch.max(1))
    }

    /// Bytes from the first element of a tile with these lines to element `element` of line `line`, before the swizzle.
    pub fn distance(&self, lines: Lines, dtype: DType, (line, element): (u32, u32)) -> u32 {
        ((element / self.pitch * lines.count + line) * self.pitch + element % self.pitch) * dtype.bytes()
    }

    /// The columns of a thread that each `stmatrix` stores: those of two neighbouring matrices, or of one where a panel or
    /// the warp's part ends. `cols` are the thread's columns relative to its first one, two in each matrix.
    pub fn blocks(&self, cols: &[u32], layout: Layout) -> Vec<Range<usize>> {
        let panel = |col: u32| if layout == Layout::Row { col / self.pitch.max(1) } else { 0 };
        let (mut blocks, mut first) = (Vec::new(), 0);
        while first < cols.len() {
            let same = |next: &usize| *next < cols.len() && panel(cols[*next]) == panel(cols[first]);
            let next = if same(&(first + 2)) { first + 4 } else { first + 2 };
            blocks.push(first..next.min(cols.len()));
            first = next;
        }
        blocks
    }

    /// Size in bytes for a tile with these lines.
    pub fn bytes(&self, lines: Lines, element: DType) -> u64 {
        let panel = u64::from(lines.count) * u64::from(self.pitch) * u64::from(element.bytes());
        u64::from(self.panels(lines.elements)) * panel
    }
}

/// The lines of a tile of D, along its contiguous dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Elements of a line.
    pub elements: u32,
    /// Number of lines.
    pub count: u32,
}
