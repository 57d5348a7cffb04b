//! Finding the memory behind an address. Bounds and alignment are checked here, always: the hardware traps both, and the
//! interpreter's own safety rests on them.

use super::undefined;
use crate::address::Place;
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::op::Slot;
use crate::row::LANES;
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words};
use crate::warp::{Registers, Warp};

/// A place in memory that exists.
#[derive(Clone, Copy)]
pub(super) enum Spot<'a> {
    /// An allocation and a byte offset in its storage.
    Global(&'a Mapped, usize),
    Shared(usize),
    /// Byte offset; each lane has its own.
    Local(usize),
    Param(usize),
    Const(usize),
}

/// What an access does, as reports say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Reads,
    Writes,
}

impl Verb {
    pub(super) fn word(self) -> &'static str {
        match self {
            Verb::Reads => "reads",
            Verb::Writes => "writes",
        }
    }
}

/// An access by one lane. Sizes are powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    /// Absent for a generic address.
    pub(super) place: Option<Place>,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) lane: usize,
    pub(super) verb: Verb,
}

/// The memory that an access touches.
#[inline(always)]
pub(super) fn locate<'a>(block: &mut BlockMemory, env: &'a Env, touch: &Touch) -> Checked<Spot<'a>> {
    let (place, address) = match touch.place {
        Some(place) => (place, touch.address),
        None => Place::of_generic(touch.address),
    };
    if address & (touch.bytes - 1) != 0 {
        return Err(misaligned(touch));
    }
    let symbols = &env.entry.symbols;
    let reads = touch.verb == Verb::Reads;
    let inside = |bytes: u64| address <= bytes && touch.bytes <= bytes - address;
    let (spot, size) = match place {
        Place::Global => {
            return match env.global.find(address, touch.bytes, &mut block.last) {
                Some(mapped) => Ok(Spot::Global(mapped, mapped.buffer.offset(address))),
                None => Err(out_of_global(env, touch)),
            };
        }
        Place::Shared => {
            let size = u64::from(block.shared.bytes());
            (block.shared.offset(address, touch.bytes).map(Spot::Shared), size)
        }
        Place::Local => (inside(symbols.local_bytes).then_some(Spot::Local(address as usize)), symbols.local_bytes),
        Place::Param => {
            let size = env.param_bytes as u64;
            ((reads && inside(size)).then_some(Spot::Param(address as usize)), size)
        }
        Place::Const => {
            ((reads && inside(symbols.const_bytes)).then_some(Spot::Const(address as usize)), symbols.const_bytes)
        }
    };
    spot.ok_or_else(|| out_of_space(place, size, touch))
}

#[cold]
pub(super) fn misaligned(touch: &Touch) -> Box<Fault> {
    let Touch { address, bytes, lane, verb, .. } = *touch;
    let message =
        format!("{{thread}} {} {} at {address:#x}, which is no multiple of {bytes}", verb.word(), in_words(bytes));
    let mut fault = Fault::new(ViolationKind::Misaligned, 1 << lane, message);
    fault.address = Some(address);
    fault
}

#[cold]
pub(super) fn out_of_global(env: &Env, touch: &Touch) -> Box<Fault> {
    let Touch { address, bytes, lane, verb, .. } = *touch;
    let nearest = env.memory.describe(address, bytes);
    let message = format!("{{thread}} {} {} at {address:#x}: {}", verb.word(), in_words(bytes), nearest.text);
    let mut fault = Fault::new(ViolationKind::OutOfBounds, 1 << lane, message);
    fault.address = Some(address);
    fault.label = nearest.label;
    fault
}

#[cold]
pub(super) fn out_of_space(place: Place, size: u64, touch: &Touch) -> Box<Fault> {
    let Touch { address, bytes, lane, verb, .. } = *touch;
    let (verb, space, first) = (verb.word(), place.name(), place.first());
    let at = if touch.place.is_some() { address } else { Place::of_generic(address).1 };
    let (bytes, last) = (in_words(bytes), first + size);
    let message = if size == 0 {
        format!("{{thread}} {verb} {bytes} at {space} address {at:#x}, and it has no {space} memory")
    } else if matches!(place, Place::Param | Place::Const) && touch.verb == Verb::Writes {
        format!("{{thread}} {verb} {bytes} at {space} address {at:#x}, which can only be read")
    } else {
        format!("{{thread}} {verb} {bytes} at {space} address {at:#x}; its {space} memory is {first:#x} to {last:#x}")
    };
    let mut fault = Fault::new(ViolationKind::OutOfBounds, 1 << lane, message);
    fault.address = Some(address);
    fault
}

/// The address of each lane, as its space counts.
pub(super) fn addresses(regs: &Registers, base: Slot, offset: i64) -> [u64; LANES] {
    match base {
        // 32-bit addresses wrap around at 32 bits.
        Slot::R32(base) => regs.r32[base.0 as usize].0.map(|at| u64::from(at.wrapping_add(offset as u32))),
        Slot::R64(base) => regs.r64[base.0 as usize].0.map(|at| at.wrapping_add(offset as u64)),
        Slot::P(_) => [0; LANES],
    }
}

/// A value that was never written must not be an address.
#[inline(always)]
pub(super) fn defined_address(warp: &Warp, env: &Env, base: Slot, active: u32) -> Checked {
    let tainted = warp.taint.mask(warp.taint.at(base)) & active;
    if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
        return Err(undefined(warp, env, base, tainted, "is used as an address"));
    }
    Ok(())
}
