//! Families of edits that are not faults in kernels with rings: of what fills, reads and releases their slots.

use ptx_gemm_dsl::target::WARP_GROUP;
use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::ptx::instruction::Opcode;

use super::{BOUNDS, Family, any, compares, keeps, one_more};
use crate::mutants::{Mutant, MutantKind};

fn any_edit(_: &Mutant) -> bool {
    true
}

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
                mutant.op,
                Opcode::Add { .. }
                    | Opcode::Sub { .. }
                    | Opcode::Mov(_)
                    | Opcode::MulInt { .. }
                    | Opcode::MadInt { .. }
                    | Opcode::Selp(_)
            );
            (is_address && one_more(mutant)) || keeps(mutant, DESCRIBED)
        },
        notes: &[
            "matrix descriptor of",
            "advance to the next slot",
            "first slots to read and to fill",
            "the slot after the K-tiles of other groups",
        ],
        entry: any,
        certain: false,
        reason: "a descriptor holds an address without its lowest four bits",
    },
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| matches!(mutant.op, Opcode::BarSync),
        notes: &["synchronise the threads of `store`"],
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
        notes: &["the last slot has been read"],
        entry: computes_one_tile,
        certain: false,
        reason: "a block that computes one tile does not fill the slot of its last K-tile again",
    },
    Family {
        kinds: &[MutantKind::WaitOnce],
        is: any_edit,
        notes: &["the last slot is lent, and so are those before it"],
        entry: |entry| {
            // Beside the group that multiplies at most another one that copies.
            computes_one_tile(entry) && entry.main().is_some_and(|main| main.threads <= 2 * WARP_GROUP)
        },
        certain: false,
        reason: "the one warp group of a block that computes one tile has read all K-tiles before it waits, and no others follow",
    },
    Family {
        kinds: &[MutantKind::Deleted, MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["no slot is to be returned yet"],
        entry: any,
        certain: false,
        reason: "the place of a slot is set before an arrival there, which a flag guards; with another first value the flag \
                 itself would return a slot that is being read",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.op, Opcode::Mapa { .. }),
        notes: &["the last slot has been read", "the previous slot has been read", "this thread has read the slot"],
        entry: any,
        certain: false,
        reason: "an address is computed that only the guarded arrival uses",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| mutant.before.ends_with(", 1") && matches!(mutant.op, Opcode::Mov(_)),
        notes: &["advance to the next slot"],
        entry: any,
        certain: false,
        reason: "any number but 0 says that there is a slot to release",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }),
        notes: &["advance to the next slot", "matrix descriptor of"],
        entry: any,
        certain: false,
        reason: "the slot that is filled next is the one that was read, and both registers have its offset",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        notes: &["this thread has read the slot", "advance to the next slot"],
        entry: any,
        certain: false,
        reason: "what is compared is a multiple of a slot's bytes, which is not between the two bounds",
    },
];
