//! The shared memories of a cluster's blocks, one after the other. Only one host thread runs a cluster, so the words
//! are not atomic.
//!
//! An offset is the distance from the start of the first block's memory. The memories of a cluster of several blocks
//! begin at multiples of a power of two, so that an offset contains the rank of its block.

use std::sync::Arc;

use crate::address::{PEER, SHARED_START};

/// Bytes of a block's memory that belong to no variable, by their distance from its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The variable that ends where the gap begins.
    pub(crate) after: String,
}

/// Words, and one bit per byte that was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) words: Vec<u32>,
    /// Size of one block's memory.
    bytes: u32,
    written: Vec<u32>,
    layout: Layout,
    gaps: Arc<[Gap]>,
    ranks: u32,
    /// The running block: the address and the offset of its first byte.
    start: u32,
    base: u32,
}

/// Where the memory of each block of a cluster begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Logarithm of the distance between two blocks.
    shift: u32,
}

impl Default for Layout {
    /// The layout of a block that is its own cluster.
    fn default() -> Layout {
        Layout { shift: 31 }
    }
}

impl Layout {
    pub(crate) fn new(bytes: u32, ranks: u32) -> Layout {
        // Swizzles and banks depend on the lower bits of an offset.
        if ranks == 1 { Layout::default() } else { Layout { shift: bytes.max(1024).next_power_of_two().ilog2() } }
    }

    /// The rank of the block that contains an offset, and the offset within it.
    #[inline(always)]
    pub(crate) fn split(self, offset: usize) -> (usize, usize) {
        (offset >> self.shift, offset & ((1 << self.shift) - 1))
    }

    /// The offset of a byte of a block; `within` may be its end, where the next block begins.
    #[inline(always)]
    pub(crate) fn offset(self, rank: usize, within: usize) -> usize {
        (rank << self.shift) + within
    }
}

impl Shared {
    /// Clears the memory for a new cluster.
    pub(crate) fn reset(&mut self, bytes: u32, gaps: &Arc<[Gap]>, ranks: u32, watch: bool) {
        self.gaps.clone_from(gaps);
        (self.bytes, self.ranks, self.layout) = (bytes, ranks, Layout::new(bytes, ranks));
        self.enter(0);
        let all = self.all_bytes();
        self.words.clear();
        self.words.resize(all.div_ceil(4), 0);
        self.written.clear();
        if watch {
            self.written.resize(all.div_ceil(32), 0);
        }
    }

    /// Makes this block the running one.
    pub(crate) fn enter(&mut self, rank: usize) {
        self.start = SHARED_START + rank as u32 * PEER;
        self.base = self.layout.offset(rank, 0) as u32;
    }

    /// Bytes of a block.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The end of the last block's memory.
    pub(crate) fn all_bytes(&self) -> usize {
        self.layout.offset(self.ranks as usize - 1, self.bytes as usize)
    }

    /// Number of blocks.
    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Address of the running block's first byte.
    #[inline(always)]
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Offset of the running block's first byte.
    #[inline(always)]
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// Rank of the running block.
    pub(crate) fn rank(&self) -> usize {
        self.layout.split(self.base as usize).0
    }

    /// Offset of an access to the running block's memory that is in bounds.
    #[inline(always)]
    pub(crate) fn offset(&self, address: u64, bytes: u64) -> Option<usize> {
        let offset = address.checked_sub(u64::from(self.start))?;
        (offset <= u64::from(self.bytes)
            && bytes <= u64::from(self.bytes) - offset
            && self.gap(offset, bytes).is_none())
        .then_some(offset as usize + self.base as usize)
    }

    /// Offset of an access to the memory of any block of the cluster that is in bounds.
    pub(crate) fn offset_in_cluster(&self, address: u64, bytes: u64) -> Option<usize> {
        let (rank, address) = (address / u64::from(PEER), address % u64::from(PEER));
        let within = address.checked_sub(u64::from(SHARED_START))?;
        let fits = within <= u64::from(self.bytes) && bytes <= u64::from(self.bytes) - within;
        let fits = fits && self.gap(within, bytes).is_none();
        (fits && rank < u64::from(self.ranks)).then(|| self.layout.offset(rank as usize, within as usize))
    }

    /// The gap between variables that an access to a block's memory touches, if any.
    #[inline(always)]
    pub(crate) fn gap(&self, within: u64, bytes: u64) -> Option<&Gap> {
        self.gaps.iter().find(|gap| within < gap.end && gap.start < within + bytes)
    }

    /// Whether there are such gaps.
    #[inline(always)]
    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// The address of an offset.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        let (rank, within) = self.layout.split(offset);
        rank as u64 * u64::from(PEER) + u64::from(SHARED_START) + within as u64
    }

    /// The offset of the same byte in another block of the cluster.
    pub(crate) fn in_block(&self, rank: usize, offset: usize) -> usize {
        self.layout.offset(rank, self.layout.split(offset).1)
    }

    /// The rank of the block that contains an offset.
    pub(crate) fn rank_of(&self, offset: usize) -> usize {
        self.layout.split(offset).0
    }

    /// Reads 1, 2, 4 or 8 aligned bytes.
    #[inline(always)]
    pub(crate) fn load(&self, offset: usize, bytes: usize) -> u64 {
        load_words(&self.words, offset, bytes)
    }

    /// Writes 1, 2, 4 or 8 aligned bytes.
    #[inline(always)]
    pub(crate) fn store(&mut self, offset: usize, bytes: usize, value: u64) {
        store_words(&mut self.words, offset, bytes, value);
    }

    /// Sets whether up to 32 aligned bytes hold values.
    pub(crate) fn mark(&mut self, offset: usize, bytes: usize, written: bool) {
        let bits = (((1u64 << bytes) - 1) as u32) << (offset % 32);
        let word = &mut self.written[offset / 32];
        *word = if written { *word | bits } else { *word & !bits };
    }

    pub(crate) fn is_written(&self, offset: usize, bytes: usize) -> bool {
        let bits = (((1u64 << bytes) - 1) as u32) << (offset % 32);
        self.written[offset / 32] & bits == bits
    }
}

/// Reads 1, 2, 4 or 8 aligned bytes from words.
#[inline(always)]
pub(crate) fn load_words(words: &[u32], offset: usize, bytes: usize) -> u64 {
    let word = words[offset / 4];
    match bytes {
        4 => u64::from(word),
        8 => u64::from(word) | u64::from(words[offset / 4 + 1]) << 32,
        2 => u64::from((word >> (offset % 4 * 8)) as u16),
        _ => u64::from((word >> (offset % 4 * 8)) as u8),
    }
}

/// Writes 1, 2, 4 or 8 aligned bytes to words.
#[inline(always)]
pub(crate) fn store_words(words: &mut [u32], offset: usize, bytes: usize, value: u64) {
    let word = &mut words[offset / 4];
    match bytes {
        4 => *word = value as u32,
        8 => {
            *word = value as u32;
            words[offset / 4 + 1] = (value >> 32) as u32;
        }
        _ => {
            let shift = offset % 4 * 8;
            let mask = ((1u32 << (bytes * 8)) - 1) << shift;
            *word = *word & !mask | (value as u32) << shift & mask;
        }
    }
}
