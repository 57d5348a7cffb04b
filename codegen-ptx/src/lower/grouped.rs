//! `batch(grouped)`: persistent blocks walk through the list of products.
//!
//! The tiles of all products are numbered one product after another, and a block computes every tile whose number is its
//! own plus a multiple of the number of blocks. It keeps the record of a product and the number of that product's first
//! tile. For its next tile it passes the products that end before it. Records are read a few at a time, since each read
//! takes as long as one: a block reads all of them in the course of a launch.
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
//!   unit += blocks
//! } while some
//! ```
//!
//! Each role walks by itself, and finds the same tiles. Groups of threads that take turns walk through all tiles of the
//! block, and count the K-tiles of those that are not theirs. A launch without products has no blocks.

use ptx_gemm_dsl::terms::Param;

use super::scheduler::Units;
use super::{Lowered, Lowering, broken};
use crate::kernel::{Expr, Op, Reg};
use crate::tile::Statement;
use crate::tile::record::Record;

/// Records that are read at once: most blocks pass no more between two of their tiles.
const AT_ONCE: u32 = 4;

impl<'a> Lowering<'a> {
    /// Computes the tiles of a block.
    pub(super) fn grouped_tiles(&mut self, body: &'a [Statement]) -> Lowered<()> {
        let program = self.program;
        let bytes = Record::of(program).ok_or_else(|| broken("there is no list of products"))?.bytes;
        let note = program.scheduler.persistent_note.clone();
        let most = u64::from(u32::MAX);
        self.b.origin(&note, "first tile of this block, and the list of products");
        let unit = self.b.variable(Expr::Block, most);
        let list = self.wide_arg(&Param::Problems)?;
        let record = self.b.variable_wide(list);
        let left = self.b.variable(self.args.batch.clone(), most);
        let first = self.b.variable(Expr::Const(0), most);
        let left_to_own = self.groups.is_some().then(|| self.start_walking()).transpose()?;

        self.b.open();
        self.b.open();
        let again = self.pass_products(&unit, &record, &left, &first, bytes)?;
        let walk = self.b.close();
        self.b.push(Op::Loop { body: walk, again });
        let some = self.b.set_reg(left.ge(1u32));

        self.b.open();
        self.b.origin(&note, "extents of the product");
        self.args.m = self.extent_of(&Param::M, &record)?;
        self.args.n = self.extent_of(&Param::N, &record)?;
        self.args.k = self.extent_of(&Param::K, &record)?;
        self.record = Some(record);
        let units = self.units();
        self.b.origin(&note, "number of the tile in the product");
        let tile = self.b.set(unit.clone() - first);
        match &left_to_own {
            None => self.tile_of_product(&units, tile, body)?,
            Some(left) => self.tile_in_turn(&units, tile, left, body)?,
        }
        let tile = self.b.close();
        self.b.origin(&note, "is there a tile?");
        self.b.branch(some, tile, Vec::new());
        self.record = None;
        self.b.origin(&note, "advance to this block's next tile");
        self.b.assign(&unit, unit.clone() + Expr::Blocks);
        let body = self.b.close();
        self.b.push(Op::Loop { body, again: some });
        Ok(())
    }

    /// Computes a tile of the current product.
    pub(super) fn tile_of_product(&mut self, units: &Units, tile: Expr, body: &'a [Statement]) -> Lowered<()> {
        let work_tile = self.enter_tile(units, tile, None)?;
        self.tile(&work_tile, units, body)
    }

    /// Passes the products, at most [`AT_ONCE`] of them, that end before the tile `unit`; whether there may be more.
    fn pass_products(&mut self, unit: &Expr, record: &Expr, left: &Expr, first: &Expr, bytes: u32) -> Lowered<Reg> {
        let program = self.program;
        let note = program.scheduler.persistent_note.clone();
        self.b.origin(&note, "extents of the next products");
        let last = self.b.set(left.clone() - 1u32);
        let mut extents = Vec::new();
        for index in 0..AT_ONCE {
            // Beyond the end of the list the last one is read again.
            let ahead = self.b.set(last.clone().min(index.into()));
            let at = if index == 0 { record.clone() } else { self.b.set(record.clone() + ahead.wide() * bytes) };
            extents.push((self.extent_of(&Param::M, &at)?, self.extent_of(&Param::N, &at)?));
        }
        self.b.origin(&note, "do they end before the tile?");
        let (mut end, mut beyond, mut count) = (first.clone(), Expr::Const(0), Expr::Const(0));
        let mut passed = Expr::Const(0);
        for (index, (m, n)) in (0u32..).zip(extents) {
            let tiles = |extent: Expr, block: u32| (extent + (block - 1)) / block;
            let rows = self.b.set(tiles(m, program.block.m));
            let tiles = self.b.set(rows * tiles(n, program.block.n));
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
