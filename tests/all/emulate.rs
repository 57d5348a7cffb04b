//! f32 products from planes: faults that only planes can have, and numbers at the ends of f32's range.
//!
//! The error that a mode promises is stated here as the language reference states it, and not taken from the code that checks
//! kernels.

use ptx_gemm_check::{Request, check};
use ptx_gemm_runtime::{CompiledGemm, Device, Matrix};

const TILE: &str = "tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(3); specialize(producers = 1 warp)";

fn gemm(mode: &str) -> CompiledGemm {
    let schedule = format!("emulate({mode}); promote(every = 64); {TILE}").parse().unwrap();
    CompiledGemm::new(&schedule, &Device::interpreter()).unwrap()
}

/// Replaces text in the lines of the PTX whose comment ends like this; returns whether exact data show it.
fn shows(gemm: &CompiledGemm, comment: &str, edit: impl Fn(&str) -> String) -> bool {
    let of = |line: &str| line.trim_end().ends_with(comment);
    let lines = gemm.ptx().lines().filter(|line| of(line)).count();
    assert!(lines > 0, "no line ends with `{comment}`");
    let text: Vec<String> =
        gemm.ptx().lines().map(|line| if of(line) { edit(line) } else { line.to_string() }).collect();
    let edited = gemm.kernel().edited(&text.join("\n")).unwrap();
    let edited = CompiledGemm::from_kernel(edited, &Device::interpreter()).unwrap();
    check(&edited, &Request::exact(70, 66, 130)).is_ok_and(|outcome| !outcome.is_right())
}

#[test]
fn a_wrong_plane_shows() {
    for (mode, planes) in [("bf16x3", 2), ("bf16x6", 3), ("f16x3", 2)] {
        let gemm = gemm(mode);
        assert!(check(&gemm, &Request::exact(70, 66, 130)).unwrap().is_right(), "{mode}");
        for operand in ["A", "B"] {
            let comment = format!("plane of {operand}");
            assert!(!shows(&gemm, &comment, str::to_string), "{mode}");
            for (plane, other) in (0..planes).flat_map(|plane| (0..planes).map(move |other| (plane, other))) {
                // As an immediate operand in the choice of a plane.
                let edit = |line: &str| {
                    let (op, rest) = line.split_once("//@").unwrap();
                    let from = if op.contains("selp") { format!(" {plane}, ") } else { "none".into() };
                    format!("{}//@{rest}", op.replacen(&from, &format!(" {other}, "), 1))
                };
                let changed = gemm.ptx().lines().any(|line| line.ends_with(&comment) && edit(line) != line);
                let shown = plane == other || !changed || shows(&gemm, &comment, edit);
                assert!(shown, "{mode}: plane {other} of {operand} in place of {plane}");
            }
        }
    }
}

#[test]
fn a_forgotten_scale_shows() {
    let gemm = gemm("f16x3");
    let without = |op: &'static str| {
        move |line: &str| if line.trim_start().starts_with(op) { String::new() } else { line.to_string() }
    };
    // The product with the inverse of a scale; and the scale that planes are written with.
    assert!(shows(&gemm, "undo the scales of A and B", without("mul")));
    let unscaled = |line: &str| match line.trim_start().starts_with("mul.rn.f32") {
        false => line.to_string(),
        true => {
            let operands = line.trim().trim_start_matches("mul.rn.f32").split(';').next().unwrap();
            let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
            format!("mov.f32 {}, {};", operands[0], operands[1])
        }
    };
    assert!(shows(&gemm, "emulate(f16x3): scales", unscaled));
    assert!(shows(&gemm, "a scale that makes it 2^14 or more, and its inverse", |line| line.replace("268", "267")));
}

#[test]
fn sums_that_are_not_promoted_show() {
    let gemm = gemm("bf16x6");
    let without = |line: &str| if line.trim_start().starts_with("add") { String::new() } else { line.to_string() };
    assert!(shows(&gemm, "add one set of accumulators to the other", without));
}

/// What a mode promises of `|D - A B|`: relative to `|A| |B|`, besides the sums; and in absolute terms what is lost of each
/// element, as a share of the largest one of its row or column, and at least.
struct Promise {
    mode: &'static str,
    relative: f64,
    of_largest: f64,
    least: f64,
}

const PROMISES: [Promise; 3] = [
    Promise { mode: "bf16x3", relative: 3.1 * P16, of_largest: 0.0, least: 1.0 / P134 },
    Promise { mode: "bf16x6", relative: 2.1 * P24, of_largest: 0.0, least: 1.0 / P134 },
    Promise { mode: "f16x3", relative: 3.1 * P22, of_largest: P39, least: 1.0 / P134 },
];

const P16: f64 = 1.0 / (1u64 << 16) as f64;
const P22: f64 = 1.0 / (1u64 << 22) as f64;
const P24: f64 = 1.0 / (1u64 << 24) as f64;
const P39: f64 = 1.0 / (1u64 << 39) as f64;
const P134: f64 = (1u128 << 127) as f64 * 128.0;

/// Kinds of rows of A, and of columns of B.
const KINDS: usize = 12;
const DEPTH: usize = 70;

/// Element `k` of a row of a kind: the scale of the row, and the range of magnitudes in it, differ.
fn element(kind: usize, k: usize, seed: usize) -> f32 {
    let mixed = ((k + 1) * 2_654_435_761 + seed * 40_503 + kind * 97) & 0xffff_ffff;
    let unit = 1.0 + (mixed >> 9) as f32 / (1 << 23) as f32;
    let signed = if mixed & 1 == 0 { unit } else { -unit };
    let spread = |exponents: i32| 2f32.powi((mixed >> 3) as i32 % (2 * exponents + 1) - exponents);
    match kind {
        0 => signed,
        1 => signed * spread(20),
        2 => signed * spread(60),
        3 => signed * 2f32.powi(100),
        4 => signed * 2f32.powi(-100),
        // Subnormal numbers.
        5 => f32::from_bits(mixed as u32 & 0x807f_ffff),
        6 => 0.0,
        7 => -0.0,
        // Those that round to infinity in bf16, among zeros.
        8 if k.is_multiple_of(35) => {
            if mixed & 1 == 0 {
                f32::MAX
            } else {
                -3.4e38
            }
        }
        8 => 0.0,
        9 if k == 3 => f32::INFINITY,
        10 if k == 5 => f32::NAN,
        11 if k % 40 == 7 => f32::NEG_INFINITY,
        _ => unit,
    }
}

#[test]
fn every_mode_keeps_its_promise_on_the_whole_range() {
    let a = Matrix::from_fn(KINDS, DEPTH, |row, k| element(row, k, 1));
    let b = Matrix::from_fn(DEPTH, KINDS, |k, col| element(col, k, 2));
    for Promise { mode, relative, of_largest, least } in PROMISES {
        let d = gemm(mode).multiply(&a, &b).unwrap();
        let mut compared = [0; 2];
        for (row, col) in (0..KINDS).flat_map(|row| (0..KINDS).map(move |col| (row, col))) {
            let terms = |k: usize| (f64::from(a.get(row, k).unwrap()), f64::from(b.get(k, col).unwrap()));
            let (mut sum, mut magnitude, mut single) = (0.0f64, 0.0f64, 0.0f32);
            let (mut largest, mut all) = ([0.0f64; 2], [0.0f64; 2]);
            for (x, y) in (0..DEPTH).map(terms) {
                sum += x * y;
                magnitude += (x * y).abs();
                single = (x as f32).mul_add(y as f32, single);
                let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
                largest = [largest[0].max(finite(x)), largest[1].max(finite(y))];
                all = [all[0] + x.abs(), all[1] + y.abs()];
            }
            let got = d.get(row, col).unwrap();
            let what = || format!("{mode}: row {row} by column {col} is {got:e}, not {sum:e}, nor {single:e}");
            if !single.is_finite() {
                // As fused multiply-adds give it; a sum of large numbers of both signs may overflow on the way, or not. An
                // element without a first plane is a zero to infinity.
                let same = got.is_nan() == single.is_nan() && (got.is_nan() || got == single);
                let vanishes = |x: f64, side: usize| x != 0.0 && x.abs() < of_largest * largest[side] + least;
                let vanished = (0..DEPTH)
                    .map(terms)
                    .any(|(x, y)| x.is_infinite() && vanishes(y, 1) || y.is_infinite() && vanishes(x, 0));
                assert!(same || sum.is_finite() || vanished && got.is_nan(), "{}", what());
                compared[1] += 1;
                continue;
            }
            // Two sums of 64 of k, in f32.
            let sums = (2.0 * 64.0 + 8.0) * P24;
            let off = |side: usize| of_largest * largest[side] + least;
            let lost = off(0) * all[1] + off(1) * all[0] + DEPTH as f64 * f64::from(f32::from_bits(1));
            let bound = (relative + sums) * magnitude + 2.0 * lost;
            let near = (f64::from(got) - sum).abs() <= bound;
            assert!(near || sum.abs() + bound > f64::from(f32::MAX), "{}", what());
            compared[0] += 1;
        }
        assert!(compared.iter().all(|count| *count > 30), "{mode}: {compared:?}");
    }
}
