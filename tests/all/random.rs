//! Random legal schedules at random sizes, executed and compared. What is refused must be refused with a reason.
//!
//! A failure shrinks towards few clauses, small tiles and small matrices. Each draw is reproducible: `PTX_GEMM_SEED` picks
//! another sequence than the one of every day, `PTX_GEMM_DRAWS` how long it is.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use ptx_gemm_check::{Output, Request, check};
use ptx_gemm_dsl::terms::Tail;
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_dsl::{Plan, Schedule};
use ptx_gemm_interp::{Checks, Options, WarpOrder};
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions};

/// Draws of every day.
const DRAWS: u32 = 300;

/// What some accepted schedule of that many draws has: a generator that stops making one of these tests less than it says.
const SEEN: [&str; 26] = [
    "shared(none)",
    "warp(",
    "lanes(along = m)",
    "lanes(along = z)",
    "fragment(",
    "vector(",
    "layout(",
    "types(f64)",
    "types(i32)",
    "acc = f64",
    "swizzle(",
    "pad(",
    "double_buffer",
    "load(cp_async)",
    "specialize(",
    "pace(free)",
    "operands(shared)",
    "unroll(",
    "prefetch(",
    "order(",
    "raster(",
    "split_k(",
    "persistent",
    "batch(strided)",
    "tail(none)",
    "target(",
];

/// One draw: a schedule, how it is executed, and on what.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "Debug shows all of it")]
struct Draw {
    schedule: String,
    order: WarpOrder,
    /// Elements by which every matrix misses its alignment.
    misalign: u32,
    requests: Vec<Wish>,
}

/// A request before the schedule's tile and the names of its scalars are known.
#[derive(Clone, Debug)]
struct Wish {
    extents: [Extent; 3],
    exact: bool,
    seed: u64,
    batch: usize,
    gap: usize,
    padding: Option<usize>,
    in_place: bool,
    scalars: [Option<f64>; 2],
}

#[derive(Clone, Copy, Debug)]
enum Extent {
    Of(usize),
    /// So many tiles, and one element less, none or one more.
    Tiles(usize, usize),
}

impl Extent {
    fn elements(self, tile: u32) -> usize {
        match self {
            Extent::Of(elements) => elements,
            Extent::Tiles(tiles, more) => (tiles * tile as usize + more).saturating_sub(1),
        }
    }
}

impl Wish {
    fn request(&self, plan: &Plan) -> Request {
        let [m, n, k] = self.extents;
        let elements = |extent: Extent, tile: u32| match plan.tail {
            Tail::None => extent.elements(tile).next_multiple_of(tile as usize),
            Tail::Predicate => extent.elements(tile),
        };
        let (m, n, k) = (elements(m, plan.block.m), elements(n, plan.block.n), elements(k, plan.block.k));
        let mut request = if self.exact { Request::exact(m, n, k) } else { Request::random(m, n, k) };
        request.seed = self.seed;
        if plan.problem.batch == Batch::Strided {
            request = Request { gap: self.gap, ..request }.batch(self.batch);
        }
        if let Some(padding) = self.padding {
            request = request.padded(&plan.problem, padding);
        }
        if self.in_place {
            request.output = Output::in_place_if_possible(&plan.problem);
        }
        for (name, value) in plan.problem.epilogue.scalars.iter().zip(self.scalars) {
            request = value.into_iter().fold(request, |request, value| request.set(name, value));
        }
        request
    }
}

/// In `percent` of all draws; shrinks to nothing.
fn maybe<S: Strategy>(percent: u32, strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    prop::option::weighted(f64::from(percent) / 100.0, strategy)
}

/// One of these numbers. What is before another is simpler; a number that is there twice is drawn more often.
fn of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    select(all)
}

/// The `choice`th divisor of a number, starting over after the last: so that a choice needs no number.
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

/// The depth of the tile and the clauses about how it gets to the threads; none where nothing is staged.
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
    let prefetch = of(&[0, 1, 2, 4]).prop_map(|n| format!("prefetch({n})"));
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

const TYPES: [&str; 5] = [
    "f64",
    "i32",
    "a = f32, b = f32, acc = f64, d = f32",
    "a = f64, b = f32, acc = f64, d = f64",
    "a = f32, b = f32, acc = f64, c = f32, d = f64",
];

const INTEGER_EPILOGUES: [&str; 3] =
    ["|acc, c, alpha, beta| alpha * acc + beta * c", "|acc, bias| relu(acc - bias[n])", "|acc, c| max(acc, -c) + 3"];

const EPILOGUES: [&str; 11] = [
    "|acc| acc",
    "|acc, alpha| alpha * acc",
    "|acc, c| acc - c",
    "|acc, c, beta| beta * c - acc",
    "|acc, c, alpha, beta| alpha * acc + beta * c",
    "|acc, bias| relu(acc + bias[n])",
    "|acc, c, alpha, beta, bias| relu(alpha * acc + beta * c + bias[n])",
    "|acc, scale| clamp(acc * scale[m], -3.0, 5.5)",
    "|acc, c, s| max(acc, s * c) - min(abs(c), 2)",
    "|acc, c, alpha, beta| -alpha * acc - (beta * c) / 2.0",
    "|acc, c, s, t| s * acc + t * acc * s - c * s",
];

/// Types, layouts, the epilogue and how many products there are.
fn problem() -> impl Strategy<Value = Vec<Option<String>>> {
    let layout = || of(&["row", "col"]);
    let layouts = (layout(), layout(), layout(), layout())
        .prop_map(|(a, b, c, d)| format!("layout(a = {a}, b = {b}, c = {c}, d = {d})"));
    let batch = of(&["batch(strided)"]).prop_map(str::to_string);
    (maybe(42, of(&TYPES)), maybe(60, 0..EPILOGUES.len()), maybe(60, layouts), maybe(15, batch)).prop_map(
        |(types, epilogue, layouts, batch)| {
            let integer = types.is_some_and(|types| types.contains("i32"));
            let epilogue = epilogue.map(|i| match integer {
                true => INTEGER_EPILOGUES[i % INTEGER_EPILOGUES.len()],
                false => EPILOGUES[i],
            });
            let (types, epilogue) = (
                types.map(|types| format!("types({types})")),
                epilogue.map(|epilogue| format!("epilogue({epilogue})")),
            );
            vec![types, epilogue, layouts, batch]
        },
    )
}

/// Clauses that have nothing to do with each other.
fn others() -> impl Strategy<Value = Vec<Option<String>>> {
    let text = |all: &'static [&'static str]| of(all).prop_map(str::to_string);
    let vector =
        text(&["vector(1)", "vector(2)", "vector(4)", "vector(4)", "vector(4)", "vector(8)", "vector(4, d = 1)"]);
    let raster = (of(&[1, 2, 3, 8]), of(&["m", "n"]))
        .prop_map(|(group, along)| format!("raster(group = {group}, along = {along})"));
    let split = (of(&[2, 3, 5]), of(&["serial", "workspace"]))
        .prop_map(|(parts, reduce)| format!("split_k({parts}, reduce = {reduce})"));
    let targets =
        &["target(sm_75)", "target(sm_80)", "target(sm_89)", "target(sm_90)", "target(sm_90a)", "target(sm_120)"];
    vec![
        maybe(60, vector).boxed(),
        maybe(40, text(&["order(row)", "order(snake)", "order(column_snake)"])).boxed(),
        maybe(40, raster).boxed(),
        maybe(15, split).boxed(),
        maybe(15, text(&["persistent", "persistent(1)", "persistent(3)"])).boxed(),
        maybe(10, text(&["blocks_per_sm(1)", "blocks_per_sm(2)"])).boxed(),
        maybe(5, text(&["tail(none)"])).boxed(),
        maybe(20, text(targets)).boxed(),
    ]
}

/// Warps that only copy, for the schedules that can have them.
fn producers() -> impl Strategy<Value = Option<String>> {
    maybe(60, of(&["specialize(producers = 1 warp)", "specialize(producers = 2 warps)"]).prop_map(str::to_string))
}

/// A schedule that has a good chance to be legal, as text.
fn schedule() -> impl Strategy<Value = String> {
    (geometry(), staging(), producers(), problem(), others()).prop_map(
        |(([m, n], grid, threads), (depth, mut staging), producers, problem, others)| {
            let asynchronous = staging.iter().flatten().any(|clause| clause.contains("load(cp_async)"));
            if asynchronous && grid.is_multiple_of(32) {
                staging.push(producers);
            }
            let tile = depth.map_or(format!("tile({m}, {n})"), |depth| format!("tile({m}, {n}, {depth})"));
            let more = [staging, problem, others].into_iter().flatten().flatten();
            [tile].into_iter().chain(threads).chain(more).collect::<Vec<_>>().join("; ")
        },
    )
}

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        1 => (0..4usize).prop_map(Extent::Of),
        2 => (0..90usize).prop_map(Extent::Of),
        1 => (1..=2usize, 0..3usize).prop_map(|(tiles, more)| Extent::Tiles(tiles, more)),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let scalar = || maybe(60, of(&[0.0, 0.0, -1.0, 2.0]));
    let data = (prop::bool::ANY, any::<u64>(), maybe(50, of(&[1, 3, 4])), prop::bool::weighted(0.2));
    let extents = [extent(), extent(), extent()];
    (extents, data, 0..4usize, 0..6usize, scalar(), scalar()).prop_map(
        |(extents, (random, seed, padding, in_place), batch, gap, first, second)| Wish {
            extents,
            exact: !random,
            seed,
            batch,
            gap,
            padding,
            in_place,
            scalars: [first, second],
        },
    )
}

fn warp_order() -> impl Strategy<Value = WarpOrder> {
    let seeded = any::<u64>().prop_map(WarpOrder::Seeded);
    prop_oneof![2 => Just(WarpOrder::RunToBarrier), 1 => Just(WarpOrder::Forward), 1 => Just(WarpOrder::Backward), 1 => seeded]
}

fn draw() -> impl Strategy<Value = Draw> {
    let misalign = prop_oneof![4 => Just(0u32), 1 => Just(1u32)];
    (schedule(), warp_order(), misalign, prop::collection::vec(wish(), 1..=4))
        .prop_map(|(schedule, order, misalign, requests)| Draw { schedule, order, misalign, requests })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// Runs `test` on `draws` values, the same for the same seed. The error is about the smallest value that was found to fail.
fn for_all<S: Strategy>(
    strategy: &S,
    draws: u32,
    seed: u64,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) -> Result<(), String> {
    let config = Config { cases: draws, failure_persistence: None, max_shrink_iters: 10_000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(config, rng).run(strategy, test).map_err(|error| match error {
        TestError::Fail(reason, value) => format!("seed {seed}: {reason}\nthe smallest that fails: {value:?}"),
        TestError::Abort(reason) => format!("seed {seed}: {reason}"),
    })
}

/// What became of the draws.
#[derive(Default)]
struct Tally {
    products: Cell<usize>,
    accepted: RefCell<Vec<String>>,
    /// How often each rule refused a schedule.
    refused: RefCell<BTreeMap<String, usize>>,
}

fn execute(draw: &Draw, tally: &Tally) -> Result<(), TestCaseError> {
    let fail = |what: String| TestCaseError::fail(what);
    let schedule: Schedule = draw.schedule.parse().map_err(|e| fail(format!("it does not parse: {e}")))?;
    let plan = match schedule.plan(None) {
        Ok(plan) => plan,
        Err(refusal) => {
            let first = refusal.errors().next().ok_or_else(|| fail("it is refused without an error".into()))?;
            prop_assert!(refusal.iter().all(|d| !d.message.is_empty()), "{refusal:?} has no reason");
            *tally.refused.borrow_mut().entry(first.rule.to_string()).or_default() += 1;
            return Ok(());
        }
    };
    let options = Options { checks: Checks::Full, order: draw.order, ..Options::default() };
    let device = Device::interpreter_with(InterpreterOptions { options, misalign: draw.misalign });
    let gemm = CompiledGemm::new(&schedule, &device).map_err(|e| fail(e.to_string()))?;
    for wish in &draw.requests {
        let request = wish.request(&plan);
        let outcome = check(&gemm, &request).map_err(|e| fail(format!("{request:?}: {e}")))?;
        prop_assert!(outcome.is_right(), "{request:?}: {outcome:?}");
        tally.products.set(tally.products.get() + 1);
    }
    tally.accepted.borrow_mut().push(draw.schedule.clone());
    Ok(())
}

#[test]
fn random_schedules_are_right_at_random_sizes() {
    let draws = number("PTX_GEMM_DRAWS").map_or(DRAWS, |n| u32::try_from(n).unwrap());
    let seed = number("PTX_GEMM_SEED").unwrap_or(1);
    let tally = Tally::default();
    for_all(&draw(), draws, seed, |draw| execute(&draw, &tally)).unwrap_or_else(|failure| panic!("{failure}"));
    let (accepted, refused) = (tally.accepted.into_inner(), tally.refused.into_inner());
    let refusals: usize = refused.values().sum();
    println!("{draws} draws: {} products, {refusals} schedules refused {refused:?}", tally.products.get());
    assert_eq!(accepted.len() + refusals, draws as usize);
    assert!(refusals * 5 <= draws as usize, "{refusals} of {draws} refused: {refused:?}");
    let unseen: Vec<&str> =
        SEEN.into_iter().filter(|clause| !accepted.iter().any(|schedule| schedule.contains(clause))).collect();
    assert!(draws < DRAWS || unseen.is_empty(), "no accepted schedule has {unseen:?}");
}

/// A failure is reported as small as it gets, and the same every time.
#[test]
fn failures_shrink() {
    let refuse_snake = |draw: Draw| {
        prop_assert!(!draw.schedule.contains("order(snake)"));
        Ok(())
    };
    let found = || for_all(&draw(), DRAWS, 1, refuse_snake).unwrap_err();
    let first = found();
    assert!(first.contains(r#"schedule: "tile(1, 1, 1); thread(1, 1); order(snake)", order: RunToBarrier"#), "{first}");
    assert!(first.contains("extents: [Of(0), Of(0), Of(0)]"), "{first}");
    assert_eq!(first, found());
}
