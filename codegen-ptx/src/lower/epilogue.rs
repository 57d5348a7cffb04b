//! The epilogue of a tile: loads its operands, computes its value and stores it, line by line.
//!
//! Only the accumulators' map says which elements a thread holds.
//!
//! A line runs along D's contiguous dimension. Tiles inside D are stored with the widest accesses; at an edge each
//! element has its own predicate. A tile that is staged in shared memory is written to the stage in full, including
//! elements outside D.

mod matrices;
mod scales;
mod sums;

use ptx_gemm_dsl::terms::{Operand, Param, Reads};
use ptx_gemm_dsl::types::Layout;

use super::expression::{Element, per_row};
use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{Access, Address, Expr, Guard, Locality, Math, Memory, Op, Reg, Value};
use crate::origin::Site;
use crate::tile::{Map, Note, ReadC, Stager};

/// One dimension of the thread's part of the tile.
#[derive(Clone)]
struct Axis {
    /// Positions of the thread's elements relative to its first one, ascending.
    positions: Vec<u32>,
    /// The thread's first element in D, and in the tile.
    start: Expr,
    local: Expr,
    /// Elements of D left from the tile's first element on.
    rem: Expr,
}

impl Axis {
    /// The number of the thread's elements.
    fn count(&self) -> u32 {
        self.positions.len() as u32
    }

    /// Position of element `i` relative to the thread's first one.
    fn position(&self, i: u32) -> u32 {
        self.positions[i as usize]
    }
}

/// A matrix with the shape of D.
struct Plane {
    /// Address of the thread's first element.
    base: Expr,
    ld_bytes: Expr,
    bytes: u32,
    layout: Layout,
    width: u32,
    access: Access,
}

impl Plane {
    /// Bytes from one line of a matrix with layout `layout` to another.
    fn lines(&self, layout: Layout, step: u32) -> Expr {
        if self.layout == layout { self.ld_bytes.clone() * step } else { (step * self.bytes).into() }
    }
}

/// Where the elements of C are.
enum SourceOfC {
    /// In global memory.
    Global(Plane),
    /// In the stage, where those of D go.
    Stage,
}

/// Where the values of D go.
enum Target {
    /// To global memory.
    Global(Plane),
    /// To the stage in shared memory, this many elements at a time.
    Stage { width: u32 },
}

/// The accumulators of the tile, row by row of the thread's elements.
struct Held {
    regs: Vec<Reg>,
    columns: u32,
    note: Note,
}

/// Guards of the edge path.
struct Edge {
    /// Per element of the inner dimension: whether it is inside D.
    inner: Vec<Reg>,
}

impl Lowering<'_> {
    /// The clause of the epilogue.
    pub(super) fn epilogue_note(&self) -> Note {
        format!("epilogue({})", self.program.problem.epilogue).into()
    }

    /// Applies the epilogue to a set of accumulators. Stores the tile with `width` elements of D per access, or writes
    /// it to the stage as `stager` says. `from` says where C is read.
    pub(super) fn store(
        &mut self,
        work_tile: &WorkTile,
        (acc, stager): (usize, Option<Stager>),
        (width, from): (u32, ReadC),
        note: &Note,
    ) -> Lowered<()> {
        let map = &self.program.accumulators[acc].map;
        let sums = self.sums(acc, note);
        self.store_sums(work_tile, (map, &sums, stager), (width, from), note)
    }

    /// The same for accumulators already in registers, numbered by a map.
    pub(super) fn store_sums(
        &mut self,
        work_tile: &WorkTile,
        (map, sums, stager): (&Map, &[Reg], Option<Stager>),
        (width, from): (u32, ReadC),
        note: &Note,
    ) -> Lowered<()> {
        let (staged, by_matrices) = (stager.is_some(), stager == Some(Stager::Matrices));
        let (rows, cols) = self.axes(work_tile, map)?;
        let regs = Self::by_rows(sums, map, (&rows, &cols))?;
        let held = Held { regs, columns: cols.count(), note: note.clone() };
        self.unscale(work_tile, &held, (&rows, &cols))?;
        let layouts = self.program.problem.layouts;
        let d = match staged {
            true => Target::Stage { width },
            false => Target::Global(self.plane(work_tile, Operand::D, (&rows, &cols), layouts.d, width, note)?),
        };
        let c = match (self.program.problem.epilogue.uses_c(), from) {
            (false, _) => None,
            (true, ReadC::Stage) => Some(SourceOfC::Stage),
            (true, ReadC::Global { width }) => {
                let plane = self.plane(work_tile, Operand::C, (&rows, &cols), layouts.c, width, note)?;
                Some(SourceOfC::Global(plane))
            }
        };
        let reads_c = self.reads_c(note);
        let vectors = self.vector_addresses(work_tile, (&rows, &cols), note)?;
        self.b.open();
        match by_matrices {
            true => {
                self.stage_matrices(&held, (&rows, &cols), c.as_ref().map(|c| (c, reads_c)), &vectors, false)?;
            }
            false => self.lines(&held, &rows, &cols, &d, c.as_ref(), reads_c, &vectors, None)?,
        }
        let inside = self.b.close();
        // Without vectors and without C in global memory, staging takes the same path inside D and at its edges.
        let edge_free = staged && !matches!(c, Some(SourceOfC::Global(_))) && vectors.is_empty();
        match work_tile.interior.filter(|_| !edge_free) {
            None => self.b.extend(inside),
            Some(interior) => {
                self.b.open();
                let inner = if layouts.d == Layout::Row { &cols } else { &rows };
                let edge = self.edge(inner);
                match by_matrices {
                    true => {
                        self.stage_matrices(&held, (&rows, &cols), c.as_ref().map(|c| (c, reads_c)), &vectors, true)?;
                    }
                    false => self.lines(&held, &rows, &cols, &d, c.as_ref(), reads_c, &vectors, Some(&edge))?,
                }
                let at_edge = self.b.close();
                self.b.origin_at(Site::StorePath, note, "the widest accesses if the tile lies inside D");
                self.b.branch(interior, inside, at_edge);
            }
        }
        Ok(())
    }

    /// The thread's rows and columns of the tile.
    fn axes(&self, work_tile: &WorkTile, map: &Map) -> Lowered<(Axis, Axis)> {
        let (row, col) = work_tile.thread()?;
        let axis = |positions, first: &Expr, local: Expr, rem: &Expr| Axis {
            positions,
            start: first.clone() + local.clone(),
            local,
            rem: rem.clone(),
        };
        let rows = axis(map.rows(), &work_tile.m0, row, &work_tile.rem_m);
        Ok((rows, axis(map.cols(), &work_tile.n0, col, &work_tile.rem_n)))
    }

    /// The accumulators in the epilogue's type, in the order of their map.
    fn sums(&mut self, acc: usize, note: &Note) -> Vec<Reg> {
        self.in_epilogue_type(self.products.acc[acc].clone(), note)
    }

    /// Complete sums in the epilogue's type, in the same order.
    pub(super) fn in_epilogue_type(&mut self, held: Vec<Reg>, note: &Note) -> Vec<Reg> {
        if self.types.sums == self.types.acc {
            return held;
        }
        let mut sums = Vec::new();
        if self.types.per_register() == 1 {
            self.b.origin(note, "sums of i32 in f32");
            for sum in held {
                let converted = self.b.fresh(self.families.sum);
                self.b.math(Math::Convert, converted, vec![Value::Reg(sum)]);
                sums.push(converted);
            }
            return sums;
        }
        self.b.origin(note, "sums of f16 in f32");
        for pair in held {
            for half in [Math::First, Math::Second] {
                let [narrow, wide] = [self.families.half, self.families.sum].map(|family| self.b.fresh(family));
                self.b.math(half, narrow, vec![Value::Reg(pair)]);
                self.b.math(Math::Convert, wide, vec![Value::Reg(narrow)]);
                sums.push(wide);
            }
        }
        sums
    }

    /// Reorders registers from the order of a map to row by row of the thread's elements.
    fn by_rows(sums: &[Reg], map: &Map, (rows, cols): (&Axis, &Axis)) -> Lowered<Vec<Reg>> {
        let mut held = vec![None; sums.len()];
        for (element, reg) in sums.iter().enumerate() {
            let (m, n) = map.position(element as u32);
            let at = (rows.positions.binary_search(&m).ok()).zip(cols.positions.binary_search(&n).ok());
            let (i, j) = at.ok_or_else(|| broken("an accumulator is outside its own map"))?;
            held[i * cols.positions.len() + j] = Some(*reg);
        }
        held.into_iter().collect::<Option<_>>().ok_or_else(|| broken("two accumulators hold one element"))
    }

    fn plane(
        &mut self,
        work_tile: &WorkTile,
        op: Operand,
        (rows, cols): (&Axis, &Axis),
        layout: Layout,
        width: u32,
        note: &Note,
    ) -> Lowered<Plane> {
        let site = if op == Operand::C { Site::PartOfC } else { Site::PartOfD };
        self.b.origin_at(site, note, &format!("address of this thread's part of {op:?}"));
        let bytes = self.bytes(op);
        let base = self.matrix(work_tile, op)?;
        let ld = self.wide_arg(&Param::Ld(op))?;
        let ld_bytes = self.b.set(ld * bytes);
        let (outer, inner) = if layout == Layout::Row { (rows, cols) } else { (cols, rows) };
        let address = base + outer.start.clone().wide() * ld_bytes.clone() + inner.start.clone().wide() * bytes;
        let access = self.plane_access(work_tile, op)?;
        Ok(Plane { base: self.b.set(address), ld_bytes, bytes, layout, width, access })
    }

    /// The predicate for reading C at all; absent if C is always read.
    pub(super) fn reads_c(&mut self, note: &Note) -> Option<Reg> {
        let scalars = self.dropping.c.clone();
        self.nonzero(&scalars, "a scalar of 0 skips reading C", note)
    }

    /// The predicate that all of some scalars are nonzero; absent if there are none.
    fn nonzero(&mut self, scalars: &[usize], what: &str, note: &Note) -> Option<Reg> {
        let mut reads: Option<Expr> = None;
        for scalar in scalars {
            self.b.origin(note, what);
            let dst = self.b.fresh_pred();
            self.b.push(Op::IsZero { dst, src: self.args.scalars[*scalar] });
            let nonzero = Expr::Not(Box::new(Expr::Reg(dst, 1)));
            reads = Some(match reads {
                Some(other) => other.and(nonzero),
                None => nonzero,
            });
        }
        reads.map(|reads| self.b.set_reg(reads))
    }

    fn vector_addresses(
        &mut self,
        work_tile: &WorkTile,
        (rows, cols): (&Axis, &Axis),
        note: &Note,
    ) -> Lowered<Vec<(Expr, Access)>> {
        let bytes = self.types.acc.bytes();
        let vectors = &self.program.problem.epilogue.vectors;
        let mut out = Vec::new();
        for (i, vector) in vectors.iter().enumerate() {
            self.b.origin_at(Site::PartOfVector, note, &format!("address of this thread's part of {}", vector.name));
            let base = self.wide_arg(&Param::Vector(i))?;
            let start = if per_row(vector.axis) { &rows.start } else { &cols.start };
            let address = self.b.set(base + start.clone().wide() * bytes);
            out.push((address, self.vector_access(work_tile, i)?));
        }
        Ok(out)
    }

    fn edge(&mut self, inner: &Axis) -> Edge {
        self.b.origin_at(Site::ElementsInside, &self.program.tail_note, "which elements of a line lie inside D");
        let inside = |i| (inner.local.clone() + inner.position(i)).lt(inner.rem.clone());
        let inner = (0..inner.count()).map(|i| self.b.set_reg(inside(i))).collect();
        Edge { inner }
    }

    /// Loads one element per row (or column) of each vector, guarded at an edge.
    fn load_vectors(
        &mut self,
        axes: [&Axis; 2],
        addresses: &[(Expr, Access)],
        at_edge: bool,
        note: &Note,
    ) -> Vec<Vec<Reg>> {
        let bytes = self.types.acc.bytes();
        let vectors = &self.program.problem.epilogue.vectors;
        let mut out = Vec::new();
        for (vector, (address, access)) in vectors.iter().zip(addresses) {
            let axis = axes[usize::from(!per_row(vector.axis))];
            let regs = self.b.fresh_many(self.families.vector, axis.positions.len());
            for (i, reg) in regs.iter().enumerate() {
                self.b.origin_at(Site::LoadVector, note, &format!("element of {}", vector.name));
                let position = axis.position(i as u32);
                let guard = if at_edge {
                    self.b.constant(*reg, 0.0);
                    let pred = self.b.set_reg((axis.local.clone() + position).lt(axis.rem.clone()));
                    Some(Guard { pred, expect: true })
                } else {
                    None
                };
                self.b.load_global(
                    vec![*reg],
                    address,
                    i64::from(position * bytes),
                    guard,
                    (*access, Locality::Unknown),
                );
            }
            out.push(regs);
        }
        out
    }

    #[allow(clippy::too_many_arguments)] // the context of one line; a struct would be used once
    fn lines(
        &mut self,
        held: &Held,
        rows: &Axis,
        cols: &Axis,
        d: &Target,
        c: Option<&SourceOfC>,
        reads_c: Option<Reg>,
        vectors: &[(Expr, Access)],
        edge: Option<&Edge>,
    ) -> Lowered<()> {
        let vectors = self.load_vectors([rows, cols], vectors, edge.is_some(), &held.note);
        let layout = self.program.problem.layouts.d;
        let (outer, inner) = if layout == Layout::Row { (rows, cols) } else { (cols, rows) };
        let mut line = match d {
            Target::Global(plane) => plane.base.clone(),
            Target::Stage { .. } => outer.local.clone(),
        };
        let mut c_line = match c {
            Some(SourceOfC::Global(plane)) => Some((plane, plane.base.clone())),
            _ => None,
        };
        for o in 0..outer.count() {
            if o > 0 {
                self.b.origin(&held.note, "advance to the next line of D");
                let step = outer.position(o) - outer.position(o - 1);
                line = match d {
                    Target::Global(plane) => self.b.set(line + plane.ld_bytes.clone() * step),
                    Target::Stage { .. } => outer.local.clone() + outer.position(o),
                };
                if let Some((plane, at)) = &mut c_line {
                    *at = self.b.set(at.clone() + plane.lines(layout, step));
                }
            }
            let guards = edge.map(|edge| self.line_guards(edge, outer, o));
            let c_regs = match (&c_line, c) {
                (Some((plane, at)), _) => {
                    self.load_c((plane, 0), layout, at, inner, reads_c, (guards.as_deref(), &held.note))
                }
                (None, Some(_)) => self.load_staged_c((d, &line), inner, reads_c, &held.note)?,
                (None, None) => Vec::new(),
            };
            self.store_line(
                held,
                (d, &line),
                inner,
                guards.as_deref(),
                |e| {
                    let (i, j) = if layout == Layout::Row { (o, e) } else { (e, o) };
                    (i, j, c_regs.get(e as usize).copied())
                },
                &vectors,
            )?;
        }
        Ok(())
    }

    /// The predicate of each element of line `o`: whether it is inside D.
    fn line_guards(&mut self, edge: &Edge, outer: &Axis, o: u32) -> Vec<Reg> {
        self.b.origin_at(Site::LineInside, &self.program.tail_note, "which elements of this line lie inside D");
        let ok = self.b.set((outer.local.clone() + outer.position(o)).lt(outer.rem.clone()));
        edge.inner.iter().map(|inner| self.b.set_reg(ok.clone().and(Expr::Reg(*inner, 1)))).collect()
    }

    /// Loads the elements of C for one line of D, in the accumulator's type.
    fn load_c(
        &mut self,
        (c, set): (&Plane, usize),
        layout: Layout,
        line: &Expr,
        inner: &Axis,
        reads: Option<Reg>,
        (guards, note): (Option<&[Reg]>, &Note),
    ) -> Vec<Reg> {
        let raw = self.pool_c(inner.positions.len(), set);
        let same_order = c.layout == layout;
        let width = if guards.is_some() || !same_order { 1 } else { c.width };
        let (mut at, mut last) = (line.clone(), 0);
        for e in (0..inner.count()).step_by(width as usize) {
            self.b.origin_at(Site::LoadC, note, "elements of C");
            let offset = if same_order {
                inner.position(e) * c.bytes
            } else {
                if inner.position(e) > last {
                    at = self.b.set(at + c.ld_bytes.clone() * (inner.position(e) - last));
                    last = inner.position(e);
                }
                0
            };
            let dst = raw[e as usize..(e + width) as usize].to_vec();
            let guard = match (reads, guards) {
                (None, None) => None,
                (Some(pred), None) => Some(pred),
                (None, Some(guards)) => Some(guards[e as usize]),
                (Some(reads), Some(guards)) => {
                    Some(self.b.set_reg(Expr::Reg(reads, 1).and(Expr::Reg(guards[e as usize], 1))))
                }
            };
            if guard.is_some() {
                dst.iter().for_each(|reg| self.b.constant(*reg, 0.0));
            }
            let guard = guard.map(|pred| Guard { pred, expect: true });
            self.b.load_global(dst, &at, i64::from(offset), guard, (c.access, Locality::Unknown));
        }
        self.widen_c(raw, note)
    }

    /// Elements of C in the accumulator's type.
    fn widen_c(&mut self, raw: Vec<Reg>, note: &Note) -> Vec<Reg> {
        if self.types.c == self.types.acc {
            return raw;
        }
        self.b.origin(note, "C in the accumulator's type");
        let wide = self.b.fresh_many(self.families.value, raw.len());
        self.convert(&raw, &wide);
        wide
    }

    /// Reads the elements of C for one line of D from their places in the stage, in the accumulator's type.
    fn load_staged_c(
        &mut self,
        (d, line): (&Target, &Expr),
        inner: &Axis,
        reads: Option<Reg>,
        note: &Note,
    ) -> Lowered<Vec<Reg>> {
        let Target::Stage { width } = d else { return Err(broken("C is read in the stage of a D that is not there")) };
        let raw = self.pool_c(inner.positions.len(), 0);
        for (dst, position) in raw.chunks(*width as usize).zip(inner.positions.iter().step_by(*width as usize)) {
            self.b.origin_at(Site::LoadStagedC, note, "elements of C in shared memory");
            let guard = self.guarded(dst, reads);
            let address = self.stage_address(line.clone(), (inner.local.clone(), *position))?;
            let (memory, locality, reads) = (Memory::Shared, Locality::Unknown, Reads::Movable);
            self.b.push(Op::Load { memory, dst: dst.to_vec(), address, guard, locality, reads });
        }
        Ok(self.widen_c(raw, note))
    }

    /// Registers for `n` elements of C: of one line, or of number `set` of several lines that are loaded together.
    fn pool_c(&mut self, n: usize, set: usize) -> Vec<Reg> {
        while self.values.of_c.len() < n * (set + 1) {
            let reg = self.b.fresh(self.families.c);
            self.values.of_c.push(reg);
        }
        self.values.of_c[n * set..n * (set + 1)].to_vec()
    }

    /// Computes and stores one line: `operands` returns row, column and C of each element.
    #[allow(clippy::too_many_arguments)] // as `lines`
    fn store_line(
        &mut self,
        held: &Held,
        (d, line): (&Target, &Expr),
        inner: &Axis,
        guards: Option<&[Reg]>,
        operands: impl Fn(u32) -> (u32, u32, Option<Reg>),
        vectors: &[Vec<Reg>],
    ) -> Lowered<()> {
        let axes: Vec<bool> = self.program.problem.epilogue.vectors.iter().map(|v| per_row(v.axis)).collect();
        let (width, base) = match d {
            Target::Global(_) if guards.is_some() => (1, Some(self.b.set_reg(line.clone()))),
            Target::Global(plane) => (plane.width, Some(self.b.set_reg(line.clone()))),
            Target::Stage { width } => (*width, None),
        };
        for e in (0..inner.count()).step_by(width as usize) {
            self.values.used = 0;
            self.b.origin_at(Site::ValueOfD, &held.note, "value of D");
            let mut src = Vec::new();
            for e in e..e + width {
                let (i, j, c) = operands(e);
                let vectors =
                    vectors.iter().zip(&axes).map(|(regs, row)| regs[if *row { i } else { j } as usize]).collect();
                let acc = held.regs[(i * held.columns + j) as usize];
                let value = self.evaluate(&Element { acc, c, vectors })?;
                src.push(self.in_d_type(value));
            }
            let position = inner.position(e);
            match (d, base) {
                (Target::Global(plane), Some(base)) => {
                    self.b.origin_at(Site::StoreElement, &held.note, "store D");
                    let guard = guards.map(|g| Guard { pred: g[e as usize], expect: true });
                    let address = Address { base, offset: i64::from(position * plane.bytes) };
                    self.b.push(Op::Store { memory: Memory::Global(plane.access), src, address, guard });
                }
                _ => {
                    self.b.origin_at(Site::StagedTile, &held.note, "D's tile in shared memory");
                    let address = self.stage_address(line.clone(), (inner.local.clone(), position))?;
                    self.b.push(Op::Store { memory: Memory::Shared, src, address, guard: None });
                }
            }
        }
        Ok(())
    }

    /// Converts a value to a register of D's type.
    fn in_d_type(&mut self, value: Value) -> Reg {
        if let (Value::Reg(reg), true) = (value, self.types.d == self.types.acc) {
            return reg;
        }
        // The constant first takes the accumulator's type, because a 16-bit type has no constants.
        let value = match value {
            Value::Const(_) if self.types.d.is_narrow() => self.apply(Math::Mov, vec![value]),
            value => value,
        };
        let dst = self.b.fresh(self.families.out);
        let op = if matches!(value, Value::Const(_)) { Math::Mov } else { Math::Convert };
        self.b.math(op, dst, vec![value]);
        dst
    }
}
