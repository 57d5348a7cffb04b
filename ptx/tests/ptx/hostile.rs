//! Arbitrary text: never a panic, never more time or memory than a small multiple of the text.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use ptx_gemm_ptx::parse::{MAX_NESTING, MAX_TEXT, parse};
use ptx_gemm_ptx::print::print;
use ptx_gemm_ptx::verify::verify;

use crate::round_trip::texts;

/// Reads a text. If it is accepted, it has to survive printing and reading back, and the verifier must not panic.
fn check(text: &str) {
    if let Ok(module) = parse(text) {
        let printed = print(&module);
        assert_eq!(parse(&printed).as_ref(), Ok(&module), "{printed}");
        let _ = verify(&module);
    }
}

fn in_body(body: &str) -> String {
    format!(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a) {{\n{body}\n}}\n")
}

/// Functions that each call the next one twice.
fn calls(count: usize) -> String {
    let function = |i: usize| format!(".func f{i}()\n{{\ncall f{0}, ();\ncall f{0}, ();\n}}\n", i + 1);
    let functions: String = (0..count).map(function).collect();
    format!(".version 8.0\n.target sm_90\n{functions}.func f{count}() {{ ret; }}\n.entry k() {{ call f0, (); }}\n")
}

#[test]
fn bombs() {
    let deep = MAX_NESTING + 1;
    let start = Instant::now();
    for (name, text) in [
        ("nested scopes", in_body(&"{".repeat(100_000))),
        ("closed scopes", in_body(&format!("{}{}", "{".repeat(deep), "}".repeat(deep)))),
        ("many scopes", in_body(&"{ L: }".repeat(50_000))),
        ("nested braces", in_body(&format!("mov.b32 {}", "{".repeat(100_000)))),
        ("brackets", in_body(&"ld.f32 ".repeat(1000).replace("f32 ", "f32 [").repeat(10))),
        ("bars", in_body(&format!("mov.b32 {}", "_|".repeat(100_000)))),
        ("many registers", in_body(".reg .b32 %r<4000000000>; mov.b32 %r3999999999, 1;")),
        ("many families", in_body(&(0..70_000).map(|i| format!(".reg .b32 r{i};")).collect::<String>())),
        ("digits", in_body(&format!(".reg .b32 %r<9>; mov.b32 %r{}, 1;", "1".repeat(1_000_000)))),
        ("a long number", in_body(&format!(".reg .b32 %r<9>; mov.b32 %r1, {};", "1".repeat(1_000_000)))),
        ("a long float", in_body(&format!(".reg .f32 %r<9>; mov.f32 %r1, 0.{};", "1".repeat(1_000_000)))),
        ("comments on one line", "/* */".repeat(500_000)),
        ("comments over lines", "/*\n*/".repeat(500_000)),
        ("operands", in_body(&format!("frob {}1;", "1, ".repeat(1_000_000)))),
        ("statements", in_body(&"ret;".repeat(1_100_000))),
        ("a long name", in_body(&"x".repeat(5_000_000))),
        ("a vast product", in_body("mma.sync.aligned.m65535n65535k65535.row.col.f64.f64.f64.f64 {}, {}, {}, {};")),
        ("a vast group", in_body("wgmma.mma_async.sync.aligned.m65535n65535k65535.f32.f16.f16 {}, 0, 0, 0;")),
        ("pragmas", in_body(&format!(".pragma {}\"\";", "\"\",".repeat(1_000_000)))),
        ("extents", ".version 8.0\n.target sm_90\n.shared .b8 x".to_owned() + &"[4294967295]".repeat(10_000)),
        ("scopes with names", in_body(&"{ .reg .b32 p; .reg .b32 p_s1_; }".repeat(20_000))),
        ("too long", " ".repeat(MAX_TEXT + 1)),
        ("unclosed", "/*".repeat(1_000_000)),
        ("calls of calls", calls(60)),
        ("a long chain of calls", calls(50_000)),
        ("values", ".version 8.0\n.target sm_90\n.global .b8 x[] = {".to_owned() + &"1,".repeat(500_000)),
        ("sections", ".version 8.0\n.target sm_90\n".to_owned() + &".section x {".repeat(100_000)),
    ] {
        let began = Instant::now();
        check(&text);
        // Generous: a debug build on a busy machine. Anything quadratic takes minutes.
        assert!(began.elapsed() < Duration::from_secs(20), "{name} took {:?}", began.elapsed());
    }
    assert!(start.elapsed() < Duration::from_secs(60));
}

const TOKENS: &[&str] = &[
    ".reg",
    ".b32",
    ".f32",
    ".pred",
    "%r",
    "%r1",
    "<",
    ">",
    "4",
    "4000000000",
    ";",
    ",",
    "{",
    "}",
    "[",
    "]",
    "call",
    ".func",
    "=",
    "(",
    ")",
    "@",
    "!",
    "|",
    "_",
    "%p0",
    "%p",
    "bra",
    "L",
    "L:",
    "ld.global.v4.f32",
    "st.shared.f32",
    "mov.b32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
    "frob.x::y",
    "+",
    "-",
    "0x",
    "0f3F800000",
    "1.5",
    "1e",
    "\"x\"",
    "//",
    "//@ tile(1): x",
    "\n",
    "/*",
    "*/",
    ".pragma",
    ".loc",
    ".shared",
    ".align",
    "%tid.x",
    "%tid.q",
    "smem",
    ":",
    "::",
    ".",
    "setp.lt.s32",
    "cvt.rn.f16.f32",
    "cp.async.bulk.tensor.2d",
    "bar.sync",
    "0",
    "-1",
    "é",
    "\\",
    "\u{0}",
    "=",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn token_soup(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..60)) {
        check(&tokens.join(" "));
        check(&in_body(&tokens.join(" ")));
        check(&in_body(&format!(".reg .b32 %r<4>; .reg .pred %p<4>; .shared .b8 smem[4]; {}", tokens.concat())));
    }

    /// Statements of ordinary tokens parse often enough that printing is tested as well.
    #[test]
    fn likely_statements(
        lines in prop::collection::vec(
            (prop::sample::select(&["mov.b32", "ld.shared.f32", "frob", "setp.eq.s32", "L:", "{", "}", ".pragma \"x\""][..]),
             prop::collection::vec(
                prop::sample::select(&["%r1", "[%r0+4]", "%p0|_", "{%r1, %r2}", "7", "-0x8", "!%p1", "1.5", "%tid.x"][..]), 0..4),
             prop::sample::select(&["", " // why", " //@ tile(8): copy", " /* a */"][..])),
            0..20),
    ) {
        let mut body = ".reg .b32 %r<4>; .reg .pred %p<4>;\n".to_owned();
        for (mnemonic, operands, comment) in lines {
            let ends = !matches!(mnemonic, "L:" | "{" | "}");
            let operands = if ends && !mnemonic.starts_with('.') { operands.join(", ") } else { String::new() };
            body += &format!("{mnemonic} {operands}{}{comment}\n", if ends { ";" } else { "" });
        }
        check(&in_body(&body));
    }

    #[test]
    fn mutated_texts(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(TOKENS), 0usize..12), 1..8),
    ) {
        let texts = texts();
        let mut text = which.get(&texts).1.clone();
        for (place, token, length) in edits {
            let mut start = place.index(text.len().max(1)).min(text.len());
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + length).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(start..end, token);
        }
        check(&text);
    }

    #[test]
    fn any_bytes(text in ".{0,200}") {
        check(&text);
        check(&in_body(&text));
    }
}
