//! The instruction that multiplies, and how its fragments come into registers.

use ptx_gemm_dsl::terms::{FmaOrder, Side};

use super::stream::{Fragments, Stream};
use super::{Lowered, Lowering, broken};
use crate::kernel::{Guard, Math, Op, Reg, Value, outer_order};
use crate::tile::{Multiply, Note};

/// One multiply instruction, with the accumulators that it feeds.
pub(super) enum Multiplier {
    /// A thread's fused multiply-adds: one outer product a step.
    Fma { acc: Vec<Reg>, order: FmaOrder, note: Note },
}

impl Multiplier {
    /// The multiplier of a statement.
    pub(super) fn of(lowering: &Lowering<'_>, multiply: &Multiply, note: &Note) -> Multiplier {
        Multiplier::Fma { acc: lowering.acc[multiply.acc].clone(), order: multiply.order, note: note.clone() }
    }

    /// Reads the group of step `of` during step `step`; `guard` says whether there is such a step.
    pub(super) fn fetch(
        &self,
        lowering: &mut Lowering<'_>,
        stream: &mut Stream,
        (step, of): (u32, u32),
        guard: Option<Guard>,
    ) -> Lowered<()> {
        match self {
            Multiplier::Fma { .. } => match &stream.from {
                Fragments::Slot(_) if guard.is_some() => Err(broken("a slot holds no step of the next round")),
                Fragments::Slot(_) => lowering.fetch_slot(stream, of),
                Fragments::Global(_) => lowering.fetch_global(stream, (step, of), guard),
            },
        }
    }

    /// Multiplies the fragments of one step.
    pub(super) fn multiply(&self, lowering: &mut Lowering<'_>, streams: &[Stream], step: u32) -> Lowered<()> {
        let (a, b) = sides(streams)?;
        match self {
            Multiplier::Fma { acc, order, note } => {
                lowering.b.origin(note, &format!("multiply, step {step}"));
                let (a, b) = (a.at(step), b.at(step));
                lowering.b.push(Op::Outer { acc: acc.clone(), a, b, order: *order });
            }
        }
        Ok(())
    }

    /// Multiplies one step; each product reads its two operands again.
    pub(super) fn multiply_reloading(&self, lowering: &mut Lowering<'_>, streams: &[Stream], step: u32) -> Lowered<()> {
        let (a, b) = sides(streams)?;
        match self {
            Multiplier::Fma { acc, order, .. } => {
                let (rows, columns) = (a.positions.len(), b.positions.len());
                for (i, j) in outer_order(rows, columns, *order) {
                    let a_reg = lowering.reload(a, i, step)?;
                    let b_reg = lowering.reload(b, j, step)?;
                    lowering.b.origin(&b.note, &format!("multiply, step {step}"));
                    let acc = vec![acc[i * columns + j]];
                    lowering.b.push(Op::Outer { acc, a: vec![a_reg], b: vec![b_reg], order: *order });
                }
            }
        }
        Ok(())
    }
}

/// The streams of A and B.
fn sides(streams: &[Stream]) -> Lowered<(&Stream, &Stream)> {
    let of = |side| streams.iter().find(|stream| stream.side == side);
    of(Side::A).zip(of(Side::B)).ok_or_else(|| broken("a step multiplies a fragment of A with one of B"))
}

impl Lowering<'_> {
    /// Brings raw elements into the accumulator's type.
    pub(super) fn convert(&mut self, raw: &[Reg], wide: &[Reg]) {
        for (raw, wide) in raw.iter().zip(wide) {
            self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
        }
    }
}
