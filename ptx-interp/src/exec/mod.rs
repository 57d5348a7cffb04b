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

use ptx_gemm_ptx::instruction::FenceOrder;
use pulp::{Simd, WithSimd};

use self::control::{
    arrive, barrier, decided, divergent_uniform, names_itself, other, polls_long_enough, stuck, undefined,
};
use crate::env::{BlockMemory, Env};
use crate::op::{Guard, Op};
use crate::pool::Resizing;
use crate::violation::{Fault, ViolationKind};
use crate::warp::{Group, Next, Parked, Spin, Synchronised, Warp};

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
            if let Err(fault) = $result {
                save!(pc, mask);
                return Stop::Fault(fault);
            }
        };
    }
    // Sets the running group aside. A position after all others makes the loop choose a new group.
    macro_rules! park {
        ($pc:expr, $mask:expr, $why:expr) => {{
            save!($pc, $mask);
            warp.park($why);
            (pc, mask) = (u32::MAX, 0);
            continue;
        }};
    }
    loop {
        if pc >= reconvergence_pc {
            save!(pc, mask);
            warp.park(Parked::No);
            match warp.choose() {
                Next::Run => {}
                Next::Spin => {
                    warp.polls.began = steps;
                    return Stop::Poll(warp.polls.spin.take().unwrap_or(Spin::Beyond));
                }
                Next::Done => return Stop::Done,
                Next::Stuck => return Stop::Fault(stuck(warp, env)),
            }
            (pc, mask) = (warp.pc, warp.mask);
            reconvergence_pc = warp.reconvergence_pc();
            warp.polls.began = steps;
            if !warp.synchronised.is_empty() {
                if WATCH {
                    control::order_synchronised(warp, block);
                }
                warp.synchronised.clear();
            }
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
        if WATCH && groups {
            let len = if let Op::FmaRun32 { len, .. } | Op::MadRun32 { len, .. } = instr.op { len } else { 1 };
            check!(tensor_core::group::untouched(warp, env, pc, len));
        }
        if WATCH && let Some(counters) = &mut block.counters {
            counters.count(pc, &instr.op);
        }
        match instr.op {
            Op::FmaRun32 { start, len } | Op::FmaRun64 { start, len } | Op::MadRun32 { start, len } => {
                let quads = &env.code.quads[start as usize..][..len as usize];
                warp.multiply_adds::<WATCH>(&instr.op, quads, lanes);
                steps += u64::from(len - 1);
                pc += len - 1;
            }
            Op::Branch { target, uniform } => {
                if WATCH && uniform && active != mask {
                    check!(divergent_uniform(mask, active, env));
                }
                if target <= pc && polls_long_enough(warp, steps) {
                    // Continues at the branch's target, so that the state can be compared between turns.
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(target, active, Parked::Spun);
                }
                if active == mask {
                    pc = target;
                    continue;
                }
                // The group with the lowest position runs first.
                let rest = mask & !active;
                let ((first, first_mask), (second, second_mask)) =
                    if target <= pc { ((target, active), (pc + 1, rest)) } else { ((pc + 1, rest), (target, active)) };
                warp.groups.push(Group { pc: second, mask: second_mask, parked: Parked::No });
                (pc, mask) = (first, first_mask);
                reconvergence_pc = reconvergence_pc.min(second);
                continue;
            }
            Op::BranchIndexed { index, list, uniform } => {
                let list = env.code.targets[list as usize].as_slice();
                let ways = match control::ways::<WATCH>(warp, env, (index, list), uniform, active) {
                    Ok(ways) => ways,
                    Err(fault) => {
                        save!(pc, mask);
                        return Stop::Fault(fault);
                    }
                };
                let rest = other(pc + 1, mask & !active);
                // The group with the lowest position runs first.
                let first = ways.iter().chain(&rest).min_by_key(|way| way.pc).map_or(pc + 1, |way| way.pc);
                mask = 0;
                for way in ways.iter().chain(&rest) {
                    if way.pc == first {
                        mask |= way.mask;
                    } else {
                        reconvergence_pc = reconvergence_pc.min(way.pc);
                        warp.groups.push(*way);
                    }
                }
                if first <= pc && polls_long_enough(warp, steps) {
                    park!(first, mask, Parked::Spun);
                }
                pc = first;
                continue;
            }
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::CpAsync { .. }
            | Op::CpAsyncCommit
            | Op::CpAsyncWait { .. }
            | Op::CpAsyncWaitAll => check!(access::execute::<WATCH>(warp, block, env, &instr.op, lanes, pc)),
            Op::Barrier { id, count, aligned } => {
                warp.groups.extend(other(pc + 1, mask & !active));
                if active | warp.arrived() != warp.live {
                    if aligned {
                        park!(pc, active, Parked::Barrier);
                    }
                    match control::names(warp, env, active, (id, count)) {
                        Ok((id, count)) => park!(pc, active, Parked::Threads { id, count }),
                        Err(fault) => {
                            save!(pc, active);
                            return Stop::Fault(fault);
                        }
                    }
                }
                save!(pc, active);
                return barrier(warp, env, (id, count), aligned).unwrap_or_else(Stop::Fault);
            }
            Op::BarrierReduce { index } => {
                warp.groups.extend(other(pc + 1, mask & !active));
                if active != warp.live {
                    park!(pc, active, Parked::Barrier);
                }
                save!(pc, active);
                let op = &env.code.reductions[index as usize];
                return barrier(warp, env, (op.id, op.count), true).unwrap_or_else(Stop::Fault);
            }
            Op::ClusterArrive { .. } | Op::ClusterWait | Op::SetMaxNReg { .. } => {
                warp.groups.extend(other(pc + 1, mask & !active));
                if active != warp.live {
                    park!(pc, active, Parked::Barrier);
                }
                save!(pc, active);
                check!(control::whole(warp, env));
                return match instr.op {
                    Op::ClusterArrive { relaxed } => Stop::ClusterArrive { relaxed },
                    Op::SetMaxNReg { resize, count } => Stop::Resize(Resizing { resize, count: count.into() }),
                    _ => Stop::ClusterWait,
                };
            }
            Op::Bulk { index } => {
                let op = &env.code.bulks[index as usize];
                if op.is_aligned() && active != warp.live {
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(pc, active, Parked::Barrier);
                }
                check!(bulk::execute(warp, block, env, op, active, pc));
            }
            Op::Matrices { .. }
            | Op::Multiply { .. }
            | Op::DoubleMultiply { .. }
            | Op::Fragment { .. }
            | Op::FragmentMultiply { .. } => {
                if active != warp.live {
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(pc, active, Parked::Barrier);
                }
                check!(tensor_core::execute::<WATCH>(warp, block, env, &instr.op, pc));
            }
            Op::GroupMultiply { .. } | Op::GroupFence | Op::GroupCommit | Op::GroupWait { .. } => {
                if active != warp.live {
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(pc, active, Parked::Barrier);
                }
                match instr.op {
                    Op::GroupMultiply { index } => {
                        check!(tensor_core::group::start::<WATCH>(warp, block, env, index, pc));
                        block.moved_group = true;
                    }
                    Op::GroupFence => warp.flight.fence(),
                    Op::GroupCommit => warp.flight.commit(),
                    Op::GroupWait { pending } => {
                        if let Some(count) = tensor_core::group::wait::<WATCH>(warp, block, env, pending, pc) {
                            save!(pc, mask);
                            return Stop::GroupWait { count };
                        }
                    }
                    _ => {}
                }
            }
            Op::BarrierArrive { id, count } => {
                let arrival = arrive(warp, env, active, id, count);
                save!(if arrival.is_ok() { pc + 1 } else { pc }, mask);
                return arrival.unwrap_or_else(Stop::Fault);
            }
            Op::WarpSync { mask: named } => {
                if let Some(parts) = control::by_mask(warp, named, pc, active, Parked::Sync) {
                    for part in &parts {
                        if let Parked::Sync(named) = part.parked {
                            check!(names_itself(named, part.mask, env));
                        }
                    }
                    warp.groups.extend(parts.into_iter().chain(other(pc + 1, mask & !active)));
                    park!(pc, 0, Parked::No);
                }
                let named = warp.regs.r32[named.0 as usize].0[active.trailing_zeros() as usize];
                check!(names_itself(named, active, env));
                if named & warp.live & !active != 0 {
                    warp.groups.extend(other(pc + 1, mask & !active));
                    park!(pc, active, Parked::Sync(named));
                }
                if WATCH {
                    warp.synchronised.push(Synchronised { pc, mask: active, named });
                    control::order_synchronised(warp, block);
                    warp.synchronised.clear();
                }
            }
            Op::Collective { index } => {
                let collective = &env.code.collectives[index as usize];
                if let Some(named) = collective.mask
                    && let Some(parts) = control::by_mask(warp, named, pc, active, Parked::Collective)
                {
                    let mut waiting = 0;
                    for part in parts {
                        let Parked::Collective(named) = part.parked else { continue };
                        check!(names_itself(named, part.mask, env));
                        if named & warp.live & !part.mask == 0 {
                            check!(collective::run::<WATCH>(warp, env, collective, part.mask, named));
                        } else {
                            waiting |= part.mask;
                            warp.groups.push(part);
                        }
                    }
                    if waiting != 0 {
                        warp.groups.extend(other(pc + 1, mask & !waiting));
                        park!(pc, 0, Parked::No);
                    }
                    pc += 1;
                    continue;
                }
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
            Op::Mbarrier { index } => {
                let op = &env.code.mbarriers[index as usize];
                check!(mbarrier::execute::<WATCH>(warp, block, env, op, active, pc));
            }
            Op::Trap => check!(Err::<(), _>(Fault::new(ViolationKind::Trap, active, "{thread} executes a trap"))),
            Op::Nop => {}
            Op::AwaitGrids => {
                if WATCH && env.overlaps {
                    block.note(warp.index as usize, active, pc, false);
                    block.waits.add(warp.index as usize, active, &block.clocks);
                }
            }
            Op::Exit => {
                warp.live &= !active;
                mask &= !active;
                if mask == 0 {
                    pc = u32::MAX;
                    continue;
                }
            }
            Op::Clock { d, high } => {
                block.changed = true;
                warp.clock::<WATCH>(d, if high { steps >> 32 } else { steps }, active);
            }
            Op::Fence { order, scope } => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                if WATCH {
                    block.note(warp.index as usize, active, pc, true);
                    block.complete_reads(env, warp.index as usize, active);
                    block.clocks.fence(warp.index as usize, active, order, scope);
                    if order == FenceOrder::Sc {
                        order::fence_in_sequence(warp, block, env, active);
                    }
                }
            }
            Op::Scalar { index } => warp.scalar::<WATCH>(&env.code.scalars[index as usize], active),
            Op::Rare { index } => warp.rare::<WATCH>(&env.code.rare[index as usize], active),
            Op::Carry { index } => warp.carry::<WATCH>(&env.code.carries[index as usize], active),
            Op::Modified { index } => warp.modified::<WATCH>(env, &env.code.modified[index as usize], lanes),
            Op::System { index } => {
                let system = &env.code.systems[index as usize];
                check!(system::call::<WATCH>(warp, block, env, system, active));
            }
            Op::Refused { index } => {
                let reason = env.code.refusals[index as usize].as_str();
                check!(Err::<(), _>(Fault::new(ViolationKind::UnknownInstruction, active, reason)));
            }
            op => warp.row::<WATCH>(op, lanes),
        }
        pc += 1;
    }
}
