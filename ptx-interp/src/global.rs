//! Global memory during a launch: the allocations that were live when it started, looked up by address.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) mod shadow;

use self::shadow::{Detail, GlobalShadow};
use crate::buffer::Buffer;
use crate::memory::Memory;

/// One allocation during a launch.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) buffer: Arc<Buffer>,
    /// For write-once allocations, per word: the bytes that were written in this launch (upper 4 bits), and the block
    /// that wrote last (the remaining bits, saturated).
    once: Option<Box<[AtomicU32]>>,
    /// The accesses to it, if races are checked.
    pub(crate) shadow: Option<GlobalShadow>,
}

/// Every allocation, sorted by address.
#[derive(Debug)]
pub(crate) struct GlobalTable {
    mapped: Vec<Mapped>,
}

/// The largest block index that the write-once shadow can represent.
const LAST_NAMED_BLOCK: u32 = (1 << 28) - 1;

impl GlobalTable {
    /// Takes the memory's live allocations. `watch` prepares them for the checks.
    pub(crate) fn new(memory: &Memory, watch: Option<Detail>) -> GlobalTable {
        let mapped = memory.snapshot().into_iter().map(|buffer| {
            let watched = watch.is_some() && buffer.write_once.load(Relaxed);
            let words = (buffer.len as usize + 256).div_ceil(4);
            let once = watched.then(|| bytemuck::allocation::zeroed_slice_box(words));
            let shadow = watch.map(|detail| GlobalShadow::new(&buffer, detail));
            Mapped { buffer, once, shadow }
        });
        GlobalTable { mapped: mapped.collect() }
    }

    /// The allocation that contains all of these bytes; `last` is the index at which the previous search ended.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64, bytes: u64, last: &mut usize) -> Option<&Mapped> {
        if let Some(mapped) = self.mapped.get(*last)
            && mapped.buffer.contains(address, bytes)
        {
            return Some(mapped);
        }
        self.search(address, bytes, last)
    }

    /// The allocation that a search has ended at.
    pub(crate) fn at(&self, index: usize) -> &Mapped {
        &self.mapped[index]
    }

    /// Restores the contents of memory from before the launch.
    pub(crate) fn restore(&self) {
        for mapped in &self.mapped {
            if let Some(shadow) = &mapped.shadow {
                shadow.restore(&mapped.buffer);
            }
        }
    }

    /// All allocations.
    pub(crate) fn all(&self) -> &[Mapped] {
        &self.mapped
    }

    /// Number of allocations.
    pub(crate) fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Label of each allocation.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.mapped.iter().map(|mapped| &*mapped.buffer.label)
    }

    fn search(&self, address: u64, bytes: u64, last: &mut usize) -> Option<&Mapped> {
        let index = self.mapped.partition_point(|mapped| mapped.buffer.start <= address).checked_sub(1)?;
        let mapped = self.mapped.get(index)?;
        if !mapped.buffer.contains(address, bytes) {
            return None;
        }
        *last = index;
        Some(mapped)
    }
}

impl Mapped {
    /// The address of a byte of the storage, and the allocation's label.
    pub(crate) fn address_and_label(&self, offset: usize) -> (u64, &str) {
        (self.buffer.start + (offset - self.buffer.offset(self.buffer.start)) as u64, &self.buffer.label)
    }

    /// Whether each byte may be written only once.
    #[inline(always)]
    pub(crate) fn is_write_once(&self) -> bool {
        self.once.is_some()
    }

    /// Records a write of up to 16 aligned bytes by a block; returns the block that wrote one of them before, if any.
    pub(crate) fn write_once(&self, offset: usize, bytes: usize, block: u64) -> Option<u32> {
        let once = self.once.as_ref()?;
        let named = u32::try_from(block).unwrap_or(LAST_NAMED_BLOCK).min(LAST_NAMED_BLOCK);
        let mut at = offset;
        while at < offset + bytes {
            let len = (offset + bytes - at).min(4 - at % 4);
            let bits = ((1u32 << len) - 1) << (at % 4) << 28;
            let old = once[at / 4].fetch_update(Relaxed, Relaxed, |old| Some(old & 0xf000_0000 | bits | named));
            let old = old.unwrap_or(0);
            if old & bits != 0 {
                return Some(old & LAST_NAMED_BLOCK);
            }
            at += len;
        }
        None
    }
    /// Address of the first byte that was not written: by this launch for write-once memory, otherwise ever.
    pub(crate) fn first_left(&self) -> Option<u64> {
        let buffer = &self.buffer;
        let Some(once) = &self.once else { return buffer.first_unwritten(buffer.start, buffer.len) };
        let is_left = |address: &u64| {
            let offset = buffer.offset(*address);
            once[offset / 4].load(Relaxed) >> 28 >> (offset % 4) & 1 == 0
        };
        (buffer.start..buffer.start + buffer.len).find(is_left)
    }
}
