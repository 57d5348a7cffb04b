//! Every named case is a schedule that parses, prints and reads back.

use ptx_gemm_dsl::Schedule;

const L: &str = "layout(a = row, b = col, d = col);";
const SCALED: &str = "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);";

fn all() -> Vec<(String, String)> {
    let mut cases: Vec<(String, String)> = [
        ("naive_uncoalesced", "tile(32,32); thread(1,1); lanes(along = m); raster(along = m); shared(none);".to_string()),
        ("naive", "tile(32,32); thread(1,1); shared(none);".into()),
        ("lab3_baseline", format!("{L} tile(32,32); thread(1,1); shared(none);")),
        ("lab3_step1", format!("{L} tile(1024,1); thread(1,1); lanes(along = m); shared(none);")),
        ("shared_deep", "tile(32,32,128); thread(1,1); shared(b = nk);".into()),
        ("two_per_thread", "tile(32,32,32); thread(2,1); fragment(1,1);".into()),
        ("thread_1d", format!("{SCALED} tile(64,64,8); thread(8,1);")),
        ("thread_2d", format!("{SCALED} tile(128,128,8); thread(8,8); operands(shared);")),
        ("registers", format!("{SCALED} tile(128,128,8); thread(8,8); operands(registers);")),
        ("lab3_4x4", format!("{L} tile(128,128,8); thread(4,4);")),
        ("lab3_4x4_deep", format!("{L} tile(128,128,32); thread(4,4);")),
        ("lab3_64", format!("{L} tile(64,64,16); thread(4,4);")),
        ("register_blocked", "tile(128,128,32); thread(4,4); shared(a = km);".into()),
        ("vectorized", "tile(128,128,8); thread(8,8); vector(4);".into()),
        ("vectorized_km", format!("{SCALED} tile(128,128,8); thread(8,8); vector(4); shared(a = km);")),
        ("lab3_scalar", format!("{L} tile(128,128,8); thread(8,8);")),
        ("lab3", format!("{L} tile(128,128,8); thread(8,8); vector(4);")),
        ("double_buffered", "tile(128,128,8); thread(8,8); vector(4); double_buffer;".into()),
        ("prefetched", "tile(128,128,16); thread(4,4); shared(a = km); double_buffer;".into()),
        (
            "conflict_free",
            "tile(128,128,8); thread(8,8); fragment(4,4); vector(4); shared(a = km + pad(4)); double_buffer;".into(),
        ),
        (
            "warp_tiled",
            "tile(128,128,8); warp(32,64); thread(8,8); fragment(4,4); vector(4); shared(a = km + pad(4)); double_buffer;"
                .into(),
        ),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_string(), text))
    .collect();
    for t in [1, 2, 4, 8, 16, 32, 64] {
        let spills = if t >= 16 { "spills(allow);" } else { "" };
        let tile = 16 * t;
        cases
            .push((format!("direct_{t}x{t}"), format!("tile({tile},{tile}); thread({t},{t}); shared(none); {spills}")));
    }
    for b in [1, 2, 4, 8, 16, 32] {
        cases.push((format!("shared_{b}"), format!("tile({b},{b},{b}); thread(1,1);")));
    }
    cases
}

#[test]
fn every_case_of_the_seeds_plans_and_reads_back() {
    for (name, text) in all() {
        let schedule = Schedule::parse(&text).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert_eq!(Schedule::parse(&schedule.to_string()).as_ref(), Ok(&schedule), "{name}");
        schedule.plan(None).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    }
}
