//! Operands that are packed: what their kernels can copy, and which copies use them.

use ptx_gemm_dsl::target::{MAX_THREADS, WARP};
use ptx_gemm_dsl::terms::Fast;
use ptx_gemm_dsl::types::Batch;

use super::{Check, rule};
use crate::tile::{Mover, Op, Pack, Program};
use crate::violation::Site;

/// Most elements that a thread has in flight.
const MAX_ELEMENTS: u32 = 64;

/// Most shared memory that a module may declare, in bytes.
const MAX_SHARED_BYTES: u32 = 48 * 1024;

pub(super) fn check(program: &Program, index: usize, pack: &Pack) -> Check {
    let site = || Site::Pack(index);
    let operand = pack.side.operand().name();
    rule(program.problem.batch != Batch::Grouped || pack.planes.is_none(), site(), || {
        format!("{operand} is split into planes, and the products of a group are not")
    })?;
    rule(program.packs[..index].iter().all(|other| other.side != pack.side), site(), || {
        format!("{operand} is packed twice")
    })?;
    let copied = program.statements().iter().any(|statement| match statement.op {
        Op::Copy { buffer, by, .. } => {
            let by_tma = matches!(by, Mover::Tma { .. });
            (by_tma || pack.planes.is_some()) && program.buffers[buffer].side == pack.side
        }
        _ => false,
    });
    rule(copied, site(), || match pack.planes {
        None => format!("{operand} is packed, and tma does not copy it"),
        Some(_) => format!("{operand} is split into planes, and they are not copied"),
    })?;
    let (extents, threads) = ([pack.extent, pack.depth], pack.threads);
    let whole = threads.is_multiple_of(WARP) && (WARP..=MAX_THREADS).contains(&threads);
    rule(whole, site(), || format!("{threads} threads are not 1 to {} warps", MAX_THREADS / WARP))?;
    // Each pass of a block covers whole rows, on both sides if it transposes.
    let vector = pack.vector(program);
    let divides = |rows: u32, row: u32| {
        let per_row = row / vector;
        let passes = per_row > 0 && threads.is_multiple_of(per_row) && rows.is_multiple_of(threads / per_row);
        row.is_multiple_of(vector) && rows > 0 && passes
    };
    let [own, k] = extents;
    let along = |fast| if fast == Fast::K { divides(own, k) } else { divides(k, own) };
    rule(along(pack.fast) && along(program.problem.layouts.fast(pack.side)), site(), || {
        format!("{threads} threads do not copy a tile of {own} x {k} in whole rows, {vector} elements each at a time")
    })?;
    let each = u64::from(pack.extent) * u64::from(pack.depth) / u64::from(threads);
    rule(each <= MAX_ELEMENTS.into(), site(), || {
        format!("each thread copies {each} elements, and the limit is {MAX_ELEMENTS}")
    })?;
    let bytes = pack.shared_bytes(program);
    rule(bytes <= MAX_SHARED_BYTES, site(), || {
        format!("a tile takes {bytes} B of shared memory, and the limit is {MAX_SHARED_BYTES} B")
    })
}
