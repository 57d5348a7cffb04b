//! Which threads agree on the value of each register, and on the path they take.
//!
//! Ensures, for a kernel with registers defined before their use: an [`Agreement`] for the condition of each
//! branch and loop, and for each barrier the threads that reach it and whether they reach it together. The verifier and
//! the emitter both rely on it; nothing in the IR claims that a branch is uniform.
//!
//! A value is tracked by how far it is uniform: in the whole block, or in each aligned group of `g` threads, where `g`
//! is a power of two. Data are uniform if they come from a parameter, and otherwise differ from thread to thread. `(tid
//! + c) / s` is tracked symbolically, so that `tid / 32` is uniform in a warp and `tid < 256` in each group of 256
//! threads, while `tid < 7` separates the threads of a warp.
//!
//! Control consists of a range of threads, and the extent to which those threads follow the same path. A branch on `tid
//! < c` splits the range; this is how roles are separated. Any other branch keeps the range, and on its two sides
//! threads agree only as far as they agree on the condition. After a branch or a loop, control is what it was before:
//! threads that iterated a different number of times are on the same path again. Values assigned in between are uniform
//! only as far as the condition was.
//!
//! ```text
//! r1 = tid / 32            the same in groups of 32
//! p1 = (r1 < 4)            tid < 128
//! if p1 {                  threads 0..128
//!   barrier 1 of 128 threads
//! }
//! ```

use std::ops::Range;

use super::{Compare, Expr, Factor, Family, Guard, Kernel, Numbering, Op, Reg, Stmt, definitions};

/// How far something is uniform: in each aligned group of this many threads, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agreement(u32);

impl Agreement {
    /// Each thread on its own.
    pub const NONE: Agreement = Agreement(1);
    /// The threads of a warp.
    pub const WARP: Agreement = Agreement(32);
    /// The threads of a warp group.
    pub const WARP_GROUP: Agreement = Agreement(128);
    /// All threads.
    pub const ALL: Agreement = Agreement(1 << 31);

    /// The largest group that is aligned at a multiple of `bound`. Every group is aligned at 0.
    fn dividing(bound: u64) -> Agreement {
        Agreement(1 << bound.trailing_zeros().min(31))
    }
}

/// The threads that follow a path, and whether they follow it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// No other threads are on the path.
    pub threads: Range<u32>,
    /// How far these threads are on it together.
    pub agree: Agreement,
}

impl Control {
    /// True if all threads of the range are here together: all threads agree, or the range lies in one group that does.
    pub fn together(&self) -> bool {
        let group = |thread: u32| thread / self.agree.0;
        group(self.threads.start) == group(self.threads.end.saturating_sub(1))
    }
}

/// The result, in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Uniformity<'k> {
    /// By branch and loop: how far the condition is uniform among the threads that evaluate it together.
    pub conditions: Vec<Agreement>,
    /// The barriers, of the block and named, and changes of the register count, with the threads that reach them.
    pub barriers: Vec<(&'k Stmt, Control)>,
    /// The statements about matrices of whole warps and about products of warp groups, with the threads that reach
    /// them, and how far their operands are uniform.
    pub products: Vec<(&'k Stmt, Control, Agreement)>,
}

/// Analyses `kernel`.
pub fn analyse(kernel: &Kernel) -> Uniformity<'_> {
    let numbering = kernel.numbering();
    let mut registers = vec![Known::SAME; numbering.len()];
    // Data registers differ between threads, except in families that hold a parameter.
    let mut differing: Vec<bool> = kernel.families.iter().map(|family| family.ty.is_data()).collect();
    for stmt in &kernel.body {
        if let Op::Param { dst, .. } = &stmt.op {
            differing[dst.family.0 as usize] = false;
        }
    }
    for (index, differing) in differing.iter().enumerate() {
        if *differing {
            let family = Family(index as u16);
            let first = numbering.of(Reg { family, index: 0 });
            registers[first..][..kernel.families[index].count as usize].fill(Known::DIFFERENT);
        }
    }
    let mut analysis = Analysis { kernel, numbering, registers, differing, result: Uniformity::default() };
    let control = Control { threads: 0..kernel.threads, agree: Agreement::ALL };
    analysis.block(&kernel.body, &control);
    analysis.result
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    agree: Agreement,
    shape: Shape,
}

/// Values with a known dependence on the thread's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Other,
    /// `(tid + add) / by`, rounded down.
    Quotient {
        add: i64,
        by: u64,
    },
    /// `tid < limit`.
    Below(u32),
}

impl Known {
    const SAME: Known = Known::plain(Agreement::ALL);
    const DIFFERENT: Known = Known::plain(Agreement::NONE);

    const fn plain(agree: Agreement) -> Known {
        Known { agree, shape: Shape::Other }
    }

    /// The facts that hold for both values, where two paths join.
    fn meet(self, other: Known) -> Known {
        let shape = if self.shape == other.shape { self.shape } else { Shape::Other };
        Known { agree: self.agree.min(other.agree), shape }
    }

    /// The same, uniform in groups of at most `agree`.
    fn capped(self, agree: Agreement) -> Known {
        Known { agree: self.agree.min(agree), ..self }
    }
}

struct Analysis<'k> {
    kernel: &'k Kernel,
    numbering: Numbering,
    registers: Vec<Known>,
    /// By family: whether its registers hold data, which are never uniform.
    differing: Vec<bool>,
    result: Uniformity<'k>,
}

impl<'k> Analysis<'k> {
    fn block(&mut self, stmts: &'k [Stmt], control: &Control) {
        for stmt in stmts {
            self.stmt(stmt, control);
        }
    }

    fn stmt(&mut self, stmt: &'k Stmt, control: &Control) {
        match &stmt.op {
            Op::Param { dst, .. } if !self.differing[dst.family.0 as usize] => self.assign(*dst, Known::SAME),
            Op::Param { .. } => {}
            // Nothing writes the records while a kernel runs, so one address means one value.
            Op::Field { dst, record, .. } => {
                let agree = self.get(*record).agree;
                self.assign(*dst, Known::plain(agree));
            }
            Op::Set { dst, value } => {
                let known = self.expr(value);
                self.assign(*dst, known);
            }
            Op::IsZero { dst, src } => {
                let agree = self.get(*src).agree;
                self.assign(*dst, Known::plain(agree));
            }
            // Data, and values loaded from memory.
            Op::Clear { dst } | Op::Load { dst, .. } | Op::Outer { acc: dst, .. } => {
                dst.iter().for_each(|reg| self.differs(*reg));
            }
            Op::LoadMatrices { dst, guard, .. } => {
                let agree = guard.map_or(Agreement::ALL, |guard| self.get(guard.pred).agree);
                self.result.products.push((stmt, control.clone(), agree));
                dst.iter().for_each(|reg| self.differs(*reg));
            }
            Op::StoreMatrices { .. } => self.result.products.push((stmt, control.clone(), Agreement::ALL)),
            Op::TensorProduct { acc, a, b, add, .. } => {
                // Threads have their own elements in registers, and the same descriptors.
                let descriptor = |factor: &Factor| match factor {
                    Factor::Registers(_) => None,
                    Factor::Descriptor(reg) => Some(*reg),
                };
                let shared = [descriptor(a), descriptor(b), *add].into_iter().flatten();
                let agree = shared.map(|reg| self.get(reg).agree).min().unwrap_or(Agreement::ALL);
                self.result.products.push((stmt, control.clone(), agree));
                acc.iter().for_each(|reg| self.differs(*reg));
            }
            Op::FenceProducts | Op::CommitProducts | Op::WaitProducts(_) => {
                self.result.products.push((stmt, control.clone(), Agreement::ALL));
            }
            Op::Math { dst, .. } | Op::Select { dst, .. } => self.differs(*dst),
            Op::TestBarrier { dst, .. } | Op::CountUp { dst, .. } | Op::ReadFlag { dst, .. } => {
                self.assign(*dst, Known::DIFFERENT);
            }
            Op::Store { .. }
            | Op::CopyAsync { .. }
            | Op::CopyBox { .. }
            | Op::StoreBox { .. }
            | Op::CommitBoxes
            | Op::SettleBoxes
            | Op::FenceCopies
            | Op::PublishBarriers
            | Op::CommitCopies
            | Op::WaitCopies(_)
            | Op::InitBarrier { .. }
            | Op::Arrive { .. }
            | Op::ArriveAt { .. }
            | Op::RaiseFlag { .. } => {}
            Op::Barrier
            | Op::ClusterBarrier
            | Op::ClusterArrive
            | Op::ClusterWait
            | Op::NamedBarrier { .. }
            | Op::SetRegisters { .. } => self.result.barriers.push((stmt, control.clone())),
            Op::If { cond, then, other } => self.branch(*cond, then, other, control),
            Op::Loop { body, again } => self.repeat(body, *again, control),
        }
    }

    /// Adds an entry to the result, in the order of the text, and returns its index.
    fn entry(&mut self) -> usize {
        self.result.conditions.push(Agreement::ALL);
        self.result.conditions.len() - 1
    }

    fn branch(&mut self, cond: Guard, then: &'k [Stmt], other: &'k [Stmt], control: &Control) {
        let entry = self.entry();
        let known = self.get(cond.pred);
        let agree = self.across(known.agree);
        self.result.conditions[entry] = agree;
        let inside = Control { threads: control.threads.clone(), agree: control.agree.min(agree) };
        let mut sides = [inside.clone(), inside];
        if let Shape::Below(limit) = known.shape {
            let limit = limit.clamp(control.threads.start, control.threads.end);
            sides = [control.threads.start..limit, limit..control.threads.end]
                .map(|threads| Control { threads, agree: control.agree });
        }
        if !cond.expect {
            sides.reverse();
        }
        let assigned = self.assigned(&[then, other]);
        let before = self.values(&assigned);
        self.block(then, &sides[0]);
        let after = self.values(&assigned);
        self.restore(&assigned, &before);
        self.block(other, &sides[1]);
        for (number, then) in assigned.into_iter().zip(after) {
            self.registers[number] = self.registers[number].meet(then).capped(agree);
        }
    }

    /// The registers that these statements assign, in increasing order, except those that are never uniform.
    fn assigned(&self, bodies: &[&[Stmt]]) -> Vec<usize> {
        let mut all = Vec::new();
        for body in bodies {
            definitions(body, &mut |reg| {
                if !self.differing[reg.family.0 as usize] {
                    all.push(self.numbering.of(reg));
                }
            });
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn values(&self, registers: &[usize]) -> Vec<Known> {
        registers.iter().map(|number| self.registers[*number]).collect()
    }

    fn restore(&mut self, registers: &[usize], values: &[Known]) {
        for (number, value) in registers.iter().zip(values) {
            self.registers[*number] = *value;
        }
    }

    /// Analyses a loop up to a fixpoint, since each iteration begins with the values that the previous one assigned.
    fn repeat(&mut self, body: &'k [Stmt], again: Reg, control: &Control) {
        let entry = self.entry();
        let (conditions, barriers) = (self.result.conditions.len(), self.result.barriers.len());
        let products = self.result.products.len();
        let assigned = self.assigned(&[body]);
        let mut agree = Agreement::ALL;
        loop {
            self.result.conditions.truncate(conditions);
            self.result.barriers.truncate(barriers);
            self.result.products.truncate(products);
            let head = self.values(&assigned);
            let inside = Control { threads: control.threads.clone(), agree: control.agree.min(agree) };
            self.block(body, &inside);
            let next = agree.min(self.across(self.get(again).agree));
            let end = self.values(&assigned);
            let joined: Vec<Known> = end.iter().zip(&head).map(|(now, before)| now.meet(*before)).collect();
            let stable = next == agree && joined == head;
            agree = next;
            if stable {
                // Where threads disagree on the number of iterations, values that leave the loop come from different
                // iterations.
                for (number, end) in assigned.iter().zip(end) {
                    self.registers[*number] = end.capped(agree);
                }
                break;
            }
            self.restore(&assigned, &joined);
        }
        self.result.conditions[entry] = agree;
    }

    /// Agreement in groups at least as large as the block is agreement of all threads.
    fn across(&self, agree: Agreement) -> Agreement {
        if agree.0 >= self.kernel.threads { Agreement::ALL } else { agree }
    }

    fn assign(&mut self, reg: Reg, known: Known) {
        let number = self.numbering.of(reg);
        self.registers[number] = known;
    }

    /// Data are uniform only if they come from a parameter. Nothing branches on other data.
    fn differs(&mut self, reg: Reg) {
        if !self.differing[reg.family.0 as usize] {
            self.assign(reg, Known::DIFFERENT);
        }
    }

    fn get(&self, reg: Reg) -> Known {
        self.registers[self.numbering.of(reg)]
    }

    fn expr(&self, value: &Expr) -> Known {
        let both = |x: &Expr, y: &Expr| Known::plain(self.expr(x).agree.min(self.expr(y).agree));
        match value {
            Expr::Const(_) | Expr::Block | Expr::Blocks | Expr::SharedBase => Known::SAME,
            Expr::Reg(reg, _) => self.get(*reg),
            Expr::Tid(_) => Known { agree: Agreement::NONE, shape: Shape::Quotient { add: 0, by: 1 } },
            Expr::Add(x, y) => match (self.expr(x).shape, &**y) {
                (Shape::Quotient { add, by: 1 }, Expr::Const(c)) => quotient(add.saturating_add_unsigned(*c), 1),
                _ => both(x, y),
            },
            Expr::Sub(x, y) => match (self.expr(x).shape, &**y) {
                (Shape::Quotient { add, by: 1 }, Expr::Const(c)) => quotient(add.saturating_sub_unsigned(*c), 1),
                _ => both(x, y),
            },
            Expr::Div(x, y) => match (self.expr(x).shape, &**y) {
                (Shape::Quotient { add, by }, Expr::Const(c)) if *c > 0 => quotient(add, by.saturating_mul(*c)),
                _ => both(x, y),
            },
            Expr::Compare(Compare::Lt, x, y) => match (self.expr(x).shape, &**y) {
                (Shape::Quotient { add, by }, Expr::Const(c)) => below(by.saturating_mul(*c), add),
                _ => both(x, y),
            },
            Expr::Compare(Compare::Ge, x, y) => match (self.expr(x).shape, &**y) {
                // The negation of `tid < limit` is uniform in the same groups.
                (Shape::Quotient { add, by }, Expr::Const(c)) => Known::plain(below(by.saturating_mul(*c), add).agree),
                _ => both(x, y),
            },
            Expr::Mul(x, y)
            | Expr::Mod(x, y)
            | Expr::Min(x, y)
            | Expr::Max(x, y)
            | Expr::Xor(x, y)
            | Expr::Compare(Compare::Eq | Compare::Ne, x, y)
            | Expr::And(x, y) => both(x, y),
            Expr::Swizzle(x, _) | Expr::Wide(x) | Expr::Not(x) => Known::plain(self.expr(x).agree),
            Expr::Select(c, x, y) => Known::plain(self.expr(c).agree.min(self.expr(x).agree).min(self.expr(y).agree)),
        }
    }
}

/// `(tid + add) / by`: uniform in groups within which the sum does not cross a multiple of `by`.
fn quotient(add: i64, by: u64) -> Known {
    let agree = Agreement::dividing(by).min(Agreement::dividing(add.unsigned_abs()));
    Known { agree, shape: Shape::Quotient { add, by } }
}

/// `tid + add < limit`: uniform in groups that the boundary at `limit - add` does not divide.
fn below(limit: u64, add: i64) -> Known {
    let limit = i128::from(limit) - i128::from(add);
    let limit = u32::try_from(limit.max(0)).unwrap_or(u32::MAX);
    Known { agree: Agreement::dividing(limit.into()), shape: Shape::Below(limit) }
}
