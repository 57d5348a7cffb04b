//! `wmma`: matrices between memory and fragments, and products of fragments.
//!
//! The ISA leaves open which thread holds which element, so a program may only load, multiply, store, and treat all
//! elements of a fragment alike. Here an element's number counts along the rows of A, B, C and D, or along the columns
//! of an A or B that is loaded by columns. Register r of lane l holds element 32 r + l, or if they have 16 bits,
//! elements 64 r + 2 l and 64 r + 2 l + 1. The numbers wrap around in fragments of f16, which hold their elements more
//! than once. Narrower elements fill registers of 32 bits in the same way, and f64 has registers of its own.

use ptx_gemm_ptx::matrix::{Layout, Part, Shape};

use super::others;
use super::sums::{self, COLUMNS, DEPTH, Left, ROWS, Right};
use crate::env::{BlockMemory, Env};
use crate::exec::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate};
use crate::exec::memory::{read, write};
use crate::exec::order::How;
use crate::exec::scalar::multiply_add;
use crate::exec::{undefined as report_undefined, watch};
use crate::op::{Factor, Fragment, FragmentMultiply, FragmentProduct, Other, Slot, Sum, Way};
use crate::row::LANES;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// The largest extent of a matrix.
const MOST: usize = 32;

/// Extents of a matrix.
fn extents(part: Part, shape: Shape) -> [usize; 2] {
    part.extents(shape).map(usize::from)
}

/// Loads or stores a fragment.
pub(super) fn execute<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Fragment,
    pc: u32,
) -> Checked {
    let [rows, columns] = extents(op.part, op.shape);
    let length = if op.layout == Layout::Row { columns } else { rows };
    let bits = usize::from(op.bits);
    // Of one register: its bytes and its elements.
    let (width, per) = (4.max(bits / 8), (32 / bits).max(1));
    if WATCH {
        defined_address(warp, env, op.address.base, u32::MAX)?;
    }
    let start = addresses(&warp.regs, op.address.base, op.address.offset);
    let strides = match op.stride {
        Some(slot) => {
            let tainted = if WATCH { warp.taint.mask(warp.taint.at32(slot)) } else { 0 };
            if tainted != 0 && env.watches(ViolationKind::Uninitialised) {
                return Err(report_undefined(warp, env, slot.into(), tainted, "is the stride of a matrix"));
            }
            warp.regs.r32[slot.0 as usize].0.map(u64::from)
        }
        None => [length as u64; LANES],
    };
    let differs = (1..LANES).find(|lane| (start[*lane], strides[*lane]) != (start[0], strides[0]));
    if let Some(lane) = differs.filter(|_| env.watches(ViolationKind::InvalidOperand)) {
        let message = "{thread} names another matrix than other threads of its warp";
        return Err(Fault::new(ViolationKind::InvalidOperand, 1 << lane, message));
    }
    let pitch = strides[0].wrapping_mul(bits as u64) / 8;
    // PTX ISA, "Warp-level Matrix Load Instruction: wmma.load": each row or column is aligned to the fragment's size.
    let align = (width * op.values.len()) as u64;
    if !start[0].is_multiple_of(align) || !pitch.is_multiple_of(align) {
        let message = format!(
            "{{thread}}: a matrix starts at {:#x}, and its rows are {pitch} bytes apart: both must be multiples of {align}",
            start[0]
        );
        return Err(Fault::new(ViolationKind::Misaligned, 1, message));
    }
    let kind = if op.way == Way::Load { AccessKind::Read } else { AccessKind::Write };
    // The elements of one register are adjacent in memory, or apart.
    let apart = bits == 16 && matches!(op.part, Part::C | Part::D) && op.layout == Layout::Col;
    let (pieces, span) = if apart { (2, 2) } else { (1, width) };
    for (index, slot) in op.values.iter().enumerate() {
        let mut tainted = 0;
        for piece in 0..pieces {
            let mut tally = watch::Tally::default();
            for lane in 0..LANES {
                let number = (index * LANES + lane) * per + piece;
                let [line, at] = place(op, number % (rows * columns));
                let address =
                    start[0].wrapping_add(pitch.wrapping_mul(line as u64)).wrapping_add((at * bits / 8) as u64);
                let access = LaneAccess { space: op.address.space, address, bytes: span as u64, lane, kind };
                let location = locate(block, env, &access)?;
                let shift = 16 * piece;
                if op.way == Way::Store {
                    defined_for(warp, env, *slot, lane, location)?;
                }
                if WATCH {
                    watch::accessed(warp, block, env, &access, location, How::weak(pc))?;
                    tally.add(block, location, &access);
                }
                match op.way {
                    Way::Load => {
                        let (value, written) = read::<WATCH>(warp, block, env, location, 0, span, lane);
                        let kept = if piece == 0 { 0 } else { word(warp, *slot, lane) & 0xffff };
                        set_word(warp, *slot, lane, kept | value << shift);
                        tainted |= u32::from(!written) << lane;
                    }
                    Way::Store => {
                        let value = word(warp, *slot, lane) >> shift;
                        if WATCH && let Location::Shared(offset) = location {
                            let written = warp.taint.mask(warp.taint.at(*slot)) >> lane & 1 == 0;
                            block.shared.mark(offset, span, written);
                        }
                        write(warp, block, location, 0, span, lane, value);
                    }
                }
            }
            tally.count(block, kind, span as u64, pc);
        }
        if WATCH && op.way == Way::Load {
            warp.taint.load(warp.taint.at(*slot), tainted, u32::MAX, pc);
        }
    }
    Ok(())
}

/// Checks that a value that a lane stores to global memory was written.
fn defined_for(warp: &Warp, env: &Env, slot: Slot, lane: usize, location: Location) -> Checked {
    if !env.watches(ViolationKind::Uninitialised) || !matches!(location, Location::Global(..)) {
        return Ok(());
    }
    match warp.taint.mask(warp.taint.at(slot)) >> lane & 1 {
        0 => Ok(()),
        _ => Err(report_undefined(warp, env, slot, 1 << lane, "is stored to global memory")),
    }
}

/// The row or column of memory that holds an element, and the element's position there.
fn place(op: &Fragment, number: usize) -> [usize; 2] {
    let [rows, columns] = extents(op.part, op.shape);
    match (op.part, op.layout) {
        (_, Layout::Row) => [number / columns, number % columns],
        (Part::A | Part::B, Layout::Col) => [number / rows, number % rows],
        (Part::C | Part::D, Layout::Col) => [number % columns, number / columns],
    }
}

/// Number of a matrix's element.
fn number([rows, columns]: [usize; 2], layout: Layout, row: usize, column: usize) -> usize {
    match layout {
        Layout::Row => row * columns + column,
        Layout::Col => column * rows + row,
    }
}

/// A lane's value of a register.
fn word(warp: &Warp, slot: Slot, lane: usize) -> u64 {
    match slot {
        Slot::R32(slot) => warp.regs.r32[slot.0 as usize].0[lane].into(),
        Slot::R64(slot) => warp.regs.r64[slot.0 as usize].0[lane],
        Slot::P(_) => 0,
    }
}

fn set_word(warp: &mut Warp, slot: Slot, lane: usize, value: u64) {
    match slot {
        Slot::R32(slot) => warp.regs.r32[slot.0 as usize].0[lane] = value as u32,
        Slot::R64(slot) => warp.regs.r64[slot.0 as usize].0[lane] = value,
        Slot::P(_) => {}
    }
}

/// Elements of a register.
fn per_register(bits: usize) -> usize {
    (32 / bits).max(1)
}

/// The bits of an element.
fn element(warp: &Warp, values: &[Slot], bits: usize, number: usize) -> u64 {
    let per = per_register(bits);
    let word = word(warp, values[number / per / LANES], number / per % LANES);
    match bits {
        64 => word,
        _ => word >> (number % per * bits) & ((1 << bits) - 1),
    }
}

/// D = A B + C over fragments.
pub(super) fn product(warp: &mut Warp, multiply: &FragmentMultiply) {
    let FragmentMultiply { shape, product, .. } = multiply;
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let out = match *product {
        FragmentProduct::Half(factor, sums) => of_halves(warp, multiply, factor, sums),
        FragmentProduct::Tf32 => of_singles(warp, multiply),
        FragmentProduct::Double(rounding) => each(warp, multiply, |sum, left, right| {
            left.zip(right).fold(sum, |sum, (a, b)| multiply_add(rounding, a, b, sum))
        }),
        FragmentProduct::Integers { bits, signed, saturates } => each(warp, multiply, |sum, left, right| {
            let shift = 64 - u32::from(bits);
            let value = |bits: u64| if signed { (bits << shift) as i64 >> shift } else { bits as i64 };
            let sum = i64::from(sum as i32) + left.zip(right).map(|(a, b)| value(a) * value(b)).sum::<i64>();
            if saturates { sum.clamp(i32::MIN.into(), i32::MAX.into()) as u64 } else { sum as u64 }
        }),
        FragmentProduct::Bits { xor } => each(warp, multiply, |sum, left, right| {
            left.zip(right).fold(sum, |sum, (a, b)| sum + if xor { a ^ b } else { a & b })
        }),
    };
    let [_, bits, _] = product.bits();
    let per = per_register(bits);
    for (index, slot) in multiply.d.iter().enumerate() {
        for lane in 0..LANES {
            let first = (index * LANES + lane) * per;
            let value = (0..per).fold(0, |value, at| value | out[first + at] << (at * bits));
            set_word(warp, *slot, lane, value);
        }
    }
    match product {
        FragmentProduct::Integers { .. } | FragmentProduct::Bits { .. } => warp.mad += (m * n * k) as u64,
        _ => warp.fma += (m * n * k) as u64,
    }
}

/// Elements of D as their bits, row by row.
type Out = [u64; MOST * MOST];

/// Each element of D by itself, from its element of C, its row of A and its column of B.
fn each(
    warp: &Warp,
    multiply: &FragmentMultiply,
    sum: impl Fn(u64, &mut dyn Iterator<Item = u64>, &mut dyn Iterator<Item = u64>) -> u64,
) -> Out {
    let FragmentMultiply { layouts, shape, product, a, b, c, .. } = multiply;
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let [bits, _, of_c] = product.bits();
    let mut out = [0; MOST * MOST];
    for (at, out) in out[..m * n].iter_mut().enumerate() {
        let (row, column) = (at / n, at % n);
        let mut left = (0..k).map(|depth| element(warp, a, bits, number([m, k], layouts[0], row, depth)));
        let mut right = (0..k).map(|depth| element(warp, b, bits, number([k, n], layouts[1], depth, column)));
        *out = sum(element(warp, c, of_c, at), &mut left, &mut right);
    }
    out
}

/// 16-bit floats, in parts of 16 x 8.
fn of_halves(warp: &Warp, multiply: &FragmentMultiply, factor: Factor, [to, from]: [Sum; 2]) -> Out {
    let FragmentMultiply { layouts, shape, a, b, c, .. } = multiply;
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let half = |values: &[Slot], number: usize| element(warp, values, 16, number) as u16;
    let mut out = [0; MOST * MOST];
    for first_row in (0..m).step_by(ROWS) {
        let mut left = [[0; DEPTH]; ROWS];
        for (row, left) in left[..ROWS.min(m)].iter_mut().enumerate() {
            for (at, left) in left.iter_mut().enumerate() {
                *left = half(a, number([m, k], layouts[0], first_row + row, at));
            }
        }
        let left = Left::new(factor, &left);
        for first_column in (0..n).step_by(COLUMNS) {
            let mut right = [[0; COLUMNS]; DEPTH];
            let mut sums = [[0.0; COLUMNS]; ROWS];
            for column in 0..COLUMNS {
                for (at, right) in right.iter_mut().enumerate() {
                    right[column] = half(b, number([k, n], layouts[1], at, first_column + column));
                }
                for (row, sums) in sums[..ROWS.min(m)].iter_mut().enumerate() {
                    let number = (first_row + row) * n + first_column + column;
                    sums[column] = match from {
                        Sum::F16 => half::f16::from_bits(half(c, number)).to_f32(),
                        Sum::F32 | Sum::S32 => f32::from_bits(element(warp, c, 32, number) as u32),
                    };
                }
            }
            sums::multiply((factor, to), DEPTH, &left, &Right::new(factor, &right), &mut sums);
            for (row, sums) in sums[..ROWS.min(m)].iter().enumerate() {
                let at = (first_row + row) * n + first_column;
                for (out, sum) in out[at..at + COLUMNS].iter_mut().zip(sums) {
                    *out = match to {
                        Sum::F32 | Sum::S32 => sum.to_bits().into(),
                        Sum::F16 => sums::narrow(*sum).into(),
                    };
                }
            }
        }
    }
    out
}

/// tf32: 16 x 16 x 8, in parts of 16 x 8 and, as on an H200, steps of four along k.
fn of_singles(warp: &Warp, multiply: &FragmentMultiply) -> Out {
    const STEP: usize = 4;
    let FragmentMultiply { layouts, shape, a, b, c, .. } = multiply;
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let parts = |word: u64, at: usize| (word >> (at % 2 * 16)) as u16;
    let mut out = [0; MOST * MOST];
    for first in (0..n).step_by(COLUMNS) {
        let mut sums: others::Sums = std::array::from_fn(|row| {
            std::array::from_fn(|column| element(warp, c, 32, row * n + first + column) as u32)
        });
        for step in (0..k).step_by(STEP) {
            let (mut left, mut right) = ([[0; DEPTH]; ROWS], [[0; COLUMNS]; DEPTH]);
            for at in 0..2 * STEP {
                let of_k = step + at / 2;
                for (row, left) in left.iter_mut().enumerate() {
                    left[at] = parts(element(warp, a, 32, number([m, k], layouts[0], row, of_k)), at);
                }
                for (column, right) in right[at].iter_mut().enumerate() {
                    *right = parts(element(warp, b, 32, number([k, n], layouts[1], of_k, first + column)), at);
                }
            }
            others::multiply((Other::Tf32, Sum::F32), 2 * STEP, &left, &right, &mut sums);
        }
        for (row, sums) in sums.iter().enumerate() {
            let at = row * n + first;
            out[at..at + COLUMNS].iter_mut().zip(sums).for_each(|(out, sum)| *out = (*sum).into());
        }
    }
    out
}

/// The rows of A, columns of B and elements of C that depend on values that were never written, one bit each, and the
/// origin of these values.
#[derive(Default)]
pub(super) struct Undefined {
    rows: u32,
    columns: u32,
    elements: [u32; MOST],
    origin: u32,
}

/// Finds what is undefined in the operands of a product.
pub(super) fn undefined(warp: &Warp, multiply: &FragmentMultiply) -> Undefined {
    let FragmentMultiply { layouts, shape, product, a, b, c, .. } = multiply;
    let [of_register, _, per] = product.bits().map(per_register);
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let mut undefined = Undefined::default();
    // An element that a fragment holds more than once is defined if all its copies are.
    let mut tainted = |values: &[Slot], number: usize, count: usize, per: usize| {
        let copies = (number..values.len() * LANES * per).step_by(count);
        copies.fold(0, |is, number| {
            let at = warp.taint.at(values[number / per / LANES]);
            let tainted = warp.taint.mask(at) >> (number / per % LANES) & 1;
            if tainted != 0 {
                undefined.origin = warp.taint.origin(at);
            }
            is | tainted
        })
    };
    let (mut rows, mut columns, mut elements) = (0, 0, [0; MOST]);
    for at in 0..k {
        (0..m).for_each(|row| rows |= tainted(a, number([m, k], layouts[0], row, at), m * k, of_register) << row);
        (0..n).for_each(|column| {
            columns |= tainted(b, number([k, n], layouts[1], at, column), k * n, of_register) << column
        });
    }
    for (row, elements) in elements[..m].iter_mut().enumerate() {
        (0..n).for_each(|column| *elements |= tainted(c, row * n + column, m * n, per) << column);
    }
    Undefined { rows, columns, elements, ..undefined }
}

/// Marks the elements of D that are undefined.
pub(super) fn taint(warp: &mut Warp, multiply: &FragmentMultiply, undefined: &Undefined) {
    let [_, n] = extents(Part::D, multiply.shape);
    let per = per_register(multiply.product.bits()[1]);
    for (index, slot) in multiply.d.iter().enumerate() {
        let is = |number: usize| {
            let (row, column) = (number / n, number % n);
            (undefined.rows >> row | undefined.columns >> column | undefined.elements[row] >> column) & 1 != 0
        };
        let of_lane = |lane: usize| (0..per).any(|at| is((index * LANES + lane) * per + at));
        let mask = (0..LANES).fold(0, |mask, lane| mask | u32::from(of_lane(lane)) << lane);
        warp.taint.set(warp.taint.at(*slot), mask, undefined.origin, u32::MAX);
    }
}
