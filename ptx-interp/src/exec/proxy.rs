//! Conflicts between accesses of the generic proxy and asynchronous copies, and missing fences between them.

use std::borrow::Cow;
use std::sync::PoisonError;

use super::locate::AccessKind;
use super::timeline::timeline;
use crate::agents::{Clash, Fenced, How};
use crate::clocks::Ordered;
use crate::env::{BlockMemory, Env};
use crate::options::Severity;
use crate::row::LANES;
use crate::shadow::{Access, Actor, Did, Past};
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words};

/// Checks that no copy conflicts with a thread's access to shared memory.
#[inline(always)]
pub(super) fn undisturbed(
    block: &BlockMemory,
    env: &Env,
    (offset, bytes): (usize, usize),
    kind: AccessKind,
    actor: Actor,
) -> Checked {
    match block.agents.clash_in_shared(&block.clocks, actor.thread, offset, bytes, kind == AccessKind::Write) {
        None => Ok(()),
        Some(_) if !env.watches(ViolationKind::Race) => Ok(()),
        Some(clash) => {
            let address = block.shared.address(offset);
            Err(disturbed(block, env, clash, kind, ("shared address ", address), bytes as u64, actor))
        }
    }
}

/// Checks that no copy of this block in flight conflicts with a thread's access to global memory. Reductions do not
/// conflict with each other.
#[inline(always)]
pub(super) fn undisturbed_globally(
    block: &BlockMemory,
    env: &Env,
    (address, bytes): (u64, u64),
    kind: AccessKind,
    actor: Actor,
) -> Checked {
    match block.agents.clash_in_global(address, bytes, kind == AccessKind::Write) {
        Some(clash) if env.watches(ViolationKind::Race) && !(env.is_bulk(actor.pc) && actor.atomic) => {
            Err(disturbed(block, env, clash, kind, ("", address), bytes, actor))
        }
        _ => Ok(()),
    }
}

/// Reports an access that conflicts with a copy.
#[cold]
fn disturbed(
    block: &BlockMemory,
    env: &Env,
    clash: Clash,
    kind: AccessKind,
    (space, address): (&str, u64),
    bytes: u64,
    actor: Actor,
) -> Box<Fault> {
    let (did, why) = match clash.how {
        How::Writing => ("is copying to", "and the copy has not been waited for"),
        How::Written => ("has copied to", "and this thread has not waited for the copy"),
        How::Reading => ("is copying from", "and no thread has waited until the copy has read it"),
        How::Multiplying => ("is multiplying", "and this thread does not know that its warp group has waited for that"),
    };
    let message = format!(
        "{{thread}} {} {} at {space}{address:#x}, which {} {did} at {}, {why}",
        kind.word(),
        in_words(bytes),
        env.name(actor.block, clash.thread, (actor.block, actor.thread)),
        line(env, clash.pc)
    );
    let lane = usize::from(actor.thread) % LANES;
    let mut fault = Fault::new(ViolationKind::Race, 1 << lane, message);
    (fault.address, fault.other) = (Some(address), Some(clash.thread));
    let Clash { thread, pc, began: clock, .. } = clash;
    let copy = Access { actor: Actor { thread, pc, ..actor }, clock, did: Did::Write };
    fault.timeline = timeline(block, env, &copy, thread, actor);
    fault
}

/// A thread that starts a copy, and the instruction.
#[derive(Clone, Copy)]
pub(super) struct Starter {
    pub(super) thread: u16,
    pub(super) lane: usize,
    pub(super) pc: u32,
}

impl Starter {
    /// Identifies it for the race detector.
    pub(super) fn actor(&self, block: &BlockMemory) -> Actor {
        Actor { block: block.clocks.block(), thread: self.thread, pc: self.pc, strong: None, atomic: false }
    }

    /// The name of another thread of the cluster.
    fn name(&self, cluster: u32, env: &Env, other: u16) -> String {
        env.name(cluster, other, (cluster, self.thread))
    }

    /// The clock up to which this thread knows what another thread did.
    pub(super) fn limit(&self, block: &BlockMemory, of: u32, other: u16) -> u32 {
        if (of, other) == (block.clocks.block(), self.thread) {
            return u32::MAX;
        }
        block.clocks.newest(of, other, self.thread)
    }

    /// Whether an access of a thread of the block is fenced for a copy that this thread starts. Threads that represent
    /// `cp.async` copies have no fences and are skipped.
    fn is_fenced(&self, block: &BlockMemory, env: &Env, what: Fenced, thread: u16, clock: u32) -> bool {
        usize::from(thread) >= env.all_warps() * LANES
            || block.agents.is_fenced(what, thread, clock, self.limit(block, block.clocks.block(), thread))
    }
}

/// Checks that accesses of the generic proxy to shared memory are fenced for a copy that starts now. `pasts` also holds
/// addresses.
pub(super) fn fenced(
    block: &mut BlockMemory,
    env: &Env,
    starter: Starter,
    pasts: &[Past],
    kind: AccessKind,
    address: u64,
) -> Checked {
    let cluster = block.clocks.block();
    for &past in pasts {
        for other in past.threads() {
            let fenced = |what| starter.is_fenced(block, env, what, other, past.clock);
            // A wait for the copy ordered its read within the asynchronous proxy.
            let copied = past.did != Did::Write && env.is_bulk(past.pc);
            if copied || fenced(Fenced::Shared) {
                continue;
            }
            let overtaken = past.did != Did::Write && !fenced(Fenced::Reads);
            let late = || block.clocks.fenced_since(Ordered::Shared, (cluster, other, past.clock), starter.thread);
            let (rule, severity, word) = match past.did {
                Did::Write if late() => (ViolationKind::Proxy, env.fenced_late, "wrote"),
                Did::Write => (ViolationKind::Proxy, Severity::Deny, "wrote"),
                Did::Read | Did::ReadBefore if overtaken => (ViolationKind::ProxyWar, env.overtaken, "read"),
                Did::Read | Did::ReadBefore => (ViolationKind::ProxyWar, env.proxy_war, "read"),
            };
            let starts = match kind {
                _ if env.is_multiplication(starter.pc) => "a multiplication of what is at",
                AccessKind::Write => "a copy to",
                AccessKind::Read => "a copy from",
            };
            let message = || {
                format!(
                    "{{thread}} starts {starts} shared address {address:#x}, where {} {word} at {} \
                     without a proxy fence between that and what orders the two{}",
                    starter.name(cluster, env, other),
                    line(env, past.pc),
                    if overtaken { ", and an arrival at an mbarrier may overtake a read" } else { "" }
                )
            };
            let other = past_access(block, past, other);
            report(block, env, (severity, rule), starter, &other, address, message)?;
        }
    }
    Ok(())
}

fn past_access(block: &BlockMemory, past: Past, thread: u16) -> Access {
    let actor = Actor { block: block.clocks.block(), thread, pc: past.pc, strong: None, atomic: false };
    Access { actor, clock: past.clock, did: past.did }
}

/// Checks that the initialisation of an mbarrier is fenced for a copy that it counts.
pub(super) fn initialised(block: &mut BlockMemory, env: &Env, starter: Starter, past: Past, address: u64) -> Checked {
    let cluster = block.clocks.block();
    for other in past.threads() {
        let fenced = |what| starter.is_fenced(block, env, what, other, past.clock);
        if fenced(Fenced::Init) || fenced(Fenced::Shared) {
            continue;
        }
        let message = || {
            format!(
                "{{thread}} starts a copy that the mbarrier at {address:#x} counts, but {}, which initialised it at {}, \
                 executes no fence between that and {}",
                if other == starter.thread { "the same thread".into() } else { starter.name(cluster, env, other) },
                line(env, past.pc),
                if other == starter.thread { "the copy" } else { "what orders the two" }
            )
        };
        let severity = if other == starter.thread { env.proxy_init_own } else { env.proxy_init };
        let other = past_access(block, past, other);
        report(block, env, (severity, ViolationKind::ProxyInit), starter, &other, address, message)?;
    }
    Ok(())
}

/// Checks that a generic write to global memory is fenced for a copy that starts now. The shadow checks that the write
/// is ordered before the copy.
pub(super) fn global_fenced(
    block: &mut BlockMemory,
    env: &Env,
    starter: Starter,
    address: u64,
    writer: &Access,
) -> Checked {
    let Actor { block: of, thread: other, pc, .. } = writer.actor;
    let (limit, own) = (starter.limit(block, of, other), of == block.clocks.block());
    let fenced = match own {
        true => {
            let history = block.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.fences.between(other.into(), writer.clock, limit)
        }
        false => env.was_fenced(of, other, (writer.clock, limit), |history| &history.fences),
    };
    if fenced {
        return Ok(());
    }
    let cluster = block.clocks.block();
    let message = || {
        format!(
            "{{thread}} starts a copy at {address:#x}, where {} wrote at {} without a proxy fence \
             between that and what orders the two",
            env.name(of, other, (cluster, starter.thread)),
            line(env, pc)
        )
    };
    let late = block.clocks.fenced_since(Ordered::Global, (of, other, writer.clock), starter.thread);
    let severity = if late { env.fenced_late } else { Severity::Deny };
    report(block, env, (severity, ViolationKind::Proxy), starter, writer, address, message)
}

/// Reports a broken rule with its severity.
pub(super) fn report(
    block: &mut BlockMemory,
    env: &Env,
    (severity, kind): (Severity, ViolationKind),
    starter: Starter,
    other: &Access,
    address: u64,
    message: impl Fn() -> String,
) -> Checked {
    let lines = (other.actor.pc, starter.pc);
    if !env.watches(kind)
        || severity == Severity::Allow
        || (severity == Severity::Warn && !block.warnings.is_new(lines.0, lines.1))
    {
        return Ok(());
    }
    let mut fault = Fault::new(kind, 1 << starter.lane, message());
    (fault.address, fault.other) = (Some(address), Some(other.actor.thread));
    fault.at = Some((starter.thread, starter.pc));
    fault.other_pc = other.actor.pc;
    fault.timeline = timeline(block, env, other, other.actor.thread, starter.actor(block));
    if severity == Severity::Deny {
        return Err(fault);
    }
    block.warnings.faults.push(*fault);
    Ok(())
}

/// The name of an instruction in reports.
pub(super) fn line(env: &Env, pc: u32) -> String {
    let origin = &env.code.origins[pc as usize];
    let clause = origin.note.as_ref().map_or_else(String::new, |note| format!(", from the clause `{}`", note.clause));
    format!("line {} (`{}`{clause})", origin.line, brief(&origin.text))
}

/// An instruction's text without the middle of a long list of registers.
fn brief(text: &str) -> Cow<'_, str> {
    match (text.find('{'), text.find('}')) {
        (Some(open), Some(close)) if close > open + 80 => {
            let elements: Vec<&str> = text[open + 1..close].split(", ").collect();
            let (Some(first), Some(last)) = (elements.first(), elements.last()) else { return text.into() };
            format!("{}{{{first}, ..., {last}{}", &text[..open], &text[close..]).into()
        }
        _ => text.into(),
    }
}
