//! The stage of D: extents, alignments, and what TMA can copy from it.

use ptx_gemm_dsl::target::{BOX_ALIGN, MAX_ACCESS_BYTES, MAX_BOX, WARP};
use ptx_gemm_dsl::terms::Swizzle;
use ptx_gemm_dsl::types::Layout;

use super::limits::{alignment, vector};
use super::trace::Node;
use super::{Check, broken, rule};
use crate::tile::print::name;
use crate::tile::{Digit, Empty, Full, Lent, MATRIX, Map, Op, Program, Stage, StagePlace, Stager, TMA_BYTES, Writer};
use crate::violation::Site;

/// Checks the declaration, and that the tile passes through it once.
pub(super) fn check(program: &Program) -> Check {
    let count = |of: fn(&Op) -> bool| program.statements().iter().filter(|statement| of(&statement.op)).count();
    let uses = (count(|op| matches!(op, Op::Stage { .. })), count(|op| matches!(op, Op::Write { .. })));
    let Some(stage) = &program.stage else {
        return rule(uses == (0, 0), Site::Tile, || "`stage` and `write` need a `stage of d`".into());
    };
    rule(uses == (1, 1), Site::Stage, || {
        format!("the stage of d needs one `stage` and one `write`, not {} and {}", uses.0, uses.1)
    })?;
    if let Some(lent) = program.lent() {
        slots(program, stage, lent)?;
    } else if program.scheduler.persistent.is_some() {
        // Another block may have begun its next tile, and this one has returned its slots.
        let taken = (0..program.rings.len()).find(|ring| program.is_staged_in(*ring) && program.told() > 1);
        rule(taken.is_none(), Site::Stage, || {
            let name = &program.rings[taken.unwrap_or_default()].name;
            format!("the stage of d is in memory of {name}, which other blocks of the cluster fill")
        })?;
    }
    let (lines, element) = (program.lines(), program.problem.types.d);
    rule(stage.pitch > 0, Site::Stage, || "the stage of d has a pitch of 0".into())?;
    let whole = stage.pitch >= lines.elements || lines.elements.is_multiple_of(stage.pitch);
    rule(whole, Site::Stage, || {
        format!("lines of {} elements cannot be cut into panels of {}", lines.elements, stage.pitch)
    })?;
    if let Swizzle::Bytes(span) = stage.swizzle {
        let fits = [32, 64, 128].contains(&span) && stage.pitch.saturating_mul(element.bytes()) == span;
        rule(fits, Site::Stage, || {
            format!("a swizzle of {span} B needs panels of 32, 64 or 128 B, as wide as its span")
        })?;
    }
    let align = alignment(stage.swizzle).max(if program.writes_by_tma() { BOX_ALIGN } else { MAX_ACCESS_BYTES });
    let starts = match (stage.place, program.lent()) {
        (StagePlace::At(offset_bytes), _) => vec![offset_bytes],
        (StagePlace::Slots(_), None) => Vec::new(),
        (StagePlace::Slots(_), Some(lent)) => {
            // A single panel needs no distance to the next.
            let apart = if stage.panels(lines.elements) > 1 { lent.panel_bytes } else { 0 };
            vec![lent.first_bytes, program.rings[lent.ring].slot_bytes, apart]
        }
    };
    starts.into_iter().try_for_each(|start| {
        rule(start.is_multiple_of(align), Site::Stage, || match program.lent() {
            None => format!("the stage of d begins at {start} B, which is not a multiple of {align}"),
            Some(_) => format!("panels of the stage of d are {start} B apart, which is not a multiple of {align}"),
        })
    })
}

/// The slots that hold the stage of D: they hold whole panels, in a ring that continues from tile to tile.
fn slots(program: &Program, stage: &Stage, lent: Lent) -> Check {
    let ring = &program.rings[lent.ring];
    let name = &ring.name;
    let counts = matches!((ring.full, ring.empty), (Full::Mbarrier { .. }, Empty::Mbarrier { .. }));
    rule(counts, Site::Stage, || {
        format!("the stage of d is in {name}, which needs mbarriers for full and empty slots")
    })?;
    rule(program.groups() == 1, Site::Stage, || {
        format!("the stage of d is in {name}, and groups that take turns cannot tell lent slots from those of K-tiles")
    })?;
    rule(lent.panels > 0, Site::Stage, || {
        format!("a panel of the stage of d has {} B, which is more than a slot of {name}", lent.panel_bytes)
    })?;
    let panels = stage.panels(program.lines().elements);
    rule(lent.slots <= ring.depth, Site::Stage, || {
        format!("the stage of d has {panels} panels, {} in a slot, and {name} has {} slots", lent.panels, ring.depth)
    })?;
    let statements = program.statements();
    let has = |of: fn(&Op) -> bool| statements.iter().filter(|statement| of(&statement.op)).count();
    let uses = [
        has(|op| matches!(op, Op::Lend { .. })),
        has(|op| matches!(op, Op::Borrow { .. })),
        has(|op| matches!(op, Op::Return { .. })),
    ];
    rule(uses == [1; 3], Site::Stage, || {
        let [lend, borrow, back] = uses;
        format!(
            "the stage of d is in {name}, which needs one `lend`, one `borrow` and one `return`, not {lend}, {borrow} and \
             {back}"
        )
    })
}

/// Slots are lent only for the stage of D.
pub(super) fn lends(program: &Program, ring: usize, node: &Node<'_>) -> Check {
    let of_stage = program.lent().is_some_and(|lent| lent.ring == ring);
    rule(of_stage, node.site(), || {
        let (word, name) = (name(node.op), &program.rings[ring].name);
        format!("`{word} {name}` is for a stage of d in {name}, and it is elsewhere")
    })
}

/// A thread's writes to the stage.
pub(super) fn stage(program: &Program, acc: usize, by: Stager, site: Site) -> Check {
    let Some(stage) = &program.stage else { return Ok(()) };
    let element = program.problem.types.d;
    let width = match by {
        Stager::Registers { width } => width,
        Stager::Matrices => return matrices(program, stage, &program.accumulators[acc].map, site),
    };
    let run = program.accumulators[acc].map.run(program.problem.layouts.d == Layout::Row);
    let fits = vector(width, element.bytes()) && run.is_multiple_of(width) && stage.pitch.is_multiple_of(width);
    rule(fits, site, || {
        format!(
            "a thread holds {run} adjacent elements of D, and cannot write {width} {element} at a time with a pitch of {}",
            stage.pitch
        )
    })
}

/// The rules of `stmatrix` (PTX ISA, "stmatrix"): matrices of 16-bit elements as tensor cores leave them, and lines of
/// 16 bytes. The distances from a warp's first line do not depend on the warp.
fn matrices(program: &Program, stage: &Stage, map: &Map, site: Site) -> Check {
    let at = || site.clone();
    let (element, atom) = (program.problem.types.d, Map::m16n8());
    rule(program.target.capability >= 90, at(), || format!("`stmatrix` needs sm_90, not {}", program.target))?;
    let computed = program.problem.types.epilogue();
    rule(element.bytes() == 2 && program.problem.types.in_singles(), at(), || {
        format!("matrices are of 16-bit elements, converted from f32, not {element} from {computed}")
    })?;
    let rest = map.element.get(atom.element.len()..).unwrap_or_default();
    let apart = |digit: &Digit| (digit.m == 0 && digit.n >= MATRIX) || (digit.n == 0 && digit.m >= 2 * MATRIX);
    let held = map.thread == atom.thread && map.element.starts_with(&atom.element);
    rule(held && rest.iter().all(apart), at(), || "the accumulators are not held as matrices".into())?;
    rule((stage.pitch * element.bytes()).is_multiple_of(MAX_ACCESS_BYTES), at(), || {
        format!("lines of {} {element} do not begin at multiples of {MAX_ACCESS_BYTES} B", stage.pitch)
    })?;
    let along_n = program.problem.layouts.d == Layout::Row;
    let line_of = |(m, n): (u32, u32)| if along_n { (m, n) } else { (n, m) };
    let distance = |at: (u32, u32)| stage.distance(program.lines(), element, line_of(at));
    let (rows, cols) = (map.rows(), map.cols());
    let blocks = stage.blocks(&cols, program.problem.layouts.d);
    // The first elements of a warp's matrices, and those of the blocks of four that begin at the thread's elements.
    let adds_up = (0..map.threads() / WARP).all(|warp| {
        let (m, n) = map.first(warp * WARP);
        [0, MATRIX].iter().all(|right| {
            let blocks = blocks.iter().filter(|block| block.len() == 4 || *right == 0).map(|block| cols[block.start]);
            blocks.into_iter().all(|col| {
                rows.iter().step_by(2).all(|row| {
                    [0, MATRIX].iter().all(|below| {
                        let own = (m + below, n + right);
                        distance((own.0 + row, own.1 + col)) == distance(own) + distance((*row, col))
                    })
                })
            })
        })
    });
    rule(adds_up, at(), || format!("a warp's matrices are cut by panels of {} elements", stage.pitch))
}

/// The copy from the stage to global memory. A thread copies as many elements as it holds.
pub(super) fn write(program: &Program, by: Writer, site: Site) -> Check {
    let Some(stage) = &program.stage else { return Ok(()) };
    match by {
        Writer::Registers { width } => registers(program, stage, width, site),
        Writer::Tma { rows } => boxes(program, stage, rows, site),
    }
}

fn registers(program: &Program, stage: &Stage, width: u32, site: Site) -> Check {
    let (lines, element) = (program.lines(), program.problem.types.d);
    let wide = vector(width, element.bytes()) && lines.elements.is_multiple_of(width);
    rule(wide && stage.pitch.is_multiple_of(width), site, || {
        format!(
            "cannot copy {width} {element} at a time from lines of {} elements with a pitch of {}",
            lines.elements, stage.pitch
        )
    })
}

/// The boxes in which TMA copies the stage's panels.
pub(super) fn boxes(program: &Program, stage: &Stage, rows: u32, site: Site) -> Check {
    let (lines, element) = (program.lines(), program.problem.types.d);
    let at = || site.clone();
    if program.target.capability < 90 {
        return Err(broken(format!("{} has no tensor memory accelerator", program.target)).at(site));
    }
    let bytes = stage.pitch.saturating_mul(element.bytes());
    let whole = stage.pitch <= MAX_BOX && bytes.is_multiple_of(TMA_BYTES) && lines.elements.is_multiple_of(stage.pitch);
    rule(whole, at(), || {
        format!(
            "tma copies lines without gaps of up to {MAX_BOX} elements and whole {TMA_BYTES} B, and the panels' are {} elements \
             of {element}",
            stage.pitch
        )
    })?;
    let divides = (1..=MAX_BOX).contains(&rows) && lines.count.is_multiple_of(rows);
    rule(divides, at(), || {
        format!("the tile has {} lines, which are not whole boxes of {rows}, at most {MAX_BOX}", lines.count)
    })?;
    // A single box need not end where another could begin.
    let boxes = lines.count / rows * stage.panels(lines.elements);
    let align = alignment(stage.swizzle).max(BOX_ALIGN);
    rule(boxes == 1 || (rows * bytes).is_multiple_of(align), at(), || {
        format!("boxes of {rows} lines of {bytes} B do not begin at multiples of {align} B")
    })
}
