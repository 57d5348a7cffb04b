//! The pipeline of one role over staged K-tiles: copies, waits and the multiply, slot by slot.
//!
//! Each ring has its own slots, cursors and K-tiles: a role may copy into a ring that it does not read, read one that
//! it does not copy into, or use two rings of different depth. Slots are constants before the loop; in the loop they
//! are registers that wrap around the ring. The pointers of a copy advance by one K-tile with each commit of its ring,
//! so the K-tiles of a ring are copied in ascending order; a program that copies them in another order is rejected.

use ptx_gemm_dsl::terms::Tail;

use super::copy::Copies;
use super::pipeline::{Pipeline, RingState};
use super::planes::Walked;
use super::ring::Carried;
use super::tma;
use super::{Lowered, Lowering, WorkTile, broken, misplaced};
use crate::kernel::{Arrival, Expr, Op as KernelOp, Reg};
use crate::origin::Site;
use crate::tile::{self, Empty, Full, Hold, Index, Mover, Note, Op, Ring, Statement};

/// The set to which a statement adds products of warp groups.
fn products_of(statement: &Statement) -> Option<usize> {
    match &statement.op {
        Op::Steps { multiply, .. } if matches!(multiply.by, tile::Instruction::Wgmma { .. }) => Some(multiply.acc),
        _ => None,
    }
}

/// Whether anything is multiplied in these statements.
fn multiplies(body: &[Statement]) -> bool {
    let mut found = false;
    tile::walk(body, &mut |statement| found |= matches!(statement.op, Op::Steps { .. }));
    found
}

/// The copies that a role's threads make into a ring.
fn copies_into<'c>(copies: &'c [Copies], ring: &Ring) -> Vec<&'c Copies> {
    copies.iter().filter(|copies| ring.buffers.contains(&copies.buffer)).collect()
}

impl<'a> Lowering<'a> {
    /// Lowers the statements that run only if there is something to sum over.
    ///
    /// Copies through registers compute their addresses before the branch, all others inside it. Both orders are correct, but
    /// ptxas makes much faster code of these. When
    /// the number of registers was still left to ptxas, a 256 x 128 tile fed by cp.async reached 52.1 instead of 48.7
    /// TFLOP/s with the addresses inside the branch (H200, 4096), and `lab3` reached 33.2 instead of 24.2 with them
    /// before it.
    pub(super) fn staged(&mut self, work_tile: &WorkTile, body: &'a [Statement], note: &Note) -> Lowered<()> {
        let mut through_registers = false;
        tile::walk(body, &mut |statement| {
            through_registers |= matches!(statement.op, Op::Copy { by: Mover::Registers { .. }, .. });
        });
        let prepared = if through_registers { Some(self.prepare(work_tile, body)?) } else { None };
        self.b.origin_at(Site::AnythingToSum, note, "is there anything to sum over?");
        let some = self.b.set_reg(work_tile.k.clone().ge(1u32));
        self.b.open();
        let grain = self.program.grain().filter(|_| multiplies(body));
        match (prepared, grain) {
            (None, Some(grain)) => self.narrower(work_tile, body, self.program.block.n, grain, note)?,
            (prepared, _) => {
                let mut pipeline = match prepared {
                    Some(pipeline) => pipeline,
                    None => self.prepare(work_tile, body)?,
                };
                self.stage(work_tile, &mut pipeline, body)?;
            }
        }
        let then = self.b.close();
        self.b.open();
        // Ordered barriers are passed on even without K-tiles.
        for statement in body.iter().filter(|statement| matches!(statement.op, Op::Pass { .. })) {
            self.unscoped(statement);
        }
        let other = self.b.close();
        self.products.has_products.fill(false);
        self.b.origin_at(Site::AnythingToSum, note, "is there anything to sum over?");
        self.b.branch(some, then, other);
        Ok(())
    }

    /// Lowers the statements once for each number of columns, from `columns` down to `grain`. The first version that
    /// covers the tile's columns runs. All threads of a warp group take the same branch.
    ///
    /// One loop with a branch around its products would be a third of the code, but ptxas then completes each product before the
    /// next one (13.0: C7520, and C7519 for wide tiles).
    fn narrower(
        &mut self,
        work_tile: &WorkTile,
        body: &'a [Statement],
        columns: u32,
        grain: u32,
        note: &Note,
    ) -> Lowered<()> {
        if columns == grain {
            return self.narrowed(work_tile, body, columns);
        }
        self.b.origin_at(Site::WiderThan, note, &format!("has the tile more than {} columns?", columns - grain));
        let more = self.b.set_reg(work_tile.rem_n.clone().ge(columns - grain + 1));
        self.b.open();
        self.narrowed(work_tile, body, columns)?;
        let then = self.b.close();
        self.b.open();
        self.narrower(work_tile, body, columns - grain, grain, note)?;
        let other = self.b.close();
        self.b.origin_at(Site::WiderThan, note, &format!("has the tile more than {} columns?", columns - grain));
        self.b.branch(more, then, other);
        Ok(())
    }

    /// Lowers the statements for a tile of at most `columns` columns.
    fn narrowed(&mut self, work_tile: &WorkTile, body: &'a [Statement], columns: u32) -> Lowered<()> {
        self.products.columns = Some(columns);
        let mut pipeline = self.prepare(work_tile, body)?;
        self.stage(work_tile, &mut pipeline, body)?;
        self.products.columns = None;
        Ok(())
    }

    /// Computes addresses, and what is left of k.
    fn prepare(&mut self, work_tile: &WorkTile, body: &'a [Statement]) -> Lowered<Pipeline<'a>> {
        let program = self.program;
        let (mut movers, mut read, mut distances) = (Vec::new(), Vec::new(), Vec::new());
        let mut described = Vec::new();
        tile::walk(body, &mut |statement| match &statement.op {
            Op::Copy { buffer, tile, by } => {
                if !movers.iter().any(|(copied, _)| copied == buffer) {
                    movers.push((*buffer, *by));
                }
                if let (Index::Ahead(distance), Some(_)) = (tile, by.chunk())
                    && !distances.contains(distance)
                {
                    distances.push(*distance);
                }
            }
            Op::Steps { fetches, .. } => {
                for (fetch, _) in fetches {
                    if let tile::Source::Buffer(buffer) = fetch.from
                        && !read.contains(&buffer)
                    {
                        read.push(buffer);
                        if fetch.hold == Hold::Descriptor {
                            described.push(buffer);
                        }
                    }
                }
            }
            _ => {}
        });
        let copied: Vec<usize> = movers.iter().map(|(buffer, _)| *buffer).collect();
        let copies = movers
            .iter()
            .filter(|(_, by)| by.chunk().is_some())
            .map(|(buffer, by)| self.copies(work_tile, *buffer, *by))
            .collect::<Lowered<Vec<_>>>()?;
        let boxes =
            program.rings.iter().map(|ring| self.boxes(work_tile, ring, &movers)).collect::<Lowered<Vec<_>>>()?;
        let bases = read
            .iter()
            .filter(|buffer| !described.contains(buffer))
            .map(|buffer| Ok((*buffer, self.fragment_base(work_tile, *buffer, body)?)))
            .collect::<Lowered<Vec<_>>>()?;
        // Copies of planes use the k left in the planes instead.
        let of_planes = program.planes_apart().is_some();
        let need = |this: &mut Self, distance| this.need(work_tile, if of_planes { 0 } else { distance });
        let needs = distances.into_iter().map(|distance| (distance, need(self, distance))).collect();
        let walked = program.rings.iter().map(|ring| {
            let copies: Vec<&Copies> = copies_into(&copies, ring);
            self.walk_planes(work_tile, &copies)
        });
        let walked: Vec<Option<Walked>> = walked.collect();
        let start = |used: bool| used.then_some(Expr::Const(0));
        let rings = program
            .rings
            .iter()
            .zip(boxes.into_iter().zip(walked))
            .zip(self.position.carried.clone())
            .map(|((ring, (boxes, walked)), carried)| match carried {
                None => RingState {
                    ring,
                    write: start(ring.buffers.iter().any(|b| copied.contains(b))),
                    read: start(ring.buffers.iter().any(|b| read.contains(b))),
                    ahead: 0,
                    producer: None,
                    consumer: None,
                    boxes,
                    walked,
                    kept: None,
                    carried: false,
                },
                Some(Carried { write, read }) => {
                    let (write, producer) = write.unzip();
                    let (read, consumer) = read.unzip();
                    let (kept, carried) = (None, true);
                    RingState { ring, write, read, ahead: 0, producer, consumer, boxes, walked, kept, carried }
                }
            })
            .collect();
        self.b.origin(&program.block_note, "K left");
        let rem = match program.planes_apart() {
            None => self.b.variable(work_tile.k.clone(), work_tile.k.bound()),
            Some(_) => {
                let k_tiles = self.k_tiles(&work_tile.k);
                self.b.variable(k_tiles, u64::from(u32::MAX))
            }
        };
        Ok(Pipeline { rings, copies, bases, rem, needs, in_chunk: None, in_loop: false })
    }

    /// K-tiles of a sum over k, those of all pairs of planes included.
    pub(super) fn k_tiles(&mut self, k: &Expr) -> Expr {
        let depth = self.program.block.k;
        let k_tiles = self.b.set((k.clone() + (depth - 1)) / depth);
        match self.program.planes_apart() {
            None => k_tiles,
            Some(walk) => k_tiles * walk.pairs.len() as u32,
        }
    }

    /// By how much one K-tile reduces `rem`: by its depth, or by 1 with planes, where `rem` counts K-tiles.
    pub(super) fn taken(&self) -> u32 {
        if self.program.planes_apart().is_some() { 1 } else { self.program.block.k }
    }

    /// The k that must be left for a copy of the tile `ahead` tiles later to need no guards.
    fn need(&mut self, work_tile: &WorkTile, ahead: u32) -> Expr {
        self.b.origin_at(Site::KNeeded, &self.program.tail_note, "K needed for a copy without guards");
        let need = self.program.block.k * (ahead + 1);
        match work_tile.interior {
            Some(interior) => self.b.set(Expr::Reg(interior, 1).select(need, u64::from(u32::MAX))),
            None => Expr::Const(u64::from(need)),
        }
    }

    fn stage(&mut self, work_tile: &WorkTile, pipeline: &mut Pipeline<'a>, body: &'a [Statement]) -> Lowered<()> {
        // Adjacent copies of one K-tile share a branch.
        let run = |one: &Statement, next: &Statement| match (&one.op, &next.op) {
            (Op::Copy { tile, .. }, Op::Copy { tile: next, .. }) => tile == next,
            _ => false,
        };
        let (mut rest, mut previous) = (body, None);
        while let Some(statement) = rest.first() {
            let filled = match statement.op {
                Op::Acquire { ring } => pipeline.rings[ring].boxes.is_some().then_some(ring),
                _ => None,
            };
            let run = match filled {
                Some(ring) => tma::fill(rest, ring)?,
                None => rest.chunk_by(run).next().unwrap_or(rest),
            };
            rest = &rest[run.len()..];
            // Consecutive products into the same accumulator set form one group, within a statement or body and across
            // to the next.
            let products = products_of(&run[0]);
            if products.is_none() || previous != products {
                self.products.multiplying = None;
            }
            previous = products;
            self.products.more_follow = products.is_some() && rest.first().and_then(products_of) == products;
            if let Some(ring) = filled {
                self.fill_by_tma(pipeline, ring, run)?;
                continue;
            }
            let exists = self.exists(pipeline, &run[0]);
            if exists.is_some() {
                self.b.open();
            }
            if pipeline.in_loop && matches!(run[0].op, Op::Wait { .. }) {
                self.describe_ahead(pipeline, rest.first())?;
            }
            match &run[0].op {
                Op::Copy { tile, .. } => self.copy_run(work_tile, pipeline, *tile, run)?,
                Op::IfChunkEnds { body } if pipeline.in_loop => {
                    self.end_chunk(work_tile, pipeline, body, &run[0].note)?
                }
                Op::Loop { body } if !pipeline.in_loop => self.k_loop(work_tile, pipeline, body, &run[0].note)?,
                _ => self.stage_statement(pipeline, &run[0])?,
            }
            if let Some(exists) = exists {
                let then = self.b.close();
                self.b.origin(&run[0].note, "is there another K-tile?");
                self.b.branch(exists, then, Vec::new());
            }
        }
        Ok(())
    }

    /// Whether the K-tile for a slot exists, in a ring that continues in the next tile. Copies through registers read
    /// zeros past the end, which `commit` then does not store.
    fn exists(&mut self, pipeline: &Pipeline<'a>, statement: &Statement) -> Option<Reg> {
        let ring = match &statement.op {
            Op::Acquire { ring } | Op::Commit { ring } => *ring,
            Op::Copy { buffer, by: Mover::CpAsync { .. }, .. } => self.program.ring_of(*buffer)?,
            _ => return None,
        };
        let state = &pipeline.rings[ring];
        if !state.carried || state.ahead == 0 {
            return None;
        }
        self.b.origin(&statement.note, "is there another K-tile?");
        Some(self.b.set_reg(pipeline.rem.clone().ge(state.ahead * self.taken() + 1)))
    }

    fn k_loop(
        &mut self,
        work_tile: &WorkTile,
        pipeline: &mut Pipeline<'a>,
        body: &'a [Statement],
        note: &Note,
    ) -> Lowered<()> {
        for (index, state) in pipeline.rings.iter_mut().enumerate() {
            self.enter_loop(state);
            let keeps =
                |statement: &Statement| matches!(statement.op, Op::Release { ring, kept } if ring == index && kept > 0);
            if body.iter().any(keeps) {
                self.b.origin_at(Site::NoSlotKept, &state.ring.note, "no slot is to be returned yet");
                state.kept = self.keep(state.ring);
            }
        }
        let chunks = body.iter().any(|statement| matches!(statement.op, Op::IfChunkEnds { .. }));
        if chunks {
            self.b.origin(note, "K-tiles of the chunk so far");
            pipeline.in_chunk = Some(self.b.variable(Expr::Const(0), u64::from(u32::MAX)));
        }
        pipeline.in_loop = true;
        self.b.origin(note, "over the K-tiles");
        self.b.open();
        self.products.has_products.fill(false);
        self.stage(work_tile, pipeline, body)?;
        self.b.origin(note, "K left after this tile");
        let rem = pipeline.rem.clone();
        // Never below 0.
        let depth = self.taken();
        self.b.assign(&rem, rem.clone().max(depth.into()) - depth);
        let again = self.b.set_reg(rem.ge(1u32));
        let body = self.b.close();
        self.b.origin(note, "over the K-tiles");
        self.b.push(KernelOp::Loop { body, again });
        pipeline.in_loop = false;
        Ok(())
    }

    /// Lowers the statements after the last K-tile of a chunk, or of the sum.
    fn end_chunk(
        &mut self,
        work_tile: &WorkTile,
        pipeline: &mut Pipeline<'a>,
        body: &'a [Statement],
        note: &Note,
    ) -> Lowered<()> {
        let (Some(k_tiles), Some(so_far)) = (self.program.k_tiles_of_chunk(), pipeline.in_chunk.clone()) else {
            return Err(broken("k has no chunks"));
        };
        self.b.origin(note, "was this the last K-tile of the chunk?");
        self.b.assign(&so_far, so_far.clone() + 1u32);
        let whole = so_far.clone().ge(k_tiles);
        let more = pipeline.rem.clone().ge(self.taken() + 1);
        let goes_on = self.b.set(Expr::Not(Box::new(whole)).and(more));
        let ends = self.b.set_reg(Expr::Not(Box::new(goes_on)));
        self.b.open();
        let before = self.products.has_products.clone();
        self.stage(work_tile, pipeline, body)?;
        self.products.has_products.iter_mut().zip(before).for_each(|(has, had)| *has &= had);
        self.b.assign(&so_far, Expr::Const(0));
        let then = self.b.close();
        self.b.branch(ends, then, Vec::new());
        Ok(())
    }

    /// Sets the slots of a ring for the start of the loop.
    fn enter_loop(&mut self, state: &mut RingState<'_>) {
        let ring = state.ring;
        if state.carried {
            return;
        }
        if ring.depth > 1 {
            self.b.origin_at(Site::FirstSlots, &ring.note, "first slots to read and to fill");
            let bound = u64::from(ring.depth - 1) * u64::from(ring.slot_bytes);
            for slot in [&mut state.read, &mut state.write].into_iter().flatten() {
                *slot = self.b.variable(slot.clone(), bound);
            }
        }
        self.b.origin(&ring.mbarrier_note, "first mbarriers and parities to wait for");
        if state.write.is_some() {
            // On a new mbarrier, a wait for the phase of parity 1 succeeds.
            let parity = 1 ^ (state.ahead / ring.depth % 2);
            state.producer = self.cursor(ring, state.ahead % ring.depth, parity);
        }
        if state.read.is_some() {
            state.consumer = self.cursor(ring, 0, 0);
        }
    }

    /// Lowers adjacent copies of one K-tile.
    fn copy_run(
        &mut self,
        work_tile: &WorkTile,
        pipeline: &mut Pipeline<'a>,
        tile: Index,
        run: &'a [Statement],
    ) -> Lowered<()> {
        let mut operands: Vec<(&Copies, &Note)> = Vec::new();
        let (mut slot, mut walked) = (None, None);
        for statement in run {
            let Op::Copy { buffer, .. } = &statement.op else { return Err(misplaced(statement)) };
            let copies = pipeline.copies.iter().find(|copies| copies.buffer == *buffer);
            let state = self.program.ring_of(*buffer).map(|ring| &pipeline.rings[ring]);
            let (Some(copies), Some(state)) = (copies, state) else { return Err(misplaced(statement)) };
            let next = if pipeline.in_loop { Index::Ahead(state.ahead) } else { Index::At(state.ahead) };
            if tile != next {
                return Err(broken("K-tiles must be copied in ascending order, one per iteration of the loop")
                    .within(format_args!("copy of {}", self.program.buffers[*buffer].name)));
            }
            if operands.iter().any(|(other, _)| other.is_async != copies.is_async)
                || slot.is_some_and(|slot| slot != state.write.as_ref())
            {
                return Err(broken("adjacent copies of one K-tile must fill one slot by the same mechanism"));
            }
            slot = Some(state.write.as_ref());
            walked = state.walked.as_ref();
            operands.push((copies, &statement.note));
        }
        let Some(Some(slot)) = slot else { return Err(broken("a copy into a ring that the role does not fill")) };
        let depth = self.program.block.k;
        let (distance, need) = match tile {
            Index::Ahead(distance) => {
                let prepared = pipeline.needs.iter().find(|(of, _)| *of == distance);
                (distance, prepared.map(|(_, need)| need.clone()))
            }
            Index::At(n) => (n, None),
        };
        let (rem, distance) = match walked {
            Some(walked) => (self.left_in_planes(work_tile, walked), 0),
            None => (pipeline.rem.clone(), distance),
        };
        // If sizes are multiples of the tile, only the tile past the end needs a guard, and the copy of the loop's own
        // tile is never past the end. With planes, the loop's condition does not bound what is left of k.
        let always = self.program.tail == Tail::None && tile == Index::Ahead(0) && walked.is_none();
        let full = (!always).then(|| self.lies_inside(work_tile, &rem, distance, need));
        self.copy(work_tile, &operands, full, (&rem, distance * depth), slot)
    }

    /// Tests whether the K-tile `distance` tiles ahead is inside the operands.
    fn lies_inside(&mut self, work_tile: &WorkTile, rem: &Expr, distance: u32, need: Option<Expr>) -> Reg {
        let need = need.unwrap_or_else(|| self.need(work_tile, distance));
        self.b.origin_at(Site::KTileInside, &self.program.tail_note, "does the next K-tile lie inside?");
        self.b.set_reg(rem.clone().ge(need))
    }

    fn stage_statement(&mut self, pipeline: &mut Pipeline<'a>, statement: &'a Statement) -> Lowered<()> {
        let note = &statement.note;
        match &statement.op {
            Op::Acquire { ring } => {
                // Slots filled before the loop have not been read yet, unless the ring continues from tile to tile.
                let state = pipeline.ring(*ring);
                if let (Some(producer), Empty::Mbarrier { .. }) = (state.producer.clone(), state.ring.empty) {
                    self.b.origin(note, "all threads have read what the slot held");
                    self.wait_empty(&producer);
                }
                Ok(())
            }
            Op::Commit { ring } => self.commit(pipeline, *ring, note),
            Op::Wait { ring } if pipeline.in_loop => self.wait(pipeline.ring(*ring), note),
            Op::Release { ring, kept: 0 } if pipeline.in_loop => self.release(pipeline.ring(*ring), note),
            Op::Release { ring, .. } if pipeline.in_loop => self.release_previous(pipeline.ring(*ring), note),
            // After the loop.
            Op::Release { ring, kept: 0 } => self.release_kept(pipeline.ring(*ring), note),
            Op::Steps { .. } if pipeline.in_loop => self.steps(pipeline, statement),
            _ if self.unscoped(statement) => Ok(()),
            _ => Err(misplaced(statement)),
        }
    }

    fn commit(&mut self, pipeline: &mut Pipeline<'a>, ring: usize, note: &Note) -> Lowered<()> {
        let in_loop = pipeline.in_loop;
        let state = &mut pipeline.rings[ring];
        let Some(write) = state.write.clone() else {
            return Err(broken("a commit of a slot that the role does not fill"));
        };
        let ring = state.ring;
        let copies = copies_into(&pipeline.copies, ring);
        for copies in copies.iter().filter(|copies| !copies.is_async) {
            self.land(copies, &write, note)?;
        }
        if matches!(ring.full, Full::CopyGroups { .. }) {
            self.b.origin(note, "one group of copies per K-tile");
            self.b.push(KernelOp::CommitCopies);
        }
        // Not directly after the copies: with copies through registers the multiply is in between, and the assembler
        // would keep two copies of each pointer across it.
        match &state.walked {
            Some(walked) => self.advance_planes(walked, &copies, note),
            None => copies.iter().for_each(|copies| self.advance(copies, note)),
        }
        let when = if copies.iter().any(|c| c.is_async) { Arrival::WhenCopied } else { Arrival::Now };
        let cursor = self.next_to_fill(state, in_loop);
        if let (Some(cursor), Full::Mbarrier { .. }) = (&cursor, ring.full) {
            self.b.origin(note, "this thread has filled its part of the slot");
            self.arrive_full(cursor, when);
        }
        self.advance_producer(state, in_loop, &write, note);
        Ok(())
    }

    fn wait(&mut self, state: &RingState<'_>, note: &Note) -> Lowered<()> {
        match state.ring.full {
            Full::Mbarrier { .. } => {
                let Some(consumer) = &state.consumer else {
                    return Err(broken("a wait for a ring that the role does not read"));
                };
                self.b.origin(note, "the K-tile is in shared memory for all threads");
                self.wait_full(consumer);
                return Ok(());
            }
            Full::CopyGroups { in_flight } => {
                self.b.origin(note, "wait for this thread's copies of the K-tile");
                self.b.push(KernelOp::WaitCopies(in_flight));
            }
            Full::Barrier => {}
        }
        self.b.origin(note, "the K-tile is in shared memory for all threads");
        self.b.push(KernelOp::Barrier);
        Ok(())
    }

    /// Returns the slot before the last one that was waited for, if any, and keeps the last one.
    fn release_previous(&mut self, state: &RingState<'_>, note: &Note) -> Lowered<()> {
        let (Some(read), Some(consumer), Some(kept)) = (&state.read, &state.consumer, &state.kept) else {
            return Err(broken("only a ring with mbarriers gets a slot back one K-tile later"));
        };
        self.b.origin_at(Site::PreviousSlotRead, note, "the previous slot has been read");
        let some = self.b.set_reg(kept.some.clone().ge(1u32));
        self.arrive_empty(state.ring, &kept.at, Some(some));
        self.b.origin_at(Site::NextSlot, note, "advance to the next slot");
        self.move_cursor(&kept.at, consumer);
        self.b.assign(&kept.some, Expr::Const(1));
        self.advance_cursor(consumer);
        self.advance_slot(state.ring, read);
        Ok(())
    }

    /// Returns the kept slot.
    fn release_kept(&mut self, state: &RingState<'_>, note: &Note) -> Lowered<()> {
        let Some(kept) = &state.kept else { return Err(broken("no slot was kept in the loop")) };
        self.b.origin_at(Site::LastSlotRead, note, "the last slot has been read");
        self.arrive_empty(state.ring, &kept.at, None);
        Ok(())
    }

    fn release(&mut self, state: &RingState<'_>, note: &Note) -> Lowered<()> {
        let Some(read) = &state.read else { return Err(broken("a release of a ring that the role does not read")) };
        if state.ring.empty == Empty::Barrier {
            self.b.origin(note, "all threads are done with this K-tile");
            self.b.push(KernelOp::Barrier);
        }
        if let Some(consumer) = &state.consumer {
            self.b.origin_at(Site::SlotRead, note, "this thread has read the slot");
            if let Empty::Mbarrier { .. } = state.ring.empty {
                self.arrive_empty(state.ring, consumer, None);
            }
            self.advance_cursor(consumer);
        }
        self.b.origin_at(Site::NextSlot, note, "advance to the next slot");
        self.advance_slot(state.ring, read);
        Ok(())
    }
}
