//! The warp loop: runs one warp until it has to wait.
//!
//! [`Step`] is dispatched once per turn to the widest instruction set of the host; everything that works on rows is
//! inlined into it. `WATCH` compiles the loop twice: once bare, and once with tracking of uninitialised values and
//! checks of every access.

mod access;
mod addresses;
mod alu;
mod atomic;
mod bits;
mod bulk;
mod collective;
mod control;
mod convert;
mod copy;
mod eighths;
mod elements;
mod equal;
mod extended;
mod foreign;
pub(crate) mod landing;
mod locate;
mod mbarrier;
mod meet;
mod memory;
mod nan;
mod order;
mod proxy;
mod rare;
mod registers;
mod round;
mod rows;
mod scalar;
mod system;
mod tensor_core;
mod tensormap;
mod timeline;
mod unordered;
mod watch;

use pulp::{Simd, WithSimd};

use self::control::{At, Flow, decided, divergent_uniform, undefined};
use crate::env::{BlockMemory, Env};
use crate::op::{Guard, Op};
use crate::pool::Resizing;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::{Group, Parked, Spin, Warp};

/// Why a warp stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its instruction budget is used up.
    Fuel,
    /// It only polls, or has been in a loop for a long time.
    Poll(Spin),
    /// It is at a barrier; with the barrier's number and its number of threads.
    Barrier {
        id: u32,
        count: Option<u32>,
    },
    /// It executed a `bar.arrive`.
    Arrive {
        id: u32,
        count: u32,
    },
    /// It is at an arrival at, or a wait for, the cluster's barrier.
    ClusterArrive {
        relaxed: bool,
    },
    ClusterWait,
    /// It waits until its warp group has started this many multiplications.
    GroupWait {
        count: u32,
    },
    /// It is at a `setmaxnreg`.
    Resize(Resizing),
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

/// The lanes for which an instruction executes.
#[derive(Clone, Copy)]
struct Lanes {
    active: u32,
    /// Whether all live lanes are included, so that whole rows may be written.
    full: bool,
}

#[inline(always)]
fn run<const WATCH: bool>(warp: &mut Warp, block: &mut BlockMemory, env: &Env, fuel: u64) -> Stop {
    let instrs = env.code.instrs.as_slice();
    let start = warp.steps;
    let end = start.saturating_add(fuel);
    // The state of the running group; the warp's own fields are up to date only outside the loop.
    let (mut pc, mut mask, mut steps) = (warp.pc, warp.mask, start);
    let mut reconvergence_pc = warp.reconvergence_pc();
    let groups = !env.code.group_multiplies.is_empty() && env.watches(ViolationKind::Wgmma);
    macro_rules! save {
        ($pc:expr, $mask:expr) => {
            (warp.pc, warp.mask, warp.steps) = ($pc, $mask, steps)
        };
    }
    macro_rules! check {
        ($result:expr) => {
            match $result {
                Ok(value) => value,
                Err(fault) => {
                    save!(pc, mask);
                    return Stop::Fault(fault);
                }
            }
        };
    }
    loop {
        if pc >= reconvergence_pc {
            save!(pc, mask);
            warp.park(Parked::No);
            if let Some(stop) = control::next_group::<WATCH>(warp, block, env) {
                return stop;
            }
            (pc, mask) = (warp.pc, warp.mask);
            reconvergence_pc = warp.reconvergence_pc();
        }
        if steps >= end {
            save!(pc, mask);
            return Stop::Fuel;
        }
        let instr = &instrs[pc as usize];
        steps += 1;
        let active = check!(guarded::<WATCH>(warp, env, instr.guard, mask));
        if active == 0 {
            pc += 1;
            continue;
        }
        let lanes = Lanes { active, full: active == warp.live };
        if WATCH && groups {
            let len = if let Op::FmaRun32 { len, .. } | Op::MadRun32 { len, .. } = instr.op { len } else { 1 };
            check!(tensor_core::group::untouched(warp, env, pc, len));
        }
        if WATCH && let Some(counters) = &mut block.counters {
            counters.count(pc, &instr.op);
        }
        let at = At { pc, mask, active };
        let flow = match instr.op {
            Op::FmaRun32 { start, len } | Op::FmaRun64 { start, len } | Op::MadRun32 { start, len } => {
                let quads = &env.code.quads[start as usize..][..len as usize];
                warp.multiply_adds::<WATCH>(&instr.op, quads, lanes);
                steps += u64::from(len - 1);
                pc += len - 1;
                Flow::Next
            }
            Op::Branch { target, uniform } => {
                if WATCH && uniform && active != mask {
                    check!(divergent_uniform(mask, active, env));
                }
                control::branch(warp, target, at, steps)
            }
            Op::BranchIndexed { index, list, uniform } => {
                check!(control::branch_indexed::<WATCH>(warp, env, (index, list), uniform, at, steps))
            }
            Op::Barrier { .. }
            | Op::BarrierArrive { .. }
            | Op::BarrierReduce { .. }
            | Op::ClusterArrive { .. }
            | Op::ClusterWait
            | Op::SetMaxNReg { .. }
            | Op::WarpSync { .. }
            | Op::Collective { .. }
            | Op::Bulk { .. }
            | Op::GroupMultiply { .. }
            | Op::GroupFence
            | Op::GroupCommit
            | Op::GroupWait { .. } => check!(meet::meet::<WATCH>(warp, block, env, &instr.op, at)),
            Op::Matrices { .. }
            | Op::Multiply { .. }
            | Op::DoubleMultiply { .. }
            | Op::Fragment { .. }
            | Op::FragmentMultiply { .. } => check!(meet::multiply::<WATCH>(warp, block, env, &instr.op, at)),
            Op::Exit => {
                warp.live &= !active;
                mask &= !active;
                if mask == 0 { Flow::Park(Group { pc, mask, parked: Parked::No }) } else { Flow::Next }
            }
            _ => {
                check!(alone::<WATCH>(warp, block, env, &instr.op, lanes, pc, steps));
                Flow::Next
            }
        };
        match flow {
            Flow::Next => pc += 1,
            Flow::Jump { to, others } => {
                (pc, mask) = (to.pc, to.mask);
                reconvergence_pc = reconvergence_pc.min(others);
            }
            Flow::Park(group) => {
                save!(group.pc, group.mask);
                warp.park(group.parked);
                // A position after all others makes the loop choose a new group.
                (pc, mask) = (u32::MAX, 0);
            }
            Flow::Stop { pc, mask, stop } => {
                save!(pc, mask);
                return stop;
            }
        }
    }
}

/// The lanes of a group for which a guard holds.
#[inline(always)]
fn guarded<const WATCH: bool>(warp: &Warp, env: &Env, guard: Guard, mask: u32) -> Checked<u32> {
    let (Guard::If(p) | Guard::Unless(p)) = guard else { return Ok(mask) };
    if WATCH {
        decided(warp, env, p, mask)?;
    }
    let holds = warp.regs.preds[p.0 as usize];
    Ok(if matches!(guard, Guard::If(_)) { mask & holds } else { mask & !holds })
}

/// Executes an instruction that each lane executes by itself, and that continues with the next one.
#[inline(always)]
fn alone<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Op,
    lanes: Lanes,
    pc: u32,
    steps: u64,
) -> Checked {
    let active = lanes.active;
    match *op {
        Op::Load { .. }
        | Op::Store { .. }
        | Op::Atomic { .. }
        | Op::CpAsync { .. }
        | Op::CpAsyncCommit
        | Op::CpAsyncWait { .. }
        | Op::CpAsyncWaitAll => access::execute::<WATCH>(warp, block, env, op, lanes, pc)?,
        Op::Mbarrier { index } => {
            mbarrier::execute::<WATCH>(warp, block, env, &env.code.mbarriers[index as usize], active, pc)?;
        }
        Op::Trap => return Err(Fault::new(ViolationKind::Trap, active, "{thread} executes a trap")),
        Op::Nop => {}
        Op::AwaitGrids => {
            if WATCH && env.overlaps {
                block.note(warp.index as usize, active, pc, false);
                block.waits.add(warp.index as usize, active, &block.clocks);
            }
        }
        Op::Clock { d, high } => {
            block.changed = true;
            warp.clock::<WATCH>(d, if high { steps >> 32 } else { steps }, active);
        }
        Op::Fence { order, scope } => {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            if WATCH {
                order::fence(warp, block, env, active, (order, scope), pc);
            }
        }
        Op::Scalar { index } => warp.scalar::<WATCH>(&env.code.scalars[index as usize], active),
        Op::Rare { index } => warp.rare::<WATCH>(&env.code.rare[index as usize], active),
        Op::Carry { index } => warp.carry::<WATCH>(&env.code.carries[index as usize], active),
        Op::Modified { index } => warp.modified::<WATCH>(env, &env.code.modified[index as usize], lanes),
        Op::System { index } => {
            system::call::<WATCH>(warp, block, env, &env.code.systems[index as usize], active)?;
        }
        Op::Refused { index } => {
            let reason = env.code.refusals[index as usize].as_str();
            return Err(Fault::new(ViolationKind::UnknownInstruction, active, reason));
        }
        op => warp.row::<WATCH>(op, lanes),
    }
    Ok(())
}
