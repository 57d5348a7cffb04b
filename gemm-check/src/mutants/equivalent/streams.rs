//! Families of edits that are not faults in kernels whose blocks divide K-tiles among each other, or pack an operand.

use ptx_gemm_runtime::ptx::instruction::{Compare, Opcode};

use super::{BOUNDS, Family, any, compares, demands_more, keeps, last};
use crate::mutants::MutantKind;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Selp(_)) && mutant.before.contains(" 4294967295,"),
        notes: &["the tile before it in the run"],
        entry: |entry| entry.record.is_some(),
        certain: false,
        reason: "no tile has this number either",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: |mutant| compares(mutant) && mutant.before.ends_with(", 1"),
        notes: &["have earlier blocks begun it?"],
        entry: |entry| entry.record.is_some(),
        certain: false,
        reason: "blocks share the tiles of a group in pieces of several K-tiles, and none has begun a single one",
    },
    Family {
        kinds: &[MutantKind::Bound, MutantKind::Comparison, MutantKind::SwappedOperands],
        is: compares,
        notes: &["tiles that the whole waves leave over"],
        entry: any,
        certain: false,
        reason: "which tiles are divided among blocks is a matter of speed: the sums of all of them are right either way",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }),
        notes: &["K-tiles of a tile"],
        entry: any,
        certain: false,
        reason: "a K-tile more lies outside the operands: zeros",
    },
    Family {
        kinds: &[MutantKind::Bound],
        is: demands_more,
        notes: &["whole vectors, if the tile is inside and they are aligned"],
        entry: any,
        certain: true,
        reason: "a tile that just fits is read by elements, which are the same; addresses and distances of rows are even",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| keeps(mutant, 0b1110),
        notes: &["whole vectors, if the tile is inside and they are aligned"],
        entry: any,
        certain: true,
        reason: "addresses and distances of rows are even, and what is aligned better is read by elements, which are the same",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: |mutant| matches!(mutant.op, Opcode::Setp { cmp: Compare::Ge, .. }) && mutant.after.contains(".gt."),
        notes: &["whole vectors, if the tile is inside and they are aligned"],
        entry: any,
        certain: true,
        reason: "a tile that just fits is read by elements, which are the same",
    },
    Family {
        kinds: &[MutantKind::Constant],
        is: |mutant| matches!(mutant.op, Opcode::Max { .. }) && last(&mutant.before) == Some(8),
        notes: &["the vectors around, if the tile and one on each side of its rows are inside"],
        entry: any,
        certain: true,
        reason: "a tile begins at 0, where no vector is before it and its elements are read one by one, or far beyond 9",
    },
    Family {
        kinds: BOUNDS,
        is: compares,
        notes: &["the last tile of the run, or the first whole tile"],
        entry: any,
        certain: false,
        reason: "a launch has at most as many blocks as K-tiles, so that each block has a tile to begin with",
    },
];
