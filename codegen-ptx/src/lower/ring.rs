//! A ring with mbarriers: each slot has one that signals it full and one that signals it empty.
//!
//! Threads synchronise only where data pass between them: a wait ends when all copies into its slot are complete, and a
//! slot is filled again once every thread has read it. The parity that a wait tests flips each time its side wraps
//! around the ring. The producer's first round never blocks: it tests parity 1, which a new mbarrier reports as complete.

use ptx_gemm_dsl::target::{MBARRIER_PAIR, WARP_GROUP};
use ptx_gemm_dsl::terms::{Extent2, Side};

use crate::kernel::{Address, Arrival, Expr, Guard, Op, Reg};

use super::Lowering;
use crate::tile::{self, Empty, Full, Ring, Statement, Turn};

const EMPTY: i64 = 8;

/// The position of one side of a ring.
#[derive(Clone)]
pub(super) struct Cursor {
    /// Byte offset of slot 0's mbarriers in shared memory.
    offset: u32,
    /// Byte offset of the last slot's mbarriers, relative to those of slot 0.
    last: u32,
    /// Byte offset of the current slot's mbarriers, relative to those of slot 0.
    barriers: Expr,
    /// Parity of the phase to wait for next.
    parity: Expr,
}

/// A role's position in a ring, kept for as long as its block runs.
#[derive(Clone)]
pub(super) struct Carried {
    /// Byte offset of the slot to fill next, and its mbarriers.
    pub(super) write: Option<(Expr, Cursor)>,
    /// The same for the slot to read.
    pub(super) read: Option<(Expr, Cursor)>,
}

/// A slot that a role returns one K-tile late.
#[derive(Clone)]
pub(super) struct Kept {
    /// 0 in the first K-tile, then 1.
    pub(super) some: Expr,
    /// Its mbarriers.
    pub(super) at: Cursor,
}

impl Cursor {
    /// Index of its slot.
    pub(super) fn slot(&self) -> Expr {
        self.barriers.clone() / MBARRIER_PAIR
    }
}

impl Lowering<'_> {
    /// Starts to keep a role's position in a ring from tile to tile. `None` for a ring without mbarriers, where each
    /// tile starts with the first slot.
    pub(super) fn carry(&mut self, index: usize, body: &[Statement]) -> Option<Carried> {
        if !self.program.carried(index) {
            return None;
        }
        let ring = &self.program.rings[index];
        let (mut fills, mut reads) = (false, false);
        tile::walk(body, &mut |statement| match &statement.op {
            tile::Op::Commit { ring } => fills |= *ring == index,
            tile::Op::Wait { ring } => reads |= *ring == index,
            _ => {}
        });
        self.b.origin(&ring.mbarrier_note, "first slots, mbarriers and parities to wait for");
        let mut place = |used: bool, parity: u32| {
            let bound = u64::from(ring.depth - 1) * u64::from(ring.slot_bytes);
            let slot = if ring.depth > 1 { self.b.variable(Expr::Const(0), bound) } else { Expr::Const(0) };
            used.then(|| self.cursor(ring, 0, parity).map(|cursor| (slot, cursor))).flatten()
        };
        // On a new mbarrier, a wait for the phase of parity 1 succeeds.
        let (write, read) = (place(fills, 1), place(reads, 0));
        Some(Carried { write, read })
    }

    /// Initialises the mbarriers of the rings that have any.
    pub(super) fn init_rings(&mut self) {
        let program = self.program;
        let rings: Vec<(&Ring, u32)> = program.rings.iter().filter_map(|ring| Some((ring, ring.mbarriers?))).collect();
        let Some((first, _)) = rings.first() else { return };
        let groups = program.groups();
        let note = &first.mbarrier_note;
        self.b.origin(note, "one thread initialises the mbarriers");
        let one = self.b.set_reg(Expr::Tid(program.threads()).lt(1u32));
        self.b.open();
        for (ring, offset) in rings {
            let base = self.b.set(Expr::SharedBase + offset);
            let full = if let Full::Mbarrier { arrivals } = ring.full { Some((0, arrivals)) } else { None };
            let empty = if let Empty::Mbarrier { arrivals } = ring.empty {
                Some((EMPTY, arrivals * program.told()))
            } else {
                None
            };
            for slot in 0..ring.depth {
                for (at, arrivals) in full.into_iter().chain(empty) {
                    let offset = i64::from(slot * MBARRIER_PAIR) + at;
                    let address = Address { base: self.b.set_reg(base.clone()), offset };
                    self.b.push(Op::InitBarrier { address, arrivals });
                }
            }
        }
        for turn in &program.turns {
            self.b.origin(&turn.note, "all threads of a group tell the next one that it has a turn");
            let base = self.b.set_reg(Expr::SharedBase + turn.offset_bytes);
            for group in 0..groups {
                let address = Address { base, offset: Turn::distance(group).into() };
                self.b.push(Op::InitBarrier { address, arrivals: program.per_turn() });
            }
        }
        self.init_arrival();
        self.b.origin(note, "one thread initialises the mbarriers");
        if (0..program.rings.len()).any(|ring| program.by_tma(ring)) {
            self.b.push(Op::PublishBarriers);
        }
        let init = self.b.close();
        self.b.branch(one, init, Vec::new());
        self.b.origin(note, "all threads see the mbarriers initialised");
        self.b.push(if program.told() > 1 { Op::ClusterBarrier } else { Op::Barrier });
    }

    /// Keeps a block alive until no other block of its cluster writes to its shared memory or arrives at its mbarriers.
    pub(super) fn leave_cluster(&mut self) {
        if self.program.told() > 1 {
            self.b.origin(&self.program.scheduler.cluster_note, "no block leaves while others reach its shared memory");
            self.b.push(Op::ClusterBarrier);
        }
    }

    /// Finds the blocks that a consumer signals when its slots are free: its own, and those that share operands with
    /// it. If a warp group signals once, it uses one thread for each block.
    pub(super) fn find_notified(&mut self) {
        let program = self.program;
        let (told, Extent2 { m, n }) = (program.told(), program.scheduler.cluster);
        let reads = self.role.map.is_some().then(|| self.place_in_cluster(&Expr::Block)).flatten();
        let Some((row, col)) = reads.filter(|_| told > 1) else { return };
        let [along_n, along_m] = [Side::A, Side::B].map(|side| program.shares(side));
        let rank = |index: Expr| match (along_n, along_m) {
            _ if program.tells_cluster() => index,
            (true, false) => index * m + row.clone(),
            (false, _) => col.clone() * m + index,
            (true, true) => {
                // Those of its row, then the others of its column, starting after its own.
                let next = (index.clone() + (row.clone() + (n.next_multiple_of(m) - n + 1))) % m;
                index.clone().lt(n).select(index * m + row.clone(), col.clone() * m + next)
            }
        };
        let by_group = (0..program.rings.len()).any(|ring| program.read_by_descriptor(ring));
        let which = match program.tells_cluster() {
            true => "all blocks of the cluster",
            false => "blocks that copy to the slots of this one",
        };
        self.b.origin(&program.scheduler.cluster_note, which);
        self.role.notified = match by_group {
            true => {
                let index = self.b.set(self.role.tid.clone() % WARP_GROUP);
                vec![self.b.set_reg(rank(index))]
            }
            false => (0..told).map(|index| self.b.set_reg(rank(index.into()))).collect(),
        };
    }

    /// A cursor at slot `slot` that waits for the given parity first.
    pub(super) fn cursor(&mut self, ring: &Ring, slot: u32, parity: u32) -> Option<Cursor> {
        let offset = ring.mbarriers?;
        let last = (ring.depth - 1) * MBARRIER_PAIR;
        let first = Expr::Const(u64::from(slot * MBARRIER_PAIR));
        let barriers = if last == 0 { first } else { self.b.variable(first, u64::from(last)) };
        Some(Cursor { offset, last, barriers, parity: self.b.variable(parity.into(), 1) })
    }

    /// A cursor at a constant slot.
    pub(super) fn fixed_cursor(ring: &Ring, slot: u32) -> Option<Cursor> {
        let (offset, last) = (ring.mbarriers?, (ring.depth - 1) * MBARRIER_PAIR);
        Some(Cursor { offset, last, barriers: Expr::Const(u64::from(slot * MBARRIER_PAIR)), parity: Expr::Const(0) })
    }

    fn barrier(&mut self, cursor: &Cursor, which: i64) -> Address {
        let base = self.b.set(Expr::SharedBase + cursor.offset + cursor.barriers.clone());
        Address { base: self.b.set_reg(base), offset: which }
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
        self.wait_phase(address, &cursor.parity);
    }

    /// Waits until the phase of this parity of an mbarrier is complete.
    pub(super) fn wait_phase(&mut self, address: Address, parity: &Expr) {
        let parity = self.b.set_reg(parity.clone());
        self.b.open();
        let done: Reg = self.b.fresh_pred();
        self.b.push(Op::TestBarrier { dst: done, address, parity });
        let again = self.b.set_reg(Expr::Not(Box::new(Expr::Reg(done, 1))));
        let body = self.b.close();
        self.b.push(Op::Loop { body, again });
    }

    /// Signals that this thread has completed its part in filling the cursor's slot, immediately or when its copies are
    /// complete.
    pub(super) fn arrive_full(&mut self, cursor: &Cursor, when: Arrival) {
        let address = self.barrier(cursor, 0);
        self.b.push(Op::Arrive { address, when, guard: None });
    }

    /// The full mbarrier of the cursor's slot.
    pub(super) fn full_barrier(&mut self, cursor: &Cursor) -> Address {
        self.barrier(cursor, 0)
    }

    /// Signals that this thread has read the cursor's slot. If tensor cores read it, one thread of the warp group
    /// signals, since its wait covered the products of the whole group. If `some` is given, only where it is true.
    pub(super) fn arrive_empty(&mut self, ring: &Ring, cursor: &Cursor, some: Option<Reg>) {
        let index = self.program.rings.iter().position(|of| of.name == ring.name).unwrap_or(0);
        let address = self.barrier(cursor, EMPTY);
        let guard = match (self.program.read_by_descriptor(index), some) {
            (false, some) => some,
            (true, some) => {
                let first = (self.role.tid.clone() % WARP_GROUP).lt(self.program.told());
                let first = match some {
                    Some(some) => first.and(Expr::Reg(some, 1)),
                    None => first,
                };
                Some(self.b.set_reg(first))
            }
        };
        let guard = guard.map(|pred| Guard { pred, expect: true });
        if self.program.by_tma(index) && !self.program.read_by_descriptor(index) {
            // An arrival can overtake this thread's queued reads, and TMA would then overwrite the data that they read.
            self.b.push(Op::FenceCopies);
        }
        if self.role.notified.is_empty() {
            self.b.push(Op::Arrive { address, when: Arrival::Now, guard });
        }
        for block in self.role.notified.clone() {
            self.b.push(Op::ArriveAt { block, address, guard });
        }
    }

    /// Starts with no kept slot.
    pub(super) fn keep(&mut self, ring: &Ring) -> Option<Kept> {
        let at = self.cursor(ring, 0, 0)?;
        Some(Kept { some: self.b.variable(Expr::Const(0), 1), at })
    }

    /// Sets a cursor to the slot and the parity of another one.
    pub(super) fn set_cursor(&mut self, cursor: &Cursor, to: &Cursor) {
        self.move_cursor(cursor, to);
        self.b.assign(&cursor.parity, to.parity.clone());
    }

    /// Moves a cursor to the slot of another one.
    pub(super) fn move_cursor(&mut self, cursor: &Cursor, to: &Cursor) {
        if cursor.last > 0 {
            self.b.assign(&cursor.barriers, to.barriers.clone());
        }
    }

    /// Moves the slot to read, and its mbarriers, over some K-tiles.
    pub(super) fn move_over(&mut self, ring: &Ring, (slot, cursor): &(Expr, Cursor), k_tiles: &Expr) {
        let to = self.b.set(cursor.slot() + k_tiles.clone());
        self.b.assign(&cursor.parity, (cursor.parity.clone() + to.clone() / ring.depth) % 2u32);
        if ring.depth > 1 {
            let index = self.b.set(to % ring.depth);
            self.b.assign(slot, index.clone() * ring.slot_bytes);
            self.b.assign(&cursor.barriers, index * MBARRIER_PAIR);
        }
    }

    /// Advances a cursor to the next slot of the ring.
    pub(super) fn advance_cursor(&mut self, cursor: &Cursor) {
        let flipped = Expr::Const(1) - cursor.parity.clone();
        if cursor.last == 0 {
            // A slot that is the only one is also the last one.
            self.b.assign(&cursor.parity, flipped);
            return;
        }
        let wraps = self.b.set(cursor.barriers.clone().ge(cursor.last));
        self.b.assign(&cursor.parity, wraps.clone().select(flipped, cursor.parity.clone()));
        self.b.assign(&cursor.barriers, wraps.select(0u32, cursor.barriers.clone() + MBARRIER_PAIR));
    }
}
