//! Mutants that compute the same thing, and why.

use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode};
use ptx_gemm_runtime::ptx::types::Type;

use super::{Mutant, MutantKind};

/// A family of equivalent edits: of these kinds, of such instructions, whose note has these words.
struct Family {
    kinds: &'static [MutantKind],
    is: fn(&Opcode) -> bool,
    /// Parts of its note.
    note: &'static str,
    reason: &'static str,
}

fn compares(op: &Opcode) -> bool {
    matches!(op, Opcode::Setp { .. })
}

const BOUNDS: &[MutantKind] = &[MutantKind::Bound, MutantKind::Comparison];

/// Each is asked only about mutants that survived every size, order and rule; an edit of the same family that does make a
/// difference is killed before.
const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::OtherBarrier],
        is: |op| matches!(op, Opcode::BarSync),
        note: "",
        reason: "a barrier's number is a name: all threads come to it, and to no other of that number",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "lie inside",
        reason: "a tile that just fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |op| matches!(op, Opcode::Selp(_)),
        note: "K that a copy without guards needs",
        reason: "a tile that fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "K-steps a round",
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "K left after this round",
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |op| matches!(op, Opcode::Setp { cmp: Compare::Eq, .. }),
        note: "",
        reason: "equality is symmetric",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |op| matches!(op, Opcode::Sub { .. }),
        note: "elements of this chunk inside the matrix",
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        note: "elements of this chunk inside the matrix",
        reason: "of the row or column behind the last one no element is left to copy either way",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "is there anything to sum over?",
        reason: "without anything to sum over, a K-tile that lies outside is summed: zeros",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: |op| matches!(op, Opcode::Mov(_)),
        note: "elements of C",
        reason: "what the register holds instead belongs to an element outside D, which is not stored",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |op| matches!(op, Opcode::And(Type::Pred)),
        note: "does this line lie inside D, and which of its elements",
        reason: "of a line whose later element lies inside D an earlier one does as well",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |op| matches!(op, Opcode::Ld { .. }),
        note: "from global memory, step",
        reason: "read ahead of a round that does not come, from a row that is not the last: the values are not used",
    },
];

/// The reason why a mutant that survived is no fault, if there is one.
pub fn equivalent(mutant: &Mutant) -> Option<&'static str> {
    let fits = |family: &&Family| {
        family.kinds.contains(&mutant.kind) && (family.is)(&mutant.op) && mutant.note.contains(family.note)
    };
    FAMILIES.iter().find(fits).map(|family| family.reason)
}
