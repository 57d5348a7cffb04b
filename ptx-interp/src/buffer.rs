//! The bytes of one allocation: words that several host threads may access at once, and one bit per byte that says
//! whether it was ever written.
//!
//! Words are relaxed atomics, so that a data race in a kernel gives a wrong value in the kernel and never undefined
//! behaviour in the interpreter. Storage comes zeroed from the host's allocator, which maps pages on first access: an
//! allocation of many gigabytes only costs the pages that are accessed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Alignment of storage in bytes, independent of the allocation's own offset.
pub const GRANULE: u64 = 256;

/// The host cannot allocate this size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfMemory {
    pub(crate) bytes: u64,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) label: Arc<str>,
    /// First valid address.
    pub(crate) start: u64,
    /// Size in bytes.
    pub(crate) len: u64,
    /// Address of `words[0]`.
    floor: u64,
    words: Box<[AtomicU32]>,
    /// Bit i of word j: whether byte 32 j + i was written.
    written: Box<[AtomicU32]>,
    pub(crate) write_once: AtomicBool,
    /// Whether every byte must be written after each launch.
    pub(crate) written_after: AtomicBool,
    /// Address ranges that must hold zeros after each launch, as start and end.
    pub(crate) zero_after: Mutex<Vec<(u64, u64)>>,
    /// Held by 64-bit atomics, which need two 32-bit words.
    pub(crate) wide: Mutex<()>,
}

/// A copy of a part of a buffer at some time.
#[derive(Debug)]
pub(crate) struct Image {
    words: Box<[u32]>,
    written: Box<[u32]>,
}

fn zeroed(words: u64) -> Result<Box<[AtomicU32]>, OutOfMemory> {
    let too_large = || OutOfMemory { bytes: words.saturating_mul(4) };
    let words = usize::try_from(words).map_err(|_| too_large())?;
    bytemuck::allocation::try_zeroed_slice_box(words).map_err(|()| too_large())
}

impl Buffer {
    pub(crate) fn new(label: &str, start: u64, len: u64) -> Result<Buffer, OutOfMemory> {
        let floor = start / GRANULE * GRANULE;
        let span = (start - floor).checked_add(len).ok_or(OutOfMemory { bytes: len })?;
        Ok(Buffer {
            label: label.into(),
            start,
            len,
            floor,
            words: zeroed(span.div_ceil(4))?,
            written: zeroed(span.div_ceil(32))?,
            write_once: AtomicBool::new(false),
            written_after: AtomicBool::new(false),
            zero_after: Mutex::default(),
            wide: Mutex::new(()),
        })
    }

    /// Number of words of the storage.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    /// Copies some words, starting at a multiple of 8, and their written bits.
    pub(crate) fn image(&self, first: usize, count: usize) -> Image {
        let load = |words: &[AtomicU32]| words.iter().map(|word| word.load(Relaxed)).collect();
        Image {
            words: load(&self.words[first..first + count]),
            written: load(&self.written[first / 8..(first + count).div_ceil(8)]),
        }
    }

    /// Writes an image back to the position it was taken from.
    pub(crate) fn restore(&self, first: usize, image: &Image) {
        let store = |words: &[AtomicU32], image: &[u32]| {
            words.iter().zip(image).for_each(|(word, old)| word.store(*old, Relaxed));
        };
        store(&self.words[first..], &image.words);
        store(&self.written[first / 8..], &image.written);
    }

    /// First address after the allocation.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Whether all `bytes` bytes from `address` are inside.
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && address - self.start <= self.len && bytes <= self.len - (address - self.start)
    }

    /// Offset of an address in the storage, in bytes.
    #[inline(always)]
    pub(crate) fn offset(&self, address: u64) -> usize {
        (address - self.floor) as usize
    }

    /// Address of a byte offset.
    #[inline(always)]
    pub(crate) fn address(&self, offset: usize) -> u64 {
        self.floor + offset as u64
    }

    /// Word at a byte offset that is a multiple of 4.
    #[inline(always)]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        &self.words[offset / 4]
    }

    /// Reads 1, 2, 4 or 8 bytes at a naturally aligned offset.
    #[inline(always)]
    pub(crate) fn load(&self, offset: usize, bytes: usize) -> u64 {
        let word = self.word(offset).load(Relaxed);
        match bytes {
            4 => u64::from(word),
            8 => u64::from(word) | u64::from(self.word(offset + 4).load(Relaxed)) << 32,
            2 => u64::from((word >> (offset % 4 * 8)) as u16),
            _ => u64::from((word >> (offset % 4 * 8)) as u8),
        }
    }

    /// Writes 1, 2, 4 or 8 bytes at a naturally aligned offset. Does not set the written bits; see [`Buffer::mark`].
    #[inline(always)]
    pub(crate) fn store(&self, offset: usize, bytes: usize, value: u64) {
        match bytes {
            4 => self.word(offset).store(value as u32, Relaxed),
            8 => {
                self.word(offset).store(value as u32, Relaxed);
                self.word(offset + 4).store((value >> 32) as u32, Relaxed);
            }
            _ => {
                let shift = offset % 4 * 8;
                let mask = ((1u32 << (bytes * 8)) - 1) << shift;
                let bits = (value as u32) << shift & mask;
                // The neighbouring bytes may belong to other threads, so the whole word is exchanged.
                let _ = self.word(offset).fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | bits));
            }
        }
    }

    /// Sets the written bits of up to 32 bytes, which must not cross a 32-byte boundary.
    #[inline(always)]
    pub(crate) fn mark(&self, offset: usize, bytes: usize) {
        let bits = byte_bits(offset, bytes);
        let word = &self.written[offset / 32];
        // Most stores hit bytes that are already marked; reading first keeps the cache line shared.
        if word.load(Relaxed) & bits != bits {
            word.fetch_or(bits, Relaxed);
        }
    }

    /// Whether all of up to 32 bytes within one 32-byte group were ever written.
    pub(crate) fn is_written(&self, offset: usize, bytes: usize) -> bool {
        let bits = byte_bits(offset, bytes);
        self.written[offset / 32].load(Relaxed) & bits == bits
    }

    /// Copies host bytes in; the caller has checked the range.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        let mut offset = self.offset(address);
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = if offset.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let (head, tail) = rest.split_at(step);
            let value = head.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            self.store(offset, step, value);
            offset += step;
            rest = tail;
        }
        self.mark_range(self.offset(address), bytes.len());
    }

    fn mark_range(&self, start: usize, len: usize) {
        let mut offset = start;
        while offset < start + len {
            let step = (32 - offset % 32).min(start + len - offset);
            self.mark(offset, step);
            offset += step;
        }
    }

    /// Copies bytes out; the caller has checked the range.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) {
        let mut offset = self.offset(address);
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = if offset.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let (head, tail) = rest.split_at_mut(step);
            head.copy_from_slice(&self.load(offset, step).to_le_bytes()[..step]);
            offset += step;
            rest = tail;
        }
    }

    /// Address of the first byte of a range that was never written.
    pub(crate) fn first_unwritten(&self, address: u64, len: u64) -> Option<u64> {
        let mut at = address;
        while at < address + len {
            let offset = self.offset(at);
            let whole = offset.is_multiple_of(32) && address + len - at >= 32;
            let step = if whole { 32 } else { 1 };
            if !self.is_written(offset, step) {
                let byte = (0..step).find(|byte| !self.is_written(offset + byte, 1)).unwrap_or(0);
                return Some(at + byte as u64);
            }
            at += step as u64;
        }
        None
    }
}

fn byte_bits(offset: usize, bytes: usize) -> u32 {
    let ones = if bytes >= 32 { u32::MAX } else { (1u32 << bytes) - 1 };
    ones << (offset % 32)
}
