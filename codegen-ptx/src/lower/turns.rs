//! Groups of a role's threads that compute one tile of D each, in turn.
//!
//! Group g computes the tiles g, g + turns, ... of its block. The slots of a ring hold the K-tiles of all these tiles,
//! in the order of the tiles, so a group skips the K-tiles of the other groups before it waits for its own. The slot's
//! mbarrier had the same parity two phases ago. The ordered barrier ensures that the phase before is complete.
//!
//! ```text
//! tid, group = Tid % 128, Tid / 128
//! unit = Block + group * Blocks             the first tile of the group: there may be none
//! passed = group * K-tiles                  for each ring, modulo two rounds of it
//! if unit < all {
//!   loop {
//!     slot, parity: `passed` K-tiles later
//!     tile `unit`
//!     passed = (turns - 1) * K-tiles
//!     unit += turns * Blocks
//!   } while unit < all
//! }
//! ```

use super::scheduler::Units;
use super::{Lowered, Lowering, broken};
use crate::kernel::{Address, Arrival, Expr, Op};
use crate::origin::Site;
use crate::tile::{Note, Role, Statement, Turn};

/// The groups of a role.
pub(super) struct Groups {
    count: u32,
    /// First thread of the role, and the one after its last.
    threads: (u32, u32),
    /// Index of this thread's group.
    index: Expr,
    /// Byte offset from the first group's mbarrier of an ordered barrier to this group's, and to the next group's.
    pub(super) own: Expr,
    next: Expr,
    /// By ordered barrier: the parity of the phase to wait for next.
    parity: Vec<Expr>,
    /// By ring: K-tiles to skip before the next tile.
    passed: Vec<Expr>,
    /// Byte offset of its stage of D from that of the first group.
    pub(super) stage: Expr,
}

impl<'a> Lowering<'a> {
    /// Finds the group of a thread, and its index in it.
    pub(super) fn enter_groups(&mut self, role: &Role) -> Groups {
        let (program, count, threads) = (self.program, role.turns, role.per_tile());
        self.b.origin(&role.note, "group of the thread, and its index in it");
        let index = self.b.set(self.role.tid.clone() / threads);
        self.role.tid = self.b.set(self.role.tid.clone() % threads);
        let (own, next) = (index.clone() * Turn::BYTES, ((index.clone() + 1u32) % count) * Turn::BYTES);
        let (own, next) = (self.b.set(own), self.b.set(next));
        self.b.origin(&role.note, "parities to wait for: the first group has every turn already");
        let first = index.clone().lt(1u32).select(1u32, 0u32);
        let parity = program.turns.iter().map(|_| self.b.variable(first.clone(), 1)).collect();
        let stage = match program.stage_step() as u32 {
            0 => Expr::Const(0),
            step => self.b.set(index.clone() * step),
        };
        let threads = (role.threads.start, role.threads.end);
        Groups { count, threads, index, own, next, parity, passed: Vec::new(), stage }
    }

    /// The tiles of a group.
    pub(super) fn tiles_in_turn(&mut self, body: &'a [Statement]) -> Lowered<()> {
        let note = self.program.scheduler.persistent_note.clone();
        let (count, index) = self.groups_of_role()?;
        let units = self.units();
        let k = self.depth();
        let k_tiles = self.passed_in_tile(&k);
        self.start_passing(k_tiles.iter().map(|k_tiles| index.clone() * k_tiles.clone()).collect());
        self.b.origin(&note, "first tile of this group");
        let unit = self.b.variable(Expr::Block + index * Expr::Blocks, u64::from(u32::MAX));
        let some = self.b.set_reg(unit.clone().lt(units.all.clone()));
        self.b.open();
        self.b.open();
        let work_tile = self.enter_tile(&units, unit.clone(), None)?;
        self.tile(&work_tile, &units, body)?;
        self.b.origin(&note, "advance to this group's next tile");
        let others = k_tiles.into_iter().map(|k_tiles| k_tiles * (count - 1)).collect();
        self.pass_over(others);
        self.b.assign(&unit, unit.clone() + Expr::Blocks * count);
        let again = self.b.set_reg(unit.lt(units.all));
        let tiles = self.b.close();
        self.b.push(Op::Loop { body: tiles, again });
        let then = self.b.close();
        self.b.origin(&note, "is there a tile?");
        self.b.branch(some, then, Vec::new());
        Ok(())
    }

    /// Starts to walk through the tiles of which this group computes some; returns the number of tiles before its first
    /// one.
    pub(super) fn start_walking(&mut self) -> Lowered<Expr> {
        let (count, index) = self.groups_of_role()?;
        self.start_passing(self.program.rings.iter().map(|_| Expr::Const(0)).collect());
        let note = self.program.scheduler.persistent_note.clone();
        self.b.origin(&note, "tiles before the first one of this group");
        Ok(self.b.variable(index, (count - 1).into()))
    }

    /// Computes a tile of the current product if `left` says that it is this group's next one, otherwise counts its
    /// K-tiles.
    pub(super) fn tile_in_turn(
        &mut self,
        units: &Units,
        tile: Expr,
        left: &Expr,
        body: &'a [Statement],
    ) -> Lowered<()> {
        let (count, _) = self.groups_of_role()?;
        let note = self.program.scheduler.persistent_note.clone();
        self.b.origin(&note, "is it a tile of this group?");
        let own = self.b.set_reg(left.clone().lt(1u32));
        self.b.open();
        self.tile_of_product(units, tile, body)?;
        self.b.origin(&note, "tiles before the next one of this group");
        self.b.assign(left, Expr::Const((count - 1).into()));
        self.pass_over(self.program.rings.iter().map(|_| Expr::Const(0)).collect());
        let then = self.b.close();
        self.b.open();
        self.b.origin(&note, "tiles before the next one of this group");
        self.b.assign(left, left.clone() - 1u32);
        let k = self.depth();
        let k_tiles = self.passed_in_tile(&k);
        let passed = self.role.groups.as_ref().map_or(Vec::new(), |groups| groups.passed.clone());
        let more = self.program.rings.iter().zip(passed).zip(k_tiles);
        self.pass_over(more.map(|((ring, passed), k_tiles)| (passed + k_tiles) % (2 * ring.depth)).collect());
        let other = self.b.close();
        self.b.origin(&note, "is it a tile of this group?");
        self.b.branch(own, then, other);
        Ok(())
    }

    /// The number of groups, and the index of this thread's group.
    pub(super) fn groups_of_role(&self) -> Lowered<(u32, Expr)> {
        let groups = self.role.groups.as_ref().ok_or_else(|| broken("the threads of the role take no turns"))?;
        Ok((groups.count, groups.index.clone()))
    }

    /// K-tiles of a tile of D with this k, for each ring modulo two rounds of it, after which slots and parities repeat.
    pub(super) fn passed_in_tile(&mut self, k: &Expr) -> Vec<Expr> {
        self.b.origin_at(Site::KTilesOfTile, &self.program.block_note, "K-tiles of a tile");
        let k_tiles = self.k_tiles(k);
        let k_tiles = self.b.set(k_tiles);
        self.program.rings.iter().map(|ring| self.b.set(k_tiles.clone() % (2 * ring.depth))).collect()
    }

    /// Records how many K-tiles of each ring precede the first tile of the group.
    pub(super) fn start_passing(&mut self, k_tiles: Vec<Expr>) {
        let most = self.role.groups.as_ref().map_or(0, |groups| u64::from(groups.count - 1));
        let rings = self.program.rings.iter().zip(k_tiles);
        let passed = rings.map(|(ring, k_tiles)| {
            self.b.origin(&ring.note, "K-tiles before those of this group");
            self.b.variable(k_tiles, most * u64::from(2 * ring.depth - 1))
        });
        let passed = passed.collect();
        if let Some(groups) = &mut self.role.groups {
            groups.passed = passed;
        }
    }

    /// Records how many K-tiles of each ring precede the next tile of the group.
    pub(super) fn pass_over(&mut self, k_tiles: Vec<Expr>) {
        let passed = self.role.groups.as_ref().map_or(Vec::new(), |groups| groups.passed.clone());
        for (passed, k_tiles) in passed.iter().zip(k_tiles) {
            self.b.assign(passed, k_tiles);
        }
    }

    /// Skips the K-tiles of the other groups in a ring.
    pub(super) fn skip(&mut self, ring: usize, note: &Note) -> Lowered<()> {
        let passed = self.role.groups.as_ref().and_then(|groups| groups.passed.get(ring).cloned());
        let place = self.position.carried[ring].as_ref().and_then(|carried| carried.read.clone());
        let (Some(passed), Some(place)) = (passed, place) else {
            return Err(broken("only groups that take turns pass over K-tiles, in a ring that they read"));
        };
        self.b.origin_at(Site::SlotAfterOthers, note, "the slot after the K-tiles of other groups");
        self.move_over(&self.program.rings[ring], &place, &passed);
        Ok(())
    }

    /// Waits at an ordered barrier until the previous group has passed it on.
    pub(super) fn take(&mut self, turn: usize, note: &Note) {
        let Some((own, parity)) =
            self.role.groups.as_ref().map(|groups| (groups.own.clone(), groups.parity[turn].clone()))
        else {
            return;
        };
        let turn = &self.program.turns[turn];
        self.b.origin(note, &format!("wait for `{}`", turn.name));
        let base = self.b.set_reg(Expr::SharedBase + turn.offset_bytes + own);
        self.wait_phase(Address { base, offset: 0 }, &parity);
        self.b.assign(&parity, Expr::Const(1) - parity.clone());
    }

    /// Passes an ordered barrier on to the next group. Every thread arrives: if one thread arrived alone, the barrier
    /// could complete two more phases before the other threads test theirs, which would then have the parity of a
    /// future phase.
    pub(super) fn pass(&mut self, turn: usize, note: &Note) {
        let Some(next) = self.role.groups.as_ref().map(|groups| groups.next.clone()) else { return };
        let turn = &self.program.turns[turn];
        self.b.origin(note, &format!("pass on `{}`", turn.name));
        let base = self.b.set_reg(Expr::SharedBase + turn.offset_bytes + next);
        self.b.push(Op::Arrive { address: Address { base, offset: 0 }, when: Arrival::Now, guard: None });
    }

    /// A named barrier. Groups from `group` on each have their own.
    pub(super) fn meet_in_group(&mut self, number: u32, threads: u32, group: u32) {
        let barrier = Op::NamedBarrier { number: number + group, threads };
        let (count, (start, end)) =
            self.role.groups.as_ref().map_or((1, (0, 0)), |groups| (groups.count, groups.threads));
        if group + 1 == count {
            return self.b.push(barrier);
        }
        let own = self.b.set_reg(Expr::Tid(end).lt(start + (group + 1) * threads));
        self.b.open();
        self.b.push(barrier);
        let then = self.b.close();
        self.b.open();
        self.meet_in_group(number, threads, group + 1);
        let other = self.b.close();
        self.b.branch(own, then, other);
    }
}
