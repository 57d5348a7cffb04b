//! What the checks and the counters want to know of an access that is fine as such: initialised bytes, races, write-once
//! memory, cost.

use super::order;
use super::rows::Spread;
use super::spot::{Spot, Touch, Verb};
use crate::cost::Way;
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::op::{Access, Strong};
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
            if env.strict {
                let offset = |lane: usize| offsets[lane] as usize;
                order::global_row(warp, block, env, Verb::Reads, &offset, active, span, pc, None)?;
            }
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
            count_global(block, Verb::Writes, offsets, active, span);
            let mapped = env.global.at(block.last);
            if mapped.is_write_once() {
                for lane in lanes(active) {
                    written_once(block, env, mapped, offsets[lane] as usize, span, lane)?;
                }
            }
            if env.strict {
                let offset = |lane: usize| offsets[lane] as usize;
                order::global_row(warp, block, env, Verb::Writes, &offset, active, span, pc, None)?;
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
        order::shared_row(warp, block, env, verb, offsets, active, bytes, pc)?;
    }
    if let Some(counters) = &mut block.counters {
        let touched: Vec<(usize, u32)> = lanes(active).map(|lane| (lane, offsets[lane])).collect();
        counters.shared(pc, way(verb), &touched, bytes as u32);
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

/// One lane touches memory: the row checks, lane by lane.
pub(super) fn touched(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    touch: &Touch,
    spot: Spot,
    pc: u32,
    strong: Option<Strong>,
) -> Checked {
    if !env.strict {
        return Ok(());
    }
    if let (Spot::Global(mapped, offset), Verb::Writes) = (spot, touch.verb)
        && mapped.is_write_once()
    {
        written_once(block, env, mapped, offset, touch.bytes as usize, touch.lane)?;
    }
    order::touched(warp, block, env, touch, spot, pc, strong)
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
    if !env.watches(ViolationKind::WrittenTwice) {
        return Ok(());
    }
    let (address, label) = mapped.place(offset);
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

    pub(super) fn count(&self, block: &mut BlockMemory, verb: Verb, bytes: u64, pc: u32) {
        let Some(counters) = &mut block.counters else { return };
        if !self.shared.is_empty() {
            counters.shared(pc, way(verb), &self.shared, bytes as u32);
        }
        if !self.addresses.is_empty() {
            counters.global(way(verb), &self.addresses, &self.allocations, bytes);
        }
    }
}
