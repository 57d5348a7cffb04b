//! Modifiers of the matrix instructions: `mma.sync`, `wgmma`, `ldmatrix`, `stmatrix`.

use std::fmt;

use crate::names::words;
use crate::types::Type;

/// Extents of one multiplication, `m16n8k16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: u16,
    /// Columns of B and D.
    pub n: u16,
    /// Columns of A, rows of B.
    pub k: u16,
}

impl Shape {
    /// `Shape::new(16, 8, 16)` is `m16n8k16`.
    pub const fn new(m: u16, n: u16, k: u16) -> Self {
        Shape { m, n, k }
    }

    /// Reads `m16n8k16`.
    pub fn from_name(text: &str) -> Option<Shape> {
        let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let extent = |digits: &str| digits.parse::<u16>().ok().filter(|_| !digits.starts_with(['0', '+']));
        Some(Shape { m: extent(m)?, n: extent(n)?, k: extent(k)? })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

/// Type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

words!(Element {
    F16 "f16", Bf16 "bf16", Tf32 "tf32", F32 "f32", F64 "f64", E4m3 "e4m3", E5m2 "e5m2", S8 "s8", U8 "u8", S4 "s4",
    U4 "u4", B1 "b1", S32 "s32",
});

impl Element {
    /// Width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Element::B1 => 1,
            Element::S4 | Element::U4 => 4,
            Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => 8,
            Element::F16 | Element::Bf16 => 16,
            Element::Tf32 | Element::F32 | Element::S32 => 32,
            Element::F64 => 64,
        }
    }

    /// The type of the registers that hold such elements, packed where they are narrower.
    pub const fn register(self) -> Type {
        match self {
            Element::F32 => Type::F32,
            Element::F64 => Type::F64,
            Element::S32 => Type::S32,
            Element::F16 => Type::F16x2,
            Element::Bf16 | Element::Tf32 | Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => Type::U32,
            Element::S4 | Element::U4 | Element::B1 => Type::U32,
        }
    }

    /// Registers that each of `threads` threads needs for a matrix of `rows` by `columns`. Returns 0 when the elements
    /// do not divide evenly or need more registers than any instruction takes.
    pub fn registers(self, rows: u16, columns: u16, threads: u32) -> u8 {
        // Computed in 64 bits: the extents come from text, and their product may be large.
        let bits = u64::from(rows) * u64::from(columns) * u64::from(self.bits());
        let per_register = u64::from(threads) * u64::from(self.bits().max(32));
        if bits.is_multiple_of(per_register) { (bits / per_register).try_into().unwrap_or(0) } else { 0 }
    }
}

/// Order of a matrix's elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Rows are contiguous.
    Row,
    /// Columns are contiguous.
    Col,
}

words!(Layout { Row "row", Col "col" });

/// A matrix of a multiplication by `wmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Part {
    A,
    B,
    C,
    D,
}

impl Part {
    /// Rows and columns.
    pub const fn extents(self, shape: Shape) -> [u16; 2] {
        match self {
            Part::A => [shape.m, shape.k],
            Part::B => [shape.k, shape.n],
            Part::C | Part::D => [shape.m, shape.n],
        }
    }

    /// Registers of each thread that hold it in `wmma`. A fragment of A or B in f16 has eight, whatever its extents, and
    /// holds its elements more than once.
    pub fn registers(self, shape: Shape, element: Element) -> u8 {
        let [rows, columns] = self.extents(shape);
        match (self, element) {
            (Part::A | Part::B, Element::F16) => 8,
            _ => element.registers(rows, columns, 32),
        }
    }
}

/// What an integer accumulator does on overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Overflow {
    Wrap,
    Satfinite,
}

words!(Overflow { Wrap "", Satfinite "satfinite" });

/// Whether `ldmatrix` and `stmatrix` transpose each 8 x 8 matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// As stored.
    No,
    /// `.trans`.
    Yes,
}

words!(Transpose { No "", Yes "trans" });
