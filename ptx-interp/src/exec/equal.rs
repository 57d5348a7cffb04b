//! Stores that nothing orders: a race, unless both store the same bits.
//!
//! Lanes of one instruction may store equal bits to one word, since CUDA's guide guarantees that one of the stores takes
//! place. Equal bits from different instructions are a warning ([`crate::Options::equal_stores`]): no thread can tell
//! the order of the two, but a program that works only as long as the bits are equal is easily broken.

use super::locate::AccessKind;
use super::unordered::{MemoryAccess, global_fault, race};
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::global::shadow::{Detail, GlobalShadow, Row};
use crate::op::{Access as Decoded, Slot};
use crate::options::Severity;
use crate::row::LANES;
use crate::shadow::{Access, Actor, Conflict};
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// What the lanes of a weak store write.
pub(super) struct Stored<'a> {
    pub(super) warp: &'a Warp,
    /// A byte that a lane writes, by its position; `None` if the lane has no value for it.
    pub(super) byte: &'a dyn Fn(usize, usize) -> Option<u8>,
    /// Bytes of a lane.
    pub(super) span: usize,
    pub(super) active: u32,
    /// A number for each active lane: lanes with equal numbers write the same bytes.
    pub(super) place: &'a dyn Fn(usize) -> u64,
}

/// How two stores of the same bits came about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Same {
    Instruction,
    Bits,
}

/// The bytes that lanes write by an access.
pub(super) fn bytes_of<'a>(warp: &'a Warp, access: &'a Decoded) -> impl Fn(usize, usize) -> Option<u8> + 'a {
    let size = usize::from(access.bytes);
    move |lane, position| byte_of(warp, access.values[position / size], lane, position % size)
}

/// A byte of a lane's register, unless it was never written.
pub(super) fn byte_of(warp: &Warp, slot: Slot, lane: usize, position: usize) -> Option<u8> {
    let defined = warp.taint.mask(warp.taint.at(slot)) >> lane & 1 == 0;
    defined.then(|| (warp.regs.get(slot, lane) >> (8 * position)) as u8)
}

impl Stored<'_> {
    /// Whether a lane writes the bits that another store wrote to these bytes. `memory` has what is there before this
    /// instruction, or after its first lanes.
    fn same(
        &self,
        env: &Env,
        actor: Actor,
        (skip, len): (usize, usize),
        other: &Access,
        memory: &dyn Fn(usize) -> Option<u8>,
    ) -> Option<Same> {
        if !env.is_weak_store(other.actor.pc) {
            return None;
        }
        let (lane, before) = (usize::from(actor.thread) % LANES, usize::from(other.actor.thread) % LANES);
        let of_warp = usize::from(other.actor.thread) / LANES == self.warp.index as usize;
        let instruction = (other.actor.block, other.actor.pc) == (actor.block, actor.pc)
            && of_warp
            && before < lane
            && self.active >> before & 1 != 0
            && (self.place)(before) == (self.place)(lane);
        let equal = |bytes: &dyn Fn(usize) -> Option<u8>| {
            (skip..skip + len).all(|position| {
                let own = (self.byte)(lane, position);
                own.is_some() && own == bytes(position)
            })
        };
        match instruction {
            true => equal(&|position| (self.byte)(before, position)).then_some(Same::Instruction),
            false => equal(memory).then_some(Same::Bits),
        }
    }
}

/// Checks a store to shared memory after it was found to conflict with another access.
#[cold]
pub(super) fn shared(
    stored: &Stored<'_>,
    block: &mut BlockMemory,
    env: &Env,
    (offset, bytes): (usize, usize),
    actor: Actor,
) -> Checked {
    let mut found: Option<Access> = None;
    let BlockMemory { shared, shadow, clocks, .. } = &mut *block;
    let memory = |position: usize| {
        let at = offset + position;
        shared.is_written(at, 1).then(|| shared.load(at, 1) as u8)
    };
    let judged = shadow.write_equal(clocks, offset, bytes, actor, &mut |skip, len, other| {
        let same = stored.same(env, actor, (skip, len), other, &memory);
        found = found.or(Some(*other).filter(|_| same == Some(Same::Bits)));
        same.is_some()
    });
    if let Err(conflict) = judged {
        return env.enforce(Err(race(
            block,
            env,
            conflict,
            MemoryAccess { kind: AccessKind::Write, offset, bytes, actor },
        )));
    }
    let Some(other) = found else { return Ok(()) };
    let fault = |block: &BlockMemory| {
        race(block, env, Conflict::Equal(other), MemoryAccess { kind: AccessKind::Write, offset, bytes, actor })
    };
    told(block, env, (&other, actor), &fault)
}

/// Checks a row of stores to an allocation. Returns what [`GlobalShadow::touch`] does.
pub(super) fn global(
    stored: &Stored<'_>,
    block: &mut BlockMemory,
    env: &Env,
    (mapped, shadow): (&Mapped, &GlobalShadow),
    row: &Row<'_>,
) -> Checked<Result<(), (usize, Conflict)>> {
    let mut found: Option<(usize, Access)> = None;
    let touched = shadow.touch(
        &mapped.buffer,
        &block.clocks,
        row,
        Some(&mut |lane, skip, len, other| {
            let actor = Actor { thread: row.actor.thread + lane as u16, ..row.actor };
            let memory = |position: usize| {
                let at = (row.offsets)(lane) + position;
                mapped.buffer.is_written(at, 1).then(|| mapped.buffer.load(at, 1) as u8)
            };
            // While blocks run in parallel, memory may have the bits of yet another store.
            let exact = env.detail == Detail::Exact;
            let same = stored.same(env, actor, (skip, len), other, &memory);
            let same = same.filter(|same| exact || *same == Same::Instruction);
            found = found.or(Some((lane, *other)).filter(|_| same == Some(Same::Bits)));
            same.is_some()
        }),
    );
    if let Some((lane, other)) = found {
        let actor = Actor { thread: row.actor.thread + lane as u16, ..row.actor };
        let (offset, bytes) = ((row.offsets)(lane), row.bytes);
        let fault = |block: &BlockMemory| {
            global_fault(
                block,
                env,
                mapped,
                Conflict::Equal(other),
                MemoryAccess { kind: AccessKind::Write, offset, bytes, actor },
            )
        };
        told(block, env, (&other, actor), &fault)?;
    }
    Ok(touched)
}

/// Reports stores of equal bits with their severity.
fn told(
    block: &mut BlockMemory,
    env: &Env,
    (other, actor): (&Access, Actor),
    fault: &dyn Fn(&BlockMemory) -> Box<Fault>,
) -> Checked {
    let new = match env.equal_stores {
        _ if !env.watches(ViolationKind::Race) => false,
        Severity::Allow => false,
        Severity::Warn => block.warnings.is_new(other.actor.pc, actor.pc),
        Severity::Deny => return Err(fault(block)),
    };
    if new {
        let mut fault = fault(block);
        fault.at = Some((actor.thread, actor.pc));
        fault.other_pc = other.actor.pc;
        block.warnings.faults.push(*fault);
    }
    Ok(())
}
