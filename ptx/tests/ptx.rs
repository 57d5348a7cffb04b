//! Tests of PTX as data, one binary.

use ptx_gemm_ptx::{parse::parse, print::print};

#[test]
fn t() {
    let text = include_str!("texts/core.ptx");
    let m = parse(text).unwrap();
    let printed = print(&m);
    if std::env::var("BLESS").is_ok() {
        std::fs::write("tests/texts/core.ptx", &printed).unwrap();
    }
    assert_eq!(printed, text);
    assert_eq!(parse(&printed).unwrap(), m);
}
