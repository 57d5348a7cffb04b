//! C in the stage of D: TMA copies C's tile there, and threads replace it by D's.

use super::{Check, rule, staged};
use crate::tile::{Division, Op, Program, ReadC, Stage, StagePlace, Turn};
use crate::violation::Site;

/// Checks the declaration, and that the stage can hold C until D takes its place.
pub(super) fn check(program: &Program) -> Check {
    let count = |of: fn(&Op) -> bool| program.statements().iter().filter(|statement| of(&statement.op)).count();
    let prefetches = count(|op| matches!(op, Op::PrefetchC { .. }));
    let waits = count(|op| matches!(op, Op::AwaitC));
    let reads = count(|op| matches!(op, Op::Stage { c: ReadC::Stage, .. }));
    let site = || Site::Arrival;
    let Some(arrival) = &program.arrival else {
        let unused = (prefetches, waits, reads) == (0, 0, 0);
        return rule(unused, Site::Tile, || "C passes through the stage of d, and needs an `arrival of c`".into());
    };
    rule((prefetches, waits, reads) == (1, 1, 1), site(), || {
        format!(
            "the arrival of c needs one `prefetch c`, one `await c` and one `stage` with `c staged`, not {prefetches}, {waits} \
             and {reads}"
        )
    })?;
    rule(arrival.offset_bytes.is_multiple_of(Turn::BYTES), site(), || {
        format!("mbarriers must begin at a multiple of {} B", Turn::BYTES)
    })?;
    let apart = matches!(program.stage, Some(Stage { place: StagePlace::At(_), .. }))
        && (0..program.rings.len()).all(|ring| !program.is_staged_in(ring));
    rule(apart, site(), || "C is copied while products are computed, to a stage of d outside their slots".into())?;
    let (types, layouts) = (program.problem.types, program.problem.layouts);
    rule(types.c.bytes() == types.d.bytes() && layouts.c == layouts.d, site(), || {
        format!(
            "{} elements of c cannot be in the places of {} elements of d: size and layout differ",
            types.c, types.d
        )
    })?;
    rule(program.scheduler.division == Division::Whole, site(), || {
        "only the block that adds up the parts of a tile reads C".into()
    })
}

/// The boxes of C, which are those of the stage. The threads that start them also read them.
pub(super) fn boxes(program: &Program, role: usize, rows: u32, site: Site) -> Check {
    let Some(stage) = &program.stage else { return Ok(()) };
    let stages = |op: &Op| matches!(op, Op::Stage { .. } | Op::AwaitC);
    let here = program.roles[role].body.iter().flat_map(|statement| statement.op.body()).filter(|s| stages(&s.op));
    rule(here.count() == 2, site.clone(), || {
        format!("C is read by other threads than those of role {}, which start its copies", program.roles[role].name)
    })?;
    staged::boxes(program, stage, rows, site)
}
