//! Families of edits that are not faults where the blocks of a cluster exchange sums.

use ptx_gemm_dsl::target::WARP_GROUP;
use ptx_gemm_runtime::ptx::instruction::Opcode;

use super::{Family, any};
use crate::mutants::MutantKind;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| matches!(mutant.op, Opcode::BarSync),
        notes: &["synchronise the threads of `share`"],
        // Beside the group that multiplies at most another one that copies.
        entry: |entry| entry.main().is_some_and(|main| main.threads <= 2 * WARP_GROUP),
        certain: false,
        reason: "a wait of any warp is for the products of its whole warp group, which is the only one, and has read all K-tiles",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.op, Opcode::Ld { .. }),
        notes: &["sums of part"],
        entry: any,
        certain: false,
        reason: "sums of a line that this block does not store are read, and not stored",
    },
    Family {
        kinds: &[MutantKind::Deleted, MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Mov(_)),
        notes: &["sums of part", "lines that are not read are zero"],
        entry: any,
        certain: false,
        reason: "what the register holds instead belongs to a line that this block does not store",
    },
];
