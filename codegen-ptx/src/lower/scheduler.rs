//! Computes the coordinates of the block's tile, and of the thread in it.

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{Along, Extent2, Tail};
use ptx_gemm_dsl::types::Batch;

use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{Expr, Op};
use crate::origin::Site;
use crate::tile::Digit;
use crate::tile::Division;

/// The units of work of a launch: tiles of D, times products of the batch, times parts of k; in a group, those of one
/// product.
pub(super) struct Units {
    /// Number of tiles along the raster's direction, and across it.
    along_tiles: Expr,
    across_tiles: Expr,
    /// Tiles of one product, and of all products.
    tiles: Expr,
    pub(super) all_tiles: Expr,
    /// Number of tiles in a row of D.
    cols: Expr,
    /// Number of units.
    pub(super) all: Expr,
}

impl Lowering<'_> {
    /// Counts the units of the launch, as far as this program needs the numbers.
    pub(super) fn units(&mut self) -> Units {
        let program = self.program;
        let scheduler = &program.scheduler;
        self.b.origin(&scheduler.raster_note, "tiles of D");
        // Counted in tiles that a cluster computes together.
        let Extent2 { m, n } = scheduler.cluster;
        let count = |extent: &Expr, block: u32| (extent.clone() + (block - 1)) / block;
        let rows = count(&self.args.m, program.block.m * m);
        let mut cols = count(&self.args.n, program.block.n * n);
        if program.grain().is_some() {
            cols = self.b.set(cols);
        }
        let of_columns = cols.clone();
        // A raster along n groups rows of tiles, one along m columns.
        let (along_tiles, across_tiles) = if scheduler.raster.along == Along::M { (rows, cols) } else { (cols, rows) };
        let along_tiles = self.b.set(along_tiles);
        // The tile is counted within its product.
        let alone = match program.problem.batch {
            Batch::One => scheduler.persistent.is_none() && !scheduler.divides_k(),
            Batch::Strided => false,
            Batch::Grouped => true,
        };
        if alone {
            let none = Expr::Const(0);
            return Units {
                along_tiles,
                across_tiles,
                tiles: none.clone(),
                all_tiles: none.clone(),
                cols: of_columns,
                all: none,
            };
        }
        let across_tiles = self.b.set(across_tiles);
        let clusters = along_tiles.clone() * across_tiles.clone();
        let tiles = self.b.set(match scheduler.cluster_blocks() {
            1 => clusters,
            blocks => clusters * blocks,
        });
        let all_tiles = self.b.set(tiles.clone() * self.args.batch.clone());
        let all = self.b.set(all_tiles.clone() * scheduler.parts());
        Units { along_tiles, across_tiles, tiles, all_tiles, cols: of_columns, all }
    }

    /// Computes the coordinates of a unit's tile and the thread's position in it. `span` is the first k to sum over and
    /// its extent, where they are known already.
    pub(super) fn enter_tile(&mut self, units: &Units, unit: Expr, span: Option<(Expr, Expr)>) -> Lowered<WorkTile> {
        let program = self.program;
        let scheduler = &program.scheduler;
        // The part of k varies slowest: when a part waits for the previous one, that one is running or done.
        let (mut tile, mut part) = (unit, Expr::Const(0));
        match scheduler.division {
            Division::Whole | Division::Stream => {}
            Division::Parts(_) => {
                self.b.origin(&scheduler.division_note, "part of k that this block sums");
                part = self.b.set(tile.clone() / units.all_tiles.clone());
                tile = self.b.set(tile % units.all_tiles.clone());
            }
            // The blocks of a cluster are consecutive.
            Division::Cluster(parts) => {
                self.b.origin(&scheduler.division_note, "part of k that this block sums: its rank in the cluster");
                part = self.b.set(tile.clone() % parts);
                tile = self.b.set(tile / parts);
            }
        }
        let counted = tile.clone();
        let mut product = Expr::Const(0);
        if program.problem.batch == Batch::Strided {
            self.b
                .origin(&format!("batch({})", program.problem.batch), "product of the batch that this block works on");
            product = self.b.set(tile.clone() / units.tiles.clone());
            tile = self.b.set(tile % units.tiles.clone());
        }
        let within = self.place_in_cluster(&tile);
        if within.is_some() {
            tile = self.b.set(tile / scheduler.cluster_blocks());
        }
        self.b.origin_at(Site::WorkTile, &scheduler.raster_note, "tile of D that this block computes");
        let (mut tile_m, mut tile_n) = self.tile_coordinates(units, tile);
        if let Some((row, col)) = within.clone() {
            let Extent2 { m, n } = scheduler.cluster;
            self.b.origin(&scheduler.cluster_note, "its place in the tiles of the cluster");
            (tile_m, tile_n) = (self.b.set(tile_m * m + row), self.b.set(tile_n * n + col));
        }
        self.b.origin(&program.block_note, "first row and column of the tile");
        let m0 = self.b.set(tile_m * program.block.m);
        let width = program.grain().map(|grain| {
            self.b.origin(&program.block_note, "columns of a tile: all have as many, rounded up");
            let cols = self.b.set(units.cols.clone().max(1u32.into()));
            let even = self.b.set((self.args.n.clone() + (cols.clone() - 1u32)) / cols);
            self.b.set(((even + (grain - 1)) / grain * grain).min(program.block.n.into()))
        });
        let n0 = self.b.set(tile_n * width.clone().unwrap_or(Expr::Const(program.block.n.into())));
        let tail = &program.tail_note;
        self.b.origin_at(Site::LeftOfD, tail, "rows and columns left from there");
        // Tiles of a cluster may begin outside D.
        let left = |extent: &Expr, first: &Expr| match within {
            None => extent.clone() - first.clone(),
            Some(_) => extent.clone().max(first.clone()) - first.clone(),
        };
        let (rem_m, mut rem_n) = (left(&self.args.m, &m0), left(&self.args.n, &n0));
        if let Some(width) = &width {
            rem_n = rem_n.min(width.clone());
        }
        let (rem_m, rem_n) = (self.b.set(rem_m), self.b.set(rem_n));
        let interior = (program.tail == Tail::Predicate).then(|| {
            self.b.origin_at(Site::TileInside, tail, "does the tile lie inside D?");
            let inside = rem_m.clone().ge(program.block.m).and(rem_n.clone().ge(program.block.n));
            self.b.set_reg(inside)
        });
        let thread = self.thread_coordinates();
        let (k0, k) = match span {
            Some(span) => span,
            None => {
                let k = self.depth();
                self.part_of_k(k, &part)
            }
        };
        let (tile, segment) = (counted, None);
        let extents = (program.block.m, program.block.n);
        Ok(WorkTile { extents, m0, n0, rem_m, rem_n, width, interior, thread, k, k0, tile, product, part, segment })
    }

    /// Row and column of a block's tile among those of its cluster, from the index of the block or of a tile that it
    /// computes; `None` without clusters.
    pub(super) fn place_in_cluster(&mut self, index: &Expr) -> Option<(Expr, Expr)> {
        let (scheduler, blocks) = (&self.program.scheduler, self.program.scheduler.cluster_blocks());
        if blocks == 1 {
            return None;
        }
        self.b.origin(&scheduler.cluster_note, "row and column of this block in its cluster");
        let rank = self.b.set(index.clone() % blocks);
        let m = scheduler.cluster.m;
        Some((self.b.set(rank.clone() % m), self.b.set(rank / m)))
    }

    /// First k and extent of a part. Whole K-tiles are distributed evenly; the last parts are shorter or empty.
    fn part_of_k(&mut self, k: Expr, part: &Expr) -> (Expr, Expr) {
        let program = self.program;
        let (Division::Parts(parts) | Division::Cluster(parts)) = program.scheduler.division else {
            return (Expr::Const(0), k);
        };
        self.b.origin(&program.scheduler.division_note, "first k of this part, and its extent");
        let depth = program.block.k;
        let tiles = self.b.set((k.clone() + (depth - 1)) / depth);
        let per_part = self.b.set((tiles.clone() + (parts - 1)) / parts);
        // The minimum is taken in K-tiles, before conversion to k: the last parts may begin far past the end, beyond 32
        // bits.
        let first = self.b.set((part.clone() * per_part.clone()).min(tiles));
        let first = self.b.set((first * depth).min(k.clone()));
        let left = self.b.set((k - first.clone()).min(per_part * depth));
        (first, left)
    }

    /// Row and column of a tile, in tiles, from its index and the raster.
    fn tile_coordinates(&mut self, units: &Units, tile: Expr) -> (Expr, Expr) {
        let raster = self.program.scheduler.raster;
        let group = raster.group;
        let along_n = raster.along != Along::M;
        let along_tiles = units.along_tiles.clone();
        let (across, along) = if group == 1 {
            (self.b.set(tile.clone() / along_tiles.clone()), self.b.set(tile % along_tiles))
        } else {
            let across_tiles = self.b.set(units.across_tiles.clone());
            // Not multiplied by the group: a row of tiles times the group may exceed 32 bits, but the number of tiles
            // does not.
            let group_height = self.b.set(across_tiles.clone().min(group.into()));
            let per_group = self.b.set(along_tiles * group_height);
            let first = self.b.set((tile.clone() / per_group.clone()) * group);
            let within = self.b.set(tile % per_group);
            // The last group may be narrower.
            let height = self.b.set((across_tiles - first.clone()).min(group.into()));
            let across = first + within.clone() % height.clone();
            (self.b.set(across), self.b.set(within / height))
        };
        if along_n { (across, along) } else { (along, across) }
    }

    /// First row and column of the thread in the block's tile; `None` in a role without accumulators.
    fn thread_coordinates(&mut self) -> Option<(Expr, Expr)> {
        let map = self.role.map?;
        let program = self.program;
        let exchanged = program.exchange.iter().map(|exchange| (&exchange.map, &exchange.note));
        let maps = program.accumulators.iter().map(|acc| (&acc.map, &acc.note)).chain(exchanged);
        let note = maps.into_iter().find(|(of, _)| *of == map).map_or("", |(_, note)| note);
        self.b.origin(note, "index of this thread");
        let tid = self.b.set(self.role.tid.clone());
        let (warp, lane) = if map.warp.is_empty() {
            (Expr::Const(0), tid)
        } else {
            self.b.origin(note, "warp and lane");
            let warp = self.b.set(tid.clone() / WARP);
            (warp, self.b.set(tid % WARP))
        };
        self.b.origin(note, "row and column of the thread's first element");
        let along = |step: fn(&Digit) -> u32| value(&map.warp, &warp, step) + value(&map.thread, &lane, step);
        let (row, col) = (along(|digit| digit.m), along(|digit| digit.n));
        Some((self.b.set(row), self.b.set(col)))
    }

    /// First row and column of the thread's warp in the block's tile.
    pub(super) fn warp_coordinates(&mut self) -> Lowered<(Expr, Expr)> {
        let map = self.role.map.ok_or_else(|| broken("a role without accumulators has no part of the tile"))?;
        let warp = self.b.set(self.role.tid.clone() / WARP);
        let along = |step: fn(&Digit) -> u32| value(&map.warp, &warp, step);
        let (row, col) = (along(|digit| digit.m), along(|digit| digit.n));
        Ok((self.b.set(row), self.b.set(col)))
    }

    /// The K to sum over: 0 if a scalar of 0 multiplies the accumulator wherever it appears.
    pub(super) fn depth(&mut self) -> Expr {
        let scalars = self.dropping.acc.clone();
        let mut k = self.args.k.clone();
        let epilogue = self.epilogue_note();
        for scalar in scalars {
            self.b.origin(&epilogue, "a scalar of 0 skips the product");
            let src = self.args.scalars[scalar];
            let dst = self.b.fresh_pred();
            self.b.push(Op::IsZero { dst, src });
            k = self.b.set(Expr::Reg(dst, 1).select(Expr::Const(0), k));
        }
        k
    }
}

/// The distance by which the digits of `number` move along one dimension.
fn value(digits: &[Digit], number: &Expr, step: fn(&Digit) -> u32) -> Expr {
    let mut below = 1;
    let mut moves = Vec::new();
    for digit in digits {
        if step(digit) > 0 {
            moves.push(((number.clone() / below) % digit.extent, step(digit)));
        }
        below *= digit.extent;
    }
    // A common factor of all steps is multiplied once.
    let common = moves.iter().map(|(_, step)| *step).min().unwrap_or(1);
    let sum = moves.into_iter().rev().fold(Expr::Const(0), |sum, (digit, step)| sum + digit * (step / common));
    sum * common
}
