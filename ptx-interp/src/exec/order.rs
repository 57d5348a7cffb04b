//! The order of accesses: checks every access against the shadows, tracks flags, and reports races.

use std::sync::{MutexGuard, PoisonError};

use ptx_gemm_ptx::instruction::FenceOrder;

use super::equal::{self, Stored};
use super::locate::{AccessKind, LaneAccess, Location};
use super::proxy::{self, Starter};
use super::unordered::{MemoryAccess, global_race, race};
use crate::env::{BlockMemory, Env};
use crate::flags::{Change, Flags, Writer};
use crate::global::shadow::{Agent, Detail, GlobalShadow, Row};
use crate::op::{Access as Decoded, Strong};
use crate::row::{LANES, lanes};
use crate::scope::Scope;
use crate::shadow::{Access, Actor, Did};
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words, triple};
use crate::visits::Visit;
use crate::warp::Warp;

/// A lane at an instruction, as the race detector identifies it.
pub(super) fn actor(warp: &Warp, block: &BlockMemory, lane: usize, pc: u32, strong: Option<Strong>) -> Actor {
    Actor {
        block: block.clocks.block(),
        thread: (warp.index as usize * LANES + lane) as u16,
        pc,
        strong: strong.map(|strong| strong.scope),
        atomic: strong.is_some_and(|strong| strong.atomic),
    }
}

fn did(kind: AccessKind) -> Did {
    match kind {
        AccessKind::Read => Did::Read,
        AccessKind::Write => Did::Write,
    }
}

/// Checks that only mbarrier instructions access the bytes of an mbarrier.
#[inline(always)]
pub(super) fn no_mbarrier(block: &BlockMemory, offset: usize, bytes: usize, kind: AccessKind, lane: usize) -> Checked {
    match block.mbarriers.accessed(offset, bytes) {
        None => Ok(()),
        Some(start) => Err(mbarrier_accessed(block, offset, bytes, start, kind, lane)),
    }
}

#[cold]
fn mbarrier_accessed(
    block: &BlockMemory,
    offset: usize,
    bytes: usize,
    start: usize,
    kind: AccessKind,
    lane: usize,
) -> Box<Fault> {
    let [address, start] = [offset, start].map(|offset| block.shared.address(offset));
    let message = format!(
        "{{thread}} {} {} at shared address {address:#x}, a part of the mbarrier at {start:#x}",
        kind.word(),
        in_words(bytes as u64)
    );
    let mut fault = Fault::new(ViolationKind::BarrierMisuse, 1 << lane, message);
    fault.address = Some(address);
    fault
}

/// How an instruction accesses memory.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    pub(super) pc: u32,
    pub(super) strong: Option<Strong>,
    /// What it writes, if it is a weak store.
    pub(super) stored: Option<&'a Stored<'a>>,
}

impl How<'_> {
    /// A weak access for which stores of equal bits do not matter.
    pub(super) fn weak(pc: u32) -> Self {
        How { pc, strong: None, stored: None }
    }
}

/// The accesses of some lanes of a warp by one instruction.
#[derive(Clone, Copy)]
pub(super) struct RowAccess<'a> {
    pub(super) kind: AccessKind,
    pub(super) active: u32,
    /// Bytes that each lane accesses.
    pub(super) bytes: usize,
    pub(super) how: How<'a>,
}

/// Checks accesses of lanes to shared memory.
pub(super) fn shared_row(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    &RowAccess { kind, active, bytes, how: How { pc, stored, .. } }: &RowAccess<'_>,
    offsets: &[u32; LANES],
) -> Checked {
    let mut left = active;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        let offset = offsets[lane] as usize;
        env.enforce(no_mbarrier(block, offset, bytes, kind, lane))?;
        let actor = actor(warp, block, lane, pc, None);
        proxy::undisturbed(block, env, (offset, bytes), kind, actor)?;
        let ordered = match kind {
            AccessKind::Read => block.shadow.read(&block.clocks, offset, bytes, actor),
            AccessKind::Write => block.shadow.write(&block.clocks, offset, bytes, actor),
        };
        match (ordered, stored) {
            (Ok(()), _) => {}
            (Err(_), Some(stored)) => equal::shared(stored, block, env, (offset, bytes), actor)?,
            (Err(conflict), None) => {
                env.enforce(Err(race(block, env, conflict, MemoryAccess { kind, offset, bytes, actor })))?
            }
        }
        match kind {
            AccessKind::Read if env.code.bulks.is_empty() => {
                // The next lanes often access the same address.
                let same = alike(offsets, left, lane);
                if same != 0 && block.shadow.join(&block.clocks, offset, bytes, actor, same) {
                    left &= !same;
                }
            }
            AccessKind::Write if !block.clocks.flags.is_empty() => forget(&mut block.clocks.flags, 0, offset, bytes),
            _ => {}
        }
    }
    Ok(())
}

/// The lanes of `left` that directly follow a lane and access the same address.
#[inline(always)]
fn alike(offsets: &[u32; LANES], left: u32, lane: usize) -> u32 {
    let run = offsets[lane + 1..].iter().zip(lane + 1..);
    let end = run.take_while(|(offset, at)| left >> at & 1 != 0 && **offset == offsets[lane]).count();
    // `end` lanes follow the lane; there are at most 31.
    ((1u32 << end) - 1) << lane << 1
}

/// The warp of an actor, and its lane as a mask.
fn at(actor: Actor) -> (usize, u32) {
    (usize::from(actor.thread) / LANES, 1 << (usize::from(actor.thread) % LANES))
}

/// Checks that lanes access global memory only after a wait for the kernels before this one, if these may still run.
fn after_kernels(
    block: &BlockMemory,
    env: &Env,
    kind: AccessKind,
    (warp, active): (usize, u32),
    address: &dyn Fn(usize) -> u64,
) -> Checked {
    if !env.overlaps {
        return Ok(());
    }
    let Some(lane) = block.waits.too_early(warp, active, &block.clocks) else { return Ok(()) };
    let address = address(lane);
    let message = format!(
        "{{thread}} {} global memory at {address:#x} while kernels that were launched before may still run: nothing orders \
         it after a wait for them",
        kind.word()
    );
    let mut fault = Fault::new(ViolationKind::Race, 1 << lane, message);
    fault.address = Some(address);
    env.enforce(Err(fault))
}

/// Checks accesses of lanes to one allocation.
pub(super) fn global_row(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    &RowAccess { kind, active, bytes, how: How { pc, strong, stored } }: &RowAccess<'_>,
    offsets: &dyn Fn(usize) -> usize,
) -> Checked {
    let mapped = env.global.at(block.last);
    after_kernels(block, env, kind, (warp.index as usize, active), &|lane| mapped.buffer.address(offsets(lane)))?;
    if !env.code.bulks.is_empty() {
        for lane in lanes(active) {
            let access = (mapped.buffer.address(offsets(lane)), bytes as u64);
            proxy::undisturbed_globally(block, env, access, kind, actor(warp, block, lane, pc, strong))?;
        }
    }
    let Some(shadow) = &mapped.shadow else { return Ok(()) };
    let row = Row { did: did(kind), actor: actor(warp, block, 0, pc, strong), agent: None, active, offsets, bytes };
    let touched = match stored {
        Some(stored) => equal::global(stored, block, env, (mapped, shadow), &row)?,
        None => shadow.touch(&mapped.buffer, &block.clocks, &row, None),
    };
    if let Err((lane, conflict)) = touched {
        let actor = actor(warp, block, lane, pc, strong);
        env.enforce(Err(global_race(
            block,
            env,
            mapped,
            conflict,
            MemoryAccess { kind, offset: offsets(lane), bytes, actor },
        )))?;
    }
    if kind == AccessKind::Write && strong.is_none() && env.detail == Detail::Exact {
        let mut flags = flags(env);
        if !flags.is_empty() {
            lanes(active).for_each(|lane| forget(&mut flags, block.last, offsets(lane), bytes));
        }
    }
    Ok(())
}

/// Checks a bulk copy's access to a piece of global memory when the copy starts. The shadow records it as the copy's
/// own access. Other threads are ordered after it once they know that the copy is complete.
pub(super) fn copied(
    block: &mut BlockMemory,
    env: &Env,
    kind: AccessKind,
    (address, bytes): (u64, u64),
    starter: Starter,
    actor: Actor,
    agent: Agent,
) -> Checked {
    after_kernels(block, env, kind, at(actor), &|_| address)?;
    proxy::undisturbed_globally(block, env, (address, bytes), kind, actor)?;
    let Some(mapped) = env.global.find(address, bytes, &mut block.last) else { return Ok(()) };
    let Some(shadow) = &mapped.shadow else { return Ok(()) };
    let from = mapped.buffer.offset(address);
    let mut writers: Vec<(u64, Access)> = Vec::new();
    for part in GlobalShadow::parts(from, from + bytes as usize) {
        shadow.writers(part, |at, writer| {
            if !env.is_bulk(writer.actor.pc) && writers.last().is_none_or(|(_, last)| last != writer) {
                writers.push((mapped.buffer.address(at.max(from)), *writer));
            }
        });
        let (offset, bytes) = part;
        let first = Actor { thread: actor.thread - starter.lane as u16, ..actor };
        let (active, agent) = (1 << starter.lane, Some(agent));
        let row = Row { did: did(kind), actor: first, agent, active, offsets: &|_| offset, bytes };
        if let Err((_, conflict)) = shadow.touch(&mapped.buffer, &block.clocks, &row, None) {
            env.enforce(Err(global_race(block, env, mapped, conflict, MemoryAccess { kind, offset, bytes, actor })))?;
        }
        if kind == AccessKind::Write && actor.strong.is_none() && env.detail == Detail::Exact {
            forget(&mut flags(env), block.last, offset, bytes);
        }
    }
    writers.iter().try_for_each(|(at, writer)| proxy::global_fenced(block, env, starter, *at, writer))
}

/// Checks that a thread may read a piece of global memory, and records that it does.
pub(super) fn read_now(
    block: &mut BlockMemory,
    env: &Env,
    (address, bytes): (u64, usize),
    starter: Starter,
) -> Checked {
    let Some(mapped) = env.global.find(address, bytes as u64, &mut block.last) else { return Ok(()) };
    let Some(shadow) = &mapped.shadow else { return Ok(()) };
    let (offset, actor) = (mapped.buffer.offset(address), starter.actor(block));
    after_kernels(block, env, AccessKind::Read, at(actor), &|_| address)?;
    let first = Actor { thread: actor.thread - starter.lane as u16, ..actor };
    let row = Row { did: Did::Read, actor: first, agent: None, active: 1 << starter.lane, offsets: &|_| offset, bytes };
    match shadow.touch(&mapped.buffer, &block.clocks, &row, None) {
        Ok(()) => Ok(()),
        Err((_, conflict)) => env.enforce(Err(global_race(
            block,
            env,
            mapped,
            conflict,
            MemoryAccess { kind: AccessKind::Read, offset, bytes, actor },
        ))),
    }
}

/// The last writers of a piece of global memory in this launch.
pub(super) fn writers(block: &mut BlockMemory, env: &Env, (address, bytes): (u64, usize)) -> Vec<Access> {
    let mut writers: Vec<Access> = Vec::new();
    let Some(mapped) = env.global.find(address, bytes as u64, &mut block.last) else { return writers };
    let Some(shadow) = &mapped.shadow else { return writers };
    let from = mapped.buffer.offset(address);
    for part in GlobalShadow::parts(from, from + bytes) {
        shadow.writers(part, |_, writer| {
            if !writers.contains(writer) {
                writers.push(*writer);
            }
        });
    }
    writers
}

/// Checks that nothing in this launch has written the bytes that lanes are about to read through the read-only cache.
/// The cache may hold older bytes, whatever orders the two accesses.
#[cold]
pub(super) fn unwritten(
    block: &mut BlockMemory,
    env: &Env,
    addresses: &[u64; LANES],
    active: u32,
    bytes: usize,
) -> Checked {
    for lane in lanes(active) {
        let address = addresses[lane];
        let Some(writer) = writers(block, env, (address, bytes)).first().copied() else { continue };
        let origin = &env.code.origins[writer.actor.pc as usize];
        let message = format!(
            "{{thread}} reads {bytes} bytes at {address:#x} by a load with .nc, and this launch wrote them at line {} (`{}`): \
             the read-only cache may have what was there before",
            origin.line, origin.text
        );
        let mut fault = Fault::new(ViolationKind::Race, 1 << lane, message);
        fault.address = Some(address);
        env.enforce(Err(fault))?;
    }
    Ok(())
}

/// Records that a thread has waited until its copy has written a piece of global memory.
pub(super) fn completed(block: &mut BlockMemory, env: &Env, (address, bytes): (u64, u64), actor: Actor) {
    let Some(mapped) = env.global.find(address, bytes, &mut block.last) else { return };
    let Some(shadow) = &mapped.shadow else { return };
    let from = mapped.buffer.offset(address);
    GlobalShadow::parts(from, from + bytes as usize).for_each(|part| shadow.complete(&block.clocks, part, actor));
}

/// Lanes of a warp execute a fence.
pub(super) fn fence(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    active: u32,
    (order, scope): (FenceOrder, Scope),
    pc: u32,
) {
    block.note(warp.index as usize, active, pc, true);
    block.complete_reads(env, warp.index as usize, active);
    block.clocks.fence(warp.index as usize, active, order, scope);
    if order == FenceOrder::Sc {
        fence_in_sequence(warp, block, env, active);
    }
}

fn fence_in_sequence(warp: &Warp, block: &mut BlockMemory, env: &Env, active: u32) {
    let number = block.clocks.block();
    let mut global = flags(env);
    for lane in lanes(active) {
        let thread = (warp.index as usize * LANES + lane) as u16;
        block.clocks.flags.fence(number, thread);
        global.fence(number, thread);
    }
}

fn flags<'a>(env: &'a Env) -> MutexGuard<'a, Flags> {
    env.flags.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A weak write to memory that may have held flags.
pub(super) fn forget(flags: &mut Flags, allocation: usize, offset: usize, bytes: usize) {
    (offset / 4..(offset + bytes).div_ceil(4)).for_each(|word| flags.forget((allocation, word)));
}

/// Checks one lane's access to memory.
pub(super) fn accessed(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    lane_access: &LaneAccess,
    location: Location,
    how: How<'_>,
) -> Checked {
    let How { pc, strong, .. } = how;
    let bytes = lane_access.bytes as usize;
    let row = RowAccess { kind: lane_access.kind, active: 1 << lane_access.lane, bytes, how };
    if let Location::Shared(offset) = location {
        visit(block, env, offset, actor(warp, block, lane_access.lane, pc, strong), lane_access.kind.word())?;
    }
    match location {
        Location::Shared(offset) if strong.is_some() => {
            env.enforce(no_mbarrier(block, offset, bytes, lane_access.kind, lane_access.lane))?;
            let actor = actor(warp, block, lane_access.lane, pc, strong);
            proxy::undisturbed(block, env, (offset, bytes), lane_access.kind, actor)?;
            let ordered = match lane_access.kind {
                AccessKind::Read => block.shadow.read(&block.clocks, offset, bytes, actor),
                AccessKind::Write => block.shadow.write(&block.clocks, offset, bytes, actor),
            };
            env.enforce(ordered.map_err(|conflict| {
                race(block, env, conflict, MemoryAccess { kind: lane_access.kind, offset, bytes, actor })
            }))
        }
        Location::Shared(offset) => {
            let mut offsets = [0; LANES];
            offsets[lane_access.lane] = offset as u32;
            shared_row(warp, block, env, &row, &offsets)
        }
        Location::Global(_, offset) => global_row(warp, block, env, &row, &|_| offset),
        _ => Ok(()),
    }
}

/// Checks that the owner of the shared memory that a thread accesses still exists, and records the access if the owner
/// is another block. `does` says what the thread does, as text before the address.
pub(super) fn visit(block: &mut BlockMemory, env: &Env, offset: usize, actor: Actor, does: &str) -> Checked {
    let rank = block.shared.rank_of(offset);
    if !env.strict || block.shared.ranks() == 1 || rank == env.rank(actor.thread) as usize {
        return Ok(());
    }
    if block.visits.has_exited(rank) {
        return env.enforce(Err(exited(block, env, offset, actor, does)));
    }
    has_started(block, env, offset, actor, does)?;
    let clock = block.clocks.now(usize::from(actor.thread) / LANES);
    block.visits.add(rank, Visit { thread: actor.thread, clock, pc: actor.pc });
    Ok(())
}

/// Checks that a thread knows that the owner of the shared memory that it accesses has started (CUDA C++ Programming
/// Guide, "Distributed Shared Memory").
pub(super) fn has_started(block: &BlockMemory, env: &Env, offset: usize, actor: Actor, does: &str) -> Checked {
    let rank = block.shared.rank_of(offset);
    if rank == env.rank(actor.thread) as usize || block.clocks.knows_start(rank, actor.thread) {
        return Ok(());
    }
    let address = block.shared.address(offset);
    let message = format!(
        "{{thread}} {does} shared address {address:#x} of block {}, which may not have started: no barrier of the cluster, and \
         nothing that it waited for, comes before the access",
        triple(env.ctaid_in(block.number, rank as u32))
    );
    let mut fault = Fault::new(ViolationKind::Race, 1 << (usize::from(actor.thread) % LANES), message);
    (fault.address, fault.at) = (Some(address), Some((actor.thread, actor.pc)));
    env.enforce(Err(fault))
}

/// Reports an access to the shared memory of a block that has exited, or may have exited.
#[cold]
pub(super) fn exited(block: &BlockMemory, env: &Env, offset: usize, actor: Actor, does: &str) -> Box<Fault> {
    let (rank, address) = (block.shared.rank_of(offset), block.shared.address(offset));
    let message = format!(
        "{{thread}} {does} shared address {address:#x} of block {}, which has exited: {}",
        triple(env.ctaid_in(block.number, rank as u32)),
        NO_BARRIER
    );
    let mut fault = Fault::new(ViolationKind::Race, 1 << (usize::from(actor.thread) % LANES), message);
    (fault.address, fault.at) = (Some(address), Some((actor.thread, actor.pc)));
    fault
}

/// The missing order if a block may exit too early.
pub(super) const NO_BARRIER: &str =
    "no barrier of the cluster, and nothing that it waited for, comes between the access and the block's exit";

/// A lane reads strongly: it acquires what the flag publishes, or keeps it until a fence. If nothing orders the read
/// after the flag's newest write, the first read returns the value before that write.
pub(super) fn observe(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    (location, lane): (Location, usize),
    access: &Decoded,
) -> Option<u64> {
    let strong = access.strong?;
    let (index, number) = (warp.index as usize, block.clocks.block());
    let thread = (index * LANES + lane) as u16;
    let stale_bytes =
        if access.atomic.is_none() && access.count == 1 && !strong.volatile { access.bytes } else { u8::MAX };
    let look = |clocks: &mut crate::clocks::Clocks, flags: &mut Flags, key: (usize, usize)| {
        let (flag, fenced) = flags.at(key)?;
        let knows = |of: Writer| {
            (of.block, of.thread) == (number, thread)
                || clocks.ordered_across_blocks(of.block, of.clock, of.thread, thread)
        };
        if !fenced && let Some((value, published)) = flag.stale((number, thread), stale_bytes, knows) {
            clocks.observe(index, lane, strong.acquires, strong.scope, published);
            return Some(value);
        }
        flag.see(Writer { block: number, thread, clock: clocks.now(index) });
        clocks.observe(index, lane, strong.acquires, strong.scope, flag.published());
        None
    };
    match location {
        Location::Shared(offset) => {
            let mut flags = std::mem::take(&mut block.clocks.flags);
            let stale = look(&mut block.clocks, &mut flags, (0, offset / 4));
            block.clocks.flags = flags;
            stale
        }
        Location::Global(_, offset) => look(&mut block.clocks, &mut flags(env), (block.last, offset / 4)),
        _ => None,
    }
}

/// A lane writes strongly and replaces this value.
pub(super) fn publish(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    (location, lane): (Location, usize),
    access: &Decoded,
    (change, before): (Change, u64),
) {
    let Some(strong) = access.strong else { return };
    let index = warp.index as usize;
    let published = block.clocks.publishes(index, lane, strong.releases, strong.scope);
    let thread = (index * LANES + lane) as u16;
    let writer = Writer { block: block.clocks.block(), thread, clock: block.clocks.now(index) };
    let before = (before, access.bytes);
    match location {
        Location::Shared(offset) => block.clocks.flags.write((0, offset / 4), change, writer, published, before),
        Location::Global(_, offset) => flags(env).write((block.last, offset / 4), change, writer, published, before),
        _ => {}
    }
}
