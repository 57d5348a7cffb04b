//! Multiplications by warp groups ([`crate::groups`]): this module starts them, with every check that is possible then,
//! and waits for them. [`super::landing`] computes.

use super::descriptor::{Descriptor, PIECE};
use super::{landing, whole};
use crate::address::SHARED_START;
use crate::address::StateSpace;
use crate::agents::Use;
use crate::env::{BlockMemory, Env};
use crate::exec::locate::{AccessKind, LaneAccess, out_of_shared};
use crate::exec::order;
use crate::exec::proxy::{self, Starter};
use crate::exec::undefined;
use crate::exec::unordered::{MemoryAccess, race};
use crate::groups::{Role, Terms, Touch, WARPS, first_thread};
use crate::knowledge::Knowledge;
use crate::op::{GroupMultiply, Left, Major, P, R64, Slot, Sum};
use crate::options::Watch;
use crate::row::LANES;
use crate::shadow::Past;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// Rows of A.
const M: usize = 64;

/// A warp starts a multiplication of its group.
#[inline(never)]
pub(in crate::exec) fn start<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    index: u32,
    pc: u32,
) -> Checked {
    whole(warp, env)?;
    let multiply = &env.code.group_multiplies[index as usize];
    let own = warp.index as usize;
    if block.groups.of(own).is_none() {
        let message = format!("{{thread}}: its block has {} warps, not all {WARPS} of its warp group", env.warps());
        return Err(Fault::new(ViolationKind::Launch, warp.live, message));
    }
    let descriptor_a = match multiply.a {
        Left::Descriptor { descriptor, .. } => uniform(warp, env, descriptor)?,
        Left::Registers(_) => 0,
    };
    let terms = Terms {
        pc,
        descriptors: [descriptor_a, uniform(warp, env, multiply.b)?],
        adds: uniform_predicate(warp, env, multiply.scale_d)?,
    };
    if env.watches(ViolationKind::Wgmma) {
        registers(warp, env, multiply, index, pc)?;
    }
    match block.groups.start(own, terms) {
        Some(others) => agrees(warp, env, &terms, &others)?,
        None => {
            let pieces = pieces(warp, block, multiply, &terms)?;
            let number = warp.flight.started;
            if let Some(multiplication) = block.groups.get_mut(own, number) {
                multiplication.pieces = pieces;
            }
        }
    }
    let number = warp.flight.started;
    (warp.flight.started, warp.flight.last) = (number + 1, pc);
    if WATCH && env.strict {
        read(warp, block, env, number, pc)?;
    }
    if block.agents.lands_at_once() && warp.flight.landed == number {
        landing::land::<WATCH>(warp, block, env, number + 1);
    }
    Ok(())
}

/// The value of a register, which all lanes have to agree on.
fn uniform(warp: &Warp, env: &Env, slot: R64) -> Checked<u64> {
    defined(warp, env, slot.into(), "is a matrix descriptor")?;
    let row = &warp.regs.r64[slot.0 as usize].0;
    let first = row[0];
    match row.iter().position(|value| *value != first) {
        Some(lane) if env.watches(ViolationKind::InvalidOperand) => {
            let message = format!(
                "{{thread}} has the matrix descriptor {:#x}, and another thread of its warp {first:#x}",
                row[lane]
            );
            Err(Fault::new(ViolationKind::InvalidOperand, 1 << lane, message))
        }
        _ => Ok(first),
    }
}

fn uniform_predicate(warp: &Warp, env: &Env, slot: P) -> Checked<bool> {
    defined(warp, env, slot.into(), "says whether D is added to")?;
    let word = warp.regs.preds[slot.0 as usize];
    if word != 0 && word != u32::MAX && env.watches(ViolationKind::InvalidOperand) {
        let message = "the threads of a warp disagree whether D is added to";
        return Err(Fault::new(ViolationKind::InvalidOperand, word, message));
    }
    Ok(word & 1 != 0)
}

fn defined(warp: &Warp, env: &Env, slot: Slot, what: &str) -> Checked {
    if !env.watches(ViolationKind::Uninitialised) {
        return Ok(());
    }
    match warp.taint.mask(warp.taint.at(slot)) {
        0 => Ok(()),
        tainted => Err(undefined(warp, env, slot, tainted, what)),
    }
}

fn wgmma(warp: &Warp, message: String) -> Box<Fault> {
    Fault::new(ViolationKind::Wgmma, warp.live, message)
}

/// Checks that the multiplication is the one that other warps of the group have started.
fn agrees(warp: &Warp, env: &Env, terms: &Terms, others: &Terms) -> Checked {
    match terms.difference(others) {
        Some(what) if env.watches(ViolationKind::Wgmma) => Err(wgmma(
            warp,
            format!(
                "{{thread}} starts a multiplication which another warp of its warp group has started at {}, with {what}",
                proxy::line(env, others.pc)
            ),
        )),
        _ => Ok(()),
    }
}

/// Checks that accumulators and fragments are fenced and not in use.
fn registers(warp: &mut Warp, env: &Env, multiply: &GroupMultiply, index: u32, pc: u32) -> Checked {
    if !warp.flight.has_fenced() {
        let message =
            "{thread} starts a multiplication of its warp group, and has not executed a fence of its registers before";
        return Err(wgmma(warp, message.into()));
    }
    let first_alike = env.code.group_multiplies.iter().position(|other| shape(other) == shape(multiply));
    let accumulator = Role::Accumulator(first_alike.map_or(index, |first| first as u32));
    let fragments = if let Left::Registers(a) = &multiply.a { a.as_slice() } else { &[] };
    let all = multiply.d.iter().map(|slot| (slot, accumulator));
    for (slot, role) in all.chain(fragments.iter().map(|slot| (slot, Role::Fragment))) {
        let taken = warp.flight.take(env.code.group_registers.number(*slot), role, pc);
        let Err(touch) = taken else { continue };
        let name = &env.code.names[warp.taint.at32(*slot)];
        let message = match touch {
            Touch::Unfenced(at) => format!(
                "{{thread}} starts a multiplication with {name}, which {} has used, without a fence of the warp group's \
                 registers in between",
                proxy::line(env, at)
            ),
            Touch::InFlight(at, role) => format!(
                "{{thread}} starts a multiplication with {name}, which is {} of the multiplication at {}, and has not \
                 waited for that",
                part(role),
                proxy::line(env, at)
            ),
        };
        return Err(wgmma(warp, message));
    }
    Ok(())
}

fn shape(multiply: &GroupMultiply) -> (u16, Sum) {
    (multiply.n, multiply.sum)
}

fn part(role: Role) -> &'static str {
    match role {
        Role::Accumulator(_) => "an accumulator",
        Role::Fragment => "a fragment of A",
    }
}

/// Checks that instructions do not use registers of multiplications in flight.
#[inline(always)]
pub(in crate::exec) fn untouched(warp: &mut Warp, env: &Env, pc: u32, len: u32) -> Checked {
    let registers = &env.code.group_registers;
    if registers.used_by(pc, len).is_empty() {
        return Ok(());
    }
    for at in pc..pc + len {
        for &number in registers.used_by(at, 1) {
            if let Err(touch) = warp.flight.touch(number, at) {
                let mut fault = touched(warp, env, number, touch);
                fault.pc = Some(at);
                return Err(fault);
            }
        }
    }
    Ok(())
}

#[cold]
fn touched(warp: &Warp, env: &Env, number: u32, touch: Touch) -> Box<Fault> {
    let slot = env.code.group_registers.slots[number as usize];
    let name = &env.code.names[warp.taint.at32(slot)];
    let (Touch::InFlight(at, _) | Touch::Unfenced(at)) = touch;
    let role = if let Touch::InFlight(_, role) = touch { part(role) } else { "a register" };
    let message = format!(
        "{{thread}} uses {name}, {role} of the multiplication at {}, and has not waited for that",
        proxy::line(env, at)
    );
    wgmma(warp, message)
}

/// Offsets of the pieces of both operands in shared memory.
fn pieces(warp: &Warp, block: &BlockMemory, multiply: &GroupMultiply, terms: &Terms) -> Checked<[Vec<u32>; 2]> {
    let own = u64::from(block.shared.start() - SHARED_START);
    let of = |name: &str, bits: u64, major: Major, lines: usize| {
        let descriptor = Descriptor::decode(bits, major, lines).map_err(|why| {
            let message = format!("{{thread}}: the matrix descriptor of {name}, {bits:#x}, {why}");
            Fault::new(ViolationKind::Descriptor, warp.live, message)
        })?;
        // A descriptor has no bits for the rank of a block: it describes the block's own memory.
        let offset = |address: u64| match block.shared.offset(own + address, PIECE) {
            Some(offset) => Ok(offset as u32),
            None => {
                let (space, kind) = (Some(StateSpace::Shared), AccessKind::Read);
                let access = LaneAccess { space, address: own + address, bytes: PIECE, lane: 0, kind };
                Err(out_of_shared(block, &access))
            }
        };
        descriptor.pieces(major, lines).map(offset).collect::<Checked<Vec<u32>>>()
    };
    let a = match multiply.a {
        Left::Descriptor { major, .. } => of("A", terms.descriptors[0], major, M)?,
        Left::Registers(_) => Vec::new(),
    };
    Ok([a, of("B", terms.descriptors[1], multiply.b_major, multiply.n.into())?])
}

/// Checks that a warp may read the operands, and records that its group does.
fn read(warp: &Warp, block: &mut BlockMemory, env: &Env, number: u32, pc: u32) -> Checked {
    let own = warp.index as usize;
    let Some(multiplication) = block.groups.get_mut(own, number) else { return Ok(()) };
    let lanes = if block.clocks.lanes_differ(own) { LANES } else { 1 };
    if lanes == 1
        && let Some(copies) = &multiplication.copies
        && copies.iter().all(|(column, clock)| block.clocks.knows_copies(first_thread(own), *column, *clock))
    {
        // The first warp has checked every piece.
        return Ok(());
    }
    let mut copies = Some(Vec::new());
    let pieces = std::mem::take(&mut multiplication.pieces);
    let reading = Use { clock: number + 1, thread: first_thread(own), pc, began: block.clocks.now(own) };
    for &offset in pieces.iter().flatten() {
        for lane in 0..lanes {
            let starter = Starter { thread: first_thread(own) + lane as u16, lane, pc };
            read_piece(block, env, starter, offset as usize)?;
        }
        block.agents.multiply(own / WARPS, offset, reading);
        match block.agents.written(offset) {
            Some(copy) if block.shadow.has_no_writer(offset as usize, PIECE as usize) => {
                if let Some(known) = &mut copies
                    && !known.contains(&copy)
                {
                    known.push(copy);
                }
            }
            _ => copies = None,
        }
    }
    if let Some(multiplication) = block.groups.get_mut(own, number) {
        (multiplication.pieces, multiplication.copies) = (pieces, copies);
    }
    Ok(())
}

#[inline(always)]
fn read_piece(block: &mut BlockMemory, env: &Env, starter: Starter, offset: usize) -> Checked {
    let (bytes, kind) = (PIECE as usize, AccessKind::Read);
    env.enforce(order::no_mbarrier(block, offset, bytes, kind, starter.lane))?;
    proxy::undisturbed(block, env, (offset, bytes), kind, starter.actor(block))?;
    if block.shadow.has_no_writer(offset, bytes) {
        return Ok(());
    }
    read_written(block, env, starter, offset)
}

/// The part of the check for bytes that threads have written.
#[inline(never)]
fn read_written(block: &mut BlockMemory, env: &Env, starter: Starter, offset: usize) -> Checked {
    let (bytes, kind, actor) = (PIECE as usize, AccessKind::Read, starter.actor(block));
    let mut pasts: Vec<Past> = Vec::new();
    let seen = |past: Past| match pasts.last_mut() {
        Some(last) if (last.pc, last.warp, last.clock, last.did) == (past.pc, past.warp, past.clock, past.did) => {
            last.lanes |= past.lanes;
        }
        _ => pasts.push(past),
    };
    let ordered = block.shadow.hand_over(&block.clocks, offset, bytes, actor, false, seen);
    env.enforce(ordered.map_err(|conflict| race(block, env, conflict, MemoryAccess { kind, offset, bytes, actor })))?;
    proxy::fenced(block, env, starter, &pasts, kind, block.shared.address(offset))
}

/// Waits for all but the newest groups. Returns the number of multiplications that other warps have to start first, if
/// any.
#[inline(never)]
pub(in crate::exec) fn wait<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    pending: u32,
    pc: u32,
) -> Option<u32> {
    let own = warp.index as usize;
    let awaited = warp.flight.awaited(pending);
    if !block.groups.have_started(own, awaited) {
        return Some(awaited);
    }
    landing::land::<WATCH>(warp, block, env, awaited);
    warp.flight.complete(awaited);
    if env.watch == Watch::On && awaited > 0 {
        if let Some(column) = block.agents.column_of_group(own / WARPS) {
            let mut known = Knowledge::default();
            known.of_mut(block.clocks.block()).add_copies(column, awaited);
            block.clocks.learn(own, warp.live, true, &known);
        }
        block.note(own, warp.live, pc, false);
    }
    None
}
