//! The K-steps of one staged tile: operand fragments from shared memory, and the outer products.
//!
//! A fragment is read in groups of `read_width` elements along the shared order: along m or n every step reads its own
//! group, along k one group serves that many steps. Reads run `prefetch` steps ahead of the products that use them, within
//! the unrolled body, rounded down to whole groups: a group of four steps is not held twice to be one step early.

use ptx_gemm_dsl::plan::{OperandPlan, Placement};
use ptx_gemm_dsl::terms::{Fast, FmaOrder, Operands, Side, Swizzle};

use super::shared::SharedAddress;
use super::{Lowering, Place, register_type};
use crate::kernel::{Expr, Math, Op as KernelOp, Reg, Value, outer_order};
use crate::tile::{Op, Statement};

/// Reads one operand's fragments.
struct Fragments {
    side: Side,
    operand: OperandPlan,
    placement: Placement,
    /// Address of the thread's first element at the first step of the unrolled body.
    base: SharedAddress,
    /// Register sets in rotation; each holds one group.
    sets: Vec<Vec<Reg>>,
    /// Per set: the same values in the accumulator's type, where that differs.
    converted: Vec<Vec<Reg>>,
    /// Thread extents: elements, fragment, distance between fragments.
    count: u32,
    fragment: u32,
    stride: u32,
}

/// Where a thread's part of an operand begins in slot 0.
#[derive(Clone)]
pub(super) struct FragmentBase {
    /// In bytes from the operand's own start, before any swizzle.
    offset: Expr,
    /// Prepared for the distances of one unrolled body.
    address: SharedAddress,
}

impl FragmentBase {
    /// A base that is replaced before it is used.
    pub(super) fn nowhere() -> FragmentBase {
        FragmentBase { offset: Expr::Const(0), address: SharedAddress::nowhere() }
    }
}

impl Fragments {
    /// Steps that one group serves.
    fn group(&self) -> u32 {
        match self.placement.fast {
            Fast::K => self.operand.read_width,
            Fast::Mn => 1,
        }
    }

    /// Groups that are read ahead, of the `unroll / group` of one body.
    fn ahead(&self, prefetch: u32, unroll: u32) -> u32 {
        (prefetch / self.group()).min(unroll.div_ceil(self.group()) - 1)
    }

    /// Position of the thread's element number `i` along m or n, from its first.
    fn position(&self, i: u32) -> u32 {
        i / self.fragment * self.stride + i % self.fragment
    }

    /// Bytes from the base to element `i` at step `step`.
    fn offset(&self, i: u32, step: u32) -> u32 {
        let (slow, fast) = match self.placement.fast {
            Fast::K => (self.position(i), step),
            Fast::Mn => (step, self.position(i)),
        };
        (slow * self.placement.pitch + fast) * self.operand.dtype.bytes()
    }

    /// Every distance from the base that a body of `unroll` steps reads at.
    fn distances(&self, unroll: u32) -> Vec<u32> {
        (0..self.count).flat_map(|i| (0..unroll).map(move |step| self.offset(i, step))).collect()
    }

    /// Registers that hold the operand at `step`.
    fn at(&self, step: u32) -> Vec<Reg> {
        let group = self.group();
        let set = (step / group) as usize % self.sets.len();
        let regs = if self.converted.is_empty() { &self.sets[set] } else { &self.converted[set] };
        (0..self.count).map(|i| regs[(i * group + step % group) as usize]).collect()
    }
}

impl Lowering<'_> {
    /// Where the thread's part of an operand begins in slot 0.
    pub(super) fn fragment_base(&mut self, place: &Place, placement: Placement, side: Side) -> FragmentBase {
        let clause = self.plan.clauses.shared.clone();
        self.b.origin(&clause, &format!("this thread's part of {side:?} in the first slot"));
        let own = if side == Side::A { place.row.clone() } else { place.col.clone() };
        let in_slot = match placement.fast {
            Fast::K => own * placement.pitch,
            Fast::Mn => own,
        };
        let bytes = self.side(side).1.dtype.bytes();
        let offset = self.b.set(in_slot * bytes);
        let distances = self.fragments(side).distances(self.plan.unroll);
        let Placement { offset_bytes, swizzle, .. } = placement;
        let address = SharedAddress::new(&mut self.b, offset_bytes, offset.clone(), swizzle, distances);
        FragmentBase { offset, address }
    }

    /// All K-steps of the tile in the slot at byte offset `read`.
    pub(super) fn steps(&mut self, read: &Expr, body: &[Statement], clause: &str) {
        let order = body.iter().find_map(|s| match s.op {
            Op::Multiply { order, .. } => Some(order),
            _ => None,
        });
        let order = order.unwrap_or(FmaOrder::Row);
        let mut sides = [self.fragments(Side::A), self.fragments(Side::B)];
        let (depth, unroll) = (self.plan.block.k, self.plan.unroll);
        let shared = self.plan.clauses.shared.clone();
        self.b.origin(&shared, "this thread's part of A and B in the slot");
        if unroll == depth {
            for (index, side) in sides.iter_mut().enumerate() {
                side.base = self.fragment_bases[index].address.clone().in_slot(&mut self.b, read);
            }
            self.unrolled(&sides, order);
            return;
        }
        self.b.origin(clause, "steps left, and how far they are");
        let left = self.b.variable(Expr::Const(u64::from(depth)), u64::from(depth));
        let mut moved = Vec::new();
        for side in &sides {
            let step = side.offset(0, unroll);
            // One more advance than the last is made and never used.
            let bound = u64::from(step) * u64::from(depth / unroll - 1);
            moved.push((self.b.variable(Expr::Const(0), bound), step));
        }
        self.b.open();
        self.b.origin(&shared, "this thread's part of A and B in the slot");
        for (index, (distance, _)) in moved.iter().enumerate() {
            sides[index].base = self.moved_base(&sides[index], index, distance).in_slot(&mut self.b, read);
        }
        self.unrolled(&sides, order);
        self.b.origin(clause, "on to the next steps");
        for (distance, step) in moved {
            self.b.assign(&distance, distance.clone() + step);
        }
        self.b.assign(&left, left.clone() - unroll);
        let again = self.b.set_reg(left.clone().ge(1u32));
        let body = self.b.close();
        self.b.push(KernelOp::Loop { body, again, uniform: true });
    }

    /// A fragment's base, a variable distance further on: a sum, unless a swizzle permutes what that changes.
    fn moved_base(&mut self, side: &Fragments, index: usize, distance: &Expr) -> SharedAddress {
        let base = self.fragment_bases[index].clone();
        if side.placement.swizzle == Swizzle::None {
            return base.address.in_slot(&mut self.b, distance);
        }
        let offset = base.offset + distance.clone();
        let Placement { offset_bytes, swizzle, .. } = side.placement;
        SharedAddress::new(&mut self.b, offset_bytes, offset, swizzle, side.distances(self.plan.unroll))
    }

    fn fragments(&mut self, side: Side) -> Fragments {
        let (index, operand) = self.side(side);
        let operand = *operand;
        let geometry = self.plan.geometry;
        let (count, fragment, stride) = match side {
            Side::A => (geometry.thread.m, geometry.fragment.m, geometry.stride.m),
            Side::B => (geometry.thread.n, geometry.fragment.n, geometry.stride.n),
        };
        // Only staged operands are read here; the plan's placement says where they lie.
        let placement = operand.placement.unwrap_or(Placement {
            fast: Fast::K,
            fast_extent: 0,
            slow_extent: 0,
            pitch: 0,
            swizzle: Swizzle::None,
            offset_bytes: 0,
            slot_bytes: 0,
        });
        let base = SharedAddress::nowhere();
        let mut fragments =
            Fragments { side, operand, placement, base, sets: vec![], converted: vec![], count, fragment, stride };
        let group = fragments.group();
        if self.plan.operands == Operands::Registers {
            let sets = 1 + fragments.ahead(self.plan.prefetch, self.plan.unroll);
            let (raw, acc) = (register_type(operand.dtype), register_type(self.plan.problem.types.acc));
            for set in 0..sets {
                fragments.sets.push(self.rotating(index, set * count * group, count * group, false));
                if raw != acc {
                    fragments.converted.push(self.rotating(index, set * count * group, count * group, true));
                }
            }
        }
        fragments
    }

    /// Registers `from ..` of a fragment family, the same for every use of it.
    pub(super) fn rotating(&mut self, index: usize, from: u32, n: u32, converted: bool) -> Vec<Reg> {
        let family = if converted { self.families.converted[index] } else { self.families.fragment[index] };
        let pool = &mut self.fragment_pool[index][usize::from(converted)];
        while pool.len() < (from + n) as usize {
            let reg = self.b.fresh(family);
            pool.push(reg);
        }
        pool[from as usize..(from + n) as usize].to_vec()
    }

    /// One unrolled body of `unroll` steps.
    fn unrolled(&mut self, sides: &[Fragments; 2], order: FmaOrder) {
        let unroll = self.plan.unroll;
        if self.plan.operands == Operands::Shared {
            (0..unroll).for_each(|step| self.reloading_step(sides, order, step));
            return;
        }
        let thread = self.plan.clauses.thread.clone();
        for side in sides {
            (0..side.ahead(self.plan.prefetch, unroll)).for_each(|group| self.fetch(side, group * side.group()));
        }
        for step in 0..unroll {
            for side in sides {
                let first = step + side.ahead(self.plan.prefetch, unroll) * side.group();
                if step % side.group() == 0 && first < unroll {
                    self.fetch(side, first);
                }
            }
            self.b.origin(&thread, &format!("multiply, step {step}"));
            let (a, b) = (sides[0].at(step), sides[1].at(step));
            let acc = self.acc.clone();
            self.b.push(KernelOp::Outer { acc, a, b, order });
        }
    }

    /// Reads the group that begins at `step`.
    fn fetch(&mut self, side: &Fragments, step: u32) {
        let group = side.group();
        let name = if side.side == Side::A { "A" } else { "B" };
        let clause = if side.operand.read_width > 1 { &self.plan.clauses.vector } else { &self.plan.clauses.thread };
        let clause = clause.clone();
        let what = match group {
            1 => format!("fragment of {name}, step {step}"),
            _ => format!("fragment of {name}, steps {step} to {}", step + group - 1),
        };
        self.b.origin(&clause, &what);
        let set = (step / group) as usize % side.sets.len();
        let width = side.operand.read_width;
        // Along k a group holds one row's elements side by side; along m or n a fragment's.
        let per_read = if side.placement.fast == Fast::K { 1 } else { width };
        for i in (0..side.count).step_by(per_read as usize) {
            let first = (i * group) as usize;
            let dst = side.sets[set][first..first + width as usize].to_vec();
            let (base, offset) = side.base.at(side.offset(i, step));
            self.b.load_shared(dst, &base, i64::from(offset));
        }
        if let Some(converted) = side.converted.get(set) {
            self.b.origin(&clause, &format!("fragment of {name} in the accumulator's type"));
            for (raw, wide) in side.sets[set].iter().zip(converted) {
                self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
            }
        }
    }

    /// `operands(shared)`: each product reads its two operands again.
    fn reloading_step(&mut self, sides: &[Fragments; 2], order: FmaOrder, step: u32) {
        let thread = self.plan.geometry.thread;
        let clause = "operands(shared)";
        for (i, j) in outer_order(thread.m as usize, thread.n as usize, order) {
            let mut regs = Vec::new();
            for (index, (side, at)) in sides.iter().zip([i, j]).enumerate() {
                self.b.origin(clause, &format!("operand of one product, step {step}"));
                let mut reg = self.rotating(index, 0, 1, false)[0];
                let (base, offset) = side.base.at(side.offset(at as u32, step));
                self.b.load_shared(vec![reg], &base, i64::from(offset));
                if register_type(side.operand.dtype) != register_type(self.plan.problem.types.acc) {
                    let wide = self.rotating(index, 0, 1, true)[0];
                    self.b.math(Math::Convert, wide, vec![Value::Reg(reg)]);
                    reg = wide;
                }
                regs.push(reg);
            }
            self.b.origin(clause, &format!("multiply, step {step}"));
            let acc = vec![self.acc[i * thread.n as usize + j]];
            self.b.push(KernelOp::Outer { acc, a: vec![regs[0]], b: vec![regs[1]], order });
        }
    }
}
