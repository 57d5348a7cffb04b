//! The ranking of estimates against all measured times.

use ptx_gemm_bench::calibrate::{halves, read};
use ptx_gemm_bench::report;
use ptx_gemm_bench::sweep::Gpu;
use ptx_gemm_bench::sweep::ranking::Ranking;
use ptx_gemm_choose::{Quality, Timed, quality};
use ptx_gemm_dsl::clause::Atom;

fn ranking(suite: &str) -> Ranking {
    let path = format!("{}/../bench/results/h200/{suite}.json", env!("CARGO_MANIFEST_DIR"));
    let results = serde_json::from_str(&std::fs::read_to_string(path).expect("results")).expect("JSON");
    let (rows, _) = report::read(&results).expect("a file of results");
    Ranking::of(&rows, Gpu::h200())
}

/// Products that no figure was fitted to. Few have several schedules by planes, and one figure is theirs.
#[test]
fn what_is_picked_is_fast() {
    let rows = read(include_str!("../../bench/results/rows.json"), Gpu::h200()).expect("rows");
    let (fitted, kept_back) = halves(rows);
    let is_tensor = |row: &&Timed| matches!(row.plan.atom, Atom::Wgmma(..)) && row.plan.sums.emulate.is_none();
    let of_tensor: Vec<Timed> = kept_back.iter().filter(is_tensor).cloned().collect();
    let of_threads: Vec<Timed> = kept_back.iter().filter(|row| row.plan.atom == Atom::Fma).cloned().collect();
    let of_planes = fitted.iter().chain(&kept_back).filter(|row| row.plan.sums.emulate.is_some()).cloned().collect();
    for (name, rows, least) in
        [("wgmma", of_tensor, 200), ("fma", of_threads, 30), ("planes", of_planes, 2), ("all", kept_back.clone(), 250)]
    {
        let found = quality(Gpu::h200(), &rows);
        let Quality { products, regret, regret_of_first, .. } = found;
        assert!(products >= least && regret < 0.05 && regret_of_first < 0.01, "{name}: {found:?}");
    }
    // The test can fail: without the costs around the K-tiles of a work tile, small products get large tiles.
    let blind =
        Gpu { tensor_prologue: 0.0, tensor_epilogue: 0.0, sharer: 0.0, tensor_latency: 0.0, ..Gpu::h200().clone() };
    assert!(quality(&blind, &kept_back).regret > 0.05);
}

#[test]
fn estimates_rank_the_ladder() {
    let ladder = ranking("ladder");
    assert!(ladder.correlation().is_some_and(|figure| figure > 0.97), "{:?}", ladder.correlation());
}
