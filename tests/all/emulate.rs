//! f32 products from planes: faults specific to planes, and numbers at the ends of f32's range.

use std::collections::BTreeSet;

use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Request, check};
use ptx_gemm_dsl::clause::Emulation;
use ptx_gemm_dsl::promise::Line;
use ptx_gemm_dsl::words::Word;
use ptx_gemm_runtime::interp::{BlockOrder, Options, WarpOrder};
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions, Matrix};

/// Planes that TMA copies, planes that threads copy, and planes that are copied together; the elements of k between two
/// promotions; and the other arguments of `promote`.
const TILES: [(&str, u32, &str); 4] = [
    (BY_TMA, EVERY, ""),
    ("tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); load(cp_async); stages(3)", EVERY, ""),
    (BY_TMA, 32, ""),
    (BY_TMA, 32, ", compensated"),
];
const BY_TMA: &str = "tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(3); specialize(producers = 1 warp)";
const EVERY: u32 = 64;

fn gemms(mode: &str) -> [CompiledGemm; 4] {
    TILES.map(|(tile, every, rounding)| {
        let schedule = format!("emulate({mode}); promote(every = {every}{rounding}); {tile}").parse().unwrap();
        CompiledGemm::new(&schedule, &Device::interpreter()).unwrap()
    })
}

/// A mode's kernels of this run's part: one tile, another from mode to mode and from part to part, or all.
fn in_turn(mode: &'static str, turn: usize) -> impl Iterator<Item = CompiledGemm> {
    let part = Part::of_this_run();
    // Four tiles in ten parts.
    let tried = move |tile: usize| (0..3).any(|round| part.has((tile + turn) % TILES.len() + TILES.len() * round));
    gemms(mode).into_iter().enumerate().filter(move |(tile, _)| tried(*tile)).map(|(_, gemm)| gemm)
}

/// Every mode, and its planes.
fn all() -> impl Iterator<Item = (&'static str, usize, CompiledGemm)> {
    let modes = [("bf16x3", 2), ("bf16x6", 3), ("bf16x9", 4), ("f16x3", 2)];
    let all = modes.into_iter().enumerate();
    all.flat_map(|(turn, (mode, planes))| in_turn(mode, turn).map(move |gemm| (mode, planes, gemm)))
}

/// One tile of D, which the product does not fill, and several K-tiles, of which the last is not whole.
fn one_tile() -> Request {
    Request::exact(35, 30, 70)
}

/// Replaces text in the PTX lines with this comment ending; returns whether exact data show it.
fn shows(gemm: &CompiledGemm, comment: &str, edit: impl Fn(&str) -> String) -> bool {
    let of = |line: &str| line.trim_end().ends_with(comment);
    let lines = gemm.ptx().lines().filter(|line| of(line)).count();
    assert!(lines > 0, "no line ends with `{comment}`");
    let text: Vec<String> =
        gemm.ptx().lines().map(|line| if of(line) { edit(line) } else { line.to_string() }).collect();
    let edited = gemm.kernel().edited(&text.join("\n")).unwrap();
    let edited = CompiledGemm::from_kernel(edited, &Device::interpreter()).unwrap();
    check(&edited, &one_tile()).is_ok_and(|outcome| !outcome.is_right())
}

#[test]
fn a_wrong_plane_shows() {
    for (mode, planes, gemm) in all() {
        assert!(check(&gemm, &one_tile()).unwrap().is_right(), "{mode}");
        for operand in ["A", "B"] {
            // Planes that are copied together have one copy each.
            let together = !gemm.ptx().contains(&format!("plane of {operand}\n"));
            let comment = format!("{} {operand}", if together { "copy" } else { "plane of" });
            assert!(!shows(&gemm, &comment, str::to_string), "{mode}");
            for (plane, other) in (0..planes).flat_map(|plane| (0..planes).map(move |other| (plane, other))) {
                // As an immediate operand in the choice of a plane, or where the number of a plane is set.
                let edit = |line: &str| {
                    let (op, rest) = line.split_once("//@").unwrap();
                    let (word, end) = if together { ("mov.u32", ";") } else { ("selp", ", ") };
                    let from = if op.contains(word) { format!(" {plane}{end}") } else { "none".into() };
                    format!("{}//@{rest}", op.replacen(&from, &format!(" {other}{end}"), 1))
                };
                let changed = gemm.ptx().lines().any(|line| line.ends_with(&comment) && edit(line) != line);
                // The products of small planes are below the last bit of a sum, and the fourth is the third.
                let small = plane >= 2 && other >= 1;
                let shown = plane == other || !changed || small && mode == "bf16x9" || shows(&gemm, &comment, edit);
                assert!(shown, "{mode}: plane {other} of {operand} in place of {plane}");
            }
        }
    }
}

/// The largest element of a row or column is found wherever it is.
#[test]
fn the_largest_element_decides_on_the_scale() {
    // With this many rows and columns, each lane reads a peak.
    let peaks = Request::peaks(128, 128, 1012);
    let mut packings = BTreeSet::new();
    for gemm in in_turn("f16x3", 0) {
        for request in [peaks.clone().aligned(), peaks.clone().padded(gemm.problem(), 1)] {
            let outcome = check(&gemm, &request).unwrap();
            assert!(outcome.is_right(), "{outcome:?}");
        }
        // Skips each element in turn: it may be the largest of some row or column.
        let of = |line: &&str| line.ends_with("the largest magnitude") && line.contains("max.NaN.f32");
        let lines: Vec<&str> = gemm.ptx().lines().filter(of).collect();
        assert_eq!(lines.len(), 2 * 16, "an element for each of a thread's, of A and of B");
        let overlooked = lines.iter().step_by(7).map(|line| (line.to_string(), String::new()));
        // And skips each element of a thread.
        let thread = gemm.ptx().lines().filter(|line| line.contains("+64]") && line.ends_with(", as bits"));
        // Most schedules have the same kernels that pack.
        let of = |line: &&str| line.contains("the largest magnitude") || line.ends_with(", as bits");
        if !packings.insert(gemm.ptx().lines().filter(of).collect::<Vec<_>>().join("\n")) {
            continue;
        }
        let overlooked = overlooked.chain(thread.map(|line| (line.to_string(), line.replace("+64]", "+60]"))));
        for (from, to) in overlooked {
            // The same line in the other entry is of another kernel.
            let edited = gemm.kernel().edited(&gemm.ptx().replacen(&from, &to, 1)).unwrap();
            let edited = CompiledGemm::from_kernel(edited, &Device::interpreter()).unwrap();
            let outcome = check(&edited, &peaks.clone().aligned());
            assert!(outcome.is_ok_and(|outcome| !outcome.is_right()), "{to}");
        }
    }
}

/// The kernels that write planes: each plane of each operand left out, and exchanged with another.
#[test]
fn a_dropped_plane_shows() {
    for (mode, planes, gemm) in all() {
        for operand in ["a", "b"] {
            let stores = plane_stores(gemm.ptx(), operand);
            assert_eq!(stores.len() % planes, 0, "{mode}: {} stores of {operand}", stores.len());
            let edited = |edit: &dyn Fn(usize) -> Option<usize>| {
                let mut lines: Vec<String> = gemm.ptx().lines().map(str::to_string).collect();
                // The planes of one vector, then those of the next.
                for (index, (line, own)) in stores.iter().enumerate() {
                    let (vector, plane) = (index / planes, index % planes);
                    match edit(plane) {
                        Some(other) => {
                            let other = stores[vector * planes + other].1;
                            lines[*line] = lines[*line].replace(&format!("{own};"), &format!("{other};"));
                        }
                        None => lines[*line].clear(),
                    }
                }
                let edited = gemm.kernel().edited(&lines.join("\n")).unwrap();
                let edited = CompiledGemm::from_kernel(edited, &Device::interpreter()).unwrap();
                check(&edited, &one_tile()).is_ok_and(|outcome| outcome.is_right())
            };
            assert!(edited(&Some), "{mode}: nothing was changed");
            // The products of a fourth plane are below the last bit of a sum.
            let planes = planes.min(3);
            for dropped in 0..planes {
                let without = |plane: usize| (plane != dropped).then_some(plane);
                assert!(!edited(&without), "{mode}: plane {dropped} of {operand} is not written");
            }
            // Where all planes meet all others, the first two of an operand may change places.
            for first in if mode == "bf16x9" { 2 } else { 1 }..planes {
                let exchanged = |plane: usize| {
                    Some(if plane == first {
                        first - 1
                    } else if plane + 1 == first {
                        first
                    } else {
                        plane
                    })
                };
                assert!(!edited(&exchanged), "{mode}: planes {first} and {} of {operand} are exchanged", first - 1);
            }
        }
    }
}

/// Kernels that copy different operands may run at the same time. A kernel that reads scales waits for the one that determines
/// them, and the product waits for its copies.
#[test]
fn which_kernels_may_overlap() {
    let [gemm, ..] = gemms("f16x3");
    let entry = &gemm.interface().entries[0];
    let names: Vec<&str> = entry.launches.iter().map(|launch| launch.kernel.as_str()).collect();
    assert_eq!(names, ["scale_a", "split_a", "scale_b", "split_b", entry.name.as_str()]);
    let overlaps: Vec<bool> = (1..names.len()).map(|second| entry.may_overlap(second - 1, second)).collect();
    assert_eq!(overlaps, [false, true, false, false]);
}

/// The lines that store planes in the kernel that splits an operand, and the registers that they store.
fn plane_stores<'a>(ptx: &'a str, operand: &str) -> Vec<(usize, &'a str)> {
    let kernel = format!(".entry split_{operand}(");
    let from = ptx.lines().position(|line| line.contains(&kernel)).unwrap();
    let body = ptx.lines().enumerate().skip(from + 1).take_while(|(_, line)| !line.contains(".entry "));
    let stores = body.filter(|(_, line)| line.contains("st.global.v4.b16"));
    stores.map(|(index, line)| (index, line.split_once("], ").unwrap().1.split(';').next().unwrap())).collect()
}

#[test]
fn a_forgotten_scale_shows() {
    let [gemm, other, ..] = gemms("f16x3");
    let without = |op: &'static str| {
        move |line: &str| if line.trim_start().starts_with(op) { String::new() } else { line.to_string() }
    };
    // The product with the inverse of a scale, and the scale of the planes.
    for gemm in [&gemm, &other] {
        assert!(shows(gemm, "undo the scales of A and B", without("mul")));
    }
    // The kernels that write planes are the same.
    let unscaled = |line: &str| match line.trim_start().starts_with("mul.rn.f32") {
        false => line.to_string(),
        true => {
            let operands = line.trim().trim_start_matches("mul.rn.f32").split(';').next().unwrap();
            let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
            format!("mov.f32 {}, {};", operands[0], operands[1])
        }
    };
    assert!(shows(&gemm, "emulate(f16x3): scale the elements", unscaled));
    assert!(shows(&gemm, "a scale that makes it 2^14 or more, and its inverse", |line| line.replace("268", "267")));
}

#[test]
fn sums_that_are_not_promoted_show() {
    for (gemm, (.., rounding)) in gemms("bf16x6").iter().zip(TILES) {
        // The sum of both, or where it becomes the new one.
        let word = if rounding.is_empty() { "add" } else { "mov" };
        let without = |line: &str| if line.trim_start().starts_with(word) { String::new() } else { line.to_string() };
        assert!(shows(gemm, "add one set of accumulators to the other", without), "{rounding}");
    }
}

/// Every mode.
const MODES: [Emulation; 4] = [Emulation::Bf16x3, Emulation::Bf16x6, Emulation::Bf16x9, Emulation::F16x3];

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
    for (mode, tile) in MODES.into_iter().flat_map(|mode| (0..TILES.len()).map(move |tile| (mode, tile))) {
        let (promise, mode) = (mode.promise(), mode.word());
        let d = gemms(mode)[tile].multiply(&a, &b).unwrap();
        let mut compared = [0; 2];
        for (row, col) in (0..KINDS).flat_map(|row| (0..KINDS).map(move |col| (row, col))) {
            let terms = |k: usize| (f64::from(a.get(row, k).unwrap()), f64::from(b.get(k, col).unwrap()));
            let mut line = Line { terms: DEPTH, ..Line::default() };
            let (mut sum, mut single) = (0.0f64, 0.0f32);
            for (x, y) in (0..DEPTH).map(terms) {
                sum += x * y;
                line.magnitude += (x * y).abs();
                single = (x as f32).mul_add(y as f32, single);
                let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
                line.largest = [line.largest[0].max(finite(x)), line.largest[1].max(finite(y))];
                line.sums = [line.sums[0] + x.abs(), line.sums[1] + y.abs()];
            }
            let got = d.get(row, col).unwrap();
            let what = || format!("{mode}: row {row} by column {col} is {got:e}, not {sum:e}, nor {single:e}");
            if !single.is_finite() {
                // Like fused multiply-adds. A sum of finite products that overflows is not finite here either; one with
                // only an intermediate overflow may or may not be finite.
                let same = got.is_nan() == single.is_nan() && (got.is_nan() || got == single);
                let most = f64::from(f32::MAX) + promise.bound(&line, TILES[tile].1);
                let overflows = sum.is_finite() && (!got.is_finite() || sum.abs() < most);
                assert!(same || overflows, "{}", what());
                compared[1] += 1;
                continue;
            }
            let bound = promise.bound(&line, TILES[tile].1);
            let near = (f64::from(got) - sum).abs() <= bound;
            assert!(near || sum.abs() + bound > f64::from(f32::MAX), "{}", what());
            compared[0] += 1;
        }
        assert!(compared.iter().all(|count| *count > 30), "{mode}: {compared:?}");
    }
}

/// Sums of chunks that are too small to change the sum so far are lost one by one, unless their rounding errors are kept.
#[test]
fn compensated_sums_keep_what_rounding_loses() {
    const K: usize = 4096;
    let small = 2f32.powi(-31);
    let a = Matrix::from_fn(1, K, |_, k| if k == 0 { 1.0 } else { small });
    let b = Matrix::from_fn(K, 1, |_, _| 1.0f32);
    let exact = 1.0 + (K - 1) as f64 * f64::from(small);
    for mode in MODES.map(Word::word) {
        let [.., plain, compensated] = gemms(mode);
        let sum = |gemm: &CompiledGemm| gemm.multiply(&a, &b).unwrap().get(0, 0).unwrap();
        assert_eq!(sum(&plain), 1.0, "{mode}");
        let error = f64::from(sum(&compensated)) - exact;
        assert!(error.abs() <= 2f64.powi(-24), "{mode}: {error:e}");
    }
}

/// The partial sums are added in a fixed order, whichever blocks and warps come first: with random data another order gives
/// other bits.
#[test]
fn sums_have_the_same_bits_in_each_run() {
    // Four tiles of D, and ten K-tiles to divide.
    let (a, b) = (Matrix::<f32>::random(70, 300, 3), Matrix::<f32>::random(300, 80, 4));
    let orders = [
        (WarpOrder::Forward, BlockOrder::Forward),
        (WarpOrder::Backward, BlockOrder::Backward),
        (WarpOrder::Seeded(3), BlockOrder::Seeded(4)),
    ];
    for parts in ["", "split_k(3, reduce = serial);", "split_k(3, reduce = workspace);", "stream_k;"] {
        for mode in ["bf16x6", "f16x3"] {
            let schedule = format!("emulate({mode}); promote(every = 64); {BY_TMA}; {parts}").parse().unwrap();
            let product = |(order, blocks)| {
                let options = Options { order, blocks, ..Options::default() };
                let options = InterpreterOptions { options, ..InterpreterOptions::default() };
                let gemm = CompiledGemm::new(&schedule, &Device::interpreter_with(options)).unwrap();
                gemm.multiply(&a, &b).unwrap()
            };
            let all = orders.map(product);
            assert!(all.iter().all(|d| *d == all[0]), "{mode} {parts}");
        }
    }
}

/// Only what a plane cannot express is lost: the scales of f16 are exact, and the planes of bf16 need none.
#[test]
fn powers_of_two_pass_through_rows_and_columns() {
    const EXTENT: usize = 20;
    let (a, b) = (Matrix::<f32>::random(EXTENT, DEPTH, 3), Matrix::<f32>::random(DEPTH, EXTENT, 4));
    // From 2^-50 to 2^45, in different orders for rows and columns.
    let row_scale = |row: usize| 2f32.powi((5 * row) as i32 - 50);
    let col_scale = |col: usize| 2f32.powi(45 - (5 * (7 * col % EXTENT)) as i32);
    let scaled_a = Matrix::from_fn(EXTENT, DEPTH, |row, k| a.get(row, k).unwrap() * row_scale(row));
    let scaled_b = Matrix::from_fn(DEPTH, EXTENT, |k, col| b.get(k, col).unwrap() * col_scale(col));
    for mode in MODES.map(Word::word) {
        let [gemm, ..] = gemms(mode);
        let (plain, scaled) = (gemm.multiply(&a, &b).unwrap(), gemm.multiply(&scaled_a, &scaled_b).unwrap());
        for (row, col) in (0..EXTENT).flat_map(|row| (0..EXTENT).map(move |col| (row, col))) {
            let (plain, scaled) = (plain.get(row, col).unwrap(), scaled.get(row, col).unwrap());
            assert_eq!(scaled, plain * row_scale(row) * col_scale(col), "{mode}: row {row} by column {col}");
        }
    }
}

/// An element times 2^100 in a product of its own.
fn passed(mode: &str, x: f32) -> f32 {
    let (a, b) = (Matrix::from_fn(1, 1, |_, _| x), Matrix::from_fn(1, 1, |_, _| 2f32.powi(100)));
    gemms(mode)[0].multiply(&a, &b).unwrap().get(0, 0).unwrap()
}

/// bf16 ends at 2^-133, and so do the planes: only a remainder below half of that is lost. Rows of f16 are scaled.
#[test]
fn what_remains_below_the_smallest_number_of_bf16_is_lost() {
    // Three planes of bf16 have all bits of this, two of either type have not.
    let all_bits = 1.0 + 2f32.powi(-9) + 2f32.powi(-12) + 2f32.powi(-23);
    let sixteen_bits = 1.0 + 2f32.powi(-15);
    for (x, in_two, in_three, in_f16) in [
        // The last bit is 2^-133, or below.
        (2f32.powi(-110) * all_bits, false, true, false),
        (2f32.powi(-112) * all_bits, false, false, false),
        (2f32.powi(-118) * sixteen_bits, true, true, true),
        (2f32.powi(-120) * sixteen_bits, false, false, true),
        // The smallest number of bf16, half of it, which is rounded to even, and the smallest number of f32.
        (2f32.powi(-133), true, true, true),
        (2f32.powi(-134), false, false, true),
        (f32::from_bits(1), false, false, true),
    ] {
        for mode in MODES {
            let kept = match mode {
                Emulation::F16x3 => in_f16,
                Emulation::Bf16x3 => in_two,
                Emulation::Bf16x6 | Emulation::Bf16x9 => in_three,
            };
            let (got, exact) = (passed(mode.word(), x), x * 2f32.powi(100));
            let what = || format!("{}: {x:e} times 2^100 is {got:e}", mode.word());
            assert_eq!(got == exact, kept, "{}", what());
            let factors = [f64::from(x), 2f64.powi(100)];
            let line = Line { terms: 1, magnitude: factors[0] * factors[1], largest: factors, sums: factors };
            assert!(f64::from(got - exact).abs() <= mode.promise().bound(&line, EVERY), "{}", what());
        }
    }
}
