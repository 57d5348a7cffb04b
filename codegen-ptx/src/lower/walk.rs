//! Where the block's tile lies, and the thread in it.

use ptx_gemm_dsl::plan::{Along, Extent2, Tail};

use super::{Lowering, Place};
use crate::kernel::{Expr, Op};

impl Lowering<'_> {
    /// Computes the coordinates of the block's tile and the thread's place in it.
    pub(super) fn enter_tile(&mut self) -> Place {
        let plan = self.plan;
        let raster = plan.clauses.raster.clone();
        self.b.origin(&raster, "tile of D that this block computes");
        let block = self.b.set(Expr::Block);
        let (tile_m, tile_n) = self.tile_coordinates(block);
        let tile_clause = plan.clauses.tile.clone();
        self.b.origin(&tile_clause, "first row and column of the tile");
        let m0 = self.b.set(tile_m * plan.block.m);
        let n0 = self.b.set(tile_n * plan.block.n);
        let tail = plan.clauses.tail.clone();
        self.b.origin(&tail, "rows and columns left from there");
        let rem_m = self.b.set(self.args.m.clone() - m0.clone());
        let rem_n = self.b.set(self.args.n.clone() - n0.clone());
        let interior = (plan.tail == Tail::Predicate).then(|| {
            self.b.origin(&tail, "does the tile lie inside D?");
            let inside = rem_m.clone().ge(plan.block.m).and(rem_n.clone().ge(plan.block.n));
            self.b.set_reg(inside)
        });
        let (row, col) = self.thread_coordinates();
        let k = self.depth();
        Place { m0, n0, rem_m, rem_n, interior, row, col, k }
    }

    /// Tile row and column of a tile number, by the raster.
    fn tile_coordinates(&mut self, tile: Expr) -> (Expr, Expr) {
        let plan = self.plan;
        let count = |extent: &Expr, block: u32| (extent.clone() + (block - 1)) / block;
        let group = plan.raster.group;
        // Along n the bands are rows of tiles; along m columns.
        let along_n = plan.raster.along != Along::M;
        let (walked, banded) = if along_n {
            (count(&self.args.n, plan.block.n), count(&self.args.m, plan.block.m))
        } else {
            (count(&self.args.m, plan.block.m), count(&self.args.n, plan.block.n))
        };
        let walked = self.b.set(walked);
        let (across, along) = if group == 1 {
            (self.b.set(tile.clone() / walked.clone()), self.b.set(tile % walked))
        } else {
            let banded = self.b.set(banded);
            let per_band = self.b.set(walked * group);
            let first = self.b.set((tile.clone() / per_band.clone()) * group);
            let within = self.b.set(tile % per_band);
            // The last band may be narrower.
            let height = self.b.set((banded - first.clone()).min(group.into()));
            let across = first + within.clone() % height.clone();
            (self.b.set(across), self.b.set(within / height))
        };
        if along_n { (across, along) } else { (along, across) }
    }

    /// First row and column of the thread in the block's tile.
    fn thread_coordinates(&mut self) -> (Expr, Expr) {
        let geometry = self.plan.geometry;
        let lanes = self.plan.clauses.lanes.clone();
        let thread = self.plan.clauses.thread.clone();
        self.b.origin(&lanes, "number of this thread");
        let tid = self.b.set(Expr::Tid(geometry.threads));
        let Extent2 { m: regions_m, n: regions_n } = geometry.regions;
        let (region_row, region_col, within) = if regions_m * regions_n > 1 {
            self.b.origin(&lanes, "warp and lane");
            let warp = self.b.set(tid.clone() / 32u32);
            let lane = self.b.set(tid % 32u32);
            let row = (warp.clone() / regions_n) * geometry.region.m;
            (row, (warp % regions_n) * geometry.region.n, lane)
        } else {
            (Expr::Const(0), Expr::Const(0), tid)
        };
        self.b.origin(&thread, "row and column of the thread's first element");
        let (i, j) = match geometry.along {
            Along::N => (within.clone() / geometry.grid.n, within % geometry.grid.n),
            Along::M => (within.clone() % geometry.grid.m, within / geometry.grid.m),
            Along::Z => {
                let x = (within.clone() / 8u32) * 2u32 + within.clone() % 2u32;
                let y = (within / 2u32) % 4u32;
                if geometry.grid.n == 8 { (y, x) } else { (x, y) }
            }
        };
        let row = region_row + i * geometry.fragment.m;
        let col = region_col + j * geometry.fragment.n;
        (self.b.set(row), self.b.set(col))
    }

    /// The K to sum over: 0 where a scalar of 0 multiplies the accumulator wherever it stands.
    fn depth(&mut self) -> Expr {
        let scalars = super::expression::drops_accumulator(&self.plan.problem.epilogue);
        let mut k = self.args.k.clone();
        let epilogue = self.plan.clauses.epilogue.clone();
        for scalar in scalars {
            self.b.origin(&epilogue, "a scalar of 0 drops the product unread");
            let src = self.args.scalars[scalar];
            let dst = self.b.fresh_pred();
            self.b.push(Op::IsZero { dst, src });
            k = self.b.set(Expr::Reg(dst, 1).select(Expr::Const(0), k));
        }
        k
    }
}
