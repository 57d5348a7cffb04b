//! Accesses of the generic proxy next to those of asynchronous copies: what is in whose way, and which fences are missing.

use super::spot::Verb;
use crate::address::SHARED_START;
use crate::agents::{Clash, Fenced, How, Wrote};
use crate::env::{BlockMemory, Env};
use crate::options::Severity;
use crate::row::LANES;
use crate::shadow::{Did, Past};
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words, triple};
use crate::warp::Warp;

/// No copy is in the way of a lane's access to shared memory.
#[inline(always)]
pub(super) fn undisturbed(
    warp: &Warp,
    block: &BlockMemory,
    env: &Env,
    offset: usize,
    bytes: usize,
    verb: Verb,
    lane: usize,
) -> Checked {
    let writes = verb == Verb::Writes;
    match block.agents.in_the_way(&block.clocks, warp.index as usize, offset, bytes, writes) {
        None => Ok(()),
        Some(clash) => {
            let address = offset as u64 + u64::from(SHARED_START);
            Err(disturbed(env, clash, verb, "shared address ", address, bytes as u64, lane))
        }
    }
}

/// A lane reads or writes global memory by the generic proxy.
#[inline(always)]
pub(super) fn global(
    warp: &Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: (u64, u64),
    verb: Verb,
    lane: usize,
    pc: u32,
) -> Checked {
    let (address, bytes) = access;
    let writes = verb == Verb::Writes;
    if let Some(clash) = block.agents.in_the_way_globally(address, bytes, writes) {
        return Err(disturbed(env, clash, verb, "", address, bytes, lane));
    }
    if writes && env.code.copies_from_global {
        let index = warp.index as usize;
        let wrote = Wrote { thread: (index * LANES + lane) as u16, pc, clock: block.clocks.now(index) };
        block.agents.wrote_global(address, bytes, wrote);
    }
    Ok(())
}

/// The report of an access that a copy is in the way of.
#[cold]
pub(super) fn disturbed(
    env: &Env,
    clash: Clash,
    verb: Verb,
    space: &str,
    address: u64,
    bytes: u64,
    lane: usize,
) -> Box<Fault> {
    let (did, why) = match clash.how {
        How::Writing => ("is copying to", "and the copy has not been waited for"),
        How::Written => ("has copied to", "and this thread has not waited for the copy"),
        How::Reading => ("is copying from", "and nobody has waited until the copy has read it"),
    };
    let message = format!(
        "{{thread}} {} {} at {space}{address:#x}, which thread {} {did} at {}, {why}",
        verb.word(),
        in_words(bytes),
        thread(env, clash.thread),
        line(env, clash.pc)
    );
    let mut fault = Fault::new(ViolationKind::Race, 1 << lane, message);
    (fault.address, fault.other) = (Some(address), Some(clash.thread));
    fault
}

/// A thread that starts a copy, and where.
#[derive(Clone, Copy)]
pub(super) struct Starter {
    pub(super) thread: u16,
    pub(super) lane: usize,
    pub(super) pc: u32,
}

impl Starter {
    /// Up to which of a thread's clocks this one has seen what that one did.
    fn limit(&self, block: &BlockMemory, other: u16) -> u32 {
        if other == self.thread {
            return u32::MAX;
        }
        block.clocks.seen(usize::from(other) / LANES, usize::from(self.thread) / LANES)
    }

    /// Whether what a thread did is fenced for a copy that this one starts. Threads of `cp.async` have no fences of their own
    /// and are passed over.
    fn is_fenced(&self, block: &BlockMemory, env: &Env, what: Fenced, thread: u16, clock: u32) -> bool {
        u32::from(thread) >= env.warps() * LANES as u32
            || block.agents.is_fenced(what, thread, clock, self.limit(block, thread))
    }
}

/// What the generic proxy did to shared memory is fenced for a copy that starts now. `pasts` holds addresses too.
pub(super) fn fenced(
    block: &mut BlockMemory,
    env: &Env,
    starter: Starter,
    pasts: &[(Past, Did)],
    verb: Verb,
    address: u64,
) -> Checked {
    for (past, did) in pasts {
        if starter.is_fenced(block, env, Fenced::Shared, past.thread, past.clock) {
            continue;
        }
        let (kind, severity, word) = match did {
            Did::Write => (ViolationKind::Proxy, Severity::Deny, "wrote"),
            Did::Read => (ViolationKind::ProxyWar, env.proxy_war, "read"),
        };
        let copies = if verb == Verb::Writes { "to" } else { "from" };
        let message = || {
            format!(
                "{{thread}} starts a copy {copies} shared address {address:#x}, where thread {} {word} at {}, and executes \
                 no proxy fence between that and what orders the two",
                thread(env, past.thread),
                line(env, past.pc)
            )
        };
        report(block, severity, kind, starter, (past.thread, past.pc), address, message)?;
    }
    Ok(())
}

/// The initialisation of an mbarrier is fenced for a copy that it counts.
pub(super) fn initialised(block: &mut BlockMemory, env: &Env, starter: Starter, past: Past, address: u64) -> Checked {
    let fenced = |what| starter.is_fenced(block, env, what, past.thread, past.clock);
    if fenced(Fenced::Init) || fenced(Fenced::Shared) {
        return Ok(());
    }
    let message = || {
        format!(
            "{{thread}} starts a copy that the mbarrier at {address:#x} counts, and thread {}, which initialised it at {}, \
             executes no fence between that and what orders the two",
            thread(env, past.thread),
            line(env, past.pc)
        )
    };
    let other = (past.thread, past.pc);
    report(block, env.proxy_init, ViolationKind::ProxyInit, starter, other, address, message)
}

/// Generic writes to global memory are ordered before a copy that reads it, and fenced.
pub(super) fn global_fenced(block: &mut BlockMemory, env: &Env, starter: Starter, access: (u64, u64)) -> Checked {
    let (address, bytes) = access;
    let mut last = None;
    let writers: Vec<(u64, Wrote)> = block.agents.writers(address, bytes).collect();
    for (at, Wrote { thread: other, pc, clock }) in writers {
        if last.replace((other, pc, clock)) == Some((other, pc, clock)) {
            continue;
        }
        let warps = [other, starter.thread].map(|thread| usize::from(thread) / LANES);
        if other != starter.thread && !block.clocks.ordered(clock, warps[0], warps[1]) {
            let message = format!(
                "{{thread}} starts a copy from {at:#x}, where thread {} wrote at {}, and nothing orders the two",
                thread(env, other),
                line(env, pc)
            );
            let mut fault = Fault::new(ViolationKind::Race, 1 << starter.lane, message);
            (fault.address, fault.other) = (Some(at), Some(other));
            return Err(fault);
        }
        if starter.is_fenced(block, env, Fenced::Global, other, clock) {
            continue;
        }
        let message = || {
            format!(
                "{{thread}} starts a copy from {at:#x}, where thread {} wrote at {}, and executes no proxy fence \
                 between that and what orders the two",
                thread(env, other),
                line(env, pc)
            )
        };
        report(block, Severity::Deny, ViolationKind::Proxy, starter, (other, pc), at, message)?;
    }
    Ok(())
}

/// A broken rule, as severe as it is.
fn report(
    block: &mut BlockMemory,
    severity: Severity,
    kind: ViolationKind,
    starter: Starter,
    other: (u16, u32),
    address: u64,
    message: impl Fn() -> String,
) -> Checked {
    if severity == Severity::Allow || (severity == Severity::Warn && !block.warnings.is_news(other.1, starter.pc)) {
        return Ok(());
    }
    let mut fault = Fault::new(kind, 1 << starter.lane, message());
    (fault.address, fault.other) = (Some(address), Some(other.0));
    fault.at = Some((starter.thread, starter.pc));
    fault.other_pc = other.1;
    if severity == Severity::Deny {
        return Err(fault);
    }
    block.warnings.faults.push(*fault);
    Ok(())
}

/// A thread as reports name it.
fn thread(env: &Env, thread: u16) -> String {
    triple(env.tid(u32::from(thread) % (env.warps() * LANES as u32)))
}

/// An instruction as reports name it.
pub(super) fn line(env: &Env, pc: u32) -> String {
    let origin = &env.code.origins[pc as usize];
    let clause = origin.note.as_ref().map_or_else(String::new, |note| format!(", from the clause `{}`", note.clause));
    format!("line {} (`{}`{clause})", origin.line, origin.text)
}
