//! Partial sums that the blocks of a cluster exchange: their place in shared memory, and the shares of the blocks.

use ptx_gemm_dsl::target::MAX_ACCESS_BYTES;
use ptx_gemm_dsl::types::Layout;

use super::limits::{MAX_CLUSTER, vector};
use super::{Check, rule, stored};
use crate::tile::{Division, Exchange, Op, Program};
use crate::violation::Site;

/// Checks that blocks exchange partial sums exactly if they are parts of one cluster, and what they exchange.
pub(super) fn check(program: &Program) -> Check {
    let shares = program.statements().iter().filter(|statement| matches!(statement.op, Op::Share { .. })).count();
    let (exchange, parts) = match (&program.exchange, program.scheduler.division) {
        (Some(exchange), Division::Cluster(parts)) => (exchange, parts),
        (None, Division::Cluster(_)) => {
            return rule(false, Site::Scheduler, || "the parts of a cluster need an `exchange` of their sums".into());
        }
        (Some(_), _) => {
            return rule(false, Site::Exchange, || "blocks exchange sums that are no `parts` of a `cluster`".into());
        }
        (None, _) => return rule(shares == 0, Site::Tile, || "`share` needs an `exchange`".into()),
    };
    cluster(program, parts)?;
    rule(shares == 1, Site::Exchange, || format!("an exchange needs one `share`, not {shares}"))?;
    rule(program.stage.is_none(), Site::Exchange, || {
        "sums that are exchanged are stored line by line, and need no stage of d".into()
    })?;
    threads(program, exchange)?;
    place(program, exchange)?;
    stored::check(program, &exchange.map, (exchange.width, exchange.c_width), &Site::Exchange)
}

/// The blocks of a cluster are the parts of one tile.
fn cluster(program: &Program, parts: u32) -> Check {
    let scheduler = &program.scheduler;
    let at = || Site::Scheduler;
    rule((2..=MAX_CLUSTER).contains(&parts), at(), || {
        format!("a cluster has 2 to {MAX_CLUSTER} parts of k, not {parts}")
    })?;
    rule(program.target.capability >= 90, at(), || format!("{} has no clusters", program.target))?;
    rule(scheduler.cluster_blocks() == 1, at(), || "a cluster has the parts of one tile, or several tiles".into())?;
    rule(scheduler.persistent.is_none(), at(), || {
        "a block that goes on to its next tile would overwrite sums that others read".into()
    })?;
    rule(!program.problem.types.narrow_sums(), at(), || {
        "blocks exchange sums that have a register each, and two of f16 share one".into()
    })
}

/// The threads that add up a share hold each of its elements once.
fn threads(program: &Program, exchange: &Exchange) -> Check {
    let (lines, layout) = (program.lines(), program.problem.layouts.d);
    let held = exchange.held(layout);
    let (m, n) = if layout == Layout::Row { (held.count, lines.elements) } else { (lines.elements, held.count) };
    if let Some(fault) = exchange.map.fault(m, n) {
        return rule(false, Site::Exchange, || format!("exchange: {fault}"));
    }
    let share = program.share();
    rule(held.count >= share, Site::Exchange, || {
        format!("a block stores {share} of {} lines, and its threads have {} of them", lines.count, held.count)
    })?;
    let (threads, most) = (exchange.map.threads(), program.threads());
    rule(threads <= most, Site::Exchange, || format!("{threads} threads add up sums, and a block has {most}"))
}

/// The place of the partial sums.
fn place(program: &Program, exchange: &Exchange) -> Check {
    let lines = program.lines();
    let Exchange { pitch, offset_bytes, .. } = *exchange;
    rule(pitch >= lines.elements, Site::Exchange, || {
        format!("lines of {} sums do not fit a pitch of {pitch}", lines.elements)
    })?;
    let aligned = offset_bytes.is_multiple_of(MAX_ACCESS_BYTES);
    rule(aligned, Site::Exchange, || {
        format!("sums begin at {offset_bytes} B, which is not a multiple of {MAX_ACCESS_BYTES}")
    })
}

/// A thread's writes of its partial sums.
pub(super) fn share(program: &Program, acc: usize, width: u32, site: Site) -> Check {
    let Some(exchange) = &program.exchange else { return Ok(()) };
    let element = program.problem.types.acc;
    let run = program.accumulators[acc].map.run(program.problem.layouts.d == Layout::Row);
    let fits = vector(width, element.bytes()) && run.is_multiple_of(width) && exchange.pitch.is_multiple_of(width);
    rule(fits, site, || {
        format!(
            "a thread holds {run} adjacent sums, and cannot write {width} {element} at a time with a pitch of {}",
            exchange.pitch
        )
    })
}
