//! Fast loads and stores of whole rows of 4- and 8-byte elements in shared or global memory. Everything else (an
//! address out of bounds, a misaligned one, lanes in different allocations) is left to [`super::memory`], which works
//! lane by lane and reports errors.

use std::sync::atomic::Ordering::Relaxed;

use super::{Lanes, alu};
use crate::address::StateSpace;
use crate::buffer::Buffer;
use crate::env::{BlockMemory, Env};
use crate::op::{Access, R32, R64, Shape, Slot};
use crate::row::LANES;
use crate::warp::Registers;

/// The locations that the lanes of an access refer to, all in bounds and aligned. Inactive lanes have a harmless
/// location.
pub(super) enum Spread<'a> {
    /// Byte offsets in shared memory.
    Shared([u32; LANES]),
    /// Byte offsets in one allocation's storage.
    Global(&'a Buffer, [u64; LANES]),
}

/// Locates the memory of all lanes at once, if possible.
#[inline(always)]
pub(super) fn locate_row<'a>(
    regs: &Registers,
    block: &mut BlockMemory,
    env: &'a Env,
    access: &Access,
    lanes: Lanes,
) -> Option<Spread<'a>> {
    if access.shape == Shape::Odd || access.strong.is_some() {
        return None;
    }
    match (access.space, access.base) {
        (Some(StateSpace::Shared), Slot::R32(base)) => {
            shared_offsets(regs, base, block, access, lanes).map(Spread::Shared)
        }
        (Some(StateSpace::Global) | None, Slot::R64(base)) => {
            let (buffer, offsets) = global_offsets(regs, base, block, env, access, lanes)?;
            Some(Spread::Global(buffer, offsets))
        }
        _ => None,
    }
}

/// Byte offsets in shared memory, if all are in bounds and aligned.
#[inline(always)]
fn shared_offsets(
    regs: &Registers,
    base: R32,
    block: &BlockMemory,
    access: &Access,
    lanes: Lanes,
) -> Option<[u32; LANES]> {
    let span = access.span() as u32;
    let limit = block.shared.bytes().checked_sub(span)?;
    let shift = (access.offset as u32).wrapping_sub(block.shared.start());
    let mut offsets = alu::map1(&regs.r32[base.0 as usize].0, |address| address.wrapping_add(shift));
    let (mut largest, mut low) = (0, 0);
    for (lane, offset) in offsets.iter_mut().enumerate() {
        *offset = if lanes.active >> lane & 1 != 0 { *offset } else { 0 };
        largest = largest.max(*offset);
        low |= *offset;
    }
    if block.shared.has_gaps()
        && crate::row::lanes(lanes.active).any(|lane| block.shared.gap(offsets[lane].into(), span.into()).is_some())
    {
        return None;
    }
    let base = block.shared.base();
    if base != 0 {
        offsets = alu::map1(&offsets, |offset| offset.wrapping_add(base));
    }
    (largest <= limit && low & (span - 1) == 0).then_some(offsets)
}

/// The allocation and the byte offsets in it, if all lanes are in bounds of the same one and aligned.
#[inline(always)]
fn global_offsets<'a>(
    regs: &Registers,
    base: R64,
    block: &mut BlockMemory,
    env: &'a Env,
    access: &Access,
    lanes: Lanes,
) -> Option<(&'a Buffer, [u64; LANES])> {
    let span = access.span();
    let first = lanes.active.trailing_zeros() as usize;
    let addresses = &regs.r64[base.0 as usize].0;
    let start = addresses[first].wrapping_add(access.offset as u64);
    let buffer = &*env.global.find(start, span, &mut block.last)?.buffer;
    let inside = buffer.offset(buffer.start) as u64;
    let floor = buffer.start - inside;
    let limit = (inside + buffer.len).checked_sub(span)?;
    let shift = (access.offset as u64).wrapping_sub(floor);
    let mut offsets = alu::map1(addresses, |address| address.wrapping_add(shift));
    let (mut largest, mut smallest, mut low) = (0, u64::MAX, 0);
    for (lane, offset) in offsets.iter_mut().enumerate() {
        *offset = if lanes.active >> lane & 1 != 0 { *offset } else { start - floor };
        largest = largest.max(*offset);
        smallest = smallest.min(*offset);
        low |= *offset;
    }
    (smallest >= inside && largest <= limit && low & (span - 1) == 0).then_some((buffer, offsets))
}

/// Copies rows from memory to registers.
#[inline(always)]
pub(super) fn load(regs: &mut Registers, block: &BlockMemory, access: &Access, lanes: Lanes, spread: &Spread) {
    match spread {
        Spread::Shared(offsets) => {
            let words = block.shared.words.as_slice();
            load_rows(regs, access, lanes, |lane| offsets[lane] as usize / 4, |index| words[index]);
        }
        Spread::Global(buffer, offsets) => {
            let word = |index| buffer.word(index * 4).load(Relaxed);
            load_rows(regs, access, lanes, |lane| offsets[lane] as usize / 4, word);
        }
    }
}

/// Copies rows from registers to memory.
#[inline(always)]
pub(super) fn store(regs: &Registers, block: &mut BlockMemory, access: &Access, lanes: Lanes, spread: &Spread) {
    block.stored = true;
    match spread {
        Spread::Shared(offsets) => {
            block.wrote_shared = block.wrote_shared || changes(regs, block, access, lanes, spread);
            let words = block.shared.words.as_mut_slice();
            let put = |index: usize, value| words[index] = value;
            store_rows(regs, access, lanes, |lane| offsets[lane] as usize / 4, put);
        }
        Spread::Global(buffer, offsets) => {
            block.wrote_global = block.wrote_global || changes(regs, block, access, lanes, spread);
            let put = |index, value| buffer.word(index * 4).store(value, Relaxed);
            store_rows(regs, access, lanes, |lane| offsets[lane] as usize / 4, put);
            let span = access.span() as usize;
            for (lane, offset) in offsets.iter().enumerate() {
                if lanes.active >> lane & 1 != 0 {
                    buffer.mark(*offset as usize, span);
                }
            }
        }
    }
}

/// Whether a store changes any byte. Only stores of a turn up to the first that changes one are compared.
#[inline(never)]
fn changes(regs: &Registers, block: &BlockMemory, access: &Access, lanes: Lanes, spread: &Spread) -> bool {
    let mut changes = false;
    match spread {
        Spread::Shared(offsets) => {
            let words = block.shared.words.as_slice();
            let compare = |index: usize, value| changes |= words[index] != value;
            store_rows(regs, access, lanes, |lane| offsets[lane] as usize / 4, compare);
        }
        Spread::Global(buffer, offsets) => {
            let compare = |index: usize, value| changes |= buffer.word(index * 4).load(Relaxed) != value;
            store_rows(regs, access, lanes, |lane| offsets[lane] as usize / 4, compare);
        }
    }
    changes
}

#[inline(always)]
fn load_rows(
    regs: &mut Registers,
    access: &Access,
    lanes: Lanes,
    index: impl Fn(usize) -> usize,
    word: impl Fn(usize) -> u32,
) {
    match (access.shape, access.count) {
        (Shape::Words, 1) => load_words::<1>(regs, access, lanes, index, word),
        (Shape::Words, 2) => load_words::<2>(regs, access, lanes, index, word),
        (Shape::Words, _) => load_words::<4>(regs, access, lanes, index, word),
        (_, count) => {
            for element in 0..usize::from(count) {
                let mut out = [0; LANES];
                for (lane, out) in out.iter_mut().enumerate() {
                    let at = index(lane) + 2 * element;
                    *out = u64::from(word(at)) | u64::from(word(at + 1)) << 32;
                }
                if let Slot::R64(d) = access.values[element] {
                    regs.put64(d, out, lanes);
                }
            }
        }
    }
}

#[inline(always)]
fn load_words<const N: usize>(
    regs: &mut Registers,
    access: &Access,
    lanes: Lanes,
    index: impl Fn(usize) -> usize,
    word: impl Fn(usize) -> u32,
) {
    let mut out = [[0; LANES]; N];
    for lane in 0..LANES {
        for (element, row) in out.iter_mut().enumerate() {
            row[lane] = word(index(lane) + element);
        }
    }
    for (row, value) in out.into_iter().zip(&access.values) {
        if let Slot::R32(d) = value {
            regs.put32(*d, row, lanes);
        }
    }
}

#[inline(always)]
fn store_rows(
    regs: &Registers,
    access: &Access,
    lanes: Lanes,
    index: impl Fn(usize) -> usize,
    mut put: impl FnMut(usize, u32),
) {
    for (element, value) in access.values[..usize::from(access.count)].iter().enumerate() {
        match *value {
            Slot::R32(value) => {
                let row = &regs.r32[value.0 as usize].0;
                for (lane, word) in row.iter().enumerate() {
                    if lanes.active >> lane & 1 != 0 {
                        put(index(lane) + element, *word);
                    }
                }
            }
            Slot::R64(value) => {
                let row = &regs.r64[value.0 as usize].0;
                for (lane, double) in row.iter().enumerate() {
                    if lanes.active >> lane & 1 != 0 {
                        put(index(lane) + 2 * element, *double as u32);
                        put(index(lane) + 2 * element + 1, (*double >> 32) as u32);
                    }
                }
            }
            Slot::P(_) => {}
        }
    }
}
