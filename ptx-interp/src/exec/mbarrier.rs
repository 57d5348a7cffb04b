//! Instructions on mbarriers, lane by lane. A wait for a phase that is not complete is a poll: the warp yields at the
//! next backward branch, and [`crate::block`] detects when no other thread can continue.

use ptx_gemm_ptx::asynchronous::{Arrival, Pending, Transaction};

use super::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate};
use super::order::{actor, visit};
use super::unordered::{MemoryAccess, race};
use super::{copy, landing, proxy, undefined};
use crate::env::{BlockMemory, Env};
use crate::flags::Scope;
use crate::knowledge::Knowledge;
use crate::mbarrier::{Awaited, Completed, Misuse, PENDING, Tracked};
use crate::op::{Action, MbarrierOp, Ordering, P, PhaseSlot, R32};
use crate::options::Severity;
use crate::row::{LANES, lanes};
use crate::shadow::Actor;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::{Polled, Warp};

#[inline(never)]
pub(super) fn execute<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &MbarrierOp,
    active: u32,
    pc: u32,
) -> Checked {
    if WATCH {
        defined_address(warp, env, op.base, active)?;
        defined_source(warp, env, &op.action, active)?;
    }
    let index = warp.index as usize;
    let releases = match op.action {
        Action::Arrive { ordering: Ordering::Synchronises(scope), .. } if WATCH => Some(scope),
        _ => None,
    };
    let together = if releases.is_some() { block.clocks.knowledge_together(index) } else { Knowledge::default() };
    let addresses = addresses(&warp.regs, op.base, op.offset);
    if matches!(op.action, Action::Wait { .. }) {
        let address = addresses[active.trailing_zeros() as usize];
        warp.polls.last = Some(Polled { pc, address, space: op.space, bytes: 8 });
    }
    let mut published_to = None;
    // The lanes that have waited successfully, with the mbarrier and the phase, and the phases that some lane found
    // still running.
    let mut waited: Vec<((usize, Awaited), P, u32)> = Vec::new();
    let mut refused: Vec<(usize, Awaited)> = Vec::new();
    // Mbarriers that lanes have arrived at, the phase that the first lane found there, and the lanes.
    let mut arrived: Vec<(usize, u64, u32)> = Vec::new();
    for lane in lanes(active) {
        let lane_access =
            LaneAccess { space: op.space, address: addresses[lane], bytes: 8, lane, kind: AccessKind::Read };
        let Location::Shared(offset) = locate(block, env, &lane_access)? else {
            let message = format!("{{thread}} {} an mbarrier that is not in shared memory", op.action.words());
            return Err(Fault::new(ViolationKind::BarrierMisuse, 1 << lane, message));
        };
        let own = block.shared.rank_of(offset) == block.shared.rank();
        if !own {
            remote(warp, block, env, op, At { lane, offset, pc })?;
        }
        if WATCH {
            publish(
                block,
                &op.action,
                (index, lane),
                offset,
                own,
                published_to.replace(offset) != Some(offset),
                &together,
            );
        }
        if WATCH && matches!(op.action, Action::Arrive { .. }) {
            match (arrived.iter_mut().find(|(at, ..)| *at == offset), block.mbarriers.get(offset)) {
                (Some((.., lanes)), _) => *lanes |= 1 << lane,
                (None, Some(barrier)) => arrived.push((offset, barrier.phase(), 1 << lane)),
                (None, None) => {}
            }
        }
        if let Action::Wait { phase, .. } = op.action {
            let awaited = phase_of(warp, phase, lane);
            wide_parity(block, env, op, (awaited, addresses[lane]), ((index * LANES + lane) as u16, pc))?;
        }
        let acted = act::<WATCH>(warp, block, env, &op.action, At { lane, offset, pc });
        let acted = match acted {
            Err(misuse) if block.landing_fault.is_some() || env.watches(ViolationKind::BarrierMisuse) => {
                let own = || misused(op, addresses[lane], 1 << lane, misuse);
                return Err(block.landing_fault.take().unwrap_or_else(own));
            }
            // The arrival is dropped, and the phase that other threads wait for does not complete.
            Err(_) => {
                if let Action::Wait { done, .. } = op.action {
                    warp.regs.set(done.into(), lane, 0);
                    warp.polls.waits += 1;
                }
                continue;
            }
            Ok(over) => over,
        };
        if let Action::Wait { done, phase, .. } = op.action {
            let asked = (offset, phase_of(warp, phase, lane));
            if acted == Over::No && !refused.contains(&asked) {
                refused.push(asked);
            }
            if acted == Over::Yes {
                match waited.last_mut() {
                    Some((of, done_at, lanes)) if (*of, *done_at) == (asked, done) => *lanes |= 1 << lane,
                    _ => waited.push((asked, done, 1 << lane)),
                }
            }
        }
        if WATCH && env.strict {
            ordered(warp, block, env, &op.action, offset, (lane, active), pc)?;
        }
    }
    in_one_phase(block, env, op, &arrived)?;
    // One instruction reads an mbarrier once: lanes that wait for the same phase get the same answer.
    waited.retain(|&((offset, awaited), done, lanes)| {
        let complete = !refused.contains(&(offset, awaited));
        if !complete {
            self::lanes(lanes).for_each(|lane| warp.regs.set(done.into(), lane, 0));
            not_yet(warp, offset);
        }
        complete
    });
    if releases.is_some() {
        block.note(index, active, pc, true);
        block.clocks.tick(index);
    }
    if WATCH {
        match op.action {
            Action::Arrive { state, .. } => warp.taint.clear(warp.taint.at(state), active),
            Action::Wait { done, ordering, .. } => {
                for ((offset, _), _, lanes) in waited {
                    learn(warp, block, ordering, offset, lanes, pc);
                }
                warp.taint.clear(warp.taint.at_pred(done), active);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that the arrivals of lanes at an mbarrier all count for the phase that the first of them found.
fn in_one_phase(block: &BlockMemory, env: &Env, op: &MbarrierOp, arrived: &[(usize, u64, u32)]) -> Checked {
    for &(offset, phase, lanes) in arrived {
        let misuse = block.mbarriers.get(offset).and_then(|barrier| barrier.astride(phase));
        if let Some(misuse) = misuse.filter(|_| env.watches(ViolationKind::BarrierMisuse)) {
            return Err(misused(op, block.shared.address(offset), lanes, misuse));
        }
    }
    Ok(())
}

/// Reports a parity with more than its lowest bit.
fn wide_parity(
    block: &mut BlockMemory,
    env: &Env,
    op: &MbarrierOp,
    (awaited, address): (Awaited, u64),
    (thread, pc): (u16, u32),
) -> Checked {
    let Awaited::Parity(parity @ 2..) = awaited else { return Ok(()) };
    let severity = env.wide_parity;
    if !env.watches(ViolationKind::BarrierMisuse)
        || severity == Severity::Allow
        || (severity == Severity::Warn && !block.warnings.is_new(pc, pc))
    {
        return Ok(());
    }
    let mut fault = misused(op, address, 1 << (usize::from(thread) % LANES), Misuse::Parity(parity));
    if severity == Severity::Deny {
        return Err(fault);
    }
    fault.at = Some((thread, pc));
    block.warnings.faults.push(*fault);
    Ok(())
}

fn misused(op: &MbarrierOp, address: u64, lanes: u32, misuse: Misuse) -> Box<Fault> {
    let message = format!("{{thread}} {} the mbarrier at {address:#x}, {}", op.action.words(), misuse.words());
    let mut fault = Fault::new(ViolationKind::BarrierMisuse, lanes, message);
    fault.address = Some(address);
    fault
}

/// A lane that arrives publishes what it knows, if the arrival releases, or what a fence before it covers. What the lanes of
/// a warp know in common (`together`) is published once, by the `first` of them.
fn publish(
    block: &mut BlockMemory,
    action: &Action,
    (warp, lane): (usize, usize),
    offset: usize,
    own: bool,
    first: bool,
    together: &Knowledge,
) {
    let Action::Arrive { ordering, .. } = action else { return };
    let Ok(barrier) = block.mbarriers.at(offset) else { return };
    let published = if own { barrier.published() } else { barrier.published_by_peers() };
    match ordering {
        Ordering::Synchronises(scope) if own || *scope >= Scope::Cluster => {
            if first {
                published.join(together);
            }
            block.clocks.add_alone(warp, lane, published);
        }
        Ordering::Synchronises(_) => {}
        Ordering::Relaxed => {
            let scope = if own { Scope::Cta } else { Scope::Cluster };
            if let Some(fenced) = block.clocks.fenced(warp, lane, scope) {
                published.join(fenced);
            }
        }
    }
}

/// Lanes have waited for a phase: they know what the arrivals published.
fn learn(warp: &Warp, block: &mut BlockMemory, ordering: Ordering, offset: usize, lanes: u32, pc: u32) {
    let index = warp.index as usize;
    let Some(barrier) = block.mbarriers.get(offset) else { return };
    let (known, of_peers) = barrier.known();
    let Ordering::Synchronises(scope) = ordering else {
        block.clocks.wait_relaxed(index, lanes, known, of_peers);
        return;
    };
    block.clocks.learn(index, lanes, lanes == warp.live, known);
    if scope >= Scope::Cluster && !of_peers.is_empty() {
        block.clocks.learn(index, lanes, lanes == warp.live, of_peers);
    }
    block.note(index, lanes, pc, false);
}

/// Checks a lane's access to an mbarrier of another block.
fn remote(warp: &Warp, block: &mut BlockMemory, env: &Env, op: &MbarrierOp, at: At) -> Checked {
    let actor = actor(warp, block, at.lane, at.pc, None);
    if !matches!(op.action, Action::Arrive { .. } | Action::Transact { .. }) {
        let address = block.shared.address(at.offset);
        let message =
            format!("{{thread}} {} the mbarrier at {address:#x}, {}", op.action.words(), Misuse::Remote.words());
        let mut fault = Fault::new(ViolationKind::BarrierMisuse, 1 << at.lane, message);
        fault.address = Some(address);
        return Err(fault);
    }
    visit(block, env, at.offset, actor, &format!("{} the mbarrier at", op.action.words()))
}

/// A lane's access to an mbarrier.
#[derive(Clone, Copy)]
struct At {
    lane: usize,
    offset: usize,
    pc: u32,
}

fn act<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    action: &Action,
    at: At,
) -> Result<Over, Misuse> {
    let At { lane, offset, pc } = at;
    let index = warp.index as usize;
    let announced = Some(((index * LANES + lane) as u16, pc));
    let clock = if WATCH { block.clocks.now(index) } else { 0 };
    let by = Completed { thread: (index * LANES + lane) as u16, clock };
    let value = |warp: &Warp, slot: R32| warp.regs.r32[slot.0 as usize].0[lane];
    match *action {
        Action::Wait { done, phase, .. } => {
            let over = wait::<WATCH>(warp, block, env, at, phase_of(warp, phase, lane))?;
            warp.regs.set(done.into(), lane, u64::from(over == Over::Yes));
            return Ok(over);
        }
        Action::Init { count } => {
            let replaced = block.mbarriers.init(offset, value(warp, count))?;
            if env.watches(ViolationKind::BarrierMisuse) && env.strict && replaced.is_some() {
                return Err(Misuse::Live);
            }
        }
        Action::Inval => {
            block.mbarriers.invalidate(offset)?;
            if WATCH {
                block.shared.mark(offset, 8, false);
            }
        }
        Action::Arrive { arrival, state, amount, drops, .. } => {
            let barrier = block.mbarriers.at(offset)?;
            let amount = amount.map_or(1, |slot| value(warp, slot));
            warp.regs.set(state, lane, barrier.state());
            let count = match arrival {
                Arrival::Plain => amount,
                Arrival::NoComplete => barrier.incomplete(amount)?,
                Arrival::ExpectTx => {
                    barrier.announced = announced;
                    barrier.expect_bytes(amount)?;
                    1
                }
            };
            if drops {
                barrier.leave(count)?;
            }
            barrier.arrive(count, by)?;
        }
        Action::Transact { transaction: Transaction::Expect, bytes } => {
            let barrier = block.mbarriers.at(offset)?;
            barrier.announced = announced;
            barrier.expect_bytes(value(warp, bytes))?;
        }
        Action::Transact { transaction: Transaction::Complete, bytes } => {
            block.mbarriers.at(offset)?.complete_bytes(value(warp, bytes), by)?;
        }
        Action::Track { pending } => track::<WATCH>(warp, block, pending, lane, offset)?,
    }
    block.wrote_shared = true;
    Ok(Over::No)
}

/// The phase that a lane asks for.
fn phase_of(warp: &Warp, phase: PhaseSlot, lane: usize) -> Awaited {
    match phase {
        PhaseSlot::Parity(slot) => Awaited::Parity(warp.regs.r32[slot.0 as usize].0[lane]),
        PhaseSlot::State(slot) => Awaited::Number(warp.regs.r64[slot.0 as usize].0[lane] & ((1 << PENDING) - 1)),
    }
}

/// Whether the awaited phase is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Yes,
    No,
}

/// Whether the phase is complete. If it is not, copies that arrive here may not be delayed any longer.
///
/// A thread that nothing orders after the completion of the phase first gets the answer that the phase is still
/// running, as if it had asked earlier. This exposes a wait that tests only once, even if the other threads happen to
/// have arrived before.
fn wait<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    At { lane, offset, .. }: At,
    awaited: Awaited,
) -> Result<Over, Misuse> {
    let (index, me) = (warp.index as usize, (warp.index as usize * LANES + lane) as u16);
    // Answers are delayed only to find races.
    let late = WATCH && env.watches(ViolationKind::Race);
    let promised = block.mbarriers.at(offset)?.promises_copies() || block.agents.next_for(offset).is_some();
    if late && promised && !block.mbarriers.at(offset)?.is_over(awaited)? {
        // The copies are still in flight at the first test.
        if block.mbarriers.at(offset)?.delay_once(index, lane) {
            block.wrote_shared = true;
            return Ok(not_yet(warp, offset));
        }
    }
    while !block.mbarriers.at(offset)?.is_over(awaited)? {
        if !land_next(block, offset, env.strict)? && !landing::land_bytes(block, env, offset)? {
            return Ok(not_yet(warp, offset));
        }
    }
    let barrier = block.mbarriers.at(offset)?;
    if late
        && let Some(Completed { thread, clock }) = barrier.completed()
        && thread != me
        && !block.clocks.ordered_across_blocks(block.clocks.block(), clock, thread, me)
        && barrier.delay_once(index, lane)
    {
        // The next test gets another answer, so this is not a deadlock.
        block.wrote_shared = true;
        return Ok(not_yet(warp, offset));
    }
    warp.polls.mbarrier = None;
    Ok(Over::Yes)
}

fn not_yet(warp: &mut Warp, offset: usize) -> Over {
    warp.polls.waits += 1;
    warp.polls.mbarrier = Some(offset);
    Over::No
}

/// Completes the next lane's copies that arrive here, and then its arrival. Returns whether there was such a lane.
fn land_next(block: &mut BlockMemory, offset: usize, strict: bool) -> Result<bool, Misuse> {
    let barrier = block.mbarriers.at(offset)?;
    let Some(next) = barrier.tracked.front_mut() else { return Ok(false) };
    let lane = next.lanes.trailing_zeros();
    let Tracked { warp, copies, .. } = *next;
    next.lanes &= next.lanes - 1;
    if next.lanes == 0 {
        barrier.tracked.pop_front();
    }
    let (column, clock) = copy::land_tracked(block, warp, 1 << lane, copies, strict);
    let number = block.clocks.block();
    let barrier = block.mbarriers.at(offset)?;
    barrier.published().of_mut(number).add_column(column, clock);
    barrier.arrive(1, Completed { thread: (column * LANES) as u16 + lane as u16, clock })?;
    block.wrote_shared = true;
    Ok(true)
}

/// Makes the lane's copies so far arrive. Without checks they are already complete.
fn track<const WATCH: bool>(
    warp: &Warp,
    block: &mut BlockMemory,
    pending: Pending,
    lane: usize,
    offset: usize,
) -> Result<(), Misuse> {
    let index = warp.index as usize;
    let barrier = block.mbarriers.at(offset)?;
    if pending == Pending::Added {
        barrier.expect_one_more()?;
    }
    if !WATCH {
        return barrier.arrive(1, Completed { thread: 0, clock: 0 });
    }
    let copies = block.copies[index].track(lane);
    match barrier.tracked.back_mut() {
        Some(last) if last.warp == index && last.copies == copies && last.lanes >> lane == 0 => last.lanes |= 1 << lane,
        _ => barrier.tracked.push_back(Tracked { warp: index, lanes: 1 << lane, copies }),
    }
    Ok(())
}

/// Initialisation and invalidation are plain writes that must be ordered; the instructions between them are atomic.
fn ordered(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    action: &Action,
    offset: usize,
    (lane, active): (usize, u32),
    pc: u32,
) -> Checked {
    let by = |lane| actor(warp, block, lane, pc, None);
    let actor = by(lane);
    let (kind, checked) = match action {
        Action::Init { .. } | Action::Inval => (AccessKind::Write, block.shadow.write(&block.clocks, offset, 8, actor)),
        _ => {
            let strong = |actor: Actor| Actor { strong: Some(Scope::Cluster), ..actor };
            let mut used = block.shadow.words_after_writers(&block.clocks, offset, 8, strong(actor));
            // The users of an mbarrier matter only when it is invalidated. Without that, recording them would store
            // thousands of waits for nothing. The first of the lanes that use it together represents them all: what it
            // releases later comes after everything that they did there, in one instruction. libcu++ relies on it.
            if env.code.ends_mbarriers && used.is_ok() {
                let first = by(active.trailing_zeros() as usize);
                used = block.shadow.read(&block.clocks, offset, 8, strong(first));
            }
            (AccessKind::Read, used)
        }
    };
    if kind == AccessKind::Write {
        proxy::undisturbed(block, env, (offset, 8), kind, actor)?;
    }
    env.enforce(checked.map_err(|conflict| race(block, env, conflict, MemoryAccess { kind, offset, bytes: 8, actor })))
}

fn defined_source(warp: &Warp, env: &Env, action: &Action, active: u32) -> Checked {
    let Some(slot) = action.source() else { return Ok(()) };
    let tainted = warp.taint.mask(warp.taint.at(slot)) & active;
    if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
        return Err(undefined(warp, env, slot, tainted, "is an operand of an mbarrier instruction"));
    }
    Ok(())
}
