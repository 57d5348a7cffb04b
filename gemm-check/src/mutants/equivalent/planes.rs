//! Families of edits that are not faults in kernels that copy operands, split them into planes, scale them, and multiply planes in
//! pairs.

use ptx_gemm_runtime::ptx::instruction::Opcode;

use super::{BOUNDS, Family, IN_INDICES, any, compares, last};
use crate::mutants::{Mutant, MutantKind};

/// Whether a constant is smaller by 1.
fn one_less(mutant: &Mutant) -> bool {
    last(&mutant.after).zip(last(&mutant.before)).is_some_and(|(after, before)| after + 1 == before)
}

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Bound, MutantKind::Comparison, MutantKind::Constant],
        is: |mutant| match mutant.kind {
            MutantKind::Constant => matches!(mutant.op, Opcode::Sub { .. }),
            _ => compares(mutant),
        },
        notes: &["the vectors around, if the tile and one on each side of its rows are inside"],
        entry: any,
        certain: false,
        reason: "elements are read one by one instead; or only the element of the next row is read as well that is not wanted",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| {
            matches!(mutant.op, Opcode::And(_))
                && last(&mutant.before).is_some_and(|mask| mask % 2 == 1)
                && one_less(mutant)
        },
        notes: &["read the aligned vectors around this thread's", "cut this thread's vectors out of them"],
        entry: |entry| entry.packings.iter().all(|packing| packing.dtype.bytes() > 1),
        certain: true,
        reason: "elements of two bytes or more are at even addresses",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: |mutant| compares(mutant) && one_less(mutant),
        notes: &["cut this thread's vectors out of them"],
        entry: any,
        certain: true,
        reason: "elements of 16 bits are at even bytes, none of which is between the two bounds",
    },
    Family {
        kinds: IN_INDICES,
        is: |mutant| mutant.loops == 0,
        notes: &["plane of A", "plane of B", "advance to the next K-tile"],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "before the loop over K-tiles only those of the first pairs of planes are copied: the others do not come up",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }) && one_less(mutant),
        notes: &["advance to the next K-tile"],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "a chunk of k ends with a K-tile: one less is passed by the same K-tile",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["the largest of the row, as bits", "the largest of the column, as bits"],
        entry: any,
        certain: false,
        reason: "the register is loaded before it is read",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        notes: &["leave it to the thread of the whole line"],
        entry: any,
        certain: false,
        reason: "the line after the last one of an operand is zeros here, and its scale is in the padding of the scales",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        notes: &["zeros outside the matrix"],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "the row or column after the last one of a plane is in the workspace, and its products are outside D",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |_| true,
        notes: &["a scale that makes it 2^14 or more"],
        entry: any,
        certain: false,
        reason: "what follows the scales in the workspace is written later",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        notes: &["scales of A", "scales of B"],
        entry: any,
        certain: false,
        reason: "the row or column lies outside D, and what is read in place of its scale is in the workspace and is not used",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["scales of A", "scales of B"],
        entry: any,
        certain: false,
        reason: "the row or column lies outside D, and what is in the register in place of its scale is not used",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| mutant.note.ends_with(": scales"),
        notes: &[],
        entry: any,
        certain: false,
        reason: "the row or column lies outside: what it is scaled by is not stored",
    },
];
