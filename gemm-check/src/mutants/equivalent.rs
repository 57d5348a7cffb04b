//! Mutants that compute the same thing, and why.

mod copies;
mod edges;
mod exchange;
mod planes;
mod rings;
mod streams;

use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode};

use super::{Mutant, MutantKind};

/// A family of equivalent edits: of these kinds, of such instructions, whose note has these words.
struct Family {
    kinds: &'static [MutantKind],
    is: fn(&Mutant) -> bool,
    /// Parts of its note, of which it has one; no matter what, if there are none.
    notes: &'static [&'static str],
    /// In such entries only.
    entry: fn(&Entry) -> bool,
    /// Whether the reason holds for each of these edits, wherever it is. Then orders and sizes beyond the suite are not
    /// tried; most survivors are of these families.
    certain: bool,
    reason: &'static str,
}

fn any(_: &Entry) -> bool {
    true
}

fn one_line(entry: &Entry) -> bool {
    entry.tile.m == 1 || entry.tile.n == 1
}

fn one_element(entry: &Entry) -> bool {
    let tile = entry.tile;
    [tile.m, tile.n, tile.k] == [1; 3] && entry.launches.iter().all(|launch| launch.threads == 1)
}

fn compares(mutant: &Mutant) -> bool {
    matches!(mutant.op, Opcode::Setp { .. })
}

/// The number at the end of an instruction.
fn last(text: &str) -> Option<u64> {
    text.trim_end_matches(';').rsplit(' ').next()?.parse().ok()
}

/// Whether fewer groups of copies stay in flight than before.
fn waits_for_more(mutant: &Mutant) -> bool {
    last(&mutant.after).zip(last(&mutant.before)).is_some_and(|(after, before)| after < before)
}

/// Whether a constant that was a multiple of 16 is larger by 1.
fn one_more(mutant: &Mutant) -> bool {
    let words = |text: &str| text.split([' ', ',']).map(str::to_string).collect::<Vec<_>>();
    let (before, after) = (words(&mutant.before), words(&mutant.after));
    let different = before.iter().zip(&after).find(|(before, after)| before != after);
    let numbers = different.and_then(|(before, after)| before.parse::<u32>().ok().zip(after.parse::<u32>().ok()));
    numbers.is_some_and(|(before, after)| before % 16 == 0 && after == before + 1)
}

/// Whether another mask still has all of these bits, where the mask before had no others but of the lowest four.
fn keeps(mutant: &Mutant, bits: u64) -> bool {
    matches!(mutant.op, Opcode::And(_))
        && last(&mutant.before)
            .zip(last(&mutant.after))
            .is_some_and(|(before, after)| before & !bits < 16 && after & bits == bits)
}

/// Whether fewer numbers fulfil a comparison with a constant than before, or the same multiples of 2.
fn demands_more(mutant: &Mutant) -> bool {
    let Some((after, before)) = last(&mutant.after).zip(last(&mutant.before)) else { return false };
    match mutant.op {
        Opcode::Setp { cmp: Compare::Ge, .. } => after > before,
        Opcode::Setp { cmp: Compare::Lt, .. } => after < before || (before, after) == (1, 2),
        _ => false,
    }
}

/// Whether a constant of half a panel, and perhaps whole ones, is smaller by 1.
fn nearly_half_a_panel(mutant: &Mutant) -> bool {
    last(&mutant.after)
        .zip(last(&mutant.before))
        .is_some_and(|(after, before)| before % 32 == 16 && after + 1 == before)
}

/// Whether the constant that was added, and now is subtracted, is a multiple of 16.
fn halves_of_a_panel(mutant: &Mutant) -> bool {
    mutant.after.starts_with("sub") && last(&mutant.after).is_some_and(|number| number % 16 == 0)
}

/// Whether two constants are compared, with the same outcome as before.
fn compares_constants(mutant: &Mutant) -> bool {
    let Opcode::Setp { cmp, .. } = mutant.op else { return false };
    let outcome = |text: &str| {
        let mut last = text.trim_end_matches(';').rsplit(", ").map_while(|operand| operand.parse::<u32>().ok());
        let (right, left) = (last.next()?, last.next()?);
        Some(match cmp {
            Compare::Eq => left == right,
            Compare::Ne => left != right,
            Compare::Lt => left < right,
            Compare::Le => left <= right,
            Compare::Gt => left > right,
            Compare::Ge => left >= right,
            _ => return None,
        })
    };
    let (before, after) = (outcome(&mutant.before), outcome(&mutant.after));
    before.is_some() && before == after
}

/// Whether two numbers are multiplied that were converted from a type of 16 bits.
fn multiplies_widened(mutant: &Mutant) -> bool {
    mutant.before.contains(", %wa") && mutant.before.contains(", %wb")
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

/// Each is asked only about mutants that survived every size, order and rule, or the suite in the forward order if it is
/// certain; an edit of the same family that does make a difference is killed before.
const FAMILIES: &[Family] = &[
    Family {
        kinds: BOUNDS,
        is: |mutant| mutant.before.ends_with(", 1"),
        notes: &["do they end before the tile?"],
        entry: any,
        certain: false,
        reason: "there is a first product to look at: a block that has come to the end of the list looks at none",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::Min { .. }) && last(&mutant.before).is_some(),
        notes: &["tile of D that this block computes"],
        entry: any,
        certain: false,
        reason: "a band is as high as D, or higher, if D has fewer tiles of rows than a whole band: it holds all tiles either way",
    },
    Family {
        kinds: &[MutantKind::OtherBarrier],
        is: |mutant| matches!(mutant.op, Opcode::BarSync),
        notes: &[],
        entry: any,
        certain: true,
        reason: "a barrier's number is a name: all threads come to it, and to no other of that number",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        notes: &["lie inside"],
        entry: any,
        certain: true,
        reason: "a tile that just fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Selp(_)),
        notes: &["K needed for a copy without guards"],
        entry: any,
        certain: true,
        reason: "a tile that fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        notes: &["K-steps per round", "K left after this round"],
        entry: any,
        certain: false,
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::Setp { cmp: Compare::Eq | Compare::Ne | Compare::Nan, .. }),
        notes: &[],
        entry: any,
        certain: true,
        reason: "it is symmetric: whether two are equal, or one of them is NaN",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::Sub { .. }),
        notes: &["elements of this chunk inside the matrix"],
        entry: Entry::suits_all,
        certain: false,
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        notes: &["elements of this chunk inside the matrix"],
        entry: any,
        certain: false,
        reason: "of the row or column after the last one no element is left to copy either way",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        notes: &["is there anything to sum over?"],
        entry: any,
        certain: false,
        reason: "without anything to sum over, a K-tile that lies outside is summed: zeros",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: compares,
        notes: &["is there anything to sum over?"],
        entry: any,
        certain: false,
        reason: "the other register is an extent as well: without anything to sum over, a K-tile outside is summed: zeros",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: |mutant| matches!(mutant.op, Opcode::Ld { .. }),
        notes: &["operand of one product"],
        entry: any,
        certain: false,
        reason: "the product before read the same operand, and the register holds it",
    },
    Family {
        kinds: &MutantKind::ALL,
        is: |_| true,
        notes: &[
            "tail(predicate)",
            "one element at an edge",
            "the widest accesses if",
            "this thread's part of",
            "store D",
        ],
        entry: one_element,
        certain: false,
        reason: "the one thread has index 0, and a tile of one element lies inside: the path of edges never runs",
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |_| true,
        notes: &[],
        entry: one_element,
        certain: false,
        reason: "a barrier of one thread orders nothing that is not in order",
    },
    Family {
        kinds: &[MutantKind::Deleted, MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["elements of C", ": element of "],
        entry: any,
        certain: false,
        reason: "what the register holds instead belongs to an element outside D, which is not stored",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)) && mutant.before.ends_with(", 0"),
        notes: &["matrices of C in shared memory"],
        entry: any,
        certain: false,
        reason: "where C is multiplied by 0 it is not read, and what its registers hold instead is a finite number",
    },
    Family {
        kinds: &[MutantKind::OtherParameter],
        is: |mutant| mutant.kernel > 0 && mutant.before.ends_with("[ldc]") && mutant.after.ends_with("[ldd]"),
        notes: &["address of this thread's part of C"],
        entry: any,
        certain: false,
        reason: "in this launch of a plan C and D are matrices of the workspace, with rows of one length",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| mutant.kernel > 0 && matches!(mutant.op, Opcode::Add { .. }),
        notes: &["which elements of this line lie inside D"],
        entry: any,
        certain: false,
        reason: "quadrants end at whole pieces of 16 bytes: a piece whose first element is inside is inside",
    },
    Family {
        kinds: BOUNDS,
        is: |mutant| mutant.kernel > 0 && compares(mutant),
        notes: &["is this element inside?"],
        entry: any,
        certain: false,
        reason: "quadrants end at whole pieces of 16 bytes, and what is read of the one beyond meets no element of D",
    },
    Family {
        kinds: &[MutantKind::OtherOperation],
        is: |mutant| mutant.before.ends_with(", 0f00000000") && mutant.after.starts_with("sub"),
        notes: &["value of D"],
        entry: any,
        certain: false,
        reason: "this makes NaN the NaN of PTX, which it is with 0 added or subtracted",
    },
    Family {
        kinds: &[MutantKind::RoundedTwice],
        is: |_| true,
        notes: &["value of D"],
        entry: any,
        certain: false,
        reason: "sums of tensor cores are compared by a bound, within which one more rounding is",
    },
    Family {
        kinds: &[MutantKind::RoundedTwice],
        is: multiplies_widened,
        notes: &["multiply, step"],
        entry: any,
        certain: true,
        reason: "a product of two numbers of 16 bits is exact in f32, if it does not leave its range: only the sum is rounded",
    },
    Family {
        kinds: BOUNDS,
        is: compares_constants,
        notes: &[],
        entry: any,
        certain: true,
        reason: "two constants are compared, with the same outcome",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["zero outside"],
        entry: any,
        certain: false,
        reason: "outside a matrix, the other operand's element is a zero, or the sum is not stored",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| mutant.before.ends_with(", 31") && mutant.after.ends_with(", 30"),
        notes: &["that this lane points at"],
        entry: any,
        certain: false,
        reason: "eight lanes point at the rows of a matrix: the lowest bit of a lane's number is shifted out",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands, MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Sub { .. }),
        notes: &["index of the thread in its role"],
        entry: any,
        certain: false,
        reason: "one thread of the role works, the one with index 0, whichever that is",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        notes: &["this thread's vectors of the copy"],
        entry: any,
        certain: false,
        reason: "rows of the copy are padded to whole lines, and what follows the last vector of one is padding",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["zeros outside"],
        entry: any,
        certain: false,
        reason: "what lies outside the operand is not written, or is padding, which no tensor map covers",
    },
    Family {
        kinds: &[MutantKind::WaitGroup, MutantKind::DeletedSync],
        is: |mutant| mutant.before.ends_with(" 0"),
        notes: &["wait until the products are complete"],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "the sums of the last chunk were promoted, which waited for all products",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["clear the accumulators"],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "the first product of a chunk is not added to what the accumulators hold",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.op, Opcode::Ld { .. }),
        notes: &["from global memory, step"],
        entry: any,
        certain: false,
        reason: "read ahead of a round that does not come, from a row that is not the last: the values are not used",
    },
    Family {
        kinds: IN_INDICES,
        is: |_| true,
        notes: &[
            "rows and columns left from there",
            "does the tile lie inside D?",
            "addresses of this thread's part of",
            "address of this thread's part of D",
        ],
        entry: one_line,
        certain: false,
        reason: "a tile of one row or column that is there at all lies inside, and what is added to its first is 0",
    },
    Family {
        kinds: &[MutantKind::WaitGroup],
        is: waits_for_more,
        notes: &[],
        entry: any,
        certain: true,
        reason: "to wait for more copies than needed takes longer, and that is all",
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| matches!(mutant.op, Opcode::BarSync),
        notes: &["synchronise the threads of `pace`"],
        entry: any,
        certain: false,
        reason: "the barrier keeps warps in step; what they read and write is ordered by mbarriers",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: compares,
        notes: &["zeros outside the matrix"],
        entry: any,
        certain: true,
        reason: "a copy of no bytes reads nowhere, whatever its address",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::Selp(_)),
        notes: &["zeros outside the matrix"],
        entry: any,
        certain: true,
        reason: "a copy of no bytes reads nowhere, whatever its address",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::Sub { .. }),
        notes: &["zeros outside the matrix"],
        entry: Entry::suits_all,
        certain: false,
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::And(_)) && one_more(mutant),
        notes: &["this thread's part of", "D's tile in shared memory", "the line of a matrix of D"],
        entry: any,
        certain: false,
        reason: "the bit that is kept as well is 0: an eighth of the distance of whole pieces of 16 bytes is even",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }) && one_more(mutant),
        notes: &["D's tile in shared memory"],
        entry: any,
        certain: false,
        reason: "a piece begins at an even column: one column further is in the same panel",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::MadInt { .. }),
        notes: &["D's tile in shared memory"],
        entry: any,
        certain: false,
        reason: "a piece of the first panel: the distance of panels is multiplied by 0",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.op, Opcode::MadInt { .. }),
        notes: &["D's tile in shared memory"],
        entry: any,
        certain: false,
        reason: "a piece of the second panel: the distance of panels is multiplied by 1",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }) && nearly_half_a_panel(mutant),
        notes: &["D's tile in shared memory"],
        entry: any,
        certain: false,
        reason: "from a piece in the first half of a panel of 32 columns, 15 columns further are in that panel as well as 16",
    },
    Family {
        kinds: &[MutantKind::OtherOperation],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }) && halves_of_a_panel(mutant),
        notes: &["D's tile in shared memory"],
        entry: any,
        certain: false,
        reason: "a panel has 32 columns at most: some way to the right or the same way to the left is the same column of it",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Min { .. }),
        notes: &["copy a part of a line to D"],
        entry: any,
        certain: false,
        reason: "the last part of the last line lies outside D where the tile does not lie inside",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["the first part that this thread copies"],
        entry: any,
        certain: false,
        reason: "a round more copies the last part again, which lies outside D where the tile does not lie inside",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Max { .. }),
        notes: &["the block before this one", "has yet another block begun the tile?", "advance to the tile before it"],
        entry: any,
        certain: false,
        reason: "one less than a number is used only where the number is at least 1",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| mutant.before.ends_with(", 255"),
        notes: &["this thread's flag and sums there", "this thread's flag and its partial sums"],
        entry: any,
        certain: false,
        reason: "the bytes of a block's flags are a multiple of 256, which is rounded up to itself",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: compares,
        notes: &["advance to the next steps"],
        entry: any,
        certain: false,
        reason: "the steps left are a multiple of those of a body, of which there are more than one",
    },
];

/// Why a surviving mutant of this entry is no fault, if a family explains it.
pub fn equivalent(mutant: &Mutant, entry: &Entry) -> Option<&'static str> {
    family(mutant, entry).map(|family| family.reason)
}

/// Whether it is known to be no fault without being run at every size and in every order.
pub fn certainly_equivalent(mutant: &Mutant, entry: &Entry) -> bool {
    family(mutant, entry).is_some_and(|family| family.certain)
}

fn family(mutant: &Mutant, entry: &Entry) -> Option<&'static Family> {
    let fits = |family: &&Family| {
        family.kinds.contains(&mutant.kind)
            && (family.is)(mutant)
            && (family.notes.is_empty() || family.notes.iter().any(|note| mutant.note.contains(note)))
            && (family.entry)(entry)
    };
    families().find(fits)
}

fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES
        .iter()
        .chain(copies::FAMILIES)
        .chain(edges::FAMILIES)
        .chain(exchange::FAMILIES)
        .chain(planes::FAMILIES)
        .chain(rings::FAMILIES)
        .chain(streams::FAMILIES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ptx_gemm_runtime::Kernel;
    use ptx_gemm_runtime::ptx::module::Statement;

    use super::families;
    use crate::{cases, tuned};

    /// A family that quotes a note that no kernel has would excuse nothing, and nobody would see it.
    #[test]
    fn families_quote_notes_that_are_written() {
        let mut notes = BTreeSet::new();
        for case in cases().chain(tuned()) {
            let kernel = Kernel::compile(&case.schedule().unwrap(), None).unwrap();
            for statement in kernel.module().entries.iter().flat_map(|entry| &entry.body) {
                if let Statement::Instruction(instruction) = statement {
                    notes.extend(instruction.note.as_ref().map(|note| format!("{}: {}", note.clause, note.what)));
                }
            }
        }
        let quoted = families().flat_map(|family| family.notes);
        let unknown: Vec<_> = quoted.filter(|quoted| !notes.iter().any(|note| note.contains(**quoted))).collect();
        assert!(unknown.is_empty(), "no kernel has {unknown:?}");
    }
}
