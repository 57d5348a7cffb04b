//! Undoes the scales of rows of A and columns of B, which are powers of two.

use ptx_gemm_dsl::terms::{Param, Side};
use ptx_gemm_dsl::types::Batch;

use super::super::{Lowered, Lowering, WorkTile};
use super::{Axis, Held};
use crate::kernel::{Expr, Guard, Locality, Math, Reg, Value};
use crate::origin::Site;
use crate::tile::interface::SCALE_BYTES;

impl Lowering<'_> {
    /// Multiplies the accumulators by the inverses of the scales of their rows and columns, if these were scaled. The
    /// smaller inverse comes first, so that an intermediate value overflows only if the result does. Without k there
    /// are no scales.
    pub(super) fn unscale(&mut self, work_tile: &WorkTile, held: &Held, (rows, cols): (&Axis, &Axis)) -> Lowered<()> {
        if !self.program.packs.iter().any(|pack| pack.scales()) {
            return Ok(());
        }
        self.b.origin(&held.note, "are there scales?");
        let some = self.b.set_reg(self.args.k.clone().ge(1u32));
        self.b.open();
        let of_rows = self.inverses(work_tile, held, Side::A, rows)?;
        let of_cols = self.inverses(work_tile, held, Side::B, cols)?;
        self.b.origin_at(Site::UndoScales, &held.note, "undo the scales of A and B");
        for (index, acc) in held.regs.iter().enumerate() {
            let (row, col) = (index / held.columns as usize, index % held.columns as usize);
            let both = || vec![Value::Reg(of_rows[row]), Value::Reg(of_cols[col])];
            for which in [Math::Min, Math::Max] {
                let inverse = self.b.fresh(self.families.value);
                self.b.math(which, inverse, both());
                self.b.math(Math::Mul, *acc, vec![Value::Reg(*acc), Value::Reg(inverse)]);
            }
        }
        let then = self.b.close();
        self.b.origin(&held.note, "are there scales?");
        self.b.branch(some, then, Vec::new());
        Ok(())
    }

    /// The inverses of the scales of this thread's rows or columns.
    fn inverses(&mut self, work_tile: &WorkTile, held: &Held, side: Side, axis: &Axis) -> Lowered<Vec<Reg>> {
        let operand = side.operand();
        self.b.origin_at(Site::LoadScales, &held.note, &format!("scales of {operand:?}"));
        let base = self.wide_arg(&Param::Scales(operand))?;
        let extent = if side == Side::A { self.args.m.clone() } else { self.args.n.clone() };
        let first = match self.program.problem.batch {
            Batch::Strided => work_tile.product.clone().wide() * extent.wide(),
            Batch::One | Batch::Grouped => Expr::Const(0),
        };
        let address = self.b.set(base + (first + axis.start.clone().wide()) * SCALE_BYTES);
        let access = self.scales_access(work_tile, side)?;
        let registers = self.b.fresh_many(self.families.vector, axis.positions.len());
        for (position, dst) in axis.positions.iter().zip(&registers) {
            let guard = match work_tile.interior {
                None => None,
                Some(_) => {
                    self.b.constant(*dst, 0.0);
                    let pred = self.b.set_reg((axis.local.clone() + *position).lt(axis.rem.clone()));
                    Some(Guard { pred, expect: true })
                }
            };
            // The inverse is the second of the two.
            let offset = i64::from(position * SCALE_BYTES + SCALE_BYTES / 2);
            self.b.load_global(vec![*dst], &address, offset, guard, (access, Locality::Unknown));
        }
        Ok(registers)
    }
}
