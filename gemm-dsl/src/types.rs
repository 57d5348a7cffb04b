//! Element types, layouts and the problem they form: the computation, without its method and its sizes.

use std::fmt;

use serde::Serialize;

pub use crate::elements::DType;
use crate::epilogue::Epilogue;
use crate::terms::{Extent3, Fast, Operand, Param, Side};

/// The element types of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Types {
    /// Elements of A.
    pub a: DType,
    /// Elements of B.
    pub b: DType,
    /// The accumulator; see [`Types::epilogue`].
    pub acc: DType,
    /// Elements of C.
    pub c: DType,
    /// Elements of D.
    pub d: DType,
}

impl Types {
    /// The type of the epilogue's computation, scalars and vectors: the accumulator's, or f32 if that is f16, or if it is an
    /// integer type and D is not.
    pub fn epilogue(&self) -> DType {
        let scaled = self.acc.is_integer() && !self.d.is_integer();
        if self.narrow_sums() || scaled { DType::F32 } else { self.acc }
    }

    /// Whether the epilogue computes in f32, from which `stmatrix` stores 16-bit elements.
    pub fn in_singles(&self) -> bool {
        self.epilogue() == DType::F32
    }

    /// Whether sums are of 16 bits, two in a register.
    pub fn narrow_sums(&self) -> bool {
        self.acc.element().bits < 32
    }

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

/// The contiguous dimension of a matrix.
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

impl Layout {
    /// The layout of the transpose in the same memory.
    pub fn transposed(self) -> Layout {
        match self {
            Layout::Row => Layout::Col,
            Layout::Col => Layout::Row,
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

/// The number of products in one launch.
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

/// Whether a product is the requested one or its transpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Orientation {
    /// D = A B.
    #[default]
    AsAsked,
    /// D^T = B^T A^T.
    Transposed,
}

/// The computation: types, layouts, epilogue and batch, but not sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// Whether this is the requested product.
    #[serde(skip_serializing_if = "is_as_asked")]
    pub orientation: Orientation,
    /// Element types.
    pub types: Types,
    /// Layouts.
    pub layouts: Layouts,
    /// The stored value, as an expression over the accumulator.
    pub epilogue: Epilogue,
    /// One product or many.
    pub batch: Batch,
}

fn is_as_asked(orientation: &Orientation) -> bool {
    *orientation == Orientation::AsAsked
}

impl Problem {
    /// The transposed problem, with the other orientation: A and B swap, each matrix takes its transpose's layout, and
    /// vectors along rows become vectors along columns.
    pub fn transposed(&self) -> Problem {
        let Types { a, b, acc, c, d } = self.types;
        let layouts = self.layouts;
        Problem {
            orientation: match self.orientation {
                Orientation::AsAsked => Orientation::Transposed,
                Orientation::Transposed => Orientation::AsAsked,
            },
            types: Types { a: b, b: a, acc, c, d },
            layouts: Layouts {
                a: layouts.b.transposed(),
                b: layouts.a.transposed(),
                c: layouts.c.transposed(),
                d: layouts.d.transposed(),
            },
            epilogue: self.epilogue.transposed(),
            batch: self.batch,
        }
    }

    /// The requested product.
    pub fn asked(&self) -> Problem {
        match self.orientation {
            Orientation::AsAsked => self.clone(),
            Orientation::Transposed => self.transposed(),
        }
    }

    /// Converts extents of this product or its tiles to those of the requested product, or back.
    pub fn asked_extents(&self, Extent3 { m, n, k }: Extent3) -> Extent3 {
        match self.orientation {
            Orientation::AsAsked => Extent3 { m, n, k },
            Orientation::Transposed => Extent3 { m: n, n: m, k },
        }
    }

    /// The caller's name for a matrix of this product.
    pub fn asked_operand(&self, operand: Operand) -> Operand {
        match self.orientation {
            Orientation::AsAsked => operand,
            Orientation::Transposed => operand.transposed(),
        }
    }

    /// The caller's name for a parameter of this product's kernels, or the reverse.
    pub fn asked_param(&self, param: &Param) -> Param {
        match self.orientation {
            Orientation::AsAsked => param.clone(),
            Orientation::Transposed => param.transposed(),
        }
    }

    /// The matrices that a kernel reads and writes: A, B, C if the epilogue reads it, D.
    pub fn matrices(&self) -> impl Iterator<Item = Operand> + use<> {
        let c = self.epilogue.uses_c();
        [Operand::A, Operand::B, Operand::C, Operand::D].into_iter().filter(move |operand| c || *operand != Operand::C)
    }
}
