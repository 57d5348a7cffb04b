//! The cost model's ranking against measured times: the figures in its documentation are those of the results.

use ptx_gemm_bench::report;
use ptx_gemm_bench::sweep::Gpu;
use ptx_gemm_bench::sweep::ranking::Ranking;

fn ranking(suite: &str) -> Ranking {
    let path = format!("{}/../bench/results/h200/{suite}.json", env!("CARGO_MANIFEST_DIR"));
    let results = serde_json::from_str(&std::fs::read_to_string(path).expect("results")).expect("JSON");
    let (rows, _) = report::read(&results).expect("a file of results");
    Ranking::of(&rows, "", Gpu::h200())
}

#[test]
fn the_figures_of_the_documentation_are_those_of_the_results() {
    let document = include_str!("../../gemm-choose/src/estimate/mod.rs");
    for suite in ["ladder", "square"] {
        let ranking = ranking(suite);
        // Products of planes have times, but the model does not cover planes.
        let of_planes = |(name, _): &(String, _)| name.starts_with("emulate_");
        assert!(ranking.left_out.iter().all(of_planes), "{:?}", ranking.left_out);
        let (all, within) = (ranking.correlation().expect("rows"), ranking.within_products().expect("rows"));
        let line = format!("//! | {suite} | {} | {all:.2} | {within:.2} |\n", ranking.rows.len());
        assert!(document.contains(&line), "write: {line}");
    }
}

#[test]
fn the_model_ranks() {
    let ladder = ranking("ladder");
    assert!(ladder.correlation().is_some_and(|figure| figure > 0.97), "{:?}", ladder.correlation());
    for suite in ["square", "odd", "skinny", "deep", "small", "batched", "square_f64"] {
        let ranking = ranking(suite);
        let (all, within) = (ranking.correlation(), ranking.within_products());
        assert!(
            all.is_some_and(|figure| figure > 0.9) && within.is_some_and(|figure| figure > 0.6),
            "{suite}: {all:?} {within:?}"
        );
    }
}
