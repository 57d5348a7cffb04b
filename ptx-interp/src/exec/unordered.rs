//! Reports of two accesses without an order between them.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use super::locate::AccessKind;
use super::timeline::timeline;
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::knowledge::column_of_copies;
use crate::row::LANES;
use crate::shadow::{Access, Actor, Conflict, Did};
use crate::violation::{Fault, ViolationKind, bytes as in_words};

/// An access to a piece of memory.
#[derive(Clone, Copy)]
pub(super) struct MemoryAccess {
    pub(super) kind: AccessKind,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) actor: Actor,
}

/// Reports two accesses to shared memory without an order.
#[cold]
pub(super) fn race(block: &BlockMemory, env: &Env, conflict: Conflict, touch: MemoryAccess) -> Box<Fault> {
    let address = block.shared.address(touch.offset);
    unordered(block, env, conflict, touch, &format!("shared address {address:#x}"), address)
}

/// Reports two accesses to global memory without an order.
#[cold]
pub(super) fn global_race(
    block: &BlockMemory,
    env: &Env,
    mapped: &Mapped,
    conflict: Conflict,
    touch: MemoryAccess,
) -> Box<Fault> {
    env.raced.store(env.watches(ViolationKind::Race), Relaxed);
    global_fault(block, env, mapped, conflict, touch)
}

/// The report of a conflict in global memory.
pub(super) fn global_fault(
    block: &BlockMemory,
    env: &Env,
    mapped: &Mapped,
    conflict: Conflict,
    touch: MemoryAccess,
) -> Box<Fault> {
    let (address, label) = mapped.address_and_label(touch.offset);
    let at = format!("{address:#x}, byte {} of `{label}`", address - mapped.buffer.start);
    let mut fault = unordered(block, env, conflict, touch, &at, address);
    fault.label = Some(label.to_string());
    fault
}

fn unordered(
    block: &BlockMemory,
    env: &Env,
    conflict: Conflict,
    MemoryAccess { kind, bytes, actor, .. }: MemoryAccess,
    at: &str,
    address: u64,
) -> Box<Fault> {
    let (other, why) = match conflict {
        Conflict::Unordered(other) => (other, "and nothing orders the two"),
        Conflict::InFlight(other) => (other, "a copy that has not been waited for"),
        Conflict::Equal(other) => (other, "and nothing orders the two, which store the same bits"),
    };
    let asynchronous = env.is_bulk(other.actor.pc);
    let did = match (conflict, other.did) {
        (Conflict::InFlight(_), _) => "started to copy to",
        (_, Did::Write) if asynchronous => "copied to",
        (_, Did::Read | Did::ReadBefore) if asynchronous => "copies from",
        (_, Did::Write) => "wrote",
        (_, Did::Read | Did::ReadBefore) => "read",
    };
    let (thread, other) = started(block, env, other);
    let origin = &env.code.origins[other.actor.pc as usize];
    let clause = origin.note.as_ref().map_or_else(String::new, |note| format!(", from the clause `{}`", note.clause));
    let message = format!(
        "{{thread}} {} {} at {at}, which {} {did} at line {} (`{}`{clause}), {why}",
        kind.word(),
        in_words(bytes as u64),
        env.name(other.actor.block, thread, (actor.block, actor.thread)),
        origin.line,
        origin.text
    );
    let mut fault = Fault::new(ViolationKind::Race, 1 << (usize::from(actor.thread) % LANES), message);
    fault.address = Some(address);
    fault.other = Some(thread);
    fault.timeline = timeline(block, env, &other, thread, actor);
    fault
}

/// The thread that made an access, or that started the copy that made it. In the latter case, the access carries that
/// thread's clock at the start.
fn started(block: &BlockMemory, env: &Env, access: Access) -> (u16, Access) {
    let thread = access.actor.thread;
    let own = access.actor.block == block.clocks.block();
    let of_copy = |copy| match own {
        true => block.history.lock().unwrap_or_else(PoisonError::into_inner).starter(copy),
        false => env.history(access.actor.block)?.starter(copy),
    };
    match column_of_copies(thread) {
        Some(_) => {
            let (thread, clock) = of_copy((thread, access.plain_clock())).unwrap_or_default();
            (thread, Access { clock, ..access })
        }
        // Copies by `cp.async` that an mbarrier completed have indices after those of the threads.
        None => ((usize::from(thread) % (env.all_warps() * LANES)) as u16, access),
    }
}
