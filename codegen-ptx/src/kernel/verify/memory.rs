//! The traversal that follows index values through a kernel and checks every address.
//!
//! State: the number that each register holds, and what is known about each number. A condition refines what is known
//! about numbers while its branch is traversed. Where paths join, a register that was assigned on one of them gets a
//! new number, with the facts that hold on both. A loop starts with what is known on entry. It is repeated until the
//! facts at its end, together with the condition for another iteration, imply the facts at its start. Upper bounds are
//! exempt: a register that the loop assigns is at most its declared bound, which every assignment is checked against.
//! Loops that count down by a constant, and registers that such loops step by constants, are tracked exactly.

use ptx_gemm_dsl::target::BOX_ALIGN;

use super::analysis::{Analysis, Depth, Held};
use super::value::{Dims, Fact, Facts, Known, NOWHERE, Number, Pointer, START, gcd};
use super::{Check, name, rule};
use crate::Violation;
use crate::kernel::{
    Access, Address, Compare, Dim, Expr, Guard, Holds, Kernel, MAX_EXTENT, Memory, Op, Reach, Reg, Stmt, Type,
    definitions,
};

/// Bytes of a row of a matrix of 8 x 8 elements. Each row begins at a multiple of this (PTX ISA, "ldmatrix").
const MATRIX_ROW_BYTES: u32 = 16;

pub(super) fn check(kernel: &Kernel) -> Check {
    let numbering = kernel.numbering();
    let tid = Known::between(0, u64::from(kernel.threads.max(1)) - 1, 1, false);
    // About as many values as index registers, and the same number again where paths join.
    let numbers = 2 * kernel.families.iter().map(|family| family.bounds.len()).sum::<usize>();
    let mut analysis = Analysis {
        kernel,
        registers: vec![Held { number: NOWHERE, since: 0 }; numbering.len()],
        numbering,
        known: Vec::with_capacity(numbers),
        made: Vec::with_capacity(numbers),
        facts: Vec::with_capacity(numbers),
        clock: 1,
    };
    analysis.known.push(tid);
    analysis.made.push(None);
    analysis.block(&kernel.body)
}

impl<'k> Analysis<'k> {
    fn block(&mut self, stmts: &'k [Stmt]) -> Check {
        for stmt in stmts {
            self.stmt(&stmt.op).map_err(|v| {
                let origin = self.kernel.origin(stmt);
                v.within(format_args!("{}: {}", origin.clause, origin.what))
            })?;
        }
        Ok(())
    }

    fn stmt(&mut self, op: &'k Op) -> Check {
        match op {
            Op::Param { dst, index } => {
                let known = self.param(*index);
                self.assign(*dst, known, None)
            }
            Op::Field { dst, index, record } => {
                let holds = match self.known(self.number(*record), &[]).pointer {
                    Some(Pointer::Param(list)) => self.kernel.params[list].holds,
                    _ => Holds::Other,
                };
                rule(holds == Holds::List, || {
                    format!("{} is not the address of a record", name(self.kernel, *record))
                })?;
                let known = self.param(*index);
                self.assign(*dst, known, None)
            }
            Op::Set { dst, value: Expr::Reg(src, _) } => {
                if let Op::Set { value, .. } = op {
                    self.check_value(value)?;
                }
                let number = self.number(*src);
                self.within_bound(*dst, self.known(number, &[]).hi)?;
                self.hold(*dst, number);
                Ok(())
            }
            Op::Set { dst, value } => {
                let known = self.evaluate(value, &[], Depth::Assigned)?;
                let wide = self.kernel.ty(*dst) == Type::U64;
                self.assign(*dst, Known { wide, ..known }, Some(value))
            }
            Op::Load { memory, address, guard, .. } | Op::Store { memory, address, guard, .. } => {
                let data = match op {
                    Op::Load { dst: data, .. } | Op::Store { src: data, .. } => data,
                    _ => return Ok(()),
                };
                match memory {
                    Memory::Global(access) => self.global(address, access, guard, None)?,
                    Memory::Shared | Memory::Cluster(_) => {
                        let bytes = data.iter().map(|reg| self.kernel.ty(*reg).bytes()).sum();
                        self.shared(address, bytes, guard)?;
                    }
                }
                if let Op::Load { dst, .. } = op {
                    dst.iter().try_for_each(|reg| self.unknown(*reg))?;
                }
                Ok(())
            }
            Op::CopyAsync { to, from, bytes, valid, guard, access } => {
                self.global(from, access, guard, *valid)?;
                self.shared(to, *bytes, guard)
            }
            Op::CopyBox { to, map, at, barrier, .. } => {
                let bytes = self.boxed(*map, at)?;
                self.shared_range(to, bytes, BOX_ALIGN, &None)?;
                self.shared(barrier, 8, &None)
            }
            Op::StoreBox { from, map, at, .. } => {
                let bytes = self.boxed(*map, at)?;
                self.shared_range(from, bytes, BOX_ALIGN, &None)
            }
            Op::LoadMatrices { dst, address, guard, .. } => {
                self.shared_range(address, MATRIX_ROW_BYTES, MATRIX_ROW_BYTES, guard)?;
                dst.iter().try_for_each(|reg| self.unknown(*reg))
            }
            Op::StoreMatrices { address, .. } => self.shared_range(address, MATRIX_ROW_BYTES, MATRIX_ROW_BYTES, &None),
            Op::InitBarrier { address, .. } | Op::Arrive { address, .. } | Op::ArriveAt { address, .. } => {
                self.shared(address, 8, &None)
            }
            Op::TestBarrier { dst, address, .. } => {
                self.shared(address, 8, &None)?;
                self.unknown(*dst)
            }
            Op::CountUp { dst, address } | Op::ReadFlag { dst, address } => {
                self.flag(address)?;
                self.unknown(*dst)
            }
            Op::RaiseFlag { address, .. } => self.flag(address),
            Op::IsZero { dst, .. } => self.unknown(*dst),
            // Data, and statements without operands.
            Op::CommitBoxes
            | Op::SettleBoxes
            | Op::FenceCopies
            | Op::PublishBarriers
            | Op::SetRegisters { .. }
            | Op::CommitCopies
            | Op::WaitCopies(_)
            | Op::Barrier
            | Op::ClusterBarrier
            | Op::ClusterArrive
            | Op::ClusterWait
            | Op::NamedBarrier { .. }
            | Op::Clear { .. }
            | Op::Math { .. }
            | Op::Select { .. }
            | Op::TensorProduct { .. }
            | Op::FenceProducts
            | Op::CommitProducts
            | Op::WaitProducts(_)
            | Op::Outer { .. } => Ok(()),
            Op::If { cond, then, other } => self.branch(*cond, then, other),
            Op::Loop { body, again } => self.repeat(body, *again),
        }
    }

    fn param(&self, index: usize) -> Known {
        let param = &self.kernel.params[index];
        match param.holds {
            Holds::Extent(dim) => {
                // A block exists only if there is something to compute. A product of a group may be empty.
                let least = u64::from(dim != Dim::K && param.field.is_none());
                let multiple = self.kernel.divides.map_or(1, |divides| u64::from(divides[dim as usize]));
                Known::between(least, u64::from(MAX_EXTENT), multiple, false).left_of(dim, START, 0)
            }
            Holds::Matrix(..) | Holds::Vector(_) | Holds::Workspace | Holds::List | Holds::Map { .. } => {
                Known { pointer: Some(Pointer::Param(index)), ..Known::any(true) }
            }
            Holds::Other => Known::any(param.ty == Type::U64),
        }
    }

    fn branch(&mut self, cond: Guard, then: &'k [Stmt], other: &'k [Stmt]) -> Check {
        let known = self.known(self.number(cond.pred), &[]);
        let (yes, no) = if cond.expect { (known.yes, known.no) } else { (known.no, known.yes) };
        let before = self.registers.clone();
        self.under(yes, |this| this.block(then))?;
        let after = std::mem::replace(&mut self.registers, before);
        self.under(no, |this| this.block(other))?;
        for (register, then) in after.into_iter().enumerate() {
            let now = self.registers[register];
            if now.number == then.number {
                self.registers[register].since = now.since.max(then.since);
            } else if now.number == NOWHERE || then.number == NOWHERE {
                self.registers[register].number = NOWHERE;
            } else {
                let known = self.known(now.number, &[]).meet(self.known(then.number, &[]));
                self.renew(register, known, None);
            }
        }
        Ok(())
    }

    /// Traverses statements under some additional facts.
    fn under(&mut self, facts: Facts, walk: impl FnOnce(&mut Self) -> Check) -> Check {
        let mut before = Vec::new();
        for at in facts.start..facts.end {
            let fact = self.facts[at as usize];
            let (Fact::AtLeast(number, _) | Fact::Below(number, _)) = fact;
            before.push((number, self.known[number.0 as usize]));
            self.known[number.0 as usize].refine(number, fact);
        }
        walk(self)?;
        for (number, known) in before.into_iter().rev() {
            self.known[number.0 as usize] = known;
        }
        Ok(())
    }

    fn repeat(&mut self, body: &'k [Stmt], again: Reg) -> Check {
        // The index registers that the body assigns, once per assignment.
        let mut assigned = Vec::new();
        definitions(body, &mut |reg| {
            if !self.kernel.ty(reg).is_data() {
                assigned.push(reg);
            }
        });
        assigned.sort_unstable();
        let body = Body { stmts: body, assigned: &assigned };
        let iterations = self.iterations(&body, again);
        let mut heads: Vec<(usize, Known, bool)> = Vec::new();
        for same in assigned.chunk_by(PartialEq::eq) {
            let reg = same[0];
            let register = self.numbering.of(reg);
            if self.registers[register].number == NOWHERE {
                // Registers that each iteration assigns before it uses them need no value on entry.
                continue;
            }
            let bound = self.kernel.families[reg.family.0 as usize].bounds[reg.index as usize];
            let entry = self.known(self.registers[register].number, &[]);
            let counted = iterations.and_then(|iterations| self.counted(&body, reg, iterations, &entry));
            let exact = counted.is_some();
            let (lo, hi) = counted.unwrap_or((entry.lo, bound.max(entry.hi)));
            let none = Facts::NONE;
            heads.push((register, Known { lo, hi, yes: none, no: none, choice: None, ..entry }, exact));
        }
        let entry = self.registers.clone();
        let (known, facts) = (self.known.len(), self.facts.len());
        for iteration in 0.. {
            if iteration > 0 {
                // The next iteration does not need results of an iteration that did not reach the fixpoint.
                self.registers.clone_from(&entry);
                self.known.truncate(known);
                self.made.truncate(known);
                self.facts.truncate(facts);
            }
            for (register, known, _) in &heads {
                self.renew(*register, *known, None);
            }
            self.block(body.stmts)?;
            let goes_on = self.known(self.number(again), &[]).yes;
            let mut stable = true;
            self.under(goes_on, |this| {
                for (register, head, exact) in &mut heads {
                    let end = this.known(this.registers[*register].number, &[]);
                    let mut joined = head.meet(end);
                    joined.hi = head.hi;
                    // A lower bound that decreases twice may keep decreasing, down to what the loop condition requires.
                    if *exact || joined.lo == head.lo {
                        joined.lo = head.lo;
                    } else if iteration > 0 {
                        joined.lo = joined.lo.min(this.demanded(this.registers[*register].number, goes_on));
                    }
                    if joined != *head {
                        stable = false;
                        *head = joined;
                    }
                }
                Ok(())
            })?;
            if stable {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The lower bound that some facts imply for a number.
    fn demanded(&self, number: Number, facts: Facts) -> u64 {
        let least = |fact: &Fact| match fact {
            Fact::AtLeast(of, least) if *of == number => Some(*least),
            _ => None,
        };
        self.facts(facts).iter().filter_map(least).max().unwrap_or(0)
    }

    /// Finds a loop that counts down to 0 by a constant, and returns the counting register and the number of
    /// iterations.
    fn iterations(&self, body: &Body<'k, '_>, again: Reg) -> Option<(Reg, u64)> {
        let (at, left) = body.stmts.iter().enumerate().rev().find_map(|(at, stmt)| match &stmt.op {
            Op::Set { dst, value: Expr::Compare(Compare::Ge, x, y) } if *dst == again && y.is(1) => match **x {
                Expr::Reg(left, _) => Some((at, left)),
                _ => None,
            },
            _ => None,
        })?;
        let (place, step) = body.stepped(left, |value| match value {
            Expr::Sub(x, y) => Some((&**x, &**y)),
            _ => None,
        })?;
        let last_again = body.once(again)? == at;
        let entry = self.registers[self.numbering.of(left)].number;
        let count = (entry != NOWHERE).then(|| self.known(entry, &[]))?;
        let whole = count.lo == count.hi && step > 0 && count.lo >= step && count.lo % step == 0;
        (place < at && last_again && whole).then(|| (left, count.lo / step))
    }

    /// The values that a register has at the start of an iteration, if each iteration steps it by a constant.
    fn counted(
        &self,
        body: &Body<'k, '_>,
        reg: Reg,
        (left, iterations): (Reg, u64),
        entry: &Known,
    ) -> Option<(u64, u64)> {
        if reg == left {
            return Some((entry.lo / iterations, entry.hi));
        }
        let (_, step) = body.stepped(reg, |value| match value {
            Expr::Add(x, y) => Some((&**x, &**y)),
            _ => None,
        })?;
        Some((entry.lo, entry.hi.saturating_add(step.saturating_mul(iterations - 1))))
    }

    fn global(&mut self, address: &Address, access: &Access, guard: &Option<Guard>, valid: Option<Reg>) -> Check {
        let base = self.known(self.number(address.base), &[]);
        let param = self.kernel.params.get(access.param);
        let param = param
            .ok_or_else(|| Violation::new("kernel IR", format!("the kernel has no parameter {}", access.param)))?;
        rule(base.pointer == Some(Pointer::Param(access.param)), || {
            format!("an access to {} through a pointer that does not derive from it", param.name)
        })?;
        let dims = param.holds.dims();
        let dims = dims.ok_or_else(|| Violation::new("kernel IR", format!("{} is not an address", param.name)))?;
        let (mut assume, mut counts) = (Vec::new(), Dims::NONE);
        if let Some(guard) = guard {
            let pred = self.known(self.number(guard.pred), &[]);
            let facts = if guard.expect { pred.yes } else { pred.no };
            assume.extend_from_slice(self.facts(facts));
            counts = if guard.expect { pred.counts } else { Dims::NONE };
        }
        if let Some(valid) = valid {
            counts = counts.or(self.known(self.number(valid), &[]).counts);
        }
        for (dim, reach) in dims.into_iter().zip(access.reach) {
            match (dim, reach) {
                (None, None) => {}
                (Some(dim), Some(reach)) if reach.dim == dim => {
                    self.reach(&reach, &assume, counts.or(base.inside))?;
                }
                (Some(dim), _) => {
                    return rule(false, || {
                        format!("an access to {} that states no extent along {}", param.name, dim.letter())
                    });
                }
                (None, Some(_)) => return rule(false, || format!("{} has no such dimension", param.name)),
            }
        }
        Ok(())
    }

    /// Checks that an access is in bounds: enough elements are left, or the access is guarded by a nonzero count.
    fn reach(&self, reach: &Reach, assume: &[Fact], inside: Dims) -> Check {
        let Reach { dim, left, before, end } = *reach;
        let letter = dim.letter();
        let known = self.known(self.number(left), assume);
        rule(known.left.is_some_and(|(of, _)| of == dim), || {
            format!("{} does not hold what is left of {letter}", name(self.kernel, left))
        })?;
        let reached = known.lo.saturating_add(before.into()) >= u64::from(end) && u64::from(before) <= known.before;
        rule(reached || inside.has(dim), || {
            format!("an access up to {letter} {end}, where only {} are known to be left", known.lo + u64::from(before))
        })
    }

    fn flag(&self, address: &Address) -> Check {
        let pointer = self.known(self.number(address.base), &[]).pointer;
        let workspace = match pointer {
            Some(Pointer::Param(index)) => self.kernel.params[index].holds == Holds::Workspace,
            _ => false,
        };
        rule(workspace, || "a flag that is not in a workspace".into())
    }

    /// The bytes of a box, after checking that it has one coordinate for each dimension of its map.
    fn boxed(&self, map: Reg, at: &[Reg]) -> Result<u32, Violation> {
        let holds = match self.known(self.number(map), &[]).pointer {
            Some(Pointer::Param(index)) => self.kernel.params[index].holds,
            _ => Holds::Other,
        };
        let Holds::Map { rank, box_bytes } = holds else {
            return Err(Violation::new(
                "kernel IR",
                format!("{} is not the address of a tensor map", name(self.kernel, map)),
            ));
        };
        rule(at.len() == rank as usize, || format!("{} coordinates of a matrix with {rank} dimensions", at.len()))?;
        Ok(box_bytes)
    }

    fn shared(&mut self, address: &Address, bytes: u32, guard: &Option<Guard>) -> Check {
        self.shared_range(address, bytes, bytes.max(1), guard)
    }

    /// Checks that `bytes` bytes at a shared address belong to the block, and that the address is a multiple of
    /// `align`.
    fn shared_range(&mut self, address: &Address, bytes: u32, align: u32, guard: &Option<Guard>) -> Check {
        let number = self.number(address.base);
        let mut base = self.known(number, &[]);
        if let Some(guard) = guard {
            let pred = self.known(self.number(guard.pred), &[]);
            let assume = self.facts(if guard.expect { pred.yes } else { pred.no }).to_vec();
            base = self.recomputed(number, &assume)?;
        }
        rule(base.pointer == Some(Pointer::Shared), || "a shared access outside the block's shared memory".into())?;
        let end = base.hi.saturating_add_signed(address.offset).saturating_add(u64::from(bytes));
        let size = u64::from(self.kernel.shared_bytes);
        rule(address.offset >= 0 && end <= size, || format!("a shared access up to byte {end} of {size}"))?;
        let aligned = gcd(base.multiple, address.offset.unsigned_abs()).is_multiple_of(u64::from(align));
        rule(aligned, || {
            format!(
                "a misaligned shared access of {bytes} bytes at a multiple of {}, offset {}",
                base.multiple, address.offset
            )
        })
    }

    /// What is known about a number under additional facts, recomputed from its definition.
    pub(super) fn recomputed(&mut self, number: Number, assume: &[Fact]) -> Result<Known, Violation> {
        let mut known = self.known(number, assume);
        let made = self.made.get(number.0 as usize).copied().flatten();
        if let Some((value, _)) = made.filter(|(value, when)| !assume.is_empty() && self.unchanged(value, *when)) {
            let again = self.evaluate(value, assume, Depth::Recomputed)?;
            known.lo = known.lo.max(again.lo);
            known.hi = known.hi.min(again.hi);
        }
        Ok(known)
    }

    /// True if every register of the expression still holds the value it held at that time.
    fn unchanged(&self, value: &Expr, when: u32) -> bool {
        match value {
            Expr::Reg(reg, _) => self.registers[self.numbering.of(*reg)].since <= when,
            Expr::Const(_) | Expr::Tid(_) | Expr::Block | Expr::Blocks | Expr::SharedBase => true,
            Expr::Swizzle(x, _) | Expr::Wide(x) | Expr::Not(x) => self.unchanged(x, when),
            Expr::Add(x, y)
            | Expr::Sub(x, y)
            | Expr::Mul(x, y)
            | Expr::Div(x, y)
            | Expr::Mod(x, y)
            | Expr::Min(x, y)
            | Expr::Max(x, y)
            | Expr::Xor(x, y)
            | Expr::Compare(_, x, y)
            | Expr::And(x, y) => self.unchanged(x, when) && self.unchanged(y, when),
            Expr::Select(c, x, y) => [c, x, y].into_iter().all(|part| self.unchanged(part, when)),
        }
    }

    /// Assigns an unknown value of the register's type; does nothing for a data register.
    fn unknown(&mut self, reg: Reg) -> Check {
        match self.kernel.ty(reg) {
            Type::Pred => self.assign(reg, Known::truth(Dims::NONE, Facts::NONE, Facts::NONE), None),
            Type::U32 => self.assign(reg, Known::any(false), None),
            Type::U64 => self.assign(reg, Known::any(true), None),
            Type::S32
            | Type::F32
            | Type::F64
            | Type::S8
            | Type::U8
            | Type::E4m3
            | Type::E5m2
            | Type::F16
            | Type::Bf16
            | Type::Word => Ok(()),
        }
    }

    fn assign(&mut self, reg: Reg, known: Known, made: Option<&'k Expr>) -> Check {
        self.within_bound(reg, known.hi)?;
        self.renew(self.numbering.of(reg), known, made);
        Ok(())
    }

    fn within_bound(&self, reg: Reg, hi: u64) -> Check {
        let family = &self.kernel.families[reg.family.0 as usize];
        let Some(bound) = family.bounds.get(reg.index as usize) else { return Ok(()) };
        rule(hi <= *bound, || format!("{} is declared with the bound {bound}, but can be {hi}", name(self.kernel, reg)))
    }
}

/// The body of a loop.
struct Body<'k, 'a> {
    stmts: &'k [Stmt],
    /// The index registers that it assigns, including in nested statements, once per assignment.
    assigned: &'a [Reg],
}

impl<'k> Body<'k, '_> {
    /// The statement that assigns a register, if there is only one and it is not nested.
    fn once(&self, reg: Reg) -> Option<usize> {
        let assignments = self.assigned.iter().filter(|assigned| **assigned == reg).count();
        let at = self.stmts.iter().position(|stmt| matches!(&stmt.op, Op::Set { dst, .. } if *dst == reg))?;
        (assignments == 1).then_some(at)
    }

    /// The constant by which the loop steps a register, if it does so once and not in a nested statement, and the
    /// statement's index.
    fn stepped(&self, reg: Reg, operands: impl Fn(&'k Expr) -> Option<(&'k Expr, &'k Expr)>) -> Option<(usize, u64)> {
        let at = self.once(reg)?;
        let Op::Set { value, .. } = &self.stmts[at].op else { return None };
        match operands(value)? {
            (Expr::Reg(of, _), Expr::Const(step)) if *of == reg => Some((at, *step)),
            _ => None,
        }
    }
}
