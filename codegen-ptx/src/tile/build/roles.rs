//! Both halves of the loop of dedicated producers and consumers, and the ordered barrier of consumers.

use ptx_gemm_dsl::terms::Pace;

use super::super::{Index, Op, Statement, Turn};
use super::{Builder, at, note};

/// The index of the ordered barrier for starting products.
const MAINLOOP: usize = 0;

impl Builder<'_> {
    /// The producer's half of the loop.
    pub(super) fn producer(&self) -> Vec<Statement> {
        let clauses = &self.plan.clauses;
        let mut body = self.produce(Index::Ahead(0));
        body.push(at(Op::Commit { ring: 0 }, &clauses.stages));
        let sum = vec![at(Op::Loop { body }, &clauses.tile)];
        let sum = at(Op::IfAnyK { body: sum }, &clauses.tile);
        let lend = self.lends().then(|| at(Op::Lend { ring: 0 }, &clauses.store));
        std::iter::once(sum).chain(lend).collect()
    }

    /// The consumer's half of the loop.
    pub(super) fn consumer(&self) -> Vec<Statement> {
        let clauses = &self.plan.clauses;
        let mut body = vec![at(Op::Wait { ring: 0 }, &clauses.stages)];
        if self.plan.ring.pace == Pace::Tile {
            body.push(at(Op::Meet { barrier: 0 }, &clauses.pace));
        }
        // With a spare slot, the producer fills one while products read two. If accumulators are promoted after each K-tile,
        // its products must be complete.
        let reserve = self.plan.ring.stages > 2 && !self.promotes_every_tile();
        let kept = if self.multiplies_asynchronously() && reserve { 1 } else { 0 };
        body.extend(self.steps());
        body.extend(self.retire(kept));
        body.push(at(Op::Release { ring: 0, kept }, &clauses.stages));
        body.extend(self.promote(kept > 0));
        let mut sum = vec![at(Op::Loop { body }, &clauses.tile)];
        // While the last products run, another consumer starts its first products.
        sum.extend(self.pass());
        if kept > 0 {
            sum.extend(self.retire(0));
            sum.push(at(Op::Release { ring: 0, kept: 0 }, &clauses.stages));
        }
        vec![at(Op::IfAnyK { body: sum }, &clauses.tile)]
    }

    /// The ordered barrier of the consumers, if they take turns.
    pub(super) fn turns(&self) -> Option<Turn> {
        let offset_bytes = self.plan.turn_offset(self.variant)?;
        Some(Turn { name: "mainloop".into(), offset_bytes, note: note(&self.plan.clauses.specialize) })
    }

    /// Skips the K-tiles of the tiles that other consumers compute.
    pub(super) fn skip(&self) -> Vec<Statement> {
        self.in_turn(Op::Skip { ring: 0 }).into_iter().collect()
    }

    /// Waits until no other consumer starts products.
    pub(super) fn take(&self) -> Option<Statement> {
        self.in_turn(Op::Take { turn: MAINLOOP })
    }

    fn pass(&self) -> Option<Statement> {
        self.in_turn(Op::Pass { turn: MAINLOOP })
    }

    fn in_turn(&self, op: Op) -> Option<Statement> {
        (self.plan.roles.turns > 1).then(|| at(op, &self.plan.clauses.specialize))
    }
}
