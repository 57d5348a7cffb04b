//! Addresses in the shared memory of other blocks of a cluster.

use crate::address::{PEER, StateSpace};
use crate::env::Env;
use crate::op::{R32, Slot};
use crate::options::Watch;
use crate::row::lanes;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// The rank of the block that an address of shared memory, generic or not, belongs to.
fn rank_of(address: u64) -> u64 {
    (address & u64::from(u32::MAX)) / u64::from(PEER)
}

/// `getctarank`: the rank of the block to which an address belongs.
pub(super) fn rank(
    warp: &mut Warp,
    env: &Env,
    (d, a, space): (Slot, Slot, Option<StateSpace>),
    active: u32,
) -> Checked {
    for lane in lanes(active) {
        let address = cluster_address(warp, env, a, space, lane)?;
        warp.regs.set(d, lane, rank_of(address));
    }
    if env.watch == Watch::On {
        let (d, a) = (warp.taint.at(d), warp.taint.at(a));
        warp.taint.flow(d, [a], active);
    }
    Ok(())
}

/// `mapa`: the address of the same byte in a block of the cluster.
pub(super) fn map(warp: &mut Warp, env: &Env, op: (Slot, Slot, R32, Option<StateSpace>), active: u32) -> Checked {
    let (d, a, rank, space) = op;
    for lane in lanes(active) {
        let address = cluster_address(warp, env, a, space, lane)?;
        // The address of a block that does not exist is wrong only if it is used: each lane computes an address, and a
        // predicate then decides which lanes arrive at theirs. Any use of it is out of bounds.
        let rank = warp.regs.r32[rank.0 as usize].0[lane].min(env.ranks());
        let moved = address - rank_of(address) * u64::from(PEER) + u64::from(rank) * u64::from(PEER);
        warp.regs.set(d, lane, moved);
    }
    if env.watch == Watch::On {
        let (d, a, rank) = (warp.taint.at(d), warp.taint.at(a), warp.taint.at(rank.into()));
        warp.taint.flow(d, [a, rank], active);
    }
    Ok(())
}

/// A value that is an address of shared memory.
fn cluster_address(warp: &Warp, env: &Env, a: Slot, space: Option<StateSpace>, lane: usize) -> Checked<u64> {
    let address = warp.regs.get(a, lane);
    if !env.strict || space.is_some() || StateSpace::of_generic(address).0.is_shared() {
        return Ok(address);
    }
    let message = format!("{{thread}} uses {address:#x} as a generic address of shared memory");
    Err(Fault::new(ViolationKind::OutOfBounds, 1 << lane, message))
}
