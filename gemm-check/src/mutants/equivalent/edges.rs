//! Families of edits that are not faults where several elements of a line or vector are inside a matrix together.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_runtime::ptx::instruction::Opcode;
use ptx_gemm_runtime::ptx::types::Type;

use super::{Family, any};
use crate::mutants::MutantKind;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::And(Type::Pred)),
        notes: &["which elements of this line lie inside D"],
        entry: any,
        certain: false,
        reason: "of a line whose later element lies inside D an earlier one does as well",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::And(Type::Pred)),
        notes: &["is the vector inside?", "read elements of a tile of", "the largest magnitude of finite elements"],
        entry: any,
        certain: false,
        reason: "of a row or vector whose later part is inside an earlier one is inside as well",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::And(Type::Pred)),
        notes: &["elements of C"],
        entry: |entry| entry.requires.iter().any(|requires| requires.operand == Operand::D && requires.rows),
        certain: false,
        reason: "lines of D are whole units of 16 bytes, and so are the elements of C for one, inside together or outside",
    },
];
