//! What the warps of a block have read of each word of shared memory, or of each of its bytes.

/// The lanes of a warp that have read a word at one clock. Of several instructions, the first is recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    /// The clock at which another lane of the warp may read without further checks: every thread is ordered after the
    /// writer, nothing has been written since, and this warp is recorded. 0 if checks are needed.
    pub(crate) quick: u32,
    pub(crate) clock: u32,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
}

/// What each warp of the block has read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Number of words. Entries from this index on are of bytes.
    pub(crate) whole: usize,
    pub(crate) warps: usize,
    /// By warp and word, so that the words that a warp reads are adjacent.
    pub(crate) of_words: Vec<Read>,
    /// By byte and warp: for the words with separately tracked bytes.
    of_bytes: Vec<Read>,
}

impl Reads {
    pub(crate) fn reset(&mut self, words: usize, warps: usize) {
        (self.whole, self.warps) = (words, warps);
        self.of_words.clear();
        self.of_words.resize(words * warps, Read::default());
        self.of_bytes.clear();
    }

    /// A warp's reads of a word, or of a byte.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize, warp: usize) -> &Read {
        match index.checked_sub(self.whole) {
            None => &self.of_words[warp * self.whole + index],
            Some(byte) => &self.of_bytes[byte * self.warps + warp],
        }
    }

    /// The same, to change them.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, index: usize, warp: usize) -> &mut Read {
        match index.checked_sub(self.whole) {
            None => &mut self.of_words[warp * self.whole + index],
            Some(byte) => &mut self.of_bytes[byte * self.warps + warp],
        }
    }

    /// Tracks the bytes of a word separately. Each byte starts with the record of the word.
    pub(crate) fn split(&mut self, index: usize) {
        let warps = 0..self.warps;
        let word: Vec<Read> = warps.map(|warp| Read { quick: 0, ..*self.at(index, warp) }).collect();
        (0..4).for_each(|_| self.of_bytes.extend_from_slice(&word));
        (0..self.warps).for_each(|warp| self.at_mut(index, warp).quick = 0);
    }
}
