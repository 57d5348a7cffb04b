//! Cluster reduction: the blocks of a cluster each compute a part of k, and combine their partial sums in distributed
//! shared memory.

use ptx_gemm_dsl::types::Layout;

use super::{Lines, Map, Note, Program};

/// What the blocks of a cluster do after their roles. Each has written the partial sums of its part of k to its shared
/// memory ([`Op::Share`](super::Op::Share)). After a cluster barrier, each block adds up the parts, in their order, for
/// its own share of the lines of D's tile, and stores these lines.
///
/// The partial sums of a line are contiguous, `pitch` elements from those of the next line. All blocks have the same
/// number of lines, except that the last block has the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Which elements of a share each thread adds up. The map has at least the lines of a share; extra lines are not
    /// stored.
    pub map: Map,
    /// Elements from one line of the partial sums to the next.
    pub pitch: u32,
    /// Byte offset of the partial sums in the block's shared memory.
    pub offset_bytes: u32,
    /// Elements of D, and of C, per access.
    pub width: u32,
    /// Elements of C per access.
    pub c_width: u32,
    /// Its note.
    pub note: Note,
}

impl Exchange {
    /// Lines of the map along one dimension of the tile, and elements of each.
    pub fn held(&self, layout: Layout) -> Lines {
        let extent = |step: fn(&super::Digit) -> u32| {
            let digits = self.map.thread.iter().chain(&self.map.warp).chain(&self.map.element);
            digits.filter(|digit| step(digit) > 0).fold(1, |all: u32, digit| all.saturating_mul(digit.extent))
        };
        let (rows, columns) = (extent(|digit| digit.m), extent(|digit| digit.n));
        match layout {
            Layout::Row => Lines { elements: columns, count: rows },
            Layout::Col => Lines { elements: rows, count: columns },
        }
    }

    /// Bytes of a block's partial sums.
    pub fn bytes(&self, program: &Program) -> u64 {
        let (lines, element) = (program.lines(), program.problem.types.acc.bytes());
        let before_last = u64::from(lines.count.saturating_sub(1)) * u64::from(self.pitch);
        (before_last + u64::from(lines.elements)) * u64::from(element)
    }
}

impl Program {
    /// Lines of a tile of D that each block of a cluster stores, if the blocks have parts of its k.
    pub fn share(&self) -> u32 {
        self.lines().count.div_ceil(self.scheduler.parts().max(1))
    }
}
