//! `batch(grouped)`: persistent blocks walk through the list of products.
//!
//! The tiles of all products are numbered one product after another. A block computes every tile with a number equal to
//! its own plus a multiple of the number of blocks. It keeps the record of a product and the number of that product's
//! first tile. For its next tile it skips the products that end before it. It reads several records at once to overlap
//! their latency: over a launch, a block reads all records.
//!
//! ```text
//! loop {
//!   loop {                                  for records 0 to 3 from here on, as far as there are any:
//!     end_i = first + tiles_0 + ... + tiles_i
//!     passed_i = (unit >= end_i) && (left > i)
//!     first, record, left: after those that are passed
//!   } while passed_3 and left >= 1
//!   some = (left >= 1)
//!   if some { tile `unit - first` of the record's product }
//!   unit += blocks                        or there and back: unit += step; step = 2 blocks - step
//! } while some
//! ```
//!
//! Each role walks by itself, and finds the same tiles. Groups of threads that take turns walk through all tiles of the
//! block, and count the K-tiles of other groups' tiles. A launch without products has no blocks.
//!
//! With `stream_k`, the tiles that do not fill a wave are streamed (see [`super::stream_k`]). They are the last ones. A
//! block has a run of at most two of them, which it walks backwards: for the second one it returns to the product of
//! its last whole tile.

use ptx_gemm_dsl::terms::Param;

use super::scheduler::Units;
use super::stream_k::Run;
use super::{Lowered, Lowering, broken};
use crate::kernel::{Compare, Expr, Op, Reg};
use crate::origin::Site;
use crate::tile::record::Record;
use crate::tile::{Division, Statement};

/// Records that are read at once: most blocks skip no more between two of their tiles.
const AT_ONCE: u32 = 4;

/// The tiles that the blocks share, after the whole ones.
struct Streaming {
    blocks: Expr,
    /// Number of shared tiles.
    shared: Expr,
    /// Number of whole tiles.
    whole: Expr,
    run: Run,
    /// The last tile of the run.
    last: Expr,
    /// Record, number of records, and first tile of the product at which the walk of the run begins.
    from: [Expr; 3],
}

impl<'a> Lowering<'a> {
    /// Computes the tiles of a block.
    pub(super) fn grouped_tiles(&mut self, body: &'a [Statement]) -> Lowered<()> {
        let program = self.program;
        let bytes = Record::of(program).ok_or_else(|| broken("the program has no list of products"))?.bytes;
        let note = program.scheduler.persistent_note.clone();
        let most = u64::from(u32::MAX);
        self.b.origin(&note, "first tile of this block, and the list of products");
        let unit = self.b.variable(Expr::Block, most);
        let list = self.wide_arg(&Param::Problems)?;
        let record = self.b.variable_wide(list.clone());
        let left = self.b.variable(self.args.batch.clone(), most);
        let first = self.b.variable(Expr::Const(0), most);
        let streamed = (program.scheduler.division == Division::Stream).then(|| self.start_streaming(&list));
        if let Some(streamed) = &streamed {
            let first = self.whole_or_run(unit.clone(), streamed);
            self.b.assign(&unit, first);
        }
        let step = program.grain().map(|_| self.alternating_steps(&note));
        let left_to_own = self.role.groups.is_some().then(|| self.start_walking()).transpose()?;

        self.b.open();
        self.b.open();
        let again = self.pass_products(&unit, &record, &left, &first, bytes)?;
        let walk = self.b.close();
        self.b.push(Op::Loop { body: walk, again });
        let some = self.b.set_reg(left.clone().ge(1u32));

        self.b.open();
        self.b.origin(&note, "extents of the product");
        self.args.m = self.extent_of(&Param::M, &record)?;
        self.args.n = self.extent_of(&Param::N, &record)?;
        self.args.k = self.extent_of(&Param::K, &record)?;
        self.role.record = Some(record.clone());
        let units = self.units();
        self.b.origin(&note, "number of the tile in the product");
        let tile = self.b.set(unit.clone() - first.clone());
        match (&left_to_own, &streamed) {
            (None, None) => self.tile_of_product(&units, tile, body)?,
            (None, Some(streamed)) => self.tile_of_run(&units, (&unit, tile), streamed, body)?,
            (Some(left), _) => self.tile_in_turn(&units, tile, left, body)?,
        }
        let tile = self.b.close();
        self.b.origin(&note, "is there a tile?");
        self.b.branch(some, tile, Vec::new());
        self.role.record = None;
        match &streamed {
            None => {
                self.b.origin(&note, "advance to this block's next tile");
                let by = step.as_ref().map_or(Expr::Blocks, |(step, _)| step.clone());
                self.b.assign(&unit, unit.clone() + by);
                if let Some((step, two_rounds)) = &step {
                    self.b.assign(step, two_rounds.clone() - step.clone());
                }
            }
            Some(streamed) => self.leave_unit(&unit, streamed, [&record, &left, &first]),
        }
        let body = self.b.close();
        self.b.push(Op::Loop { body, again: some });
        Ok(())
    }

    /// The distance from a block's first tile to its second, and from its first to its third, which is two waves.
    ///
    /// Waves alternate direction to balance the blocks: where tile widths differ between products, the costliest tiles
    /// come first in the list, so the block with the costliest tile of one wave gets the cheapest tile of the next. The
    /// tiles of a cluster keep their order.
    fn alternating_steps(&mut self, note: &str) -> (Expr, Expr) {
        self.b.origin(note, "rounds of tiles go there and back");
        let cluster = self.program.scheduler.cluster_blocks();
        let two_rounds = self.b.set(Expr::Blocks * 2u32);
        let before = Expr::Block / cluster * (2 * cluster);
        let step = self.b.variable(two_rounds.clone() - (before + cluster), u64::from(u32::MAX));
        (step, two_rounds)
    }

    /// Divides the tiles that remain after the whole waves.
    fn start_streaming(&mut self, list: &Expr) -> Streaming {
        let note = self.program.scheduler.division_note.clone();
        self.b.origin_at(Site::LeftOverTiles, &note, "tiles that the whole waves leave over, which the blocks share");
        let blocks = self.b.set(Expr::Blocks);
        let tiles = self.args.tiles.clone();
        let shared = self.b.set(tiles.clone() % blocks.clone());
        self.b.origin(&note, "this block's run of them");
        let run = self.run_of_group(&shared, &blocks);
        self.b.origin(&note, "the first of them, and the last one of the run");
        let unknown = tiles.clone().lt(1u32);
        let whole = self.b.set(unknown.select(u64::from(u32::MAX), tiles - shared.clone()));
        let to_end = run.end_rest.clone().compare(Compare::Eq, 0u32);
        let last = to_end.select(run.end_tile.clone().max(1u32.into()) - 1u32, run.end_tile.clone());
        let last = self.b.set(whole.clone() + last);
        self.b.origin(&note, "the product to walk on from, for the other tile of the run");
        let most = u64::from(u32::MAX);
        let from = [
            self.b.variable_wide(list.clone()),
            self.b.variable(self.args.batch.clone(), most),
            self.b.variable(Expr::Const(0), most),
        ];
        Streaming { blocks, shared, whole, run, last, from }
    }

    /// The whole tile `unit`, or the last tile of the run if `unit` is not a whole tile. Without a run, the result is
    /// past the last tile.
    fn whole_or_run(&mut self, unit: Expr, streamed: &Streaming) -> Expr {
        unit.clone().lt(streamed.whole.clone()).select(unit, streamed.last.clone())
    }

    /// Computes this block's K-tiles of a tile, if there are any.
    fn tile_of_run(
        &mut self,
        units: &Units,
        (unit, tile): (&Expr, Expr),
        streamed: &Streaming,
        body: &'a [Statement],
    ) -> Lowered<()> {
        let note = self.program.scheduler.division_note.clone();
        let of = self.streamed_product(&streamed.shared, &streamed.blocks, &note);
        self.b.origin(&note, "the block's K-tiles of this tile");
        let segment = self.segment_of_product(of, unit, &streamed.whole, &streamed.run);
        let any = self.b.set_reg(segment.any());
        self.b.open();
        self.b.origin(&note, "first k of the block's K-tiles, and their extent");
        let span = segment.span(self);
        let mut work_tile = self.enter_tile(units, tile, Some(span))?;
        // Other blocks identify it by its number among the shared tiles.
        work_tile.tile = self.b.set(unit.clone().max(streamed.whole.clone()) - streamed.whole.clone());
        work_tile.segment = Some(segment);
        self.tile(&work_tile, units, body)?;
        let then = self.b.close();
        self.b.origin(&note, "has the block any K-tiles of it?");
        self.b.branch(any, then, Vec::new());
        Ok(())
    }

    /// Advances to the next whole tile, or to the run. Within the run, steps back to the previous tile.
    fn leave_unit(&mut self, unit: &Expr, streamed: &Streaming, walk: [&Expr; 3]) {
        let note = self.program.scheduler.division_note.clone();
        let Streaming { blocks, whole, run, from, .. } = streamed;
        self.b.origin(&note, "was it one of the run?");
        let streams = self.b.set_reg(unit.clone().ge(whole.clone()));
        self.b.open();
        self.b.origin_at(
            Site::WalkOn,
            &note,
            "the tile before it in the run, for which it walks on from the last whole tile",
        );
        let first = self.b.set(whole.clone() + run.first_tile.clone());
        let before = unit.clone().max(1u32.into()) - 1u32;
        let more = unit.clone().ge(first + 1u32);
        self.b.assign(unit, more.select(before, u64::from(u32::MAX)));
        for (variable, from) in walk.into_iter().zip(from) {
            self.b.assign(variable, from.clone());
        }
        let then = self.b.close();
        self.b.open();
        self.b.origin(&note, "the next whole tile, or the run");
        for (variable, from) in walk.into_iter().zip(from) {
            self.b.assign(from, variable.clone());
        }
        let next = self.b.set(unit.clone() + blocks.clone());
        let next = self.whole_or_run(next, streamed);
        self.b.assign(unit, next);
        let other = self.b.close();
        self.b.origin(&note, "was it one of the run?");
        self.b.branch(streams, then, other);
    }

    /// Computes a tile of the current product.
    pub(super) fn tile_of_product(&mut self, units: &Units, tile: Expr, body: &'a [Statement]) -> Lowered<()> {
        let work_tile = self.enter_tile(units, tile, None)?;
        self.tile(&work_tile, units, body)
    }

    /// Skips the products that end before the tile `unit`, at most [`AT_ONCE`] of them. Returns whether there may be
    /// more.
    fn pass_products(&mut self, unit: &Expr, record: &Expr, left: &Expr, first: &Expr, bytes: u32) -> Lowered<Reg> {
        let program = self.program;
        let note = program.scheduler.persistent_note.clone();
        self.b.origin(&note, "extents of the next products");
        let last = self.b.set(left.clone() - 1u32);
        let mut extents = Vec::new();
        for index in 0..AT_ONCE {
            // Past the end of the list, the last record is read again.
            let ahead = self.b.set(last.clone().min(index.into()));
            let at = if index == 0 { record.clone() } else { self.b.set(record.clone() + ahead.wide() * bytes) };
            extents.push((self.extent_of(&Param::M, &at)?, self.extent_of(&Param::N, &at)?));
        }
        self.b.origin_at(Site::EndOfProducts, &note, "do they end before the tile?");
        let (mut end, mut beyond, mut count) = (first.clone(), Expr::Const(0), Expr::Const(0));
        let mut passed = Expr::Const(0);
        for (index, (m, n)) in (0u32..).zip(extents) {
            let tiles = |extent: Expr, block: u32| (extent + (block - 1)) / block;
            let cluster = program.scheduler.cluster;
            let rows = self.b.set(tiles(m, program.block.m * cluster.m));
            let columns = tiles(n, program.block.n * cluster.n);
            let tiles = self.b.set(match program.scheduler.cluster_blocks() {
                1 => rows * columns,
                blocks => rows * columns * blocks,
            });
            end = self.b.set(end + tiles.clone());
            passed = self.b.set(unit.clone().ge(end.clone()).and(left.clone().ge(index + 1)));
            beyond = self.b.set(beyond + passed.clone().select(tiles, 0u32));
            count = self.b.set(count + passed.clone().select(1u32, 0u32));
        }
        self.b.origin(&note, "pass those that do");
        self.b.assign(first, first.clone() + beyond);
        self.b.assign(record, record.clone() + count.clone().wide() * bytes);
        self.b.assign(left, left.clone() - count);
        Ok(self.b.set_reg(passed.and(left.clone().ge(1u32))))
    }
}
