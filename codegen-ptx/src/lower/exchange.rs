//! Cluster reduction of split-K partial sums through distributed shared memory. Each block writes its partial sums to
//! its own shared memory, and then adds up all parts of its share of the tile.
//!
//! Threads write a part from the registers in which the multiply instruction leaves it. They read it line by line with
//! the widest accesses, and then store whole lines of D.

use ptx_gemm_dsl::plan::Exchange as ExchangePlan;
use ptx_gemm_dsl::target::MAX_ACCESS_BYTES;
use ptx_gemm_dsl::terms::Reads;
use ptx_gemm_dsl::types::Layout;

use super::scheduler::Units;
use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{Address, Expr, Guard, Locality, Math, Memory, Op, Reg, Value};
use crate::origin::Site;
use crate::tile::{Exchange, Map, Note, ReadC};

impl<'a> Lowering<'a> {
    fn the_exchange(&self) -> Lowered<&'a Exchange> {
        self.program.exchange.as_ref().ok_or_else(|| broken("the program has no exchange"))
    }

    /// Converts a pair (row, column) to (line of D, position in the line).
    fn along_lines<T>(&self, (row, col): (T, T)) -> (T, T) {
        if self.program.problem.layouts.d == Layout::Row { (row, col) } else { (col, row) }
    }

    /// Writes this thread's partial sums to its block's shared memory.
    pub(super) fn write_partial_sums(
        &mut self,
        work_tile: &WorkTile,
        acc: usize,
        width: u32,
        note: &Note,
    ) -> Lowered<()> {
        let &Exchange { pitch, offset_bytes, .. } = self.the_exchange()?;
        let map = &self.program.accumulators[acc].map;
        let (line, element) = self.along_lines(work_tile.thread()?);
        let bytes = self.types.acc.bytes();
        self.b.origin(note, "this thread's sums in shared memory");
        let base = self.b.set(Expr::SharedBase + (line * pitch + element) * bytes);
        let base = self.b.set_reg(base);
        self.b.origin(note, "leave the sums of this part for the cluster");
        for vector in vectors(map, |at| self.along_lines(at), width) {
            let ((line, element), registers) = vector;
            let address = Address { base, offset: i64::from(offset_bytes + (line * pitch + element) * bytes) };
            let src = registers.into_iter().map(|register| self.products.acc[acc][register as usize]).collect();
            self.b.push(Op::Store { memory: Memory::Shared, src, address, guard: None });
        }
        Ok(())
    }

    /// The code after the roles: the block adds up the partial sums of all blocks of the cluster, for its share of the
    /// tile.
    pub(super) fn exchange(&mut self, exchange: &'a Exchange) -> Lowered<()> {
        let (program, note) = (self.program, &exchange.note);
        self.b.origin(note, "this block has left its sums");
        self.b.push(Op::ClusterArrive);
        self.role.threads = exchange.map.threads();
        self.role.map = Some(&exchange.map);
        self.role.groups = None;
        let all = program.threads();
        self.role.tid = Expr::Tid(all);
        if self.role.threads < all {
            // The minimum also states the bound; the other threads read nothing.
            self.role.tid = self.role.tid.clone().min((self.role.threads - 1).into());
        }
        // Computed while the block waits for the others.
        let units: Units = self.units();
        let unit = self.b.set(Expr::Block);
        let work_tile = self.enter_tile(&units, unit, Some((Expr::Const(0), Expr::Const(0))))?;
        let (work_tile, first) = self.share_of(work_tile, exchange);
        let (line, element) = self.along_lines(work_tile.thread()?);
        self.b.origin(note, "its place in the sums of a block");
        let line = self.b.set(first + line);
        let adds = (self.role.threads < all).then(|| {
            self.b.origin(note, "does this thread add up sums?");
            self.b.set_reg(Expr::Tid(all).lt(self.role.threads))
        });
        self.b.origin(note, "all blocks of the cluster have left their sums");
        self.b.push(Op::ClusterWait);
        let sums = self.fresh_partials(exchange.map.elements() as usize);
        self.b.origin_at(Site::UnreadLines, note, "lines that are not read are zero");
        self.b.push(Op::Clear { dst: sums.clone() });
        self.some_threads(adds, |lowering| lowering.add_parts(&work_tile, exchange, &sums, (line, element)))?;
        self.b.origin(note, "this block has read the sums of the others");
        self.b.push(Op::ClusterArrive);
        let c = ReadC::Global { width: exchange.c_width };
        let stored = self.epilogue_note();
        self.some_threads(adds, |lowering| {
            let sums = lowering.in_epilogue_type(sums, &stored);
            lowering.store_sums(&work_tile, (&exchange.map, &sums, None), (exchange.width, c), &stored)
        })?;
        self.b.origin(note, "no block leaves while others read its sums");
        self.b.push(Op::ClusterWait);
        Ok(())
    }

    /// Runs the body in the threads for which a predicate is true, or in all.
    fn some_threads(&mut self, which: Option<Reg>, body: impl FnOnce(&mut Self) -> Lowered<()>) -> Lowered<()> {
        let Some(which) = which else { return body(self) };
        self.b.open();
        body(self)?;
        let then = self.b.close();
        self.b.origin(&self.the_exchange()?.note, "those that add up sums");
        self.b.branch(which, then, Vec::new());
        Ok(())
    }

    /// The lines of a tile that this block stores, and the first of them, counted in the tile.
    fn share_of(&mut self, tile: WorkTile, exchange: &Exchange) -> (WorkTile, Expr) {
        let (program, note) = (self.program, &exchange.note);
        let (layout, parts) = (program.problem.layouts.d, program.scheduler.parts());
        let held = exchange.held(layout).count;
        self.b.origin(note, "first line of this block's share, and lines of it");
        let share = match tile.width.clone().filter(|_| layout == Layout::Col) {
            None => Expr::Const(program.share().into()),
            Some(width) => self.b.set((width + (parts - 1)) / parts),
        };
        let first = self.b.set(tile.part.clone() * share.clone());
        let (m0, n0, rem_m, rem_n) = (&tile.m0, &tile.n0, &tile.rem_m, &tile.rem_n);
        let (start, rem) = if layout == Layout::Row { (m0, rem_m) } else { (n0, rem_n) };
        let start = self.b.set(start.clone() + first.clone());
        // The tile, and thus its last share, may have fewer lines.
        let lines = rem.clone().min(program.lines().count.into());
        let rem = self.b.set((lines.max(first.clone()) - first.clone()).min(share));
        let (m0, n0, rem_m, rem_n) = match layout {
            Layout::Row => (start, n0.clone(), rem, rem_n.clone()),
            Layout::Col => (m0.clone(), start, rem_m.clone(), rem),
        };
        // Even without guards elsewhere, the last share may have fewer lines than its threads.
        self.b.origin_at(Site::LinesInside, &program.tail_note, "are there as many lines, and do they lie inside D?");
        let (lines, elements) = self.along_lines((rem_m.clone(), rem_n.clone()));
        let whole = lines.ge(held).and(elements.ge(program.lines().elements));
        let interior = Some(self.b.set_reg(whole));
        let extents = self.along_lines((held, program.lines().elements));
        (WorkTile { extents, m0, n0, rem_m, rem_n, interior, ..tile }, first)
    }

    /// Adds up this thread's elements of the share, part by part.
    fn add_parts(
        &mut self,
        work_tile: &WorkTile,
        exchange: &Exchange,
        sums: &[Reg],
        (line, element): (Expr, Expr),
    ) -> Lowered<()> {
        let program = self.program;
        let Exchange { map, pitch, offset_bytes, note, .. } = exchange;
        let (bytes, parts) = (self.types.acc.bytes(), program.scheduler.parts());
        let count = map.elements() as usize;
        let at_once = ExchangePlan::parts_at_once(count as u32, parts) as usize;
        let last = program.lines().count - 1;
        let along = map.run(program.problem.layouts.d == Layout::Row);
        let width = [4, 2, 1].into_iter().find(|width| {
            width * bytes <= MAX_ACCESS_BYTES && along.is_multiple_of(*width) && pitch.is_multiple_of(*width)
        });
        let width = width.unwrap_or(1);
        self.b.origin(note, "this thread's elements in the sums of a block");
        let (lines, _) = self.along_lines((work_tile.rem_m.clone(), work_tile.rem_n.clone()));
        let (own, _) = self.along_lines(work_tile.thread()?);
        let mut places = Vec::new();
        for ((below, beside), registers) in vectors(map, |at| self.along_lines(at), width) {
            // Lines that this block does not store are not read.
            let pred = self.b.set_reg((own.clone() + below).lt(lines.clone()));
            let guard = Some(Guard { pred, expect: true });
            let of = line.clone() + below;
            let address = match of.bound() > u64::from(last) {
                false => {
                    let base = Expr::SharedBase + (line.clone() * *pitch + element.clone()) * bytes;
                    self.b.address(&base, i64::from(offset_bytes + (below * pitch + beside) * bytes))
                }
                true => {
                    let of = self.b.set(of.min(last.into()));
                    let base = Expr::SharedBase + (of * *pitch + element.clone()) * bytes;
                    self.b.address(&base, i64::from(offset_bytes + beside * bytes))
                }
            };
            places.push((address, guard, registers));
        }
        let all: Vec<u32> = (0..parts).collect();
        for group in all.chunks(at_once) {
            let mut read = Vec::new();
            for part in group {
                self.b.origin_at(Site::SumsOfPart, note, &format!("sums of part {part}"));
                let block = self.b.set_reg(Expr::Const((*part).into()));
                let of_part = if *part == 0 { sums.to_vec() } else { self.fresh_partials(count) };
                if *part > 0 {
                    self.b.push(Op::Clear { dst: of_part.clone() });
                }
                for (address, guard, registers) in &places {
                    let dst = registers.iter().map(|register| of_part[*register as usize]).collect();
                    let (memory, locality, reads) = (Memory::Cluster(block), Locality::Unknown, Reads::Movable);
                    self.b.push(Op::Load { memory, dst, address: *address, guard: *guard, locality, reads });
                }
                read.push(of_part);
            }
            for of_part in read.into_iter().skip(usize::from(group[0] == 0)) {
                self.b.origin(note, "add them to those of the parts before");
                for (sum, of_part) in sums.iter().zip(of_part) {
                    self.b.math(Math::Add, *sum, vec![Value::Reg(*sum), Value::Reg(of_part)]);
                }
            }
        }
        Ok(())
    }
}

/// A thread's elements in accesses of `width`: for each, the line and the position in it, relative to the thread's
/// first element, and its registers.
fn vectors(map: &Map, along: impl Fn((u32, u32)) -> (u32, u32), width: u32) -> Vec<((u32, u32), Vec<u32>)> {
    let mut all: Vec<((u32, u32), u32)> =
        (0..map.elements()).map(|register| (along(map.position(register)), register)).collect();
    all.sort_unstable();
    all.chunks(width as usize)
        .map(|vector| (vector[0].0, vector.iter().map(|(_, register)| *register).collect()))
        .collect()
}
