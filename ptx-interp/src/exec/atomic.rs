//! `atom` and `red`: lane by lane, in ascending order.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use super::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate};
use super::memory::read;
use super::order::How;
use super::{order, scalar, undefined, watch};
use crate::env::{BlockMemory, Env};
use crate::flags::Change;
use crate::global::Mapped;
use crate::op::{Access, Arith, AtomicOp, ScalarFn};
use crate::row::lanes;
use crate::violation::{Checked, Fault, ViolationKind, bytes as in_words};
use crate::warp::{Polled, Warp};

#[inline(never)]
pub(super) fn atomic<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    access: &Access,
    active: u32,
    pc: u32,
) -> Checked {
    let Some(op) = &access.atomic else { return Ok(()) };
    if WATCH {
        defined_address(warp, env, access.base, active)?;
        defined_operands(warp, env, op, active)?;
    }
    warp.polls.read();
    let addresses = addresses(&warp.regs, access.base, access.offset);
    let address = addresses[active.trailing_zeros() as usize];
    warp.polls.last = Some(Polled { pc, address, space: access.space, bytes: access.bytes });
    let (span, bytes) = (access.span(), usize::from(access.bytes));
    let mut tainted = [0u32; 8];
    let mut tally = watch::Tally::default();
    for lane in lanes(active) {
        let address = addresses[lane];
        let lane_access = LaneAccess { space: access.space, address, bytes: span, lane, kind: AccessKind::Write };
        let location = locate(block, env, &lane_access)?;
        if WATCH {
            watch::accessed(warp, block, env, &lane_access, location, How { pc, strong: access.strong, stored: None })?;
            tally.add(block, location, &lane_access);
        }
        // Destinations may be among the operands.
        let operands: ArrayVec<u64, 8> = op.elements.iter().map(|element| warp.regs.get(element.b, lane)).collect();
        let c: ArrayVec<u64, 8> = op.elements.iter().map(|element| warp.regs.get(element.c, lane)).collect();
        let wide = match op.ty {
            Type::B128 => Some(on_both_halves(block, location, |old| exchange(op.op, old, &operands, &c))),
            _ => None,
        };
        for (index, (element, tainted)) in op.elements.iter().zip(&mut tainted).enumerate() {
            let location = location.after(index * bytes);
            let new = |old| apply(op.op, op.ty, old, operands[index], c[index]);
            let written = read::<WATCH>(warp, block, env, location, 0, bytes, lane).1;
            if WATCH && !written && op.op != Atomic::Exch {
                if env.watches(ViolationKind::Uninitialised) && matches!(location, Location::Global(..)) {
                    let address = address + (index * bytes) as u64;
                    return Err(never_written(&LaneAccess { address, bytes: bytes as u64, ..lane_access }));
                }
                *tainted |= 1 << lane;
            }
            if WATCH && env.strict {
                // An atomic always reads the newest write.
                order::observe(warp, block, env, (location, lane), access);
            }
            let old = match (location, wide) {
                (Location::Global(mapped, offset), Some((old, new))) => {
                    mapped.buffer.mark(offset, bytes);
                    block.wrote_global |= new != old;
                    old[index]
                }
                (Location::Shared(offset), Some((old, new))) => {
                    if WATCH {
                        block.shared.mark(offset, bytes, *tainted >> lane & 1 == 0);
                    }
                    block.wrote_shared |= new != old;
                    old[index]
                }
                (Location::Global(mapped, offset), None) => {
                    let old = on_global(mapped, offset, bytes, new);
                    mapped.buffer.mark(offset, bytes);
                    block.wrote_global |= new(old) != old;
                    old
                }
                (Location::Shared(offset), None) if op.elements.len() == 1 => {
                    let old = block.shared.load(offset, bytes);
                    block.shared.store(offset, bytes, new(old));
                    if WATCH {
                        block.shared.mark(offset, bytes, *tainted >> lane & 1 == 0);
                    }
                    block.wrote_shared |= new(old) != old;
                    old
                }
                _ => return Err(out_of_reach(lane, op)),
            };
            if WATCH && env.strict {
                order::publish(warp, block, env, (location, lane), access, (Change::Atomic, old));
            }
            warp.regs.set(element.d, lane, old);
        }
    }
    if WATCH {
        block.note(warp.index as usize, active, pc, true);
        block.clocks.tick(warp.index as usize);
        tally.count(block, AccessKind::Write, span, pc);
        for (element, tainted) in op.elements.iter().zip(tainted) {
            let d = warp.taint.at(element.d);
            warp.taint.load(d, tainted, active, pc);
        }
    }
    Ok(())
}

fn defined_operands(warp: &Warp, env: &Env, op: &AtomicOp, active: u32) -> Checked {
    for slot in op.elements.iter().flat_map(|element| [element.b, element.c]) {
        let tainted = warp.taint.mask(warp.taint.at(slot)) & active;
        if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
            return Err(undefined(warp, env, slot, tainted, "is an operand of an atomic"));
        }
    }
    Ok(())
}

#[cold]
fn out_of_reach(lane: usize, op: &AtomicOp) -> Box<Fault> {
    let message = match op.elements.len() {
        1 => "atomics work on global and shared memory",
        _ => "vectors of atomics work on global memory only",
    };
    Fault::new(ViolationKind::OutOfBounds, 1 << lane, message)
}

#[cold]
fn never_written(lane_access: &LaneAccess) -> Box<Fault> {
    let bytes = in_words(lane_access.bytes);
    let message = format!("{{thread}}: an atomic reads {bytes} at {:#x} that were never written", lane_access.address);
    let mut fault = Fault::new(ViolationKind::Uninitialised, 1 << lane_access.lane, message);
    fault.address = Some(lane_access.address);
    fault
}

/// Atomically replaces a value by a new one; returns the old value.
fn on_global(mapped: &Mapped, offset: usize, bytes: usize, new: impl Fn(u64) -> u64) -> u64 {
    let buffer = &mapped.buffer;
    if bytes == 8 {
        let _whole = buffer.wide.lock().unwrap_or_else(PoisonError::into_inner);
        let old = buffer.load(offset, 8);
        buffer.store(offset, 8, new(old));
        return old;
    }
    let shift = offset % 4 * 8;
    let mask = if bytes == 4 { u32::MAX } else { ((1u32 << (8 * bytes)) - 1) << shift };
    let update = |word: u32| {
        let old = u64::from((word & mask) >> shift);
        Some(word & !mask | (new(old) as u32) << shift & mask)
    };
    let old = buffer.word(offset).fetch_update(SeqCst, SeqCst, update).unwrap_or_else(|old| old);
    u64::from((old & mask) >> shift)
}

/// The new value of 128 bits.
fn exchange(op: Atomic, old: [u64; 2], b: &[u64], c: &[u64]) -> [u64; 2] {
    match op {
        Atomic::Cas if old != *b => old,
        Atomic::Cas => [c[0], c[1]],
        _ => [b[0], b[1]],
    }
}

/// Atomically replaces 128 bits by others; returns the old and the new ones.
fn on_both_halves(
    block: &mut BlockMemory,
    location: Location,
    change: impl Fn([u64; 2]) -> [u64; 2],
) -> ([u64; 2], [u64; 2]) {
    match location {
        Location::Global(mapped, offset) => {
            let buffer = &mapped.buffer;
            let _whole = buffer.wide.lock().unwrap_or_else(PoisonError::into_inner);
            let old = [0, 8].map(|half| buffer.load(offset + half, 8));
            let new = change(old);
            [0, 8].iter().zip(new).for_each(|(half, new)| buffer.store(offset + half, 8, new));
            (old, new)
        }
        Location::Shared(offset) => {
            let old = [0, 8].map(|half| block.shared.load(offset + half, 8));
            let new = change(old);
            [0, 8].iter().zip(new).for_each(|(half, new)| block.shared.store(offset + half, 8, new));
            (old, new)
        }
        _ => Default::default(),
    }
}

/// Combines an element of global memory with a number.
pub(super) fn combine(mapped: &Mapped, offset: usize, op: Atomic, ty: Type, b: u64) {
    let bytes = ty.bytes() as usize;
    on_global(mapped, offset, bytes, |old| combined(op, ty, old, b));
    mapped.buffer.mark(offset, bytes);
}

/// The result of an atomic operation on two numbers.
pub(super) fn combined(op: Atomic, ty: Type, old: u64, b: u64) -> u64 {
    apply(op, ty, old, b, 0)
}

fn apply(op: Atomic, ty: Type, old: u64, b: u64, c: u64) -> u64 {
    let unused = 64 - ty.bits();
    let (unsigned, unsigned_b) = (old << unused >> unused, b << unused >> unused);
    let signed = |value: u64| (value << unused) as i64 >> unused;
    let less = if ty.is_signed() { signed(old) < signed(b) } else { unsigned < unsigned_b };
    match op {
        Atomic::Add if ty.is_float() => add_floats(ty, old, b),
        Atomic::Add => old.wrapping_add(b),
        Atomic::Min | Atomic::Max if ty.is_float() => {
            let arith = if op == Atomic::Min { Arith::Min } else { Arith::Max };
            scalar::evaluate(ScalarFn::Half { op: arith, ty }, [old, b, 0, 0])
        }
        Atomic::Min => {
            if less {
                old
            } else {
                b
            }
        }
        Atomic::Max => {
            if less {
                b
            } else {
                old
            }
        }
        Atomic::And => old & b,
        Atomic::Or => old | b,
        Atomic::Xor => old ^ b,
        Atomic::Exch => b,
        Atomic::Cas => {
            if unsigned == unsigned_b {
                c
            } else {
                old
            }
        }
        Atomic::Inc => {
            if unsigned >= unsigned_b {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if unsigned == 0 || unsigned > unsigned_b {
                b
            } else {
                old - 1
            }
        }
    }
}

fn add_floats(ty: Type, old: u64, b: u64) -> u64 {
    match ty {
        Type::F32 => u64::from((f32::from_bits(old as u32) + f32::from_bits(b as u32)).to_bits()),
        Type::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        ty => scalar::evaluate(ScalarFn::Half { op: Arith::Add, ty }, [old, b, 0, 0]),
    }
}
