//! Families of edits that are not faults in the products and in the epilogue: C, vectors, values of D, and the staged tile.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::{Base, Instruction, Opcode, Operand as PtxOperand};
use ptx_gemm_runtime::ptx::types::Type;

use super::edit::{
    adds, any_edit, becomes, compares, had, halves_of_a_panel, masks, multiplies_and_adds, nearly_half_a_panel,
    numbers, one_more, sets,
};
use super::{BOUNDS, Family, any};
use crate::mutants::{Mutant, MutantKind};

/// Whether a parameter is read, and this one.
fn reads(instruction: &Instruction, param: &str) -> bool {
    let Some(PtxOperand::Address(address)) = instruction.operands.last() else { return false };
    matches!(&**address, (Base::Symbol(name), 0) if **name == param)
}

/// Whether 0 was added to a float, and now is subtracted.
fn subtracts_zero(mutant: &Mutant) -> bool {
    mutant.was.operands.last() == Some(&PtxOperand::F32(0)) && matches!(becomes(mutant), Some(Opcode::Sub { .. }))
}

fn combines_conditions(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::And(Type::Pred))
}

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Deleted, MutantKind::Constant],
        is: sets,
        sites: &[Site::LoadC, Site::LoadStagedC, Site::LoadVector],
        entry: any,
        certain: false,
        reason: "what the register holds instead belongs to an element outside D, which is not stored",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| sets(mutant) && had(mutant, 0),
        sites: &[Site::LoadMatricesOfC],
        entry: any,
        certain: false,
        reason: "where C is multiplied by 0 it is not read, and what its registers hold instead is a finite number",
    },
    Family {
        kinds: &[MutantKind::OtherParameter],
        is: |mutant| {
            mutant.kernel > 0
                && reads(&mutant.was, "ldc")
                && mutant.becomes().is_some_and(|becomes| reads(becomes, "ldd"))
        },
        sites: &[Site::PartOfC],
        entry: any,
        certain: false,
        reason: "in this launch of a plan C and D are matrices of the workspace, with rows of one length",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| mutant.kernel > 0 && adds(mutant),
        sites: &[Site::LineInside],
        entry: any,
        certain: false,
        reason: "quadrants end at whole pieces of 16 bytes: a piece whose first element is inside is inside",
    },
    Family {
        kinds: BOUNDS,
        is: |mutant| mutant.kernel > 0 && compares(mutant),
        sites: &[Site::ElementInside],
        entry: any,
        certain: false,
        reason: "quadrants end at whole pieces of 16 bytes, and what is read of the one beyond meets no element of D",
    },
    Family {
        kinds: &[MutantKind::OtherOperation],
        is: subtracts_zero,
        sites: &[Site::ValueOfD],
        entry: any,
        certain: false,
        reason: "this makes NaN the NaN of PTX, which it is with 0 added or subtracted",
    },
    Family {
        kinds: &[MutantKind::RoundedTwice],
        is: any_edit,
        sites: &[Site::ValueOfD],
        entry: any,
        certain: false,
        reason: "sums of tensor cores are compared by a bound, within which one more rounding is",
    },
    Family {
        kinds: &[MutantKind::RoundedTwice],
        is: any_edit,
        sites: &[Site::WidenedProduct],
        entry: any,
        certain: true,
        reason: "a product of two numbers of 16 bits is exact in f32, if it does not leave its range: only the sum is rounded",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| had(mutant, 31) && numbers(mutant) == Some((31, 30)),
        sites: &[Site::LineOfMatrix, Site::RowOfMatrix],
        entry: any,
        certain: false,
        reason: "eight lanes point at the rows of a matrix: the lowest bit of a lane's number is shifted out",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| masks(mutant) && one_more(mutant),
        sites: &[
            Site::PartOfFirstSlot,
            Site::PartOfSlot,
            Site::PartToCopy,
            Site::PartInGlobal,
            Site::PartOfC,
            Site::PartOfD,
            Site::PartOfVector,
            Site::StagedTile,
            Site::LineOfMatrix,
        ],
        entry: any,
        certain: false,
        reason: "the bit that is kept as well is 0: an eighth of the distance of whole pieces of 16 bytes is even",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| adds(mutant) && one_more(mutant),
        sites: &[Site::StagedTile],
        entry: any,
        certain: false,
        reason: "a piece begins at an even column: one column further is in the same panel",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: multiplies_and_adds,
        sites: &[Site::StagedTile],
        entry: any,
        certain: false,
        reason: "a piece of the first panel: the distance of panels is multiplied by 0",
    },
    Family {
        kinds: &[MutantKind::SwappedOperands],
        is: multiplies_and_adds,
        sites: &[Site::StagedTile],
        entry: any,
        certain: false,
        reason: "a piece of the second panel: the distance of panels is multiplied by 1",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| adds(mutant) && nearly_half_a_panel(mutant),
        sites: &[Site::StagedTile],
        entry: any,
        certain: false,
        reason: "from a piece in the first half of a panel of 32 columns, 15 columns further are in that panel as well as 16",
    },
    Family {
        kinds: &[MutantKind::OtherOperation],
        is: |mutant| adds(mutant) && halves_of_a_panel(mutant),
        sites: &[Site::StagedTile],
        entry: any,
        certain: false,
        reason: "a panel has 32 columns at most: some way to the right or the same way to the left is the same column of it",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.was.op, Opcode::Min { .. }),
        sites: &[Site::CopyLine],
        entry: any,
        certain: false,
        reason: "the last part of the last line lies outside D where the tile does not lie inside",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: sets,
        sites: &[Site::FirstPart],
        entry: any,
        certain: false,
        reason: "a round more copies the last part again, which lies outside D where the tile does not lie inside",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: combines_conditions,
        sites: &[Site::LineInside],
        entry: any,
        certain: false,
        reason: "of a line whose later element lies inside D an earlier one does as well",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: combines_conditions,
        sites: &[Site::LoadC, Site::LoadStagedC],
        entry: |entry| entry.requires.iter().any(|requires| requires.operand == Operand::D && requires.rows),
        certain: false,
        reason: "lines of D are whole units of 16 bytes, and so are the elements of C for one, inside together or outside",
    },
];
