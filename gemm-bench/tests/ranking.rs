//! The ranking of estimates against all measured times.

use ptx_gemm_bench::calibrate::{halves, read};
use ptx_gemm_bench::report;
use ptx_gemm_bench::sweep::Gpu;
use ptx_gemm_bench::sweep::ranking::Ranking;
use ptx_gemm_choose::{Quality, quality};
use ptx_gemm_dsl::clause::Atom;

fn ranking(suite: &str) -> Ranking {
    let path = format!("{}/../bench/results/h200/{suite}.json", env!("CARGO_MANIFEST_DIR"));
    let results = serde_json::from_str(&std::fs::read_to_string(path).expect("results")).expect("JSON");
    let (rows, _) = report::read(&results).expect("a file of results");
    Ranking::of(&rows, "", Gpu::h200())
}

/// The products that no figure was fitted to.
#[test]
fn what_is_picked_is_fast() {
    let rows = read(include_str!("../../bench/results/rows.json"), Gpu::h200()).expect("rows");
    let (_, kept_back) = halves(rows);
    for (name, mean, of_first) in
        [("wgmma", 0.05, 0.01), ("planes", 0.08, 0.02), ("fma", 0.08, 0.02), ("all", 0.08, 0.02)]
    {
        let of_kind = kept_back.iter().filter(|row| match name {
            "wgmma" => matches!(row.plan.atom, Atom::Wgmma(..)) && row.plan.emulate.is_none(),
            "planes" => row.plan.emulate.is_some(),
            "fma" => row.plan.atom == Atom::Fma,
            _ => true,
        });
        let of_kind: Vec<_> = of_kind.cloned().collect();
        let found = quality(Gpu::h200(), &of_kind);
        let Quality { products, regret, regret_of_first, .. } = found;
        assert!(products > 10 && regret < mean && regret_of_first < of_first, "{name}: {found:?}");
        // The test can fail: with the order turned round, the pick is slow.
        let backwards = Gpu { tensor_latency: -1e9, clock_ghz: -1.0, tensor_clock_ghz: -1.0, ..Gpu::h200().clone() };
        assert!(quality(&backwards, &of_kind).regret > mean, "{name}");
    }
}

#[test]
fn estimates_rank_the_schedules_of_each_suite() {
    let ladder = ranking("ladder");
    assert!(ladder.correlation().is_some_and(|figure| figure > 0.97), "{:?}", ladder.correlation());
    for suite in ["square", "odd", "skinny", "deep", "small", "batched", "square_f64", "square_bf16", "mid_bf16"] {
        let ranking = ranking(suite);
        let (all, within) = (ranking.correlation(), ranking.within_products());
        assert!(
            all.is_some_and(|figure| figure > 0.9) && within.is_some_and(|figure| figure > 0.6),
            "{suite}: {all:?} {within:?}"
        );
    }
}
