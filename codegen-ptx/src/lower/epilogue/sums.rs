//! Reads values that are already in memory into the accumulators, line by line, as D is stored.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Layout;

use super::super::{Lowered, Lowering, WorkTile};
use super::{Axis, Edge, Held, Plane};
use crate::kernel::{Expr, Guard, Locality, Op, Reg};
use crate::origin::Site;
use crate::tile::Note;

impl Lowering<'_> {
    /// Reads the accumulators of the tile from A, with `width` elements per access. If a scalar of 0 drops the
    /// accumulator, they stay zero, and A is not read.
    pub(in super::super) fn read_sums(
        &mut self,
        work_tile: &WorkTile,
        acc: usize,
        width: u32,
        note: &Note,
    ) -> Lowered<()> {
        let map = self.program.accumulators[acc].map.clone();
        let (rows, cols) = self.axes(work_tile, &map)?;
        let regs = Self::by_rows(&self.products.acc[acc], &map, (&rows, &cols))?;
        let held = Held { regs, columns: cols.count(), note: note.clone() };
        let layout = self.program.problem.layouts.a;
        let plane = self.plane(work_tile, Operand::A, (&rows, &cols), layout, width, note)?;
        let scalars = self.dropping.acc.clone();
        let reads = self.nonzero(&scalars, "a scalar of 0 skips the sum", note);
        self.b.open();
        self.sum_lines(&held, (&rows, &cols), &plane, reads, None);
        let inside = self.b.close();
        let Some(interior) = work_tile.interior else {
            self.b.extend(inside);
            return Ok(());
        };
        self.b.open();
        let edge = self.edge(if layout == Layout::Row { &cols } else { &rows });
        self.sum_lines(&held, (&rows, &cols), &plane, reads, Some(&edge));
        let at_edge = self.b.close();
        self.b.origin_at(Site::StorePath, note, "the widest accesses if the tile lies inside D");
        self.b.branch(interior, inside, at_edge);
        Ok(())
    }

    fn sum_lines(
        &mut self,
        held: &Held,
        (rows, cols): (&Axis, &Axis),
        plane: &Plane,
        reads: Option<Reg>,
        edge: Option<&Edge>,
    ) {
        let by_rows = plane.layout == Layout::Row;
        let (outer, inner) = if by_rows { (rows, cols) } else { (cols, rows) };
        let mut line = plane.base.clone();
        for o in 0..outer.count() {
            if o > 0 {
                self.b.origin(&held.note, "advance to the next line of the sums");
                line = self.b.set(line + plane.ld_bytes.clone() * (outer.position(o) - outer.position(o - 1)));
            }
            let guards = edge.map(|edge| self.line_guards(edge, outer, o));
            let width = if guards.is_some() { 1 } else { plane.width };
            for first in (0..inner.count()).step_by(width as usize) {
                let of = |e| if by_rows { o * held.columns + e } else { e * held.columns + o };
                let acc: Vec<Reg> = (first..first + width).map(|e| held.regs[of(e) as usize]).collect();
                let converts = self.types.a != self.types.acc;
                let dst = if converts { self.b.fresh_many(self.families.staging[0], acc.len()) } else { acc.clone() };
                self.b.origin(&held.note, "elements of the sums");
                let guard = match (reads, guards.as_ref().map(|guards| guards[first as usize])) {
                    (Some(reads), Some(inside)) => Some(self.b.set_reg(Expr::Reg(reads, 1).and(Expr::Reg(inside, 1)))),
                    (reads, inside) => reads.or(inside),
                };
                if guard.is_some() {
                    self.b.push(Op::Clear { dst: dst.clone() });
                }
                let guard = guard.map(|pred| Guard { pred, expect: true });
                let offset = i64::from(inner.position(first) * plane.bytes);
                self.b.load_global(dst.clone(), &line, offset, guard, (plane.access, Locality::Unknown));
                if converts {
                    self.convert(&dst, &acc);
                }
            }
        }
    }
}
