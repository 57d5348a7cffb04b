//! Instructions on mbarriers, lane by lane. A wait that finds its phase running is a poll: the warp gives up its turn at
//! the next branch backward, and [`crate::block`] finds out when nobody else can move.

use ptx_gemm_ptx::asynchronous::{Arrival, Pending, Transaction};

use super::spot::{Spot, Touch, Verb, addresses, defined_address, locate};
use super::watch::{actor, race};
use super::{copy, landing, proxy, undefined};
use crate::env::{BlockMemory, Env};
use crate::mbarrier::{Awaited, Misuse, Tracked};
use crate::op::{Action, MbarrierOp, Ordering, PhaseSlot, R32};
use crate::row::lanes;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

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
    let releases = WATCH && matches!(op.action, Action::Arrive { ordering: Ordering::Synchronises, .. });
    let brings = if releases { block.clocks.knowledge(index) } else { Vec::new() };
    let addresses = addresses(&warp.regs, op.base, op.offset);
    let mut brought_to = None;
    for lane in lanes(active) {
        let touch = Touch { place: op.place, address: addresses[lane], bytes: 8, lane, verb: Verb::Reads };
        let Spot::Shared(offset) = locate(block, env, &touch)? else {
            let message = format!("{{thread}} {} an mbarrier that is not in shared memory", op.action.words());
            return Err(Fault::new(ViolationKind::BarrierMisuse, 1 << lane, message));
        };
        let misused = |misuse: Misuse| {
            let (words, address) = (op.action.words(), addresses[lane]);
            let message = format!("{{thread}} {words} the mbarrier at {address:#x}, {}", misuse.words());
            let mut fault = Fault::new(ViolationKind::BarrierMisuse, 1 << lane, message);
            fault.address = Some(address);
            fault
        };
        // Lanes that arrive at the same mbarrier bring the same clocks.
        let brings = if brought_to.replace(offset) == Some(offset) { &[] } else { brings.as_slice() };
        let acted = act::<WATCH>(warp, block, env, &op.action, At { lane, offset, brings, pc });
        acted.map_err(|misuse| block.landing_fault.take().unwrap_or_else(|| misused(misuse)))?;
        if WATCH && env.strict {
            ordered(warp, block, env, &op.action, offset, lane, pc)?;
        }
    }
    if releases {
        block.clocks.tick(index);
    }
    if WATCH {
        match op.action {
            Action::Arrive { state, .. } => warp.taint.clear(warp.taint.at(state), active),
            Action::Wait { done, .. } => warp.taint.clear(warp.taint.at_pred(done), active),
            _ => {}
        }
    }
    Ok(())
}

/// A lane at an mbarrier, and the clocks that it brings.
struct At<'a> {
    lane: usize,
    offset: usize,
    brings: &'a [u32],
    pc: u32,
}

fn act<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    action: &Action,
    at: At,
) -> Result<(), Misuse> {
    let At { lane, offset, brings, pc } = at;
    let announced = Some((actor(warp, lane, pc, true).thread, pc));
    let value = |warp: &Warp, slot: R32| warp.regs.r32[slot.0 as usize].0[lane];
    match *action {
        Action::Wait { done, phase, ordering } => {
            let awaited = match phase {
                PhaseSlot::Parity(slot) => Awaited::Parity(value(warp, slot)),
                PhaseSlot::State(slot) => Awaited::Number(warp.regs.r64[slot.0 as usize].0[lane]),
            };
            let over = wait::<WATCH>(warp, block, env, offset, awaited, ordering)?;
            warp.regs.set(done.into(), lane, u64::from(over));
            return Ok(());
        }
        Action::Init { count } => {
            let replaced = block.mbarriers.init(offset, value(warp, count))?;
            if env.strict && replaced.is_some() {
                return Err(Misuse::Live);
            }
        }
        Action::Inval => {
            block.mbarriers.invalidate(offset)?;
            if WATCH {
                block.shared.mark(offset, 8, false);
            }
        }
        Action::Arrive { arrival, state, amount, .. } => {
            let barrier = block.mbarriers.at(offset)?;
            let amount = amount.map_or(1, |slot| value(warp, slot));
            warp.regs.set(state, lane, barrier.phase());
            barrier.bring(brings.iter().copied().enumerate());
            let count = match arrival {
                Arrival::Plain => amount,
                Arrival::ExpectTx => {
                    barrier.announced = announced;
                    barrier.expect_bytes(amount)?;
                    1
                }
            };
            barrier.arrive(count)?;
        }
        Action::Transact { transaction: Transaction::Expect, bytes } => {
            let barrier = block.mbarriers.at(offset)?;
            barrier.announced = announced;
            barrier.expect_bytes(value(warp, bytes))?;
        }
        Action::Transact { transaction: Transaction::Complete, bytes } => {
            block.mbarriers.at(offset)?.complete_bytes(value(warp, bytes))?;
        }
        Action::Track { pending } => track::<WATCH>(warp, block, pending, lane, offset)?,
    }
    block.wrote_shared = true;
    Ok(())
}

/// Whether the phase is over. If it is not, copies that arrive here may take their time no longer.
fn wait<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    offset: usize,
    awaited: Awaited,
    ordering: Ordering,
) -> Result<bool, Misuse> {
    while !block.mbarriers.at(offset)?.is_over(awaited)? {
        if !land_next(block, offset, env.strict)? && !landing::land_bytes(block, env, offset)? {
            warp.polls.waits += 1;
            warp.polls.mbarrier = Some(offset);
            return Ok(false);
        }
    }
    warp.polls.mbarrier = None;
    if WATCH && ordering == Ordering::Synchronises {
        let known = block.mbarriers.at(offset)?.known();
        block.clocks.learn(warp.index as usize, known);
    }
    Ok(true)
}

/// Lands the copies of the next lane that lets them arrive here, which then does; whether there was one.
fn land_next(block: &mut BlockMemory, offset: usize, strict: bool) -> Result<bool, Misuse> {
    let barrier = block.mbarriers.at(offset)?;
    let Some(next) = barrier.tracked.front_mut() else { return Ok(false) };
    let lane = next.lanes.trailing_zeros();
    let Tracked { warp, copies, .. } = *next;
    next.lanes &= next.lanes - 1;
    if next.lanes == 0 {
        barrier.tracked.pop_front();
    }
    let landed = copy::land_tracked(block, warp, 1 << lane, copies, strict);
    let barrier = block.mbarriers.at(offset)?;
    barrier.bring(std::iter::once(landed));
    barrier.arrive(1)?;
    block.wrote_shared = true;
    Ok(true)
}

/// The lane's copies so far are to arrive. Unwatched they have landed already.
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
        return barrier.arrive(1);
    }
    let copies = block.copies[index].track(lane);
    match barrier.tracked.back_mut() {
        Some(last) if last.warp == index && last.copies == copies && last.lanes >> lane == 0 => last.lanes |= 1 << lane,
        _ => barrier.tracked.push_back(Tracked { warp: index, lanes: 1 << lane, copies }),
    }
    Ok(())
}

/// Initialisation and its end are plain writes that something has to order; everything between them is atomic.
fn ordered(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    action: &Action,
    offset: usize,
    lane: usize,
    pc: u32,
) -> Checked {
    let (verb, checked) = match action {
        Action::Init { .. } | Action::Inval => {
            (Verb::Writes, block.shadow.write(&block.clocks, offset, 8, actor(warp, lane, pc, false)))
        }
        _ => (Verb::Reads, block.shadow.read(&block.clocks, offset, 8, actor(warp, lane, pc, true))),
    };
    if verb == Verb::Writes {
        proxy::undisturbed(warp, block, env, offset, 8, verb, lane)?;
    }
    checked.map_err(|conflict| race(env, conflict, verb, offset, 8, lane))
}

fn defined_source(warp: &Warp, env: &Env, action: &Action, active: u32) -> Checked {
    let Some(slot) = action.source() else { return Ok(()) };
    let tainted = warp.taint.mask(warp.taint.at(slot)) & active;
    if tainted != 0 && env.strict {
        return Err(undefined(warp, env, slot, tainted, "is an mbarrier's operand"));
    }
    Ok(())
}
