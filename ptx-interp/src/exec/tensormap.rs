//! Modifying tensor maps: `tensormap.replace`, `tensormap.cp_fenceproxy`, and the fences between the generic and the
//! tensormap proxy.
//!
//! A launch may use a map in global memory that it has written if two things happened. After writing, the writer
//! released the map (`fence.proxy.tensormap::generic.release`, or the copy that includes it). Then the user, or a
//! thread of its block that is ordered before the user, acquired it. A thread acquires its own writes without a
//! release. A map that the host wrote to global memory also has to be acquired in each block (CUDA C++ Programming
//! Guide, "Using TMA to transfer multi-dimensional arrays"). Parameters need no fence.

use std::sync::PoisonError;

use ptx_gemm_ptx::instruction::FenceOrder;

use super::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate};
use super::order::How;
use super::proxy::{self, Starter, line};
use super::{order, undefined, watch};
use crate::env::{BlockMemory, Env};
use crate::maps::Acquired;
use crate::op::{Bulk, Pointer};
use crate::options::{Severity, Watch};
use crate::row::{LANES, lanes};
use crate::shadow::Access;
use crate::tensor::replace;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// Bytes of a map.
const BYTES: usize = 128;
/// Alignment of a map, and the size of the accesses to it here.
const HALF: usize = 64;

pub(super) fn execute(warp: &Warp, block: &mut BlockMemory, env: &Env, op: &Bulk, active: u32, pc: u32) -> Checked {
    let index = warp.index as usize;
    let starter = |lane: usize| Starter { thread: (index * LANES + lane) as u16, lane, pc };
    match *op {
        Bulk::ReplaceField { map, field, ordinal, value } => {
            let tainted = if env.watches(ViolationKind::Uninitialised) {
                warp.taint.mask(warp.taint.at(value)) & active
            } else {
                0
            };
            if tainted != 0 {
                return Err(undefined(warp, env, value, tainted, "becomes a field of a tensor map"));
            }
            for lane in lanes(active) {
                let mut bytes = [0; BYTES];
                let address = access(warp, block, env, map, (lane, pc), AccessKind::Write, &mut bytes)?;
                replace(&mut bytes, field, ordinal, warp.regs.get(value, lane)).map_err(|why| {
                    let message = format!("{{thread}} replaces a field of the tensor map at {address:#x}, {why}");
                    let mut fault = Fault::new(ViolationKind::TensorMap, 1 << lane, message);
                    fault.address = Some(address);
                    fault
                })?;
                write(warp, block, env, map, lane, &bytes)?;
            }
        }
        Bulk::CopyMap { to, from, scope } => {
            let lane = active.trailing_zeros() as usize;
            let mut bytes = [0; BYTES];
            access(warp, block, env, from, (lane, pc), AccessKind::Read, &mut bytes)?;
            access(warp, block, env, to, (lane, pc), AccessKind::Write, &mut [0; BYTES])?;
            write(warp, block, env, to, lane, &bytes)?;
            release(block, index, active);
            fence(block, env, index, active, scope, pc);
        }
        Bulk::FenceMap { scope, acquired: None } => {
            release(block, index, active);
            fence(block, env, index, active, scope, pc);
        }
        Bulk::FenceMap { scope, acquired: Some(map) } => {
            // The fence acquires, among others, what it orders by itself.
            fence(block, env, index, active, scope, pc);
            if env.strict {
                let addresses = addresses(&warp.regs, map.base, map.offset);
                defined_address(warp, env, map.base, active)?;
                lanes(active).for_each(|lane| acquire(block, env, starter(lane), addresses[lane]));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks and records an access of a lane to a map, and reads its bytes; returns its address.
fn access(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    map: Pointer,
    (lane, pc): (usize, u32),
    kind: AccessKind,
    bytes: &mut [u8; BYTES],
) -> Checked<u64> {
    if env.watch == Watch::On {
        defined_address(warp, env, map.base, 1 << lane)?;
    }
    let address = addresses(&warp.regs, map.base, map.offset)[lane];
    for (half, bytes) in bytes.chunks_exact_mut(HALF).enumerate() {
        let address = address.wrapping_add((half * HALF) as u64);
        let access = LaneAccess { space: map.space, address, bytes: HALF as u64, lane, kind };
        let location = locate(block, env, &access)?;
        if env.watch == Watch::On {
            watch::accessed(warp, block, env, &access, location, How::weak(pc))?;
        }
        match location {
            Location::Global(mapped, offset) => mapped.buffer.read(mapped.buffer.address(offset), bytes),
            Location::Shared(offset) => {
                for (word, bytes) in bytes.chunks_exact_mut(4).enumerate() {
                    bytes.copy_from_slice(&(block.shared.load(offset + 4 * word, 4) as u32).to_le_bytes());
                }
                let unwritten = |at: &usize| !block.shared.is_written(offset + at, 1);
                if kind == AccessKind::Read
                    && env.watches(ViolationKind::Uninitialised)
                    && let Some(at) = (0..HALF).find(unwritten)
                {
                    let address = address + at as u64;
                    let message =
                        format!("{{thread}} copies a tensor map with a byte that was never written, at {address:#x}");
                    let mut fault = Fault::new(ViolationKind::Uninitialised, 1 << lane, message);
                    fault.address = Some(address);
                    return Err(fault);
                }
            }
            _ => return Err(elsewhere(lane, address)),
        }
    }
    Ok(address)
}

fn elsewhere(lane: usize, address: u64) -> Box<Fault> {
    let message = format!("{{thread}} modifies a tensor map at {address:#x}, which is not in global or shared memory");
    let mut fault = Fault::new(ViolationKind::TensorMap, 1 << lane, message);
    fault.address = Some(address);
    fault
}

/// Writes a map after [`access`] has allowed it.
fn write(warp: &Warp, block: &mut BlockMemory, env: &Env, map: Pointer, lane: usize, bytes: &[u8; BYTES]) -> Checked {
    let address = addresses(&warp.regs, map.base, map.offset)[lane];
    for (half, bytes) in bytes.chunks_exact(HALF).enumerate() {
        let address = address + (half * HALF) as u64;
        let access = LaneAccess { space: map.space, address, bytes: HALF as u64, lane, kind: AccessKind::Write };
        match locate(block, env, &access)? {
            Location::Global(mapped, offset) => {
                mapped.buffer.write(mapped.buffer.address(offset), bytes);
                block.wrote_global = true;
            }
            Location::Shared(offset) => {
                for (word, bytes) in bytes.chunks_exact(4).enumerate() {
                    let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                    block.shared.store(offset + 4 * word, 4, value);
                    if env.watch == Watch::On {
                        block.shared.mark(offset + 4 * word, 4, true);
                    }
                }
                block.wrote_shared = true;
            }
            _ => return Err(elsewhere(lane, address)),
        }
    }
    Ok(())
}

/// Records that threads release their changes of maps.
fn release(block: &mut BlockMemory, warp: usize, active: u32) {
    let mut history = block.history.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = block.clocks.now_or_zero(warp);
    lanes(active).for_each(|lane| history.maps.add(warp * LANES + lane, clock));
}

/// Orders memory like any fence of this scope.
fn fence(block: &mut BlockMemory, env: &Env, warp: usize, active: u32, scope: crate::flags::Scope, pc: u32) {
    if env.watch == Watch::On {
        block.note(warp, active, pc, true);
        block.clocks.fence(warp, active, FenceOrder::AcqRel, scope);
    }
}

/// Whether a writer's thread is known to have released a map after writing it.
fn is_released(block: &BlockMemory, env: &Env, starter: Starter, writer: &Access) -> bool {
    let (of, thread) = (writer.actor.block, writer.actor.thread);
    let limit = starter.limit(block, of, thread);
    if of != block.clocks.block() {
        return env.was_fenced(of, thread, (writer.clock, limit), |history| &history.maps);
    }
    let history = block.history.lock().unwrap_or_else(PoisonError::into_inner);
    history.maps.between(thread.into(), writer.clock, limit)
}

/// A thread acquires a map: the writes that were released and are ordered before.
fn acquire(block: &mut BlockMemory, env: &Env, starter: Starter, address: u64) {
    let mut writers = order::writers(block, env, (address, BYTES));
    let actor = starter.actor(block);
    // A thread's own writes need no release.
    writers.retain(|writer| {
        let ordered = writer.ordered(&block.clocks, starter.thread);
        writer.is_by(actor) || ordered && is_released(block, env, starter, writer)
    });
    let writers = writers.iter().map(|writer| (writer.actor.block, writer.actor.thread, writer.clock)).collect();
    let clock = block.clocks.now_or_zero(usize::from(starter.thread) / LANES);
    block.maps.retain(|old| (old.address, old.thread) != (address, starter.thread));
    block.maps.push(Acquired { address, thread: starter.thread, clock, writers });
}

/// Checks that a thread may use the map at an address of global memory.
pub(super) fn used(block: &mut BlockMemory, env: &Env, starter: Starter, address: u64) -> Checked {
    if !env.strict {
        return Ok(());
    }
    order::read_now(block, env, (address, BYTES), starter)?;
    let cluster = block.clocks.block();
    for writer in order::writers(block, env, (address, BYTES)) {
        let written = (writer.actor.block, writer.actor.thread, writer.clock);
        let acquired = block
            .maps
            .iter()
            .any(|acquired| acquired.writers.contains(&written) && is_here(block, env, starter, acquired, address));
        if acquired {
            continue;
        }
        let missing = match is_released(block, env, starter, &writer) {
            true => "no acquiring fence of the tensormap proxy between what orders the two and this",
            false => "no releasing fence of the tensormap proxy between that and what orders the two",
        };
        let message = || {
            format!(
                "{{thread}} uses the tensor map at {address:#x}, which {} modified at {}, and there is {missing}",
                env.name(writer.actor.block, writer.actor.thread, (cluster, starter.thread)),
                line(env, writer.actor.pc)
            )
        };
        proxy::report(block, env, (Severity::Deny, ViolationKind::Proxy), starter, &writer, address, message)?;
    }
    Ok(())
}

/// Whether a thread of the starter's block has acquired the map at an address before.
fn is_here(block: &BlockMemory, env: &Env, starter: Starter, acquired: &Acquired, address: u64) -> bool {
    let cluster = block.clocks.block();
    acquired.address == address
        && env.rank(acquired.thread) == env.rank(starter.thread)
        && (acquired.thread == starter.thread
            || block.clocks.ordered_across_blocks(cluster, acquired.clock, acquired.thread, starter.thread))
}

/// Checks that the starter's block has acquired the map at an address of global memory, whoever wrote it.
pub(super) fn is_acquired(block: &BlockMemory, env: &Env, starter: Starter, address: u64) -> Checked {
    let acquired = || block.maps.iter().any(|acquired| is_here(block, env, starter, acquired, address));
    if !env.strict || !env.watches(ViolationKind::Proxy) || acquired() {
        return Ok(());
    }
    let message = format!(
        "{{thread}} uses the tensor map at {address:#x} in global memory, and no thread of its block has acquired it before: an \
         acquiring fence of the tensormap proxy is missing"
    );
    let mut fault = Fault::new(ViolationKind::Proxy, 1 << starter.lane, message);
    (fault.address, fault.at) = (Some(address), Some((starter.thread, starter.pc)));
    Err(fault)
}
