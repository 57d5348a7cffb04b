//! Loads, stores and asynchronous copies, lane by lane: every space, every width, every check.

use super::fast::{self, Outcome};
use super::{Lanes, undefined};
use crate::address::Place;
use crate::env::{BlockMemory, Env};
use crate::global::Mapped;
use crate::op::{Access, Slot};
use crate::row::{LANES, lanes};
use crate::shared::{load_words, store_words};
use crate::violation::{Fault, ViolationKind};
use crate::warp::{Registers, Warp};

/// Result of an instruction that may break a rule.
pub(super) type Checked<T = ()> = Result<T, Box<Fault>>;

#[inline(always)]
pub(super) fn load<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    lanes: Lanes,
    pc: u32,
) -> Checked {
    if !WATCH && fast::load(warp, block, env, access, lanes) == Outcome::Done {
        return Ok(());
    }
    load_carefully::<WATCH>(warp, block, env, access, lanes.active, pc)
}

#[inline(always)]
pub(super) fn store<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    lanes: Lanes,
) -> Checked {
    if !WATCH && fast::store(warp, block, env, access, lanes) == Outcome::Done {
        return Ok(());
    }
    store_carefully::<WATCH>(warp, block, env, access, lanes.active)
}

/// A place in memory that exists.
#[derive(Clone, Copy)]
pub(super) enum Spot<'a> {
    Global(&'a Mapped, usize),
    Shared(usize),
    /// Byte offset; each lane has its own.
    Local(usize),
    Param(usize),
    Const,
}

/// What an access does, as reports say it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Reads,
    Writes,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Reads => "reads",
            Verb::Writes => "writes",
        }
    }
}

/// An access by one lane.
pub(super) struct Touch {
    pub(super) place: Option<Place>,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) lane: usize,
    pub(super) verb: Verb,
}

/// Finds the memory behind an address; bounds and alignment are checked always.
#[inline(always)]
pub(super) fn locate<'a>(block: &mut BlockMemory, env: &'a Env, touch: &Touch) -> Checked<Spot<'a>> {
    let (place, address) = match touch.place {
        Some(place) => (place, touch.address),
        None => Place::of_generic(touch.address),
    };
    if address & (touch.bytes - 1) != 0 {
        return Err(misaligned(touch));
    }
    let inside = |bytes: u64| address <= bytes && touch.bytes <= bytes - address;
    match place {
        Place::Global => match env.global.find(address, touch.bytes, &mut block.last) {
            Some(mapped) => Ok(Spot::Global(mapped, mapped.buffer.offset(address))),
            None => Err(out_of_global(env, touch)),
        },
        Place::Shared => match block.shared.offset(address, touch.bytes) {
            Some(offset) => Ok(Spot::Shared(offset)),
            None => Err(out_of_space(place, u64::from(block.shared.bytes()), touch)),
        },
        Place::Local if inside(env.entry.symbols.local_bytes) => Ok(Spot::Local(address as usize)),
        Place::Local => Err(out_of_space(place, env.entry.symbols.local_bytes, touch)),
        Place::Param if touch.verb == Verb::Reads && inside(env.param_bytes as u64) => {
            Ok(Spot::Param(address as usize))
        }
        Place::Param => Err(out_of_space(place, env.param_bytes as u64, touch)),
        Place::Const if touch.verb == Verb::Reads && inside(env.entry.symbols.const_bytes) => Ok(Spot::Const),
        Place::Const => Err(out_of_space(place, env.entry.symbols.const_bytes, touch)),
    }
}

#[cold]
fn misaligned(touch: &Touch) -> Box<Fault> {
    let Touch { address, bytes, lane, verb, .. } = *touch;
    let message = format!("{{thread}} {} {bytes} bytes at {address:#x}, which is no multiple of {bytes}", verb.word());
    let mut fault = Fault::new(ViolationKind::Misaligned, 1 << lane, message);
    fault.address = Some(address);
    fault
}

#[cold]
fn out_of_global(env: &Env, touch: &Touch) -> Box<Fault> {
    let Touch { address, bytes, lane, verb, .. } = *touch;
    let nearest = env.memory.describe(address, bytes);
    let message = format!("{{thread}} {} {bytes} bytes at {address:#x}: {}", verb.word(), nearest.text);
    let mut fault = Fault::new(ViolationKind::OutOfBounds, 1 << lane, message);
    fault.address = Some(address);
    fault.label = nearest.label;
    fault
}

#[cold]
fn out_of_space(place: Place, size: u64, touch: &Touch) -> Box<Fault> {
    let Touch { address, bytes, lane, verb, .. } = *touch;
    let space = place.name();
    let message = format!(
        "{{thread}} {} {bytes} bytes at {space} address {address:#x}; {space} memory has {size} bytes",
        verb.word()
    );
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
    if tainted != 0 && env.strict {
        return Err(undefined(warp, env, base, tainted, "is used as an address"));
    }
    Ok(())
}

#[inline(never)]
fn load_carefully<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
) -> Checked {
    if WATCH {
        defined_address(warp, env, access.base, active)?;
    }
    if access.strong {
        warp.polls.reads += 1;
    }
    let addresses = addresses(&warp.regs, access.base, access.offset);
    let (span, bytes) = (access.span(), usize::from(access.bytes));
    let mut tainted = [0u32; 4];
    for lane in lanes(active) {
        let address = addresses[lane];
        let spot = locate(block, env, &Touch { place: access.place, address, bytes: span, lane, verb: Verb::Reads })?;
        for element in 0..usize::from(access.count) {
            let (value, written) = read::<WATCH>(warp, block, env, spot, element * bytes, bytes, lane);
            tainted[element] |= u32::from(!written) << lane;
            let value = if access.signed { extend(value, bytes) } else { value };
            warp.regs.set(access.values[element], lane, value);
        }
    }
    if access.strong {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    }
    if WATCH {
        for element in 0..usize::from(access.count) {
            let d = warp.taint.at(access.values[element]);
            warp.taint.load(d, tainted[element], active, pc);
        }
    }
    Ok(())
}

/// Sign-extends from a number of bytes to 64 bits.
fn extend(value: u64, bytes: usize) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    ((value << unused) as i64 >> unused) as u64
}

/// One element, and whether it was ever written.
#[inline(always)]
pub(super) fn read<const WATCH: bool>(
    warp: &Warp,
    block: &BlockMemory,
    env: &Env,
    spot: Spot,
    skip: usize,
    bytes: usize,
    lane: usize,
) -> (u64, bool) {
    match spot {
        Spot::Global(mapped, offset) => {
            let offset = offset + skip;
            (mapped.buffer.load(offset, bytes), !WATCH || mapped.buffer.is_written(offset, bytes))
        }
        Spot::Shared(offset) => {
            let offset = offset + skip;
            (block.shared.load(offset, bytes), !WATCH || block.shared.is_written(offset, bytes))
        }
        Spot::Local(offset) => {
            let index = (offset + skip) / 4 * LANES + lane;
            let high = if bytes == 8 { warp.local[index + LANES] } else { 0 };
            (load_words(&[warp.local[index], high], (offset + skip) % 4, bytes), true)
        }
        Spot::Param(offset) => (load_words(&env.params, offset + skip, bytes), true),
        // Constant memory has no initialisers in this dialect, and starts as zero.
        Spot::Const => (0, true),
    }
}

#[inline(never)]
fn store_carefully<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
) -> Checked {
    if WATCH {
        defined_address(warp, env, access.base, active)?;
    }
    if access.strong {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
    }
    let addresses = addresses(&warp.regs, access.base, access.offset);
    let (span, bytes) = (access.span(), usize::from(access.bytes));
    for lane in lanes(active) {
        let address = addresses[lane];
        let spot = locate(block, env, &Touch { place: access.place, address, bytes: span, lane, verb: Verb::Writes })?;
        for element in 0..usize::from(access.count) {
            let slot = access.values[element];
            let written = !WATCH || warp.taint.mask(warp.taint.at(slot)) >> lane & 1 == 0;
            if WATCH && !written && env.strict && matches!(spot, Spot::Global(..)) {
                return Err(undefined(warp, env, slot, 1 << lane, "is stored to global memory"));
            }
            let value = warp.regs.get(slot, lane);
            write::<WATCH>(warp, block, spot, element * bytes, bytes, lane, value, written);
        }
        if WATCH && let Spot::Global(mapped, offset) = spot {
            written_once(block, env, mapped, offset, span as usize, lane, address)?;
        }
    }
    Ok(())
}

/// Each byte of a write-once allocation may be written by one thread of the launch, once.
pub(super) fn written_once(
    block: &BlockMemory,
    env: &Env,
    mapped: &Mapped,
    offset: usize,
    bytes: usize,
    lane: usize,
    address: u64,
) -> Checked {
    let Some(first) = mapped.write_once(offset, bytes, block.number) else { return Ok(()) };
    if !env.strict {
        return Ok(());
    }
    let label = &mapped.buffer.label;
    let [x, y, z] = env.ctaid(u64::from(first));
    let message = format!(
        "{{thread}} writes {bytes} bytes at {address:#x}, byte {} of `{label}`, which block ({x},{y},{z}) has written already",
        address - mapped.buffer.start
    );
    let mut fault = Fault::new(ViolationKind::WrittenTwice, 1 << lane, message);
    (fault.address, fault.label) = (Some(address), Some(label.to_string()));
    Err(fault)
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // one call site for each kind of store
pub(super) fn write<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    spot: Spot,
    skip: usize,
    bytes: usize,
    lane: usize,
    value: u64,
    written: bool,
) {
    match spot {
        Spot::Global(mapped, offset) => {
            mapped.buffer.store(offset + skip, bytes, value);
            mapped.buffer.mark(offset + skip, bytes);
            block.wrote_global = true;
        }
        Spot::Shared(offset) => {
            block.shared.store(offset + skip, bytes, value);
            if WATCH {
                block.shared.mark(offset + skip, bytes, written);
            }
            block.wrote_shared = true;
        }
        Spot::Local(offset) => {
            let index = (offset + skip) / 4 * LANES + lane;
            let mut words = [warp.local[index], 0];
            store_words(&mut words, (offset + skip) % 4, bytes, value);
            warp.local[index] = words[0];
            if bytes == 8 {
                warp.local[index + LANES] = words[1];
            }
        }
        // `locate` hands these out for reading only.
        Spot::Param(_) | Spot::Const => {}
    }
}

/// Starts copies to shared memory. They land at once, or, when watched, at the wait.
#[inline(never)]
pub(super) fn copy_async<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
) -> Checked {
    let Some(copy) = access.copy else { return Ok(()) };
    if WATCH {
        defined_address(warp, env, access.base, active)?;
        defined_address(warp, env, copy.source, active)?;
    }
    let to = addresses(&warp.regs, access.base, access.offset);
    let from = addresses(&warp.regs, copy.source, copy.source_offset);
    let bytes = u64::from(copy.bytes);
    let mut offsets = [0; LANES];
    let mut data = [[0; 16]; LANES];
    for lane in lanes(active) {
        let touch = Touch { place: access.place, address: to[lane], bytes, lane, verb: Verb::Writes };
        let Spot::Shared(offset) = locate(block, env, &touch)? else { continue };
        offsets[lane] = offset as u32;
        let read = copy.source_bytes.map_or(bytes, |slot| warp.regs.get(slot, lane) & u64::from(u32::MAX)).min(bytes);
        let place = copy.source_place;
        if read == 0 {
            continue;
        }
        if from[lane] & (bytes - 1) != 0 {
            return Err(misaligned(&Touch { place, address: from[lane], bytes, lane, verb: Verb::Reads }));
        }
        for byte in 0..read {
            let touch = Touch { place, address: from[lane] + byte, bytes: 1, lane, verb: Verb::Reads };
            let spot = locate(block, env, &touch)?;
            let (value, _) = self::read::<false>(warp, block, env, spot, 0, 1, lane);
            data[lane][byte as usize] = value as u8;
        }
    }
    if WATCH {
        for lane in lanes(active) {
            block.shared.mark(offsets[lane] as usize, usize::from(copy.bytes), false);
        }
        warp.copies.start(active, offsets, data, copy.bytes, pc);
    } else {
        for lane in lanes(active) {
            put(block, offsets[lane] as usize, &data[lane][..usize::from(copy.bytes)]);
        }
    }
    Ok(())
}

/// Lands the copies that the active lanes wait for.
pub(super) fn land(warp: &mut Warp, block: &mut BlockMemory, active: u32, pending: Option<u32>) {
    for copy in warp.copies.wait(active, pending) {
        for lane in lanes(copy.mask) {
            let (offset, bytes) = (copy.offset[lane] as usize, usize::from(copy.bytes));
            put(block, offset, &copy.data[lane][..bytes]);
            block.shared.mark(offset, bytes, true);
        }
    }
}

fn put(block: &mut BlockMemory, offset: usize, data: &[u8]) {
    for (index, word) in data.chunks_exact(4).enumerate() {
        let value = word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        block.shared.store(offset + 4 * index, 4, value);
    }
    block.wrote_shared = true;
}
