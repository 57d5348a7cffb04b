//! `batch(grouped)`: persistent blocks walk through the list of products.
//!
//! The tiles of all products are numbered one product after another, and a block computes every tile whose number is its
//! own plus a multiple of the number of blocks. It keeps the record of a product and the number of that product's first
//! tile. For its next tile it passes the products that end before it; each is read once by a block, in order.
//!
//! ```text
//! loop {
//!   loop {
//!     tiles = tiles of the record's m and n
//!     passed = (unit >= first + tiles)
//!     if passed { first += tiles; record += 128; left -= 1 }
//!   } while passed and left >= 1
//!   some = (left >= 1)
//!   if some { tile `unit - first` of the record's product }
//!   unit += blocks
//! } while some
//! ```
//!
//! Each role walks by itself, and finds the same tiles. A launch without products has no blocks.

use ptx_gemm_dsl::terms::Param;

use super::{Lowered, Lowering, broken};
use crate::kernel::{Expr, Op};
use crate::tile::Statement;
use crate::tile::record::Record;

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

        self.b.open();
        self.b.open();
        self.b.origin(&note, "does this product end before the tile?");
        let (m, n) = (self.extent_of(&Param::M, &record)?, self.extent_of(&Param::N, &record)?);
        let count = |extent: Expr, block: u32| (extent + (block - 1)) / block;
        let rows = self.b.set(count(m, program.block.m));
        let tiles = self.b.set(rows * count(n, program.block.n));
        let end = self.b.set(first.clone() + tiles);
        let passed = self.b.set(unit.clone().ge(end.clone()));
        self.b.origin(&note, "pass it");
        self.b.open();
        self.b.assign(&first, end);
        self.b.assign(&record, record.clone() + bytes);
        self.b.assign(&left, left.clone() - 1u32);
        let pass = self.b.close();
        let is_passed = self.b.set_reg(passed.clone());
        self.b.branch(is_passed, pass, Vec::new());
        let again = self.b.set_reg(passed.and(left.clone().ge(1u32)));
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
        let work_tile = self.enter_tile(&units, tile, None)?;
        self.tile(&work_tile, &units, body)?;
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
}
