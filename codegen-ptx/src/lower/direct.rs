//! `shared(none)`: every thread reads its operands from global memory, step by step over all of k.
//!
//! Tiles at an edge clamp the coordinates of what they read to the last row or column, so that no load needs a guard; what
//! is computed there is not stored. Where a thread's elements would share one pointer (or one vector access) inside,
//! tiles that lie inside have a loop of their own.

use ptx_gemm_dsl::plan::{Fast, FmaOrder, Operand, Param as AbiParam, Side, Tail};

use super::{Lowering, Place, register_type};
use crate::kernel::{Bounds, Expr, Math, Op as KernelOp, Reg, Value};
use crate::tile::{Op, Statement};

/// How coordinates beyond the edge are kept away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// There are none.
    Inside,
    /// Clamped to the last row or column.
    Clamped,
}

/// One operand's loads in one loop.
struct Stream {
    side: Side,
    fast: Fast,
    /// Elements of the thread, in pieces that share a pointer: (pointer, constant bytes) of each element.
    elements: Vec<(usize, u32)>,
    pointers: Vec<Expr>,
    /// Bytes from one row of the contiguous dimension to the next.
    ld_bytes: Expr,
    bytes: u32,
    width: u32,
    regs: Vec<Reg>,
    converted: Vec<Reg>,
    bounds: Bounds,
}

impl Stream {
    /// K-steps that one read serves.
    fn group(&self) -> u32 {
        if self.fast == Fast::K { self.width } else { 1 }
    }

    fn at(&self, step: u32) -> Vec<Reg> {
        let regs = if self.converted.is_empty() { &self.regs } else { &self.converted };
        let group = self.group();
        (0..self.elements.len() as u32).map(|i| regs[(i * group + step % group) as usize]).collect()
    }
}

impl Lowering<'_> {
    /// Lowers the K-steps of a block without shared memory.
    pub(super) fn direct(&mut self, place: &Place, body: &[Statement], clause: &str) {
        let order = body.iter().find_map(|s| match s.op {
            Op::Multiply { order, .. } => Some(order),
            _ => None,
        });
        let order = order.unwrap_or(FmaOrder::Row);
        let shares = |side: Side, count: u32| self.side(side).1.global_fast == Fast::Mn && count > 1;
        let thread = self.plan.geometry.thread;
        let own_loop = shares(Side::A, thread.m) || shares(Side::B, thread.n);
        match (self.plan.tail, place.interior) {
            (Tail::Predicate, Some(interior)) if own_loop => {
                self.b.open();
                self.direct_loop(place, order, clause, Reach::Inside);
                let inside = self.b.close();
                self.b.open();
                self.direct_loop(place, order, clause, Reach::Clamped);
                let clamped = self.b.close();
                let tail = self.plan.clauses.tail.clone();
                self.b.origin(&tail, "tiles that lie inside share pointers");
                self.b.branch(interior, true, inside, clamped);
            }
            (Tail::Predicate, _) => self.direct_loop(place, order, clause, Reach::Clamped),
            (Tail::None, _) => self.direct_loop(place, order, clause, Reach::Inside),
        }
    }

    fn direct_loop(&mut self, place: &Place, order: FmaOrder, clause: &str, reach: Reach) {
        let unroll = self.plan.block.k;
        let mut streams = [self.stream(place, Side::A, reach), self.stream(place, Side::B, reach)];
        self.b.origin(clause, "K left");
        let left = self.b.variable(place.k.clone(), u64::from(u32::MAX));
        if unroll > 1 {
            self.counted(&left, unroll, clause, |this| this.direct_steps(&streams, unroll, order));
        }
        for stream in &mut streams {
            // What is left of k is read element by element, into the same registers.
            if stream.fast == Fast::K {
                stream.width = 1;
            }
        }
        self.counted(&left, 1, clause, |this| this.direct_steps(&streams, 1, order));
    }

    /// `while left >= steps { body; left -= steps }`.
    fn counted(&mut self, left: &Expr, steps: u32, clause: &str, body: impl FnOnce(&mut Self)) {
        self.b.origin(clause, &format!("{steps} K-steps a round"));
        let some = self.b.set_reg(left.clone().ge(steps));
        self.b.open();
        self.b.open();
        body(self);
        self.b.origin(clause, "K left after this round");
        self.b.assign(left, left.clone() - steps);
        let again = self.b.set_reg(left.clone().ge(steps));
        let body = self.b.close();
        self.b.origin(clause, &format!("{steps} K-steps a round"));
        self.b.push(KernelOp::Loop { body, again, uniform: true });
        let then = self.b.close();
        self.b.branch(some, true, then, Vec::new());
    }

    fn stream(&mut self, place: &Place, side: Side, reach: Reach) -> Stream {
        let (index, operand) = self.side(side);
        let operand = *operand;
        let geometry = self.plan.geometry;
        let (which, count, fragment, stride, local, start, rem, width) = match side {
            Side::A => (
                Operand::A,
                geometry.thread.m,
                geometry.fragment.m,
                geometry.stride.m,
                &place.row,
                &place.m0,
                &place.rem_m,
                self.variant.a.width,
            ),
            Side::B => (
                Operand::B,
                geometry.thread.n,
                geometry.fragment.n,
                geometry.stride.n,
                &place.col,
                &place.n0,
                &place.rem_n,
                self.variant.b.width,
            ),
        };
        let fast = operand.global_fast;
        let bytes = operand.dtype.bytes();
        let clause = self.plan.clauses.shared.clone();
        self.b.origin(&clause, &format!("addresses of this thread's part of {which:?}"));
        let base = self.matrix(place, which, bytes);
        let ld = self.wide_arg(&AbiParam::Ld(which));
        let ld_bytes = self.b.set(ld * bytes);
        let pitch = match fast {
            Fast::K => ld_bytes.clone(),
            Fast::Mn => Expr::Const(u64::from(bytes)),
        };
        let first_k = match fast {
            Fast::K => (place.k0.clone() * bytes).wide(),
            Fast::Mn => place.k0.clone().wide() * ld_bytes.clone(),
        };
        let base = self.b.set(base + first_k);
        let (mut pointers, mut elements) = (Vec::new(), Vec::new());
        let position = |i: u32| i / fragment * stride + i % fragment;
        for i in 0..count {
            let shared_pointer = reach == Reach::Inside && fast == Fast::Mn && i > 0;
            if !shared_pointer {
                let coordinate = local.clone() + position(i);
                let coordinate = match reach {
                    Reach::Inside => coordinate,
                    Reach::Clamped => coordinate.min(rem.clone() - 1u32),
                };
                let coordinate = start.clone() + coordinate;
                let address = base.clone() + coordinate.wide() * pitch.clone();
                pointers.push(self.b.variable_wide(address));
            }
            let constant = if shared_pointer { position(i) * bytes } else { 0 };
            elements.push((pointers.len() - 1, constant));
        }
        // A vector along m or n would cross an edge: only inside.
        let width = if fast == Fast::Mn && reach == Reach::Clamped { 1 } else { width };
        let group = if fast == Fast::K { width } else { 1 };
        let (raw, acc) = (register_type(operand.dtype), register_type(self.plan.problem.types.acc));
        let regs = self.rotating(index, 0, count * group, false);
        let converted = if raw == acc { Vec::new() } else { self.rotating(index, 0, count * group, true) };
        let bounds = if reach == Reach::Clamped { Bounds::Clamped } else { self.inside() };
        Stream { side, fast, elements, pointers, ld_bytes, bytes, width, regs, converted, bounds }
    }

    fn direct_steps(&mut self, streams: &[Stream; 2], steps: u32, order: FmaOrder) {
        let thread = self.plan.clauses.thread.clone();
        // Along m or n each step has its own address; they are stepped through one after the other.
        let mut at: [Vec<Expr>; 2] = [streams[0].pointers.clone(), streams[1].pointers.clone()];
        for step in 0..steps {
            for (stream, at) in streams.iter().zip(&mut at) {
                self.direct_fetch(stream, at, step);
            }
            self.b.origin(&thread, &format!("multiply, step {step}"));
            let (a, b) = (streams[0].at(step), streams[1].at(step));
            let acc = self.acc.clone();
            self.b.push(KernelOp::Outer { acc, a, b, order });
        }
        for (stream, at) in streams.iter().zip(at) {
            let clause = self.plan.clauses.shared.clone();
            self.b.origin(&clause, &format!("{:?}: on to the next steps", stream.side));
            for (pointer, at) in stream.pointers.iter().zip(at) {
                let step = match stream.fast {
                    Fast::K => Expr::Const(u64::from(steps * stream.bytes)),
                    Fast::Mn => stream.ld_bytes.clone(),
                };
                self.b.assign(pointer, at + step);
            }
        }
    }

    /// Reads one operand for `step`, and for the steps that share its vector.
    fn direct_fetch(&mut self, stream: &Stream, at: &mut [Expr], step: u32) {
        let group = stream.group();
        if !step.is_multiple_of(group) {
            return;
        }
        let clause = if stream.width > 1 { self.plan.clauses.vector.clone() } else { self.plan.clauses.shared.clone() };
        self.b.origin(&clause, &format!("{:?} from global memory, step {step}", stream.side));
        if stream.fast == Fast::Mn && step > 0 {
            for pointer in at.iter_mut() {
                *pointer = self.b.set(pointer.clone() + stream.ld_bytes.clone());
            }
        }
        let (per_read, k_offset) = match stream.fast {
            Fast::K => (1, step * stream.bytes),
            Fast::Mn => (stream.width, 0),
        };
        for i in (0..stream.elements.len()).step_by(per_read as usize) {
            let (pointer, constant) = stream.elements[i];
            let first = i * group as usize;
            let dst = stream.regs[first..first + stream.width as usize].to_vec();
            self.b.load_global(dst, &at[pointer], i64::from(constant + k_offset), None, stream.bounds);
        }
        let loaded = stream.elements.len() * group as usize;
        for (raw, wide) in stream.regs.iter().zip(&stream.converted).take(loaded) {
            self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
        }
    }
}
