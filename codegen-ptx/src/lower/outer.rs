//! Multiply-adds of threads: an outer product for each step, and how its fragments come into registers.

use ptx_gemm_dsl::terms::{FmaOrder, Side};

use super::stream::{Fragments, Stream};
use super::{Lowered, Lowering, broken, letter};
use crate::kernel::{Guard, Math, Op, Reg, Value, outer_order};
use crate::origin::Site;
use crate::tile::{Instruction, Multiply, Note};

/// The outer products of a statement, and the accumulators that they update.
pub(super) struct OuterProducts {
    acc: Vec<Reg>,
    order: FmaOrder,
    note: Note,
}

impl OuterProducts {
    /// Those of a statement.
    ///
    /// # Errors
    /// Warps and warp groups multiply matrices, without steps of a thread: see [`super::warp`] and [`super::group`].
    pub(super) fn of(lowering: &Lowering<'_>, multiply: &Multiply, note: &Note) -> Lowered<OuterProducts> {
        match multiply.by {
            Instruction::Fma { order } => {
                // Fragments are ordered by rows and by columns, whatever the order of the accumulators.
                let (held, map) =
                    (&lowering.products.acc[multiply.acc], &lowering.program.accumulators[multiply.acc].map);
                let acc = map.row_major().iter().map(|register| held.get(*register as usize).copied()).collect();
                let acc = Option::<Vec<Reg>>::ok_or(acc, broken("a map has more registers than there are"))?;
                Ok(OuterProducts { acc, order, note: note.clone() })
            }
            Instruction::Mma { .. } | Instruction::Wgmma { .. } => {
                Err(broken("a matrix instruction has no steps of a thread"))
            }
        }
    }

    /// Reads the group of step `of` during step `step`; `guard` says whether that step exists.
    pub(super) fn fetch(
        &self,
        lowering: &mut Lowering<'_>,
        stream: &mut Stream,
        (step, of): (u32, u32),
        guard: Option<Guard>,
    ) -> Lowered<()> {
        match &stream.from {
            Fragments::Slot(_) if guard.is_some() => Err(broken("a slot does not hold steps of the next round")),
            Fragments::Slot(_) => lowering.fetch_slot(stream, of),
            Fragments::Global(_) => lowering.fetch_global(stream, (step, of), guard),
        }
    }

    /// Multiplies the fragments of one step.
    pub(super) fn multiply(&self, lowering: &mut Lowering<'_>, streams: &[Stream], step: u32) -> Lowered<()> {
        let (a, b) = sides(streams)?;
        lowering.b.origin_at(product(a, b), &self.note, &format!("multiply, step {step}"));
        let (a, b) = (a.at(step), b.at(step));
        lowering.b.push(Op::Outer { acc: self.acc.clone(), a, b, order: self.order });
        Ok(())
    }

    /// Multiplies one step. Each product reads its two operands again.
    pub(super) fn multiply_reloading(&self, lowering: &mut Lowering<'_>, streams: &[Stream], step: u32) -> Lowered<()> {
        let (a, b) = sides(streams)?;
        let (rows, columns) = (a.positions.len(), b.positions.len());
        for (i, j) in outer_order(rows, columns, self.order) {
            let a_reg = lowering.reload(a, i, step)?;
            let b_reg = lowering.reload(b, j, step)?;
            lowering.b.origin_at(product(a, b), &b.note, &format!("multiply, step {step}"));
            let acc = vec![self.acc[i * columns + j]];
            lowering.b.push(Op::Outer { acc, a: vec![a_reg], b: vec![b_reg], order: self.order });
        }
        Ok(())
    }
}

/// The place of a product: whether its operands were converted to a wider type first.
fn product(a: &Stream, b: &Stream) -> Site {
    match a.converted.is_empty() || b.converted.is_empty() {
        true => Site::Product,
        false => Site::WidenedProduct,
    }
}

/// The streams of A and B.
fn sides(streams: &[Stream]) -> Lowered<(&Stream, &Stream)> {
    let of = |side| streams.iter().find(|stream| stream.side == side);
    of(Side::A).zip(of(Side::B)).ok_or_else(|| broken("a multiply needs a fragment of A and one of B"))
}

impl Lowering<'_> {
    /// Converts the elements of one step to the accumulator's type.
    pub(super) fn convert_step(&mut self, stream: &Stream, step: u32) {
        if !stream.converted.is_empty() {
            let name = letter(stream.side);
            self.b.origin(&stream.note, &format!("fragment of {name} in the accumulator's type, step {step}"));
            self.convert(&stream.raw(step), &stream.converted);
        }
    }

    /// Converts raw elements to the accumulator's type.
    pub(super) fn convert(&mut self, raw: &[Reg], wide: &[Reg]) {
        for (raw, wide) in raw.iter().zip(wide) {
            self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
        }
    }
}
