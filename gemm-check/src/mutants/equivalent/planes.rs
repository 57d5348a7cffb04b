//! Families of edits that are not faults in kernels that copy operands, split them into planes, scale them, and multiply planes in
//! pairs.

use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::Opcode;
use ptx_gemm_runtime::ptx::types::Type;

use super::edit::{adds, any_edit, compares, had, masks, numbers, one_less, sets, subtracts};
use super::{BOUNDS, Family, IN_INDICES, any};
use crate::mutants::MutantKind;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        sites: &[Site::PackedVectors],
        entry: any,
        certain: false,
        reason: "rows of the copy are padded to whole lines, and what follows the last vector of one is padding",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: sets,
        sites: &[Site::PackedZeros, Site::ZeroChunk],
        entry: any,
        certain: false,
        reason: "what lies outside the operand is not written, or is padding, which no tensor map covers",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.was.op, Opcode::And(Type::Pred)),
        sites: &[Site::VectorInside, Site::PackElements, Site::LargestMagnitude],
        entry: any,
        certain: false,
        reason: "of a row or vector whose later part is inside an earlier one is inside as well",
    },
    Family {
        kinds: &[MutantKind::WaitGroup, MutantKind::DeletedSync],
        is: |mutant| had(mutant, 0),
        sites: &[Site::RetireProducts],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "the sums of the last chunk were promoted, which waited for all products",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: sets,
        sites: &[Site::ClearAccumulators],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "the first product of a chunk is not added to what the accumulators hold",
    },
    Family {
        kinds: &[MutantKind::Bound, MutantKind::Comparison, MutantKind::Constant],
        is: |mutant| match mutant.kind {
            MutantKind::Constant => subtracts(mutant),
            _ => compares(mutant),
        },
        sites: &[Site::AroundPath],
        entry: any,
        certain: false,
        reason: "elements are read one by one instead; or only the element of the next row is read as well that is not wanted",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| masks(mutant) && one_less(mutant) && numbers(mutant).is_some_and(|(before, _)| before % 2 == 1),
        sites: &[Site::ReadAround, Site::CutAround],
        entry: |entry| entry.packings.iter().all(|packing| packing.dtype.bytes() > 1),
        certain: true,
        reason: "elements of two bytes or more are at even addresses",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: |mutant| compares(mutant) && one_less(mutant),
        sites: &[Site::CutAround],
        entry: any,
        certain: true,
        reason: "elements of 16 bits are at even bytes, none of which is between the two bounds",
    },
    Family {
        kinds: IN_INDICES,
        is: |mutant| mutant.loops == 0,
        sites: &[Site::PlaneOfPair, Site::NextKTile],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "before the loop over K-tiles only those of the first pairs of planes are copied: the others do not come up",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| adds(mutant) && one_less(mutant),
        sites: &[Site::NextKTile],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "a chunk of k ends with a K-tile: one less is passed by the same K-tile",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: sets,
        sites: &[Site::LargestOfLine],
        entry: any,
        certain: false,
        reason: "the register is loaded before it is read",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        sites: &[Site::LeaveLargest],
        entry: any,
        certain: false,
        reason: "the line after the last one of an operand is zeros here, and its scale is in the padding of the scales",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: compares,
        sites: &[Site::ZeroChunk],
        entry: |entry| entry.emulated.is_some(),
        certain: false,
        reason: "the row or column after the last one of a plane is in the workspace, and its products are outside D",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: any_edit,
        sites: &[Site::Scale],
        entry: any,
        certain: false,
        reason: "what follows the scales in the workspace is written later",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        sites: &[Site::LoadScales, Site::UndoScales],
        entry: any,
        certain: false,
        reason: "the row or column lies outside D, and what is read in place of its scale is in the workspace and is not used",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| adds(mutant) && one_less(mutant),
        sites: &[Site::LoadScales],
        entry: any,
        certain: false,
        reason: "the scale after the last one is in the workspace, and is read for a column that is not stored",
    },
    Family {
        kinds: &[MutantKind::Deleted],
        is: sets,
        sites: &[Site::LoadScales, Site::UndoScales],
        entry: any,
        certain: false,
        reason: "the row or column lies outside D, and what is in the register in place of its scale is not used",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: any_edit,
        sites: &[Site::ScalesOfVectors],
        entry: any,
        certain: false,
        reason: "the row or column lies outside: what it is scaled by is not stored",
    },
];
