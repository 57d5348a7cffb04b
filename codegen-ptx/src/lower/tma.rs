//! Copies K-tiles by the tensor memory accelerator (TMA).
//!
//! One thread of the role starts the copies of a slot's boxes and arrives at the slot's mbarrier with their number of
//! bytes; the phase is complete when that many bytes have been written. Boxes may exceed the matrix: TMA writes zeros
//! there, so one path serves the inside and the edges. K-tiles past the end of k are not copied: no thread would wait
//! for them, and a block must not end while a copy into it is in flight.

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{BoxShare, Extent2, Fast, Param, Side};
use ptx_gemm_dsl::types::Batch;

use super::pipeline::{Boxed, Boxes, OneMore, Pipeline, Share};
use super::planes::Place;
use super::{Lowered, Lowering, WorkTile, broken, letter, misplaced};
use crate::kernel::{Address, Arrival, Expr, Guard, Op as KernelOp, Reg};
use crate::origin::Site;
use crate::tile::{Buffer, Empty, Index, Mover, Op, Ring, Statement};

/// The statements that fill one slot: from an `acquire` through the copies to the `commit`.
pub(super) fn fill(body: &[Statement], ring: usize) -> Lowered<&[Statement]> {
    let end = body.iter().position(|statement| matches!(statement.op, Op::Commit { ring: of } if of == ring));
    let run = end.and_then(|end| body.get(..=end)).unwrap_or(&body[..1]);
    let between = run.get(1..run.len() - 1).unwrap_or_default();
    let apart = between.iter().find(|statement| !matches!(statement.op, Op::Copy { by: Mover::Tma { .. }, .. }));
    match (apart, run.len()) {
        (Some(statement), _) => Err(misplaced(statement)),
        (None, 1) => Err(broken("a slot that tma fills is acquired and not committed")),
        (None, _) => Ok(run),
    }
}

impl<'a> Lowering<'a> {
    /// Prepares the TMA copies into a ring; `None` if the role makes none.
    pub(super) fn boxes(
        &mut self,
        work_tile: &WorkTile,
        ring: &Ring,
        movers: &[(usize, Mover)],
    ) -> Lowered<Option<Boxes>> {
        let mut operands = Vec::new();
        for buffer in &ring.buffers {
            if let Some((_, Mover::Tma { rows, .. })) = movers.iter().find(|(of, _)| of == buffer) {
                operands.push(self.operand(work_tile, *buffer, *rows)?);
            }
        }
        if operands.is_empty() {
            return Ok(None);
        }
        self.b.origin(&ring.note, "one thread starts the copies");
        let leader = self.b.set_reg(self.role.tid.clone().lt(1u32));
        self.b.origin(&self.program.block_note, "first k of the next K-tile");
        let k = self.b.variable(work_tile.k0.clone(), u64::from(u32::MAX));
        let place =
            self.first_place(&work_tile.k0, |lowering| lowering.b.set(work_tile.k0.clone() + work_tile.k.clone()));
        Ok(Some(Boxes { operands, leader, k, place }))
    }

    /// Advances to the next K-tile. With planes, [`Lowering::advance_place`] says which one that is.
    fn advance_boxes(&mut self, boxes: &Boxes) {
        match &boxes.place {
            None => self.b.assign(&boxes.k, boxes.k.clone() + self.program.block.k),
            Some(place) => {
                self.advance_place(&boxes.k, place);
            }
        }
    }

    /// The matrix in the tensor map that the boxes come from: the product of a batch, or a plane of it.
    fn matrix_of(&mut self, operand: &Boxed, place: Option<&Place>) -> Option<Expr> {
        let buffer = &self.program.buffers[operand.buffer];
        let Some(planes) = self.program.planes(buffer.side) else { return operand.product.clone() };
        let plane = match (buffer.plane, place) {
            (Some(plane), _) => Expr::Const(plane.into()),
            (None, Some(place)) => self.plane_of(buffer.side, place),
            (None, None) => return operand.product.clone(),
        };
        Some(self.b.set(match &operand.product {
            Some(product) => product.clone() * planes.count + plane,
            None => plane,
        }))
    }

    fn operand(&mut self, work_tile: &WorkTile, buffer: usize, rows: u32) -> Lowered<Boxed> {
        let tile = &self.program.buffers[buffer];
        self.b.origin(&tile.note, &format!("tensor map of {}", letter(tile.side)));
        let address = self.wide_arg(&Param::Map(tile.side.operand()))?;
        let map = self.b.set_reg(address);
        let product = (self.program.problem.batch == Batch::Strided).then(|| work_tile.product.clone());
        let own = work_tile.own(tile.side).0.clone();
        let row_bytes = tile.panel_row() * self.program.element(tile.side).bytes();
        let (all_rows, panels) = (tile.rows(), tile.panels());
        let width = work_tile.width.clone().filter(|_| tile.side == Side::B);
        let height = self.box_height(tile, rows, width.as_ref());
        let shared = self.program.shares(tile.side);
        let share = if shared { self.share(tile, rows, (&height, row_bytes)) } else { None };
        Ok(Boxed { width, height, buffer, map, own, product, rows, all_rows, row_bytes, panels, share })
    }

    /// Rows of a box: an equal part of the tile's columns, where tiles are only as wide as needed.
    fn box_height(&mut self, tile: &Buffer, rows: u32, width: Option<&Expr>) -> Expr {
        let Some(width) = width else { return Expr::Const(rows.into()) };
        self.b.origin(&tile.note, "columns of a box");
        let boxes = tile.rows() / rows;
        if boxes > 1 { self.b.set(width.clone() / boxes) } else { width.clone() }
    }

    /// The boxes that this block starts for an operand that the blocks of its cluster share, with `height` rows each.
    fn share(&mut self, tile: &Buffer, rows: u32, (height, row_bytes): (&Expr, u32)) -> Option<Share> {
        let Extent2 { m, n } = self.program.scheduler.cluster;
        let sharers = self.program.scheduler.alike(tile.side);
        let (row, col) = self.place_in_cluster(&Expr::Block)?;
        self.b.origin(
            &self.program.scheduler.cluster_note,
            &format!("the boxes of {} that this block copies", letter(tile.side)),
        );
        // The rank of this block among those that share, and the bits of all of them.
        let (own, other, bits, step, others) = match tile.side {
            Side::A => (col, row, (0..n).fold(0, |bits: u64, col| bits | 1 << (col * m)), 1, m),
            Side::B => (row, col, (1 << m) - 1, m, n),
        };
        let bits = (1..others).fold(Expr::Const(bits), |mask, place| {
            other.clone().ge(place).select(Expr::Const(bits << (place * step)), mask)
        });
        let blocks = self.b.set_reg(bits);
        let per_panel = tile.rows() / rows;
        let of = BoxShare::of(tile.panels(), per_panel, sharers)?;
        let more = (of.extra > 0).then(|| self.one_more(tile, rows, (&own, of, sharers)));
        let shares = per_panel / of.per_panel;
        let (panel, before) = if of.per_panel == per_panel {
            (own * of.panels, Expr::Const(0))
        } else if of.panels == 1 {
            (own.clone() / shares, own % shares)
        } else {
            (Expr::Const(0), own)
        };
        let first = match height {
            Expr::Const(_) => before * (of.per_panel * rows),
            height => before * of.per_panel * height.clone(),
        };
        let (panel, first) = (self.b.set(panel), self.b.set(first));
        let column = self.b.set(panel.clone() * tile.pitch);
        let bytes = self.b.set((panel * tile.rows() + first.clone()) * row_bytes);
        Some(Share { blocks, of, more, column, first, bytes })
    }

    /// If the boxes of a panel do not divide evenly, the lowest-ranked blocks each start one of those left over. `own` is this
    /// block's rank among the sharers.
    fn one_more(&mut self, tile: &Buffer, rows: u32, (own, of, sharers): (&Expr, BoxShare, u32)) -> OneMore {
        let row_bytes = tile.panel_row() * self.program.element(tile.side).bytes();
        let starts = self.b.set_reg(self.role.tid.clone().lt(1u32).and(own.clone().lt(of.extra)));
        let first = (own.clone().min(Expr::from(of.extra - 1)) + sharers * of.per_panel) * rows;
        let first = self.b.set(first);
        let bytes = self.b.set(first.clone() * row_bytes);
        OneMore { starts, first, bytes }
    }

    /// Lowers the statements from an `acquire` to its `commit`.
    pub(super) fn fill_by_tma(
        &mut self,
        pipeline: &mut Pipeline<'a>,
        ring: usize,
        run: &'a [Statement],
    ) -> Lowered<()> {
        let (in_loop, rem) = (pipeline.in_loop, pipeline.rem.clone());
        let state = &mut pipeline.rings[ring];
        let (Some(boxes), Some(slot)) = (state.boxes.take(), state.write.clone()) else {
            return Err(broken("a copy into a ring that the role does not fill"));
        };
        let next = if in_loop { Index::Ahead(state.ahead) } else { Index::At(state.ahead) };
        let [acquire, copies @ .., commit] = run else { return Err(broken("a slot that is not filled")) };
        let cursor = self.next_to_fill(state, in_loop).ok_or_else(|| broken("tma needs a ring with mbarriers"))?;
        self.b.origin(&acquire.note, "is there another K-tile?");
        let distance = state.ahead * self.taken();
        // Before the loop and in it, `rem` counts from the K-tile that is read.
        let exists = (distance > 0).then(|| self.b.set_reg(rem.ge(distance + 1)));
        // In a ring that continues in the next tile, only slots that are used count.
        let around = exists.filter(|_| state.carried);
        if around.is_some() {
            self.b.open();
        }
        // The thread that starts the copies stays with its warp: otherwise the other threads could be an iteration
        // ahead when the warp reconverges. So its warp waits as a whole, and the copies are guarded instead of branched
        // around.
        self.b.origin(&acquire.note, "the warp of the thread that starts the copies");
        let warp = self.starting_warp(exists.filter(|_| !state.carried));
        if warp.is_some() {
            self.b.open();
        }
        if let (true, Empty::Mbarrier { .. }) = (in_loop || state.carried, state.ring.empty) {
            self.b.origin(&acquire.note, "all threads have read what the slot held");
            self.wait_empty(&cursor);
        }
        self.b.origin(&acquire.note, "one thread starts the copies");
        let guard = Some(Guard { pred: boxes.leader, expect: true });
        let barrier = self.full_barrier(&cursor);
        let mut bytes = 0;
        let mut counted: Option<Expr> = None;
        for statement in copies {
            let Op::Copy { buffer, tile, .. } = &statement.op else { return Err(misplaced(statement)) };
            let operand = boxes.operands.iter().find(|operand| operand.buffer == *buffer);
            let operand = operand.ok_or_else(|| misplaced(statement))?;
            if *tile != next {
                return Err(broken("K-tiles must be copied in ascending order, one per iteration of the loop")
                    .within(format_args!("copy of {}", self.program.buffers[*buffer].name)));
            }
            self.start_boxes(operand, &boxes, &slot, barrier, (statement, guard));
            match &operand.width {
                None => bytes += operand.panels * operand.all_rows * operand.row_bytes,
                Some(width) => {
                    let own = width.clone() * (operand.panels * operand.row_bytes);
                    counted = Some(match counted {
                        None => own,
                        Some(other) => other + own,
                    });
                }
            }
        }
        self.b.origin(&commit.note, "the slot is full once its bytes have arrived");
        let when = match counted {
            None => Arrival::Expecting(bytes),
            Some(counted) => Arrival::ExpectingIn(self.b.set_reg(counted + bytes)),
        };
        self.b.push(KernelOp::Arrive { address: barrier, when, guard });
        if let Some(warp) = warp {
            let then = self.b.close();
            self.b.origin(&acquire.note, "the warp of the thread that starts the copies");
            self.b.branch(warp, then, Vec::new());
        }
        self.b.origin_at(Site::NextKTile, &commit.note, "advance to the next K-tile");
        self.advance_boxes(&boxes);
        state.boxes = Some(boxes);
        self.advance_producer(state, in_loop, &slot, &commit.note);
        if let Some(exists) = around {
            let then = self.b.close();
            self.b.origin(&acquire.note, "is there another K-tile?");
            self.b.branch(exists, then, Vec::new());
        }
        Ok(())
    }

    /// Whether this warp contains the thread that starts the copies, and `exists` holds; `None` if that is certain.
    fn starting_warp(&mut self, exists: Option<Reg>) -> Option<Reg> {
        let first = (self.role.threads > WARP).then(|| self.role.tid.clone().lt(WARP));
        match (first, exists) {
            (None, exists) => exists,
            (Some(first), None) => Some(self.b.set_reg(first)),
            (Some(first), Some(exists)) => Some(self.b.set_reg(first.and(Expr::Reg(exists, 1)))),
        }
    }

    /// Starts the copies of one buffer's boxes.
    fn start_boxes(
        &mut self,
        operand: &Boxed,
        all: &Boxes,
        slot: &Expr,
        barrier: Address,
        (statement, guard): (&Statement, Option<Guard>),
    ) {
        let tile = &self.program.buffers[operand.buffer];
        let matrix = self.matrix_of(operand, all.place.as_ref());
        let k = &all.k;
        self.b.origin(&statement.note, &format!("copy {}", letter(tile.side)));
        let mut to = Expr::SharedBase + tile.offset_bytes + slot.clone();
        let (mut along, mut across) = match tile.fast {
            Fast::K => (k.clone(), operand.own.clone()),
            Fast::Mn => (operand.own.clone(), k.clone()),
        };
        let per_panel = operand.all_rows / operand.rows;
        let mut boxes = BoxShare { panels: operand.panels, per_panel, extra: 0 };
        let (start, across_all) = (to.clone(), across.clone());
        if let Some(share) = &operand.share {
            to = to + share.bytes.clone();
            (along, across) = (along + share.column.clone(), across + share.first.clone());
            boxes = share.of;
        }
        let blocks = operand.share.as_ref().map(|share| share.blocks);
        let to = self.b.set(to);
        for index in 0..boxes.boxes() {
            let (panel, before) = (index / boxes.per_panel, index % boxes.per_panel);
            // The distance between boxes of narrow tiles is their height.
            let (fixed, moved) = match &operand.height {
                Expr::Const(_) => (before * operand.rows, None),
                height => (0, (before > 0).then(|| height.clone() * before)),
            };
            let (mut outer, mut base) = (across.clone() + fixed, to.clone());
            if let Some(moved) = moved {
                (outer, base) = (outer + moved.clone(), base + moved * operand.row_bytes);
            }
            let coordinates = [Some(along.clone() + panel * tile.pitch), Some(outer), matrix.clone()];
            let at = coordinates.into_iter().flatten().map(|coordinate| self.b.set_reg(coordinate)).collect();
            let address = Address {
                base: self.b.set_reg(base),
                offset: i64::from((panel * operand.all_rows + fixed) * operand.row_bytes),
            };
            self.b.push(KernelOp::CopyBox { to: address, map: operand.map, at, barrier, blocks, guard });
        }
        let Some(more) = operand.share.as_ref().and_then(|share| share.more.as_ref()) else { return };
        let to = self.b.set(start + more.bytes.clone());
        for panel in 0..boxes.panels {
            let outer = across_all.clone() + more.first.clone();
            let coordinates = [Some(along.clone() + panel * tile.pitch), Some(outer), matrix.clone()];
            let at = coordinates.into_iter().flatten().map(|coordinate| self.b.set_reg(coordinate)).collect();
            let offset = i64::from(panel * operand.all_rows * operand.row_bytes);
            let address = Address { base: self.b.set_reg(to.clone()), offset };
            let guard = Some(Guard { pred: more.starts, expect: true });
            self.b.push(KernelOp::CopyBox { to: address, map: operand.map, at, barrier, blocks, guard });
        }
    }
}
