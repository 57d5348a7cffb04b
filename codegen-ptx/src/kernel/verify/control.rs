//! The rules of barriers, and of operations of whole warp groups.

use std::ops::Range;

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::target::{BARRIERS, WARP};

use super::{Check, rule};
use crate::Violation;
use crate::kernel::uniform::{Agreement, Control, Uniformity};
use crate::kernel::{Kernel, Memory, Op, Stmt};

/// Blocks may access each other's shared memory only between two cluster barriers: after all blocks have started, and
/// before any has ended.
fn reached(kernel: &Kernel) -> Check {
    let first = kernel.body.iter().position(|stmt| reaches(std::slice::from_ref(stmt)));
    let Some(first) = first else { return Ok(()) };
    let (before, after) = kernel.body.split_at(first);
    let met = |stmt: &Stmt| matches!(stmt.op, Op::ClusterBarrier | Op::ClusterWait);
    let begun = before.iter().any(met);
    rule(begun, || "blocks reach each other's shared memory before a barrier of the cluster".to_string())?;
    let ended = after.last().is_some_and(met);
    rule(ended, || "blocks may end while others reach their shared memory".to_string())
}

fn reaches(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match &stmt.op {
        Op::CopyBox { blocks, .. } => blocks.is_some(),
        Op::ArriveAt { .. } => true,
        Op::Load { memory, .. } | Op::Store { memory, .. } => matches!(memory, Memory::Cluster(_)),
        Op::If { then, other, .. } => reaches(then) || reaches(other),
        Op::Loop { body, .. } => reaches(body),
        _ => false,
    })
}

pub(super) fn check(kernel: &Kernel, uniformity: &Uniformity<'_>) -> Check {
    reached(kernel)?;
    let mut users: [Option<Range<u32>>; BARRIERS as usize] = Default::default();
    for (stmt, control) in &uniformity.barriers {
        let within = |v: Violation| {
            let origin = kernel.origin(stmt);
            v.within(format_args!("{}: {}", origin.clause, origin.what))
        };
        match &stmt.op {
            Op::NamedBarrier { number, threads } => named(control, *number, *threads, &mut users),
            Op::SetRegisters { .. } => rule(
                [control.threads.start, control.threads.end].iter().all(|end| end.is_multiple_of(4 * WARP))
                    && control.together(),
                || format!("a number of registers for {}, which are not whole warp groups", arriving(control)),
            ),
            _ => rule(control.threads == (0..kernel.threads) && control.together(), || {
                format!("a barrier of the block that only {} reach", arriving(control))
            }),
        }
        .map_err(within)?;
    }
    for (stmt, control, operands) in &uniformity.products {
        let (threads, agree, of) = match stmt.op {
            Op::LoadMatrices { .. } | Op::StoreMatrices { .. } => (WARP, Agreement::WARP, "warps"),
            Op::TensorProduct { shape, .. } if shape.row.unit == Unit::Warp => (WARP, Agreement::WARP, "warps"),
            _ => (4 * WARP, Agreement::WARP_GROUP, "warp groups"),
        };
        let whole = [control.threads.start, control.threads.end].iter().all(|end| end.is_multiple_of(threads));
        let held = rule(whole && control.agree >= agree, || {
            format!("matrices for {}, which are not whole {of}", arriving(control))
        })
        .and_then(|()| {
            rule(*operands >= agree, || {
                "operands of a product that differ between the threads of a warp group".to_string()
            })
        });
        held.map_err(|v| {
            let origin = kernel.origin(stmt);
            v.within(format_args!("{}: {}", origin.clause, origin.what))
        })?;
    }
    Ok(())
}

fn named(control: &Control, number: u32, threads: u32, users: &mut [Option<Range<u32>>]) -> Check {
    let Range { start, end } = control.threads;
    rule((1..BARRIERS).contains(&number), || format!("a block has no barrier {number}"))?;
    rule(
        end - start == threads && start.is_multiple_of(WARP) && threads.is_multiple_of(WARP) && control.together(),
        || format!("a barrier of {threads} threads that {} reach", arriving(control)),
    )?;
    let users = &mut users[number as usize];
    let other = users.get_or_insert_with(|| control.threads.clone());
    rule(*other == control.threads, || {
        format!("barrier {number} is used by threads {}..{} and threads {start}..{end}", other.start, other.end)
    })
}

fn arriving(control: &Control) -> String {
    let Range { start, end } = control.threads;
    let some = if control.together() { "" } else { "some of " };
    format!("{some}threads {start}..{end}")
}
