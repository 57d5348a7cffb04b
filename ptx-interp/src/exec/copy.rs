//! `cp.async`. Without checks, a copy completes at once. With checks, it completes when a thread waits for it or for
//! the mbarrier at which it arrives. Until then no other access may touch its destination.

use super::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate, misaligned};
use super::memory::read;
use super::order::{self, How};
use super::unordered::{MemoryAccess, race};
use super::{proxy, undefined, watch};
use crate::copies::Pending;
use crate::env::{BlockMemory, Env};
use crate::op::{Access, AsyncCopy, Slot};
use crate::row::{LANES, lanes};
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// Starts the copies of the active lanes. The source is read now.
#[inline(never)]
pub(super) fn start<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
) -> Checked {
    let Some(copy) = access.copy else { return Ok(()) };
    if WATCH {
        defined_address(warp, env, access.base, active)?;
        defined_address(warp, env, copy.source, active)?;
        defined_size(warp, env, &copy, active)?;
    }
    let to = addresses(&warp.regs, access.base, access.offset);
    let from = addresses(&warp.regs, copy.source, copy.source_offset);
    let bytes = u64::from(copy.bytes);
    let mut offsets = [0; LANES];
    let mut data = [[0; 16]; LANES];
    // One bit per byte that holds a value.
    let mut written = [u16::MAX; LANES];
    let (mut reads, mut writes) = (watch::Tally::default(), watch::Tally::default());
    for lane in lanes(active) {
        let lane_access = LaneAccess { space: access.space, address: to[lane], bytes, lane, kind: AccessKind::Write };
        let location = locate(block, env, &lane_access)?;
        writes.add(block, location, &lane_access);
        let Location::Shared(offset) = location else { continue };
        offsets[lane] = offset as u32;
        let mut wanted = wanted(warp, &copy, lane);
        if wanted > bytes {
            env.enforce(Err(too_large(wanted, &copy, lane)))?;
            wanted = bytes;
        }
        let lane_access =
            LaneAccess { space: copy.source_space, address: from[lane], bytes, lane, kind: AccessKind::Read };
        if from[lane] & (bytes - 1) != 0 {
            return Err(misaligned(&lane_access));
        }
        // Only the bytes that are read have to exist; they are a prefix.
        for byte in 0..wanted {
            let one = LaneAccess { address: from[lane] + byte, bytes: 1, ..lane_access };
            let location = locate(block, env, &one)?;
            if byte == 0 {
                reads.add(block, location, &lane_access);
            }
            if WATCH && env.strict && byte == 0 {
                // Vectors and words are read whole, and a remainder byte by byte.
                let whole = match wanted {
                    4 | 8 | 16 => wanted,
                    12 => 4,
                    _ => 1,
                };
                for part in (0..wanted).step_by(whole as usize) {
                    let one = LaneAccess { address: from[lane] + part, bytes: whole, ..lane_access };
                    let location = locate(block, env, &one)?;
                    order::accessed(warp, block, env, &one, location, How::weak(pc))?;
                }
            }
            let (value, known) = read::<WATCH>(warp, block, env, location, 0, 1, lane);
            data[lane][byte as usize] = value as u8;
            written[lane] &= !(u16::from(!known) << byte);
        }
    }
    if !WATCH {
        for lane in lanes(active) {
            put(block, offsets[lane] as usize, &data[lane][..bytes as usize]);
        }
        return Ok(());
    }
    reads.count(block, AccessKind::Read, bytes, pc);
    writes.count(block, AccessKind::Write, bytes, pc);
    if env.strict {
        for lane in lanes(active) {
            let (offset, bytes) = (offsets[lane] as usize, bytes as usize);
            env.enforce(order::no_mbarrier(block, offset, bytes, AccessKind::Write, lane))?;
            let actor = order::actor(warp, block, lane, pc, None);
            proxy::undisturbed(block, env, (offset, bytes), AccessKind::Write, actor)?;
            let started = block.shadow.start(&block.clocks, offset, bytes, actor);
            env.enforce(started.map_err(|conflict| {
                race(block, env, conflict, MemoryAccess { kind: AccessKind::Write, offset, bytes, actor })
            }))?;
        }
    }
    block.copies[warp.index as usize].start(active, offsets, data, written, copy.bytes);
    // Whenever the bytes arrive, no thread may access them before it has waited for the copy.
    if block.agents.lands_at_once()
        && let Some(copy) = block.copies[warp.index as usize].newest().cloned()
    {
        fill(block, &copy);
    }
    Ok(())
}

/// The number of bytes that a lane reads from its source.
fn wanted(warp: &Warp, copy: &AsyncCopy, lane: usize) -> u64 {
    let bytes = u64::from(copy.bytes);
    match copy.source_bytes {
        None => bytes,
        // A predicate: if true, the source is ignored.
        Some(slot @ Slot::P(_)) => bytes * (1 - warp.regs.get(slot, lane)),
        Some(slot) => warp.regs.get(slot, lane) & u64::from(u32::MAX),
    }
}

/// Checks that the number of bytes does not depend on a value that was never written.
fn defined_size(warp: &Warp, env: &Env, copy: &AsyncCopy, active: u32) -> Checked {
    let Some(slot) = copy.source_bytes else { return Ok(()) };
    let tainted = warp.taint.mask(warp.taint.at(slot)) & active;
    if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
        return Err(undefined(warp, env, slot, tainted, "says how much a copy reads"));
    }
    Ok(())
}

#[cold]
fn too_large(wanted: u64, copy: &AsyncCopy, lane: usize) -> Box<Fault> {
    let message = format!("{{thread}}: a copy of {} bytes would read {wanted} bytes of its source", copy.bytes);
    Fault::new(ViolationKind::InvalidOperand, 1 << lane, message)
}

/// Completes the copies that the active lanes wait for.
pub(super) fn land<const WATCH: bool>(
    warp: &Warp,
    block: &mut BlockMemory,
    active: u32,
    pending: Option<u32>,
    strict: bool,
) {
    if !WATCH {
        return;
    }
    let index = warp.index as usize;
    for copy in block.copies[index].wait(active, pending) {
        fill(block, &copy);
        for lane in lanes(copy.mask).filter(|_| strict) {
            let (offset, bytes) = (copy.offset[lane] as usize, usize::from(copy.bytes));
            if block.copies[index].is_tracked(&copy, lane) {
                let (column, clock) = block.clocks.land(index);
                block.shadow.land_apart(offset, bytes, column - index, clock);
                block.clocks.learn_copies(index);
            } else {
                block.shadow.land(&block.clocks, offset, bytes);
            }
        }
    }
    if pending.is_none_or(|pending| pending == 0) {
        // The wait also covers copies that an mbarrier has completed before.
        block.clocks.learn_copies(index);
    }
}

/// Completes the first `started` copies of some lanes of a warp, for an mbarrier. Only threads that wait there may
/// access the bytes, and this includes the thread that started the copies. Returns the column and clock that such a
/// wait learns.
pub(super) fn land_tracked(
    block: &mut BlockMemory,
    index: usize,
    active: u32,
    started: u32,
    strict: bool,
) -> (usize, u32) {
    let landing = block.clocks.land(index);
    let (column, clock) = landing;
    for copy in block.copies[index].land_first(active, started) {
        fill(block, &copy);
        for lane in lanes(copy.mask).filter(|_| strict) {
            block.shadow.land_apart(copy.offset[lane] as usize, usize::from(copy.bytes), column - index, clock);
        }
    }
    landing
}

/// Writes the data of a copy.
fn fill(block: &mut BlockMemory, copy: &Pending) {
    for lane in lanes(copy.mask) {
        let (offset, bytes) = (copy.offset[lane] as usize, usize::from(copy.bytes));
        put(block, offset, &copy.data[lane][..bytes]);
        for byte in 0..bytes {
            block.shared.mark(offset + byte, 1, copy.written[lane] >> byte & 1 != 0);
        }
    }
}

fn put(block: &mut BlockMemory, offset: usize, data: &[u8]) {
    for (index, word) in data.chunks_exact(4).enumerate() {
        let value = word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        block.shared.store(offset + 4 * index, 4, value);
    }
    block.wrote_shared = true;
}
