//! A block's shared memory. Only one host thread runs a block, so its words are not atomic.

use crate::address::SHARED_START;

/// Words, and one bit per byte that was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) words: Vec<u32>,
    bytes: u32,
    written: Vec<u32>,
}

impl Shared {
    /// Clears the memory for a new block.
    pub(crate) fn reset(&mut self, bytes: u32, watch: bool) {
        self.bytes = bytes;
        self.words.clear();
        self.words.resize(bytes.div_ceil(4) as usize, 0);
        self.written.clear();
        if watch {
            self.written.resize(bytes.div_ceil(32) as usize, 0);
        }
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Offset of an access that is in bounds.
    #[inline(always)]
    pub(crate) fn offset(&self, address: u64, bytes: u64) -> Option<usize> {
        let offset = address.checked_sub(u64::from(SHARED_START))?;
        (offset <= u64::from(self.bytes) && bytes <= u64::from(self.bytes) - offset).then_some(offset as usize)
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
