//! Random schedules, as text: each has a good chance to be legal.

use proptest::prelude::*;
use proptest::sample::select;
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::clause::{Clause, TypesClause};
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::terms::Edges;
use ptx_gemm_dsl::types::{Layout, Layouts, Types};

use super::agreement::{clustered, in_turn, joined, together};
use super::types::{
    EPILOGUES, GROUP_TYPES, TYPES, WARP_TYPES, along_k, dividing, epilogue_of, is_byte_float, is_integer, promotable,
};

/// Generates text in `percent` of all draws; shrinks to nothing.
pub(super) fn maybe<S: Strategy>(percent: u32, strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    prop::option::weighted(f64::from(percent) / 100.0, strategy)
}

/// One of these numbers. Earlier numbers are simpler; a number that is listed twice is drawn more often.
pub(super) fn of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    select(all)
}

/// The `choice`th divisor of a number, wrapping around after the last, so that a choice can be made before the number
/// is known.
fn divisor(number: usize, choice: usize) -> usize {
    let divisors: Vec<usize> = (1..=number).filter(|d| number.is_multiple_of(*d)).collect();
    divisors[choice % divisors.len()]
}

/// Rows and columns of the block's tile, how many threads multiply, and the clauses about them.
fn geometry() -> impl Strategy<Value = ([usize; 2], usize, Vec<String>)> {
    let thread = (of(&[1, 1, 2, 3, 4, 4, 5, 8, 8]), of(&[1, 1, 2, 3, 4, 4, 6, 8, 8]));
    let grid = (of(&[1, 2, 3, 4, 7, 8, 16]), of(&[1, 2, 4, 5, 8, 16]));
    let grid = (grid, prop::bool::weighted(0.3)).prop_map(|(grid, along_m)| (grid, None, along_m.then_some("m")));
    let lanes = of(&[(1, 32), (2, 16), (4, 8), (4, 8), (4, 8), (8, 4), (16, 2), (32, 1)]);
    let warps = (lanes, of(&[1, 2, 3]), of(&[1, 2]), prop::bool::ANY).prop_map(|((m, n), warps_m, warps_n, z)| {
        ((m * warps_m, n * warps_n), Some((m, n)), (z && (m, n) == (4, 8)).then_some("z"))
    });
    let fragment = maybe(40, (0..4usize, 0..4usize));
    (thread, prop_oneof![3 => grid, 1 => warps], fragment).prop_map(|((tm, tn), ((m, n), lanes, along), fragment)| {
        let mut clauses = vec![format!("thread({tm}, {tn})")];
        clauses.extend(lanes.map(|(m, n)| format!("warp({}, {})", m * tm, n * tn)));
        clauses.extend(along.map(|along| format!("lanes(along = {along})")));
        clauses.extend(fragment.map(|(m, n)| format!("fragment({}, {})", divisor(tm, m), divisor(tn, n))));
        ([m * tm, n * tn], m * n, clauses)
    })
}

/// The depth of the tile and the clauses about its staging; none where nothing is staged.
fn staging() -> impl Strategy<Value = (Option<usize>, Vec<Option<String>>)> {
    let skew = prop_oneof![
        2 => Just(String::new()),
        1 => of(&[1, 2, 4]).prop_map(|n| format!(" + pad({n})")),
        1 => of(&[32, 64, 128]).prop_map(|n| format!(" + swizzle({n})")),
    ];
    let shared = (of(&["mk", "km"]), of(&["kn", "nk"]), skew.clone(), skew)
        .prop_map(|(a, b, skew_a, skew_b)| format!("shared(a = {a}{skew_a}, b = {b}{skew_b})"));
    let stages = prop_oneof![
        2 => Just("double_buffer".to_string()),
        1 => of(&[1, 2]).prop_map(|n| format!("stages({n})")),
        3 => of(&[1, 2, 3, 4, 6]).prop_map(|n| format!("load(cp_async); stages({n})")),
    ];
    let (operands, pace) = (of(&["operands(shared)"]), of(&["pace(free)"]));
    let prefetch = (of(&[0, 1, 2, 4]), of(&["", ", volatile"])).prop_map(|(n, reads)| format!("prefetch({n}{reads})"));
    let depth = of(&[1, 2, 3, 4, 5, 8, 8, 8, 12, 16, 32]);
    let staged =
        (depth, maybe(30, 0..6usize), maybe(60, shared), maybe(67, stages), maybe(25, operands), maybe(20, pace))
            .prop_map(|(depth, unroll, shared, stages, operands, pace)| {
                let unroll = unroll.map(|choice| format!("unroll({})", divisor(depth, choice)));
                (Some(depth), vec![unroll, shared, stages, operands.map(str::to_string), pace.map(str::to_string)])
            });
    let staged = (staged, maybe(25, prefetch)).prop_map(|((depth, mut clauses), prefetch)| {
        clauses.push(prefetch);
        (depth, clauses)
    });
    let direct = maybe(40, of(&[1, 2, 3, 4, 8]))
        .prop_map(|unroll| (None, vec![Some("shared(none)".to_string()), unroll.map(|n| format!("unroll({n})"))]));
    prop_oneof![4 => staged, 1 => direct]
}

/// Types, layouts, the epilogue and the number of products.
fn problem() -> impl Strategy<Value = Vec<Option<String>>> {
    let layout = || of(&["row", "col"]);
    let layouts = (layout(), layout(), layout(), layout())
        .prop_map(|(a, b, c, d)| format!("layout(a = {a}, b = {b}, c = {c}, d = {d})"));
    let batch = of(&["batch(strided)", "batch(grouped)"]).prop_map(str::to_string);
    (maybe(42, of(&TYPES)), maybe(60, 0..EPILOGUES.len()), maybe(60, layouts), maybe(15, batch)).prop_map(
        |(types, epilogue, layouts, batch)| {
            let integer = types.is_some_and(is_integer);
            let epilogue = epilogue.map(|index| epilogue_of(index, integer));
            let (types, epilogue) = (
                types.map(|types| format!("types({types})")),
                epilogue.map(|epilogue| format!("epilogue({epilogue})")),
            );
            vec![types, epilogue, layouts, batch]
        },
    )
}

/// Waves of blocks. With few blocks small products have tiles that do not fill a wave, too.
const WAVES: &[&str] = &[
    "persistent",
    "persistent(1)",
    "persistent(3)",
    "stream_k",
    "persistent(2); stream_k",
    "persistent(3); stream_k",
    "persistent(5); stream_k",
];

/// Clauses that are independent of each other.
fn others() -> impl Strategy<Value = Vec<Option<String>>> {
    let text = |all: &'static [&'static str]| of(all).prop_map(str::to_string);
    let vector =
        text(&["vector(1)", "vector(2)", "vector(4)", "vector(4)", "vector(4)", "vector(8)", "vector(4, d = 1)"]);
    let raster = (of(&[1, 2, 3, 8]), of(&["m", "n"]))
        .prop_map(|(group, along)| format!("raster(group = {group}, along = {along})"));
    let split = (of(&[2, 3, 5, 8]), of(&["serial", "workspace", "cluster"]))
        .prop_map(|(parts, reduce)| format!("split_k({parts}, reduce = {reduce})"));
    let targets =
        &["target(sm_75)", "target(sm_80)", "target(sm_89)", "target(sm_90)", "target(sm_90a)", "target(sm_120)"];
    vec![
        maybe(60, vector).boxed(),
        maybe(
            40,
            text(&[
                "order(row)",
                "order(snake)",
                "order(column)",
                "order(column_snake)",
                "order(diagonal)",
                "order(blocks)",
            ]),
        )
        .boxed(),
        maybe(40, raster).boxed(),
        maybe(15, split).boxed(),
        maybe(30, text(WAVES)).boxed(),
        maybe(30, text(STORES)).boxed(),
        maybe(10, text(&["blocks_per_sm(1)", "blocks_per_sm(2)"])).boxed(),
        maybe(5, text(&["tail(none)"])).boxed(),
        maybe(20, text(targets)).boxed(),
    ]
}

/// Ways to store a tile of D from shared memory.
const STORES: &[&str] =
    &["store(staged)", "store(staged)", "store(tma)", "store(staged, memory = ring)", "store(tma, memory = ring)"];

/// A pipeline that TMA fills.
#[derive(Clone, Copy, Debug)]
struct Boxed {
    depth: usize,
    stages: usize,
    /// Whether it has `pace(free)`, and `prefetch(1, volatile)`.
    free: bool,
    volatile: bool,
    /// Whether operands that are contiguous along k are swizzled.
    swizzle: bool,
    /// Whether A, and whether B, is packed, and in which order: contiguous along k or not.
    packed: [Option<bool>; 2],
}

fn boxed() -> impl Strategy<Value = Boxed> {
    let packed = || maybe(30, prop::bool::ANY);
    let rare = prop::bool::weighted(0.3);
    (of(&[4, 8, 8, 16, 32]), of(&[1, 2, 3, 4]), (rare, rare, prop::bool::ANY), [packed(), packed()]).prop_map(
        |(depth, stages, (free, volatile, swizzle), packed)| Boxed { depth, stages, free, volatile, swizzle, packed },
    )
}

/// The clauses of a tile of this depth that TMA copies, with the operands' order in memory or in their packed copies.
fn by_tma(boxed: Boxed, [m, n]: [usize; 2], problem: &[Option<String>]) -> Vec<Option<String>> {
    let says = |text: &str| problem.iter().flatten().any(|clause| clause.contains(text));
    let element = |name: &str| match ["i8", "u8", "e4m3", "e5m2", "f64", "f16", "bf16"]
        .map(|ty| says(&format!("types({ty}")) || says(&format!("{name} = {ty},")) && says("types(a"))
    {
        [true, ..] | [_, true, ..] | [_, _, true, ..] | [_, _, _, true, ..] => 1,
        [_, _, _, _, true, ..] => 8,
        [.., false, false] => 4,
        _ => 2,
    };
    let skew = |name: &str| match boxed.depth * element(name) {
        bytes @ (32 | 64 | 128) if boxed.swizzle => format!(" + swizzle({bytes})"),
        _ => String::new(),
    };
    // A row of a box must be a multiple of 16 bytes; along m or n it may be too short.
    let along_k = |packed: Option<bool>, by_itself: bool, short: bool| match packed {
        Some(along_k) => Some(along_k || short),
        None => (!by_itself && short).then_some(true),
    };
    let short = |name: &str, extent: usize| !(extent * element(name)).is_multiple_of(16);
    let a_packed = along_k(boxed.packed[0], !says("a = col"), short("a", m));
    let b_packed = along_k(boxed.packed[1], says("b = col"), short("b", n));
    let a = if a_packed.unwrap_or(!says("a = col")) { format!("mk{}", skew("a")) } else { "km".into() };
    let b = if b_packed.unwrap_or(says("b = col")) { format!("nk{}", skew("b")) } else { "kn".into() };
    let pack = match [a_packed, b_packed].map(|packed| packed.is_some()) {
        [false, false] => None,
        [true, false] => Some("pack(a)"),
        [false, true] => Some("pack(b)"),
        [true, true] => Some("pack(a, b)"),
    };
    vec![
        Some(format!("shared(a = {a}, b = {b})")),
        Some(format!("load(tma); stages({})", boxed.stages)),
        pack.map(str::to_string),
        boxed.free.then(|| "pace(free)".to_string()),
        boxed.volatile.then(|| "prefetch(1, volatile)".to_string()),
    ]
}

/// A warp group that only copies and gives its registers to the others.
const BUDGET: &str = "specialize(producers = 1); registers(producer = 24, consumer = 160)";

/// Producer warps, for the schedules that support them.
fn producers() -> impl Strategy<Value = Option<String>> {
    maybe(
        60,
        of(&["specialize(producers = 1 warp)", "specialize(producers = 2 warps)", BUDGET]).prop_map(str::to_string),
    )
}

/// A schedule that has a good chance to be legal, as text.
pub(super) fn schedule() -> impl Strategy<Value = String> {
    let groups = (of_warp_groups(), prop::bool::weighted(0.25))
        .prop_map(|(schedule, even)| evenly(&schedule).filter(|_| even).unwrap_or(schedule));
    let direct = prop_oneof![7 => of_threads(), 1 => groups, 1 => of_warps()].prop_map(of_group);
    let levels = maybe(8, of(&["strassen(levels = 1)", "strassen(levels = 1)", "strassen(levels = 2)"]));
    (direct, prop::bool::weighted(0.15), levels).prop_map(|(schedule, transposed, levels)| {
        let schedule = if transposed { mirrored(&schedule) } else { schedule };
        match levels.filter(|_| !schedule.contains(GROUPED) && !schedule.contains("acc = f16")) {
            Some(levels) => format!("{schedule}; {levels}"),
            None => schedule,
        }
    })
}

/// A schedule with tiles narrowed to the columns that they need; `None` if that is illegal.
fn evenly(text: &str) -> Option<String> {
    let schedule: Schedule = text.parse().ok()?;
    let (layouts, col) = (schedule.problem().ok()?.layouts, Layout::Col);
    let layouts = Layouts { b: col, d: if text.contains("store(tma") { col } else { layouts.d }, ..layouts };
    let dropped = [Key::Shared, Key::StreamK, Key::Tail, Key::Layout];
    let kept = schedule.clauses().filter(|clause| !dropped.contains(&clause.key())).cloned();
    let even = kept.fold(Schedule::new(), Schedule::clause).layout(layouts).tail(Edges::Even);
    even.plan(None).ok()?;
    Some(even.clauses().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// A schedule that computes the transpose of another one's product by the same kernel. Text with errors stays as it is.
fn mirrored(text: &str) -> String {
    let Ok(schedule) = text.parse::<Schedule>() else { return text.into() };
    let Ok(problem) = schedule.problem().map(|problem| problem.transposed()) else { return text.into() };
    let Types { a, b, acc, c, d } = problem.types;
    let types = TypesClause { all: None, a: Some(a), b: Some(b), acc: Some(acc), c: Some(c), d: Some(d) };
    let of = Schedule::new().types_of(types).layout(problem.layouts).clause(Clause::Epilogue(problem.epilogue));
    let transposed = schedule.with(of.transposed());
    transposed.clauses().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The same without the clauses that conflict with a group.
fn of_group(schedule: String) -> String {
    if !schedule.contains(GROUPED) {
        return schedule;
    }
    let goes = |clause: &&str| !clause.starts_with("split_k") && *clause != "stream_k";
    schedule.split("; ").filter(goes).collect::<Vec<_>>().join("; ")
}

const GROUPED: &str = "batch(grouped)";

/// f32 products from planes; the promotion interval is a multiple of the K-tile.
const EMULATED: [&str; 12] = [
    "emulate(bf16x9)",
    "emulate(bf16x6)",
    "emulate(bf16x6); promote(every = 64)",
    "emulate(bf16x6); promote(every = 32)",
    "emulate(bf16x6); promote(every = 16)",
    "emulate(bf16x6); promote(every = 32, compensated)",
    "emulate(bf16x3); promote(every = 128, compensated)",
    "emulate(bf16x3)",
    "emulate(f16x3)",
    "emulate(f16x3); promote(every = 64)",
    "emulate(f16x3); promote(every = 256)",
    "emulate(f16x3)",
];
const EMULATED_TYPES: [&str; 3] = ["f32", "f32", "f32, c = bf16, d = f16"];

/// Draws of f32 products from planes: the clauses, and the types.
fn emulated(percent: u32) -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
    maybe(percent, (of(&EMULATED), of(&EMULATED_TYPES)))
}

/// The batch of a schedule; planes do not support groups.
fn batch_of(batch: Option<&'static str>, emulated: bool) -> Option<&'static str> {
    if emulated { batch.map(|_| "batch(strided)") } else { batch }
}

/// Whether a clause is legal on tensor cores with some types: the order of multiply-adds is not, and blocks do not exchange
/// f16 sums.
fn goes(clause: &str, types: &str) -> bool {
    let divides = clause.starts_with("split_k") || clause.contains("stream_k");
    let exchanges = divides && types.contains("acc = f16");
    !(exchanges || clause.starts_with("order") || clause.starts_with("target"))
}

/// How the tiles of warp-level products are copied.
const OF_WARPS: [&str; 6] = [
    "stages(1)",
    "double_buffer",
    "double_buffer; pace(free)",
    "load(cp_async); stages(3)",
    "load(cp_async); stages(4); pace(free)",
    "load(cp_async); stages(3); specialize(producers = 1 warp)",
];

/// The same for planes.
const OF_PLANES: [&str; 9] = [
    "load(cp_async); stages(3)",
    "load(cp_async); stages(1)",
    "load(cp_async); stages(2)",
    "load(cp_async); stages(4); pace(free)",
    "load(cp_async); stages(3); specialize(producers = 1 warp)",
    "load(tma); stages(3)",
    "load(tma); stages(2); specialize(producers = 1 warp)",
    "double_buffer",
    "stages(1)",
];

/// A schedule on tensor cores with warp-level instructions.
fn of_warps() -> impl Strategy<Value = String> {
    let warp = (of(&[16, 32, 48, 64]), of(&[8, 16, 24, 32, 64]), of(&[1, 1, 2, 3]), of(&[1, 1, 2, 4]));
    let layout = || of(&["row", "col"]);
    let layouts = (layout(), layout(), layout(), layout())
        .prop_map(|(a, b, c, d)| format!("layout(a = {a}, b = {b}, c = {c}, d = {d})"));
    let problem = (
        of(&WARP_TYPES),
        maybe(60, layouts),
        maybe(60, 0..EPILOGUES.len()),
        maybe(15, of(&["batch(strided)", "batch(grouped)"])),
    );
    let steps = (of(&[16, 32, 48, 64]), of(&OF_WARPS), of(&OF_PLANES), maybe(30, of(&["prefetch(0)"])));
    let product = (of(&[16, 16, 16, 8]), emulated(30));
    (warp, steps, problem, others(), product).prop_map(
        |((m, n, rows, columns), (depth, copies, of_planes, ahead), problem, others, (k, emulated))| {
            let (types, layouts, epilogue, batch) = problem;
            let batch = batch_of(batch, emulated.is_some());
            let copies = emulated.map_or(copies.to_string(), |(emulate, _)| format!("{of_planes}; {emulate}"));
            let types = emulated.map_or(types, |(_, types)| types);
            let depth =
                promotable(along_k(emulated.map_or(depth, |(emulate, _)| dividing(depth, emulate)), types), types);
            let k = if types.contains("f64") && depth.is_multiple_of(k) { k } else { along_k(k, types) };
            let mut clauses = vec![
                format!("types({types})"),
                format!("tile({}, {}, {depth}); warp({m}, {n})", m * rows, n * columns),
                format!("atom(mma(16, 8, {k})); {copies}"),
            ];
            let epilogue = epilogue.map(|at| format!("epilogue({})", epilogue_of(at, is_integer(types))));
            let words = [ahead, batch].map(|clause| clause.map(str::to_string));
            clauses.extend(words.into_iter().chain([layouts, epilogue]).flatten());
            clauses.extend(others.into_iter().flatten().filter(|clause| goes(clause, types)));
            joined(&clauses)
        },
    )
}

/// Clusters, and the loads that their blocks share.
const CLUSTERS: [&str; 7] = [
    "cluster(2, 1); multicast(b)",
    "cluster(2, 1); multicast(b)",
    "cluster(1, 2); multicast(a)",
    "cluster(2, 2); multicast(a, b)",
    "cluster(3, 2); multicast(a, b)",
    "cluster(2, 2); multicast(b)",
    "cluster(2, 1)",
];

/// Producer warps for consumer warp groups, which may be fewer than the tile's rows of instructions.
const GROUP_ROLES: [&str; 9] = [
    "specialize(producers = 1 warp)",
    "specialize(producers = 1)",
    BUDGET,
    "specialize(producers = 1, consumers = 1)",
    "specialize(producers = 1, consumers = 1)",
    "specialize(producers = 1 warp, consumers = 1)",
    "specialize(producers = 1 warp, pingpong)",
    "specialize(producers = 1, pingpong); registers(producer = 24, consumer = 240)",
    "specialize(producers = 1 warp, consumers = 3, pingpong)",
];

/// A schedule on tensor cores with warp-group instructions.
fn of_warp_groups() -> impl Strategy<Value = String> {
    // Columns of an instruction, and the instructions across a tile.
    let tile = (of(&[1, 1, 2, 3]), of(&[16, 48, 32, 64, 96, 128, 256]), of(&[1, 1, 2, 3]), of(&[16, 32, 48, 64, 128]));
    let orders = (of(&["mk", "km"]), of(&["kn", "nk"]), of(&[32, 32, 64]), of(&[32, 32, 64]))
        .prop_map(|(a, b, of_a, of_b)| format!("shared(a = {a} + swizzle({of_a}), b = {b} + swizzle({of_b}))"));
    let roles = of(&GROUP_ROLES).prop_map(str::to_string);
    let pace = of(&["pace(tile)"]).prop_map(str::to_string);
    let staging = (of(&[1, 2, 3, 4, 6]), maybe(50, roles), maybe(20, orders), maybe(20, pace));
    let layout = || of(&["row", "col"]);
    let layouts = (layout(), layout(), layout(), layout())
        .prop_map(|(a, b, c, d)| format!("layout(a = {a}, b = {b}, c = {c}, d = {d})"));
    let problem = (
        of(&GROUP_TYPES),
        maybe(60, layouts),
        maybe(60, 0..EPILOGUES.len()),
        maybe(15, of(&["batch(strided)", "batch(grouped)"])),
    );
    // Which divisors of the instructions along m and n are the numbers of warp groups.
    let divided = maybe(40, (of(&[0, 1]), of(&[1, 0, 2])));
    let promoted = maybe(15, of(&["promote(none)", "promote(every = 128)", "promote(every = 256, compensated)"]));
    (tile, staging, problem, others(), (maybe(30, of(&CLUSTERS)), emulated(30), divided, promoted)).prop_map(
        |(
            (groups, columns, parts, depth),
            (stages, mut roles, orders, pace),
            problem,
            mut others,
            (clusters, emulated, divided, promoted),
        )| {
            let (types, layouts, epilogue, batch) = problem;
            let batch = batch_of(batch, emulated.is_some());
            clustered(&mut others, clusters.filter(|_| batch != Some("batch(grouped)")));
            let types = emulated.map_or(types, |(_, types)| types);
            // Sums in f32 are promoted on demand, others never.
            let promoted =
                promoted.filter(|_| emulated.is_none() && !is_integer(types) && !types.contains("acc = f16"));
            let sets = emulated.is_some() || is_byte_float(types) || promoted.is_some();
            // Two sets of accumulators leave room for fewer columns.
            let (columns, most) = if sets { (columns.min(96), 96) } else { (columns, 256) };
            let n = columns * if columns * parts <= most { parts } else { 1 };
            let depth = along_k(emulated.map_or(depth, |(emulate, _)| dividing(depth, emulate)), types);
            let depth = if promoted.is_some() { dividing(depth, "") } else { promotable(depth, types) };
            let orders = orders.filter(|_| along_k(1, types) == 1);
            let pingpong = roles.as_ref().is_some_and(|roles| roles.contains("pingpong"));
            if pingpong {
                in_turn(&mut others, clusters.is_some());
            }
            // A single warp group computes all rows of its tile.
            let groups = if pingpong && groups * n > most { 1 } else { groups };
            let by = divided.map(|(m, n_of)| match pingpong {
                true => (1, 1),
                false => (divisor(groups, m), divisor(n / columns, n_of)),
            });
            let by = by.filter(|(m, by_n)| m * by_n <= 4 && groups / m * n / by_n <= most);
            if let (Some(_), false, Some(roles)) = (by, pingpong, &mut roles) {
                // The number of warp groups follows from `warp`.
                *roles = roles.replace(", consumers = 1", "");
            }
            let mut clauses = vec![
                format!("types({types})"),
                format!("tile({}, {n}, {depth})", 64 * groups),
                format!("atom(wgmma(64, {columns}, {}))", along_k(16, types)),
                format!("load(tma); stages({stages})"),
            ];
            clauses.extend(by.map(|(m, by_n)| format!("warp({}, {})", 64 * groups / m, n / by_n)));
            clauses.extend(emulated.map(|(emulate, _)| emulate.to_string()));
            clauses.extend(promoted.map(str::to_string));
            let epilogue = epilogue.map(|at| format!("epilogue({})", epilogue_of(at, is_integer(types))));
            clauses.extend([roles, orders, pace, layouts, epilogue, batch.map(str::to_string)].into_iter().flatten());
            clauses.extend(others.into_iter().flatten().filter(|clause| goes(clause, types)));
            joined(&clauses)
        },
    )
}

/// A schedule with `atom(fma)`.
fn of_threads() -> impl Strategy<Value = String> {
    let clusters = maybe(20, of(&CLUSTERS));
    (geometry(), staging(), maybe(20, boxed()), producers(), problem(), others(), clusters).prop_map(
        |(([m, n], grid, threads), (mut depth, mut staging), boxed, producers, problem, mut others, clusters)| {
            let says = |word: &str| problem.iter().flatten().any(|clause| clause.contains(word));
            let bytes = says("i8") || says("e4m3");
            let narrow = says("f16") || bytes;
            if let (Some(boxed), Some(_)) = (boxed, depth) {
                // Rows of boxes have whole 16 bytes.
                let least = if bytes { 16 } else { 8 };
                let boxed = Boxed { depth: if narrow { boxed.depth.max(least) } else { boxed.depth }, ..boxed };
                depth = Some(boxed.depth);
                staging = by_tma(boxed, [m, n], &problem);
                clustered(&mut others, clusters);
                others.retain(|clause| clause.as_ref().is_none_or(|clause| !clause.starts_with("target")));
            }
            if narrow && staging.iter().flatten().any(|clause| clause.contains("load(cp_async)")) {
                together(&mut staging, &mut others, &problem);
            }
            let asynchronous = |clause: &String| clause.contains("load(cp_async)") || clause.contains("load(tma)");
            if staging.iter().flatten().any(asynchronous) && grid.is_multiple_of(32) {
                let whole = grid.is_multiple_of(128) && grid <= 384;
                if producers.as_deref() == Some(BUDGET) && whole {
                    others.retain(|clause| {
                        clause.as_ref().is_none_or(|c| !c.starts_with("target") && !c.starts_with("blocks_per_sm"))
                    });
                }
                staging.push(producers.filter(|clause| clause != BUDGET || whole));
            }
            let is = |start: &'static str| move |clause: &String| clause.starts_with(start);
            if depth.is_none() {
                others.retain(|clause| !clause.as_ref().is_some_and(is("store(")));
            }
            if staging.iter().flatten().any(is("operands(shared)")) {
                staging.retain(|clause| !clause.as_ref().is_some_and(is("prefetch(")));
            }
            let tile = depth.map_or(format!("tile({m}, {n})"), |depth| format!("tile({m}, {n}, {depth})"));
            let more = [staging, problem, others].into_iter().flatten().flatten();
            joined(&[tile].into_iter().chain(threads).chain(more).collect::<Vec<_>>())
        },
    )
}
