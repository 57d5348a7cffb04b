//! Loads and stores when nothing is watched and nothing is wrong: whole rows of 4- and 8-byte elements in shared or
//! global memory. Whatever does not fit (an address out of bounds, a misaligned one, lanes in different allocations) is
//! left to [`super::memory`], which does it lane by lane and reports what is wrong.

use std::sync::atomic::Ordering::Relaxed;

use super::{Lanes, alu};
use crate::address::{Place, SHARED_START};
use crate::buffer::Buffer;
use crate::env::{BlockMemory, Env};
use crate::op::{Access, R32, R64, Shape, Slot};
use crate::row::LANES;
use crate::warp::{Registers, Warp};

/// Done, or left to the careful path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Left,
}

#[inline(always)]
pub(super) fn load(warp: &mut Warp, block: &mut BlockMemory, env: &Env, access: &Access, lanes: Lanes) -> Outcome {
    match (access.place, access.base) {
        (Some(Place::Shared), Slot::R32(base)) => {
            let Some(offsets) = shared_offsets(&warp.regs, base, block, access, lanes) else { return Outcome::Left };
            let words = block.shared.words.as_slice();
            load_rows(&mut warp.regs, access, lanes, &offsets, |index| words[index])
        }
        (Some(Place::Global) | None, Slot::R64(base)) if !access.strong => {
            let Some((buffer, offsets)) = global_offsets(&warp.regs, base, block, env, access, lanes) else {
                return Outcome::Left;
            };
            load_rows(&mut warp.regs, access, lanes, &offsets, |index| buffer.word(index * 4).load(Relaxed))
        }
        _ => Outcome::Left,
    }
}

#[inline(always)]
pub(super) fn store(warp: &mut Warp, block: &mut BlockMemory, env: &Env, access: &Access, lanes: Lanes) -> Outcome {
    match (access.place, access.base) {
        (Some(Place::Shared), Slot::R32(base)) => {
            let Some(offsets) = shared_offsets(&warp.regs, base, block, access, lanes) else { return Outcome::Left };
            block.wrote_shared = true;
            let words = block.shared.words.as_mut_slice();
            store_rows(&warp.regs, access, lanes, &offsets, |index, value| words[index] = value)
        }
        (Some(Place::Global) | None, Slot::R64(base)) if !access.strong => {
            let Some((buffer, offsets)) = global_offsets(&warp.regs, base, block, env, access, lanes) else {
                return Outcome::Left;
            };
            let outcome = store_rows(&warp.regs, access, lanes, &offsets, |index, value| {
                buffer.word(index * 4).store(value, Relaxed);
            });
            if outcome == Outcome::Done {
                let span = access.span() as usize;
                for lane in 0..LANES {
                    if lanes.active >> lane & 1 != 0 {
                        buffer.mark(offsets[lane] as usize, span);
                    }
                }
                block.wrote_global = true;
            }
            outcome
        }
        _ => Outcome::Left,
    }
}

/// Byte offsets in shared memory, if all are inside and aligned; lanes that take no part get a harmless one.
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
    let shift = (access.offset as u32).wrapping_sub(SHARED_START);
    let mut offsets = alu::map1(&regs.r32[base.0 as usize].0, |address| address.wrapping_add(shift));
    let (mut largest, mut low) = (0, 0);
    for lane in 0..LANES {
        offsets[lane] = if lanes.active >> lane & 1 != 0 { offsets[lane] } else { 0 };
        largest = largest.max(offsets[lane]);
        low |= offsets[lane];
    }
    (largest <= limit && low & (span - 1) == 0).then_some(offsets)
}

/// The allocation and the byte offsets in it, if all lanes are inside the same one and aligned.
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
    let (floor, inside) = (buffer.start - buffer.offset(buffer.start) as u64, buffer.offset(buffer.start) as u64);
    let limit = (inside + buffer.len).checked_sub(span)?;
    let shift = (access.offset as u64).wrapping_sub(floor);
    let harmless = start - floor;
    let mut offsets = alu::map1(addresses, |address| address.wrapping_add(shift));
    let (mut largest, mut smallest, mut low) = (0, u64::MAX, 0);
    for lane in 0..LANES {
        offsets[lane] = if lanes.active >> lane & 1 != 0 { offsets[lane] } else { harmless };
        largest = largest.max(offsets[lane]);
        smallest = smallest.min(offsets[lane]);
        low |= offsets[lane];
    }
    (smallest >= inside && largest <= limit && low & (span - 1) == 0).then_some((buffer, offsets))
}

/// Byte offsets of either width.
trait Offset: Copy {
    fn word(self) -> usize;
}

impl Offset for u32 {
    #[inline(always)]
    fn word(self) -> usize {
        self as usize / 4
    }
}

impl Offset for u64 {
    #[inline(always)]
    fn word(self) -> usize {
        self as usize / 4
    }
}

#[inline(always)]
fn load_rows<O: Offset>(
    regs: &mut Registers,
    access: &Access,
    lanes: Lanes,
    offsets: &[O; LANES],
    word: impl Fn(usize) -> u32,
) -> Outcome {
    match (access.shape, access.count) {
        (Shape::Words, 1) => load_words::<O, 1>(regs, access, lanes, offsets, word),
        (Shape::Words, 2) => load_words::<O, 2>(regs, access, lanes, offsets, word),
        (Shape::Words, _) => load_words::<O, 4>(regs, access, lanes, offsets, word),
        (Shape::Doubles, count) => {
            for element in 0..usize::from(count) {
                let mut out = [0; LANES];
                for lane in 0..LANES {
                    let index = offsets[lane].word() + 2 * element;
                    out[lane] = u64::from(word(index)) | u64::from(word(index + 1)) << 32;
                }
                if let Slot::R64(d) = access.values[element] {
                    regs.put64(d, out, lanes);
                }
            }
            Outcome::Done
        }
        (Shape::Odd, _) => Outcome::Left,
    }
}

#[inline(always)]
fn load_words<O: Offset, const N: usize>(
    regs: &mut Registers,
    access: &Access,
    lanes: Lanes,
    offsets: &[O; LANES],
    word: impl Fn(usize) -> u32,
) -> Outcome {
    let mut out = [[0; LANES]; N];
    for lane in 0..LANES {
        for (element, row) in out.iter_mut().enumerate() {
            row[lane] = word(offsets[lane].word() + element);
        }
    }
    for (element, row) in out.into_iter().enumerate() {
        if let Slot::R32(d) = access.values[element] {
            regs.put32(d, row, lanes);
        }
    }
    Outcome::Done
}

#[inline(always)]
fn store_rows<O: Offset>(
    regs: &Registers,
    access: &Access,
    lanes: Lanes,
    offsets: &[O; LANES],
    mut put: impl FnMut(usize, u32),
) -> Outcome {
    if access.shape == Shape::Odd {
        return Outcome::Left;
    }
    for element in 0..usize::from(access.count) {
        match access.values[element] {
            Slot::R32(R32(value)) => {
                let row = &regs.r32[value as usize].0;
                for lane in 0..LANES {
                    if lanes.active >> lane & 1 != 0 {
                        put(offsets[lane].word() + element, row[lane]);
                    }
                }
            }
            Slot::R64(value) => {
                let row = &regs.r64[value.0 as usize].0;
                for lane in 0..LANES {
                    if lanes.active >> lane & 1 != 0 {
                        put(offsets[lane].word() + 2 * element, row[lane] as u32);
                        put(offsets[lane].word() + 2 * element + 1, (row[lane] >> 32) as u32);
                    }
                }
            }
            Slot::P(_) => {}
        }
    }
    Outcome::Done
}
