//! Stream-K: each block of a wave computes an equal number of K-tiles of the tiles that would not fill a wave.
//!
//! With T tiles and p blocks, T mod p tiles are left over after the whole waves. These tiles and those of one whole
//! wave are the first S tiles, and are *streamed*: their K-tiles are laid end to end and cut into p runs of equal
//! length, up to one K-tile. The other tiles are computed whole afterwards, p at a time (the two-tile hybrid of Osama
//! et al., arXiv 2301.03598).
//!
//! A block walks its run backwards, tile by tile. Only its first tile may need a later block to finish it, and the
//! block stores its part of that tile before it waits for anything. Only its last tile may have been begun by earlier
//! blocks. The block with a tile's last K-tile finishes the tile: it adds the partial sums of the blocks before it,
//! from the nearest one down. So a block waits only for blocks with lower numbers, and the sizes and p determine the
//! order of summation.
//!
//! In a group only the leftover tiles are streamed, in equal shares of tiles, since products differ in k. The shares of
//! one tile are rounded to whole K-tiles, or to [`STREAM_DEPTH`] if that is more, so some may be empty. A block with an
//! empty share skips the tile, and the block that finishes the tile skips that block.

use ptx_gemm_dsl::plan::STREAM_DEPTH;
use ptx_gemm_dsl::terms::Param;
use ptx_gemm_dsl::types::Batch;

use super::scheduler::Units;
use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{Address, Compare, Expr, Op, Reg};
use crate::origin::Site;
use crate::tile::interface::{FLAG_BYTES, WORKSPACE_ALIGN};
use crate::tile::{Note, Statement};

/// How the streamed tiles are divided.
#[derive(Clone)]
pub(super) struct Streamed {
    /// K to sum over, and the number of its K-tiles: at least 1, so that some block always stores the tile.
    k: Expr,
    k_tiles: Expr,
    /// K-tiles that one block computes together.
    together: u32,
    /// Number of blocks.
    blocks: Expr,
    /// Whole tiles of each block, 0 or 1; the leftover tiles that the blocks share; and the number of both.
    each: Expr,
    shared: Expr,
    tiles: Expr,
}

/// The K-tiles of one tile that a block computes.
pub(super) struct Segment {
    pub(super) of: Streamed,
    /// The first K-tile, and the end.
    first: Expr,
    last: Expr,
}

/// A block's run of tiles: its first and last tile, and the fraction of each before its start and end. One tile has as
/// many fractions as there are blocks.
pub(super) struct Run {
    pub(super) first_tile: Expr,
    pub(super) first_rest: Expr,
    pub(super) end_tile: Expr,
    pub(super) end_rest: Expr,
}

impl Segment {
    /// Whether there are K-tiles in it.
    pub(super) fn any(&self) -> Expr {
        self.first.clone().lt(self.last.clone())
    }

    /// First k and extent of the segment.
    pub(super) fn span(&self, lowering: &mut Lowering<'_>) -> (Expr, Expr) {
        let depth = lowering.program.block.k;
        let end = lowering.b.set((self.last.clone() * depth).min(self.of.k.clone()));
        let first = lowering.b.set((self.first.clone() * depth).min(end.clone()));
        (first.clone(), lowering.b.set(end - first))
    }
}

impl<'a> Lowering<'a> {
    /// Computes the tiles of a block: its run of streamed K-tiles, then whole tiles.
    pub(super) fn streamed_tiles(&mut self, units: &Units, body: &'a [Statement]) -> Lowered<()> {
        let note = self.program.scheduler.division_note.clone();
        let of = self.streamed(units, &note);
        let Streamed { k_tiles, blocks, tiles, .. } = of.clone();
        self.b.origin(&note, "this block's run of K-tiles");
        let block = self.b.set(Expr::Block);
        let (first_tile, first) = self.run_begins(&of, block.clone());
        let (end_tile, end) = self.run_begins(&of, block.clone() + 1u32);
        let empty = first_tile.clone().compare(Compare::Eq, end_tile.clone());
        let empty = self.b.set(empty.and(first.clone().compare(Compare::Eq, end.clone())));
        let to_end = self.b.set(end.clone().compare(Compare::Eq, 0u32));
        self.b.origin_at(Site::FirstWorkTile, &note, "the last tile of the run, or the first whole tile");
        let last_tile = self.b.set(to_end.clone().select(end_tile.clone().max(1u32.into()) - 1u32, end_tile));
        let whole = self.b.set(tiles.clone() + block);
        let most = u64::from(u32::MAX);
        let tile = self.b.variable(empty.clone().select(whole.clone(), last_tile), most);
        let next = self.b.variable(empty.clone().select(whole.clone() + blocks.clone(), whole), most);
        let end = self.b.set(to_end.select(k_tiles.clone(), end));
        let last = self.b.variable(empty.select(k_tiles.clone(), end), k_tiles.bound());
        let some = self.b.set_reg(tile.clone().lt(units.all_tiles.clone()));

        self.b.open();
        self.b.open();
        self.b.origin(&note, "the block's K-tiles of this tile");
        let begins = tile.clone().compare(Compare::Eq, first_tile.clone());
        let from = self.b.set(begins.select(first, 0u32));
        let segment = Segment { of, first: from, last: last.clone() };
        self.b.origin(&note, "first k of the block's K-tiles, and their extent");
        let span = segment.span(self);
        let mut work_tile = self.enter_tile(units, tile.clone(), Some(span))?;
        work_tile.segment = Some(segment);
        self.tile(&work_tile, units, body)?;
        self.b.origin_at(
            Site::NextWorkTile,
            &note,
            "advance to the tile before it in the run, or to the next whole tile",
        );
        let in_run = self.b.set(tile.clone().ge(first_tile + 1u32).and(tile.clone().lt(tiles)));
        let before = tile.clone().max(1u32.into()) - 1u32;
        self.b.assign(&tile, in_run.clone().select(before, next.clone()));
        self.b.assign(&next, in_run.select(next.clone(), next.clone() + blocks));
        self.b.assign(&last, k_tiles);
        let again = self.b.set_reg(tile.lt(units.all_tiles.clone()));
        let body = self.b.close();
        self.b.push(Op::Loop { body, again });
        let any = self.b.close();
        self.b.branch(some, any, Vec::new());
        Ok(())
    }

    fn streamed(&mut self, units: &Units, note: &Note) -> Streamed {
        let k = self.depth();
        self.b.origin_at(Site::KTilesOfTile, note, "K-tiles of a tile");
        let depth = self.program.block.k;
        let k_tiles = self.b.set(((k.clone() + (depth - 1)) / depth).max(1u32.into()));
        self.b.origin_at(
            Site::LeftOverTiles,
            note,
            "tiles that the whole waves leave over, and those of one whole wave",
        );
        let blocks = self.b.set(Expr::Blocks);
        let shared = self.b.set(units.all_tiles.clone() % blocks.clone());
        let wave = units.all_tiles.clone().ge(blocks.clone()).and(shared.clone().ge(1u32));
        let wave = self.b.set(wave);
        let each = self.b.set(wave.clone().select(1u32, 0u32));
        let tiles = self.b.set(shared.clone() + wave.select(blocks.clone(), 0u32));
        Streamed { k, k_tiles, together: 1, blocks, each, shared, tiles }
    }

    /// The same for a product of a group. `shared` tiles of all products are streamed.
    pub(super) fn streamed_product(&mut self, shared: &Expr, blocks: &Expr, note: &Note) -> Streamed {
        let k = self.depth();
        self.b.origin_at(Site::KTilesOfTile, note, "K-tiles of a tile");
        let depth = self.program.block.k;
        let k_tiles = self.b.set(((k.clone() + (depth - 1)) / depth).max(1u32.into()));
        let together = (STREAM_DEPTH / depth).max(1);
        let (shared, blocks) = (shared.clone(), blocks.clone());
        Streamed { k, k_tiles, together, blocks, each: Expr::Const(0), tiles: shared.clone(), shared }
    }

    /// The K-tiles of a group's tile `unit` that this block computes. Streamed tiles follow `whole` other tiles: of a
    /// streamed tile it is the part in the block's run, of a whole tile all.
    pub(super) fn segment_of_product(&mut self, of: Streamed, unit: &Expr, whole: &Expr, run: &Run) -> Segment {
        let [begins, ends] = [&run.first_tile, &run.end_tile].map(|tile| {
            let tile = self.b.set(whole.clone() + tile.clone());
            self.b.set(unit.clone().compare(Compare::Eq, tile))
        });
        let from = self.k_tile_of(&of, run.first_rest.clone());
        let first = self.b.set(begins.select(from, 0u32));
        let to = self.k_tile_of(&of, run.end_rest.clone());
        let last = self.b.set(ends.select(to, of.k_tiles.clone()));
        Segment { of, first, last }
    }

    /// A block's run of the `shared` tiles of a group.
    pub(super) fn run_of_group(&mut self, shared: &Expr, blocks: &Expr) -> Run {
        let block = self.b.set(Expr::Block);
        let [(first_tile, first_rest), (end_tile, end_rest)] = [block.clone(), block + 1u32].map(|block| {
            let share = self.b.set(block * shared.clone());
            (self.b.set(share.clone() / blocks.clone()), self.b.set(share % blocks.clone()))
        });
        Run { first_tile, first_rest, end_tile, end_rest }
    }

    /// Tile and K-tile at which a block's run begins: the block's share of the streamed tiles, rounded down to whole
    /// K-tiles. All products fit 32 bits, since a wave has fewer than 2^16 blocks.
    fn run_begins(&mut self, of: &Streamed, block: Expr) -> (Expr, Expr) {
        let Streamed { blocks, each, shared, .. } = of;
        let share = self.b.set(block.clone() * shared.clone());
        let tile = self.b.set(block * each.clone() + share.clone() / blocks.clone());
        // The rest is a fraction of a tile, in units of 1 / `blocks`.
        let rest = self.b.set(share % blocks.clone());
        let k_tile = self.k_tile_of(of, rest);
        (tile, k_tile)
    }

    /// The K-tile at which `rest` of the tile's `blocks` fractions end.
    fn k_tile_of(&mut self, of: &Streamed, rest: Expr) -> Expr {
        let Streamed { k_tiles, together, blocks, .. } = of;
        let pieces = match together {
            1 => k_tiles.clone(),
            _ => self.b.set((k_tiles.clone() + (together - 1)) / *together),
        };
        let whole = rest.clone() * (pieces.clone() / blocks.clone());
        let partial = (rest * (pieces % blocks.clone())) / blocks.clone();
        let k_tile = match together {
            1 => whole + partial,
            _ => (whole + partial) * *together,
        };
        // For single K-tiles the minimum changes nothing, but states the bound to the verifier.
        self.b.set(k_tile.min(k_tiles.clone()))
    }

    /// Adds up the partial sums of the blocks that share the work tile. The block with its last K-tile runs `body`.
    pub(super) fn reduce_streamed(
        &mut self,
        work_tile: &WorkTile,
        units: &Units,
        acc: usize,
        body: &'a [Statement],
        note: &'a Note,
    ) -> Lowered<()> {
        let segment = work_tile.segment.as_ref().ok_or_else(|| broken("a tile that is not streamed"))?;
        let Segment { of, first, last } = segment;
        let acc = self.products.acc[acc].clone();
        let workspace = self.workspace_access()?;
        self.b.origin(note, "does a later block finish this tile?");
        let unfinished = self.b.set_reg(last.clone().lt(of.k_tiles.clone()));
        self.b.open();
        let block = self.b.set(Expr::Block);
        let (flag, slot) = self.contribution(of, block, acc.len() as u32, note)?;
        self.store_partials(&acc, &slot, workspace, note);
        self.b.origin(note, "hand the sums to the block that finishes the tile");
        let value = self.b.set_reg(Expr::Const(1));
        self.b.push(Op::RaiseFlag { address: flag, value });
        let hand_over = self.b.close();

        self.b.open();
        self.b.origin_at(Site::BegunEarlier, note, "have earlier blocks begun it?");
        let begun = self.b.set_reg(first.clone().ge(1u32));
        self.b.open();
        self.b.origin_at(Site::BlockBefore, note, "the block before this one");
        let other = self.b.variable(Expr::Block.max(1u32.into()) - 1u32, u64::from(u32::MAX));
        match self.program.problem.batch {
            Batch::Grouped => self.gather_in_group((work_tile, segment), &acc, &other, note)?,
            Batch::One | Batch::Strided => self.gather((work_tile, of), &acc, &other, note)?,
        }
        let gather = self.b.close();
        self.b.branch(begun, gather, Vec::new());
        self.tile(work_tile, units, body)?;
        let finish = self.b.close();
        self.b.branch(unfinished, hand_over, finish);
        Ok(())
    }

    /// Adds the partial sums of the blocks that have begun the tile, from `other` down.
    fn gather(
        &mut self,
        (work_tile, of): (&WorkTile, &Streamed),
        acc: &[Reg],
        other: &Expr,
        note: &Note,
    ) -> Lowered<()> {
        self.b.open();
        self.add_sums_of(of, acc, other, note)?;
        self.b.origin_at(Site::AnotherBlock, note, "has yet another block begun the tile?");
        let (tile, from) = self.run_begins(of, other.clone());
        self.b.assign(other, other.clone().max(1u32.into()) - 1u32);
        let again = tile.compare(Compare::Eq, work_tile.tile.clone()).and(from.ge(1u32));
        let again = self.b.set_reg(again);
        let add = self.b.close();
        self.b.push(Op::Loop { body: add, again });
        Ok(())
    }

    /// The same in a group, where some of these blocks may have no K-tiles of the tile.
    fn gather_in_group(
        &mut self,
        (work_tile, segment): (&WorkTile, &Segment),
        acc: &[Reg],
        other: &Expr,
        note: &Note,
    ) -> Lowered<()> {
        let Segment { of, first, .. } = segment;
        let end = self.b.variable(first.clone(), of.k_tiles.bound());
        self.b.open();
        self.b.origin(note, "its first K-tile of this tile");
        let (tile, from) = self.run_begins(of, other.clone());
        let here = tile.compare(Compare::Eq, work_tile.tile.clone());
        let from = self.b.set(here.select(from, 0u32));
        self.b.origin(note, "has it any?");
        let any = self.b.set_reg(from.clone().lt(end.clone()));
        self.b.open();
        self.add_sums_of(of, acc, other, note)?;
        let then = self.b.close();
        self.b.origin(note, "has it any?");
        self.b.branch(any, then, Vec::new());
        self.b.origin_at(Site::AnotherBlock, note, "has yet another block begun the tile?");
        self.b.assign(&end, from.clone());
        self.b.assign(other, other.clone().max(1u32.into()) - 1u32);
        let again = self.b.set_reg(from.ge(1u32));
        let add = self.b.close();
        self.b.push(Op::Loop { body: add, again });
        Ok(())
    }

    /// Waits for a block's partial sums, and adds them.
    fn add_sums_of(&mut self, of: &Streamed, acc: &[Reg], other: &Expr, note: &Note) -> Lowered<()> {
        let workspace = self.workspace_access()?;
        let (flag, slot) = self.contribution(of, other.clone(), acc.len() as u32, note)?;
        self.b.origin(note, "wait for its sums");
        self.wait_for_flag(flag, 1u32.into())?;
        self.add_partials(acc, &slot, workspace, note);
        self.lower_flag(flag, workspace, note);
        Ok(())
    }

    /// This thread's flag and its first partial sum among those of a block.
    fn contribution(&mut self, of: &Streamed, block: Expr, sums: u32, note: &Note) -> Lowered<(Address, Expr)> {
        let (threads, bytes) = (self.role.threads, self.types.acc.bytes());
        self.b.origin_at(Site::FlagOfBlock, note, "this thread's flag and sums there");
        let workspace = self.wide_arg(&Param::Workspace)?;
        let flags_of = threads * FLAG_BYTES;
        let flag = block.clone().wide() * flags_of + (self.role.tid.clone() * FLAG_BYTES).wide();
        let flag = self.b.set(workspace.clone() + flag);
        let flag = Address { base: self.b.set_reg(flag), offset: 0 };
        let flags = of.blocks.clone().wide() * flags_of + (WORKSPACE_ALIGN - 1);
        let flags = (flags / WORKSPACE_ALIGN) * WORKSPACE_ALIGN;
        let slot = block.wide() * (sums * threads * bytes) + (self.role.tid.clone() * bytes).wide();
        Ok((flag, self.b.set(workspace + flags + slot)))
    }
}
