//! The end of a tile: the epilogue's operands are loaded, its value computed and stored, line by line.
//!
//! A line runs along D's contiguous dimension. Tiles that lie inside are stored with the widest accesses; at an edge
//! each element has its own predicate.

use ptx_gemm_dsl::terms::{Operand, Param as AbiParam};
use ptx_gemm_dsl::types::Layout;

use super::expression::{Element, drops_c, per_row};
use super::{Lowering, Place, register_type};
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::{Address, Bounds, Expr, Guard, Locality, Math, Op, Reg, Space, Value};

/// One dimension of the thread's part of the tile.
#[derive(Clone)]
struct Axis {
    /// Elements of the thread, of its fragment, and between fragments.
    count: u32,
    fragment: u32,
    stride: u32,
    /// First element in D, and in the tile.
    start: Expr,
    local: Expr,
    /// Elements of D from the tile's first on.
    rem: Expr,
}

impl Axis {
    /// Position of element number `i`, from the thread's first.
    fn position(&self, i: u32) -> u32 {
        i / self.fragment * self.stride + i % self.fragment
    }
}

/// A matrix of D's shape.
struct Plane {
    /// Address of the thread's first element.
    base: Expr,
    ld_bytes: Expr,
    bytes: u32,
    layout: Layout,
    width: u32,
}

/// Guards of the edge path.
struct Edge {
    /// Per element of the inner dimension: inside?
    inner: Vec<Reg>,
}

impl Lowering<'_> {
    /// Applies the epilogue and stores the tile.
    pub(super) fn store(&mut self, place: &Place, width: u32) {
        let epilogue = self.plan.clauses.epilogue.clone();
        let geometry = self.plan.geometry;
        let rows = Axis {
            count: geometry.thread.m,
            fragment: geometry.fragment.m,
            stride: geometry.stride.m,
            start: place.m0.clone() + place.row.clone(),
            local: place.row.clone(),
            rem: place.rem_m.clone(),
        };
        let cols = Axis {
            count: geometry.thread.n,
            fragment: geometry.fragment.n,
            stride: geometry.stride.n,
            start: place.n0.clone() + place.col.clone(),
            local: place.col.clone(),
            rem: place.rem_n.clone(),
        };
        let layouts = self.plan.problem.layouts;
        let types = self.plan.problem.types;
        let d = self.plane(place, Operand::D, &rows, &cols, layouts.d, types.d.bytes(), width);
        let uses_c = self.plan.problem.epilogue.uses_c();
        let c_width = self.variant.c_width;
        let c = uses_c.then(|| self.plane(place, Operand::C, &rows, &cols, layouts.c, types.c.bytes(), c_width));
        let reads_c = self.reads_c();
        let vectors = self.vector_addresses(&rows, &cols);
        self.b.open();
        self.lines(&rows, &cols, &d, c.as_ref(), reads_c, &vectors, None);
        let inside = self.b.close();
        match place.interior {
            None => self.b.extend(inside),
            Some(interior) => {
                self.b.open();
                let inner = if layouts.d == Layout::Row { &cols } else { &rows };
                let edge = self.edge(inner);
                self.lines(&rows, &cols, &d, c.as_ref(), reads_c, &vectors, Some(&edge));
                let at_edge = self.b.close();
                self.b.origin(&epilogue, "the widest accesses where the tile lies inside D");
                self.b.branch(interior, true, inside, at_edge);
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // a matrix is where it lies, how, and how wide it is read
    fn plane(
        &mut self,
        place: &Place,
        op: Operand,
        rows: &Axis,
        cols: &Axis,
        layout: Layout,
        bytes: u32,
        width: u32,
    ) -> Plane {
        let clause = self.plan.clauses.epilogue.clone();
        self.b.origin(&clause, &format!("address of this thread's part of {op:?}"));
        let base = self.matrix(place, op, bytes);
        let ld = self.wide_arg(&AbiParam::Ld(op));
        let ld_bytes = self.b.set(ld * bytes);
        let (outer, inner) = if layout == Layout::Row { (rows, cols) } else { (cols, rows) };
        let address = base + outer.start.clone().wide() * ld_bytes.clone() + inner.start.clone().wide() * bytes;
        Plane { base: self.b.set(address), ld_bytes, bytes, layout, width }
    }

    /// The predicate that C is read at all; absent if it always is.
    fn reads_c(&mut self) -> Option<Reg> {
        let scalars = drops_c(&self.plan.problem.epilogue);
        let clause = self.plan.clauses.epilogue.clone();
        let mut reads: Option<Expr> = None;
        for scalar in scalars {
            self.b.origin(&clause, "a scalar of 0 drops C unread");
            let dst = self.b.fresh_pred();
            self.b.push(Op::IsZero { dst, src: self.args.scalars[scalar] });
            let nonzero = Expr::Not(Box::new(Expr::Reg(dst, 1)));
            reads = Some(match reads {
                Some(other) => other.and(nonzero),
                None => nonzero,
            });
        }
        reads.map(|reads| self.b.set_reg(reads))
    }

    fn vector_addresses(&mut self, rows: &Axis, cols: &Axis) -> Vec<Expr> {
        let clause = self.plan.clauses.epilogue.clone();
        let bytes = register_type(self.plan.problem.types.acc).bytes();
        let vectors = self.plan.problem.epilogue.vectors.clone();
        let mut out = Vec::new();
        for (i, vector) in vectors.iter().enumerate() {
            self.b.origin(&clause, &format!("address of this thread's part of {}", vector.name));
            let base = self.wide_arg(&AbiParam::Vector(i));
            let start = if per_row(vector.axis) { &rows.start } else { &cols.start };
            out.push(self.b.set(base + start.clone().wide() * bytes));
        }
        out
    }

    fn edge(&mut self, inner: &Axis) -> Edge {
        let clause = self.plan.clauses.tail.clone();
        self.b.origin(&clause, "which elements of a line lie inside D");
        let inside = |i| (inner.local.clone() + inner.position(i)).lt(inner.rem.clone());
        let inner = (0..inner.count).map(|i| self.b.set_reg(inside(i))).collect();
        Edge { inner }
    }

    /// Loads one element per row (or column) of each vector, guarded at an edge.
    fn load_vectors(&mut self, axes: [&Axis; 2], addresses: &[Expr], at_edge: bool) -> Vec<Vec<Reg>> {
        let clause = self.plan.clauses.epilogue.clone();
        let bytes = register_type(self.plan.problem.types.acc).bytes();
        let vectors = self.plan.problem.epilogue.vectors.clone();
        let mut out = Vec::new();
        for (vector, address) in vectors.iter().zip(addresses) {
            let axis = axes[usize::from(!per_row(vector.axis))];
            let regs = self.b.fresh_many(self.families.vector, axis.count as usize);
            for (i, reg) in regs.iter().enumerate() {
                self.b.origin(&clause, &format!("element of {}", vector.name));
                let position = axis.position(i as u32);
                let (guard, bounds) = if at_edge {
                    self.b.constant(*reg, 0.0);
                    let pred = self.b.set_reg((axis.local.clone() + position).lt(axis.rem.clone()));
                    (Some(Guard { pred, expect: true }), Bounds::Guarded)
                } else {
                    (None, self.inside())
                };
                self.b.load_global(
                    vec![*reg],
                    address,
                    i64::from(position * bytes),
                    guard,
                    (bounds, Locality::Unknown),
                );
            }
            out.push(regs);
        }
        out
    }

    #[allow(clippy::too_many_arguments)] // one line's surroundings; a struct of them would be used once
    fn lines(
        &mut self,
        rows: &Axis,
        cols: &Axis,
        d: &Plane,
        c: Option<&Plane>,
        reads_c: Option<Reg>,
        vectors: &[Expr],
        edge: Option<&Edge>,
    ) {
        let epilogue = self.plan.clauses.epilogue.clone();
        let vectors = self.load_vectors([rows, cols], vectors, edge.is_some());
        let (outer, inner) = if d.layout == Layout::Row { (rows, cols) } else { (cols, rows) };
        let mut line = d.base.clone();
        let mut c_line = c.map(|c| c.base.clone());
        for o in 0..outer.count {
            if o > 0 {
                self.b.origin(&epilogue, "on to the next line of D");
                let step = outer.position(o) - outer.position(o - 1);
                line = self.b.set(line + d.ld_bytes.clone() * step);
                if let (Some(c), Some(at)) = (c, &mut c_line) {
                    let along = if c.layout == d.layout { c.ld_bytes.clone() * step } else { (step * c.bytes).into() };
                    *at = self.b.set(at.clone() + along);
                }
            }
            let guards = edge.map(|edge| self.line_guards(edge, outer, o));
            let c_regs = match (c, &c_line) {
                (Some(c), Some(at)) => self.load_c(c, d, at, inner, reads_c, guards.as_deref()),
                _ => Vec::new(),
            };
            self.store_line(
                d,
                &line,
                inner,
                guards.as_deref(),
                |e| {
                    let (i, j) = if d.layout == Layout::Row { (o, e) } else { (e, o) };
                    (i, j, c_regs.get(e as usize).copied())
                },
                &vectors,
            );
        }
    }

    /// Per element of line `o`: does it lie inside D?
    fn line_guards(&mut self, edge: &Edge, outer: &Axis, o: u32) -> Vec<Reg> {
        let clause = self.plan.clauses.tail.clone();
        self.b.origin(&clause, "does this line lie inside D, and which of its elements?");
        let ok = self.b.set((outer.local.clone() + outer.position(o)).lt(outer.rem.clone()));
        edge.inner.iter().map(|inner| self.b.set_reg(ok.clone().and(Expr::Reg(*inner, 1)))).collect()
    }

    /// Loads the elements of C that belong to one line of D, in the accumulator's type.
    fn load_c(
        &mut self,
        c: &Plane,
        d: &Plane,
        line: &Expr,
        inner: &Axis,
        reads: Option<Reg>,
        guards: Option<&[Reg]>,
    ) -> Vec<Reg> {
        let clause = self.plan.clauses.epilogue.clone();
        let types = self.plan.problem.types;
        let raw = self.pool_c(inner.count as usize);
        let same_order = c.layout == d.layout;
        let width = if guards.is_some() || !same_order { 1 } else { c.width };
        let mut at = line.clone();
        for e in (0..inner.count).step_by(width as usize) {
            self.b.origin(&clause, "elements of C");
            let offset = if same_order {
                inner.position(e) * c.bytes
            } else {
                if e > 0 {
                    let step = inner.position(e) - inner.position(e - 1);
                    at = self.b.set(at + c.ld_bytes.clone() * step);
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
            let bounds = if guards.is_some() { Bounds::Guarded } else { self.inside() };
            let guard = guard.map(|pred| Guard { pred, expect: true });
            self.b.load_global(dst, &at, i64::from(offset), guard, (bounds, Locality::Unknown));
        }
        if register_type(types.c) == register_type(types.acc) {
            return raw;
        }
        self.b.origin(&clause, "C in the accumulator's type");
        let wide = self.b.fresh_many(self.families.value, raw.len());
        for (raw, wide) in raw.iter().zip(&wide) {
            self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
        }
        wide
    }

    fn pool_c(&mut self, n: usize) -> Vec<Reg> {
        while self.c_pool.len() < n {
            let reg = self.b.fresh(self.families.c);
            self.c_pool.push(reg);
        }
        self.c_pool[..n].to_vec()
    }

    /// Computes and stores one line: `operands` gives row, column and C of its elements.
    fn store_line(
        &mut self,
        d: &Plane,
        line: &Expr,
        inner: &Axis,
        guards: Option<&[Reg]>,
        operands: impl Fn(u32) -> (u32, u32, Option<Reg>),
        vectors: &[Vec<Reg>],
    ) {
        let clause = self.plan.clauses.epilogue.clone();
        let columns = self.plan.geometry.thread.n;
        let axes: Vec<bool> = self.plan.problem.epilogue.vectors.iter().map(|v| per_row(v.axis)).collect();
        let width = if guards.is_some() { 1 } else { d.width };
        let base = self.b.set_reg(line.clone());
        for e in (0..inner.count).step_by(width as usize) {
            self.values_used = 0;
            self.b.origin(&clause, "value of D");
            let mut src = Vec::new();
            for e in e..e + width {
                let (i, j, c) = operands(e);
                let vectors =
                    vectors.iter().zip(&axes).map(|(regs, row)| regs[if *row { i } else { j } as usize]).collect();
                let acc = self.acc[(i * columns + j) as usize];
                let value = self.evaluate(&Element { acc, c, vectors });
                src.push(self.in_d_type(value));
            }
            self.b.origin(&clause, "store D");
            let guard = guards.map(|g| Guard { pred: g[e as usize], expect: true });
            let bounds = if guards.is_some() { Bounds::Guarded } else { self.inside() };
            let address = Address { base, offset: i64::from(inner.position(e) * d.bytes), bound: UNBOUNDED };
            self.b.push(Op::Store { space: Space::Global, src, address, guard, bounds });
        }
    }

    /// A value as a register of D's type.
    fn in_d_type(&mut self, value: Value) -> Reg {
        let types = self.plan.problem.types;
        if let (Value::Reg(reg), true) = (value, register_type(types.d) == register_type(types.acc)) {
            return reg;
        }
        let dst = self.b.fresh(self.families.out);
        let op = if matches!(value, Value::Const(_)) { Math::Mov } else { Math::Convert };
        self.b.math(op, dst, vec![value]);
        dst
    }
}
