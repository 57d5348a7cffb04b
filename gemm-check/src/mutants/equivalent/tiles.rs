//! Families of edits that are not faults in how work is divided among tiles, blocks, threads and rounds of the main loop.

use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode};

use super::edit::{
    any_edit, compares, compares_constants, had, had_number, loads, selects, subtracts, synchronises, waits_for_more,
};
use super::{BOUNDS, Family, IN_INDICES, any};
use crate::mutants::MutantKind;

fn one_line(entry: &Entry) -> bool {
    entry.tile.m == 1 || entry.tile.n == 1
}

fn one_element(entry: &Entry) -> bool {
    let tile = entry.tile;
    [tile.m, tile.n, tile.k] == [1; 3] && entry.launches.iter().all(|launch| launch.threads == 1)
}

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: BOUNDS,
        is: |mutant| had(mutant, 1),
        sites: &[Site::EndOfProducts],
        entry: any,
        certain: false,
        reason: "there is a first product to look at: a block that has come to the end of the list looks at none",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.was.op, Opcode::Min { .. }) && had_number(mutant),
        sites: &[Site::WorkTile],
        entry: any,
        certain: false,
        reason: "a band is as high as D, or higher, if D has fewer tiles of rows than a whole band: it holds all tiles either way",
    },
    Family {
        kinds: &[MutantKind::OtherBarrier],
        is: synchronises,
        sites: &[],
        entry: any,
        certain: true,
        reason: "a barrier's number is a name: all threads come to it, and to no other of that number",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        sites: &[Site::LinesInside, Site::KTileInside, Site::ElementsInside, Site::LineInside, Site::TileInside],
        entry: any,
        certain: true,
        reason: "a tile that just fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: selects,
        sites: &[Site::KNeeded],
        entry: any,
        certain: true,
        reason: "a tile that fits takes the path with guards, which computes the same",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        sites: &[Site::Rounds, Site::KAfterRound],
        entry: any,
        certain: false,
        reason: "what would be the last whole round is done by the loop for the rest of K, which computes the same",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: |mutant| matches!(mutant.was.op, Opcode::Setp { cmp: Compare::Eq | Compare::Ne | Compare::Nan, .. }),
        sites: &[],
        entry: any,
        certain: true,
        reason: "it is symmetric: whether two are equal, or one of them is NaN",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        sites: &[Site::AnythingToSum],
        entry: any,
        certain: false,
        reason: "without anything to sum over, a K-tile that lies outside is summed: zeros",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: compares,
        sites: &[Site::AnythingToSum],
        entry: any,
        certain: false,
        reason: "the other register is an extent as well: without anything to sum over, a K-tile outside is summed: zeros",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: loads,
        sites: &[Site::Reload],
        entry: any,
        certain: false,
        reason: "the product before read the same operand, and the register holds it",
    },
    Family {
        kinds: &MutantKind::ALL,
        is: |mutant| mutant.is_of("tail"),
        sites: &[],
        entry: one_element,
        certain: false,
        reason: IN_ONE_ELEMENT,
    },
    Family {
        kinds: &MutantKind::ALL,
        is: any_edit,
        sites: &[
            Site::CopiedElement,
            Site::StorePath,
            Site::CopyPath,
            Site::PartOfFirstSlot,
            Site::PartOfC,
            Site::PartOfD,
            Site::PartOfVector,
            Site::PartOfSlot,
            Site::PartToCopy,
            Site::PartInGlobal,
            Site::StoreElement,
        ],
        entry: one_element,
        certain: false,
        reason: IN_ONE_ELEMENT,
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: any_edit,
        sites: &[],
        entry: one_element,
        certain: false,
        reason: "a barrier of one thread orders nothing that is not in order",
    },
    Family {
        kinds: BOUNDS,
        is: compares_constants,
        sites: &[],
        entry: any,
        certain: true,
        reason: "two constants are compared, with the same outcome",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands, MutantKind::Constant],
        is: subtracts,
        sites: &[Site::ThreadOfRole],
        entry: any,
        certain: false,
        reason: "one thread of the role works, the one with index 0, whichever that is",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: loads,
        sites: &[Site::LoadStep],
        entry: any,
        certain: false,
        reason: "read ahead of a round that does not come, from a row that is not the last: the values are not used",
    },
    Family {
        kinds: IN_INDICES,
        is: any_edit,
        sites: &[Site::LeftOfD, Site::TileInside, Site::PartInGlobal, Site::PartOfD],
        entry: one_line,
        certain: false,
        reason: "a tile of one row or column that is there at all lies inside, and what is added to its first is 0",
    },
    Family {
        kinds: &[MutantKind::WaitGroup],
        is: waits_for_more,
        sites: &[],
        entry: any,
        certain: true,
        reason: "to wait for more copies than needed takes longer, and that is all",
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| synchronises(mutant) && mutant.is_of("pace"),
        sites: &[Site::Meet],
        entry: any,
        certain: false,
        reason: "the barrier keeps warps in step; what they read and write is ordered by mbarriers",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: compares,
        sites: &[Site::NextSteps],
        entry: any,
        certain: false,
        reason: "the steps left are a multiple of those of a body, of which there are more than one",
    },
];

const IN_ONE_ELEMENT: &str =
    "the one thread has index 0, and a tile of one element lies inside: the path of edges never runs";
