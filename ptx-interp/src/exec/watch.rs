//! Additional checks and counters for an access that is in bounds and aligned: initialised bytes, races, write-once
//! memory, cost.

use arrayvec::ArrayVec;

use super::equal::{Stored, bytes_of};
use super::locate::{AccessKind, LaneAccess, Location};
use super::order::{self, How, RowAccess};
use super::rows::Spread;
use crate::cost::Direction;
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::op::Access;
use crate::row::{LANES, lanes};
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words, triple};
use crate::warp::Warp;

/// A row was loaded.
#[inline(never)]
pub(super) fn loaded(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
    spread: &Spread,
) -> Checked {
    let (span, bytes, count) = (access.span() as usize, usize::from(access.bytes), usize::from(access.count));
    let row = RowAccess { kind: AccessKind::Read, active, bytes: span, how: How::weak(pc) };
    let mut tainted = [0u32; 4];
    // Elements are checked one by one only if not all bytes were written.
    let mut unwritten = |lane: usize, is_written: &dyn Fn(usize) -> bool| {
        for (element, tainted) in tainted[..count].iter_mut().enumerate() {
            *tainted |= u32::from(!is_written(element * bytes)) << lane;
        }
    };
    match spread {
        Spread::Shared(offsets) => {
            for lane in lanes(active) {
                let offset = offsets[lane] as usize;
                if !block.shared.is_written(offset, span) {
                    unwritten(lane, &|skip| block.shared.is_written(offset + skip, bytes));
                }
            }
            shared(warp, block, env, &row, offsets)?;
        }
        Spread::Global(buffer, offsets) => {
            for lane in lanes(active) {
                let offset = offsets[lane] as usize;
                if !buffer.is_written(offset, span) {
                    unwritten(lane, &|skip| buffer.is_written(offset + skip, bytes));
                }
            }
            if env.strict {
                let offset = |lane: usize| offsets[lane] as usize;
                order::global_row(warp, block, env, &row, &offset)?;
            }
            count_global(block, AccessKind::Read, offsets, active, span);
        }
    }
    for (value, tainted) in access.values[..count].iter().zip(tainted) {
        warp.taint.load(warp.taint.at(*value), tainted, active, pc);
    }
    Ok(())
}

/// A row is about to be stored.
#[inline(never)]
pub(super) fn stored(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
    spread: &Spread,
) -> Checked {
    let (span, bytes) = (access.span() as usize, usize::from(access.bytes));
    let byte = &bytes_of(warp, access);
    match spread {
        Spread::Shared(offsets) => {
            let stored = Stored { warp, byte, span, active, place: &|lane| offsets[lane].into() };
            shared(warp, block, env, &row(&stored, pc), offsets)?;
            for (element, slot) in access.values[..usize::from(access.count)].iter().enumerate() {
                let tainted = warp.taint.mask(warp.taint.at(*slot));
                for lane in lanes(active) {
                    block.shared.mark(offsets[lane] as usize + element * bytes, bytes, tainted >> lane & 1 == 0);
                }
            }
        }
        Spread::Global(_, offsets) => {
            count_global(block, AccessKind::Write, offsets, active, span);
            let mapped = env.global.at(block.last);
            if mapped.is_write_once() {
                for lane in lanes(active) {
                    written_once(block, env, mapped, (offsets[lane] as usize, span), thread_of(warp, lane))?;
                }
            }
            if env.strict {
                let offset = |lane: usize| offsets[lane] as usize;
                let stored = Stored { warp, byte, span, active, place: &|lane| offsets[lane] };
                order::global_row(warp, block, env, &row(&stored, pc), &offset)?;
            }
        }
    }
    Ok(())
}

/// The row that a weak store writes.
pub(super) fn row<'a>(stored: &'a Stored<'a>, pc: u32) -> RowAccess<'a> {
    let how = How { pc, strong: None, stored: Some(stored) };
    RowAccess { kind: AccessKind::Write, active: stored.active, bytes: stored.span, how }
}

/// Lanes of a row access shared memory.
pub(super) fn shared(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    row: &RowAccess<'_>,
    offsets: &[u32; LANES],
) -> Checked {
    if env.strict {
        order::shared_row(warp, block, env, row, offsets)?;
    }
    if let Some(counters) = &mut block.counters {
        let within = |lane: usize| block.shared.layout().split(offsets[lane] as usize).1 as u32;
        let accessed: ArrayVec<(usize, u32), LANES> = lanes(row.active).map(|lane| (lane, within(lane))).collect();
        counters.shared(row.how.pc, way(row.kind), &accessed, row.bytes as u32);
    }
    Ok(())
}

pub(super) fn way(kind: AccessKind) -> Direction {
    match kind {
        AccessKind::Read => Direction::Load,
        AccessKind::Write => Direction::Store,
    }
}

fn count_global(block: &mut BlockMemory, kind: AccessKind, offsets: &[u64; LANES], active: u32, bytes: usize) {
    if let Some(counters) = &mut block.counters {
        let accessed: ArrayVec<(usize, u64), LANES> = lanes(active).map(|lane| (block.last, offsets[lane])).collect();
        counters.global(way(kind), &accessed, bytes as u64);
    }
}

/// Checks one lane's access: the checks of a row, for a single lane.
pub(super) fn accessed(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    lane_access: &LaneAccess,
    location: Location,
    how: How<'_>,
) -> Checked {
    if !env.strict {
        return Ok(());
    }
    if let (Location::Global(mapped, offset), AccessKind::Write) = (location, lane_access.kind)
        && mapped.is_write_once()
    {
        let thread = thread_of(warp, lane_access.lane);
        written_once(block, env, mapped, (offset, lane_access.bytes as usize), thread)?;
    }
    order::accessed(warp, block, env, lane_access, location, how)
}

fn thread_of(warp: &Warp, lane: usize) -> u16 {
    (warp.index as usize * LANES + lane) as u16
}

/// Checks that each byte of a write-once allocation is written by only one thread of the launch, once.
pub(super) fn written_once(
    block: &BlockMemory,
    env: &Env,
    mapped: &Mapped,
    (offset, bytes): (usize, usize),
    thread: u16,
) -> Checked {
    let number = env.number_of(block.number, thread);
    let Some(first) = mapped.write_once(offset, bytes, number) else { return Ok(()) };
    if !env.watches(ViolationKind::WrittenTwice) {
        return Ok(());
    }
    let (address, label) = mapped.address_and_label(offset);
    let message = format!(
        "{{thread}} writes {} at {address:#x}, byte {} of `{label}`, which block {} has already written",
        in_words(bytes as u64),
        address - mapped.buffer.start,
        triple(env.ctaid(u64::from(first)))
    );
    let mut fault = Fault::new(ViolationKind::WrittenTwice, 1 << (usize::from(thread) % LANES), message);
    (fault.address, fault.label) = (Some(address), Some(label.to_string()));
    Err(fault)
}

/// Collects an instruction's accesses for the counters when it executes lane by lane.
#[derive(Default)]
pub(super) struct Tally {
    /// Lanes and offsets.
    shared: ArrayVec<(usize, u32), LANES>,
    /// Allocations and offsets.
    global: ArrayVec<(usize, u64), LANES>,
}

impl Tally {
    pub(super) fn add(&mut self, block: &BlockMemory, location: Location, lane_access: &LaneAccess) {
        if block.counters.is_none() {
            return;
        }
        match location {
            Location::Shared(offset) => {
                self.shared.push((lane_access.lane, block.shared.layout().split(offset).1 as u32));
            }
            Location::Global(_, offset) => self.global.push((block.last, offset as u64)),
            _ => {}
        }
    }

    pub(super) fn count(&self, block: &mut BlockMemory, kind: AccessKind, bytes: u64, pc: u32) {
        let Some(counters) = &mut block.counters else { return };
        if !self.shared.is_empty() {
            counters.shared(pc, way(kind), &self.shared, bytes as u32);
        }
        if !self.global.is_empty() {
            counters.global(way(kind), &self.global, bytes);
        }
    }
}
