//! The K-steps of one staged tile: operand fragments from shared memory, and the outer products.
//!
//! A fragment is read in groups of `read_width` elements along the shared order: along m or n every step reads its own
//! group, along k one group serves that many steps. Reads run `prefetch` steps ahead of the products that use them, within
//! the unrolled body.

use ptx_gemm_dsl::plan::{Fast, FmaOrder, OperandPlan, Operands, Placement, Side};

use super::{Lowering, Place, register_type};
use crate::kernel::{Expr, Math, Op as KernelOp, Reg, Value, outer_order};
use crate::tile::{Op, Statement};

/// Reads one operand's fragments.
struct Fragments {
    side: Side,
    operand: OperandPlan,
    placement: Placement,
    /// Address of the thread's first element at the first step of the unrolled body.
    base: Expr,
    /// Register sets in rotation; each holds one group.
    sets: Vec<Vec<Reg>>,
    /// Per set: the same values in the accumulator's type, where that differs.
    converted: Vec<Vec<Reg>>,
    /// Thread extents: elements, fragment, distance between fragments.
    count: u32,
    fragment: u32,
    stride: u32,
}

impl Fragments {
    /// Steps that one group serves.
    fn group(&self) -> u32 {
        match self.placement.fast {
            Fast::K => self.operand.read_width,
            Fast::Mn => 1,
        }
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

    /// Registers that hold the operand at `step`.
    fn at(&self, step: u32) -> Vec<Reg> {
        let group = self.group();
        let set = (step / group) as usize % self.sets.len();
        let regs = if self.converted.is_empty() { &self.sets[set] } else { &self.converted[set] };
        (0..self.count).map(|i| regs[(i * group + step % group) as usize]).collect()
    }
}

impl Lowering<'_> {
    /// Address of the thread's first element of an operand in slot 0.
    pub(super) fn fragment_base(&mut self, place: &Place, placement: Placement, operand: &OperandPlan) -> Expr {
        let clause = self.plan.clauses.shared.clone();
        self.b.origin(&clause, &format!("this thread's part of {:?} in the first slot", operand.side));
        let own = if operand.side == Side::A { place.row.clone() } else { place.col.clone() };
        let in_slot = match placement.fast {
            Fast::K => own * placement.pitch,
            Fast::Mn => own,
        };
        self.b.set(Expr::SharedBase + placement.offset_bytes + in_slot * operand.dtype.bytes())
    }

    /// All K-steps of the tile in the slot at byte offset `read`.
    pub(super) fn steps(&mut self, read: &Expr, body: &[Statement], clause: &str) {
        let order = body.iter().find_map(|s| match s.op {
            Op::Multiply { order, .. } => Some(order),
            _ => None,
        });
        let order = order.unwrap_or(FmaOrder::Row);
        let mut sides = [self.fragments(Side::A, read), self.fragments(Side::B, read)];
        let (depth, unroll) = (self.plan.block.k, self.plan.unroll);
        if unroll == depth {
            self.unrolled(&sides, order);
            return;
        }
        self.b.origin(clause, "steps left, and where their operands lie");
        let left = self.b.variable(Expr::Const(u64::from(depth)), u64::from(depth));
        let mut moves = Vec::new();
        for side in &mut sides {
            let step = u64::from(side.offset(0, unroll));
            // The last step's address is the largest one read from; one more advance is never used.
            let bound = side.base.bound() + step * u64::from(depth / unroll - 1);
            side.base = self.b.variable(side.base.clone(), bound);
            moves.push((side.base.clone(), step));
        }
        self.b.open();
        self.unrolled(&sides, order);
        self.b.origin(clause, "on to the next steps");
        for (base, step) in moves {
            self.b.assign(&base, base.clone() + step);
        }
        self.b.assign(&left, left.clone() - unroll);
        let again = self.b.set_reg(left.clone().ge(1u32));
        let body = self.b.close();
        self.b.push(KernelOp::Loop { body, again, uniform: true });
    }

    fn fragments(&mut self, side: Side, read: &Expr) -> Fragments {
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
            swizzle: ptx_gemm_dsl::plan::Swizzle::None,
            offset_bytes: 0,
            slot_bytes: 0,
        });
        let clause = self.plan.clauses.shared.clone();
        self.b.origin(&clause, &format!("this thread's part of {side:?} in the slot"));
        let base = self.fragment_bases[index].clone() + read.clone();
        let base = self.b.set(base);
        let mut fragments =
            Fragments { side, operand, placement, base, sets: vec![], converted: vec![], count, fragment, stride };
        let group = fragments.group();
        if self.plan.operands == Operands::Registers {
            let sets = 1 + self.plan.prefetch.min(self.plan.unroll - 1).div_ceil(group);
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
        let prefetch = self.plan.prefetch.min(unroll - 1);
        let thread = self.plan.clauses.thread.clone();
        (0..prefetch).for_each(|step| self.fetch(sides, step));
        for step in 0..unroll {
            if step + prefetch < unroll {
                self.fetch(sides, step + prefetch);
            }
            self.b.origin(&thread, &format!("multiply, step {step}"));
            let (a, b) = (sides[0].at(step), sides[1].at(step));
            let acc = self.acc.clone();
            self.b.push(KernelOp::Outer { acc, a, b, order });
        }
    }

    /// Reads the groups that begin at `step`.
    fn fetch(&mut self, sides: &[Fragments; 2], step: u32) {
        for side in sides {
            let group = side.group();
            if step % group != 0 {
                continue;
            }
            let name = if side.side == Side::A { "A" } else { "B" };
            let clause = if side.operand.read_width > 1 { &self.plan.clauses.vector } else { &self.plan.clauses.thread };
            let clause = clause.clone();
            self.b.origin(&clause, &format!("fragment of {name}, step {step}"));
            let set = (step / group) as usize % side.sets.len();
            let width = side.operand.read_width;
            // Along k a group holds one row's elements side by side; along m or n a fragment's.
            let per_read = if side.placement.fast == Fast::K { 1 } else { width };
            for i in (0..side.count).step_by(per_read as usize) {
                let first = (i * group) as usize;
                let dst = side.sets[set][first..first + width as usize].to_vec();
                self.b.load_shared(dst, &side.base, i64::from(side.offset(i, step)));
            }
            if let Some(converted) = side.converted.get(set) {
                self.b.origin(&clause, &format!("fragment of {name} in the accumulator's type"));
                for (raw, wide) in side.sets[set].iter().zip(converted) {
                    self.b.math(Math::Convert, *wide, vec![Value::Reg(*raw)]);
                }
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
                self.b.load_shared(vec![reg], &side.base, i64::from(side.offset(at as u32, step)));
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
