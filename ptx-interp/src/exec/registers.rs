//! Register instructions: reads rows from the register file, passes them to [`super::alu`], writes the result under the
//! mask, and propagates taint.

use super::{Lanes, alu, scalar};
use ptx_gemm_ptx::types::Type;

use crate::op::{BinPred, Op, P, Quad, R32, R64, Scalar, ScalarFn, Slot};
use crate::row::{LANES, lanes};
use crate::warp::{Registers, Warp};

impl Registers {
    #[inline(always)]
    fn a32(&self, slot: R32) -> &[u32; LANES] {
        &self.r32[slot.0 as usize].0
    }

    #[inline(always)]
    fn a64(&self, slot: R64) -> &[u64; LANES] {
        &self.r64[slot.0 as usize].0
    }

    #[inline(always)]
    pub(super) fn put32(&mut self, d: R32, out: [u32; LANES], lanes: Lanes) {
        let row = &mut self.r32[d.0 as usize].0;
        if lanes.full {
            *row = out;
        } else {
            for lane in 0..LANES {
                row[lane] = if lanes.active >> lane & 1 != 0 { out[lane] } else { row[lane] };
            }
        }
    }

    #[inline(always)]
    pub(super) fn put64(&mut self, d: R64, out: [u64; LANES], lanes: Lanes) {
        let row = &mut self.r64[d.0 as usize].0;
        if lanes.full {
            *row = out;
        } else {
            for lane in 0..LANES {
                row[lane] = if lanes.active >> lane & 1 != 0 { out[lane] } else { row[lane] };
            }
        }
    }

    #[inline(always)]
    fn put_pred(&mut self, d: P, out: u32, active: u32) {
        let word = &mut self.preds[d.0 as usize];
        *word = *word & !active | out & active;
    }
}

/// The bodies of the three kinds of runs differ only in the row type.
macro_rules! run_of_multiply_adds {
    ($name:ident, $rows:ident, $put:ident, $slot:ident, $at:ident, $count:ident, $f:expr) => {
        #[inline(always)]
        pub(super) fn $name<const WATCH: bool>(&mut self, quads: &[Quad], lanes: Lanes) {
            for quad in quads {
                let rows = &self.regs.$rows;
                let (a, b, c) = (&rows[quad.a as usize].0, &rows[quad.b as usize].0, &rows[quad.c as usize].0);
                let out = $f(a, b, c);
                self.regs.$put($slot(quad.d), out, lanes);
                if WATCH {
                    let at = |slot| self.taint.$at($slot(slot));
                    let (d, sources) = (at(quad.d), [at(quad.a), at(quad.b), at(quad.c)]);
                    self.taint.flow(d, sources, lanes.active);
                }
            }
            self.$count += quads.len() as u64 * u64::from(lanes.active.count_ones());
        }
    };
}

impl Warp {
    run_of_multiply_adds!(fma_run32, r32, put32, R32, at32, fma, alu::fma32);
    run_of_multiply_adds!(fma_run64, r64, put64, R64, at64, fma, alu::fma64);
    run_of_multiply_adds!(mad_run32, r32, put32, R32, at32, mad, alu::mad32);

    /// Executes a run of multiply-adds.
    #[inline(always)]
    pub(super) fn multiply_adds<const WATCH: bool>(&mut self, op: &Op, quads: &[Quad], lanes: Lanes) {
        match op {
            Op::FmaRun64 { .. } => self.fma_run64::<WATCH>(quads, lanes),
            Op::MadRun32 { .. } => self.mad_run32::<WATCH>(quads, lanes),
            _ => self.fma_run32::<WATCH>(quads, lanes),
        }
    }

    /// Propagates the taint of the sources to the destination.
    #[inline(always)]
    fn flow<const WATCH: bool, const N: usize>(&mut self, d: impl Into<Slot>, sources: [Slot; N], lanes: Lanes) {
        if WATCH {
            let sources = sources.map(|slot| self.taint.at(slot));
            self.taint.flow(self.taint.at(d.into()), sources, lanes.active);
        }
    }

    /// Executes an instruction on whole rows.
    #[inline(always)]
    pub(super) fn row<const WATCH: bool>(&mut self, op: Op, lanes: Lanes) {
        let regs = &mut self.regs;
        match op {
            Op::Fma32 { d, a, b, c } => {
                let quad = Quad { d: d.0, a: a.0, b: b.0, c: c.0 };
                self.fma_run32::<WATCH>(&[quad], lanes);
            }
            Op::Fma64 { d, a, b, c } => {
                let quad = Quad { d: d.0, a: a.0, b: b.0, c: c.0 };
                self.fma_run64::<WATCH>(&[quad], lanes);
            }
            Op::Mad32 { d, a, b, c } => {
                let quad = Quad { d: d.0, a: a.0, b: b.0, c: c.0 };
                self.mad_run32::<WATCH>(&[quad], lanes);
            }
            Op::Mad64 { d, a, b, c } => {
                let f = |a: u64, b: u64, c: u64| a.wrapping_mul(b).wrapping_add(c);
                self.mad += u64::from(lanes.active.count_ones());
                regs.put64(d, alu::map3(regs.a64(a), regs.a64(b), regs.a64(c), f), lanes);
                self.flow::<WATCH, 3>(d, [a.into(), b.into(), c.into()], lanes);
            }
            Op::Un32 { f, d, a } => {
                regs.put32(d, alu::un32(f, regs.a32(a)), lanes);
                self.flow::<WATCH, 1>(d, [a.into()], lanes);
            }
            Op::Un64 { f, d, a } => {
                regs.put64(d, alu::un64(f, regs.a64(a)), lanes);
                self.flow::<WATCH, 1>(d, [a.into()], lanes);
            }
            Op::Bin32 { f, d, a, b } => {
                regs.put32(d, alu::bin32(f, regs.a32(a), regs.a32(b)), lanes);
                self.flow::<WATCH, 2>(d, [a.into(), b.into()], lanes);
            }
            Op::Bin64 { f, d, a, b } => {
                regs.put64(d, alu::bin64(f, regs.a64(a), regs.a64(b)), lanes);
                self.flow::<WATCH, 2>(d, [a.into(), b.into()], lanes);
            }
            Op::Shift64 { f, d, a, b } => {
                regs.put64(d, alu::shift64(f, regs.a64(a), regs.a32(b)), lanes);
                self.flow::<WATCH, 2>(d, [a.into(), b.into()], lanes);
            }
            Op::Set32 { cmp, d, q, a, b } => {
                let out = alu::set32(cmp, regs.a32(a), regs.a32(b));
                self.set::<WATCH>(d, q, out, [a.into(), b.into()], lanes);
            }
            Op::Set64 { cmp, d, q, a, b } => {
                let out = alu::set64(cmp, regs.a64(a), regs.a64(b));
                self.set::<WATCH>(d, q, out, [a.into(), b.into()], lanes);
            }
            Op::MovPred { .. } | Op::BinPred { .. } | Op::SelectPred { .. } => self.predicates::<WATCH>(op, lanes),
            _ => self.mixed::<WATCH>(op, lanes),
        }
    }

    /// Executes an instruction between rows of different widths, or a selection.
    #[inline(always)]
    fn mixed<const WATCH: bool>(&mut self, op: Op, lanes: Lanes) {
        let regs = &mut self.regs;
        match op {
            Op::MulWide { signed, d, a, b } => {
                regs.put64(d, alu::map2(regs.a32(a), regs.a32(b), |a, b| product(signed, a, b)), lanes);
                self.flow::<WATCH, 2>(d, [a.into(), b.into()], lanes);
            }
            Op::MadWide { signed, d, a, b, c } => {
                let f = |a, b, c: u64| product(signed, a, b).wrapping_add(c);
                self.mad += u64::from(lanes.active.count_ones());
                regs.put64(d, alu::map3(regs.a32(a), regs.a32(b), regs.a64(c), f), lanes);
                self.flow::<WATCH, 3>(d, [a.into(), b.into(), c.into()], lanes);
            }
            Op::Widen { signed, d, a } => {
                regs.put64(d, alu::map1(regs.a32(a), |a| widen(signed, a)), lanes);
                self.flow::<WATCH, 1>(d, [a.into()], lanes);
            }
            Op::Narrow { d, a } => {
                regs.put32(d, alu::map1(regs.a64(a), |a| a as u32), lanes);
                self.flow::<WATCH, 1>(d, [a.into()], lanes);
            }
            Op::Pack { d, low, high } => {
                let f = |low, high| u64::from(low) | u64::from(high) << 32;
                regs.put64(d, alu::map2(regs.a32(low), regs.a32(high), f), lanes);
                self.flow::<WATCH, 2>(d, [low.into(), high.into()], lanes);
            }
            Op::Unpack { low, high, a } => {
                let row = *regs.a64(a);
                regs.put32(low, alu::map1(&row, |a| a as u32), lanes);
                regs.put32(high, alu::map1(&row, |a| (a >> 32) as u32), lanes);
                self.flow::<WATCH, 1>(low, [a.into()], lanes);
                self.flow::<WATCH, 1>(high, [a.into()], lanes);
            }
            Op::Split { low, high, a } => {
                let row = *regs.a32(a);
                regs.put32(low, alu::map1(&row, |a| a & 0xffff), lanes);
                regs.put32(high, alu::map1(&row, |a| a >> 16), lanes);
                self.flow::<WATCH, 1>(high, [a.into()], lanes);
                self.flow::<WATCH, 1>(low, [a.into()], lanes);
            }
            Op::Select32 { d, a, b, p } => {
                let word = regs.preds[p.0 as usize];
                let out =
                    std::array::from_fn(
                        |lane| {
                            if word >> lane & 1 != 0 { regs.a32(a)[lane] } else { regs.a32(b)[lane] }
                        },
                    );
                regs.put32(d, out, lanes);
                self.select::<WATCH>(d.into(), a.into(), b.into(), p, lanes);
            }
            Op::Select64 { d, a, b, p } => {
                let word = regs.preds[p.0 as usize];
                let out =
                    std::array::from_fn(
                        |lane| {
                            if word >> lane & 1 != 0 { regs.a64(a)[lane] } else { regs.a64(b)[lane] }
                        },
                    );
                regs.put64(d, out, lanes);
                self.select::<WATCH>(d.into(), a.into(), b.into(), p, lanes);
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn set<const WATCH: bool>(&mut self, d: P, q: P, out: u32, sources: [Slot; 2], lanes: Lanes) {
        self.regs.put_pred(q, !out, lanes.active);
        self.regs.put_pred(d, out, lanes.active);
        self.flow::<WATCH, 2>(q, sources, lanes);
        self.flow::<WATCH, 2>(d, sources, lanes);
    }

    /// The taint of a selection depends on the predicate and, lane by lane, on the selected side.
    #[inline(always)]
    fn select<const WATCH: bool>(&mut self, d: Slot, a: Slot, b: Slot, p: P, lanes: Lanes) {
        if WATCH {
            let taken = self.regs.preds[p.0 as usize];
            let at = |slot| self.taint.at(slot);
            let (d, a, b, p) = (at(d), at(a), at(b), at(p.into()));
            let (taint_a, taint_b) = (self.taint.mask(a) & taken, self.taint.mask(b) & !taken);
            let taint_p = self.taint.mask(p);
            let source = if taint_p & lanes.active != 0 {
                p
            } else if taint_a & lanes.active != 0 {
                a
            } else {
                b
            };
            self.taint.assign(d, taint_a | taint_b | taint_p, source, lanes.active);
        }
    }

    /// The taint of two predicates' combination.
    #[inline(always)]
    fn combine<const WATCH: bool>(&mut self, f: BinPred, d: P, of: [P; 2], (a, b): (u32, u32), lanes: Lanes) {
        if WATCH {
            let [at_a, at_b] = of.map(|p| self.taint.at_pred(p));
            let (taint_a, taint_b) = (self.taint.mask(at_a), self.taint.mask(at_b));
            let tainted = (taint_a | taint_b) & !f.decided((a, taint_a), (b, taint_b));
            let source = if taint_a & tainted & lanes.active != 0 { at_a } else { at_b };
            self.taint.assign(self.taint.at_pred(d), tainted, source, lanes.active);
        }
    }

    #[inline(always)]
    fn predicates<const WATCH: bool>(&mut self, op: Op, lanes: Lanes) {
        let word = |p: P| self.regs.preds[p.0 as usize];
        match op {
            Op::MovPred { negated, d, a } => {
                let out = if negated { !word(a) } else { word(a) };
                self.regs.put_pred(d, out, lanes.active);
                self.flow::<WATCH, 1>(d, [a.into()], lanes);
            }
            Op::BinPred { f, d, a, b } => {
                let out = match f {
                    BinPred::And => word(a) & word(b),
                    BinPred::Or => word(a) | word(b),
                    BinPred::Xor => word(a) ^ word(b),
                };
                let values = (word(a), word(b));
                self.regs.put_pred(d, out, lanes.active);
                self.combine::<WATCH>(f, d, [a, b], values, lanes);
            }
            Op::SelectPred { d, a, b, p } => {
                let out = word(a) & word(p) | word(b) & !word(p);
                self.regs.put_pred(d, out, lanes.active);
                self.select::<WATCH>(d.into(), a.into(), b.into(), p, lanes);
            }
            _ => {}
        }
    }

    /// A clock that counts the warp's own instructions: it advances, and it is the same in every run.
    pub(super) fn clock<const WATCH: bool>(&mut self, d: Slot, value: u64, active: u32) {
        for lane in lanes(active) {
            self.regs.set(d, lane, value);
        }
        if WATCH {
            self.taint.clear(self.taint.at(d), active);
        }
    }

    /// Executes a rarer operation, lane by lane.
    #[inline(never)]
    pub(super) fn scalar<const WATCH: bool>(&mut self, op: &Scalar, active: u32) {
        for lane in lanes(active) {
            let values = op.sources.map(|slot| self.regs.get(slot, lane));
            self.regs.set(op.d, lane, scalar::evaluate(op.f, values));
        }
        if op.f.is_fma() {
            let packed = matches!(op.f, ScalarFn::Half { ty: Type::F16x2 | Type::Bf16x2, .. });
            self.fma += u64::from(active.count_ones()) * if packed { 2 } else { 1 };
        }
        if WATCH {
            let sources = op.sources.map(|slot| self.taint.at(slot));
            let d = self.taint.at(op.d);
            match op.arity {
                1 => self.taint.flow(d, [sources[0]], active),
                2 => self.taint.flow(d, [sources[0], sources[1]], active),
                3 => self.taint.flow(d, [sources[0], sources[1], sources[2]], active),
                _ => self.taint.flow(d, sources, active),
            }
        }
    }
}

#[inline(always)]
fn widen(signed: bool, a: u32) -> u64 {
    if signed { a as i32 as i64 as u64 } else { u64::from(a) }
}

#[inline(always)]
fn product(signed: bool, a: u32, b: u32) -> u64 {
    widen(signed, a).wrapping_mul(widen(signed, b))
}
