//! `wmma`: matrices between memory and fragments, and products of fragments.
//!
//! The ISA leaves open which thread holds which element, so a program may only load, multiply, store, and treat all
//! elements of a fragment alike. Here an element's number counts along the rows of A, B, C and D, or along the columns
//! of an A or B that is loaded by columns. Register r of lane l holds element 32 r + l, or if they have 16 bits,
//! elements 64 r + 2 l and 64 r + 2 l + 1. The numbers wrap around in fragments of f16, which hold their elements more
//! than once.

use ptx_gemm_ptx::matrix::{Layout, Part, Shape};

use super::sums::{self, COLUMNS, DEPTH, Left, ROWS, Right};
use crate::env::{BlockMemory, Env};
use crate::exec::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate};
use crate::exec::memory::{read, write};
use crate::exec::order::How;
use crate::exec::{undefined as report_undefined, watch};
use crate::op::{Fragment, FragmentMultiply, R32, Sum, Way};
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
    let bytes = usize::from(op.bytes);
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
    let pitch = strides[0].wrapping_mul(bytes as u64);
    // PTX ISA, "Warp-level Matrix Load Instruction: wmma.load": each row or column is aligned to the fragment's size.
    let align = 4 * op.values.len() as u64;
    if !start[0].is_multiple_of(align) || !pitch.is_multiple_of(align) {
        let message = format!(
            "{{thread}}: a matrix starts at {:#x}, and its rows are {pitch} bytes apart: both must be multiples of {align}",
            start[0]
        );
        return Err(Fault::new(ViolationKind::Misaligned, 1, message));
    }
    let kind = if op.way == Way::Load { AccessKind::Read } else { AccessKind::Write };
    // The elements of one register are adjacent in memory, or apart.
    let apart = bytes == 2 && matches!(op.part, Part::C | Part::D) && op.layout == Layout::Col;
    let (pieces, span) = if apart { (2, 2) } else { (1, 4) };
    for (index, slot) in op.values.iter().enumerate() {
        let mut tainted = 0;
        for piece in 0..pieces {
            let mut tally = watch::Tally::default();
            for lane in 0..LANES {
                let number = (index * LANES + lane) * (4 / bytes) + piece;
                let [line, at] = place(op, number % (rows * columns));
                let address = start[0].wrapping_add(pitch.wrapping_mul(line as u64)).wrapping_add((at * bytes) as u64);
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
                        let word = &mut warp.regs.r32[slot.0 as usize].0[lane];
                        let kept = if piece == 0 { 0 } else { *word & 0xffff };
                        *word = kept | (value as u32) << shift;
                        tainted |= u32::from(!written) << lane;
                    }
                    Way::Store => {
                        let value = u64::from(warp.regs.r32[slot.0 as usize].0[lane] >> shift);
                        if WATCH && let Location::Shared(offset) = location {
                            let written = warp.taint.mask(warp.taint.at32(*slot)) >> lane & 1 == 0;
                            block.shared.mark(offset, span, written);
                        }
                        write(warp, block, location, 0, span, lane, value);
                    }
                }
            }
            tally.count(block, kind, span as u64, pc);
        }
        if WATCH && op.way == Way::Load {
            warp.taint.load(warp.taint.at32(*slot), tainted, u32::MAX, pc);
        }
    }
    Ok(())
}

/// Checks that a value that a lane stores to global memory was written.
fn defined_for(warp: &Warp, env: &Env, slot: R32, lane: usize, location: Location) -> Checked {
    if !env.watches(ViolationKind::Uninitialised) || !matches!(location, Location::Global(..)) {
        return Ok(());
    }
    match warp.taint.mask(warp.taint.at32(slot)) >> lane & 1 {
        0 => Ok(()),
        _ => Err(report_undefined(warp, env, slot.into(), 1 << lane, "is stored to global memory")),
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

/// The 16 bits of an element.
fn half(warp: &Warp, values: &[R32], number: usize) -> u16 {
    let word = warp.regs.r32[values[number / 64].0 as usize].0[number / 2 % LANES];
    (word >> (number % 2 * 16)) as u16
}

/// D = A B + C over fragments, in parts of 16 x 8.
pub(super) fn product(warp: &mut Warp, multiply: &FragmentMultiply) {
    let FragmentMultiply { layouts, shape, factor, sums: [to, from], bytes, d, a, b, c } = multiply;
    if let Some(kind) = *bytes {
        return integer_product(warp, multiply, kind);
    }
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let mut out = [[0.0f32; MOST]; MOST];
    for first_row in (0..m).step_by(ROWS) {
        let mut left = [[0; DEPTH]; ROWS];
        for (row, left) in left[..ROWS.min(m)].iter_mut().enumerate() {
            for (at, left) in left.iter_mut().enumerate() {
                *left = half(warp, a, number([m, k], layouts[0], first_row + row, at));
            }
        }
        let left = Left::new(*factor, &left);
        for first_column in (0..n).step_by(COLUMNS) {
            let mut right = [[0; COLUMNS]; DEPTH];
            let mut sums = [[0.0; COLUMNS]; ROWS];
            for column in 0..COLUMNS {
                for (at, right) in right.iter_mut().enumerate() {
                    right[column] = half(warp, b, number([k, n], layouts[1], at, first_column + column));
                }
                for (row, sums) in sums[..ROWS.min(m)].iter_mut().enumerate() {
                    let number = (first_row + row) * n + first_column + column;
                    sums[column] = match from {
                        Sum::F16 => half::f16::from_bits(half(warp, c, number)).to_f32(),
                        Sum::F32 | Sum::S32 => {
                            f32::from_bits(warp.regs.r32[c[number / LANES].0 as usize].0[number % LANES])
                        }
                    };
                }
            }
            sums::multiply((*factor, *to), DEPTH, &left, &Right::new(*factor, &right), &mut sums);
            for (row, sums) in sums[..ROWS.min(m)].iter().enumerate() {
                out[first_row + row][first_column..first_column + COLUMNS].copy_from_slice(sums);
            }
        }
    }
    for (index, slot) in d.iter().enumerate() {
        for lane in 0..LANES {
            let element = |number: usize| out[number / n][number % n];
            let first = index * LANES + lane;
            warp.regs.r32[slot.0 as usize].0[lane] = match to {
                Sum::F32 | Sum::S32 => element(first).to_bits(),
                Sum::F16 => [0, 1]
                    .iter()
                    .fold(0, |word, at| word | u32::from(sums::narrow(element(2 * first + at))) << (16 * at)),
            };
        }
    }
    warp.fma += (m * n * k) as u64;
}

/// The same for bytes, with sums that wrap around or saturate.
fn integer_product(warp: &mut Warp, multiply: &FragmentMultiply, [signed, saturate]: [bool; 2]) {
    let FragmentMultiply { layouts, shape, d, a, b, c, .. } = multiply;
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let byte = |warp: &Warp, values: &[R32], number: usize| {
        let word = warp.regs.r32[values[number / (4 * LANES)].0 as usize].0[number / 4 % LANES];
        let byte = (word >> (number % 4 * 8)) as u8;
        if signed { i64::from(byte as i8) } else { i64::from(byte) }
    };
    let mut out = [0; MOST * MOST];
    for row in 0..m {
        for column in 0..n {
            let at = row * n + column;
            let sum = i64::from(warp.regs.r32[c[at / LANES].0 as usize].0[at % LANES] as i32);
            let term = |depth: usize| {
                let left = byte(warp, a, number([m, k], layouts[0], row, depth));
                left * byte(warp, b, number([k, n], layouts[1], depth, column))
            };
            let sum = sum + (0..k).map(term).sum::<i64>();
            let sum = if saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
            out[at] = sum as u32;
        }
    }
    for (slot, row) in d.iter().zip(out.chunks_exact(LANES)) {
        warp.regs.r32[slot.0 as usize].0.copy_from_slice(row);
    }
    warp.mad += (m * n * k) as u64;
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
    let FragmentMultiply { layouts, shape, sums: [_, from], bytes, a, b, c, .. } = multiply;
    let of_register = if bytes.is_some() { 4 } else { 2 };
    let ([m, k], [_, n]) = (extents(Part::A, *shape), extents(Part::B, *shape));
    let mut undefined = Undefined::default();
    // An element that a fragment holds more than once is defined if all its copies are.
    let mut tainted = |values: &[R32], number: usize, count: usize, per: usize| {
        let copies = (number..values.len() * LANES * per).step_by(count);
        copies.fold(0, |is, number| {
            let at = warp.taint.at32(values[number / per / LANES]);
            let tainted = warp.taint.mask(at) >> (number / per % LANES) & 1;
            if tainted != 0 {
                undefined.origin = warp.taint.origin(at);
            }
            is | tainted
        })
    };
    let per = if *from == Sum::F16 { 2 } else { 1 };
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
    let per = if multiply.sums[0] == Sum::F16 { 2 } else { 1 };
    for (index, slot) in multiply.d.iter().enumerate() {
        let is = |number: usize| {
            let (row, column) = (number / n, number % n);
            (undefined.rows >> row | undefined.columns >> column | undefined.elements[row] >> column) & 1 != 0
        };
        let of_lane = |lane: usize| (0..per).any(|at| is((index * LANES + lane) * per + at));
        let mask = (0..LANES).fold(0, |mask, lane| mask | u32::from(of_lane(lane)) << lane);
        warp.taint.set(warp.taint.at32(*slot), mask, undefined.origin, u32::MAX);
    }
}
