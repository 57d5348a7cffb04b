//! Families of edits that are not faults in kernels with rings: of what fills, reads and releases their slots.

use ptx_gemm_dsl::target::WARP_GROUP;
use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::Opcode;

use super::edit::{adds, any_edit, compares, had, keeps, one_more, sets, synchronises};
use super::{BOUNDS, Family, any};
use crate::mutants::MutantKind;

fn computes_one_tile(entry: &Entry) -> bool {
    entry.main().is_some_and(|main| main.grid.wave.is_none())
}

/// The bits of an address in shared memory that a descriptor holds.
const DESCRIBED: u64 = 0x3fff0;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| {
            let is_address = matches!(
                mutant.was.op,
                Opcode::Add { .. }
                    | Opcode::Sub { .. }
                    | Opcode::Mov(_)
                    | Opcode::MulInt { .. }
                    | Opcode::MadInt { .. }
                    | Opcode::Selp(_)
            );
            (is_address && one_more(mutant)) || keeps(mutant, DESCRIBED)
        },
        sites: &[Site::Descriptor, Site::NextSlot, Site::NextSlotToFill, Site::FirstSlots, Site::SlotAfterOthers],
        entry: any,
        certain: false,
        reason: "a descriptor holds an address without its lowest four bits",
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| synchronises(mutant) && mutant.is_of("store"),
        sites: &[Site::Meet],
        entry: computes_one_tile,
        certain: false,
        reason: "a block that computes one tile writes the parts of D in shared memory once, which nobody has read before",
    },
    Family {
        kinds: &[
            MutantKind::DeletedSync,
            MutantKind::Bound,
            MutantKind::Comparison,
            MutantKind::Constant,
            MutantKind::OtherOperation,
            MutantKind::OtherRegister,
        ],
        is: any_edit,
        sites: &[Site::LastSlotRead],
        entry: computes_one_tile,
        certain: false,
        reason: "a block that computes one tile does not fill the slot of its last K-tile again",
    },
    Family {
        kinds: &[MutantKind::WaitOnce],
        is: any_edit,
        sites: &[Site::LastSlotLent],
        entry: |entry| {
            // Next to the group that multiplies there is at most one that copies.
            computes_one_tile(entry) && entry.main().is_some_and(|main| main.threads <= 2 * WARP_GROUP)
        },
        certain: false,
        reason: "the one warp group of a block that computes one tile has read all K-tiles before it waits, and no others follow",
    },
    Family {
        kinds: &[MutantKind::Deleted, MutantKind::Constant],
        is: sets,
        sites: &[Site::NoSlotKept],
        entry: any,
        certain: false,
        reason: "the place of a slot is set before an arrival there, which a flag guards; with another first value the flag \
                 itself would return a slot that is being read",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.was.op, Opcode::Mapa { .. }),
        sites: &[Site::LastSlotRead, Site::PreviousSlotRead, Site::SlotRead],
        entry: any,
        certain: false,
        reason: "an address is computed that only the guarded arrival uses",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| sets(mutant) && had(mutant, 1),
        sites: &[Site::NextSlot, Site::NextSlotToFill],
        entry: any,
        certain: false,
        reason: "any number but 0 says that there is a slot to release",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: adds,
        sites: &[Site::NextSlot, Site::NextSlotToFill, Site::Descriptor],
        entry: any,
        certain: false,
        reason: "the slot that is filled next is the one that was read, and both registers have its offset",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        sites: &[Site::SlotRead, Site::NextSlot, Site::NextSlotToFill],
        entry: any,
        certain: false,
        reason: "what is compared is a multiple of a slot's bytes, which is not between the two bounds",
    },
];
