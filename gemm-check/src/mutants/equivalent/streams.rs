//! Families of edits that are not faults in kernels whose blocks divide K-tiles among each other, or pack an operand.

use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode, Operand};

use super::edit::{adds, compares, compares_by, demands_more, had, keeps, selects};
use super::{BOUNDS, Family, any};
use crate::mutants::{Mutant, MutantKind};

/// Whether a tile number that no tile has is one of the two to select from.
fn selects_no_tile(mutant: &Mutant) -> bool {
    mutant.was.operands.iter().rev().skip(1).any(|operand| *operand == Operand::Int(u32::MAX.into()))
}

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.was.op, Opcode::Max { .. }),
        sites: &[Site::BlockBefore, Site::AnotherBlock, Site::NextWorkTile],
        entry: any,
        certain: false,
        reason: "one less than a number is used only where the number is at least 1",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| had(mutant, 255),
        sites: &[Site::FlagOfBlock, Site::FlagOfPart],
        entry: any,
        certain: false,
        reason: "the bytes of a block's flags are a multiple of 256, which is rounded up to itself",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| selects(mutant) && selects_no_tile(mutant),
        sites: &[Site::NextWorkTile, Site::WalkOn],
        entry: |entry| entry.record.is_some(),
        certain: false,
        reason: "no tile has this number either",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: |mutant| compares(mutant) && had(mutant, 1),
        sites: &[Site::BegunEarlier],
        entry: |entry| entry.record.is_some(),
        certain: false,
        reason: "blocks share the tiles of a group in pieces of several K-tiles, and none has begun a single one",
    },
    Family {
        kinds: &[MutantKind::Bound, MutantKind::Comparison, MutantKind::SwappedOperands],
        is: compares,
        sites: &[Site::LeftOverTiles],
        entry: any,
        certain: false,
        reason: "which tiles are divided among blocks is a matter of speed: the sums of all of them are right either way",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: adds,
        sites: &[Site::KTilesOfTile],
        entry: any,
        certain: false,
        reason: "a K-tile more lies outside the operands: zeros",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: demands_more,
        sites: &[Site::WholeVectors],
        entry: any,
        certain: true,
        reason: "a tile that just fits is read by elements, which are the same; addresses and distances of rows are even",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| keeps(mutant, 0b1110),
        sites: &[Site::WholeVectors],
        entry: any,
        certain: true,
        reason: "addresses and distances of rows are even, and what is aligned better is read by elements, which are the same",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: |mutant| matches!(mutant.was.op, Opcode::Setp { cmp: Compare::Ge, .. }) && compares_by(mutant, Compare::Gt),
        sites: &[Site::WholeVectors],
        entry: any,
        certain: true,
        reason: "a tile that just fits is read by elements, which are the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.was.op, Opcode::Max { .. }) && had(mutant, 8),
        sites: &[Site::AroundPath],
        entry: any,
        certain: true,
        reason: "a tile begins at 0, where no vector is before it and its elements are read one by one, or far beyond 9",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        sites: &[Site::FirstWorkTile],
        entry: any,
        certain: false,
        reason: "a launch has at most as many blocks as K-tiles, so that each block has a tile to begin with",
    },
];
