//! Split-K: the parts of a tile meet in a workspace, and their sums are added in the order of the parts.
//!
//! Each thread has a flag of its own and meets only the threads that computed the same elements in other parts, so that
//! nothing here needs a barrier. The workspace begins with the flags, one per tile and thread, zero between launches;
//! behind them (from the next multiple of 256 bytes) stand partial sums, element by element, thread beside thread.
//!
//! `serial`: part p waits until the flag says p, adds its sums to those so far, and passes them on.
//! `workspace`: every part stores its sums; the one that counts the flag full adds them all up.

use ptx_gemm_dsl::terms::{Param as AbiParam, Reduce, SplitK};

use super::walk::Units;
use super::{Lowering, Place};
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::{Address, Bounds, Compare, Expr, Locality, Math, Op, Reg, Space, Value};
use crate::tile::Statement;

impl Lowering<'_> {
    /// Adds up the parts of `place`'s tile; the last contributor lowers `body`.
    pub(super) fn reduce(&mut self, place: &Place, units: &Units, body: &[Statement], clause: &str) {
        let Some(split) = self.plan.split_k else { return self.tile(place, units, body) };
        let threads = self.plan.geometry.threads;
        self.b.origin(clause, "this thread's flag and its partial sums");
        let workspace = self.wide_arg(&AbiParam::Workspace);
        let flag_of = place.tile.clone().wide() * (threads * 4) + (Expr::Tid(threads) * 4u32).wide();
        let flag = self.b.set(workspace.clone() + flag_of);
        let flag = Address { base: self.b.set_reg(flag), offset: 0, bound: UNBOUNDED };
        let flags = ((units.all_tiles.clone().wide() * (threads * 4) + 255u32) / 256u32) * 256u32;
        let bytes = self.accumulator_bytes();
        let slot_bytes = self.acc.len() as u32 * threads * bytes;
        let first = workspace + flags + (Expr::Tid(threads) * bytes).wide();
        match split.reduce {
            Reduce::Serial => {
                let slot = self.b.set(first + place.tile.clone().wide() * slot_bytes);
                self.serial(place, units, split, (flag, &slot), body, clause);
            }
            Reduce::Workspace => {
                let slots = self.b.set(first + (place.tile.clone().wide() * split.parts) * slot_bytes);
                self.gathered(place, units, split, (flag, &slots, slot_bytes), body, clause);
            }
        }
    }

    fn accumulator_bytes(&self) -> u32 {
        super::register_type(self.plan.problem.types.acc).bytes()
    }

    fn serial(
        &mut self,
        place: &Place,
        units: &Units,
        split: SplitK,
        at: (Address, &Expr),
        body: &[Statement],
        clause: &str,
    ) {
        let (flag, slot) = at;
        self.b.origin(clause, "is there a part before this one?");
        let later = self.b.set_reg(place.part.clone().ge(1u32));
        self.b.open();
        self.b.origin(clause, "wait for the part before");
        self.b.open();
        let seen = self.b.set_reg(Expr::Block);
        self.b.push(Op::ReadFlag { dst: seen, address: flag });
        let again = self.b.set_reg(Expr::Reg(seen, UNBOUNDED).compare(Compare::Ne, place.part.clone()));
        let spin = self.b.close();
        self.b.push(Op::Loop { body: spin, again, uniform: false });
        self.add_partials(slot, clause);
        let then = self.b.close();
        self.b.origin(clause, "add to the sums of the parts before");
        self.b.branch(later, true, then, Vec::new());

        self.b.origin(clause, "is this the last part?");
        let last = self.b.set_reg((place.part.clone() + 1u32).ge(split.parts));
        self.b.open();
        self.lower_flag(flag, clause);
        self.tile(place, units, body);
        let finish = self.b.close();
        self.b.open();
        self.store_partials(slot, clause);
        self.b.origin(clause, "pass the sums on to the next part");
        let value = self.b.set_reg(place.part.clone() + 1u32);
        self.b.push(Op::RaiseFlag { address: flag, value });
        let pass_on = self.b.close();
        self.b.branch(last, true, finish, pass_on);
    }

    fn gathered(
        &mut self,
        place: &Place,
        units: &Units,
        split: SplitK,
        at: (Address, &Expr, u32),
        body: &[Statement],
        clause: &str,
    ) {
        let (flag, slots, slot_bytes) = at;
        self.b.origin(clause, "this part's partial sums");
        let own = self.b.set(slots.clone() + place.part.clone().wide() * slot_bytes);
        self.store_partials(&own, clause);
        self.b.origin(clause, "count the parts that are done");
        let count = self.b.set_reg(Expr::Block);
        self.b.push(Op::CountUp { dst: count, address: flag });
        let last = self.b.set_reg((Expr::Reg(count, UNBOUNDED) + 1u32).ge(split.parts));
        self.b.open();
        self.lower_flag(flag, clause);
        self.b.origin(clause, "the first part's sums");
        for (e, reg) in self.acc.clone().into_iter().enumerate() {
            let address = self.partial(slots, e);
            let (bounds, locality) = (Bounds::Exact, Locality::Unknown);
            self.b.push(Op::Load { space: Space::Global, dst: vec![reg], address, guard: None, bounds, locality });
        }
        if split.parts > 1 {
            self.b.origin(clause, "then those of the others, in their order");
            let slot = self.b.variable(slots.clone() + slot_bytes, UNBOUNDED);
            let left = self.b.variable(Expr::Const(u64::from(split.parts - 1)), u64::from(split.parts));
            self.b.open();
            let sums = self.partials(&slot);
            self.b.origin(clause, "add one part's sums");
            for (acc, sum) in self.acc.clone().into_iter().zip(sums) {
                self.b.math(Math::Add, acc, vec![Value::Reg(acc), Value::Reg(sum)]);
            }
            self.b.assign(&slot, slot.clone() + slot_bytes);
            self.b.assign(&left, left.clone() - 1u32);
            let again = self.b.set_reg(left.ge(1u32));
            let body = self.b.close();
            self.b.push(Op::Loop { body, again, uniform: false });
        }
        self.tile(place, units, body);
        let finish = self.b.close();
        self.b.origin(clause, "the part that is done last finishes the tile");
        self.b.branch(last, false, finish, Vec::new());
    }

    /// The flag is zero again for the next launch.
    fn lower_flag(&mut self, flag: Address, clause: &str) {
        self.b.origin(clause, "the flag is ready for the next launch");
        let value = self.b.set_reg(Expr::Const(0));
        self.b.push(Op::Store {
            space: Space::Global,
            src: vec![value],
            address: flag,
            guard: None,
            bounds: Bounds::Exact,
        });
    }

    fn partial(&mut self, slot: &Expr, element: usize) -> Address {
        let bytes = self.accumulator_bytes();
        let offset = element as i64 * i64::from(self.plan.geometry.threads * bytes);
        Address { base: self.b.set_reg(slot.clone()), offset, bound: UNBOUNDED }
    }

    fn store_partials(&mut self, slot: &Expr, clause: &str) {
        self.b.origin(clause, "store the partial sums");
        for (e, reg) in self.acc.clone().into_iter().enumerate() {
            let address = self.partial(slot, e);
            self.b.push(Op::Store {
                space: Space::Global,
                src: vec![reg],
                address,
                guard: None,
                bounds: Bounds::Exact,
            });
        }
    }

    fn partials(&mut self, slot: &Expr) -> Vec<Reg> {
        let sums = self.b.fresh_many(self.families.value, self.acc.len());
        for (e, reg) in sums.iter().enumerate() {
            let address = self.partial(slot, e);
            self.b.push(Op::Load {
                space: Space::Global,
                dst: vec![*reg],
                address,
                guard: None,
                bounds: Bounds::Exact,
                locality: Locality::Unknown,
            });
        }
        sums
    }

    fn add_partials(&mut self, slot: &Expr, clause: &str) {
        self.b.origin(clause, "the sums of the parts before");
        let sums = self.partials(slot);
        self.b.origin(clause, "add this part's sums");
        for (acc, sum) in self.acc.clone().into_iter().zip(sums) {
            self.b.math(Math::Add, acc, vec![Value::Reg(sum), Value::Reg(acc)]);
        }
    }
}
