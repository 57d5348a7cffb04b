//! `strassen` over every kind of kernel: exact on integers, and within the bound of the language reference.

use ptx_gemm_check::{Request, check};
use ptx_gemm_dsl::promise::Quadrants;
use ptx_gemm_runtime::{CompiledGemm, Device, Matrix};

/// Schedules, and the extents at which each has quadrants for two levels, with remainders.
const SCHEDULES: [(&str, [usize; 3]); 17] = [
    ("tile(16, 16, 8); thread(2, 2); vector(4)", [45, 38, 51]),
    ("tile(16, 16); thread(2, 2); shared(none)", [37, 32, 19]),
    ("tile(16, 16, 8); thread(2, 2); layout(a = col, b = col, c = row, d = col); vector(4)", [41, 38, 35]),
    ("tile(16, 16, 8); thread(2, 2); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)", [41, 38, 35]),
    ("tile(16, 16, 8); thread(2, 2); epilogue(|acc, bias, scale| relu(acc * scale[m] + bias[n]))", [41, 38, 35]),
    ("tile(16, 16, 8); thread(2, 2); epilogue(|acc, c| acc * c + 1); types(f32, c = f16, d = bf16)", [41, 38, 35]),
    ("tile(16, 16, 8); thread(2, 2); split_k(3, reduce = workspace)", [41, 38, 35]),
    ("tile(16, 16, 8); thread(2, 2); persistent(3); stream_k", [41, 38, 35]),
    ("tile(16, 16, 8); thread(2, 2); batch(strided); types(f64)", [21, 18, 23]),
    ("tile(16, 16, 8); thread(2, 2); types(i32); transposed", [41, 38, 35]),
    ("tile(8, 8, 4); thread(2, 2); tail(none)", [40, 32, 36]),
    ("tile(32, 32, 8); thread(4, 4); vector(4); load(tma); pack(a, b); stages(2); store(tma)", [45, 38, 35]),
    ("types(bf16); tile(32, 32, 16); warp(32, 32); atom(mma(16, 8, 16)); store(staged)", [77, 70, 67]),
    ("types(f16); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(2); store(tma)", [77, 70, 67]),
    (
        "types(a = bf16, b = bf16, d = f32); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(2); \
         epilogue(|acc, c| acc + c)",
        [77, 70, 67],
    ),
    ("emulate(bf16x6); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(2)", [45, 38, 35]),
    ("emulate(f16x3); tile(32, 32, 32); warp(32, 32); atom(mma(16, 8, 16)); load(tma); stages(2)", [45, 38, 35]),
];

#[test]
fn any_kernel() {
    for (schedule, [m, n, k]) in SCHEDULES {
        for levels in [1, 2] {
            let text = format!("{schedule}; strassen(levels = {levels})");
            let gemm = CompiledGemm::new(&text.parse().unwrap(), &Device::interpreter()).unwrap();
            let batch = if schedule.contains("batch") { 2 } else { 1 };
            for request in [Request::exact(m, n, k), Request::random(m, n, k).aligned()] {
                let request = if schedule.contains("beta") { request.set("beta", -2.0) } else { request };
                let outcome = check(&gemm, &Request { batch, ..request.clone() });
                assert!(outcome.as_ref().is_ok_and(|outcome| outcome.is_right()), "{text}: {request:?}: {outcome:?}");
            }
        }
    }
}

/// A single kernel does not compute D: its text and its description say so, and where to find the launches and their workspace.
#[test]
fn a_reader_of_the_module_is_told_of_the_plan() {
    let text = |clauses: &str| {
        let gemm: ptx_gemm::Gemm = format!("tile(16, 16, 4); thread(2, 2); {clauses}").parse().unwrap();
        (gemm.ptx(None).unwrap(), gemm.abi(None).unwrap().to_string())
    };
    let (ptx, abi) = text("strassen(levels = 2)");
    let header: Vec<&str> = ptx.lines().take_while(|line| line.starts_with("//")).collect();
    assert!(header.iter().any(|line| line.starts_with("// strassen(levels = 2): one launch of several")), "{ptx}");
    assert!(header.iter().any(|line| line.contains("`gemmc plan` states the launches and the workspace")), "{ptx}");
    assert!(abi.contains("\nplan     strassen(levels = 2): one launch of several"), "{abi}");
    assert!(abi.contains("Kernel::workspace_on"), "{abi}");
    let (ptx, abi) = text("");
    assert!(!ptx.contains("strassen") && !abi.contains("plan"), "{ptx}{abi}");
}

#[test]
fn every_extent_from_none_on() {
    let gemm = "tile(16, 16, 4); thread(2, 2); vector(4); strassen(levels = 1)".parse().unwrap();
    let gemm = CompiledGemm::new(&gemm, &Device::interpreter()).unwrap();
    let extents = [0, 1, 7, 8, 13, 16, 17, 31];
    for (index, m) in extents.iter().enumerate() {
        for (n, k) in extents.iter().flat_map(|n| extents.iter().map(move |k| (n, k))).skip(index % 3).step_by(3) {
            let outcome = check(&gemm, &Request::exact(*m, *n, *k)).unwrap();
            assert!(outcome.is_right(), "{m} x {n} x {k}: {outcome:?}");
        }
    }
}

/// A scalar of 0 drops the product, whatever A and B hold, and C, which is not read.
#[test]
fn what_a_scalar_drops_is_not_read() {
    let schedule = "tile(16, 16, 4); thread(2, 2); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c); \
                    strassen(levels = 2)";
    let gemm = CompiledGemm::new(&schedule.parse().unwrap(), &Device::interpreter()).unwrap();
    let scaled = "tile(16, 16, 4); thread(2, 2); epilogue(|acc, alpha| max(alpha * acc, 0)); strassen(levels = 1)";
    let scaled = CompiledGemm::new(&scaled.parse().unwrap(), &Device::interpreter()).unwrap();
    assert!(check(&scaled, &Request::special(20, 18, 17).set("alpha", 0.0)).unwrap().is_right());
    for (alpha, beta) in [(0.0, 2.0), (2.0, 0.0), (0.0, 0.0)] {
        let request = Request::special(37, 38, 39).set("alpha", alpha).set("beta", beta);
        assert!(check(&gemm, &request).unwrap().is_right(), "alpha = {alpha}, beta = {beta}");
    }
}

/// The largest error on random data: within the bound, and larger than that of the schedule without the clause.
#[test]
fn errors_are_within_the_bound() {
    let (size, depth) = (32, 1024);
    let (a, b) = (Matrix::<f32>::random(size, depth, 1), Matrix::<f32>::random(depth, size, 2));
    let mut exact = vec![0.0; size * size];
    for (index, sum) in exact.iter_mut().enumerate() {
        let of = |i: usize| {
            f64::from(a.as_slice()[index / size * depth + i]) * f64::from(b.as_slice()[i * size + index % size])
        };
        *sum = (0..depth).map(of).sum();
    }
    let u = 2f64.powi(-24);
    let mut before = 0.0;
    for levels in 0..=2u32 {
        let clause = if levels == 0 { String::new() } else { format!("; strassen(levels = {levels})") };
        let schedule = format!("tile(16, 16, 8); thread(2, 2){clause}").parse().unwrap();
        let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
        let d = gemm.multiply(&a, &b).unwrap();
        let errors = d.as_slice().iter().zip(&exact).map(|(d, exact)| (f64::from(*d) - exact).abs());
        let error = errors.fold(0.0, f64::max);
        let of = Quadrants { levels, operands: [u, u], sums: u };
        let bound = of.bound(depth, [1.0, 1.0], &|depth, [a, b]| (depth as f64).powi(2) * u * a * b);
        assert!(error > before && error < bound, "{levels} levels: {error:e}, bound {bound:e}, before {before:e}");
        before = error;
    }
}
