//! Loads and stores: by rows if possible, otherwise lane by lane, for every space, width and report.

use std::sync::atomic::{Ordering, fence};

use super::equal::{Stored, bytes_of};
use super::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate};
use super::order::How;
use super::rows::{self, Spread};
use super::{Lanes, order, undefined, watch};
use crate::env::{BlockMemory, Env};
use crate::flags::Change;
use crate::op::Access;
use crate::row::{LANES, lanes};
use crate::shared::{load_words, store_words};
use crate::violation::{Checked, ViolationKind};
use crate::warp::{Polled, Warp};

#[inline(always)]
pub(super) fn load<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    lanes: Lanes,
    pc: u32,
) -> Checked {
    if WATCH {
        defined_address(warp, env, access.base, lanes.active)?;
        if access.read_only && env.strict {
            let addresses = addresses(&warp.regs, access.base, access.offset);
            order::unwritten(block, env, &addresses, lanes.active, access.span() as usize)?;
        }
    }
    let Some(spread) = rows::locate_row(&warp.regs, block, env, access, lanes) else {
        return load_lanes::<WATCH>(warp, block, env, access, lanes.active, pc);
    };
    rows::load(&mut warp.regs, block, access, lanes, &spread);
    if WATCH { watch::loaded(warp, block, env, access, lanes.active, pc, &spread) } else { Ok(()) }
}

#[inline(always)]
pub(super) fn store<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    lanes: Lanes,
    pc: u32,
) -> Checked {
    if WATCH {
        defined_address(warp, env, access.base, lanes.active)?;
    }
    let Some(spread) = rows::locate_row(&warp.regs, block, env, access, lanes) else {
        return store_lanes::<WATCH>(warp, block, env, access, lanes.active, pc);
    };
    if WATCH {
        if let Spread::Global(..) = spread {
            stored_values_defined(warp, env, access, lanes.active)?;
        }
        watch::stored(warp, block, env, access, lanes.active, pc, &spread)?;
    }
    rows::store(&warp.regs, block, access, lanes, &spread);
    Ok(())
}

/// Checks that values stored to global memory were written.
fn stored_values_defined(warp: &Warp, env: &Env, access: &Access, active: u32) -> Checked {
    for slot in &access.values[..usize::from(access.count)] {
        let tainted = warp.taint.mask(warp.taint.at(*slot)) & active;
        if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
            return Err(undefined(warp, env, *slot, tainted, "is stored to global memory"));
        }
    }
    Ok(())
}

#[inline(never)]
fn load_lanes<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
) -> Checked {
    if access.strong.is_some() {
        warp.polls.read();
    }
    let addresses = addresses(&warp.regs, access.base, access.offset);
    if access.strong.is_some() {
        let address = addresses[active.trailing_zeros() as usize];
        warp.polls.last = Some(Polled { pc, address, space: access.space, bytes: access.bytes });
    }
    let (span, bytes) = (access.span(), usize::from(access.bytes));
    let mut tainted = [0u32; 8];
    let mut tally = watch::Tally::default();
    for lane in lanes(active) {
        let address = addresses[lane];
        let lane_access = LaneAccess { space: access.space, address, bytes: span, lane, kind: AccessKind::Read };
        let location = locate(block, env, &lane_access)?;
        if WATCH {
            watch::accessed(warp, block, env, &lane_access, location, How { pc, strong: access.strong, stored: None })?;
            tally.add(block, location, &lane_access);
        }
        let stale = if WATCH && env.strict { order::observe(warp, block, env, (location, lane), access) } else { None };
        for (element, tainted) in tainted[..usize::from(access.count)].iter_mut().enumerate() {
            let (value, written) = read::<WATCH>(warp, block, env, location, element * bytes, bytes, lane);
            block.changed |= stale.is_some_and(|stale| stale != value);
            let value = stale.unwrap_or(value);
            *tainted |= u32::from(!written) << lane;
            let value = if access.signed { extend(value, bytes) } else { value };
            warp.regs.set(access.values[element], lane, value);
        }
    }
    if access.strong.is_some() {
        fence(Ordering::Acquire);
        if WATCH {
            block.note(warp.index as usize, active, pc, false);
        }
    }
    if WATCH {
        tally.count(block, AccessKind::Read, span, pc);
        for (value, tainted) in access.values[..usize::from(access.count)].iter().zip(tainted) {
            warp.taint.load(warp.taint.at(*value), tainted, active, pc);
        }
    }
    Ok(())
}

/// Sign-extends from a number of bytes to 64 bits.
fn extend(value: u64, bytes: usize) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    ((value << unused) as i64 >> unused) as u64
}

/// Reads one element, and whether it was ever written.
#[inline(always)]
pub(super) fn read<const WATCH: bool>(
    warp: &Warp,
    block: &BlockMemory,
    env: &Env,
    location: Location,
    skip: usize,
    bytes: usize,
    lane: usize,
) -> (u64, bool) {
    match location {
        Location::Global(mapped, offset) => {
            let offset = offset + skip;
            (mapped.buffer.load(offset, bytes), !WATCH || mapped.buffer.is_written(offset, bytes))
        }
        Location::Shared(offset) => {
            let offset = offset + skip;
            (block.shared.load(offset, bytes), !WATCH || block.shared.is_written(offset, bytes))
        }
        Location::Local(offset) => {
            let index = (offset + skip) / 4 * LANES + lane;
            let high = if bytes == 8 { warp.local[index + LANES] } else { 0 };
            (load_words(&[warp.local[index], high], (offset + skip) % 4, bytes), true)
        }
        Location::Param(offset) => (load_words(&env.params, offset + skip, bytes), true),
        Location::Const(offset) => {
            let words = &env.constants;
            let word = |index: usize| words.get(index).copied().unwrap_or(0);
            let (first, offset) = ((offset + skip) / 4, (offset + skip) % 4);
            (load_words(&[word(first), word(first + 1)], offset, bytes), true)
        }
    }
}

#[inline(never)]
fn store_lanes<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
) -> Checked {
    if access.strong.is_some() {
        fence(Ordering::Release);
    }
    let addresses = addresses(&warp.regs, access.base, access.offset);
    let (span, bytes) = (access.span(), usize::from(access.bytes));
    let mut tally = watch::Tally::default();
    for lane in lanes(active) {
        let lane_access =
            LaneAccess { space: access.space, address: addresses[lane], bytes: span, lane, kind: AccessKind::Write };
        let location = locate(block, env, &lane_access)?;
        if WATCH {
            if let Location::Global(..) = location {
                stored_values_defined(warp, env, access, 1 << lane)?;
            }
            let byte = &bytes_of(warp, access);
            let span = access.span() as usize;
            let stored = Stored { warp, byte, span, active, place: &|lane| addresses[lane] };
            let stored = Some(&stored).filter(|_| access.strong.is_none());
            watch::accessed(warp, block, env, &lane_access, location, How { pc, strong: access.strong, stored })?;
            tally.add(block, location, &lane_access);
            if env.strict && access.strong.is_some() {
                let before = read::<WATCH>(warp, block, env, location, 0, bytes, lane).0;
                order::publish(warp, block, env, (location, lane), access, (Change::Store, before));
            }
        }
        for element in 0..usize::from(access.count) {
            let slot = access.values[element];
            let value = warp.regs.get(slot, lane);
            if WATCH && let Location::Shared(offset) = location {
                let written = warp.taint.mask(warp.taint.at(slot)) >> lane & 1 == 0;
                block.shared.mark(offset + element * bytes, bytes, written);
            }
            write(warp, block, location, element * bytes, bytes, lane, value);
        }
    }
    if WATCH {
        tally.count(block, AccessKind::Write, span, pc);
        if access.strong.is_some() {
            block.note(warp.index as usize, active, pc, true);
            block.clocks.tick(warp.index as usize);
        }
    }
    Ok(())
}

#[inline(always)]
pub(super) fn write(
    warp: &mut Warp,
    block: &mut BlockMemory,
    location: Location,
    skip: usize,
    bytes: usize,
    lane: usize,
    value: u64,
) {
    let truncated = value & u64::MAX >> (64 - 8 * bytes);
    match location {
        Location::Global(mapped, offset) => {
            block.wrote_global |= mapped.buffer.load(offset + skip, bytes) != truncated;
            block.stored = true;
            mapped.buffer.store(offset + skip, bytes, value);
            mapped.buffer.mark(offset + skip, bytes);
        }
        Location::Shared(offset) => {
            block.wrote_shared |= block.shared.load(offset + skip, bytes) != truncated;
            block.stored = true;
            block.shared.store(offset + skip, bytes, value);
        }
        Location::Local(offset) => {
            let index = (offset + skip) / 4 * LANES + lane;
            let high = if bytes == 8 { warp.local[index + LANES] } else { 0 };
            let mut words = [warp.local[index], high];
            block.changed |= load_words(&words, (offset + skip) % 4, bytes) != truncated;
            store_words(&mut words, (offset + skip) % 4, bytes, value);
            warp.local[index] = words[0];
            if bytes == 8 {
                warp.local[index + LANES] = words[1];
            }
        }
        // `locate` returns these only for reads.
        Location::Param(_) | Location::Const(_) => {}
    }
}
