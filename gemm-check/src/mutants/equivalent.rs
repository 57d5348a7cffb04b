//! Mutants that compute the same thing, and why.
//!
//! A reason is known by where an instruction is from, its clause and its [`Site`] in the lowering, and by what the edit does to it.
//! How notes are worded, or PTX is printed, does not matter.

mod copies;
mod edit;
mod epilogue;
mod exchange;
mod planes;
mod rings;
mod streams;
mod tiles;

use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::origin::Site;

use super::{Mutant, MutantKind};

/// A family of equivalent edits: of these kinds, of such instructions, from these places.
struct Family {
    kinds: &'static [MutantKind],
    is: fn(&Mutant) -> bool,
    /// Places in the lowering, one of which wrote the instruction; no matter where it is from, if there are none.
    sites: &'static [Site],
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

/// Why a surviving mutant of this entry is no fault, if a family explains it.
pub fn equivalent(mutant: &Mutant, entry: &Entry) -> Option<&'static str> {
    family(mutant, entry).map(|family| family.reason)
}

/// Whether it is known to be no fault without being run at every size and in every order.
pub fn certainly_equivalent(mutant: &Mutant, entry: &Entry) -> bool {
    family(mutant, entry).is_some_and(|family| family.certain)
}

/// Each is asked only about mutants that survived every size, order and rule, or the suite in the forward order if it is
/// certain; an edit of the same family that does make a difference is killed before.
fn family(mutant: &Mutant, entry: &Entry) -> Option<&'static Family> {
    let fits = |family: &&Family| {
        family.kinds.contains(&mutant.kind)
            && (family.is)(mutant)
            && (family.sites.is_empty() || mutant.is_at(family.sites))
            && (family.entry)(entry)
    };
    families().find(fits)
}

fn families() -> impl Iterator<Item = &'static Family> {
    let subjects = [
        tiles::FAMILIES,
        epilogue::FAMILIES,
        copies::FAMILIES,
        exchange::FAMILIES,
        planes::FAMILIES,
        rings::FAMILIES,
        streams::FAMILIES,
    ];
    subjects.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ptx_gemm_runtime::Kernel;
    use ptx_gemm_runtime::interface::Entry;
    use ptx_gemm_runtime::ptx::instruction::Note;

    use super::{equivalent, families};
    use crate::mutants::{Mutant, instruction, mutants_of};
    use crate::{case, cases};

    /// C in the stage, read element by element: no case has it.
    const STAGED_C: &str = "types(bf16, d = f32); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma, c = tma); stages(2); \
        specialize(producers = 1); store(tma); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);";

    /// The work of groups in equal shares: no case has it.
    const STREAMED: &str = "types(bf16); layout(b = col); tile(128, 256, 64); atom(wgmma(64, 256, 16)); load(tma); stages(3); \
        specialize(producers = 1); registers(producer = 24, consumer = 240); store(tma); stream_k; batch(grouped);";

    /// A family of a place that no kernel has instructions from would excuse nothing, and nobody would see it.
    #[test]
    fn kernels_have_instructions_from_the_places_of_families() {
        let mut written = BTreeSet::new();
        let schedules = cases().map(|case| case.schedule().unwrap());
        for schedule in schedules.chain([STAGED_C, STREAMED].map(|text| text.parse().unwrap())) {
            let kernel = Kernel::compile(&schedule, None).unwrap();
            let entries = kernel.module().entries.iter();
            let instructions = entries.flat_map(|entry| &entry.body).filter_map(instruction);
            written.extend(instructions.filter_map(|instruction| instruction.note.as_ref()?.site));
        }
        let unknown: Vec<_> =
            families().flat_map(|family| family.sites).filter(|site| !written.contains(&(**site as u16))).collect();
        assert!(unknown.is_empty(), "no kernel has instructions from {unknown:?}");
    }

    /// The same families explain edits however notes are worded and instructions printed.
    #[test]
    fn wording_does_not_matter() {
        let mut explained = 0;
        for name in ["shared_1", "strassen", "wgmma_lent"] {
            let kernel = Kernel::compile(&case(name).unwrap().schedule().unwrap(), None).unwrap();
            for mutant in mutants_of(&kernel) {
                let of = kernel.launched()[mutant.kernel];
                let name = &of.module().entries[mutant.entry].name;
                let runs = |entry: &&Entry| entry.launches.iter().any(|launch| launch.kernel == *name);
                let entry = of.interface().entries.iter().find(runs).unwrap();
                let reason = equivalent(&mutant, entry);
                let [before, after, note] = [(); 3].map(|()| "another text".to_string());
                let origin = mutant.origin.as_ref().map(|origin| match origin.site {
                    Some(site) => Note::at(&*origin.clause, "another text", site),
                    None => Note::new(&*origin.clause, "another text"),
                });
                assert_eq!(equivalent(&Mutant { before, after, note, origin, ..mutant }, entry), reason);
                explained += usize::from(reason.is_some());
            }
        }
        assert!(explained > 100, "{explained}");
    }
}
