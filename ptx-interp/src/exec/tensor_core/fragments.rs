//! Fragments: which lane and register holds which element (PTX ISA, "Matrix Fragments for mma.m16n8k16 with
//! floating-point type" and the pages next to it). Elements of 16 bits are packed in pairs, the lower one in the lower
//! half.
//!
//! With g = lane / 4 and t = lane % 4, a lane holds rows g and g + 8 of A and D, and column g of B; pairs begin at k = 2 t
//! and 2 t + 8, or at column 2 t.

use super::sums::{COLUMNS, DEPTH, ROWS, narrow};
use crate::op::{R32, Slot, Sum};
use crate::row::{LANES, Row32};
use crate::taint::Taint;
use crate::warp::Registers;

/// Lanes that hold parts of one row of D.
const PER_ROW: usize = 4;

/// The elements of A in two or four registers.
#[inline(always)]
pub(super) fn left(regs: &Registers, a: &[R32], bits: &mut [[u16; DEPTH]; ROWS]) {
    for (index, slot) in a.iter().enumerate() {
        let row = &regs.r32[slot.0 as usize].0;
        for (lane, value) in row.iter().enumerate() {
            let (g, k) = (lane / PER_ROW + index % 2 * 8, lane % PER_ROW * 2 + index / 2 * 8);
            (bits[g][k], bits[g][k + 1]) = (*value as u16, (value >> 16) as u16);
        }
    }
}

/// The elements of B in one or two registers.
#[inline(always)]
pub(super) fn right(regs: &Registers, b: &[R32], bits: &mut [[u16; COLUMNS]; DEPTH]) {
    for (index, slot) in b.iter().enumerate() {
        let row = &regs.r32[slot.0 as usize].0;
        for (lane, value) in row.iter().enumerate() {
            let (g, k) = (lane / PER_ROW, lane % PER_ROW * 2 + index * 8);
            (bits[k][g], bits[k + 1][g]) = (*value as u16, (value >> 16) as u16);
        }
    }
}

/// The elements of C: four registers of f32, or two of f16.
#[inline(always)]
pub(super) fn sums(regs: &Registers, sum: Sum, c: &[R32], out: &mut [[f32; COLUMNS]; ROWS]) {
    match sum {
        Sum::F32 | Sum::S32 => {
            for (index, slot) in c[..4].iter().enumerate() {
                let row = &regs.r32[slot.0 as usize].0;
                for (lane, value) in row.iter().enumerate() {
                    out[lane / PER_ROW + index / 2 * 8][lane % PER_ROW * 2 + index % 2] = f32::from_bits(*value);
                }
            }
        }
        Sum::F16 => {
            for (index, slot) in c[..2].iter().enumerate() {
                let row = &regs.r32[slot.0 as usize].0;
                for (lane, value) in row.iter().enumerate() {
                    let (g, column) = (lane / PER_ROW + index * 8, lane % PER_ROW * 2);
                    let half = |bits: u32| half::f16::from_bits(bits as u16).to_f32();
                    (out[g][column], out[g][column + 1]) = (half(*value), half(value >> 16));
                }
            }
        }
    }
}

/// Writes the elements of D.
#[inline(always)]
pub(super) fn store_sums(regs: &mut Registers, sum: Sum, d: &[R32], from: &[[f32; COLUMNS]; ROWS]) {
    let mut put = |slot: R32, value: &dyn Fn(usize) -> u32| {
        regs.r32[slot.0 as usize] = Row32(std::array::from_fn(value));
    };
    match sum {
        Sum::F32 | Sum::S32 => {
            for (index, slot) in d[..4].iter().enumerate() {
                put(*slot, &|lane| from[lane / PER_ROW + index / 2 * 8][lane % PER_ROW * 2 + index % 2].to_bits());
            }
        }
        Sum::F16 => {
            for (index, slot) in d[..2].iter().enumerate() {
                put(*slot, &|lane| {
                    let (g, column) = (lane / PER_ROW + index * 8, lane % PER_ROW * 2);
                    u32::from(narrow(from[g][column])) | u32::from(narrow(from[g][column + 1])) << 16
                });
            }
        }
    }
}

/// The elements of C as their bits.
pub(super) fn raw_sums(regs: &Registers, sum: Sum, c: &[R32], out: &mut [[u32; COLUMNS]; ROWS]) {
    for (index, slot) in c.iter().enumerate() {
        for (lane, value) in regs.r32[slot.0 as usize].0.iter().enumerate() {
            match sum {
                Sum::F32 | Sum::S32 => out[lane / PER_ROW + index / 2 * 8][lane % PER_ROW * 2 + index % 2] = *value,
                Sum::F16 => {
                    let (g, column) = (lane / PER_ROW + index * 8, lane % PER_ROW * 2);
                    (out[g][column], out[g][column + 1]) = (value & 0xffff, value >> 16);
                }
            }
        }
    }
}

/// Writes the elements of D, given as their bits.
pub(super) fn store_raw_sums(regs: &mut Registers, sum: Sum, d: &[R32], from: &[[u32; COLUMNS]; ROWS]) {
    for (index, slot) in d.iter().enumerate() {
        regs.r32[slot.0 as usize] = Row32(std::array::from_fn(|lane| match sum {
            Sum::F32 | Sum::S32 => from[lane / PER_ROW + index / 2 * 8][lane % PER_ROW * 2 + index % 2],
            Sum::F16 => {
                let (g, column) = (lane / PER_ROW + index * 8, lane % PER_ROW * 2);
                from[g][column] | from[g][column + 1] << 16
            }
        }));
    }
}

/// Registers of C or D per 16 x 8 elements.
pub(super) const fn sum_registers(sum: Sum) -> usize {
    match sum {
        Sum::F32 | Sum::S32 => 4,
        Sum::F16 => 2,
    }
}

/// Rows and columns of a product that depend on values that were never written, and the origin of these values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undefined {
    /// One bit per row of A.
    pub(super) rows: u32,
    /// One bit per column of B.
    pub(super) columns: u32,
    /// As in [`Taint::origin`].
    pub(super) origin: u32,
}

impl Undefined {
    /// Adds the rows of A in some registers.
    pub(super) fn add_left(&mut self, taint: &Taint, a: &[R32]) {
        for (index, slot) in a.iter().enumerate() {
            self.add_rows(taint, (*slot).into(), index % 2);
        }
    }

    /// Adds eight rows of A, or the eight after them, in one register.
    pub(super) fn add_rows(&mut self, taint: &Taint, slot: Slot, half: usize) {
        let mask = taint.mask(taint.at(slot));
        self.rows |= per_four_lanes(mask) << (half * 8);
        self.remember(taint, slot, mask);
    }

    /// Adds the columns of B in one register.
    pub(super) fn add_columns(&mut self, taint: &Taint, slot: Slot) {
        let mask = taint.mask(taint.at(slot));
        self.columns |= per_four_lanes(mask);
        self.remember(taint, slot, mask);
    }

    /// Adds the columns of B in some registers.
    pub(super) fn add_right(&mut self, taint: &Taint, b: &[R32]) {
        b.iter().for_each(|slot| self.add_columns(taint, (*slot).into()));
    }

    fn remember(&mut self, taint: &Taint, slot: Slot, mask: u32) {
        if mask != 0 {
            self.origin = taint.origin(taint.at(slot));
        }
    }

    /// The lanes of a register of D that depend on such a value.
    pub(super) fn lanes(&self, sum: Sum, index: usize) -> u32 {
        if self.rows | self.columns == 0 {
            return 0;
        }
        let (half, columns) = match sum {
            Sum::F32 | Sum::S32 => (index / 2, 1u32 << (index % 2)),
            Sum::F16 => (index, 0b11),
        };
        let of_lane = |lane: usize| {
            let row = self.rows >> (lane / PER_ROW + half * 8) & 1 != 0;
            row || self.columns >> (lane % PER_ROW * 2) & columns != 0
        };
        (0..LANES).fold(0, |mask, lane| mask | u32::from(of_lane(lane)) << lane)
    }
}

/// One bit for every four lanes, set if one of these is set.
fn per_four_lanes(mask: u32) -> u32 {
    (0..8).fold(0, |rows, row| rows | u32::from(mask >> (4 * row) & 0xf != 0) << row)
}
