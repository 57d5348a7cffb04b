//! Fuzz targets: text for each place that reads text. What they run is in `ptx_gemm_check::texts`, which the tests run as well.
//!
//! ```text
//! cargo run --release --example corpus          # in this folder: seeds from the cases
//! cargo +nightly fuzz run interpreter -- -max_len=16384 -timeout=10
//! ```

use ptx_gemm_codegen::compile;
use ptx_gemm_codegen::tile::{build::build, print::print};
use ptx_gemm_dsl::Schedule;

/// Longest PTX text that is a seed: a fuzzer wants small ones.
const LONGEST: usize = 64 << 10;

/// Seeds of a target, by name.
pub fn seeds(target: &str) -> Vec<(String, String)> {
    let cases = ptx_gemm_check::cases();
    let named = cases.map(|case| (case.name.to_string(), case.text.to_string()));
    let small = [
        "tile(2, 2, 2); thread(1, 1);",
        "tile(8, 8, 4); thread(2, 2); double_buffer;",
        "tile(8, 8, 4); thread(2, 2); load(cp_async); stages(3);",
    ];
    let all = named.chain(small.iter().enumerate().map(|(at, text)| (format!("small_{at}"), (*text).to_string())));
    all.filter_map(|(name, text)| Some((name, seed(target, text)?))).filter(|(_, text)| text.len() <= LONGEST).collect()
}

fn seed(target: &str, text: String) -> Option<String> {
    if target == "schedule" {
        return Some(text);
    }
    let plan = text.parse::<Schedule>().ok()?.plan(None).ok()?;
    if target == "tile" {
        return Some(print(&build(&plan)));
    }
    compile(&plan).ok().map(|compiled| compiled.ptx)
}
