//! Finds the memory at an address. Bounds and alignment are always checked here: the hardware traps on both, and the
//! interpreter's own safety relies on the checks.

use super::undefined;
use crate::address::{PEER, SHARED_START, StateSpace};
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::op::Slot;
use crate::row::LANES;
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words};
use crate::warp::{Registers, Warp};

/// A valid location in memory.
#[derive(Clone, Copy)]
pub(super) enum Location<'a> {
    /// An allocation and a byte offset in its storage.
    Global(&'a Mapped, usize),
    Shared(usize),
    /// A byte offset; each lane has its own local memory.
    Local(usize),
    Param(usize),
    Const(usize),
}

impl Location<'_> {
    /// The location this many bytes further on.
    pub(super) fn after(self, bytes: usize) -> Self {
        match self {
            Location::Global(mapped, offset) => Location::Global(mapped, offset + bytes),
            Location::Shared(offset) => Location::Shared(offset + bytes),
            Location::Local(offset) => Location::Local(offset + bytes),
            Location::Param(offset) => Location::Param(offset + bytes),
            Location::Const(offset) => Location::Const(offset + bytes),
        }
    }
}

/// The kind of an access, as in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
}

impl AccessKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
        }
    }
}

/// An access by one lane. Sizes are powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneAccess {
    /// `None` for a generic address.
    pub(super) space: Option<StateSpace>,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) lane: usize,
    pub(super) kind: AccessKind,
}

/// The memory that an access refers to.
#[inline(always)]
pub(super) fn locate<'a>(block: &mut BlockMemory, env: &'a Env, lane_access: &LaneAccess) -> Checked<Location<'a>> {
    let (space, address) = match lane_access.space {
        Some(space) => (space, lane_access.address),
        None => StateSpace::of_generic(lane_access.address),
    };
    if address & (lane_access.bytes - 1) != 0 {
        return Err(misaligned(lane_access));
    }
    let symbols = &env.entry.symbols;
    let reads = lane_access.kind == AccessKind::Read;
    let inside = |bytes: u64| address <= bytes && lane_access.bytes <= bytes - address;
    let (location, size) = match space {
        StateSpace::Global => {
            return match env.global.find(address, lane_access.bytes, &mut block.last) {
                Some(mapped) => Ok(Location::Global(mapped, mapped.buffer.offset(address))),
                None => Err(out_of_global(env, lane_access)),
            };
        }
        StateSpace::Shared | StateSpace::Cluster => {
            let offset = match space {
                StateSpace::Shared => block.shared.offset(address, lane_access.bytes),
                _ => block.shared.offset_in_cluster(address, lane_access.bytes),
            };
            return offset.map(Location::Shared).ok_or_else(|| out_of_shared(block, lane_access));
        }
        StateSpace::Local => {
            (inside(symbols.local_bytes).then_some(Location::Local(address as usize)), symbols.local_bytes)
        }
        StateSpace::Param => {
            let size = env.param_bytes as u64;
            ((reads && inside(size)).then_some(Location::Param(address as usize)), size)
        }
        StateSpace::Const => {
            ((reads && inside(symbols.const_bytes)).then_some(Location::Const(address as usize)), symbols.const_bytes)
        }
    };
    location.ok_or_else(|| out_of_space(space, size, lane_access))
}

#[cold]
pub(super) fn misaligned(lane_access: &LaneAccess) -> Box<Fault> {
    let LaneAccess { address, bytes, lane, kind, .. } = *lane_access;
    let message =
        format!("{{thread}} {} {} at {address:#x}, which is not a multiple of {bytes}", kind.word(), in_words(bytes));
    let mut fault = Fault::new(ViolationKind::Misaligned, 1 << lane, message);
    fault.address = Some(address);
    fault
}

#[cold]
pub(super) fn out_of_global(env: &Env, lane_access: &LaneAccess) -> Box<Fault> {
    let LaneAccess { address, bytes, lane, kind, .. } = *lane_access;
    let nearest = env.memory.describe(address, bytes);
    let message = format!("{{thread}} {} {} at {address:#x}: {}", kind.word(), in_words(bytes), nearest.text);
    let mut fault = Fault::new(ViolationKind::OutOfBounds, 1 << lane, message);
    fault.address = Some(address);
    fault.label = nearest.label;
    fault
}

/// Reports an access to shared memory that is not in bounds.
#[cold]
pub(super) fn out_of_shared(block: &BlockMemory, lane_access: &LaneAccess) -> Box<Fault> {
    let LaneAccess { address, bytes, lane, kind, .. } = *lane_access;
    let (space, at) = match lane_access.space {
        Some(space) => (space, address),
        None => StateSpace::of_generic(address),
    };
    let shared = &block.shared;
    let (does, bytes) = (kind.word(), in_words(bytes));
    let mut message = format!("{{thread}} {does} {bytes} at shared address {at:#x}");
    let within = (at % u64::from(PEER)).checked_sub(u64::from(SHARED_START));
    let gap = within.and_then(|within| Some((within, shared.gap(within, lane_access.bytes)?)));
    message += &match gap {
        Some((within, gap)) if within >= gap.end - (gap.end - gap.start) / 2 => {
            format!(", {} before the variable that follows `{}`", in_words(gap.end - within), gap.after)
        }
        Some((within, gap)) => {
            let past = in_words(within + lane_access.bytes - gap.start);
            format!(", which ends {past} past the end of `{}`", gap.after)
        }
        None => no_gap(block, lane_access, (space, at)),
    };
    let mut fault = Fault::new(ViolationKind::OutOfBounds, 1 << lane, message);
    fault.address = Some(address);
    fault
}

/// What is wrong with an access to shared memory that is outside all variables and gaps, as the rest of a sentence.
fn no_gap(block: &BlockMemory, lane_access: &LaneAccess, (space, at): (StateSpace, u64)) -> String {
    let shared = &block.shared;
    let first = u64::from(shared.start());
    let last = first + u64::from(shared.bytes());
    match shared.offset_in_cluster(at, lane_access.bytes) {
        _ if shared.bytes() == 0 => ", but the block has no shared memory".to_owned(),
        Some(offset) if space == StateSpace::Shared => format!(
            ", which belongs to the block of rank {} in its cluster; its own shared memory is {first:#x} to {last:#x}, and an \
             access to another block's needs .shared::cluster",
            shared.rank_of(offset)
        ),
        _ if space == StateSpace::Cluster && shared.ranks() > 1 => format!(
            "; its shared memory is {first:#x} to {last:#x}, and that of each of the {} blocks of its cluster {PEER:#x} further",
            shared.ranks()
        ),
        _ => format!("; its shared memory is {first:#x} to {last:#x}"),
    }
}

#[cold]
pub(super) fn out_of_space(space: StateSpace, size: u64, lane_access: &LaneAccess) -> Box<Fault> {
    let LaneAccess { address, bytes, lane, kind, .. } = *lane_access;
    let (does, name, first) = (kind.word(), space.name(), space.first());
    let at = if lane_access.space.is_some() { address } else { StateSpace::of_generic(address).1 };
    let (bytes, last) = (in_words(bytes), first + size);
    let message = if size == 0 {
        format!("{{thread}} {does} {bytes} at {name} address {at:#x}, but it has no {name} memory")
    } else if matches!(space, StateSpace::Param | StateSpace::Const) && kind == AccessKind::Write {
        format!("{{thread}} {does} {bytes} at {name} address {at:#x}, which is read-only")
    } else {
        format!("{{thread}} {does} {bytes} at {name} address {at:#x}; its {name} memory is {first:#x} to {last:#x}")
    };
    let mut fault = Fault::new(ViolationKind::OutOfBounds, 1 << lane, message);
    fault.address = Some(address);
    fault
}

/// The address of each lane, within its space.
pub(super) fn addresses(regs: &Registers, base: Slot, offset: i64) -> [u64; LANES] {
    match base {
        // 32-bit addresses wrap at 32 bits.
        Slot::R32(base) => regs.r32[base.0 as usize].0.map(|at| u64::from(at.wrapping_add(offset as u32))),
        Slot::R64(base) => regs.r64[base.0 as usize].0.map(|at| at.wrapping_add(offset as u64)),
        Slot::P(_) => [0; LANES],
    }
}

/// Checks that an address does not come from a value that was never written.
#[inline(always)]
pub(super) fn defined_address(warp: &Warp, env: &Env, base: Slot, active: u32) -> Checked {
    let tainted = warp.taint.mask(warp.taint.at(base)) & active;
    if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
        return Err(undefined(warp, env, base, tainted, "is used as an address"));
    }
    Ok(())
}
