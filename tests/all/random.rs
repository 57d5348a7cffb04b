//! Random legal schedules at random sizes, executed and compared. What is refused must be refused with a reason.

use ptx_gemm_check::{Request, check};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_interp::{Checks, Options};
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions};

/// splitmix64: small, seeded, the same everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A schedule that has a good chance to be legal, as text.
fn schedule(draw: &mut Draw) -> String {
    let mut clauses = Vec::new();
    let (thread_m, thread_n) = (draw.of(&[1, 1, 2, 3, 4, 4, 5, 8, 8]), draw.of(&[1, 1, 2, 3, 4, 4, 6, 8, 8]));
    let warp = draw.chance(25);
    let (lanes_m, lanes_n) = draw.of(&[(1u64, 32u64), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1)]);
    let (grid_m, grid_n) = if warp {
        (lanes_m * draw.of(&[1, 2, 3]), lanes_n * draw.of(&[1, 2]))
    } else {
        (draw.of(&[1, 2, 3, 4, 7, 8, 16]), draw.of(&[1, 2, 4, 5, 8, 16]))
    };
    let direct = draw.chance(20);
    let depth = draw.of(&[1u64, 2, 3, 4, 5, 8, 8, 8, 12, 16, 32]);
    let (tile_m, tile_n) = (grid_m * thread_m, grid_n * thread_n);
    if direct {
        clauses.push(format!("tile({tile_m}, {tile_n}); shared(none)"));
    } else {
        clauses.push(format!("tile({tile_m}, {tile_n}, {depth})"));
    }
    clauses.push(format!("thread({thread_m}, {thread_n})"));
    if warp {
        clauses.push(format!("warp({}, {})", lanes_m * thread_m, lanes_n * thread_n));
        if draw.chance(30) && (lanes_m, lanes_n) == (4, 8) {
            clauses.push("lanes(along = z)".into());
        }
    } else if draw.chance(30) {
        clauses.push("lanes(along = m)".into());
    }
    if draw.chance(40) {
        let divisor =
            |draw: &mut Draw, of: u64| draw.of(&(1..=of).filter(|d| of.is_multiple_of(*d)).collect::<Vec<_>>());
        let (m, n) = (divisor(draw, thread_m), divisor(draw, thread_n));
        clauses.push(format!("fragment({m}, {n})"));
    }
    if draw.chance(60) {
        clauses.push(format!("vector({})", draw.of(&[1, 2, 4, 4, 4, 8])));
    }
    let layout = |draw: &mut Draw| draw.of(&["row", "col"]);
    if draw.chance(60) {
        let [a, b, c, d] = [layout(draw), layout(draw), layout(draw), layout(draw)];
        clauses.push(format!("layout(a = {a}, b = {b}, c = {c}, d = {d})"));
    }
    let types = draw.of(&["f32"; 7].as_slice().iter().copied().chain(TYPES).collect::<Vec<_>>());
    if types != "f32" {
        clauses.push(format!("types({types})"));
    }
    if !direct {
        staging(draw, depth, &mut clauses);
    } else if draw.chance(40) {
        clauses.push(format!("unroll({})", draw.of(&[1, 2, 3, 4, 8])));
    }
    if draw.chance(60) {
        let integer = types.contains("i32");
        clauses.push(format!("epilogue({})", epilogue(draw, integer)));
    }
    if draw.chance(40) {
        clauses.push(format!("order({})", draw.of(&["row", "snake", "column_snake"])));
    }
    if draw.chance(40) {
        clauses.push(format!("raster(group = {}, along = {})", draw.of(&[1, 2, 3, 8]), draw.of(&["m", "n"])));
    }
    if draw.chance(15) {
        clauses.push(format!("split_k({}, reduce = {})", draw.of(&[2, 3, 5]), draw.of(&["serial", "workspace"])));
    }
    if draw.chance(15) {
        clauses.push(draw.of(&["persistent", "persistent(1)", "persistent(3)"]).into());
    }
    if draw.chance(15) {
        clauses.push("batch(strided)".into());
    }
    if draw.chance(20) {
        clauses.push(format!("target({})", draw.of(&["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_120"])));
    }
    clauses.join("; ")
}

fn staging(draw: &mut Draw, depth: u64, clauses: &mut Vec<String>) {
    if draw.chance(60) {
        let pad = |draw: &mut Draw| match draw.below(4) {
            0 => format!(" + pad({})", draw.of(&[1, 2, 4])),
            1 => format!(" + swizzle({})", draw.of(&[32, 64, 128])),
            _ => String::new(),
        };
        let (a, b) = (draw.of(&["mk", "km"]), draw.of(&["kn", "nk"]));
        let (pad_a, pad_b) = (pad(draw), pad(draw));
        clauses.push(format!("shared(a = {a}{pad_a}, b = {b}{pad_b})"));
    }
    match draw.below(6) {
        0 => clauses.push("double_buffer".into()),
        1 => clauses.push(format!("stages({})", draw.of(&[1, 2]))),
        2 | 3 => clauses.push(format!("load(cp_async); stages({})", draw.of(&[1, 2, 3, 4, 6]))),
        _ => {}
    }
    if draw.chance(25) {
        clauses.push("operands(shared)".into());
    }
    if draw.chance(20) {
        clauses.push("pace(free)".into());
    }
    if draw.chance(30) {
        let divisors: Vec<u64> = (1..=depth).filter(|d| depth.is_multiple_of(*d)).collect();
        clauses.push(format!("unroll({})", draw.of(&divisors)));
    }
    if draw.chance(25) {
        clauses.push(format!("prefetch({})", draw.of(&[0, 1, 2, 4])));
    }
}

const TYPES: [&str; 5] = [
    "f64",
    "i32",
    "a = f32, b = f32, acc = f64, d = f32",
    "a = f64, b = f32, acc = f64, d = f64",
    "a = f32, b = f32, acc = f64, c = f32, d = f64",
];

fn epilogue(draw: &mut Draw, integer: bool) -> &'static str {
    if integer {
        return draw.of(&[
            "|acc, c, alpha, beta| alpha * acc + beta * c",
            "|acc, bias| relu(acc - bias[n])",
            "|acc, c| max(acc, -c) + 3",
        ]);
    }
    draw.of(&[
        "|acc| acc",
        "|acc, c, alpha, beta| alpha * acc + beta * c",
        "|acc, alpha| alpha * acc",
        "|acc, c| acc - c",
        "|acc, c, beta| beta * c - acc",
        "|acc, bias| relu(acc + bias[n])",
        "|acc, c, alpha, beta, bias| relu(alpha * acc + beta * c + bias[n])",
        "|acc, scale| clamp(acc * scale[m], -3.0, 5.5)",
        "|acc, c, s| max(acc, s * c) - min(abs(c), 2)",
        "|acc, c, alpha, beta| -alpha * acc - (beta * c) / 2.0",
        "|acc, c, s, t| s * acc + t * acc * s - c * s",
    ])
}

/// Random draws from one seed; `PTX_GEMM_DRAWS` asks for more.
#[test]
fn random_schedules_are_right_at_random_sizes() {
    let draws: u64 = std::env::var("PTX_GEMM_DRAWS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let first: u64 = std::env::var("PTX_GEMM_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut refused = 0;
    for seed in first..first + draws {
        let draw = &mut Draw(seed);
        let text = schedule(draw);
        let schedule: Schedule = match text.parse() {
            Ok(schedule) => schedule,
            Err(e) => panic!("seed {seed}: `{text}` does not parse: {e}"),
        };
        let plan = match schedule.plan(None) {
            Ok(plan) => plan,
            Err(refusal) => {
                assert!(refusal.iter().all(|d| !d.message.is_empty()), "seed {seed}: `{text}`");
                refused += 1;
                continue;
            }
        };
        let options = Options { checks: Checks::Full, ..Options::default() };
        let misalign = u32::from(draw.chance(20));
        let device = Device::interpreter_with(InterpreterOptions { options, misalign });
        let gemm = CompiledGemm::new(&schedule, &device).unwrap_or_else(|e| panic!("seed {seed}: `{text}`: {e}"));
        for _ in 0..3 {
            let around = |draw: &mut Draw, tile: u32| match draw.below(4) {
                0 => draw.below(4) as usize,
                1 => (tile as u64 * (1 + draw.below(2)) + draw.below(3)).saturating_sub(1) as usize,
                _ => draw.below(90) as usize,
            };
            let (m, n, k) = (around(draw, plan.block.m), around(draw, plan.block.n), around(draw, plan.block.k));
            let mut request = if draw.chance(50) { Request::exact(m, n, k) } else { Request::random(m, n, k) };
            request.seed = draw.next();
            if plan.problem.batch == Batch::Strided {
                request = Request { gap: draw.below(6) as usize, ..request }.batch(draw.below(4) as usize);
            }
            if draw.chance(50) {
                request = request.padded(&plan.problem, draw.of(&[1, 3, 4]));
            }
            for name in &plan.problem.epilogue.scalars {
                if draw.chance(60) {
                    request = request.set(name, draw.of(&[0.0, 0.0, -1.0, 2.0]));
                }
            }
            let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("seed {seed}: `{text}`: {request:?}: {e}"));
            assert!(outcome.is_right(), "seed {seed}: `{text}`: {request:?}: {outcome:?}");
        }
    }
    println!("{draws} draws, {refused} refused");
    assert!(refused * 5 <= draws, "{refused} of {draws} refused");
}
