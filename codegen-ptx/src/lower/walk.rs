//! Where the block's tile lies, and the thread in it.

use ptx_gemm_dsl::terms::{Along, Extent2, Tail};
use ptx_gemm_dsl::types::Batch;

use super::{Lowering, Place};
use crate::kernel::{Expr, Op};

/// What the blocks of a launch deal out among themselves: tiles, times products, times parts of k.
pub(super) struct Units {
    /// Tiles along the walk, and across it.
    walked: Expr,
    banded: Expr,
    /// Tiles of one product, and of all.
    tiles: Expr,
    pub(super) all_tiles: Expr,
    /// Units in all.
    pub(super) all: Expr,
}

impl Lowering<'_> {
    /// Counts the units of the launch, as far as this program needs their numbers.
    pub(super) fn units(&mut self) -> Units {
        let plan = self.plan;
        let raster = plan.clauses.raster.clone();
        self.b.origin(&raster, "tiles of D");
        let count = |extent: &Expr, block: u32| (extent.clone() + (block - 1)) / block;
        let rows = count(&self.args.m, plan.block.m);
        let cols = count(&self.args.n, plan.block.n);
        // Along n the bands are rows of tiles; along m columns.
        let (walked, banded) = if plan.raster.along == Along::M { (rows, cols) } else { (cols, rows) };
        let walked = self.b.set(walked);
        let alone = plan.persistent.is_none() && plan.split_k.is_none() && plan.problem.batch == Batch::One;
        if alone {
            let none = Expr::Const(0);
            return Units { walked, banded, tiles: none.clone(), all_tiles: none.clone(), all: none };
        }
        let banded = self.b.set(banded);
        let tiles = self.b.set(walked.clone() * banded.clone());
        let all_tiles = self.b.set(tiles.clone() * self.args.batch.clone());
        let parts = plan.split_k.map_or(1, |split| split.parts);
        let all = self.b.set(all_tiles.clone() * parts);
        Units { walked, banded, tiles, all_tiles, all }
    }

    /// Computes the coordinates of a unit's tile and the thread's place in it.
    pub(super) fn enter_tile(&mut self, units: &Units, unit: Expr) -> Place {
        let plan = self.plan;
        let raster = plan.clauses.raster.clone();
        // Parts of k stand furthest apart: a part that waits for the one before finds it running or done.
        let (mut tile, mut part) = (unit, Expr::Const(0));
        if plan.split_k.is_some() {
            let split = plan.clauses.split_k.clone();
            self.b.origin(&split, "part of k that this block sums");
            part = self.b.set(tile.clone() / units.all_tiles.clone());
            tile = self.b.set(tile % units.all_tiles.clone());
        }
        let counted = tile.clone();
        let mut product = Expr::Const(0);
        if plan.problem.batch != Batch::One {
            let batch = plan.clauses.batch.clone();
            self.b.origin(&batch, "product of the batch that this block works on");
            product = self.b.set(tile.clone() / units.tiles.clone());
            tile = self.b.set(tile % units.tiles.clone());
        }
        self.b.origin(&raster, "tile of D that this block computes");
        let (tile_m, tile_n) = self.tile_coordinates(units, tile);
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
        let (k0, k) = self.part_of_k(k, &part);
        Place { m0, n0, rem_m, rem_n, interior, row, col, k, k0, tile: counted, product, part }
    }

    /// First k and extent of a part: whole K-tiles, dealt out evenly, the last parts shorter or empty.
    fn part_of_k(&mut self, k: Expr, part: &Expr) -> (Expr, Expr) {
        let Some(split) = self.plan.split_k else { return (Expr::Const(0), k) };
        let clause = self.plan.clauses.split_k.clone();
        self.b.origin(&clause, "first k of this part, and its extent");
        let depth = self.plan.block.k;
        let tiles = self.b.set((k.clone() + (depth - 1)) / depth);
        let per_part = self.b.set((tiles.clone() + (split.parts - 1)) / split.parts);
        // In tiles before it is in k: the last parts may begin far behind the end, past 32 bits.
        let first = self.b.set((part.clone() * per_part.clone()).min(tiles));
        let first = self.b.set((first * depth).min(k.clone()));
        let left = self.b.set((k - first.clone()).min(per_part * depth));
        (first, left)
    }

    /// Tile row and column of a tile number, by the raster.
    fn tile_coordinates(&mut self, units: &Units, tile: Expr) -> (Expr, Expr) {
        let group = self.plan.raster.group;
        let along_n = self.plan.raster.along != Along::M;
        let walked = units.walked.clone();
        let (across, along) = if group == 1 {
            (self.b.set(tile.clone() / walked.clone()), self.b.set(tile % walked))
        } else {
            let banded = self.b.set(units.banded.clone());
            // Not the group itself: a row of tiles times that may not fit 32 bits, the tiles of a grid do.
            let band = self.b.set(banded.clone().min(group.into()));
            let per_band = self.b.set(walked * band);
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
