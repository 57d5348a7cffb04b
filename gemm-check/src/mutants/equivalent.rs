//! Mutants that compute the same thing, and why.

use super::{Mutant, MutantKind};

/// A family of equivalent edits: of these kinds, of instructions whose text and note have these words.
struct Family {
    kinds: &'static [MutantKind],
    /// Parts of the instruction as it was.
    before: &'static [&'static str],
    /// Parts of its note.
    note: &'static str,
    reason: &'static str,
}

const BOUNDS: &[MutantKind] = &[MutantKind::Bound, MutantKind::Comparison];

/// Each is asked only about mutants that survived every size, order and rule; an edit of the same family that does make a
/// difference is killed before.
const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::OtherBarrier],
        before: &["bar.sync 0"],
        note: "",
        reason: "a barrier's number is a name: all threads come to it, and to no other of that number",
    },
    Family {
        kinds: BOUNDS,
        before: &["setp"],
        note: "lie inside",
        reason: "a tile that just fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        before: &["selp"],
        note: "K that a copy without guards needs",
        reason: "a tile that fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        before: &["setp"],
        note: "K-steps a round",
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        before: &["setp"],
        note: "K left after this round",
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family { kinds: &[MutantKind::SwappedOperands], before: &["setp.eq"], note: "", reason: "equality is symmetric" },
    Family {
        kinds: &[MutantKind::Comparison],
        before: &["setp.lt"],
        note: "elements of this chunk inside the matrix",
        reason: "of the row or column behind the last one no element is left to copy either way",
    },
];

/// The reason why a mutant that survived is no fault, if there is one.
pub fn equivalent(mutant: &Mutant) -> Option<&'static str> {
    let fits = |family: &&Family| {
        family.kinds.contains(&mutant.kind)
            && family.before.iter().all(|part| mutant.before.contains(part))
            && mutant.note.contains(family.note)
    };
    FAMILIES.iter().find(fits).map(|family| family.reason)
}
