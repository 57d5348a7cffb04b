//! Families of edits that are not faults where several elements of a line or vector are inside a matrix together.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_runtime::ptx::instruction::Opcode;
use ptx_gemm_runtime::ptx::types::Type;

use super::{Family, any, compares, last};
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
    Family {
        kinds: &[MutantKind::Bound],
        is: |mutant| {
            let (before, after) = (last(&mutant.before), last(&mutant.after));
            compares(mutant) && before.zip(after).is_some_and(|(before, after)| after + 1 == before)
        },
        notes: &["has the tile more than"],
        // The boxes of a list's tensor maps are as wide as the tiles of each product, so there these slots are not filled.
        entry: |entry| entry.record.is_none(),
        certain: false,
        reason: "a tile as wide as a product takes the next wider one, whose other columns are zeros that copies wrote, and not stored",
    },
];
