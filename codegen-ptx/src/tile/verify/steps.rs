//! K-steps: one fetch of each operand, groups that divide the loop, widths that the source allows.

use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::target::{MAX_ACCESS_BYTES, Target, WARP_GROUP};
use ptx_gemm_dsl::terms::{Fast, Reads, Side, Swizzle, Tail};
use ptx_gemm_dsl::types::{DType, Layout};

use super::limits::{MAX_PRODUCTS, vector};
use super::trace::Node;
use super::{Check, rule};
use crate::tile::{
    Buffer, Digit, Division, Fetch, Hold, Instruction, MMA, Map, Mover, Op, Program, Source, Span, Statement,
    WGMMA_DEPTH_BYTES, WGMMA_ROWS,
};
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
    // A matrix instruction has many products, and shared memory limits the number of such instructions in a K-tile.
    let products = u64::from(unroll) * u64::from(map.elements());
    let few = !matches!(multiply.by, Instruction::Fma { .. }) || products <= u64::from(MAX_PRODUCTS);
    rule(few, site(), || format!("one unrolled body has {products} multiply-adds, and the limit is {MAX_PRODUCTS}"))?;
    let sides: Vec<Side> = fetches.iter().map(|(fetch, _)| fetch.side).collect();
    let one_each = sides.len() == 2 && sides[0] != sides[1];
    rule(one_each, site(), || "a step must fetch one fragment of A and one of B".into())?;
    rule(fetches[0].0.hold == fetches[1].0.hold, part(1), || {
        "both operands of a product must be read in the same way".into()
    })?;
    let (suits, wanted) = match (multiply.by, fetches[0].0.hold) {
        (Instruction::Fma { .. }, hold) => {
            (matches!(hold, Hold::Registers | Hold::EachProduct), "fused multiply-adds multiply single elements")
        }
        (Instruction::Mma { .. }, hold) => (hold == Hold::Matrices, "`mma` multiplies what is fetched by matrices"),
        (Instruction::Wgmma { .. }, hold) => (hold == Hold::Descriptor, "`wgmma` reads its operands by descriptor"),
    };
    rule(suits, part(2), || wanted.into())?;
    if !matches!(multiply.by, Instruction::Fma { .. }) {
        rule(unroll == steps, site(), || {
            format!("the {steps} steps of a matrix instruction are unrolled as a whole, not by {unroll}")
        })?;
    }
    match multiply.by {
        Instruction::Fma { .. } => {}
        Instruction::Mma { rows, depth } => {
            multiplies(program, Unit::Warp, part(2))?;
            warp(program, map, (rows, depth), part(2))?;
            return fetches
                .iter()
                .enumerate()
                .try_for_each(|(index, (fetch, _))| matrices(program, fetch, depth, (start, steps), part(index)));
        }
        Instruction::Wgmma { columns, grain } => {
            multiplies(program, Unit::WarpGroup, part(2))?;
            rule(fetches[0].0.side == Side::A, part(0), || "the descriptor of A comes first".into())?;
            group(program, node, map, columns, part(2))?;
            self::grain(program, columns, grain, part(2))?;
            return fetches.iter().enumerate().try_for_each(|(index, (fetch, _))| {
                described_fetch(program, fetch, columns, (start, steps), part(index))
            });
        }
    }
    for (index, (fetch, _)) in fetches.iter().enumerate() {
        self::fetch(program, map, fetch, *span == Span::All, (start, unroll), part(index))?;
    }
    Ok(())
}

fn fetch(program: &Program, map: &Map, fetch: &Fetch, all: bool, (start, unroll): (u32, u32), site: Site) -> Check {
    let bytes = program.element(fetch.side).bytes();
    let run = map.run(fetch.side == Side::B);
    if let Source::Buffer(buffer) = fetch.from {
        let Buffer { ref name, .. } = program.buffers[buffer];
        let panels = program.buffers[buffer].panels();
        rule(panels == 1, site.clone(), || {
            format!("threads read whole rows, and those of {name} are cut into {panels}")
        })?;
    }
    let (fast, pitch) = match fetch.from {
        Source::Global => (program.problem.layouts.fast(fetch.side), None),
        Source::Buffer(buffer) => (program.buffers[buffer].fast, Some(program.buffers[buffer].pitch)),
    };
    rule(all == (fetch.from == Source::Global), site.clone(), || {
        "`all` steps need fetches from global memory, and the steps of a K-tile fetches from a buffer".into()
    })?;
    let held = fetch.hold == Hold::Registers && !all;
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
    if fetch.hold == Hold::EachProduct {
        let plain = width == 1 && fetch.ahead == 0 && !all;
        return rule(plain, site, || "a fetch for each product must read one element from a buffer".into());
    }
    rule(fetch.ahead.is_multiple_of(group) && fetch.ahead < unroll.max(1), site, || {
        format!("groups of {group} steps cannot be read {} steps ahead in a body of {unroll}", fetch.ahead)
    })
}

/// Tensor cores multiply types of the table of their instructions.
fn multiplies(program: &Program, unit: Unit, site: Site) -> Check {
    let types = program.problem.types;
    let [a, b] = [Side::A, Side::B].map(|side| program.element(side));
    let known = Multiply::of_unit(unit).any(|row| row.takes(a, b) && row.sums.contains(&types.acc));
    let listed = || {
        let rows = Multiply::of_unit(unit);
        let names = |all: &[DType]| all.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ");
        let mut texts: Vec<String> = rows.map(|row| format!("{} in {}", names(row.factors), names(row.sums))).collect();
        texts.dedup();
        texts.join(", ")
    };
    rule(known, site, || format!("`{}` multiplies and adds {}, not {a} by {b} in {}", unit.name(), listed(), types.acc))
}

/// The rules of `mma` (PTX ISA, "Matrix multiply-accumulate operation using mma"): its target, and the layout of its
/// results.
fn warp(program: &Program, map: &Map, (rows, depth): (u32, u32), site: Site) -> Check {
    let at = || site.clone();
    let all = || Multiply::of(Unit::Warp, program.element(Side::A));
    rule(all().any(|row| row.rows == rows), at(), || {
        let mut known: Vec<String> = all().map(|row| row.rows.to_string()).collect();
        known.dedup();
        format!("`mma` multiplies {} rows at once, not {rows}", known.join(" or "))
    })?;
    let row = all().find(|row| (row.rows, row.depth) == (rows, depth));
    rule(row.is_some(), at(), || {
        let depths: Vec<String> = all().filter(|row| row.rows == rows).map(|row| row.depth.to_string()).collect();
        format!("`mma` multiplies {} steps at once, not {depth}", depths.join(" or "))
    })?;
    let least = row.map_or(0, |row| row.least.capability);
    rule(program.target.capability >= least, at(), || format!("`mma` needs sm_{least}, not {}", program.target))?;
    let atom = Map::of_warp(rows);
    let rest = map.element.get(atom.element.len()..).unwrap_or_default();
    let other = |digit: &Digit| (digit.m == 0 && digit.n >= MMA.n) || (digit.n == 0 && digit.m >= rows);
    let held = map.thread == atom.thread && map.element.starts_with(&atom.element) && rest.iter().all(other);
    rule(held, at(), || "the accumulators are not held as `mma` leaves them".into())
}

/// The rules of `ldmatrix`: pieces of 16 bytes of a tile's rows, which begin at multiples of 16 bytes.
fn matrices(program: &Program, fetch: &Fetch, depth: u32, (start, steps): (u32, u32), site: Site) -> Check {
    let at = || site.clone();
    let element = program.element(fetch.side).bytes();
    let Source::Buffer(index) = fetch.from else {
        return rule(false, at(), || "matrices are read from a buffer, not from global memory".into());
    };
    let buffer = &program.buffers[index];
    rule(buffer.panels() == 1, at(), || {
        format!("a warp reads whole rows, and those of {} are cut into {}", buffer.name, buffer.panels())
    })?;
    along_k(program, fetch.side, buffer, at())?;
    let bytes = buffer.pitch.saturating_mul(element);
    // Threads load elements of 64 bits one by one.
    rule(element == 8 || bytes.is_multiple_of(MAX_ACCESS_BYTES), at(), || {
        format!("the rows of {} are {bytes} B apart, which is not a multiple of {MAX_ACCESS_BYTES}", buffer.name)
    })?;
    whole(Unit::Warp, depth, (start, steps), at())?;
    rule(fetch.ahead == 0 || (fetch.ahead == depth && steps > depth), at(), || match steps > depth {
        true => format!("matrices are read 0 or {depth} steps ahead, not {}", fetch.ahead),
        false => format!("matrices of the only product of {steps} steps are read 0 steps ahead, not {}", fetch.ahead),
    })
}

/// An instruction multiplies `depth` steps at once, and a statement some of these.
fn whole(unit: Unit, depth: u32, (start, steps): (u32, u32), site: Site) -> Check {
    rule(start.is_multiple_of(depth) && steps.is_multiple_of(depth), site, || {
        format!("`{}` multiplies {depth} steps at once, which {steps} from {start} are not made of", unit.name())
    })
}

/// Matrices of 16-bit elements are transposed on the way; others are contiguous along k.
fn along_k(program: &Program, side: Side, buffer: &Buffer, site: Site) -> Check {
    let dtype = program.element(side);
    let any = Multiply::of_unit(Unit::Warp).filter(|row| row.factors.contains(&dtype)).all(Multiply::reads_any_order);
    rule(any || buffer.fast == Fast::K, site, || {
        format!("tensor cores read {dtype} along k, and {} is contiguous along the other dimension", buffer.name)
    })
}

/// The rules of `wgmma` (PTX ISA, "Asynchronous warpgroup level matrix instructions"): its target, types, shape, and
/// the layout of its results.
fn group(program: &Program, node: &Node<'_>, map: &Map, columns: u32, site: Site) -> Check {
    let at = || site.clone();
    rule(program.target == Target::SM_90A, at(), || format!("`wgmma` needs sm_90a, not {}", program.target))?;
    let row = Multiply::of(Unit::WarpGroup, program.element(Side::A)).next();
    rule(row.is_some_and(|row| row.columns.has(columns)), at(), || {
        format!("`wgmma` has 8 to 256 columns, a multiple of 8, not {columns}")
    })?;
    let role = &program.roles[node.path[0]];
    rule(role.per_tile().is_multiple_of(WARP_GROUP), at(), || {
        format!("`wgmma` is of warp groups of {WARP_GROUP} threads, and its role has {}", role.len())
    })?;
    let groups = role.per_tile() / WARP_GROUP;
    // That the parts together are the tile is a rule of every map.
    let held = map.warp_groups(columns).is_some_and(|(_, of)| of.m.checked_mul(of.n) == Some(groups));
    rule(held, at(), || {
        format!(
            "the accumulators are not held as `wgmma` with {columns} columns leaves them, in each of {groups} warp groups"
        )
    })
}

/// Narrower products are the first columns of whole ones; each tile of D has its own number of columns. The boxes of B
/// and of D shrink accordingly.
fn grain(program: &Program, columns: u32, grain: u32, site: Site) -> Check {
    if grain == columns {
        return Ok(());
    }
    let at = || site.clone();
    let row = Multiply::of(Unit::WarpGroup, program.element(Side::A)).next();
    let has = |narrower: u32| row.is_some_and(|row| row.columns.has(narrower));
    let parts = grain > 0
        && grain.is_multiple_of(8)
        && columns.is_multiple_of(grain)
        && (grain..=columns).step_by(grain as usize).all(has);
    rule(parts, at(), || format!("{columns} columns are not made of parts of {grain}, or these not a multiple of 8"))?;
    rule(program.block.n == columns, at(), || {
        format!(
            "narrower products are of all columns of a tile at once, and these are {columns} of {}",
            program.block.n
        )
    })?;
    let scheduler = &program.scheduler;
    rule(scheduler.cluster.n == 1 && scheduler.division != Division::Stream, at(), || {
        "blocks that share columns or K-tiles have tiles of the same columns".into()
    })?;
    rule(program.buffers.iter().all(|buffer| buffer.side == Side::A || buffer.fast == Fast::K), at(), || {
        "boxes of B begin at any column, and must be contiguous along k".into()
    })?;
    // C is copied to the place of D, in boxes of its lines.
    let mut boxes = program.boxes_of_d().into_iter().chain(program.boxes_of_c());
    let whole = boxes.all(|lines| program.problem.layouts.d == Layout::Col && lines == columns);
    rule(whole, at(), || "boxes of D have all columns of a tile".into())?;
    rule(program.tail == Tail::Predicate, at(), || "with `tail none` every tile has all columns".into())?;
    rule(program.walk.is_none(), at(), || "products of planes have all columns".into())?;
    let alike = |statement: &&Statement| match &statement.op {
        Op::Steps { multiply, .. } => matches!(multiply.by, Instruction::Wgmma { grain: of, .. } if of == grain),
        _ => true,
    };
    let statements = program.statements();
    rule(statements.iter().all(alike), at(), || "all products have the same grain".into())?;
    // Groups that work on one tile may share barriers: they have the same products.
    rule(program.groups() == 1, at(), || "groups of threads that take turns have tiles of different columns".into())
}

/// The rules of a matrix descriptor: a swizzled tile that TMA has written, with panels as wide as the span.
fn described_fetch(program: &Program, fetch: &Fetch, columns: u32, (start, steps): (u32, u32), site: Site) -> Check {
    let at = || site.clone();
    let element = program.element(fetch.side).bytes();
    let Source::Buffer(index) = fetch.from else {
        return rule(false, at(), || "a descriptor is of a buffer, not of global memory".into());
    };
    let buffer = &program.buffers[index];
    let name = &buffer.name;
    let spans = match buffer.swizzle {
        Swizzle::Bytes(span) => buffer.pitch * element == span,
        Swizzle::None => false,
    };
    rule(spans, at(), || {
        format!(
            "{name} is not swizzled in panels as wide as the span: a row of a panel has {} B",
            buffer.pitch * element
        )
    })?;
    along_k(program, fetch.side, buffer, at())?;
    let by_tma = program.statements().iter().all(|statement| match &statement.op {
        Op::Copy { buffer, by, .. } => *buffer != index || matches!(by, Mover::Tma { .. }),
        _ => true,
    });
    rule(by_tma, at(), || format!("tensor cores see what tma writes, and {name} is written by threads"))?;
    let depth = WGMMA_DEPTH_BYTES / element;
    whole(Unit::WarpGroup, depth, (start, steps), at())?;
    let rows = if fetch.side == Side::A { WGMMA_ROWS } else { columns };
    let whole = buffer.fast == Fast::K || rows.is_multiple_of(buffer.pitch) || rows == buffer.extent;
    rule(whole, at(), || format!("`wgmma` reads {rows} of {name}, which are not whole panels of {}", buffer.pitch))
}
