//! The roles of a block: all of its threads, or those that copy and those that multiply.
//!
//! The threads of a role compute each tile of D together, or groups of them take turns: the first group computes the
//! first tile of the block, the next group the next tile, and the first group continues after the last. A [`Turn`] is
//! an ordered barrier around what only one group may do at a time:
//!
//! ```text
//! skip ab              past the K-tiles of the tiles that other groups compute
//! take mainloop        waits until the previous group has passed it on
//! …                    no other group is here
//! pass mainloop        to the next group
//! ```

use ptx_gemm_dsl::target::MBARRIER_BYTES;
use std::ops::Range;

use super::{Note, Statement};

/// A subset of the block's threads with its own program.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Name in the text.
    pub name: String,
    /// Its threads.
    pub threads: Range<u32>,
    /// Number of groups of its threads that compute one tile of D each, in turn; 1: all compute each tile together.
    pub turns: u32,
    /// Registers of each of its threads; `None`: the number at the kernel's launch.
    pub registers: Option<u32>,
    /// Note of the registers.
    pub registers_note: Note,
    /// Its program.
    pub body: Vec<Statement>,
    /// Its note.
    pub note: Note,
}

impl Role {
    /// The number of its threads.
    pub fn len(&self) -> u32 {
        self.threads.end.saturating_sub(self.threads.start)
    }

    /// Whether it has no threads.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of its threads that compute a tile of D together.
    pub fn per_tile(&self) -> u32 {
        self.len() / self.turns.max(1)
    }
}

/// An ordered barrier: one group of a role holds it at a time, and passes it on to the next group. The first group
/// holds it when the block starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Name in the text.
    pub name: String,
    /// Byte offset in shared memory of one mbarrier for each group, 8 bytes each. All threads of the previous group
    /// arrive there to pass the barrier on.
    pub offset_bytes: u32,
    /// Its note.
    pub note: Note,
}

impl Turn {
    /// Size of an mbarrier.
    pub const BYTES: u32 = MBARRIER_BYTES;

    /// The byte in shared memory after its mbarriers.
    pub fn end(&self, groups: u32) -> u64 {
        u64::from(self.offset_bytes) + u64::from(Turn::BYTES) * u64::from(groups)
    }

    /// Byte offset of a group's mbarrier from that of the first group.
    pub fn distance(group: u32) -> u32 {
        group * Turn::BYTES
    }
}
