//! Which threads agree: on the value of each register, and on the way that they take.
//!
//! Ensures, for a kernel whose registers are defined before their use: an [`Agreement`] for the condition of each branch and
//! loop, and for each barrier which threads reach it and whether they reach it together. Both the verifier and the emitter
//! rest on it; nothing in the IR claims that a branch is uniform.
//!
//! A value is followed as far as it is the same: in the whole block, or in each aligned group of `g` threads, a power of two.
//! Data agree if they are a parameter, and else differ from thread to thread. `(tid + c) / s` is followed as such, so that `tid / 32` is the same in a
//! warp and `tid < 256` in each group of 256 threads, while `tid < 7` separates the threads of a warp.
//!
//! Control has a range of threads, and the extent to which those threads take the same way. A branch on `tid < c` splits the
//! range; this is how roles are separated. Any other branch leaves the range, and its two sides agree only as far as its
//! condition does. After a branch or a loop, control is what it was before: threads that spun for different times are on the
//! same way again. What was assigned in between is another matter: it agrees no further than the condition did.
//!
//! ```text
//! r1 = tid / 32            the same in groups of 32
//! p1 = (r1 < 4)            tid < 128
//! if p1 {                  threads 0..128
//!   barrier 1 of 128 threads
//! }
//! ```

use std::ops::Range;

use super::{Compare, Expr, Family, Guard, Kernel, Numbering, Op, Reg, Stmt, definitions};

/// How far something is the same: in each aligned group of this many threads, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agreement(u32);

impl Agreement {
    /// Each thread by itself.
    pub const NONE: Agreement = Agreement(1);
    /// The threads of a warp.
    pub const WARP: Agreement = Agreement(32);
    /// All threads that there are.
    pub const ALL: Agreement = Agreement(1 << 31);

    /// The largest group that is aligned at a multiple of `bound`; 0 is aligned to everything.
    fn dividing(bound: u64) -> Agreement {
        Agreement(1 << bound.trailing_zeros().min(31))
    }
}

/// Which threads are on a way, and whether they are on it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// No other threads are.
    pub threads: Range<u32>,
    /// As far as these agree to be.
    pub agree: Agreement,
}

impl Control {
    /// True if all threads of the range are here together.
    pub fn together(&self) -> bool {
        self.agree == Agreement::ALL
    }
}

/// The result: in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Uniformity<'k> {
    /// By branch and loop: how far the condition is the same for those that evaluate it together.
    pub conditions: Vec<Agreement>,
    /// The barriers, of the block and named, and who comes to them.
    pub barriers: Vec<(&'k Stmt, Control)>,
}

/// Analyses `kernel`.
pub fn analyse(kernel: &Kernel) -> Uniformity<'_> {
    let numbering = kernel.numbering();
    let mut registers = vec![Known::SAME; numbering.len()];
    // Families of data registers that hold no parameter differ between threads throughout.
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

/// Values whose dependence on the thread's number is known.
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

    /// What is known of either of two.
    fn meet(self, other: Known) -> Known {
        let shape = if self.shape == other.shape { self.shape } else { Shape::Other };
        Known { agree: self.agree.min(other.agree), shape }
    }

    /// The same, as far as `agree` goes at most.
    fn capped(self, agree: Agreement) -> Known {
        Known { agree: self.agree.min(agree), ..self }
    }
}

struct Analysis<'k> {
    kernel: &'k Kernel,
    numbering: Numbering,
    registers: Vec<Known>,
    /// By family: its registers hold data that differ all the time.
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
            Op::Set { dst, value } => {
                let known = self.expr(value);
                self.assign(*dst, known);
            }
            Op::IsZero { dst, src } => {
                let agree = self.get(*src).agree;
                self.assign(*dst, Known::plain(agree));
            }
            // Data, and what memory holds.
            Op::Clear { dst } | Op::Load { dst, .. } | Op::Outer { acc: dst, .. } => {
                dst.iter().for_each(|reg| self.differs(*reg));
            }
            Op::Math { dst, .. } | Op::Select { dst, .. } => self.differs(*dst),
            Op::TestBarrier { dst, .. } | Op::CountUp { dst, .. } | Op::ReadFlag { dst, .. } => {
                self.assign(*dst, Known::DIFFERENT);
            }
            Op::Store { .. }
            | Op::CopyAsync { .. }
            | Op::CommitCopies
            | Op::WaitCopies(_)
            | Op::InitBarrier { .. }
            | Op::Arrive { .. }
            | Op::RaiseFlag { .. } => {}
            Op::Barrier | Op::NamedBarrier { .. } => self.result.barriers.push((stmt, control.clone())),
            Op::If { cond, then, other } => self.branch(*cond, then, other, control),
            Op::Loop { body, again } => self.repeat(body, *again, control),
        }
    }

    /// A fresh entry of the result, in the order of the text; its number.
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

    /// The registers that these statements assign, in the order of their numbers; not those that differ all the time.
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

    /// A loop: to a fixpoint, since what its end assigns is what the next turn begins with.
    fn repeat(&mut self, body: &'k [Stmt], again: Reg, control: &Control) {
        let entry = self.entry();
        let (conditions, barriers) = (self.result.conditions.len(), self.result.barriers.len());
        let assigned = self.assigned(&[body]);
        let mut agree = Agreement::ALL;
        loop {
            self.result.conditions.truncate(conditions);
            self.result.barriers.truncate(barriers);
            let head = self.values(&assigned);
            let inside = Control { threads: control.threads.clone(), agree: control.agree.min(agree) };
            self.block(body, &inside);
            let next = agree.min(self.across(self.get(again).agree));
            let end = self.values(&assigned);
            let joined: Vec<Known> = end.iter().zip(&head).map(|(now, before)| now.meet(*before)).collect();
            let stable = next == agree && joined == head;
            agree = next;
            if stable {
                // What leaves the loop was assigned in different turns where threads disagreed on the number of turns.
                for (number, end) in assigned.iter().zip(end) {
                    self.registers[*number] = end.capped(agree);
                }
                break;
            }
            self.restore(&assigned, &joined);
        }
        self.result.conditions[entry] = agree;
    }

    /// An agreement of groups as large as the block is one of the block.
    fn across(&self, agree: Agreement) -> Agreement {
        if agree.0 >= self.kernel.threads { Agreement::ALL } else { agree }
    }

    fn assign(&mut self, reg: Reg, known: Known) {
        let number = self.numbering.of(reg);
        self.registers[number] = known;
    }

    /// Data agree only if they are a parameter; nothing branches on more of them.
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
                // The opposite of `tid < limit` agrees as far.
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

/// `(tid + add) / by`: the same where neither the sum crosses a multiple of `by`.
fn quotient(add: i64, by: u64) -> Known {
    let agree = Agreement::dividing(by).min(Agreement::dividing(add.unsigned_abs()));
    Known { agree, shape: Shape::Quotient { add, by } }
}

/// `tid + add < limit`: the same in groups that no boundary at `limit - add` cuts.
fn below(limit: u64, add: i64) -> Known {
    let limit = i128::from(limit) - i128::from(add);
    let limit = u32::try_from(limit.max(0)).unwrap_or(u32::MAX);
    Known { agree: Agreement::dividing(limit.into()), shape: Shape::Below(limit) }
}
