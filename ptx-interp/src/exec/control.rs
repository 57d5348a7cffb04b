//! Polls, barriers and guards: the decisions whether a group continues, and reports of groups that cannot.

use arrayvec::ArrayVec;

use super::Stop;
use crate::env::{BlockMemory, Env};
use crate::op::{P, R32, Slot};
use crate::row::{LANES, lanes};
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::{Group, Next, Parked, Spin, Warp};

/// After this many polls without anything else, a group yields to others.
const PATIENCE: u32 = 16;
/// After this many instructions since it was chosen, a group in a loop also yields.
const LONG_TURN: u64 = 1 << 20;

/// What follows an instruction.
pub(super) enum Flow {
    /// The next one.
    Next,
    /// A group runs elsewhere; with the lowest position of those that a branch has set aside.
    Jump { to: Group, others: u32 },
    /// The running group is set aside.
    Park(Group),
    /// The turn ends, with the running group at a position.
    Stop { pc: u32, mask: u32, stop: Stop },
}

/// The running group at an instruction, and those of its lanes that execute it.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub pc: u32,
    pub mask: u32,
    pub active: u32,
}

impl At {
    /// The executing lanes wait here; the others of the group go on.
    pub(super) fn wait(self, warp: &mut Warp, parked: Parked) -> Flow {
        self.leave(warp, self.active);
        Flow::Park(Group { pc: self.pc, mask: self.active, parked })
    }

    /// Lanes of the group that do not take part in an instruction go on after it.
    pub(super) fn leave(self, warp: &mut Warp, taking_part: u32) {
        warp.groups.extend(other(self.pc + 1, self.mask & !taking_part));
    }

    pub(super) fn stop(self, stop: Stop) -> Flow {
        Flow::Stop { pc: self.pc, mask: self.active, stop }
    }
}

/// A group to set aside, if it has any lanes.
pub(super) fn other(pc: u32, mask: u32) -> Option<Group> {
    (mask != 0).then_some(Group { pc, mask, parked: Parked::No })
}

/// Counts backward branches; returns whether the group has polled or looped long enough to yield.
#[inline(always)]
pub(super) fn polls_long_enough(warp: &mut Warp, steps: u64) -> bool {
    let polls = &mut warp.polls;
    let waits = std::mem::take(&mut polls.waits);
    if waits == 0 && polls.reads == 0 {
        polls.last = None;
    }
    if polls.reads == 0 {
        polls.rounds = 0;
        if waits > 0 {
            // Nothing that this group does can change the result of the poll.
            polls.spin = polls.spin.max(Some(Spin::Within));
            return true;
        }
        let long = steps - polls.began >= LONG_TURN;
        if long {
            polls.spin = polls.spin.max(Some(Spin::Long));
        }
        return long;
    }
    polls.reads = 0;
    polls.rounds += 1;
    if polls.rounds < PATIENCE {
        return false;
    }
    polls.rounds = 0;
    polls.spin = Some(Spin::Beyond);
    true
}

/// Chooses the group that runs next, or says why none does.
pub(super) fn next_group<const WATCH: bool>(warp: &mut Warp, block: &mut BlockMemory, env: &Env) -> Option<Stop> {
    match warp.choose() {
        Next::Run => {}
        Next::Spin => {
            warp.polls.began = warp.steps;
            return Some(Stop::Poll(warp.polls.spin.take().unwrap_or(Spin::Beyond)));
        }
        Next::Done => return Some(Stop::Done),
        Next::Stuck => return Some(Stop::Fault(stuck(warp, env))),
    }
    warp.polls.began = warp.steps;
    if !warp.synchronised.is_empty() {
        if WATCH {
            order_synchronised(warp, block);
        }
        warp.synchronised.clear();
    }
    None
}

/// Branches. Of two groups, the one with the lowest position runs first.
#[inline(always)]
pub(super) fn branch(warp: &mut Warp, target: u32, At { pc, mask, active }: At, steps: u64) -> Flow {
    if target <= pc && polls_long_enough(warp, steps) {
        // Continues at the branch's target, so that the state can be compared between turns.
        warp.groups.extend(other(pc + 1, mask & !active));
        return Flow::Park(Group { pc: target, mask: active, parked: Parked::Spun });
    }
    let taken = Group { pc: target, mask: active, parked: Parked::No };
    if active == mask {
        return Flow::Jump { to: taken, others: u32::MAX };
    }
    let rest = Group { pc: pc + 1, mask: mask & !active, parked: Parked::No };
    let (to, second) = if target <= pc { (taken, rest) } else { (rest, taken) };
    warp.groups.push(second);
    Flow::Jump { to, others: second.pc }
}

/// Branches to one of several targets. The group with the lowest position runs first.
#[inline(never)]
pub(super) fn branch_indexed<const WATCH: bool>(
    warp: &mut Warp,
    env: &Env,
    (index, list): (R32, u32),
    uniform: bool,
    At { pc, mask, active }: At,
    steps: u64,
) -> Checked<Flow> {
    let list = env.code.targets[list as usize].as_slice();
    let ways = ways::<WATCH>(warp, env, (index, list), uniform, active)?;
    let rest = other(pc + 1, mask & !active);
    let mut to = Group { pc: pc + 1, mask: 0, parked: Parked::Spun };
    to.pc = ways.iter().chain(&rest).map(|way| way.pc).min().unwrap_or(to.pc);
    let mut others = u32::MAX;
    for way in ways.iter().chain(&rest) {
        if way.pc == to.pc {
            to.mask |= way.mask;
        } else {
            others = others.min(way.pc);
            warp.groups.push(*way);
        }
    }
    let spun = to.pc <= pc && polls_long_enough(warp, steps);
    Ok(if spun { Flow::Park(to) } else { Flow::Jump { to, others } })
}

/// Divides the active lanes into groups, one for each target that a branch to one of several targets takes.
fn ways<const WATCH: bool>(
    warp: &Warp,
    env: &Env,
    (index, targets): (R32, &[u32]),
    uniform: bool,
    active: u32,
) -> Checked<ArrayVec<Group, LANES>> {
    let tainted = if WATCH { warp.taint.mask(warp.taint.at(index.into())) & active } else { 0 };
    if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
        return Err(undefined(warp, env, index.into(), tainted, "is the index of a branch's target"));
    }
    let mut ways: ArrayVec<Group, LANES> = ArrayVec::new();
    for lane in lanes(active) {
        let index = warp.regs.r32[index.0 as usize].0[lane];
        let Some(&pc) = targets.get(index as usize) else {
            let message = format!("{{thread}} branches to target {index} of a list of {}", targets.len());
            return Err(Fault::new(ViolationKind::OutOfBounds, 1 << lane, message));
        };
        match ways.iter_mut().find(|way| way.pc == pc) {
            Some(way) => way.mask |= 1 << lane,
            None => ways.push(Group { pc, mask: 1 << lane, parked: Parked::No }),
        }
    }
    if WATCH && uniform && ways.len() > 1 {
        let most = ways.iter().map(|way| way.mask).max_by_key(|mask| mask.count_ones()).unwrap_or(0);
        divergent_uniform(active, most, env)?;
    }
    Ok(ways)
}

/// The value of a register in the first active lane.
fn value(warp: &Warp, active: u32, slot: R32) -> u32 {
    warp.regs.r32[slot.0 as usize].0[active.trailing_zeros() as usize]
}

/// Checks that all threads of a warp name the same barrier, or the same number of threads, and that the value was
/// written.
fn named(warp: &Warp, env: &Env, active: u32, slot: R32) -> Checked {
    let tainted = if env.watches(ViolationKind::Uninitialised) {
        warp.taint.mask(warp.taint.at(slot.into())) & active
    } else {
        0
    };
    if tainted != 0 {
        return Err(undefined(warp, env, slot.into(), tainted, "is a barrier's operand"));
    }
    let first = value(warp, active, slot);
    if !env.watches(ViolationKind::BarrierMismatch)
        || lanes(active).all(|lane| warp.regs.r32[slot.0 as usize].0[lane] == first)
    {
        return Ok(());
    }
    let message = "the threads of one warp name different barriers, or different numbers of threads";
    Err(Fault::new(ViolationKind::BarrierMismatch, active, message))
}

/// Executes a barrier in a converged warp, or when the last of its groups arrives.
pub(super) fn barrier(warp: &Warp, env: &Env, named: (R32, Option<R32>), aligned: bool) -> Checked<Stop> {
    let (id, count) = names(warp, env, warp.mask, named)?;
    if aligned {
        whole(warp, env)?;
    }
    Ok(Stop::Barrier { id, count })
}

/// The barrier that all active threads name, and the number of threads.
pub(super) fn names(
    warp: &Warp,
    env: &Env,
    active: u32,
    (id, count): (R32, Option<R32>),
) -> Checked<(u32, Option<u32>)> {
    named(warp, env, active, id)?;
    count.map_or(Ok(()), |count| named(warp, env, active, count))?;
    Ok((value(warp, active, id), count.map(|count| value(warp, active, count))))
}

/// Checks that all threads that the warp started with have arrived.
pub(super) fn whole(warp: &Warp, env: &Env) -> Checked {
    if !env.watches(ViolationKind::BarrierMismatch) || warp.live == warp.exists {
        return Ok(());
    }
    let exited = (warp.exists & !warp.live).count_ones();
    let message = format!("{exited} threads of this warp have exited before a barrier that it waits at");
    Err(Fault::new(ViolationKind::BarrierMismatch, warp.mask, message))
}

/// `bar.arrive` counts a whole warp: all its threads must be converged and name the same barrier.
pub(super) fn arrive(warp: &Warp, env: &Env, active: u32, id: R32, count: R32) -> Checked<Stop> {
    named(warp, env, active, id)?;
    named(warp, env, active, count)?;
    if !env.watches(ViolationKind::BarrierMismatch) || active == warp.exists {
        return Ok(Stop::Arrive { id: value(warp, active, id), count: value(warp, active, count) });
    }
    let message =
        format!("{} of {} threads of a warp arrive at a barrier", active.count_ones(), warp.exists.count_ones());
    Err(Fault::new(ViolationKind::BarrierMismatch, active, message))
}

/// Checks that the lanes named by a `.sync` instruction include those that execute it.
pub(super) fn names_itself(named: u32, active: u32, env: &Env) -> Checked {
    if !env.watches(ViolationKind::BarrierMismatch) || active & !named == 0 {
        return Ok(());
    }
    let message = format!("the mask {named:#010x} leaves out threads that execute this");
    Err(Fault::new(ViolationKind::BarrierMismatch, active & !named, message))
}

/// Splits the lanes of a `.sync` instruction that name different masks, such as one for each half of the warp. Each
/// group executes the instruction by itself, and is parked for its mask. `None` if all lanes name the same mask.
pub(super) fn by_mask(
    warp: &Warp,
    named: R32,
    pc: u32,
    active: u32,
    park: fn(u32) -> Parked,
) -> Option<ArrayVec<Group, LANES>> {
    let named = &warp.regs.r32[named.0 as usize].0;
    let first = named[active.trailing_zeros() as usize];
    if lanes(active).all(|lane| named[lane] == first) {
        return None;
    }
    let mut parts: ArrayVec<Group, LANES> = ArrayVec::new();
    for lane in lanes(active) {
        let parked = park(named[lane]);
        match parts.iter_mut().find(|part| part.parked == parked) {
            Some(part) => part.mask |= 1 << lane,
            None => parts.push(Group { pc, mask: 1 << lane, parked }),
        }
    }
    Some(parts)
}

/// Orders the lanes that have synchronised at a `bar.warp.sync`: the lanes that executed it, and no others. If it names
/// the whole warp, lanes that have exited count as synchronised.
pub(super) fn order_synchronised(warp: &Warp, block: &mut BlockMemory) {
    let index = warp.index as usize;
    for together in warp.synchronised.chunk_by(|one, next| one.named == next.named) {
        together.iter().for_each(|group| block.note(index, group.mask, group.pc, true));
        if together[0].named & warp.exists == warp.exists {
            block.clocks.synchronise(index);
        } else {
            block.clocks.synchronise_some(index, together.iter().fold(0, |lanes, group| lanes | group.mask));
        }
    }
}

/// Reports groups that wait for each other.
#[cold]
pub(super) fn stuck(warp: &mut Warp, env: &Env) -> Box<Fault> {
    let groups: Vec<String> = warp
        .groups
        .iter()
        .map(|group| {
            let origin = &env.code.origins[group.pc as usize];
            format!("{} threads at line {} (`{}`)", group.mask.count_ones(), origin.line, origin.text)
        })
        .collect();
    let exited = (warp.exists & !warp.live).count_ones();
    let exited = if exited > 0 { format!("; {exited} have exited") } else { String::new() };
    let message = format!("the threads of one warp wait in different places: {}{exited}", groups.join(", "));
    (warp.pc, warp.mask) = (warp.groups[0].pc, warp.groups[0].mask);
    Fault::new(ViolationKind::BarrierMismatch, warp.live, message)
}

/// Checks that a guard does not depend on a value that was never written.
#[inline(always)]
pub(super) fn decided(warp: &Warp, env: &Env, p: P, mask: u32) -> Checked {
    let tainted = warp.taint.mask(warp.taint.at_pred(p)) & mask;
    if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
        Err(undefined(warp, env, Slot::P(p), tainted, "decides the guard"))
    } else {
        Ok(())
    }
}

/// Reports the use of a value that was never written.
#[cold]
pub(super) fn undefined(warp: &Warp, env: &Env, slot: Slot, lanes: u32, what: &str) -> Box<Fault> {
    let at = warp.taint.at(slot);
    let name = &env.code.names[at];
    let origin = match warp.taint.origin(at).checked_sub(1).map(|pc| &env.code.origins[pc as usize]) {
        None => "it depends on a register that was never written".into(),
        Some(load) => {
            format!("it was loaded at line {} (`{}`) from bytes that were never written", load.line, load.text)
        }
    };
    Fault::new(ViolationKind::Uninitialised, lanes, format!("{{thread}}: {name} {what}, and {origin}"))
}

/// Checks that a `.uni` branch is uniform.
#[cold]
pub(super) fn divergent_uniform(mask: u32, active: u32, env: &Env) -> Checked {
    if !env.watches(ViolationKind::BarrierMismatch) {
        return Ok(());
    }
    let message =
        format!("{} of {} threads take a branch that is marked as uniform", active.count_ones(), mask.count_ones());
    Err(Fault::new(ViolationKind::BarrierMismatch, active, message))
}
