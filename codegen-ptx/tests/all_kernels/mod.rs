//! Every kernel of the net's schedules and of the named cases passes the verifier of kernel IR.

mod legal;

use ptx_gemm_codegen::compile;
use ptx_gemm_dsl::Schedule;

#[test]
fn every_kernel_passes() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut texts: Vec<(String, String)> = std::fs::read_to_string(format!("{root}/tests/net/schedules.txt"))
        .unwrap()
        .lines()
        .map(|line| (line.to_string(), line.to_string()))
        .collect();
    for file in std::fs::read_dir(format!("{root}/gemm-check/cases")).unwrap() {
        let path = file.unwrap().path();
        texts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    assert!(texts.len() > 400, "{}", texts.len());
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        let Ok(schedule) = text.parse::<Schedule>() else { continue };
        let Ok(plan) = schedule.plan(None) else { continue };
        if let Err(violation) = compile(&plan) {
            wrong.push(format!("{name}\n    {}", violation.reason()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), texts.len(), wrong.join("\n"));
}

/// Boxes begin at multiples of 128 bytes, or of eight swizzle spans; halves of these tiles would not.
#[test]
fn tiles_are_cut_into_boxes_that_begin_where_tma_writes() {
    for text in [
        "types(f16); layout(b = col); tile(64, 408, 16); atom(wgmma(64, 136, 16)); load(tma); stages(4)",
        "tile(516, 8, 8); thread(6, 8); vector(4); load(tma)",
    ] {
        let plan = text.parse::<Schedule>().unwrap().plan(None).unwrap_or_else(|e| panic!("{text}: {e}"));
        compile(&plan).unwrap_or_else(|violation| panic!("{text}: {}", violation.reason()));
    }
}

/// Panels of D with last lines that end where shared memory ends. The panel of a lane's line depends on its warp.
#[test]
fn the_last_line_of_a_panel_is_within_bounds() {
    for text in [
        "types(bf16); tile(128, 128, 16); warp(64, 64); atom(mma(16, 8, 16)); store(tma)",
        "types(bf16); layout(d = col); tile(128, 64, 16); warp(64, 32); atom(mma(16, 8, 16)); store(tma)",
        "types(f16, acc = f16); transposed; tile(256, 128, 32); warp(64, 64); atom(mma(16, 8, 16)); store(tma)",
        "types(bf16); tile(64, 256, 32); warp(32, 128); atom(mma(16, 8, 16)); store(tma)",
        "types(bf16); tile(144, 128, 16); warp(48, 32); atom(mma(16, 8, 16)); store(tma)",
        "types(bf16); tile(32, 128, 16); warp(16, 16); atom(mma(16, 8, 16)); store(tma)",
    ] {
        let plan = text.parse::<Schedule>().unwrap().plan(None).unwrap_or_else(|e| panic!("{text}: {e}"));
        compile(&plan).unwrap_or_else(|violation| panic!("{text}: {}", violation.reason()));
    }
}
