//! The table of multiply instructions of the tensor cores (PTX ISA, "Matrix multiply-accumulate operation using mma" and
//! "Asynchronous warpgroup level matrix instructions"). `atom(fma)` multiplies any types, and has no row.

use std::ops::RangeInclusive;

use crate::clause::Atom;
use crate::elements::DType;
use crate::target::{Target, WARP, WARP_GROUP};
use crate::terms::Extent3;

/// The threads that execute an instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A warp: `mma.sync`.
    Warp,
    /// Four warps: `wgmma.mma_async`.
    WarpGroup,
}

impl Unit {
    /// Every unit.
    pub const ALL: [Unit; 2] = [Unit::Warp, Unit::WarpGroup];

    /// Its instruction of a shape.
    pub fn atom(self, (m, n, k): (u32, u32, u32)) -> Atom {
        match self {
            Unit::Warp => Atom::Mma(m, n, k),
            Unit::WarpGroup => Atom::Wgmma(m, n, k),
        }
    }

    /// Its threads.
    pub const fn threads(self) -> u32 {
        match self {
            Unit::Warp => WARP,
            Unit::WarpGroup => WARP_GROUP,
        }
    }

    /// The name of its instruction in the language.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Warp => "mma",
            Unit::WarpGroup => "wgmma",
        }
    }
}

/// Rows, columns and the largest k of an `mma` of 16-bit elements (PTX ISA, "Matrix fragments for mma.m16n8k16").
pub const MMA: Extent3 = Extent3 { m: 16, n: 8, k: 16 };

/// Rows of the matrices that `ldmatrix` and `stmatrix` move, and columns of those of 16-bit elements.
pub const MATRIX: u32 = 8;
/// Bytes of such a row.
pub const MATRIX_BYTES: u32 = 16;

/// Rows of a `wgmma`, and bytes of k (PTX ISA, "wgmma.mma_async", matrix shapes).
pub const WGMMA_ROWS: u32 = 64;
/// Bytes of k that a `wgmma` multiplies.
pub const WGMMA_DEPTH_BYTES: u32 = 32;

/// The fewest and the most columns of an instruction of a warp group.
pub const WGMMA_COLUMNS: RangeInclusive<u32> = 8..=256;

/// The numbers of columns that an instruction exists with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// One.
    Only(u32),
    /// Multiples of 8 within [`WGMMA_COLUMNS`]; beyond 32, multiples of the number.
    Many(u32),
}

impl Columns {
    /// Whether there is an instruction with that many.
    pub fn has(self, columns: u32) -> bool {
        match self {
            Columns::Only(only) => columns == only,
            Columns::Many(_) => WGMMA_COLUMNS.contains(&columns) && columns.is_multiple_of(self.step(columns)),
        }
    }

    /// The step between numbers of columns near one.
    pub fn step(self, columns: u32) -> u32 {
        match self {
            Columns::Only(only) => only,
            Columns::Many(step) if columns > 32 => step,
            Columns::Many(_) => 8,
        }
    }
}

/// Fraction bits, below those of the largest term, that survive in sums of products of 8-bit floats (measured on an H200).
pub const COARSE_BITS: u32 = 13;

/// A row of the table: instructions that differ in their columns and in the types that they multiply alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiply {
    /// Who executes it.
    pub unit: Unit,
    /// The types that it multiplies. A and B have the same, unless it is `mixed`.
    pub factors: &'static [DType],
    /// Whether A and B may have different ones of these types.
    pub mixed: bool,
    /// Rows of A.
    pub rows: u32,
    /// Columns of B.
    pub columns: Columns,
    /// The extent of k.
    pub depth: u32,
    /// The types of its sums.
    pub sums: &'static [DType],
    /// Whether a sum keeps only [`COARSE_BITS`] of its terms, whatever its type, so that long sums are promoted.
    pub coarse: bool,
    /// The first target that has it.
    pub least: Target,
    /// Registers that a thread must be allowed to have: with a lower limit, ptxas (12.9, 13.0) refuses the instruction,
    /// even where fewer suffice. 0 where it asks for none.
    pub least_registers: u32,
}

const fn warp(
    factors: &'static [DType],
    (rows, columns, depth): (u32, u32, u32),
    sums: &'static [DType],
    least: Target,
) -> Multiply {
    let columns = Columns::Only(columns);
    Multiply {
        unit: Unit::Warp,
        factors,
        mixed: false,
        rows,
        columns,
        depth,
        sums,
        coarse: false,
        least,
        least_registers: 0,
    }
}

const fn group(factors: &'static [DType], depth: u32, step: u32, sums: &'static [DType]) -> Multiply {
    let columns = Columns::Many(step);
    let (unit, least) = (Unit::WarpGroup, Target::SM_90A);
    Multiply { unit, factors, mixed: false, rows: 64, columns, depth, sums, coarse: false, least, least_registers: 0 }
}

/// The rows. Of the instructions for one type, the deepest comes first.
pub static MULTIPLIES: [Multiply; 19] = {
    [
        Multiply { least_registers: 64, ..warp(&[DType::F64], (16, 8, 16), &[DType::F64], Target::SM_90) },
        Multiply { least_registers: 64, ..warp(&[DType::F64], (16, 8, 8), &[DType::F64], Target::SM_90) },
        Multiply { least_registers: 64, ..warp(&[DType::F64], (16, 8, 4), &[DType::F64], Target::SM_90) },
        warp(&[DType::F64], (8, 8, 4), &[DType::F64], Target::SM_80),
        warp(&[DType::Tf32], (16, 8, 8), &[DType::F32], Target::SM_80),
        warp(&[DType::Tf32], (16, 8, 4), &[DType::F32], Target::SM_80),
        warp(&[DType::F16], (16, 8, 16), &[DType::F32, DType::F16], Target::SM_80),
        warp(&[DType::F16], (16, 8, 8), &[DType::F32, DType::F16], Target::SM_75),
        warp(&[DType::Bf16], (16, 8, 16), &[DType::F32], Target::SM_80),
        warp(&[DType::Bf16], (16, 8, 8), &[DType::F32], Target::SM_80),
        Multiply {
            mixed: true,
            coarse: true,
            ..warp(&[DType::E4m3, DType::E5m2], (16, 8, 32), &[DType::F32, DType::F16], Target::SM_89)
        },
        Multiply {
            mixed: true,
            coarse: true,
            ..warp(&[DType::E4m3, DType::E5m2], (16, 8, 16), &[DType::F32, DType::F16], Target::SM_89)
        },
        Multiply { mixed: true, ..warp(&[DType::I8, DType::U8], (16, 8, 32), &[DType::I32], Target::SM_80) },
        Multiply { mixed: true, ..warp(&[DType::I8, DType::U8], (16, 8, 16), &[DType::I32], Target::SM_80) },
        group(&[DType::Tf32], 8, 8, &[DType::F32]),
        group(&[DType::F16], 16, 8, &[DType::F32, DType::F16]),
        group(&[DType::Bf16], 16, 8, &[DType::F32]),
        Multiply { mixed: true, coarse: true, ..group(&[DType::E4m3, DType::E5m2], 32, 8, &[DType::F32, DType::F16]) },
        Multiply { mixed: true, ..group(&[DType::I8, DType::U8], 32, 16, &[DType::I32]) },
    ]
};

impl Multiply {
    /// The instructions of a unit.
    pub fn of_unit(unit: Unit) -> impl Iterator<Item = &'static Multiply> {
        MULTIPLIES.iter().filter(move |row| row.unit == unit)
    }

    /// Those that multiply a type, the deepest first.
    pub fn of(unit: Unit, factor: DType) -> impl Iterator<Item = &'static Multiply> {
        Multiply::of_unit(unit).filter(move |row| row.factors.contains(&factor))
    }

    /// The instruction of a unit that multiplies types, with some rows and an extent of k.
    pub fn find(unit: Unit, [a, b]: [DType; 2], (rows, depth): (u32, u32)) -> Option<&'static Multiply> {
        Multiply::of_unit(unit).find(|row| (row.rows, row.depth) == (rows, depth) && row.takes(a, b))
    }

    /// Whether it multiplies an A and a B of these types.
    pub fn takes(&self, a: DType, b: DType) -> bool {
        let [a_fits, b_fits] = [a, b].map(|dtype| self.factors.contains(&dtype));
        a_fits && b_fits && (self.mixed || a == b)
    }

    /// The clause's words for it, such as `mma(16, 8, 16)`; of those of a warp group, for the widest.
    pub fn atom(&self) -> Atom {
        let columns = match self.columns {
            Columns::Only(columns) => columns,
            Columns::Many(_) => *WGMMA_COLUMNS.end(),
        };
        self.unit.atom((self.rows, columns, self.depth))
    }

    /// Whether it reads tiles in shared memory that are contiguous along m or n as well, not along k alone: 16-bit elements
    /// are transposed on the way, and threads load 64-bit elements one by one.
    pub fn reads_any_order(&self) -> bool {
        self.factors.iter().all(|factor| matches!(factor.element().bits, 16 | 64))
    }

    /// Whether it has this shape.
    pub fn has(&self, (rows, columns, depth): (u32, u32, u32)) -> bool {
        (self.rows, self.depth) == (rows, depth) && self.columns.has(columns)
    }
}

impl Atom {
    /// Whether threads multiply, without tensor cores.
    pub fn by_threads(&self) -> bool {
        *self == Atom::Fma
    }

    /// The same with another number of columns, where instructions have several.
    pub fn with_columns(&self, columns: u32) -> Atom {
        match self.of_group() {
            Some((rows, _, depth)) => Unit::WarpGroup.atom((rows, columns, depth)),
            None => *self,
        }
    }

    /// The shape of an instruction of a warp.
    pub fn of_warp(&self) -> Option<(u32, u32, u32)> {
        self.tensor().filter(|(unit, _)| *unit == Unit::Warp).map(|(_, shape)| shape)
    }

    /// The shape of an instruction of a warp group.
    pub fn of_group(&self) -> Option<(u32, u32, u32)> {
        self.tensor().filter(|(unit, _)| *unit == Unit::WarpGroup).map(|(_, shape)| shape)
    }

    /// The unit and the shape of a product on tensor cores.
    pub fn tensor(&self) -> Option<(Unit, (u32, u32, u32))> {
        match *self {
            Atom::Fma => None,
            Atom::Mma(m, n, k) => Some((Unit::Warp, (m, n, k))),
            Atom::Wgmma(m, n, k) => Some((Unit::WarpGroup, (m, n, k))),
        }
    }

    /// The row of a product on tensor cores, for a type of its factors.
    pub fn row(&self, factor: DType) -> Option<&'static Multiply> {
        let (unit, shape) = self.tensor()?;
        Multiply::of(unit, factor).find(|row| row.has(shape))
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, MULTIPLIES, Multiply, Unit};

    #[test]
    fn rows_are_what_the_reference_lists() {
        for row in &MULTIPLIES {
            let bits = row.factors[0].element().bits;
            assert!(row.factors.iter().all(|factor| factor.element().bits == bits), "{row:?}");
            assert!(row.sums.iter().all(|sums| sums.element().accumulates), "{row:?}");
            let deepest = Multiply::of(row.unit, row.factors[0]).next();
            assert!(deepest.is_some_and(|deepest| deepest.depth >= row.depth), "{row:?}");
            // A row of A has 32 bytes; in half-depth shapes, 16. Threads load f64 one by one, of any depth.
            let bytes = row.depth * bits / 8;
            assert!(bits == 64 || bytes == 32 || (bytes == 16 && row.unit == Unit::Warp), "{row:?}");
        }
        assert!(Columns::Many(16).has(24) && !Columns::Many(16).has(40) && !Columns::Many(8).has(264));
    }
}
