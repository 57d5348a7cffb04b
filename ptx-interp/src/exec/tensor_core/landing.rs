//! Computes the multiplications of a warp group, for one warp at a time: 16 rows of D each.

use pulp::{Arch, Simd, WithSimd};

use super::fragments::{self, Undefined};
use super::others;
use super::sums::{self, COLUMNS, DEPTH, Left as LeftRows, ROWS, Right};
use crate::env::{BlockMemory, Env};
use crate::groups::{Operands, WARPS};
use crate::op::{Factors, GroupMultiply, Left, Major, Op, Other, R32, Sum};
use crate::warp::Warp;

/// Completes a warp's first `count` multiplications.
pub(super) fn land<const WATCH: bool>(warp: &mut Warp, block: &mut BlockMemory, env: &Env, count: u32) {
    let own = warp.index as usize;
    while warp.flight.landed < count {
        let number = warp.flight.landed;
        warp.flight.landed += 1;
        let Some(multiplication) = block.groups.get_mut(own, number) else { continue };
        let Op::GroupMultiply { index } = env.code.instrs[multiplication.terms.pc as usize].op else { continue };
        let multiply = &env.code.group_multiplies[index as usize];
        let (adds, pc) = (multiplication.terms.adds, multiplication.terms.pc);
        let operands = multiplication.operands.take();
        let pieces = std::mem::take(&mut multiplication.pieces);
        let operands = operands.unwrap_or_else(|| fetch::<WATCH>(block, multiply, &pieces));
        Arch::new().dispatch(Product { warp, multiply, operands: &operands, adds });
        if WATCH {
            taint(warp, multiply, &operands, adds, pc);
        }
        if let Some(multiplication) = block.groups.get_mut(own, number) {
            (multiplication.operands, multiplication.pieces) = (Some(operands), pieces);
        }
        block.groups.land(own, number);
    }
}

/// Reads both operands from shared memory.
fn fetch<const WATCH: bool>(block: &BlockMemory, multiply: &GroupMultiply, pieces: &[Vec<u32>; 2]) -> Operands {
    let n = usize::from(multiply.n);
    let mut operands = Operands {
        a: vec![[0; DEPTH]; pieces[0].len() / 2],
        b: vec![[[0; COLUMNS]; DEPTH]; n / COLUMNS],
        undefined_rows: 0,
        undefined_columns: vec![0; n / COLUMNS],
    };
    let elements = |offset: u32| -> [u16; 8] {
        let words = &block.shared.words[offset as usize / 4..][..4];
        std::array::from_fn(|index| (words[index / 2] >> (16 * (index % 2))) as u16)
    };
    // Which of the eight elements were never written.
    let unwritten = |offset: u32| -> u32 {
        if !WATCH || block.shared.is_written(offset as usize, 16) {
            return 0;
        }
        let missing = |element: &usize| !block.shared.is_written(offset as usize + 2 * element, 2);
        (0..8usize).filter(missing).fold(0, |mask, element| mask | 1 << element)
    };
    if let Left::Descriptor { major, .. } = multiply.a {
        for (index, &offset) in pieces[0].iter().enumerate() {
            let (values, missing) = (elements(offset), unwritten(offset));
            match major {
                Major::K => {
                    operands.a[index / 2][index % 2 * 8..][..8].copy_from_slice(&values);
                    operands.undefined_rows |= u64::from(missing != 0) << (index / 2);
                }
                Major::Mn => {
                    let first = index / DEPTH * 8;
                    values.iter().enumerate().for_each(|(row, value)| operands.a[first + row][index % DEPTH] = *value);
                    operands.undefined_rows |= u64::from(missing) << first;
                }
            }
        }
    }
    for (index, &offset) in pieces[1].iter().enumerate() {
        let (values, missing) = (elements(offset), unwritten(offset));
        match multiply.b_major {
            Major::K => {
                let (column, first) = (index / 2, index % 2 * 8);
                let tile = &mut operands.b[column / COLUMNS];
                values.iter().enumerate().for_each(|(k, value)| tile[first + k][column % COLUMNS] = *value);
                operands.undefined_columns[column / COLUMNS] |= u8::from(missing != 0) << (column % COLUMNS);
            }
            Major::Mn => {
                operands.b[index / DEPTH][index % DEPTH] = values;
                operands.undefined_columns[index / DEPTH] |= missing as u8;
            }
        }
    }
    operands
}

/// The registers of D, for every eight columns.
fn tiles(multiply: &GroupMultiply) -> impl Iterator<Item = &[R32]> {
    multiply.d.chunks_exact(fragments::sum_registers(multiply.sum))
}

/// Flips the signs of some elements. Each row consists of 16-bit parts.
#[inline(always)]
fn negated<'a>(factors: Factors, rows: impl IntoIterator<Item = &'a mut [u16]>) {
    for (k, row) in rows.into_iter().enumerate() {
        let sign = match factors {
            Factors::Half(_) => 0x8000,
            // The upper half of each word.
            Factors::Other(Other::Tf32) => (k as u16 & 1) << 15,
            Factors::Other(Other::Narrow(_)) => 0x8080,
            // These cannot be negated.
            Factors::Other(Other::Bytes { .. }) => 0,
        };
        row.iter_mut().for_each(|bits| *bits ^= sign);
    }
}

/// A warp's part of a product, dispatched to the widest instruction set of the host.
struct Product<'a> {
    warp: &'a mut Warp,
    multiply: &'a GroupMultiply,
    operands: &'a Operands,
    adds: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        product(self.warp, self.multiply, self.operands, self.adds);
    }
}

/// The 16 rows of D that a warp holds.
#[inline(always)]
fn product(warp: &mut Warp, multiply: &GroupMultiply, operands: &Operands, adds: bool) {
    let GroupMultiply { factors, sum, negate, .. } = multiply;
    let mut left = [[0; DEPTH]; ROWS];
    match &multiply.a {
        Left::Registers(a) => fragments::left(&warp.regs, a, &mut left),
        Left::Descriptor { .. } => {
            let first = warp.index as usize % WARPS * ROWS;
            left.copy_from_slice(&operands.a[first..][..ROWS]);
        }
    }
    if negate[0] {
        left.iter_mut().for_each(|row| negated(*factors, row.chunks_exact_mut(1)));
    }
    warp.fma += ROWS as u64 * factors.per_row() * u64::from(multiply.n);
    let factor = match factors {
        Factors::Half(factor) => *factor,
        Factors::Other(other) => return other_product(warp, multiply, (*other, *sum), &left, operands, adds),
    };
    let left = LeftRows::new(factor, &left);
    for (tile, right) in tiles(multiply).zip(&operands.b) {
        let mut right = *right;
        if negate[1] {
            negated(*factors, right.iter_mut().map(|row| row.as_mut_slice()));
        }
        let right = Right::new(factor, &right);
        let mut sums = [[0.0; COLUMNS]; ROWS];
        if adds {
            fragments::sums(&warp.regs, *sum, tile, &mut sums);
        }
        sums::multiply((factor, *sum), DEPTH, &left, &right, &mut sums);
        fragments::store_sums(&mut warp.regs, *sum, tile, &sums);
    }
}

/// The same for elements other than 16-bit floats.
fn other_product(
    warp: &mut Warp,
    multiply: &GroupMultiply,
    types: (Other, Sum),
    left: &others::Rows,
    operands: &Operands,
    adds: bool,
) {
    for (tile, right) in tiles(multiply).zip(&operands.b) {
        let mut right = *right;
        if multiply.negate[1] {
            negated(multiply.factors, right.iter_mut().map(|row| row.as_mut_slice()));
        }
        let mut sums = [[0; COLUMNS]; ROWS];
        if adds {
            fragments::raw_sums(&warp.regs, types.1, tile, &mut sums);
        }
        others::multiply_group(types, DEPTH, left, &right, &mut sums);
        fragments::store_raw_sums(&mut warp.regs, types.1, tile, &sums);
    }
}

/// An element of D depends on a row of A, a column of B, and the accumulator.
fn taint(warp: &mut Warp, multiply: &GroupMultiply, operands: &Operands, adds: bool, pc: u32) {
    let first = warp.index as usize % WARPS * ROWS;
    let mut rows = Undefined { rows: (operands.undefined_rows >> first) as u32 & 0xffff, columns: 0, origin: pc + 1 };
    if let Left::Registers(a) = &multiply.a {
        rows.add_left(&warp.taint, a);
    }
    for (tile, columns) in tiles(multiply).zip(&operands.undefined_columns) {
        let undefined = Undefined { columns: u32::from(*columns), ..rows };
        for (index, slot) in tile.iter().enumerate() {
            let at = warp.taint.at32(*slot);
            let of_sum = if adds { warp.taint.mask(at) } else { 0 };
            let of_products = undefined.lanes(multiply.sum, index);
            let origin = if of_products != 0 { undefined.origin } else { warp.taint.origin(at) };
            warp.taint.set(at, of_products | of_sum, origin, u32::MAX);
        }
    }
}
