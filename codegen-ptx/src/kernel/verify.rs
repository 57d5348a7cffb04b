//! The verifier of kernel IR. A kernel passes if
//!
//! - every register is defined on every path before its use (a guarded definition counts: its uses carry the guard);
//! - operands have the types that their statement asks for;
//! - vector accesses have 1, 2 or 4 elements, at most 16 bytes, and shared ones are aligned to their size;
//! - a shared access ends within the block's shared memory, by the bounds of its address expression;
//! - a global access is guarded, clamped, exact, or stands in the branch of tiles that lie inside;
//! - barriers and waits stand under uniform control only;
//! - an outer product has as many accumulators as rows times columns, none of them twice.

use super::build::expr_type;
use super::{Address, Bounds, Expr, Guard, Kernel, Op, Reg, Space, Stmt, Type, Value};
use crate::Violation;

/// Checks `kernel` against the rules above; the first broken one is returned.
pub fn verify(kernel: &Kernel) -> Result<(), Violation> {
    let defined = kernel.families.iter().map(|f| vec![false; f.count as usize]).collect();
    let multiple = kernel.families.iter().map(|f| vec![0; f.count as usize]).collect();
    let mut verifier = Verifier { kernel, defined, multiple, uniform: true, inside: 0 };
    verifier.block(&kernel.body)
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    defined: Vec<Vec<bool>>,
    /// A divisor of 16 that divides every value a register was given; 0 while it was given nothing but 0.
    multiple: Vec<Vec<u64>>,
    uniform: bool,
    /// Open `then` branches of uniform conditions.
    inside: u32,
}

type Check = Result<(), Violation>;

impl Verifier<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> Check {
        for stmt in stmts {
            self.stmt(&stmt.op).map_err(|v| v.within(format_args!("{}: {}", stmt.origin.clause, stmt.origin.what)))?;
        }
        Ok(())
    }

    fn stmt(&mut self, op: &Op) -> Check {
        match op {
            Op::Param { dst, index } => {
                self.rule(*index < self.kernel.params.len(), || format!("no parameter {index}"))?;
                self.define(*dst)
            }
            Op::Set { dst, value } => {
                self.expr(value)?;
                let ty = expr_type(value, self.kernel);
                let fits = ty == self.kernel.ty(*dst) || (ty == Type::U32 && matches!(value, Expr::Const(_)));
                self.rule(fits, || format!("{} takes {ty:?}", self.name(*dst)))?;
                let multiple = gcd(self.multiple_of(value), self.multiple[dst.family.0 as usize][dst.index as usize]);
                self.multiple[dst.family.0 as usize][dst.index as usize] =
                    if multiple == 0 { 0 } else { gcd(multiple, 16) };
                self.define(*dst)
            }
            Op::Load { space, dst, address, guard, bounds, .. } => {
                self.access(*space, dst, address, guard, *bounds)?;
                dst.iter().try_for_each(|r| self.define(*r))
            }
            Op::Store { space, src, address, guard, bounds } => {
                src.iter().try_for_each(|r| self.used(*r))?;
                self.access(*space, src, address, guard, *bounds)
            }
            Op::CopyAsync { to, from, bytes, valid, guard, bounds } => {
                valid.iter().try_for_each(|r| self.used(*r))?;
                self.rule(matches!(bytes, 4 | 8 | 16), || format!("asynchronous copy of {bytes} bytes"))?;
                self.global(from, guard, *bounds, valid.is_some())?;
                self.shared(to, *bytes)
            }
            Op::InitBarrier { address, .. } | Op::Arrive { address, .. } => self.shared(address, 8),
            Op::TestBarrier { dst, address, parity } => {
                self.used(*parity)?;
                self.shared(address, 8)?;
                self.define(*dst)
            }
            Op::CountUp { dst, address } | Op::ReadFlag { dst, address } => {
                self.used(address.base)?;
                self.define(*dst)
            }
            Op::RaiseFlag { address, value } => self.used(address.base).and_then(|()| self.used(*value)),
            Op::CommitCopies | Op::NamedBarrier { .. } => Ok(()),
            Op::WaitCopies(_) | Op::Barrier => {
                self.rule(self.uniform, || "collective operation in divergent code".into())
            }
            Op::Clear { dst } => dst.iter().try_for_each(|r| self.define(*r)),
            Op::Math { op, dst, args } => {
                for arg in args {
                    if let Value::Reg(reg) = arg {
                        self.used(*reg)?;
                        let same = self.kernel.ty(*reg) == self.kernel.ty(*dst);
                        self.rule(same || *op == super::Math::Convert, || format!("{op:?} mixes types"))?;
                    }
                }
                self.define(*dst)
            }
            Op::IsZero { dst, src } => self.used(*src).and_then(|()| self.define(*dst)),
            Op::Select { dst, pred, yes, no } => {
                self.used(*pred)?;
                for value in [yes, no] {
                    if let Value::Reg(reg) = value {
                        self.used(*reg)?;
                    }
                }
                self.define(*dst)
            }
            Op::Outer { acc, a, b, .. } => self.outer(acc, a, b),
            Op::If { cond, uniform, then, other } => self.branch(*cond, *uniform, then, other),
            Op::Loop { body, again, uniform } => {
                let outer = self.uniform;
                self.uniform &= *uniform;
                // Twice, so that divisors of variables assigned at the end of the body reach its start.
                self.block(body)?;
                self.block(body)?;
                self.uniform = outer;
                self.used(*again)
            }
        }
    }

    fn outer(&self, acc: &[Reg], a: &[Reg], b: &[Reg]) -> Check {
        self.rule(acc.len() == a.len() * b.len(), || "an outer product of another shape".into())?;
        acc.iter().chain(a).chain(b).try_for_each(|r| self.used(*r))?;
        let increasing = acc.windows(2).all(|w| w[0] < w[1]);
        self.rule(increasing, || "an accumulator stands twice in one outer product".into())
    }

    fn branch(&mut self, cond: Guard, uniform: bool, then: &[Stmt], other: &[Stmt]) -> Check {
        self.used(cond.pred)?;
        let outer = self.uniform;
        self.uniform &= uniform;
        let before = self.defined.clone();
        self.inside += u32::from(uniform);
        self.block(then)?;
        self.inside -= u32::from(uniform);
        let after_then = std::mem::replace(&mut self.defined, before);
        self.block(other)?;
        for (family, then_family) in self.defined.iter_mut().zip(&after_then) {
            for (defined, then_defined) in family.iter_mut().zip(then_family) {
                *defined &= then_defined;
            }
        }
        self.uniform = outer;
        Ok(())
    }

    fn access(&self, space: Space, data: &[Reg], address: &Address, guard: &Option<Guard>, bounds: Bounds) -> Check {
        let ty = data.first().map(|r| self.kernel.ty(*r));
        self.rule(data.iter().all(|r| Some(self.kernel.ty(*r)) == ty), || "an access of several types".into())?;
        let bytes = ty.map_or(0, Type::bytes) * data.len() as u32;
        self.rule(matches!(data.len(), 1 | 2 | 4) && bytes <= 16, || format!("an access of {bytes} bytes"))?;
        match space {
            Space::Global => self.global(address, guard, bounds, false),
            Space::Shared => {
                if let Some(guard) = guard {
                    self.used(guard.pred)?;
                }
                self.shared(address, bytes)
            }
        }
    }

    fn global(&self, address: &Address, guard: &Option<Guard>, bounds: Bounds, zero_filled: bool) -> Check {
        self.used(address.base)?;
        self.rule(self.kernel.ty(address.base) == Type::U64, || "a global address of 32 bits".into())?;
        if let Some(guard) = guard {
            self.used(guard.pred)?;
        }
        match bounds {
            Bounds::Guarded => self.rule(guard.is_some() || zero_filled, || "an unguarded access at an edge".into()),
            Bounds::Interior => self.rule(self.inside > 0, || "an interior access outside its branch".into()),
            Bounds::Clamped | Bounds::Exact => Ok(()),
            Bounds::Shared => self.rule(false, || "a global access without a reason to be in bounds".into()),
        }
    }

    fn shared(&self, address: &Address, bytes: u32) -> Check {
        self.used(address.base)?;
        let end = address.bound.saturating_add_signed(address.offset).saturating_add(u64::from(bytes));
        let size = u64::from(self.kernel.shared_bytes);
        self.rule(address.offset >= 0 && end <= size, || format!("a shared access up to byte {end} of {size}"))?;
        let multiple = self.multiple[address.base.family.0 as usize][address.base.index as usize];
        let aligned = gcd(multiple, address.offset.unsigned_abs()).is_multiple_of(u64::from(bytes.max(1)));
        self.rule(aligned, || {
            format!("a shared access of {bytes} bytes at a multiple of {multiple}, offset {}", address.offset)
        })
    }

    fn expr(&self, value: &Expr) -> Check {
        match value {
            Expr::Reg(reg, _) => self.used(*reg),
            Expr::Const(_) | Expr::Tid(_) | Expr::Block | Expr::Blocks | Expr::SharedBase => Ok(()),
            Expr::Wide(x) | Expr::Not(x) | Expr::Swizzle(x, _) => self.expr(x),
            Expr::Add(x, y)
            | Expr::Sub(x, y)
            | Expr::Mul(x, y)
            | Expr::Div(x, y)
            | Expr::Mod(x, y)
            | Expr::Min(x, y)
            | Expr::Max(x, y)
            | Expr::Xor(x, y)
            | Expr::Compare(_, x, y)
            | Expr::And(x, y) => self.expr(x).and_then(|()| self.expr(y)),
            Expr::Select(c, x, y) => self.expr(c).and_then(|()| self.expr(x)).and_then(|()| self.expr(y)),
        }
    }

    /// A divisor of every value of `value`, at most 16; 0 for the constant 0.
    fn multiple_of(&self, value: &Expr) -> u64 {
        match value {
            Expr::Const(c) => *c,
            Expr::Reg(reg, _) => self.multiple[reg.family.0 as usize][reg.index as usize],
            Expr::SharedBase => 16,
            Expr::Add(x, y) | Expr::Sub(x, y) => gcd(self.multiple_of(x), self.multiple_of(y)),
            Expr::Mul(x, y) => match (self.multiple_of(x), self.multiple_of(y)) {
                (0, _) | (_, 0) => 0,
                (x, y) => gcd(x.saturating_mul(y), 16),
            },
            Expr::Select(_, x, y) | Expr::Min(x, y) | Expr::Max(x, y) => gcd(self.multiple_of(x), self.multiple_of(y)),
            Expr::Xor(x, y) => gcd(self.multiple_of(x), self.multiple_of(y)),
            // A swizzle permutes chunks of 16 bytes.
            Expr::Swizzle(x, _) => gcd(self.multiple_of(x), 16),
            Expr::Wide(x) => self.multiple_of(x),
            _ => 1,
        }
    }

    fn used(&self, reg: Reg) -> Check {
        let defined = self.defined.get(reg.family.0 as usize).and_then(|f| f.get(reg.index as usize));
        self.rule(defined == Some(&true), || format!("{} is used before it is defined", self.name(reg)))
    }

    fn define(&mut self, reg: Reg) -> Check {
        self.defined[reg.family.0 as usize][reg.index as usize] = true;
        Ok(())
    }

    fn name(&self, reg: Reg) -> String {
        self.kernel.display(reg).to_string()
    }

    fn rule(&self, holds: bool, message: impl FnOnce() -> String) -> Check {
        if holds { Ok(()) } else { Err(Violation::new("kernel IR", message())) }
    }
}

fn gcd(x: u64, y: u64) -> u64 {
    if y == 0 { x } else { gcd(y, x % y) }
}
