//! Random legal schedules at random sizes, executed and compared. A schedule may only be rejected with a reason.
//!
//! A failure shrinks towards few clauses, small tiles and small matrices. Draws are reproducible: `PTX_GEMM_SEED`
//! selects another sequence than that of this run's part, and `PTX_GEMM_DRAWS` its length.

use std::cell::RefCell;

use ptx_gemm_check::draws::{self, Fate, Tally};
use ptx_gemm_check::part::Part;

/// Draws of a run of everything, from the seed 1, and of another run, from a seed of its part.
const DRAWS: u32 = 300;
const FEWER_DRAWS: u32 = 100;

/// Properties that some accepted schedule must have after that many draws: a generator that no longer produces one of
/// them tests less than it claims.
///
/// `A and B` is both in one schedule.
const SEEN: [&str; 43] = [
    "acc = f16",
    "strassen(",
    "emulate(bf16x",
    "emulate(f16x3)",
    "cluster(",
    "multicast(",
    "consumers = 1",
    "pingpong",
    "atom(mma(16, 8, 8))",
    "shared(none)",
    "warp(",
    "lanes(along = m)",
    "lanes(along = z)",
    "fragment(",
    "vector(",
    "layout(",
    "types(f64)",
    "types(i32)",
    "types(bf16)",
    "types(f16)",
    "a = bf16",
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
    "stream_k",
    "store(staged)",
    "store(tma)",
    "batch(strided)",
    "batch(grouped)",
    "tail(none)",
    "target(",
    "transposed",
];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

#[test]
fn random_schedules_are_right_at_random_sizes() {
    let (draws, seed) = match Part::of_this_run() {
        Part::All => (DRAWS, 1),
        Part::Tenth(number) => (FEWER_DRAWS, number as u64 + 1),
    };
    let draws = number("PTX_GEMM_DRAWS").map_or(draws, |n| u32::try_from(n).unwrap());
    let seed = number("PTX_GEMM_SEED").unwrap_or(seed);
    let (tally, accepted) = (RefCell::new(Tally::default()), RefCell::new(Vec::new()));
    let run = |draw: &draws::Draw| {
        let fate = draws::execute(draw, draws::Runs::AsDrawn)?;
        tally.borrow_mut().add(&fate);
        if matches!(fate, Fate::Ran(_)) {
            accepted.borrow_mut().push(draw.schedule.clone());
        }
        Ok(())
    };
    draws::for_all(draws, seed, run).unwrap_or_else(|failure| panic!("{failure}"));
    let (tally, accepted) = (tally.into_inner(), accepted.into_inner());
    let refusals = tally.refusals();
    let Tally { pairs, empty, uncompared, refused, .. } = &tally;
    println!(
        "seed {seed}, {draws} draws: {pairs} products, {empty} empty ones, {uncompared} not compared, {refusals} refused {refused:?}"
    );
    assert!(*pairs > 10 * uncompared, "{pairs} products were compared, {uncompared} not");
    assert_eq!(accepted.len() + refusals, draws as usize);
    assert!(refusals * 5 <= draws as usize, "{refusals} of {draws} refused: {:?}", tally.refused);
    let has = |schedule: &String, property: &str| property.split(" and ").all(|part| schedule.contains(part));
    let unseen: Vec<&str> =
        SEEN.into_iter().filter(|property| !accepted.iter().any(|schedule| has(schedule, property))).collect();
    assert!(draws < DRAWS || unseen.is_empty(), "no accepted schedule has {unseen:?}");
}

/// A failure is reported in its smallest form, and the same way every time.
#[test]
fn failures_shrink() {
    let refuse_snake = |draw: &draws::Draw| match draw.schedule.contains("order(snake)") {
        true => Err("snakes are refused".to_string()),
        false => Ok(()),
    };
    let found = || draws::for_all(DRAWS, 1, refuse_snake).unwrap_err();
    let first = found();
    assert!(first.contains(r#"schedule: "tile(1, 1, 1); thread(1, 1); order(snake)", warps: RunToBarrier, blocks: Forward, landing: Latest"#), "{first}");
    assert!(first.contains("extents: [Of(0), Of(0), Of(0)]"), "{first}");
    assert_eq!(first, found());
}
