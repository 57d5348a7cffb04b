//! Register types, and the families of data registers.

use ptx_gemm_dsl::terms::Side;
use ptx_gemm_dsl::types::DType;

use crate::kernel::build::Builder;
use crate::kernel::{Family, Type};
use crate::tile::Program;

/// The register type that holds elements of a matrix type.
pub(super) fn register_type(dtype: DType) -> Type {
    match dtype {
        DType::F64 => Type::F64,
        DType::I32 => Type::S32,
        DType::F32 | DType::Tf32 => Type::F32,
        DType::F16 => Type::F16,
        DType::Bf16 => Type::Bf16,
        DType::I8 => Type::S8,
        DType::U8 => Type::U8,
        DType::E4m3 => Type::E4m3,
        DType::E5m2 => Type::E5m2,
    }
}

/// Register types of the matrices, as they are multiplied, and the accumulator.
#[derive(Clone, Copy)]
pub(super) struct Types {
    pub a: Type,
    pub b: Type,
    pub c: Type,
    pub d: Type,
    /// What the epilogue computes in.
    pub acc: Type,
    /// Type of an accumulator register: `acc`, or a pair of f16.
    pub sums: Type,
}

impl Types {
    pub fn of(program: &Program) -> Types {
        let types = program.problem.types;
        Types {
            a: register_type(program.element(Side::A)),
            b: register_type(program.element(Side::B)),
            c: register_type(types.c),
            d: register_type(types.d),
            acc: register_type(types.epilogue()),
            sums: if types.narrow_sums() { Type::Word } else { register_type(types.acc) },
        }
    }

    /// Accumulators in a register.
    pub fn per_register(&self) -> u32 {
        if self.sums == Type::Word { 2 } else { 1 }
    }

    pub fn side(&self, side: Side) -> Type {
        match side {
            Side::A => self.a,
            Side::B => self.b,
        }
    }
}

/// The families of data registers.
pub(super) struct Families {
    pub acc: Family,
    /// Operand fragments of A and B as read.
    pub fragment: [Family; 2],
    /// Matrices of A and B.
    pub matrix: [Family; 2],
    /// The same in the accumulator's type, if it differs.
    pub converted: [Family; 2],
    /// Elements between global and shared memory.
    pub staging: [Family; 2],
    /// The same, as words of narrow elements.
    pub words: [Family; 2],
    pub scalar: Family,
    pub vector: Family,
    pub c: Family,
    /// Accumulators in the epilogue's type, if it differs, and their halves during the conversion.
    pub sum: Family,
    pub half: Family,
    pub value: Family,
    pub out: Family,
    /// Two elements of D.
    pub word: Family,
}

/// The registers of an operand of `mma`: words of narrow elements, or elements of 64 bits.
fn in_matrices(ty: Type) -> Type {
    if ty == Type::F64 { ty } else { Type::Word }
}

impl Families {
    pub fn declare(b: &mut Builder, types: &Types) -> Families {
        let acc = types.acc;
        Families {
            acc: b.family("acc", types.sums, "accumulators, row by row of the thread tile"),
            fragment: [b.family("a", types.a, "fragment of A"), b.family("b", types.b, "fragment of B")],
            matrix: [
                b.family("ma", in_matrices(types.a), "matrices of A"),
                b.family("mb", in_matrices(types.b), "matrices of B"),
            ],
            converted: [
                b.family("wa", acc, "fragment of A in the accumulator's type"),
                b.family("wb", acc, "fragment of B in the accumulator's type"),
            ],
            staging: [
                b.family("ga", types.a, "elements of A for shared memory"),
                b.family("gb", types.b, "elements of B for shared memory"),
            ],
            words: [
                b.family("ha", Type::Word, "words of elements of A for shared memory"),
                b.family("hb", Type::Word, "words of elements of B for shared memory"),
            ],
            scalar: b.family("s", acc, "run-time scalars"),
            vector: b.family("v", acc, "elements of the epilogue's vectors"),
            c: b.family("c", types.c, "elements of C"),
            sum: b.family("sum", acc, "accumulators in the epilogue's type"),
            half: b.family("half", Type::F16, "accumulators, one in a register"),
            value: b.family("e", acc, "values of the epilogue"),
            out: b.family("d", types.d, "elements of D"),
            word: b.family("hd", Type::Word, "pairs of elements of D"),
        }
    }
}
