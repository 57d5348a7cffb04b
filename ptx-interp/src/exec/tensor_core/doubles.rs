//! `mma.sync` of double precision: products are added one after the other, each with one rounding.
//!
//! With g = lane / 4 and t = lane % 4, register i of A holds row g + 8 (i % 2) and k = t + 4 (i / 2), register i of B
//! column g and k = t + 4 i, and register i of C and D row g + 8 (i / 2) and column 2 t + i % 2 (PTX ISA, "Matrix
//! Fragments for mma.m16n8k16 with floating-point type", .f64).

use super::fragments::Undefined;
use crate::op::{DoubleMultiply, R64, Sum};
use crate::row::LANES;
use crate::warp::Warp;

/// D = A B + C over the fragments of one warp.
pub(super) fn product(warp: &mut Warp, multiply: &DoubleMultiply) {
    let DoubleMultiply { rows, k, d, a, b, c } = multiply;
    let (rows, depth) = (usize::from(*rows), usize::from(*k));
    let value = |slot: R64, lane: usize| f64::from_bits(warp.regs.r64[slot.0 as usize].0[lane]);
    let left = |row: usize, k: usize| value(a[k / 4 * (rows / 8) + row / 8], row % 8 * 4 + k % 4);
    let right = |k: usize, column: usize| value(b[k / 4], column * 4 + k % 4);
    let mut out = [[0; LANES]; 4];
    let sums = rows / 4;
    for (index, out) in out[..sums].iter_mut().enumerate() {
        for (lane, out) in out.iter_mut().enumerate() {
            let (row, column) = (lane / 4 + index / 2 * 8, lane % 4 * 2 + index % 2);
            let sum = |sum: f64, k: usize| left(row, k).mul_add(right(k, column), sum);
            *out = (0..depth).fold(value(c[index], lane), sum).to_bits();
        }
    }
    for (slot, out) in d.iter().zip(&out[..sums]) {
        warp.regs.r64[slot.0 as usize].0 = *out;
    }
    warp.fma += (rows * 8 * depth) as u64;
}

/// An element of D depends on a row of A, a column of B and an element of C.
pub(super) fn taint(warp: &mut Warp, multiply: &DoubleMultiply) {
    let DoubleMultiply { rows, k, d, a, b, c } = multiply;
    let (rows, depth) = (usize::from(*rows), usize::from(*k));
    let mut undefined = Undefined::default();
    for (index, slot) in a[..rows / 8 * depth / 4].iter().enumerate() {
        undefined.add_rows(&warp.taint, (*slot).into(), index % (rows / 8));
    }
    b[..depth / 4].iter().for_each(|slot| undefined.add_columns(&warp.taint, (*slot).into()));
    let of_c = c.map(|slot| warp.taint.at(slot.into()));
    let of_c = of_c.map(|at| (warp.taint.mask(at), warp.taint.origin(at)));
    for (index, slot) in d[..rows / 4].iter().enumerate() {
        let (mask, origin) = of_c[index];
        let of_products = undefined.lanes(Sum::F32, index);
        let origin = if of_products != 0 { undefined.origin } else { origin };
        warp.taint.set(warp.taint.at((*slot).into()), of_products | mask, origin, u32::MAX);
    }
}
