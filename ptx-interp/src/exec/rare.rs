//! Instructions of other compilers that have several destinations, and the results of reducing barriers.

use ptx_gemm_ptx::extended::BarReduction;

use ptx_gemm_ptx::types::Type;

use super::bits;
use super::elements::compare;
use crate::barrier::Votes;
use crate::op::{BarrierReduce, BinPred, Bits, Rare, Slot};
use crate::row::lanes;
use crate::warp::Warp;

impl Warp {
    #[inline(never)]
    pub(super) fn rare<const WATCH: bool>(&mut self, op: &Rare, active: u32) {
        match *op {
            Rare::SetWith { cmp, ty, with, d, q, sources: [a, b], c } => {
                let bits = |holds: &dyn Fn(usize) -> bool| {
                    lanes(active).filter(|lane| holds(*lane)).fold(0u32, |bits, lane| bits | 1 << lane)
                };
                let found = bits(&|lane| compare(cmp, ty, self.regs.get(a, lane), self.regs.get(b, lane)));
                let other = bits(&|lane| (self.regs.get(c.p.into(), lane) != 0) != c.negated);
                let both = |found: u32| match with {
                    BinPred::And => found & other,
                    BinPred::Or => found | other,
                    BinPred::Xor => found ^ other,
                };
                for lane in lanes(active) {
                    self.regs.set(d.into(), lane, (both(found) >> lane).into());
                    self.regs.set(q.into(), lane, (both(!found) >> lane).into());
                }
                if WATCH {
                    let at = |slot| self.taint.at(slot);
                    let sources = [at(a), at(b), at(c.p.into())];
                    let [of_a, of_b, of_other] = sources.map(|at| self.taint.mask(at));
                    let decided = |found| with.decided((found, of_a | of_b), (other, of_other));
                    let to = [(at(d.into()), decided(found)), (at(q.into()), decided(!found))];
                    self.taint_from(&sources, &to, active);
                }
            }
            Rare::Lookup { d, p, sources, table, with, c } => {
                let (mut any, mut other) = (0, 0);
                for lane in lanes(active) {
                    let [x, y, z] = sources.map(|slot| self.regs.get(slot.into(), lane));
                    let value = bits::evaluate(Bits::Table, Type::B32, [x, y, z, table.into()]) & 0xffff_ffff;
                    any |= u32::from(value != 0) << lane;
                    other |= u32::from((self.regs.get(c.p.into(), lane) != 0) != c.negated) << lane;
                    self.regs.set(d.into(), lane, value);
                }
                let both = match with {
                    BinPred::And => any & other,
                    BinPred::Or => any | other,
                    BinPred::Xor => any ^ other,
                };
                lanes(active).for_each(|lane| self.regs.set(p.into(), lane, (both >> lane & 1).into()));
                if WATCH {
                    let at = |slot: Slot| self.taint.at(slot);
                    let [x, y, z] = sources.map(|slot| at(slot.into()));
                    let (d, p, q) = (at(d.into()), at(p.into()), at(c.p.into()));
                    let of_sources = [x, y, z].iter().fold(0, |all, source| all | self.taint.mask(*source));
                    let decided = with.decided((any, of_sources), (other, self.taint.mask(q)));
                    // The value's taint does not depend on the predicate, which may be the second destination.
                    self.taint_from(&[x, y, z, q], &[(p, decided)], active);
                    self.taint_from(&[x, y, z], &[(d, 0)], active);
                }
            }
            Rare::Unpack4 { parts, a } => {
                for lane in lanes(active) {
                    let value = self.regs.get(a.into(), lane);
                    for (index, part) in parts.into_iter().enumerate() {
                        self.regs.set(part.into(), lane, value >> (16 * index) & 0xffff);
                    }
                }
                if WATCH {
                    let from = [self.taint.at(Slot::from(a))];
                    let to = parts.map(|part| (self.taint.at(Slot::from(part)), 0));
                    self.taint_from(&from, &to, active);
                }
            }
            Rare::Move128 { d, a } => {
                for lane in lanes(active) {
                    let value = a.map(|half| self.regs.get(half.into(), lane));
                    d.into_iter().zip(value).for_each(|(d, value)| self.regs.set(d.into(), lane, value));
                }
                if WATCH {
                    let [d, a] = [d, a].map(|halves| halves.map(|half| self.taint.at(Slot::from(half))));
                    self.taint_from(&a, &d.map(|at| (at, 0)), active);
                }
            }
        }
    }

    /// Gives the taint of the sources to all destinations, except in these lanes of each. A destination may also be a
    /// source.
    fn taint_from(&mut self, sources: &[usize], to: &[(usize, u32)], active: u32) {
        let tainted = sources.iter().fold(0, |all, source| all | self.taint.mask(*source));
        let from = sources.iter().find(|source| self.taint.mask(**source) & active != 0);
        let from = *from.unwrap_or(&sources[0]);
        // The origin is read before it is overwritten.
        let (last, first) = to.iter().partition::<Vec<_>, _>(|(d, _)| *d == from);
        first.into_iter().chain(last).for_each(|(d, known)| self.taint.assign(d, tainted & !known, from, active));
    }

    /// The votes of the lanes that arrive at a reducing barrier.
    pub(crate) fn votes(&self, op: &BarrierReduce, watched: bool) -> Votes {
        let p = op.condition.p;
        let yes = lanes(self.mask).filter(|lane| (self.regs.get(p.into(), *lane) != 0) != op.condition.negated);
        let tainted = watched && self.taint.mask(self.taint.at_pred(p)) & self.mask != 0;
        Votes { yes: yes.count() as u32, all: self.mask.count_ones(), tainted }
    }

    /// Gives the result of a reducing barrier to the lanes that waited there.
    pub(crate) fn reduced(&mut self, op: &BarrierReduce, votes: Votes, watched: bool) {
        let value = match op.op {
            BarReduction::Popc => votes.yes,
            BarReduction::And => u32::from(votes.yes == votes.all),
            BarReduction::Or => u32::from(votes.yes != 0),
        };
        let mask = self.mask;
        lanes(mask).for_each(|lane| self.regs.set(op.d, lane, value.into()));
        if watched {
            let (d, p) = (self.taint.at(op.d), self.taint.at_pred(op.condition.p));
            self.taint.assign(d, if votes.tainted { u32::MAX } else { 0 }, p, mask);
        }
    }
}
