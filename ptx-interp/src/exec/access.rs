//! Dispatches the instructions that access memory.

use super::{Lanes, atomic, copy, memory};
use crate::env::{BlockMemory, Env};
use crate::op::{Access, Op};
use crate::violation::Checked;
use crate::warp::Warp;

/// Executes an instruction that accesses memory.
#[inline(always)]
pub(super) fn execute<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Op,
    lanes: Lanes,
    pc: u32,
) -> Checked {
    let access = |index: u32| -> &Access { &env.code.accesses[index as usize] };
    match *op {
        Op::Load { index } => return memory::load::<WATCH>(warp, block, env, access(index), lanes, pc),
        Op::Store { index } => return memory::store::<WATCH>(warp, block, env, access(index), lanes, pc),
        Op::Atomic { index } => return atomic::atomic::<WATCH>(warp, block, env, access(index), lanes.active, pc),
        Op::CpAsync { index } => return copy::start::<WATCH>(warp, block, env, access(index), lanes.active, pc),
        Op::CpAsyncCommit if WATCH => block.copies[warp.index as usize].commit(lanes.active),
        Op::CpAsyncWait { pending } => copy::land::<WATCH>(warp, block, lanes.active, Some(pending), env.strict),
        Op::CpAsyncWaitAll => copy::land::<WATCH>(warp, block, lanes.active, None, env.strict),
        _ => {}
    }
    Ok(())
}
