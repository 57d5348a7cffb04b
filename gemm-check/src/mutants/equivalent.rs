//! Mutants that compute the same thing, and why.

use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode};
use ptx_gemm_runtime::ptx::types::Type;

use super::{Mutant, MutantKind};

/// A family of equivalent edits: of these kinds, of such instructions, whose note has these words.
struct Family {
    kinds: &'static [MutantKind],
    is: fn(&Mutant) -> bool,
    /// Part of its note.
    note: &'static str,
    /// In such entries only.
    entry: fn(&Entry) -> bool,
    reason: &'static str,
}

fn any(_: &Entry) -> bool {
    true
}

fn one_line(entry: &Entry) -> bool {
    entry.tile.m == 1 || entry.tile.n == 1
}

fn compares(mutant: &Mutant) -> bool {
    matches!(mutant.op, Opcode::Setp { .. })
}

/// Whether fewer groups of copies stay in flight than before.
fn waits_for_more(mutant: &Mutant) -> bool {
    let groups = |text: &str| text.rsplit(' ').next().and_then(|number| number.parse::<u32>().ok());
    groups(&mutant.after).zip(groups(&mutant.before)).is_some_and(|(after, before)| after < before)
}

const IN_INDICES: &[MutantKind] = &[
    MutantKind::SwappedOperands,
    MutantKind::Constant,
    MutantKind::OtherOperation,
    MutantKind::OtherRegister,
    MutantKind::Bound,
    MutantKind::Comparison,
    MutantKind::Deleted,
];

const BOUNDS: &[MutantKind] = &[MutantKind::Bound, MutantKind::Comparison];

/// Each is asked only about mutants that survived every size, order and rule; an edit of the same family that does make a
/// difference is killed before.
const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::OtherBarrier],
        is: |mutant| matches!(mutant.op, Opcode::BarSync),
        note: "",
        entry: any,
        reason: "a barrier's number is a name: all threads come to it, and to no other of that number",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "lie inside",
        entry: any,
        reason: "a tile that just fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Selp(_)),
        note: "K that a copy without guards needs",
        entry: any,
        reason: "a tile that fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "K-steps a round",
        entry: any,
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "K left after this round",
        entry: any,
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::Setp { cmp: Compare::Eq, .. }),
        note: "",
        entry: any,
        reason: "equality is symmetric",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::Sub { .. }),
        note: "elements of this chunk inside the matrix",
        entry: Entry::suits_all,
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        note: "elements of this chunk inside the matrix",
        entry: any,
        reason: "of the row or column behind the last one no element is left to copy either way",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "is there anything to sum over?",
        entry: any,
        reason: "without anything to sum over, a K-tile that lies outside is summed: zeros",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        note: "elements of C",
        entry: any,
        reason: "what the register holds instead belongs to an element outside D, which is not stored",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::And(Type::Pred)),
        note: "does this line lie inside D, and which of its elements",
        entry: any,
        reason: "of a line whose later element lies inside D an earlier one does as well",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.op, Opcode::Ld { .. }),
        note: "from global memory, step",
        entry: any,
        reason: "read ahead of a round that does not come, from a row that is not the last: the values are not used",
    },
    Family {
        kinds: IN_INDICES,
        is: |_| true,
        note: "rows and columns left from there",
        entry: one_line,
        reason: "a tile of one row or column that is there at all lies inside, and what is added to its first is 0",
    },
    Family {
        kinds: IN_INDICES,
        is: |_| true,
        note: "does the tile lie inside D?",
        entry: one_line,
        reason: "a tile of one row or column that is there at all lies inside, and what is added to its first is 0",
    },
    Family {
        kinds: IN_INDICES,
        is: |_| true,
        note: "addresses of this thread's part of",
        entry: one_line,
        reason: "a tile of one row or column that is there at all lies inside, and what is added to its first is 0",
    },
    Family {
        kinds: IN_INDICES,
        is: |_| true,
        note: "address of this thread's part of D",
        entry: one_line,
        reason: "a tile of one row or column that is there at all lies inside, and what is added to its first is 0",
    },
    Family {
        kinds: &[MutantKind::WaitGroup],
        is: waits_for_more,
        note: "",
        entry: any,
        reason: "to wait for more copies than needed takes longer, and that is all",
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| matches!(mutant.op, Opcode::BarSync),
        note: "the threads of `pace` meet",
        entry: any,
        reason: "the barrier keeps warps in step; what they read and write is ordered by mbarriers",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: compares,
        note: "what lies outside is zero",
        entry: any,
        reason: "a copy of no bytes reads nowhere, whatever its address",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::Selp(_)),
        note: "what lies outside is zero",
        entry: any,
        reason: "a copy of no bytes reads nowhere, whatever its address",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::Sub { .. }),
        note: "what lies outside is zero",
        entry: Entry::suits_all,
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "this thread has read the slot",
        entry: any,
        reason: "what is compared is a multiple of a slot's bytes, which is not between the two bounds",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        note: "on to the next slot",
        entry: any,
        reason: "what is compared is a multiple of a slot's bytes, which is not between the two bounds",
    },
];

/// Why a surviving mutant of this entry is no fault, if a family explains it.
pub fn equivalent(mutant: &Mutant, entry: &Entry) -> Option<&'static str> {
    let fits = |family: &&Family| {
        family.kinds.contains(&mutant.kind)
            && (family.is)(mutant)
            && mutant.note.contains(family.note)
            && (family.entry)(entry)
    };
    FAMILIES.iter().find(fits).map(|family| family.reason)
}
