//! Element types, layouts and the problem they form: what is computed, not how and not at which size.

use std::fmt;

use serde::Serialize;

use crate::epilogue::Epilogue;
use crate::terms::{Fast, Operand, Side};

/// The type of a matrix element or of an accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// binary32 storage, of which the tensor cores read 10 fraction bits.
    Tf32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit float, 4 exponent bits, 3 fraction bits (OCP E4M3).
    E4m3,
    /// 8-bit float, 5 exponent bits, 2 fraction bits (OCP E5M2).
    E5m2,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer; arithmetic wraps around.
    I32,
}

impl DType {
    /// Every type, in the order that the documentation lists them.
    pub const ALL: [DType; 10] = [
        DType::F64,
        DType::F32,
        DType::Tf32,
        DType::F16,
        DType::Bf16,
        DType::E4m3,
        DType::E5m2,
        DType::I8,
        DType::U8,
        DType::I32,
    ];

    /// The type's name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::Tf32 => "tf32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::E4m3 => "e4m3",
            DType::E5m2 => "e5m2",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
        }
    }

    /// Bytes that one element takes in memory.
    pub fn bytes(self) -> u32 {
        match self {
            DType::F64 => 8,
            DType::F32 | DType::Tf32 | DType::I32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::E4m3 | DType::E5m2 | DType::I8 | DType::U8 => 1,
        }
    }

    /// True for the types whose arithmetic is that of integers.
    pub fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I32)
    }

    /// The accumulator that `types(T)` takes: f64 for f64, i32 for integers, else f32.
    pub fn natural_accumulator(self) -> DType {
        match self {
            DType::F64 => DType::F64,
            DType::I8 | DType::U8 | DType::I32 => DType::I32,
            _ => DType::F32,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The element types of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Types {
    /// Elements of A.
    pub a: DType,
    /// Elements of B.
    pub b: DType,
    /// The accumulator, in which the epilogue computes too.
    pub acc: DType,
    /// Elements of C.
    pub c: DType,
    /// Elements of D.
    pub d: DType,
}

impl Types {
    /// The element type of one matrix.
    pub fn of(&self, operand: Operand) -> DType {
        match operand {
            Operand::A => self.a,
            Operand::B => self.b,
            Operand::C => self.c,
            Operand::D => self.d,
        }
    }
}

/// Which dimension of a matrix is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Row major: element (i, j) at `i * ld + j`.
    Row,
    /// Column major: element (i, j) at `i + j * ld`.
    Col,
}

impl Layout {
    /// The layout's name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Row => "row",
            Layout::Col => "col",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The layouts of the four matrices: A is M x K, B is K x N, C and D are M x N.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Layouts {
    /// Layout of A.
    pub a: Layout,
    /// Layout of B.
    pub b: Layout,
    /// Layout of C.
    pub c: Layout,
    /// Layout of D.
    pub d: Layout,
}

impl Layouts {
    /// The layout of one matrix.
    pub fn of(&self, operand: Operand) -> Layout {
        match operand {
            Operand::A => self.a,
            Operand::B => self.b,
            Operand::C => self.c,
            Operand::D => self.d,
        }
    }

    /// The dimension along which an input operand is contiguous in global memory.
    pub fn fast(&self, side: Side) -> Fast {
        match (side, self.of(side.operand())) {
            (Side::A, Layout::Row) | (Side::B, Layout::Col) => Fast::K,
            (Side::A, Layout::Col) | (Side::B, Layout::Row) => Fast::Mn,
        }
    }
}

/// How many products one launch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Batch {
    /// One product.
    One,
    /// Many, each operand a fixed number of elements after the one before.
    Strided,
    /// Many of different extents, in a list that the kernel reads.
    Grouped,
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Batch::One => "one product",
            Batch::Strided => "strided",
            Batch::Grouped => "grouped",
        })
    }
}

/// What is computed: types, layouts, epilogue and batch, but not sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// Element types.
    pub types: Types,
    /// Layouts.
    pub layouts: Layouts,
    /// What is stored, as an expression over the accumulator.
    pub epilogue: Epilogue,
    /// One product or many.
    pub batch: Batch,
}

impl Problem {
    /// The matrices that a kernel reads and writes: A, B, C if the epilogue reads it, D.
    pub fn matrices(&self) -> impl Iterator<Item = Operand> + use<> {
        let c = self.epilogue.uses_c();
        [Operand::A, Operand::B, Operand::C, Operand::D].into_iter().filter(move |operand| c || *operand != Operand::C)
    }
}
