//! Products of warp groups: no thread uses their accumulators while they are in flight.
//!
//! A path carries three facts: whether the threads' writes to accumulators are fenced, whether some products are not
//! yet in a group, and whether products may be in flight. A loop is followed twice, the second time with the state
//! after its first iteration.

use std::collections::HashSet;

use ptx_gemm_dsl::atoms::Unit;

use super::{Check, rule};
use crate::kernel::{Kernel, Op, Reg, Stmt, Value, definitions};

/// Checks the rules of `wgmma.fence`, `.commit_group` and `.wait_group` (PTX ISA, "Asynchronous warpgroup level matrix
/// instructions").
pub(super) fn check(kernel: &Kernel) -> Check {
    let mut held = HashSet::new();
    collect(&kernel.body, &mut held);
    if held.is_empty() {
        return Ok(());
    }
    let mut state = State::default();
    Products { kernel, held }.block(&kernel.body, &mut state)?;
    rule(!state.in_flight && !state.open, || "products are in flight at the end".to_string())
}

/// The accumulators of all products.
fn collect(stmts: &[Stmt], held: &mut HashSet<Reg>) {
    for stmt in stmts {
        match &stmt.op {
            Op::TensorProduct { acc, shape, .. } if shape.row.unit == Unit::WarpGroup => held.extend(acc),
            Op::If { then, other, .. } => {
                collect(then, held);
                collect(other, held);
            }
            Op::Loop { body, .. } => collect(body, held),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
struct State {
    /// Threads have not touched accumulators since the last fence.
    fenced: bool,
    /// Some products are not in a group yet.
    open: bool,
    /// Products may be in flight.
    in_flight: bool,
}

impl State {
    fn join(self, other: State) -> State {
        State {
            fenced: self.fenced && other.fenced,
            open: self.open || other.open,
            in_flight: self.in_flight || other.in_flight,
        }
    }
}

struct Products<'k> {
    kernel: &'k Kernel,
    held: HashSet<Reg>,
}

impl Products<'_> {
    fn block(&self, stmts: &[Stmt], state: &mut State) -> Check {
        stmts.iter().try_for_each(|stmt| {
            self.stmt(stmt, state).map_err(|violation| {
                let origin = self.kernel.origin(stmt);
                violation.within(format_args!("{}: {}", origin.clause, origin.what))
            })
        })
    }

    fn stmt(&self, stmt: &Stmt, state: &mut State) -> Check {
        match &stmt.op {
            Op::FenceProducts => state.fenced = true,
            Op::TensorProduct { shape, .. } if shape.row.unit == Unit::WarpGroup => {
                rule(state.fenced, || "the accumulators of a product are not fenced".to_string())?;
                state.open = true;
                state.in_flight = true;
            }
            Op::CommitProducts => state.open = false,
            Op::WaitProducts(left) => {
                rule(!state.open, || "a wait for products that are in no group".to_string())?;
                state.in_flight &= *left > 0;
            }
            Op::If { then, other, .. } => {
                let mut skipped = *state;
                self.block(then, state)?;
                self.block(other, &mut skipped)?;
                *state = state.join(skipped);
            }
            Op::Loop { body, .. } => {
                self.block(body, state)?;
                let mut again = *state;
                self.block(body, &mut again)?;
                *state = state.join(again);
            }
            op if self.touches(stmt, op) => {
                rule(!state.in_flight, || "an accumulator is used while products are in flight".to_string())?;
                state.fenced = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a statement reads or writes an accumulator of products.
    fn touches(&self, stmt: &Stmt, op: &Op) -> bool {
        let mut found = false;
        let mut see = |reg: Reg| found |= self.held.contains(&reg);
        definitions(std::slice::from_ref(stmt), &mut see);
        let value = |value: &Value| if let Value::Reg(reg) = value { Some(*reg) } else { None };
        match op {
            Op::Store { src, .. } | Op::StoreMatrices { src, .. } => src.iter().for_each(|reg| see(*reg)),
            Op::Math { args, .. } => args.iter().filter_map(value).for_each(see),
            Op::Select { yes, no, .. } => [yes, no].into_iter().filter_map(value).for_each(see),
            Op::IsZero { src, .. } => see(*src),
            Op::Outer { a, b, .. } => a.iter().chain(b).for_each(|reg| see(*reg)),
            _ => {}
        }
        found
    }
}
