//! Families of edits that are not faults where the blocks of a cluster exchange sums.

use ptx_gemm_dsl::target::WARP_GROUP;
use ptx_gemm_runtime::origin::Site;

use super::edit::{loads, sets, synchronises};
use super::{Family, any};
use crate::mutants::MutantKind;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::MovedSync, MutantKind::DeletedSync],
        is: |mutant| synchronises(mutant) && mutant.is_of("split_k"),
        sites: &[Site::Meet],
        // Next to the group that multiplies there is at most one that copies.
        entry: |entry| entry.main().is_some_and(|main| main.threads <= 2 * WARP_GROUP),
        certain: false,
        reason: "a wait of any warp is for the products of its whole warp group, which is the only one, and has read all K-tiles",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: loads,
        sites: &[Site::SumsOfPart],
        entry: any,
        certain: false,
        reason: "sums of a line that this block does not store are read, and not stored",
    },
    Family {
        kinds: &[MutantKind::Deleted, MutantKind::Constant],
        is: sets,
        sites: &[Site::SumsOfPart, Site::UnreadLines],
        entry: any,
        certain: false,
        reason: "what the register holds instead belongs to a line that this block does not store",
    },
];
