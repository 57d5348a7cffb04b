//! The warp loop: runs one warp until it has to wait for somebody.
//!
//! [`Step`] is dispatched once per turn to the widest instruction set of the host; everything that works on rows is
//! inlined into it. `WATCH` compiles the loop twice: once bare, once following uninitialised values and asking the
//! checks about every access.

mod alu;
mod atomic;
mod bits;
mod collective;
mod copy;
mod memory;
mod registers;
mod rows;
mod scalar;
mod spot;
mod watch;

use pulp::{Simd, WithSimd};

use self::spot::Checked;
use crate::env::{BlockMemory, Env};
use crate::op::{Guard, Op, P, R32, Slot};
use crate::row::lanes;
use crate::violation::{Fault, ViolationKind};
use crate::warp::{Group, Next, Parked, Warp};

/// After this many polls without anything else, a group lets others go first.
const PATIENCE: u32 = 16;
/// After this many instructions since it was chosen, a group that loops does so too.
const LONG_TURN: u64 = 1 << 20;

/// Why a warp stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its fuel is used up.
    Fuel,
    /// All it does is poll, or loop for long.
    Poll { long: bool },
    /// It stands at a barrier: its number, and how many threads it is for.
    Barrier { id: u32, count: Option<u32> },
    /// It passed a `bar.arrive`.
    Arrive { id: u32, count: u32 },
    /// All its threads have exited.
    Done,
    /// It broke a rule.
    Fault(Box<Fault>),
}

/// One turn of one warp.
pub(crate) struct Step<'a, 'e, const WATCH: bool> {
    pub(crate) warp: &'a mut Warp,
    pub(crate) block: &'a mut BlockMemory,
    pub(crate) env: &'a Env<'e>,
    /// Most instructions to execute.
    pub(crate) fuel: u64,
}

impl<const WATCH: bool> WithSimd for Step<'_, '_, WATCH> {
    type Output = Stop;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Stop {
        run::<WATCH>(self.warp, self.block, self.env, self.fuel)
    }
}

/// The lanes that an instruction works for.
#[derive(Clone, Copy)]
struct Lanes {
    active: u32,
    /// No live lane is left out, so that whole rows may be written.
    full: bool,
}

#[inline(always)]
fn run<const WATCH: bool>(warp: &mut Warp, block: &mut BlockMemory, env: &Env, fuel: u64) -> Stop {
    let instrs = env.code.instrs.as_slice();
    let start = warp.steps;
    let end = start.saturating_add(fuel);
    // Where the running group stands; the warp's own fields are up to date only while the loop is left.
    let (mut pc, mut mask, mut steps) = (warp.pc, warp.mask, start);
    let mut meeting_point = warp.meeting_point();
    macro_rules! save {
        ($pc:expr, $mask:expr) => {
            (warp.pc, warp.mask, warp.steps) = ($pc, $mask, steps)
        };
    }
    macro_rules! check {
        ($result:expr) => {
            if let Err(fault) = $result {
                save!(pc, mask);
                return Stop::Fault(fault);
            }
        };
    }
    // Puts the running group aside; a position behind every other makes the loop choose a new one.
    macro_rules! park {
        ($pc:expr, $mask:expr, $why:expr) => {{
            save!($pc, $mask);
            warp.park($why);
            (pc, mask) = (u32::MAX, 0);
            continue;
        }};
    }
    loop {
        if pc >= meeting_point {
            save!(pc, mask);
            warp.park(Parked::No);
            match warp.choose() {
                Next::Run => {}
                Next::Spin => {
                    warp.polls.began = steps;
                    return Stop::Poll { long: std::mem::take(&mut warp.polls.long) };
                }
                Next::Done => return Stop::Done,
                Next::Stuck => return Stop::Fault(stuck(warp, env)),
            }
            (pc, mask) = (warp.pc, warp.mask);
            meeting_point = warp.meeting_point();
            warp.polls.began = steps;
        }
        if steps >= end {
            save!(pc, mask);
            return Stop::Fuel;
        }
        let instr = &instrs[pc as usize];
        steps += 1;
        let active = match instr.guard {
            Guard::Always => mask,
            Guard::If(p) | Guard::Unless(p) => {
                if WATCH {
                    check!(decided(warp, env, p, mask));
                }
                let holds = warp.regs.preds[p.0 as usize];
                let active = if matches!(instr.guard, Guard::If(_)) { mask & holds } else { mask & !holds };
                if active == 0 {
                    pc += 1;
                    continue;
                }
                active
            }
        };
        let lanes = Lanes { active, full: active == warp.live };
        if WATCH && let Some(counters) = &mut block.counters {
            counters.count(pc, &instr.op);
        }
        match instr.op {
            Op::FmaRun32 { start, len } => {
                warp.fma_run32::<WATCH>(&env.code.quads[start as usize..][..len as usize], lanes);
                steps += u64::from(len - 1);
                pc += len - 1;
            }
            Op::FmaRun64 { start, len } => {
                warp.fma_run64::<WATCH>(&env.code.quads[start as usize..][..len as usize], lanes);
                steps += u64::from(len - 1);
                pc += len - 1;
            }
            Op::MadRun32 { start, len } => {
                warp.mad_run32::<WATCH>(&env.code.quads[start as usize..][..len as usize], lanes);
                steps += u64::from(len - 1);
                pc += len - 1;
            }
            Op::Branch { target, uniform } => {
                if WATCH && uniform && active != mask {
                    check!(divergent_uniform(mask, active, env));
                }
                if target <= pc && polls_long_enough(warp, steps) {
                    // Stand where the branch leads, so that the state can be compared from turn to turn.
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(target, active, Parked::Spun);
                }
                if active == mask {
                    pc = target;
                    continue;
                }
                // The group that is behind goes first, unless another one is even further behind.
                let rest = mask & !active;
                let ((first, first_mask), (second, second_mask)) =
                    if target <= pc { ((target, active), (pc + 1, rest)) } else { ((pc + 1, rest), (target, active)) };
                warp.groups.push(Group { pc: second, mask: second_mask, parked: Parked::No });
                (pc, mask) = (first, first_mask);
                meeting_point = meeting_point.min(second);
                continue;
            }
            Op::Load { index } => {
                let access = &env.code.accesses[index as usize];
                check!(memory::load::<WATCH>(warp, block, env, access, lanes, pc));
            }
            Op::Store { index } => {
                let access = &env.code.accesses[index as usize];
                check!(memory::store::<WATCH>(warp, block, env, access, lanes, pc));
            }
            Op::Atomic { index } => {
                let access = &env.code.accesses[index as usize];
                check!(atomic::atomic::<WATCH>(warp, block, env, access, active, pc));
            }
            Op::CpAsync { index } => {
                let access = &env.code.accesses[index as usize];
                check!(copy::start::<WATCH>(warp, block, env, access, active, pc));
            }
            Op::CpAsyncCommit => warp.copies.commit(active),
            Op::CpAsyncWait { pending } => copy::land(warp, block, active, Some(pending), env.strict),
            Op::CpAsyncWaitAll => copy::land(warp, block, active, None, env.strict),
            Op::Barrier { id, count } => {
                warp.groups.extend(other(pc + 1, mask & !active));
                if active != warp.live {
                    park!(pc, active, Parked::Barrier);
                }
                save!(pc, active);
                return barrier(warp, env, id, count);
            }
            Op::BarrierArrive { id, count } => {
                check!(together(warp, env, active));
                save!(pc + 1, mask);
                let value = |slot: R32| warp.regs.r32[slot.0 as usize].0[active.trailing_zeros() as usize];
                return Stop::Arrive { id: value(id), count: value(count) };
            }
            Op::WarpSync { mask: named } => {
                let named = warp.regs.r32[named.0 as usize].0[active.trailing_zeros() as usize];
                check!(names_itself(named, active, env));
                if named & warp.live & !active != 0 {
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(pc, active, Parked::Sync(named));
                }
                if WATCH {
                    block.clocks.meet(warp.index as usize);
                }
            }
            Op::Collective { index } => {
                let collective = &env.code.collectives[index as usize];
                let named = match collective.mask {
                    None => active,
                    Some(named) => warp.regs.r32[named.0 as usize].0[active.trailing_zeros() as usize],
                };
                check!(names_itself(named, active, env));
                if named & warp.live & !active != 0 {
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(pc, active, Parked::Collective(named));
                }
                check!(collective::run::<WATCH>(warp, env, collective, active, named));
            }
            Op::Trap => check!(Err::<(), _>(Fault::new(ViolationKind::Trap, active, "{thread} executes a trap"))),
            Op::Nop => {}
            Op::Exit => {
                warp.live &= !active;
                mask &= !active;
                if mask == 0 {
                    pc = u32::MAX;
                    continue;
                }
            }
            Op::Clock { d, high } => warp.clock::<WATCH>(d, if high { steps >> 32 } else { steps }, active),
            Op::Fence => std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst),
            Op::Scalar { index } => warp.scalar::<WATCH>(&env.code.scalars[index as usize], active),
            Op::Refused { index } => {
                let reason = env.code.refusals[index as usize].as_str();
                check!(Err::<(), _>(Fault::new(ViolationKind::UnknownInstruction, active, reason)));
            }
            op => warp.row::<WATCH>(op, lanes),
        }
        pc += 1;
    }
}

fn other(pc: u32, mask: u32) -> Option<Group> {
    (mask != 0).then_some(Group { pc, mask, parked: Parked::No })
}

/// Counts backward branches; whether the group has polled, or looped, long enough to let others go first.
#[inline(always)]
fn polls_long_enough(warp: &mut Warp, steps: u64) -> bool {
    if warp.polls.reads == 0 {
        warp.polls.rounds = 0;
        warp.polls.long = steps - warp.polls.began >= LONG_TURN;
        return warp.polls.long;
    }
    warp.polls.reads = 0;
    warp.polls.rounds += 1;
    if warp.polls.rounds < PATIENCE {
        return false;
    }
    warp.polls.rounds = 0;
    true
}

/// A converged warp stands at a barrier.
fn barrier(warp: &Warp, env: &Env, id: R32, count: Option<R32>) -> Stop {
    let value = |slot: R32| warp.regs.r32[slot.0 as usize].0[warp.mask.trailing_zeros() as usize];
    let same = |slot: R32| lanes(warp.mask).all(|lane| warp.regs.r32[slot.0 as usize].0[lane] == value(slot));
    let mismatch = |message: String| Stop::Fault(Fault::new(ViolationKind::BarrierMismatch, warp.mask, message));
    if !same(id) || !count.is_none_or(same) {
        return mismatch("the threads of one warp name different barriers, or different numbers of threads".into());
    }
    if env.strict && warp.live != warp.exists {
        let exited = (warp.exists & !warp.live).count_ones();
        return mismatch(format!("{exited} threads of this warp have exited before a barrier that it waits at"));
    }
    Stop::Barrier { id: value(id), count: count.map(value) }
}

/// `bar.arrive` counts a whole warp: all its threads have to be there.
fn together(warp: &Warp, env: &Env, active: u32) -> Checked {
    if !env.strict || active == warp.exists {
        return Ok(());
    }
    let message =
        format!("{} of {} threads of a warp arrive at a barrier", active.count_ones(), warp.exists.count_ones());
    Err(Fault::new(ViolationKind::BarrierMismatch, active, message))
}

fn names_itself(named: u32, active: u32, env: &Env) -> Checked {
    if !env.strict || active & !named == 0 {
        return Ok(());
    }
    let message = format!("the mask {named:#010x} leaves out threads that execute this");
    Err(Fault::new(ViolationKind::BarrierMismatch, active & !named, message))
}

/// Groups that wait for each other.
#[cold]
fn stuck(warp: &mut Warp, env: &Env) -> Box<Fault> {
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

/// A guard must not be decided by a value that was never written.
#[inline(always)]
fn decided(warp: &Warp, env: &Env, p: P, mask: u32) -> Checked {
    let tainted = warp.taint.mask(warp.taint.at_pred(p)) & mask;
    if tainted != 0 && env.strict {
        Err(undefined(warp, env, Slot::P(p), tainted, "decides the guard"))
    } else {
        Ok(())
    }
}

/// The report of a value that was never written and matters.
#[cold]
fn undefined(warp: &Warp, env: &Env, slot: Slot, lanes: u32, what: &str) -> Box<Fault> {
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

#[cold]
fn divergent_uniform(mask: u32, active: u32, env: &Env) -> Checked {
    if !env.strict {
        return Ok(());
    }
    let message =
        format!("{} of {} threads take a branch that is said to be uniform", active.count_ones(), mask.count_ones());
    Err(Fault::new(ViolationKind::BarrierMismatch, active, message))
}
