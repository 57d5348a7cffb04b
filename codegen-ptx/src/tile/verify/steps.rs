//! K-steps: one fetch of each operand, groups that divide the loop, widths that the source allows.

use ptx_gemm_dsl::terms::{Fast, Operands, Reads, Side};

use super::limits::{MAX_PRODUCTS, run, vector};
use super::trace::Node;
use super::{Check, rule};
use crate::tile::{Fetch, Map, Op, Program, Source, Span};
use crate::violation::Site;

/// Most steps of one unrolled body.
const MAX_UNROLL: u32 = 1024;

pub(super) fn check(program: &Program, node: &Node<'_>) -> Check {
    let Op::Steps { span, unroll, fetches, multiply, .. } = node.op else { return Ok(()) };
    let (site, unroll) = (|| node.site(), *unroll);
    let part = |index: usize| Site::Statement([node.path.as_slice(), &[index]].concat());
    let map = &program.accumulators[multiply.acc].map;
    let (start, steps) = match span {
        Span::Tile(range) => {
            let inside = range.start < range.end && range.end <= program.block.k;
            rule(inside, site(), || {
                format!("steps {}..{} do not fit a K-tile of {}", range.start, range.end, program.block.k)
            })?;
            (range.start, range.end - range.start)
        }
        // A split along k is into whole rounds.
        Span::All => (0, program.block.k),
    };
    rule((1..=MAX_UNROLL.max(program.block.k)).contains(&unroll) && steps.is_multiple_of(unroll), site(), || {
        format!("{steps} steps cannot be unrolled by {unroll}")
    })?;
    if *span == Span::All {
        rule(unroll == steps && unroll <= MAX_UNROLL, site(), || {
            format!("the loop is unrolled by {unroll}, but the tile's k is {steps} (at most {MAX_UNROLL})")
        })?;
    }
    let products = u64::from(unroll) * u64::from(map.elements());
    rule(products <= u64::from(MAX_PRODUCTS), site(), || {
        format!("one unrolled body has {products} multiply-adds, and the limit is {MAX_PRODUCTS}")
    })?;
    let sides: Vec<Side> = fetches.iter().map(|(fetch, _)| fetch.side).collect();
    let one_each = sides.len() == 2 && sides[0] != sides[1];
    rule(one_each, site(), || "a step must fetch one fragment of A and one of B".into())?;
    rule(fetches[0].0.hold == fetches[1].0.hold, part(1), || {
        "both operands must be held in registers, or neither".into()
    })?;
    for (index, (fetch, _)) in fetches.iter().enumerate() {
        self::fetch(program, map, fetch, *span == Span::All, (start, unroll), part(index))?;
    }
    Ok(())
}

fn fetch(program: &Program, map: &Map, fetch: &Fetch, all: bool, (start, unroll): (u32, u32), site: Site) -> Check {
    let bytes = program.element(fetch.side).bytes();
    let run = run(map, fetch.side == Side::B);
    let (fast, pitch) = match fetch.from {
        Source::Global => (program.problem.layouts.fast(fetch.side), None),
        Source::Buffer(buffer) => (program.buffers[buffer].fast, Some(program.buffers[buffer].pitch)),
    };
    rule(all == (fetch.from == Source::Global), site.clone(), || {
        "`all` steps need fetches from global memory, and the steps of a K-tile fetches from a buffer".into()
    })?;
    let held = fetch.hold == Operands::Registers && !all;
    rule(fetch.reads == Reads::Movable || held, site.clone(), || {
        "only fragments that are held and come from a buffer can be volatile".into()
    })?;
    let width = fetch.width;
    let group = if fast == Fast::K { width } else { 1 };
    let wide = vector(width, bytes)
        && pitch.is_none_or(|pitch| pitch.is_multiple_of(width))
        && match fast {
            Fast::K => unroll.is_multiple_of(width) && start.is_multiple_of(width),
            Fast::Mn => run.is_multiple_of(width),
        };
    rule(wide, site.clone(), || match fast {
        Fast::K => format!("cannot read {width} elements at a time along k, with {unroll} steps from {start}"),
        Fast::Mn => format!("cannot read {width} elements at a time, where a thread has {run} adjacent ones"),
    })?;
    if fetch.hold == Operands::Shared {
        let plain = width == 1 && fetch.ahead == 0 && !all;
        return rule(plain, site, || "a fetch for each product must read one element from a buffer".into());
    }
    rule(fetch.ahead.is_multiple_of(group) && fetch.ahead < unroll.max(1), site, || {
        format!("groups of {group} steps cannot be read {} steps ahead in a body of {unroll}", fetch.ahead)
    })
}
