//! Sums of tensor cores that keep few bits of their terms.

use ptx_gemm_dsl::atoms::Multiply;
use ptx_gemm_dsl::terms::Side;

use super::{Op, Program};

/// Sums of tensor cores that keep [`COARSE_BITS`](ptx_gemm_dsl::atoms::COARSE_BITS) fraction bits of their terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coarse {
    /// Elements of k in such a sum, which is then added to one in f32; `None`: all of them.
    pub chunk: Option<u32>,
}

impl Coarse {
    /// Those of a program, if it has such sums.
    pub(crate) fn of(program: &Program) -> Option<Coarse> {
        let unit = program.statements().iter().find_map(|statement| match &statement.op {
            Op::Steps { multiply, .. } => multiply.by.unit(),
            _ => None,
        })?;
        let kept = Multiply::of(unit, program.element(Side::A)).any(|row| row.coarse);
        // Sums in f16 round more than these lose.
        let wide = program.problem.types.acc.element().bits == 32;
        (kept && wide).then(|| Coarse { chunk: program.walk.as_ref().map(|walk| walk.chunk) })
    }
}
