//! The pipeline over staged K-tiles: copies, waits and the multiply, slot by slot.

use ptx_gemm_dsl::plan::Placement;
use ptx_gemm_dsl::terms::{Load, Side, Tail};

use super::copy::Copies;
use super::ring::Cursor;
use super::{Lowering, Place};
use crate::kernel::{Arrival, Expr, Op as KernelOp, Reg};
use crate::tile::{Op, Signal, Statement};

/// The state of the ring of slots in one block.
struct Pipeline {
    copies: [Copies; 2],
    depth: u32,
    slot_bytes: u32,
    /// Byte offset of the slot that is filled next, and of the one that is read.
    write: Expr,
    read: Expr,
    /// K left from the tile that is multiplied.
    rem: Expr,
    /// K from that tile to the one that is copied next.
    ahead: u32,
    /// What `rem` must be for the copies in the loop to need no guards: it reaches to the end of the tile that is copied;
    /// more than any k in a tile at an edge.
    need: Expr,
    /// Whether the K-tile being copied lies inside.
    full: Option<Reg>,
    /// Places of the producer and the consumer in a free-running ring.
    cursors: Option<[Cursor; 2]>,
}

impl Lowering<'_> {
    /// Lowers everything between clearing the accumulators and storing them, under the condition that there is something
    /// to sum over: without any k there may be no memory behind the pointers that asynchronous copies state.
    ///
    /// Whether addresses are computed before or behind the branch changes nothing but ptxas's choices, and those by much. With
    /// the number of registers still ptxas's own, a 256 x 128 tile fed by cp.async ran at 52.1 instead of 48.7 TFLOP/s behind
    /// it (H200, 4096), and `lab3` at 33.2 instead of 24.2 before it.
    pub(super) fn pipeline(&mut self, place: &Place, body: &[Statement]) {
        let (Some(a), Some(b)) = (self.plan.a.placement, self.plan.b.placement) else { return };
        let tile = self.plan.clauses.tile.clone();
        let before = self.plan.load == Load::Registers;
        let prepared = before.then(|| self.prepare(place, a, b));
        self.b.origin(&tile, "is there anything to sum over?");
        let some = self.b.set_reg(place.k.clone().ge(1u32));
        self.b.open();
        let mut pipeline = match prepared {
            Some(pipeline) => pipeline,
            None => self.prepare(place, a, b),
        };
        self.pipeline_statements(place, &mut pipeline, body);
        let then = self.b.close();
        self.b.origin(&tile, "is there anything to sum over?");
        self.b.branch(some, true, then, Vec::new());
    }

    /// Addresses, and what is left of k.
    fn prepare(&mut self, place: &Place, a: Placement, b: Placement) -> Pipeline {
        let tile = self.plan.clauses.tile.clone();
        let copies = [self.copies(place, Side::A, a), self.copies(place, Side::B, b)];
        self.fragment_bases = [self.fragment_base(place, a, Side::A), self.fragment_base(place, b, Side::B)];
        let ring = &self.program.rings[0];
        let (depth, slot_bytes) = (ring.depth, ring.slot_bytes);
        let need = self.need(place, (depth - 1) * self.plan.block.k);
        self.b.origin(&tile, "K left");
        let rem = self.b.variable(place.k.clone(), u64::from(u32::MAX));
        let (write, read) = (Expr::Const(0), Expr::Const(0));
        Pipeline { copies, depth, slot_bytes, write, read, rem, ahead: 0, need, full: None, cursors: None }
    }

    /// What must be left of k for a copy of the tile `ahead` further on to need no guards.
    fn need(&mut self, place: &Place, ahead: u32) -> Expr {
        let tail = self.plan.clauses.tail.clone();
        self.b.origin(&tail, "K that a copy without guards needs");
        let need = self.plan.block.k + ahead;
        match place.interior {
            Some(interior) => self.b.set(Expr::Reg(interior, 1).select(need, u64::from(u32::MAX))),
            None => Expr::Const(u64::from(need)),
        }
    }

    fn k_loop(&mut self, place: &Place, pipeline: &mut Pipeline, body: &[Statement], clause: &str) {
        if pipeline.depth > 1 {
            let stages = self.plan.clauses.stages.clone();
            self.b.origin(&stages, "slots that are read and filled first");
            let bound = u64::from((pipeline.depth - 1) * pipeline.slot_bytes);
            pipeline.read = self.b.variable(Expr::Const(0), bound);
            let filled = pipeline.write.clone();
            pipeline.write = self.b.variable(filled, bound);
        }
        if self.free_running() {
            let pace = self.plan.clauses.pace.clone();
            self.b.origin(&pace, "mbarriers and parities that are waited for first");
            // A fresh mbarrier counts as one whose phase of parity 1 is complete.
            pipeline.cursors = Some([self.cursor(pipeline.depth - 1, 1), self.cursor(0, 0)]);
        }
        self.b.origin(clause, "over the K-tiles");
        self.b.open();
        self.pipeline_statements(place, pipeline, body);
        self.b.origin(clause, "K left after this tile");
        let rem = pipeline.rem.clone();
        // Never below 0.
        let depth = self.plan.block.k;
        self.b.assign(&rem, rem.clone().max(depth.into()) - depth);
        let again = self.b.set_reg(rem.ge(1u32));
        let body = self.b.close();
        self.b.origin(clause, "over the K-tiles");
        self.b.push(KernelOp::Loop { body, again, uniform: true });
    }

    fn pipeline_statements(&mut self, place: &Place, pipeline: &mut Pipeline, body: &[Statement]) {
        let copies = |statement: &Statement| matches!(statement.op, Op::Copy { .. });
        for run in body.chunk_by(|one, next| copies(one) && copies(next)) {
            match &run[0].op {
                Op::Copy { .. } => self.copy_run(place, pipeline, run),
                Op::Loop { body, .. } => self.k_loop(place, pipeline, body, &run[0].clause),
                _ => self.pipeline_statement(place, pipeline, &run[0]),
            }
        }
    }

    fn copy_run(&mut self, place: &Place, pipeline: &Pipeline, run: &[Statement]) {
        let operands: Vec<_> = run
            .iter()
            .filter_map(|statement| match &statement.op {
                Op::Copy { buffer, .. } => Some((&pipeline.copies[*buffer], statement.clause.as_str())),
                _ => None,
            })
            .collect();
        let rem = match pipeline.ahead {
            0 => pipeline.rem.clone(),
            ahead => pipeline.rem.clone().max(ahead.into()) - ahead,
        };
        self.copy(place, &operands, pipeline.full, &rem, &pipeline.write);
    }

    fn pipeline_statement(&mut self, place: &Place, pipeline: &mut Pipeline, statement: &Statement) {
        let clause = &statement.clause;
        match &statement.op {
            Op::Acquire { .. } => self.acquire(place, pipeline, clause),
            Op::Commit { .. } => self.commit(pipeline, clause),
            Op::Wait { .. } => self.wait(pipeline, clause),
            Op::Steps { body, .. } => {
                let read = pipeline.read.clone();
                self.steps(&read, body, clause);
            }
            Op::Release { ring } => {
                if self.program.rings[*ring].empty == Signal::BlockBarrier {
                    self.b.origin(clause, "all threads are done with this K-tile");
                    self.b.push(KernelOp::Barrier);
                }
                if let Some([_, consumer]) = &pipeline.cursors {
                    self.b.origin(clause, "this thread has read the slot");
                    self.arrive_empty(consumer);
                    self.advance_cursor(consumer);
                }
                self.b.origin(clause, "on to the next slot");
                let read = pipeline.read.clone();
                self.advance_slot(pipeline, &read);
            }
            _ => {}
        }
    }

    /// Whether threads meet at the ring's mbarriers instead of barriers of the block.
    fn free_running(&self) -> bool {
        matches!(self.program.rings[0].full, Signal::Mbarrier { .. })
    }

    fn acquire(&mut self, place: &Place, pipeline: &mut Pipeline, clause: &str) {
        // What is filled before the loop was never read.
        if let Some([producer, _]) = &pipeline.cursors {
            self.b.origin(clause, "all threads have read what the slot held");
            self.wait_empty(producer);
        }
        // Sizes that divide leave only the tile past the end to guard against, and one stage never copies that.
        let always = self.plan.tail == Tail::None && pipeline.depth == 1;
        pipeline.full = (!always).then(|| {
            // In the loop the need is known from before it.
            let need = match pipeline.ahead / self.plan.block.k == pipeline.depth - 1 {
                true => pipeline.need.clone(),
                false => self.need(place, pipeline.ahead),
            };
            self.b.origin(clause, "does the next K-tile lie inside?");
            self.b.set_reg(pipeline.rem.clone().ge(need))
        });
    }

    fn commit(&mut self, pipeline: &mut Pipeline, clause: &str) {
        let write = pipeline.write.clone();
        match self.plan.load {
            Load::Registers => {
                for copies in &pipeline.copies {
                    self.land(copies, &write, clause);
                }
            }
            _ if self.free_running() => {}
            _ => {
                self.b.origin(clause, "one group of copies a K-tile");
                self.b.push(KernelOp::CommitCopies);
            }
        }
        // Not with the copies: through registers the multiply stands in between, and the assembler would hold each pointer
        // twice over it.
        for copies in &pipeline.copies {
            self.advance(copies, clause);
        }
        if self.free_running() {
            self.commit_freely(pipeline, clause);
        }
        if pipeline.depth > 1 {
            self.b.origin(clause, "on to the next slot to fill");
            if matches!(write, Expr::Const(_)) {
                // Before the loop nothing is multiplied: the tile that is copied moves on alone.
                pipeline.ahead += self.plan.block.k;
                pipeline.write =
                    Expr::Const((write.bound() + u64::from(pipeline.slot_bytes)) % self.ring_bytes(pipeline));
            } else {
                self.advance_slot(pipeline, &write);
            }
        }
    }

    /// This thread's part of the slot is on its way, and the slot is full when all threads' parts have landed.
    fn commit_freely(&mut self, pipeline: &Pipeline, clause: &str) {
        let when = if self.plan.load == Load::CpAsync { Arrival::WhenCopied } else { Arrival::Now };
        self.b.origin(clause, "this thread's part of the slot");
        match &pipeline.cursors {
            Some([producer, _]) => {
                self.arrive_full(producer, when);
                self.advance_cursor(producer);
            }
            None => {
                let slot = pipeline.write.bound() / u64::from(pipeline.slot_bytes.max(1));
                self.arrive_full(&Self::fixed_cursor(slot as u32), when);
            }
        }
    }

    fn ring_bytes(&self, pipeline: &Pipeline) -> u64 {
        u64::from(pipeline.depth * pipeline.slot_bytes)
    }

    fn wait(&mut self, pipeline: &Pipeline, clause: &str) {
        if let Some([_, consumer]) = &pipeline.cursors {
            self.b.origin(clause, "the K-tile is in shared memory for all threads");
            self.wait_full(consumer);
            return;
        }
        if self.plan.load == Load::CpAsync {
            self.b.origin(clause, "this K-tile's own copies have landed");
            self.b.push(KernelOp::WaitCopies(pipeline.depth.saturating_sub(2)));
        }
        self.b.origin(clause, "the K-tile is in shared memory for all threads");
        self.b.push(KernelOp::Barrier);
    }

    /// Moves a slot variable on, around the ring.
    fn advance_slot(&mut self, pipeline: &Pipeline, slot: &Expr) {
        let bytes = pipeline.slot_bytes;
        let last = (pipeline.depth.max(1) - 1) * bytes;
        match pipeline.depth {
            1 => {}
            2 => self.b.assign(slot, Expr::Const(u64::from(bytes)) - slot.clone()),
            _ => {
                let wraps = slot.clone().ge(last);
                self.b.assign(slot, wraps.select(0u32, slot.clone() + bytes));
            }
        }
    }
}
