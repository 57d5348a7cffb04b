//! Moves the bytes of asynchronous copies when they complete: into shared memory and on to the mbarrier, or out to
//! global memory.

use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use super::locate::AccessKind;
use super::proxy::Starter;
use super::timeline::timeline;
use super::{atomic, order, proxy};
use crate::address::SHARED_START;
use crate::agents::{Movement, Pending, Region};
use crate::env::{BlockMemory, Env};
use crate::knowledge::of_copies;
use crate::mbarrier::{Completed, Misuse};
use crate::row::LANES;
use crate::shadow::{Access, Did};
use crate::tensor::Tile;
use crate::violation::{Checked, Fault, MomentKind, Step, ViolationKind, triple};

/// Completes a copy that an mbarrier waits for, if only bytes are missing there; returns whether there was one.
pub(super) fn land_bytes(block: &mut BlockMemory, env: &Env, offset: usize) -> Result<bool, Misuse> {
    if !block.mbarriers.at(offset)?.lacks_only_bytes() {
        return Ok(false);
    }
    let Some(index) = block.agents.next_for(offset) else { return Ok(false) };
    match land(block, env, index) {
        Ok(()) => Ok(true),
        Err(fault) => {
            block.landing_fault = Some(fault);
            Err(Misuse::InCopy)
        }
    }
}

/// Completes everything in flight when no thread can continue otherwise; returns whether there was something.
pub(crate) fn land_all(block: &mut BlockMemory, env: &Env) -> Checked<bool> {
    let mut landed = false;
    while let Some(index) = block.agents.pending.iter().position(|pending| !pending.landed) {
        land(block, env, index)?;
        landed = true;
    }
    Ok(landed)
}

/// Completes a copy. A copy to global memory stays in flight until its thread has waited for it.
pub(crate) fn land(block: &mut BlockMemory, env: &Env, index: usize) -> Checked {
    if block.agents.pending[index].is_store() {
        let mut pending = block.agents.pending[index].clone();
        write_out(block, env, &mut pending);
        pending.landed = true;
        block.agents.pending[index] = pending;
        return Ok(());
    }
    let pending = block.agents.take(index);
    if let Movement::Values { barrier, data, size, defined, reduce } = pending.movement {
        let offset = pending.shared as usize;
        write_values(block, env, offset, &data[..pending.bytes as usize], (size, defined, reduce));
        // Only threads that wait with the cluster's scope learn of a store by a thread of another block.
        let own = block.shared.rank_of(barrier as usize) == env.rank(pending.thread) as usize;
        return count(block, env, &pending, barrier, own);
    }
    let Movement::Load { from, barrier, reduce } = &pending.movement else { return Ok(()) };
    let bytes = pending.counted as usize;
    let (mut data, known) = read_in(block, env, from, bytes);
    let layout = Layout::of(from);
    if let Some((op, ty)) = *reduce {
        let old = read_shared(block, pending.shared, bytes, layout);
        combine(op, ty, &old, &mut data);
    }
    write_shared(block, env, pending.shared, &data, &known, layout);
    block.agents.landed(&pending);
    if let Region::Shared(from) = *from {
        block.agents.has_read_for(from, &pending);
    }
    count(block, env, &pending, *barrier, true)
}

/// Writes the values of an asynchronous store, or combines them with the existing ones.
fn write_values(
    block: &mut BlockMemory,
    env: &Env,
    offset: usize,
    data: &[u8],
    (size, defined, reduce): (u8, u16, Option<(Atomic, Type)>),
) {
    let size = usize::from(size);
    for (index, element) in data.chunks_exact(size).enumerate() {
        let at = offset + index * size;
        let value = number(element);
        let mut written = defined >> index & 1 != 0;
        let value = match reduce {
            None => value,
            Some((op, ty)) => {
                written &= env.watch_off() || block.shared.is_written(at, size);
                atomic::combined(op, ty, block.shared.load(at, size), value)
            }
        };
        block.shared.store(at, size, value);
        if !env.watch_off() {
            block.shared.mark(at, size, written);
        }
    }
    if reduce.is_none() && !block.clocks.flags.is_empty() {
        order::forget(&mut block.clocks.flags, 0, offset, data.len());
    }
}

/// Counts the bytes of a complete copy at its mbarrier. `own` says whether waits of any scope learn of it.
fn count(block: &mut BlockMemory, env: &Env, pending: &Pending, barrier: u32, own: bool) -> Checked {
    block.wrote_shared = true;
    let ((column, clock), number) = (pending.known, block.clocks.block());
    let at = block.mbarriers.at(barrier as usize);
    let mut announced = None;
    let counted = at.and_then(|at| {
        announced = at.announced;
        let published = if own { at.published() } else { at.published_by_peers() };
        published.of_mut(number).add_copies(column, clock);
        at.complete_bytes(pending.counted, Completed { thread: of_copies(column), clock })
    });
    env.enforce(counted.map_err(|misuse| miscounted(block, env, pending, barrier, misuse, announced)))
}

/// The start of a copy, as an access for the race detector.
fn started(block: &BlockMemory, pending: &Pending) -> Access {
    let actor = Starter { thread: pending.thread, lane: 0, pc: pending.pc }.actor(block);
    Access { actor, clock: pending.began, did: Did::Write }
}

/// Reports that an mbarrier cannot count the bytes of a copy.
#[cold]
fn miscounted(
    block: &BlockMemory,
    env: &Env,
    pending: &Pending,
    barrier: u32,
    misuse: Misuse,
    announced: Option<(u16, u32)>,
) -> Box<Fault> {
    let address = block.shared.address(barrier as usize);
    let copy = format!("the copy of {} bytes at {}", pending.counted, proxy::line(env, pending.pc));
    let (message, at) = match (misuse, announced) {
        (Misuse::Overrun(bytes), Some(announced)) => {
            let message = format!(
                "{{thread}} announces {bytes} bytes too few at the mbarrier at {address:#x}: with {copy} its phase has all its \
                 arrivals, and more bytes than it expects"
            );
            (message, announced)
        }
        (misuse, _) => {
            let message = format!("{copy} is counted at the mbarrier at {address:#x}, {}", misuse.words());
            (message, (pending.thread, pending.pc))
        }
    };
    let mut fault = Fault::new(ViolationKind::BarrierMisuse, 0, message);
    (fault.address, fault.at) = (Some(address), Some(at));
    let step = |kind, (thread, pc)| Step { kind, block: block.clocks.block(), thread, pc };
    let copy = (pending.thread, pending.pc);
    fault.timeline.extend(announced.map(|announced| step(MomentKind::FirstAccess, announced)));
    fault.timeline.push(step(MomentKind::SecondAccess, copy));
    fault
}

/// Lets a thread wait until its copies to global memory, except its newest groups, are read or written.
pub(super) fn wait(block: &mut BlockMemory, env: &Env, thread: u16, newest: u32, read: bool) {
    while let Some(index) = block.agents.next_of_groups(thread.into(), newest, read) {
        let mut pending = block.agents.pending[index].clone();
        if !read && !pending.landed {
            write_out(block, env, &mut pending);
        }
        read_source(block, &mut pending);
        if !pending.read {
            // From now on, the copy's read counts as a read by the thread.
            pending.read = true;
            block.agents.has_read(pending.shared, pending.bytes);
            if env.strict {
                let actor = Starter { thread, lane: usize::from(thread) % LANES, pc: pending.pc }.actor(block);
                let (offset, bytes) = (pending.shared as usize, pending.bytes as usize);
                let _ = block.shadow.read(&block.clocks, offset, bytes, actor);
            }
        }
        if read {
            block.agents.pending[index] = pending;
        } else {
            if env.strict {
                let actor = Starter { thread, lane: usize::from(thread) % LANES, pc: pending.pc }.actor(block);
                let pieces = pending.pieces.iter().map(|(address, len)| (*address, u64::from(*len)));
                pieces.for_each(|piece| order::completed(block, env, piece, actor));
            }
            block.agents.take(index);
        }
    }
    land_overdue(block, env);
}

/// Completes copies that their threads have waited for only until the source was read, except for the newest ones.
fn land_overdue(block: &mut BlockMemory, env: &Env) {
    while let Some(index) = block.agents.overdue() {
        let mut pending = block.agents.take(index);
        if !pending.landed {
            write_out(block, env, &mut pending);
        }
    }
}

/// Reads the data of a store, unless that was done before.
fn read_source(block: &BlockMemory, pending: &mut Pending) {
    if pending.data.is_none() && !pending.landed {
        let layout = match &pending.movement {
            Movement::Store { to, .. } => Layout::of(to),
            Movement::Load { .. } | Movement::Values { .. } => Layout(None),
        };
        pending.data = Some(read_shared(block, pending.shared, pending.counted as usize, layout));
    }
}

/// Writes the data of a store.
fn write_out(block: &mut BlockMemory, env: &Env, pending: &mut Pending) {
    read_source(block, pending);
    let (Some(data), Movement::Store { to, reduce, .. }) = (pending.data.take(), &pending.movement) else { return };
    for (address, offset, bytes) in pieces(to, data.len(), AccessKind::Write) {
        let Some(mapped) = env.global.find(address, u64::from(bytes), &mut block.last) else { continue };
        let data = &data[offset as usize..][..bytes as usize];
        match *reduce {
            None => mapped.buffer.write(address, data),
            Some((op, ty)) => {
                let size = ty.bytes() as usize;
                for (index, element) in data.chunks_exact(size).enumerate() {
                    let at = mapped.buffer.offset(address) + index * size;
                    atomic::combine(mapped, at, op, ty, number(element));
                }
            }
        }
        block.wrote_global = true;
    }
}

/// Pieces of global memory that a copy reads or writes: address, offset in the copied data, and length.
pub(super) fn pieces(region: &Region, bytes: usize, kind: AccessKind) -> Vec<(u64, u32, u32)> {
    match region {
        Region::Flat(address) => vec![(*address, 0, bytes as u32)],
        Region::Tile(tile) => {
            let pieces = if kind == AccessKind::Write { tile.stored() } else { tile.pieces() };
            pieces.iter().map(|piece| (piece.address, piece.offset, piece.bytes)).collect()
        }
        Region::Shared(_) => Vec::new(),
    }
}

/// The data of a load, and which of its bytes hold values.
fn read_in(block: &mut BlockMemory, env: &Env, from: &Region, bytes: usize) -> (Vec<u8>, Vec<bool>) {
    if let Region::Shared(from) = *from {
        let known =
            (0..bytes).map(|byte| env.watch_off() || block.shared.is_written(from as usize + byte, 1)).collect();
        return (read_shared(block, from, bytes, Layout(None)), known);
    }
    let mut data = match from {
        Region::Tile(tile) => tile.filled(bytes),
        _ => vec![0; bytes],
    };
    let mut known = vec![true; bytes];
    for (address, offset, len) in pieces(from, bytes, AccessKind::Read) {
        let Some(mapped) = env.global.find(address, len.into(), &mut block.last) else { continue };
        let range = offset as usize..(offset + len) as usize;
        mapped.buffer.read(address, &mut data[range.clone()]);
        if let Region::Tile(tile) = from {
            tile.convert(&mut data[range.clone()]);
        }
        let start = mapped.buffer.offset(address);
        if mapped.buffer.first_unwritten(address, len.into()).is_some() {
            for (index, known) in known[range].iter_mut().enumerate() {
                *known = mapped.buffer.is_written(start + index, 1);
            }
        }
    }
    (data, known)
}

/// Reads bytes of shared memory, chunk by chunk as the swizzle placed them.
fn read_shared(block: &BlockMemory, offset: u32, bytes: usize, layout: Layout) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes);
    for chunk in (0..bytes).step_by(16) {
        let at = layout.chunk_offset(offset, chunk / 16);
        for word in 0..4 {
            data.extend((block.shared.load(at + 4 * word, 4) as u32).to_le_bytes());
        }
    }
    data.truncate(bytes);
    data
}

fn write_shared(block: &mut BlockMemory, env: &Env, offset: u32, data: &[u8], known: &[bool], layout: Layout) {
    for (index, (chunk, known)) in data.chunks_exact(16).zip(known.chunks_exact(16)).enumerate() {
        let at = layout.chunk_offset(offset, index);
        for (word, bytes) in chunk.chunks_exact(4).enumerate() {
            block.shared.store(at + 4 * word, 4, number(bytes));
        }
        if env.watch_off() {
            continue;
        }
        if known.iter().all(|known| *known) {
            block.shared.mark(at, 16, true);
        } else {
            known.iter().enumerate().for_each(|(byte, known)| block.shared.mark(at + byte, 1, *known));
        }
    }
}

/// The layout of a copy's bytes in shared memory: that of a box, or contiguous.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a>(Option<&'a Tile>);

impl<'a> Layout<'a> {
    pub(super) fn of(region: &'a Region) -> Layout<'a> {
        match region {
            Region::Tile(tile) => Layout(Some(tile)),
            _ => Layout(None),
        }
    }

    /// The offset of a 16-byte chunk of a copy at this offset.
    pub(super) fn chunk_offset(self, offset: u32, chunk: usize) -> usize {
        let Layout(Some(tile)) = self else { return offset as usize + 16 * chunk };
        let address = SHARED_START as usize + offset as usize + tile.chunk(chunk);
        tile.map.swizzle().apply(address as u64) as usize - SHARED_START as usize
    }
}

/// Combines the existing values with the copied ones, element by element.
fn combine(op: Atomic, ty: Type, old: &[u8], data: &mut [u8]) {
    let size = ty.bytes() as usize;
    for (old, new) in old.chunks_exact(size).zip(data.chunks_exact_mut(size)) {
        let sum = atomic::combined(op, ty, number(old), number(new));
        new.copy_from_slice(&sum.to_le_bytes()[..size]);
    }
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reports copies that are still in flight when the block of this rank exits.
pub(crate) fn unfinished(block: &BlockMemory, env: &Env, rank: usize) -> Option<Box<Fault>> {
    let here = |offset: u32| block.shared.rank_of(offset as usize) == rank;
    let (pending, does, at) = block.agents.pending.iter().find_map(|pending| match pending.movement {
        Movement::Store { .. } => {
            (!pending.read && here(pending.shared)).then_some((pending, "may still read", pending.shared))
        }
        Movement::Load { .. } | Movement::Values { .. } if here(pending.shared) => {
            Some((pending, "may still write", pending.shared))
        }
        Movement::Load { from: Region::Shared(from), .. } => here(from).then_some((pending, "may still read", from)),
        Movement::Load { .. } | Movement::Values { .. } => None,
    })?;
    let (which, of) = match block.shared.ranks() {
        1 => ("the block".to_owned(), "its"),
        _ => (format!("block {}", triple(env.ctaid_in(block.number, rank as u32))), "that block's"),
    };
    let message = format!(
        "{which} has exited, and the copy that {{thread}} started {does} {} bytes of {of} shared memory at {:#x}: no thread \
         of the block waited for it",
        pending.bytes,
        block.shared.address(at as usize)
    );
    let mut fault = Fault::new(ViolationKind::Race, 0, message);
    fault.at = Some((pending.thread, pending.pc));
    let start = started(block, pending);
    fault.timeline = timeline(block, env, &start, pending.thread, start.actor);
    fault.timeline.pop();
    assert!((usize::from(pending.thread) / LANES) < env.all_warps());
    Some(fault)
}

/// Reports accesses that other blocks of the cluster, or their copies, made to the shared memory of the block of this
/// rank and that nothing orders before the block's exit.
pub(crate) fn unordered_before_exit(block: &BlockMemory, env: &Env, rank: usize) -> Option<Box<Fault>> {
    let first = rank as u32 * env.warp_pitch() * LANES as u32;
    let threads = || (first..first + env.threads()).map(|thread| thread as u16);
    let cluster = block.clocks.block();
    for visit in block.visits.of(rank) {
        if threads().any(|own| block.clocks.ordered_across_blocks(cluster, visit.clock, visit.thread, own)) {
            continue;
        }
        let message = format!(
            "block {} has exited, and {{thread}} accesses its shared memory: {}",
            triple(env.ctaid_in(block.number, rank as u32)),
            order::NO_BARRIER
        );
        let mut fault = Fault::new(ViolationKind::Race, 0, message);
        fault.at = Some((visit.thread, visit.pc));
        return Some(fault);
    }
    let unknown = |column, clock| !threads().any(|own| block.clocks.knows_copies(own, column, clock));
    let start = block.shared.layout().offset(rank, 0);
    let mut read = block.agents.read_in(start, start + block.shared.bytes() as usize);
    if let Some((starter, _)) = read.find(|&(_, (column, clock))| unknown(column, clock)) {
        let message = format!(
            "block {} has exited, and no thread of it knows that the copy from its shared memory is complete that {{thread}} \
             started",
            triple(env.ctaid_in(block.number, rank as u32))
        );
        let mut fault = Fault::new(ViolationKind::Race, 0, message);
        fault.at = Some(starter);
        return Some(fault);
    }
    let here = |offset: u32| block.shared.rank_of(offset as usize) == rank;
    let (column, clock) = block.agents.counted_in(here).find(|&(column, clock)| unknown(column, clock))?;
    let starter = block.agents.starter(column, clock)?;
    let message = format!(
        "block {} has exited, and no thread of it has waited for the copy to its shared memory that {{thread}} started",
        triple(env.ctaid_in(block.number, rank as u32))
    );
    let mut fault = Fault::new(ViolationKind::Race, 0, message);
    fault.at = Some(starter);
    Some(fault)
}
