//! Removes index computations with results that are never read.
//!
//! Requires a kernel in which every register is defined before its use. Ensures that the kernel computes the same
//! results, and that a remaining statement reads every remaining index computation. Only `Set`, `Param` and `Field` are
//! removed: their register is their only effect. Such computations arise because the addresses of a swizzled tile are
//! prepared for every distance that may be accessed, and some distances are not.
//!
//! Liveness runs backwards: a register is live where some path leads to a use of it without another assignment. In a
//! loop, what is live at the start is live at the end, so the pass repeats the body until nothing is added. The
//! registers in the extents of an access count as uses, so that the verifier finds them defined.
//!
//! ```text
//! before                          after
//! r1 = (tid / 16)                 r1 = (tid / 16)
//! r2 = (r1 * 128)
//! r3 = (shared + r2)
//! r4 = (shared + (r1 * 4))        r4 = (shared + (r1 * 4))
//! a0 = load shared [r4 + 0]       a0 = load shared [r4 + 0]
//! ```

use super::{Address, Arrival, Expr, Guard, Kernel, Memory, Numbering, Op, Reg, Stmt, Value};

/// Removes dead index computations from `kernel`; see the module's documentation.
pub fn run(kernel: &mut Kernel) {
    let numbering = kernel.numbering();
    let live = vec![false; numbering.len()];
    let mut pass = Pass { numbering, live, keep: Vec::new() };
    pass.block(&kernel.body);
    // The statements were visited from the last to the first.
    pass.keep.reverse();
    let mut keep = pass.keep.into_iter();
    retain(&mut kernel.body, &mut keep);
}

struct Pass {
    numbering: Numbering,
    /// Which registers are live at the current statement.
    live: Vec<bool>,
    /// Whether each statement stays, in the order in which the pass visits them.
    keep: Vec<bool>,
}

impl Pass {
    fn block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts.iter().rev() {
            self.stmt(&stmt.op);
        }
    }

    fn stmt(&mut self, op: &Op) {
        match op {
            Op::Param { dst, .. } | Op::Field { dst, .. } | Op::Set { dst, .. } => {
                let number = self.numbering.of(*dst);
                let read = std::mem::replace(&mut self.live[number], false);
                match op {
                    Op::Set { value, .. } if read => self.expr(value),
                    Op::Field { record, .. } if read => self.reads(*record),
                    _ => {}
                }
                self.keep.push(read);
            }
            Op::If { cond, then, other } => {
                let after = self.live.clone();
                self.block(other);
                let before_other = std::mem::replace(&mut self.live, after);
                self.block(then);
                self.live.iter_mut().zip(before_other).for_each(|(live, other)| *live |= other);
                self.reads(cond.pred);
                self.keep.push(true);
            }
            Op::Loop { body, again } => {
                let kept = self.keep.len();
                self.reads(*again);
                loop {
                    self.keep.truncate(kept);
                    let end = self.live.clone();
                    self.block(body);
                    let mut stable = true;
                    for (start, end) in self.live.iter_mut().zip(end) {
                        stable &= end || !*start;
                        *start |= end;
                    }
                    if stable {
                        break;
                    }
                }
                self.keep.push(true);
            }
            _ => {
                if let Op::CountUp { dst, .. } | Op::ReadFlag { dst, .. } | Op::TestBarrier { dst, .. } = op {
                    let number = self.numbering.of(*dst);
                    self.live[number] = false;
                }
                self.operands(op);
                self.keep.push(true);
            }
        }
    }

    /// The registers that a statement without a body reads.
    fn operands(&mut self, op: &Op) {
        match op {
            Op::Load { memory, address, guard, .. } => self.access(memory, address, guard),
            Op::Store { memory, src, address, guard } => {
                src.iter().for_each(|reg| self.reads(*reg));
                self.access(memory, address, guard);
            }
            Op::CopyAsync { to, from, valid, guard, access, .. } => {
                valid.iter().for_each(|reg| self.reads(*reg));
                self.reads(to.base);
                self.access(&Memory::Global(*access), from, guard);
            }
            Op::CopyBox { to, map, at, barrier, blocks, guard } => {
                [to.base, *map, barrier.base].iter().chain(at).chain(blocks).for_each(|reg| self.reads(*reg));
                guard.iter().for_each(|guard| self.reads(guard.pred));
            }
            Op::StoreBox { from, map, at, guard } => {
                [from.base, *map].iter().chain(at).for_each(|reg| self.reads(*reg));
                guard.iter().for_each(|guard| self.reads(guard.pred));
            }
            Op::ArriveAt { block, address, guard } => {
                self.reads(*block);
                self.reads(address.base);
                guard.iter().for_each(|guard| self.reads(guard.pred));
            }
            Op::Arrive { address, when, guard } => {
                if let Arrival::ExpectingIn(bytes) = when {
                    self.reads(*bytes);
                }
                self.reads(address.base);
                guard.iter().for_each(|guard| self.reads(guard.pred));
            }
            Op::InitBarrier { address, .. } | Op::CountUp { address, .. } | Op::ReadFlag { address, .. } => {
                self.reads(address.base)
            }
            Op::TestBarrier { address, parity: reg, .. } | Op::RaiseFlag { address, value: reg } => {
                self.reads(address.base);
                self.reads(*reg);
            }
            Op::Math { args, .. } => args.iter().for_each(|arg| self.value(arg)),
            Op::IsZero { src, .. } => self.reads(*src),
            Op::Select { pred, yes, no, .. } => {
                self.reads(*pred);
                self.value(yes);
                self.value(no);
            }
            Op::Outer { acc, a, b, .. } => acc.iter().chain(a).chain(b).for_each(|reg| self.reads(*reg)),
            Op::LoadMatrices { address, guard, .. } => {
                self.reads(address.base);
                guard.iter().for_each(|guard| self.reads(guard.pred));
            }
            Op::TensorProduct { acc, a, b, add, .. } => {
                acc.iter().chain(a.registers()).chain(b.registers()).chain(add).for_each(|reg| self.reads(*reg));
            }
            Op::FenceProducts | Op::CommitProducts | Op::WaitProducts(_) => {}
            Op::Clear { .. } => {}
            Op::SetRegisters { .. } => {}
            Op::StoreMatrices { src, address, .. } => {
                self.reads(address.base);
                src.iter().for_each(|reg| self.reads(*reg));
            }
            Op::CommitBoxes | Op::SettleBoxes | Op::FenceCopies => {}
            Op::PublishBarriers | Op::CommitCopies | Op::WaitCopies(_) | Op::Barrier | Op::NamedBarrier { .. } => {}
            Op::ClusterBarrier | Op::ClusterArrive | Op::ClusterWait => {}
            Op::Param { .. } | Op::Field { .. } | Op::Set { .. } | Op::If { .. } | Op::Loop { .. } => {}
        }
    }

    fn access(&mut self, memory: &Memory, address: &Address, guard: &Option<Guard>) {
        self.reads(address.base);
        guard.iter().for_each(|guard| self.reads(guard.pred));
        if let Memory::Cluster(block) = memory {
            self.reads(*block);
        }
        if let Memory::Global(access) = memory {
            access.reach.iter().flatten().for_each(|reach| self.reads(reach.left));
        }
    }

    fn value(&mut self, value: &Value) {
        if let Value::Reg(reg) = value {
            self.reads(*reg);
        }
    }

    fn expr(&mut self, value: &Expr) {
        match value {
            Expr::Reg(reg, _) => self.reads(*reg),
            Expr::Const(_) | Expr::Tid(_) | Expr::Block | Expr::Blocks | Expr::SharedBase => {}
            Expr::Swizzle(x, _) | Expr::Wide(x) | Expr::Not(x) => self.expr(x),
            Expr::Add(x, y)
            | Expr::Sub(x, y)
            | Expr::Mul(x, y)
            | Expr::Div(x, y)
            | Expr::Mod(x, y)
            | Expr::Min(x, y)
            | Expr::Max(x, y)
            | Expr::Xor(x, y)
            | Expr::Compare(_, x, y)
            | Expr::And(x, y) => [x, y].into_iter().for_each(|part| self.expr(part)),
            Expr::Select(c, x, y) => [c, x, y].into_iter().for_each(|part| self.expr(part)),
        }
    }

    fn reads(&mut self, reg: Reg) {
        let number = self.numbering.of(reg);
        self.live[number] = true;
    }
}

/// Keeps the statements marked in `keep`, where a branch or loop comes before the statements nested in it.
fn retain(stmts: &mut Vec<Stmt>, keep: &mut impl Iterator<Item = bool>) {
    stmts.retain_mut(|stmt| {
        let stays = keep.next().unwrap_or(true);
        match &mut stmt.op {
            Op::If { then, other, .. } => {
                retain(then, keep);
                retain(other, keep);
            }
            Op::Loop { body, .. } => retain(body, keep),
            _ => {}
        }
        stays
    });
}
