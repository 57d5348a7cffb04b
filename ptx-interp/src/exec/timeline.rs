//! The timeline of a report, from the recorded synchronisations of each warp.

use std::sync::PoisonError;

use crate::env::{BlockMemory, Env};
use crate::history::Event;
use crate::shadow::{Access, Actor};
use crate::violation::{MomentKind, Step};

/// The interleaving of two threads that shows a race: each thread's last synchronisation before its access, the
/// accesses, and the first thread's next synchronisation after its own.
pub(super) fn timeline(block: &BlockMemory, env: &Env, other: &Access, first: u16, actor: Actor) -> Vec<Step> {
    let here = block.history.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let last = here.last(actor.thread);
    let same_block = other.actor.block == actor.block;
    let there = if same_block { Some(here) } else { env.history(other.actor.block) };
    let (before, after) = there.map_or((None, None), |history| history.around(first, other.clock));
    let of_first = |kind, pc| Step { kind, block: other.actor.block, thread: first, pc };
    let of_second = |kind, pc| Step { kind, block: actor.block, thread: actor.thread, pc };
    // Synchronisations are numbered within a block. Those of another block either all precede this block or wait for
    // it.
    let mut steps: Vec<(u64, Step)> = Vec::new();
    steps.extend(before.map(|event| (event.number * 2, of_first(MomentKind::Synchronise, event.pc))));
    steps.push((before.map_or(0, |event| event.number * 2 + 1), of_first(MomentKind::FirstAccess, other.actor.pc)));
    steps.extend(after.map(|event| (event.number * 2, of_first(MomentKind::Synchronise, event.pc))));
    let number = |event: &Event| if same_block { event.number * 2 } else { u64::MAX };
    steps.extend(last.map(|event| (number(&event), of_second(MomentKind::Synchronise, event.pc))));
    steps.push((u64::MAX, of_second(MomentKind::SecondAccess, actor.pc)));
    steps.sort_by_key(|(number, _)| *number);
    let mut steps: Vec<Step> = steps.into_iter().map(|(_, step)| step).collect();
    // One event may both follow the first thread's access and precede the second thread's.
    steps.dedup();
    steps
}
