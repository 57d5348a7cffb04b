//! What the checks and the counters want to know of an access that is fine as such: initialised bytes, races, write-once
//! memory, cost.

use super::proxy;
use super::rows::Spread;
use super::spot::{Spot, Touch, Verb};
use crate::address::SHARED_START;
use crate::cost::Way;
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::op::Access;
use crate::row::{LANES, lanes};
use crate::shadow::{Actor, Conflict};
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
    let mut tainted = [0u32; 4];
    // Looks at the elements one by one only where the whole is not written.
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
            shared(warp, block, env, Verb::Reads, offsets, active, span, pc)?;
        }
        Spread::Global(buffer, offsets) => {
            for lane in lanes(active) {
                let offset = offsets[lane] as usize;
                if !buffer.is_written(offset, span) {
                    unwritten(lane, &|skip| buffer.is_written(offset + skip, bytes));
                }
            }
            global(warp, block, env, Verb::Reads, offsets, active, span, pc)?;
            count_global(block, Verb::Reads, offsets, active, span);
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
    match spread {
        Spread::Shared(offsets) => {
            shared(warp, block, env, Verb::Writes, offsets, active, span, pc)?;
            for (element, slot) in access.values[..usize::from(access.count)].iter().enumerate() {
                let tainted = warp.taint.mask(warp.taint.at(*slot));
                for lane in lanes(active) {
                    block.shared.mark(offsets[lane] as usize + element * bytes, bytes, tainted >> lane & 1 == 0);
                }
            }
        }
        Spread::Global(_, offsets) => {
            global(warp, block, env, Verb::Writes, offsets, active, span, pc)?;
            count_global(block, Verb::Writes, offsets, active, span);
            let mapped = env.global.at(block.last);
            if mapped.is_write_once() {
                for lane in lanes(active) {
                    written_once(block, env, mapped, offsets[lane] as usize, span, lane)?;
                }
            }
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // the two callers differ in the verb alone
fn shared(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    verb: Verb,
    offsets: &[u32; LANES],
    active: u32,
    bytes: usize,
    pc: u32,
) -> Checked {
    if env.strict {
        for lane in lanes(active) {
            let offset = offsets[lane] as usize;
            let actor = actor(warp, lane, pc, false);
            no_mbarrier(block, offset, bytes, verb, lane)?;
            proxy::undisturbed(warp, block, env, offset, bytes, verb, lane)?;
            let ordered = match verb {
                Verb::Reads => block.shadow.read(&block.clocks, offset, bytes, actor),
                Verb::Writes => block.shadow.write(&block.clocks, offset, bytes, actor),
            };
            if let Err(conflict) = ordered {
                return Err(race(env, conflict, verb, offset, bytes, lane));
            }
        }
    }
    if let Some(counters) = &mut block.counters {
        let touched: Vec<(usize, u32)> = lanes(active).map(|lane| (lane, offsets[lane])).collect();
        counters.shared(way(verb), &touched, bytes as u32);
    }
    Ok(())
}

/// A row of accesses to one allocation of global memory, next to asynchronous copies.
#[allow(clippy::too_many_arguments)] // the two callers differ in the verb alone
#[inline(always)]
fn global(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    verb: Verb,
    offsets: &[u64; LANES],
    active: u32,
    bytes: usize,
    pc: u32,
) -> Checked {
    if !env.strict || env.code.bulks.is_empty() {
        return Ok(());
    }
    for lane in lanes(active) {
        let address = env.global.at(block.last).buffer.address(offsets[lane] as usize);
        proxy::global(warp, block, env, (address, bytes as u64), verb, lane, pc)?;
    }
    Ok(())
}

fn way(verb: Verb) -> Way {
    match verb {
        Verb::Reads => Way::Load,
        Verb::Writes => Way::Store,
    }
}

fn count_global(block: &mut BlockMemory, verb: Verb, offsets: &[u64; LANES], active: u32, bytes: usize) {
    if let Some(counters) = &mut block.counters {
        let touched: Vec<u64> = lanes(active).map(|lane| offsets[lane]).collect();
        counters.global(way(verb), &touched, &vec![block.last; touched.len()], bytes as u64);
    }
}

/// A lane at an instruction, as the race detector knows it.
pub(super) fn actor(warp: &Warp, lane: usize, pc: u32, strong: bool) -> Actor {
    Actor { thread: (warp.index as usize * LANES + lane) as u16, pc, strong }
}

/// One lane touches memory: the row checks, lane by lane.
pub(super) fn touched(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    touch: &Touch,
    spot: Spot,
    pc: u32,
    strong: bool,
) -> Checked {
    let bytes = touch.bytes as usize;
    if let Spot::Global(mapped, offset) = spot
        && env.strict
    {
        proxy::global(warp, block, env, (mapped.buffer.address(offset), touch.bytes), touch.verb, touch.lane, pc)?;
    }
    match (spot, touch.verb) {
        (Spot::Shared(offset), verb) if env.strict => {
            let actor = actor(warp, touch.lane, pc, strong);
            let index = warp.index as usize;
            no_mbarrier(block, offset, bytes, verb, touch.lane)?;
            proxy::undisturbed(warp, block, env, offset, bytes, verb, touch.lane)?;
            if strong {
                block.clocks.observe(index, offset / 4);
            }
            let ordered = match verb {
                Verb::Reads => block.shadow.read(&block.clocks, offset, bytes, actor),
                Verb::Writes => block.shadow.write(&block.clocks, offset, bytes, actor),
            };
            if strong && verb == Verb::Writes {
                block.clocks.publish(index, offset / 4);
            }
            ordered.map_err(|conflict| race(env, conflict, verb, offset, bytes, touch.lane))
        }
        (Spot::Global(mapped, offset), Verb::Writes) if mapped.is_write_once() => {
            written_once(block, env, mapped, offset, bytes, touch.lane)
        }
        _ => Ok(()),
    }
}

/// Each byte of a write-once allocation may be written by one thread of the launch, once.
pub(super) fn written_once(
    block: &BlockMemory,
    env: &Env,
    mapped: &Mapped,
    offset: usize,
    bytes: usize,
    lane: usize,
) -> Checked {
    let Some(first) = mapped.write_once(offset, bytes, block.number) else { return Ok(()) };
    if !env.strict {
        return Ok(());
    }
    let label = &mapped.buffer.label;
    let address = mapped.buffer.start + (offset - mapped.buffer.offset(mapped.buffer.start)) as u64;
    let message = format!(
        "{{thread}} writes {} at {address:#x}, byte {} of `{label}`, which block {} has written already",
        in_words(bytes as u64),
        address - mapped.buffer.start,
        triple(env.ctaid(u64::from(first)))
    );
    let mut fault = Fault::new(ViolationKind::WrittenTwice, 1 << lane, message);
    (fault.address, fault.label) = (Some(address), Some(label.to_string()));
    Err(fault)
}

/// The bytes of an mbarrier are for its own instructions.
#[inline(always)]
pub(super) fn no_mbarrier(block: &BlockMemory, offset: usize, bytes: usize, verb: Verb, lane: usize) -> Checked {
    match block.mbarriers.touched(offset, bytes) {
        None => Ok(()),
        Some(start) => Err(mbarrier_touched(offset, bytes, start, verb, lane)),
    }
}

#[cold]
fn mbarrier_touched(offset: usize, bytes: usize, start: usize, verb: Verb, lane: usize) -> Box<Fault> {
    let [address, start] = [offset, start].map(|offset| offset as u64 + u64::from(SHARED_START));
    let message = format!(
        "{{thread}} {} {} at shared address {address:#x}, a part of the mbarrier at {start:#x}",
        verb.word(),
        in_words(bytes as u64)
    );
    let mut fault = Fault::new(ViolationKind::BarrierMisuse, 1 << lane, message);
    fault.address = Some(address);
    fault
}

/// The report of two accesses without an order.
#[cold]
pub(super) fn race(env: &Env, conflict: Conflict, verb: Verb, offset: usize, bytes: usize, lane: usize) -> Box<Fault> {
    let (other, did, why) = match conflict {
        Conflict::Written(other) => (other, "wrote", "and nothing orders the two"),
        Conflict::Read(other) => (other, "read", "and nothing orders the two"),
        Conflict::InFlight(other) => (other, "started to copy to", "a copy that has not been waited for"),
    };
    // Copies that have landed for an mbarrier have numbers behind the threads'.
    let thread = u32::from(other.thread) % (env.warps() * LANES as u32);
    let address = offset as u64 + u64::from(SHARED_START);
    let origin = &env.code.origins[other.pc as usize];
    let clause = origin.note.as_ref().map_or_else(String::new, |note| format!(", from the clause `{}`", note.clause));
    let message = format!(
        "{{thread}} {} {} at shared address {address:#x}, which thread {} {did} at line {} (`{}`{clause}), {why}",
        verb.word(),
        in_words(bytes as u64),
        triple(env.tid(thread)),
        origin.line,
        origin.text
    );
    let mut fault = Fault::new(ViolationKind::Race, 1 << lane, message);
    fault.address = Some(address);
    fault.other = Some(thread as u16);
    fault
}

/// Collects an instruction's accesses for the counters when it goes lane by lane.
#[derive(Default)]
pub(super) struct Tally {
    shared: Vec<(usize, u32)>,
    addresses: Vec<u64>,
    allocations: Vec<usize>,
}

impl Tally {
    pub(super) fn add(&mut self, block: &BlockMemory, spot: Spot, touch: &Touch) {
        if block.counters.is_none() {
            return;
        }
        match spot {
            Spot::Shared(offset) => self.shared.push((touch.lane, offset as u32)),
            Spot::Global(_, offset) => {
                self.addresses.push(offset as u64);
                self.allocations.push(block.last);
            }
            _ => {}
        }
    }

    pub(super) fn count(&self, block: &mut BlockMemory, verb: Verb, bytes: u64) {
        let Some(counters) = &mut block.counters else { return };
        if !self.shared.is_empty() {
            counters.shared(way(verb), &self.shared, bytes as u32);
        }
        if !self.addresses.is_empty() {
            counters.global(way(verb), &self.addresses, &self.allocations, bytes);
        }
    }
}
