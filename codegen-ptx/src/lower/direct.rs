//! `shared(none)`: every thread reads its operands from global memory, step by step over all of k.
//!
//! Fragments are read `prefetch` steps ahead of the products that use them, also from one round of the unrolled loop to the
//! next: without it each round waits for its own loads (`naive` on an H200 at 4096: 4.7 instead of 6.5 TFLOP/s). An operand
//! that is read in groups along k is read ahead by whole groups.
//!
//! Tiles at an edge clamp the coordinates of what they read to the last row or column, so that no load needs a guard; what
//! is computed there is not stored. Where a thread's elements would share one pointer (or one vector access) inside,
//! tiles that lie inside have a loop of their own.

use ptx_gemm_dsl::terms::{Fast, FmaOrder, Operand, Param as AbiParam, Side, Tail};

use super::{Lowering, Place, locality, register_type};
use crate::kernel::{Bounds, Expr, Guard, Locality, Math, Op as KernelOp, Reg, Value};
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
    /// Register sets in rotation; each holds one group.
    sets: Vec<Vec<Reg>>,
    /// One set in the accumulator's type, where that differs.
    converted: Vec<Reg>,
    bounds: Bounds,
    locality: Locality,
}

/// How the K-steps are taken.
#[derive(Clone, Copy)]
struct Rounds {
    /// Steps of a round.
    steps: u32,
    /// Steps ahead that fragments are read.
    prefetch: u32,
    order: FmaOrder,
}

impl Stream {
    /// K-steps that one read serves.
    fn group(&self) -> u32 {
        if self.fast == Fast::K { self.width } else { 1 }
    }

    /// The set of the group that holds `step`.
    fn set(&self, step: u32) -> &[Reg] {
        &self.sets[(step / self.group()) as usize % self.sets.len()]
    }

    fn at(&self, step: u32) -> Vec<Reg> {
        let regs = if self.converted.is_empty() { self.set(step) } else { &self.converted };
        let group = self.group();
        (0..self.elements.len() as u32).map(|i| regs[(i * group + step % group) as usize]).collect()
    }

    /// Bytes from a step to the one `steps` later.
    fn distance(&self, steps: u32) -> Expr {
        match self.fast {
            Fast::K => Expr::Const(u64::from(steps * self.bytes)),
            Fast::Mn => self.ld_bytes.clone() * steps,
        }
    }

    /// Steps that this operand is read ahead: whole groups.
    fn ahead(&self, prefetch: u32) -> u32 {
        prefetch / self.group() * self.group()
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
            let rounds = Rounds { steps: unroll, prefetch: self.plan.prefetch, order };
            self.rounds(&streams, &left, clause, rounds);
        }
        for stream in &mut streams {
            // What is left of k is read element by element, into the same registers.
            if stream.fast == Fast::K {
                stream.width = 1;
            }
        }
        self.rounds(&streams, &left, clause, Rounds { steps: 1, prefetch: 0, order });
    }

    /// As many whole rounds as are left.
    fn rounds(&mut self, streams: &[Stream; 2], left: &Expr, clause: &str, rounds: Rounds) {
        let Rounds { steps, prefetch, .. } = rounds;
        let ahead = streams.each_ref().map(|stream| stream.ahead(prefetch));
        self.b.origin(clause, &format!("{steps} K-steps a round"));
        let some = self.b.set_reg(left.clone().ge(steps));
        self.b.open();
        for (stream, ahead) in streams.iter().zip(ahead) {
            self.first_steps(stream, ahead);
        }
        self.b.open();
        self.b.origin(clause, "K left after this round");
        self.b.assign(left, left.clone() - steps);
        let again = self.b.set_reg(left.clone().ge(steps));
        self.round(streams, ahead, again, rounds);
        let body = self.b.close();
        self.b.origin(clause, &format!("{steps} K-steps a round"));
        self.b.push(KernelOp::Loop { body, again, uniform: true });
        for (stream, ahead) in streams.iter().zip(ahead).filter(|(_, ahead)| *ahead > 0) {
            self.b.origin(
                &self.plan.clauses.prefetch.clone(),
                &format!("{:?}: back to the next product's step", stream.side),
            );
            let back = stream.distance(ahead);
            for pointer in &stream.pointers {
                self.b.assign(pointer, pointer.clone() - back.clone());
            }
        }
        let then = self.b.close();
        self.b.branch(some, true, then, Vec::new());
    }

    /// Reads the steps before the loop that are read ahead in it; the pointers stand behind them then.
    fn first_steps(&mut self, stream: &Stream, ahead: u32) {
        let mut at = stream.pointers.clone();
        for step in (0..ahead).step_by(stream.group() as usize) {
            self.direct_fetch(stream, &mut at, (step, step), None);
        }
        self.step_on(stream, at, ahead);
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
            Fast::K => place.k0.clone().wide() * bytes,
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
        // Of a ring of as many groups as a round has, what is read ahead never meets what is still to be multiplied.
        let ring = if self.plan.prefetch >= group { (self.plan.block.k / group).max(1) } else { 1 };
        let each = count * group;
        let sets = (0..ring).map(|set| self.rotating(index, set * each, each, false)).collect();
        let converted = if raw == acc { Vec::new() } else { self.rotating(index, 0, each, true) };
        let bounds = if reach == Reach::Clamped { Bounds::Clamped } else { self.inside() };
        let locality = locality(&operand);
        Stream { side, fast, elements, pointers, ld_bytes, bytes, width, sets, converted, bounds, locality }
    }

    /// One round of the unrolled loop; `again` says whether another one follows.
    fn round(&mut self, streams: &[Stream; 2], ahead: [u32; 2], again: Reg, rounds: Rounds) {
        let thread = self.plan.clauses.thread.clone();
        // Along m or n each step has its own address; they are stepped through one after the other.
        let mut at: [Vec<Expr>; 2] = [streams[0].pointers.clone(), streams[1].pointers.clone()];
        for step in 0..rounds.steps {
            for ((stream, at), ahead) in streams.iter().zip(&mut at).zip(ahead) {
                // Steps of the next round are read only if there is one.
                let guard = (step + ahead >= rounds.steps).then_some(Guard { pred: again, expect: true });
                self.direct_fetch(stream, at, (step, (step + ahead) % rounds.steps), guard);
                self.convert(stream, step);
            }
            self.b.origin(&thread, &format!("multiply, step {step}"));
            let (a, b) = (streams[0].at(step), streams[1].at(step));
            let acc = self.acc.clone();
            self.b.push(KernelOp::Outer { acc, a, b, order: rounds.order });
        }
        for (stream, at) in streams.iter().zip(at) {
            self.step_on(stream, at, rounds.steps);
        }
    }

    /// Moves the pointers, which were stepped through as far as `at`, `steps` on from where they stood.
    fn step_on(&mut self, stream: &Stream, at: Vec<Expr>, steps: u32) {
        if steps == 0 {
            return;
        }
        let clause = self.plan.clauses.shared.clone();
        self.b.origin(&clause, &format!("{:?}: on to the next steps", stream.side));
        for (pointer, at) in stream.pointers.iter().zip(at) {
            let step = match stream.fast {
                Fast::K => stream.distance(steps),
                Fast::Mn => stream.distance(1),
            };
            self.b.assign(pointer, at + step);
        }
    }

    /// Reads one operand for step `step` from the pointers and for the steps that share its vector, as the round's steps
    /// from `of` on.
    fn direct_fetch(&mut self, stream: &Stream, at: &mut [Expr], (step, of): (u32, u32), guard: Option<Guard>) {
        let group = stream.group();
        if !step.is_multiple_of(group) {
            return;
        }
        let clause = if stream.width > 1 { self.plan.clauses.vector.clone() } else { self.plan.clauses.shared.clone() };
        self.b.origin(&clause, &format!("{:?} from global memory, step {of}", stream.side));
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
            let dst = stream.set(of)[first..first + stream.width as usize].to_vec();
            let offset = i64::from(constant + k_offset);
            self.b.load_global(dst, &at[pointer], offset, guard, (stream.bounds, stream.locality));
        }
    }

    /// Brings the group that `step` begins into the accumulator's type.
    fn convert(&mut self, stream: &Stream, step: u32) {
        if stream.converted.is_empty() || !step.is_multiple_of(stream.group()) {
            return;
        }
        let loaded = stream.elements.len() * stream.group() as usize;
        let raw = stream.set(step)[..loaded].to_vec();
        for (raw, wide) in raw.iter().zip(&stream.converted) {
            self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
        }
    }
}
