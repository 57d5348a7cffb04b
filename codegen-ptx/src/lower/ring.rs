//! A free-running ring: per slot one mbarrier that counts it full and one that counts it empty, every thread arriving at both.
//!
//! Threads meet only where data passes between them: a wait ends when all copies of its slot have landed, and a slot is
//! filled again when every thread has read it. The parity that a wait asks for changes each time its side comes around
//! the ring; a slot is first waited to be empty in its second round.

use crate::kernel::{Address, Arrival, Expr, Op, Reg};

use super::Lowering;

/// Bytes of a slot's two mbarriers; the second one counts it empty.
const PAIR: u32 = 16;
const EMPTY: i64 = 8;

/// One side's place in a free-running ring.
#[derive(Clone)]
pub(super) struct Cursor {
    /// Byte offset of the slot's mbarriers from those of slot 0.
    barriers: Expr,
    /// Parity of the phase that is waited for next.
    parity: Expr,
}

impl Lowering<'_> {
    /// Prepares the ring's mbarriers, if it has any.
    pub(super) fn init_ring(&mut self) {
        let Some(offset) = self.plan.barrier_offset() else { return };
        let clause = self.plan.clauses.pace.clone();
        let threads = self.plan.geometry.threads;
        self.b.origin(&clause, "one thread prepares the mbarriers");
        let first = self.b.set_reg(Expr::Tid(threads).lt(1u32));
        self.b.open();
        let base = self.b.set(Expr::SharedBase + offset);
        for barrier in 0..2 * self.plan.stages {
            let address =
                Address { base: self.b.set_reg(base.clone()), offset: i64::from(barrier * 8), bound: base.bound() };
            self.b.push(Op::InitBarrier { address, arrivals: threads });
        }
        let init = self.b.close();
        self.b.branch(first, false, init, Vec::new());
        self.b.origin(&clause, "and all threads see them prepared");
        self.b.push(Op::Barrier);
    }

    /// A cursor at slot number `slot`, which waits for the given parity first.
    pub(super) fn cursor(&mut self, slot: u32, parity: u32) -> Cursor {
        let bound = u64::from((self.plan.stages - 1) * PAIR);
        let barriers = self.b.variable(Expr::Const(u64::from(slot * PAIR)), bound);
        Cursor { barriers, parity: self.b.variable(parity.into(), 1) }
    }

    /// The byte offset of a slot's mbarriers where the slot is known.
    pub(super) fn fixed_cursor(slot: u32) -> Cursor {
        Cursor { barriers: Expr::Const(u64::from(slot * PAIR)), parity: Expr::Const(0) }
    }

    fn barrier(&mut self, cursor: &Cursor, which: i64) -> Address {
        let offset = self.plan.barrier_offset().unwrap_or_default();
        let base = self.b.set(Expr::SharedBase + offset + cursor.barriers.clone());
        Address { bound: base.bound(), base: self.b.set_reg(base), offset: which }
    }

    /// Waits until the cursor's slot is full.
    pub(super) fn wait_full(&mut self, cursor: &Cursor) {
        self.wait_barrier(cursor, 0);
    }

    /// Waits until the cursor's slot is empty.
    pub(super) fn wait_empty(&mut self, cursor: &Cursor) {
        self.wait_barrier(cursor, EMPTY);
    }

    fn wait_barrier(&mut self, cursor: &Cursor, which: i64) {
        let address = self.barrier(cursor, which);
        let parity = self.b.set_reg(cursor.parity.clone());
        self.b.open();
        let done: Reg = self.b.fresh_pred();
        self.b.push(Op::TestBarrier { dst: done, address, parity });
        let again = self.b.set_reg(Expr::Not(Box::new(Expr::Reg(done, 1))));
        let body = self.b.close();
        self.b.push(Op::Loop { body, again, uniform: false });
    }

    /// This thread has done its part in filling the cursor's slot, at once or when its copies have landed.
    pub(super) fn arrive_full(&mut self, cursor: &Cursor, when: Arrival) {
        let address = self.barrier(cursor, 0);
        self.b.push(Op::Arrive { address, when });
    }

    /// This thread has read the cursor's slot.
    pub(super) fn arrive_empty(&mut self, cursor: &Cursor) {
        let address = self.barrier(cursor, EMPTY);
        self.b.push(Op::Arrive { address, when: Arrival::Now });
    }

    /// Moves a cursor on, around the ring.
    pub(super) fn advance_cursor(&mut self, cursor: &Cursor) {
        let last = (self.plan.stages - 1) * PAIR;
        let wraps = self.b.set(cursor.barriers.clone().ge(last));
        let flipped = Expr::Const(1) - cursor.parity.clone();
        self.b.assign(&cursor.parity, wraps.clone().select(flipped, cursor.parity.clone()));
        self.b.assign(&cursor.barriers, wraps.select(0u32, cursor.barriers.clone() + PAIR));
    }
}
