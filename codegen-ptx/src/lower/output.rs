//! The stage of D in shared memory: the addresses of its elements, and the copy to global memory.
//!
//! One thread starts TMA copies of its boxes, which skip elements outside D. Otherwise the threads copy the tile in
//! chunks along its lines, with the widest accesses if the tile is inside D, and element by element at an edge.

use ptx_gemm_dsl::terms::{Operand, Param, Reads, Swizzle};
use ptx_gemm_dsl::types::{Batch, Layout};

use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::extent::Access;
use crate::kernel::{Address, Expr, Guard, Locality, Memory, Op, Reg};
use crate::origin::Site;
use crate::tile::{Note, Stage, StagePlace, Writer};

/// Most parts of lines that a thread copies at once. Several loads in flight hide the latency of shared memory.
const MOST_AT_ONCE: u32 = 8;

/// The part of D that a tile covers.
struct Plane {
    /// Address of its first element.
    base: Expr,
    ld_bytes: Expr,
    access: Access,
    /// Lines of D, and elements of each, from there on.
    left: (Expr, Expr),
}

/// How a thread copies a part of a line.
struct Part {
    /// Elements of it, and those of one access to D.
    chunk: u32,
    width: u32,
    /// Whether some of them may be outside D.
    at_edge: bool,
    plane: Plane,
}

/// A part of a line: its index, its address in shared memory and its address in D.
#[derive(Clone)]
struct Place {
    line: Expr,
    element: Expr,
    /// The address in shared memory, and bytes from there.
    from: Expr,
    offset: i64,
    /// The address in D.
    to: Expr,
}

impl Lowering<'_> {
    pub(super) fn the_stage(&self) -> Lowered<&Stage> {
        self.program.stage.as_ref().ok_or_else(|| broken("the program has no stage of d"))
    }

    /// Byte offset of the stage, or of the first of the slots that hold it.
    pub(super) fn stage_start(&self) -> Lowered<u32> {
        Ok(match self.the_stage()?.place {
            StagePlace::At(offset_bytes) => offset_bytes,
            StagePlace::Slots(_) => self.program.lent().map_or(0, |lent| lent.first_bytes),
        })
    }

    /// Byte offset of an element of this thread's staged tile from the first element of the stage, before the swizzle.
    /// In slots: from the first element of its panel.
    pub(super) fn stage_offset(&mut self, line: Expr, element: Expr) -> Lowered<Expr> {
        let (lines, bytes) = (self.program.lines(), self.program.problem.types.d.bytes());
        let pitch = self.the_stage()?.pitch;
        let offset = if self.program.lent().is_some() {
            line * (pitch * bytes) + (element % pitch) * bytes
        } else if pitch >= lines.elements {
            line * (pitch * bytes) + element * bytes
        } else {
            let panel = self.b.set(element.clone() / pitch);
            panel * (lines.count * pitch * bytes) + line * (pitch * bytes) + (element % pitch) * bytes
        };
        Ok(match &self.role.groups {
            None => offset,
            Some(groups) => offset + groups.stage.clone(),
        })
    }

    /// The panel of an element of a line, `position` elements after another one. If all threads start in the first
    /// panel, the position alone determines it.
    pub(super) fn panel_of(&self, element: &Expr, position: u32) -> Lowered<Expr> {
        let pitch = self.the_stage()?.pitch;
        Ok(match element.bound() + u64::from(position % pitch) < pitch.into() {
            true => Expr::Const(u64::from(position / pitch)),
            false => (element.clone() + position) / pitch,
        })
    }

    /// The address of an element of the staged tile, `position` elements after another one in the line.
    pub(super) fn stage_address(&mut self, line: Expr, (element, position): (Expr, u32)) -> Lowered<Address> {
        let base = self.stage_base(line, (element, position))?;
        Ok(Address { base: self.b.set_reg(base), offset: self.stage_start()?.into() })
    }

    /// The same, in bytes from [`Self::stage_start`].
    fn stage_base(&mut self, line: Expr, (element, position): (Expr, u32)) -> Lowered<Expr> {
        let &Stage { swizzle, .. } = self.the_stage()?;
        let panel = self.panel_of(&element, position)?;
        let offset = self.stage_offset(line, element + position)?;
        // If the swizzle does not affect a constant, all elements of the thread share it.
        let mut base = Expr::SharedBase + offset.swizzle(swizzle);
        if self.program.lent().is_some() {
            base = base + self.panel_in_slots(panel)?;
        }
        Ok(self.b.set(base))
    }

    /// Makes the thread's writes to the stage visible to TMA: to the copies of D, or to those of the next tile's
    /// K-tiles into the same memory.
    pub(super) fn publish_stage(&mut self, note: &Note) {
        let program = self.program;
        let next = program.scheduler.persistent.is_some()
            && (0..program.rings.len()).any(|ring| program.by_tma(ring) && program.is_staged_in(ring));
        if program.writes_by_tma() || next {
            self.b.origin(note, "make the tile visible to TMA");
            self.b.push(Op::FenceCopies);
        }
    }

    /// Copies the staged tile to D.
    pub(super) fn write(&mut self, work_tile: &WorkTile, by: Writer, note: &Note) -> Lowered<()> {
        match by {
            Writer::Tma { rows } => self.write_boxes(work_tile, rows, note),
            Writer::Registers { width } => {
                self.b.open();
                self.write_chunks(work_tile, (width, width), false, note)?;
                let inside = self.b.close();
                match work_tile.interior {
                    None => self.b.extend(inside),
                    Some(interior) => {
                        self.b.open();
                        self.write_chunks(work_tile, (width, 1), true, note)?;
                        let at_edge = self.b.close();
                        self.b.origin_at(Site::StorePath, note, "the widest accesses if the tile lies inside D");
                        self.b.branch(interior, inside, at_edge);
                    }
                }
                Ok(())
            }
        }
    }

    /// First line and element of the tile in D, and the lines and elements of D left from there.
    fn tile_in_d(&self, work_tile: &WorkTile) -> [(Expr, Expr); 2] {
        let (rows, cols) =
            ((work_tile.m0.clone(), work_tile.rem_m.clone()), (work_tile.n0.clone(), work_tile.rem_n.clone()));
        if self.program.problem.layouts.d == Layout::Row { [rows, cols] } else { [cols, rows] }
    }

    fn write_boxes(&mut self, work_tile: &WorkTile, rows: u32, note: &Note) -> Lowered<()> {
        self.b.origin(note, "tensor map of D");
        let map = self.wide_arg(&Param::Map(Operand::D))?;
        let map = self.b.set_reg(map);
        self.b.origin(note, "one thread starts the copies");
        let leader: Reg = self.b.set_reg(self.role.tid.clone().lt(1u32));
        let guard = Some(Guard { pred: leader, expect: true });
        self.b.origin(note, "copy the tile to D");
        self.each_box_of_stage(work_tile, rows, |from, at| Op::StoreBox { from, map, at, guard })?;
        self.b.push(Op::CommitBoxes);
        Ok(())
    }

    /// Copies the boxes of the stage, each with `rows` lines of a panel. `copy` receives the start of each box, and its
    /// coordinates in a matrix like D.
    pub(super) fn each_box_of_stage(
        &mut self,
        work_tile: &WorkTile,
        rows: u32,
        copy: impl Fn(Address, Vec<Reg>) -> Op,
    ) -> Lowered<()> {
        let (lines, bytes) = (self.program.lines(), self.program.problem.types.d.bytes());
        let (pitch, start) = (self.the_stage()?.pitch, self.stage_start()?);
        let panels = self.the_stage()?.panels(lines.elements);
        let [(line, _), (element, _)] = self.tile_in_d(work_tile);
        let product = (self.program.problem.batch == Batch::Strided).then(|| work_tile.product.clone());
        let first = Expr::SharedBase + start;
        let first = match &self.role.groups {
            None => first,
            Some(groups) => first + groups.stage.clone(),
        };
        let first = self.b.set(first);
        for panel in 0..panels {
            let (base, before) = match self.program.lent() {
                None => (first.clone(), panel * lines.count * pitch * bytes),
                Some(_) => (first.clone() + self.panel_in_slots(Expr::Const(panel.into()))?, 0),
            };
            let base = self.b.set_reg(base);
            for row in (0..lines.count).step_by(rows as usize) {
                let coordinates = [Some(element.clone() + panel * pitch), Some(line.clone() + row), product.clone()];
                let at = coordinates.into_iter().flatten().map(|coordinate| self.b.set_reg(coordinate)).collect();
                let offset = i64::from(before + row * pitch * bytes);
                self.b.push(copy(Address { base, offset }, at));
            }
        }
        Ok(())
    }

    /// Waits until TMA no longer reads the staged tile.
    pub(super) fn settle(&mut self, note: &Note) {
        self.b.origin(note, "wait until the tile has been read");
        self.b.push(Op::SettleBoxes);
    }

    /// Copies the tile in chunks of `chunk` elements, each by one thread with accesses of `width`.
    fn write_chunks(
        &mut self,
        work_tile: &WorkTile,
        (chunk, width): (u32, u32),
        at_edge: bool,
        note: &Note,
    ) -> Lowered<()> {
        let (lines, threads) = (self.program.lines(), self.role.threads);
        let chunks = lines.elements / chunk * lines.count;
        let passes = chunks.div_ceil(threads);
        let at_once = (1..=MOST_AT_ONCE).rev().find(|n| passes.is_multiple_of(*n)).unwrap_or(1);
        let turns = passes / at_once;
        let part = Part { chunk, width, at_edge, plane: self.part_of_d(work_tile, note)? };
        let stage = self.the_stage()?;
        let plain = self.program.lent().is_none() && stage.swizzle == Swizzle::None && stage.pitch >= lines.elements;
        if plain && threads.is_multiple_of(lines.elements / chunk) && chunks.is_multiple_of(threads) {
            return self.write_column(&part, (turns, at_once), note);
        }
        self.b.origin_at(Site::FirstPart, note, "the first part that this thread copies");
        let tid = self.b.set(self.role.tid.clone());
        let first = if turns > 1 { self.b.variable(tid, u64::from((passes + at_once) * threads)) } else { tid };
        let left = (turns > 1).then(|| self.b.variable(Expr::Const(u64::from(turns)), u64::from(turns) + 1));
        self.b.open();
        for pass in 0..at_once {
            self.b.origin_at(Site::CopyLine, note, "copy a part of a line to D");
            let index = self.b.set(first.clone() + pass * threads);
            // The minimum also states the bound: the variable may exceed the number of chunks.
            let last = index.clone().min((chunks - 1).into());
            if chunks.is_multiple_of(threads) {
                self.write_chunk(&part, if turns > 1 { last } else { index })?;
                continue;
            }
            let exists = self.b.set_reg(index.lt(chunks));
            self.b.open();
            self.write_chunk(&part, last)?;
            let then = self.b.close();
            self.b.origin(note, "is there another part?");
            self.b.branch(exists, then, Vec::new());
        }
        if let Some(left) = &left {
            self.b.origin(note, "the next parts");
            self.b.assign(&first, first.clone() + at_once * threads);
            self.b.assign(left, left.clone() - 1u32);
        }
        self.repeat(left, note);
        Ok(())
    }

    /// Closes the body of a loop over the parts of a tile. The loop repeats while parts are left.
    fn repeat(&mut self, left: Option<Expr>, note: &Note) {
        let again = left.map(|left| self.b.set_reg(left.ge(1u32)));
        let body = self.b.close();
        self.b.origin(note, "over the parts of the tile");
        match again {
            Some(again) => self.b.push(Op::Loop { body, again }),
            None => self.b.extend(body),
        }
    }

    /// Copies the tile where all threads together cover a whole number of lines: a thread's position in the line is the
    /// same in every pass, and its addresses advance by constant distances.
    fn write_column(&mut self, part: &Part, (turns, at_once): (u32, u32), note: &Note) -> Lowered<()> {
        let Part { chunk, plane: Plane { base, ld_bytes, .. }, .. } = part;
        let (lines, bytes) = (self.program.lines(), self.program.problem.types.d.bytes());
        let per_line = lines.elements / chunk;
        let (apart, pitch) = (self.role.threads / per_line, self.the_stage()?.pitch);
        self.b.origin_at(Site::FirstPart, note, "the first part that this thread copies");
        let line = self.b.set(self.role.tid.clone() / per_line);
        let element = self.b.set((self.role.tid.clone() % per_line) * *chunk);
        let (from, offset) = (self.stage_base(line.clone(), (element.clone(), 0))?, i64::from(self.stage_start()?));
        let to = base.clone() + line.clone().wide() * ld_bytes.clone() + element.clone().wide() * bytes;
        self.b.origin(note, "bytes of D from one of its parts to the next");
        let to_next = self.b.set(ld_bytes.clone() * apart);
        self.b.origin_at(Site::FirstPart, note, "the first part that this thread copies");
        let stride = at_once * apart;
        let bound = from.bound() + u64::from(turns * stride * pitch * bytes);
        let mut place = Place { line, element, from, offset, to: self.b.set(to) };
        let left = (turns > 1).then(|| self.b.variable(Expr::Const(turns.into()), u64::from(turns) + 1));
        if turns > 1 {
            place.from = self.b.variable(place.from, bound);
            place.to = self.b.variable(place.to, UNBOUNDED);
            if part.at_edge {
                place.line = self.b.variable(place.line, u64::from(lines.count + stride));
            }
        }
        let first = place.clone();
        self.b.open();
        for pass in 0..at_once {
            self.b.origin_at(Site::CopyLine, note, "copy a part of a line to D");
            if pass > 0 {
                place.to = self.b.set(place.to + to_next.clone());
                place.line = first.line.clone() + pass * apart;
                place.offset = first.offset + i64::from(pass * apart * pitch * bytes);
            }
            self.copy_part(part, &place);
        }
        if let Some(left) = &left {
            self.b.origin(note, "the next parts");
            self.b.assign(&first.from, first.from.clone() + stride * pitch * bytes);
            self.b.assign(&first.to, place.to + to_next);
            if part.at_edge {
                self.b.assign(&first.line, first.line.clone() + stride);
            }
            self.b.assign(left, left.clone() - 1u32);
        }
        self.repeat(left, note);
        Ok(())
    }

    /// The part of D that a tile covers.
    fn part_of_d(&mut self, work_tile: &WorkTile, note: &Note) -> Lowered<Plane> {
        let bytes = self.program.problem.types.d.bytes();
        let [(line, lines_left), (element, elements_left)] = self.tile_in_d(work_tile);
        self.b.origin(note, "address of the tile in D");
        let base = self.matrix(work_tile, Operand::D)?;
        let ld = self.wide_arg(&Param::Ld(Operand::D))?;
        let ld_bytes = self.b.set(ld * bytes);
        let base = self.b.set(base + line.wide() * ld_bytes.clone() + element.wide() * bytes);
        let access = self.plane_access(work_tile, Operand::D)?;
        Ok(Plane { base, ld_bytes, access, left: (lines_left, elements_left) })
    }

    /// Copies one chunk of the tile. The chunks of the first line come first.
    fn write_chunk(&mut self, part: &Part, index: Expr) -> Lowered<()> {
        let Part { chunk, plane: Plane { base, ld_bytes, .. }, .. } = part;
        let (per_line, bytes) = (self.program.lines().elements / chunk, self.program.problem.types.d.bytes());
        let line = self.b.set(index.clone() / per_line);
        let element = self.b.set((index % per_line) * *chunk);
        let Address { base: from, offset } = self.stage_address(line.clone(), (element.clone(), 0))?;
        let to = base.clone() + line.clone().wide() * ld_bytes.clone() + element.clone().wide() * bytes;
        self.copy_part(part, &Place { line, element, from: Expr::Reg(from, UNBOUNDED), offset, to });
        Ok(())
    }

    /// Copies one part of a line.
    fn copy_part(&mut self, part: &Part, place: &Place) {
        let Part { chunk, width, at_edge, plane: Plane { access, left, .. } } = part;
        let bytes = self.program.problem.types.d.bytes();
        let family = if self.types.d == self.types.acc { self.families.value } else { self.families.out };
        let src = self.b.fresh_many(family, *chunk as usize);
        let address = self.b.address(&place.from, place.offset);
        let (memory, locality, reads) = (Memory::Shared, Locality::Unknown, Reads::Movable);
        self.b.push(Op::Load { memory, dst: src.clone(), address, guard: None, locality, reads });
        let to = self.b.set(place.to.clone());
        for first in (0..*chunk).step_by(*width as usize) {
            let guard = at_edge.then(|| {
                let (line, element) = (place.line.clone(), place.element.clone() + first);
                let inside = line.lt(left.0.clone()).and(element.lt(left.1.clone()));
                Guard { pred: self.b.set_reg(inside), expect: true }
            });
            let address = Address { base: self.b.set_reg(to.clone()), offset: i64::from(first * bytes) };
            let src = src[first as usize..(first + width) as usize].to_vec();
            self.b.push(Op::Store { memory: Memory::Global(*access), src, address, guard });
        }
    }
}
