//! Instructions at which the lanes of a warp meet, alone or with other warps.

use super::control::{self, At, Flow, barrier, by_mask, names_itself};
use super::{Stop, bulk, collective, tensor_core};
use crate::env::{BlockMemory, Env};
use crate::op::{Op, R32};
use crate::pool::Resizing;
use crate::violation::Checked;
use crate::warp::{Group, Parked, Synchronised, Warp};

/// Executes an instruction for which lanes, warps or blocks wait for each other.
#[inline(never)]
pub(super) fn meet<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Op,
    at: At,
) -> Checked<Flow> {
    let At { pc, mask, active } = at;
    match *op {
        Op::Barrier { id, count, aligned } if active | warp.arrived() != warp.live => {
            if aligned {
                return Ok(at.wait(warp, Parked::Barrier));
            }
            at.leave(warp, active);
            Ok(match control::names(warp, env, active, (id, count)) {
                Ok((id, count)) => Flow::Park(Group { pc, mask: active, parked: Parked::Threads { id, count } }),
                Err(fault) => at.stop(Stop::Fault(fault)),
            })
        }
        Op::Barrier { id, count, aligned } => {
            at.leave(warp, active);
            (warp.pc, warp.mask) = (pc, active);
            Ok(at.stop(barrier(warp, env, (id, count), aligned).unwrap_or_else(Stop::Fault)))
        }
        _ if active != warp.live && waits_for_the_warp(op) => Ok(at.wait(warp, Parked::Barrier)),
        Op::BarrierReduce { index } => {
            at.leave(warp, active);
            (warp.pc, warp.mask) = (pc, active);
            let op = &env.code.reductions[index as usize];
            Ok(at.stop(barrier(warp, env, (op.id, op.count), true).unwrap_or_else(Stop::Fault)))
        }
        Op::ClusterArrive { .. } | Op::ClusterWait | Op::SetMaxNReg { .. } => {
            at.leave(warp, active);
            (warp.pc, warp.mask) = (pc, active);
            control::whole(warp, env)?;
            Ok(at.stop(match *op {
                Op::ClusterArrive { relaxed } => Stop::ClusterArrive { relaxed },
                Op::SetMaxNReg { resize, count } => Stop::Resize(Resizing { resize, count: count.into() }),
                _ => Stop::ClusterWait,
            }))
        }
        Op::BarrierArrive { id, count } => Ok(match control::arrive(warp, env, active, id, count) {
            Ok(stop) => Flow::Stop { pc: pc + 1, mask, stop },
            Err(fault) => Flow::Stop { pc, mask, stop: Stop::Fault(fault) },
        }),
        Op::Bulk { index } => {
            let op = &env.code.bulks[index as usize];
            if op.is_aligned() && active != warp.live {
                return Ok(at.wait(warp, Parked::Barrier));
            }
            bulk::execute(warp, block, env, op, active, pc)?;
            Ok(Flow::Next)
        }
        Op::GroupMultiply { index } => {
            tensor_core::group::start::<WATCH>(warp, block, env, index, pc)?;
            block.moved_group = true;
            Ok(Flow::Next)
        }
        Op::GroupFence => {
            warp.flight.fence();
            Ok(Flow::Next)
        }
        Op::GroupCommit => {
            warp.flight.commit();
            Ok(Flow::Next)
        }
        Op::GroupWait { pending } => Ok(match tensor_core::group::wait::<WATCH>(warp, block, env, pending, pc) {
            None => Flow::Next,
            Some(count) => Flow::Stop { pc, mask, stop: Stop::GroupWait { count } },
        }),
        Op::WarpSync { mask: named } => warp_sync::<WATCH>(warp, block, env, named, at),
        Op::Collective { index } => among_lanes::<WATCH>(warp, env, index, at),
        _ => multiply::<WATCH>(warp, block, env, op, at),
    }
}

/// Executes an instruction of a warp on matrices.
#[inline(always)]
pub(super) fn multiply<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Op,
    at: At,
) -> Checked<Flow> {
    if at.active != warp.live {
        return Ok(at.wait(warp, Parked::Barrier));
    }
    tensor_core::execute::<WATCH>(warp, block, env, op, at.pc)?;
    Ok(Flow::Next)
}

/// Whether an instruction is one of the whole warp.
fn waits_for_the_warp(op: &Op) -> bool {
    !matches!(
        op,
        Op::Barrier { .. } | Op::BarrierArrive { .. } | Op::Bulk { .. } | Op::WarpSync { .. } | Op::Collective { .. }
    )
}

fn warp_sync<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    named: R32,
    at: At,
) -> Checked<Flow> {
    let At { pc, active, .. } = at;
    if let Some(parts) = by_mask(warp, named, pc, active, Parked::Sync) {
        for part in &parts {
            if let Parked::Sync(named) = part.parked {
                names_itself(named, part.mask, env)?;
            }
        }
        warp.groups.extend(parts);
        at.leave(warp, active);
        return Ok(Flow::Park(Group { pc, mask: 0, parked: Parked::No }));
    }
    let named = warp.regs.r32[named.0 as usize].0[active.trailing_zeros() as usize];
    names_itself(named, active, env)?;
    if named & warp.live & !active != 0 {
        return Ok(at.wait(warp, Parked::Sync(named)));
    }
    if WATCH {
        warp.synchronised.push(Synchronised { pc, mask: active, named });
        control::order_synchronised(warp, block);
        warp.synchronised.clear();
    }
    Ok(Flow::Next)
}

/// Executes a shuffle, a vote or the like, once all lanes that it names are there.
fn among_lanes<const WATCH: bool>(warp: &mut Warp, env: &Env, index: u32, at: At) -> Checked<Flow> {
    let At { pc, active, .. } = at;
    let collective = &env.code.collectives[index as usize];
    if let Some(named) = collective.mask
        && let Some(parts) = by_mask(warp, named, pc, active, Parked::Collective)
    {
        let mut waiting = 0;
        for part in parts {
            let Parked::Collective(named) = part.parked else { continue };
            names_itself(named, part.mask, env)?;
            if named & warp.live & !part.mask == 0 {
                collective::run::<WATCH>(warp, env, collective, part.mask, named)?;
            } else {
                waiting |= part.mask;
                warp.groups.push(part);
            }
        }
        if waiting == 0 {
            return Ok(Flow::Next);
        }
        at.leave(warp, waiting);
        return Ok(Flow::Park(Group { pc, mask: 0, parked: Parked::No }));
    }
    let named = match collective.mask {
        None => active,
        Some(named) => warp.regs.r32[named.0 as usize].0[active.trailing_zeros() as usize],
    };
    names_itself(named, active, env)?;
    if named & warp.live & !active != 0 {
        return Ok(at.wait(warp, Parked::Collective(named)));
    }
    collective::run::<WATCH>(warp, env, collective, active, named)?;
    Ok(Flow::Next)
}
