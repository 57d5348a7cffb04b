//! Families of edits that are not faults in kernels whose threads copy tiles, where a pass has fewer chunks than threads or all of it is
//! in rows that a swizzle does not move.

use ptx_gemm_runtime::ptx::instruction::Opcode;

use super::{Family, any, compares};
use crate::mutants::MutantKind;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        kinds: &[MutantKind::Constant, MutantKind::OtherOperation],
        is: |mutant| matches!(mutant.op, Opcode::Shr(_) | Opcode::And(_)),
        notes: &["this thread's part of"],
        entry: any,
        certain: false,
        reason: "the bit that is tested instead is 0 in these rows as well: the swizzle leaves their pieces where they are",
    },
    Family {
        kinds: &[MutantKind::OtherRegister],
        is: |mutant| matches!(mutant.op, Opcode::Add { .. }),
        notes: &["this thread's part of"],
        entry: any,
        certain: false,
        reason: "the swizzle leaves the pieces of these rows where they are: the address before it is the one after",
    },
    Family {
        kinds: &[MutantKind::Comparison],
        is: |mutant| compares(mutant) && mutant.after.contains(".le."),
        notes: &["zeros outside the matrix"],
        entry: any,
        certain: false,
        reason: "the row is the tile's first, and a tile has at least one that is inside",
    },
    Family {
        kinds: &[MutantKind::NoGuard],
        is: |mutant| matches!(mutant.op, Opcode::CpAsync { .. }),
        notes: &["zeros outside the matrix"],
        entry: any,
        certain: false,
        reason: "the thread without a chunk copies the row behind the tile, if there is one, to the padding of its slot",
    },
];
