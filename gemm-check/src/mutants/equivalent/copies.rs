//! Families of edits that are not faults where threads copy chunks: at the end of a matrix, where a pass has fewer chunks than
//! threads, and in rows that a swizzle does not move.

use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode};

use super::edit::{adds, compares, compares_by, one_less, selects, sets, subtracts};
use super::{Family, any};
use crate::mutants::MutantKind;

/// Addresses of a thread's part of an operand, wherever they point.
const PARTS: &[Site] = &[
    Site::PartOfFirstSlot,
    Site::PartOfSlot,
    Site::PartToCopy,
    Site::PartInGlobal,
    Site::PartOfC,
    Site::PartOfD,
    Site::PartOfVector,
];

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: subtracts,
        sites: &[Site::ChunkInside],
        entry: Entry::suits_all,
        certain: false,
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        sites: &[Site::ChunkInside],
        entry: any,
        certain: false,
        reason: "of the row or column after the last one no element is left to copy either way",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: sets,
        sites: &[Site::ZeroElement],
        entry: any,
        certain: false,
        reason: "outside a matrix, the other operand's element is a zero, or the sum is not stored",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: compares,
        sites: &[Site::ZeroChunk],
        entry: any,
        certain: true,
        reason: "a copy of no bytes reads nowhere, whatever its address",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: selects,
        sites: &[Site::ZeroChunk],
        entry: any,
        certain: true,
        reason: "a copy of no bytes reads nowhere, whatever its address",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: subtracts,
        sites: &[Site::ZeroChunk],
        entry: Entry::suits_all,
        certain: false,
        reason: "a chunk of one element: whether any is left is all that counts, and nothing is left of nothing",
    },
    Family {
        kinds: &[MutantKind::Constant, MutantKind::OtherOperation],
        is: |mutant| matches!(mutant.was.op, Opcode::Shr(_) | Opcode::And(_)),
        sites: PARTS,
        entry: any,
        certain: false,
        reason: "the bit that is tested instead is 0 in these rows as well: the swizzle leaves their pieces where they are",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: adds,
        sites: PARTS,
        entry: any,
        certain: false,
        reason: "the swizzle leaves the pieces of these rows where they are: the address before it is the one after",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: |mutant| compares(mutant) && compares_by(mutant, Compare::Le),
        sites: &[Site::ZeroChunk],
        entry: any,
        certain: false,
        reason: "the row is the tile's first, and a tile has at least one that is inside",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.was.op, Opcode::CpAsync { .. }),
        sites: &[Site::ZeroChunk],
        entry: any,
        certain: false,
        reason: "the thread without a chunk copies the row after the tile, if there is one, to the padding of its slot",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: |mutant| compares(mutant) && one_less(mutant),
        sites: &[Site::WiderThan],
        // The boxes of a list's tensor maps are as wide as the tiles of each product, so there these slots are not filled.
        entry: |entry| entry.record.is_none(),
        certain: false,
        reason: "a tile as wide as a product takes the next wider one, whose other columns are zeros that copies wrote, and not stored",
    },
];
