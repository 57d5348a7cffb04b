//! Stores of several threads to one word: no race if lanes of one instruction store equal bits, a warning if other
//! threads do, and a race otherwise.

use ptx_gemm_interp::{Arg, BlockOrder, Options, Severity, Violation, ViolationKind, WarpOrder};

use crate::run::Device;

/// `%t` is the thread, `%w` its warp, `%s` the address of `word`, `%out` of 64 words that are 7.
fn run(body: &str, grid: u32, options: &Options) -> Result<(Vec<u32>, Vec<Violation>), Violation> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .shared .align 16 .b8 word[64];\n.reg .b64 %out; .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .b32 %t; .reg .b32 %w;\n\
         .reg .b32 %s; .reg .b16 %h<4>; .reg .f32 %f<4>; .reg .pred %p<4>; .reg .b32 %never;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nshr.u32 %w, %t, 5;\nmov.u32 %s, word;\n{body}\nret;\n}}\n"
    );
    let mut at = Device::new(&text);
    at.options = *options;
    let out = at.upload("out", &[7u32; 64]);
    let report = at.launch([grid, 1, 1], [64, 1, 1], &[Arg::U64(out)])?;
    Ok((at.words(out, 64), report.warnings))
}

fn orders() -> Vec<Options> {
    let orders = [WarpOrder::RunToBarrier, WarpOrder::Forward, WarpOrder::Backward, WarpOrder::Seeded(3)];
    let blocks = [BlockOrder::Forward, BlockOrder::Backward, BlockOrder::Interleaved];
    let all = orders.into_iter().flat_map(|order| blocks.map(|blocks| (order, blocks)));
    all.map(|(order, blocks)| Options { order, blocks, ..Options::default() }).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    Nothing,
    Warning,
    Race,
}

fn check(want: Found, name: &str, body: &str, grid: u32) {
    for options in orders() {
        let found = run(body, grid, &options);
        let got = match &found {
            Ok((_, warnings)) if warnings.is_empty() => Found::Nothing,
            Ok((_, warnings)) => {
                assert!(warnings.iter().all(|one| one.kind == ViolationKind::Race), "{name}: {warnings:?}");
                Found::Warning
            }
            Err(violation) => {
                assert_eq!(violation.kind, ViolationKind::Race, "{name}: {violation}");
                Found::Race
            }
        };
        assert_eq!(got, want, "{name}, {options:?}: {found:?}");
    }
}

/// Only warp 0 executes this.
fn first_warp(body: &str) -> String {
    format!("setp.eq.u32 %p0, %w, 0;\n@!%p0 bra DONE;\n{body}\nDONE:")
}

#[test]
fn equal_stores_of_one_instruction() {
    let address = "cvt.u64.u32 %rd0, %s;\ncvta.shared.u64 %rd0, %rd0;";
    for (name, store) in [
        ("a word", "st.shared.u32 [%s], 5;".to_owned()),
        ("a byte", "st.shared.u8 [%s+3], 5;".to_owned()),
        ("a half", "mov.b16 %h0, 6;\nst.shared.b16 [%s+2], %h0;".to_owned()),
        ("a double word", "mov.b64 %rd1, 9;\nst.shared.b64 [%s+8], %rd1;".to_owned()),
        ("a vector", "mov.u32 %r0, 3;\nst.shared.v4.b32 [%s+16], {%r0, %w, %r0, %w};".to_owned()),
        ("a vector of bytes", "mov.b16 %h0, 6;\nst.shared.v4.b8 [%s+16], {%h0, %h0, %h0, %h0};".to_owned()),
        ("a generic address", format!("{address}\nst.u32 [%rd0], %w;")),
        ("a NaN", "mov.b32 %f0, 0f7FC00001;\nst.shared.f32 [%s], %f0;".to_owned()),
        ("some lanes", "setp.gt.u32 %p1, %t, 3;\n@%p1 st.shared.u32 [%s], 5;".to_owned()),
        ("pairs", "and.b32 %r0, %t, 4;\nadd.u32 %r1, %s, %r0;\nst.shared.u32 [%r1], %r0;".to_owned()),
        ("global", "st.global.u32 [%out], 5;".to_owned()),
        ("a global byte", "st.global.u8 [%out+1], 5;".to_owned()),
        ("a global vector", "mov.b64 %rd1, 9;\nst.global.v2.b64 [%out], {%rd1, %rd1};".to_owned()),
        ("a generic global address", "st.u32 [%out], 5;".to_owned()),
    ] {
        check(Found::Nothing, name, &first_warp(&store), 1);
    }
    let unequal = [
        ("a word", "st.shared.u32 [%s], %t;"),
        ("a sign of zero", "and.b32 %r0, %t, 1;\nshl.b32 %r0, %r0, 31;\nst.shared.b32 [%s], %r0;"),
        ("one element", "mov.u32 %r0, 3;\nst.shared.v4.b32 [%s+16], {%r0, %r0, %r0, %t};"),
        ("a byte", "cvt.u16.u32 %h0, %t;\nst.shared.v4.b8 [%s+16], {%h1, %h1, %h0, %h1};"),
        ("the high half", "mov.b64 %rd1, {%w, %t};\nst.shared.b64 [%s+8], %rd1;"),
        ("a global word", "st.global.u32 [%out], %t;"),
        ("bits that were never written", "st.shared.u32 [%s], %never;"),
    ];
    for (name, store) in unequal {
        check(Found::Race, name, &first_warp(store), 1);
    }
    // Truncation leaves equal bytes.
    let rows = |value: &str| {
        first_warp(&format!(
            "mov.b32 %r0, {value};\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%s], {{%r0}};\n\
             stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%s+32], {{%r0}};"
        ))
    };
    check(Found::Nothing, "equal rows of a matrix", &rows("65537"), 1);
    check(Found::Race, "other rows of a matrix", &rows("%t"), 1);
    check(Found::Nothing, "equal low bytes", &first_warp("shl.b32 %r0, %t, 8;\nst.shared.u8 [%s], %r0;"), 1);
}

#[test]
fn what_follows_equal_stores_is_ordered_after_all_of_them() {
    let read =
        "ld.shared.u32 %r1, [%s];\nmul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %out, %rd1;\nst.global.u32 [%rd1], %r1;";
    let stored = |then: &str| format!("setp.eq.u32 %p0, %w, 0;\n@%p0 st.shared.u32 [%s], 5;\n{then}");
    check(Found::Nothing, "a barrier", &stored(&format!("bar.sync 0;\n{read}")), 1);
    check(Found::Race, "no barrier", &stored("ld.shared.u32 %r1, [%s];"), 1);
    // A lane of the store reads its own bits.
    check(Found::Nothing, "own bits", &first_warp(&format!("st.shared.u32 [%s], 5;\n{read}")), 1);
    check(Found::Nothing, "own global bits", &first_warp("st.global.u32 [%out], 5;\nld.global.u32 %r1, [%out];"), 1);
    // Lane 31 stores other bits: the stores of the other lanes are not ordered before that.
    let again = "setp.eq.u32 %p1, %t, 31;\n@%p1 st.shared.u32 [%s], 6;";
    check(Found::Race, "other bits by one lane", &first_warp(&format!("st.shared.u32 [%s], 5;\n{again}")), 1);
    check(
        Found::Nothing,
        "after bar.warp.sync",
        &first_warp(&format!("st.shared.u32 [%s], 5;\nbar.warp.sync -1;\n{again}")),
        1,
    );
    // A lane that did not store reads.
    let others = "setp.gt.u32 %p1, %t, 15;\n@%p1 st.shared.u32 [%s], 5;\n@!%p1 ld.shared.u32 %r1, [%s];";
    check(Found::Race, "other lanes", &first_warp(others), 1);
    let (words, _) = run(&stored(&format!("bar.sync 0;\n{read}")), 1, &Options::default()).unwrap();
    assert_eq!(words, [5; 64]);
}

#[test]
fn equal_stores_of_different_instructions_are_a_warning() {
    for (name, body, grid) in [
        ("two warps", "st.shared.u32 [%s], 5;".to_owned(), 1),
        ("a part of a vector", "mov.u32 %r0, 5;\nsetp.eq.u32 %p0, %w, 0;\n@%p0 st.shared.u32 [%s+4], 5;\n@!%p0 st.shared.v2.b32 [%s], {%r0, %r0};".to_owned(), 1),
        ("a byte of a word", "setp.eq.u32 %p0, %w, 0;\n@%p0 st.shared.u8 [%s+1], 5;\n@!%p0 st.shared.u32 [%s], 0x0505;".to_owned(), 1),
        ("global", "st.global.u32 [%out], 5;".to_owned(), 1),
        ("global bytes", "st.global.u8 [%out+2], 5;".to_owned(), 1),
        ("blocks", first_warp("st.global.u32 [%out], 5;"), 3),
        ("two instructions", first_warp("setp.gt.u32 %p1, %t, 3;\n@%p1 st.shared.u32 [%s], 5;\n@!%p1 st.shared.u32 [%s], 5;"), 1),
    ] {
        check(Found::Warning, name, &body, grid);
        let denied = Options { equal_stores: Severity::Deny, ..Options::default() };
        let violation = run(&body, grid, &denied).expect_err(name);
        assert!(violation.message.contains("which store the same bits"), "{name}: {violation}");
        let allowed = Options { equal_stores: Severity::Allow, ..Options::default() };
        assert!(run(&body, grid, &allowed).is_ok_and(|(_, warnings)| warnings.is_empty()), "{name}");
    }
    for (name, body, grid) in [
        ("two warps", "st.shared.u32 [%s], %w;".to_owned(), 1),
        ("blocks", "mov.u32 %r0, %ctaid.x;\nst.global.u32 [%out], %r0;".to_owned(), 3),
        ("a third value", "st.shared.u32 [%s], 5;\nsetp.eq.u32 %p0, %t, 40;\n@%p0 st.shared.u32 [%s], 6;".to_owned(), 1),
        ("another read", "mov.u32 %r0, %w;\nst.shared.u32 [%s], 5;\nsetp.eq.u32 %p0, %t, 40;\n@%p0 ld.shared.u32 %r1, [%s+4];\n@!%p0 st.shared.u32 [%s+4], 5;".to_owned(), 1),
    ] {
        check(Found::Race, name, &body, grid);
    }
}

/// Blocks that store equal bits to one word, many more than are recorded.
#[test]
fn many_equal_stores() {
    let options = Options::default();
    let (words, warnings) = run("st.global.u32 [%out], 5;", 200, &options).unwrap();
    assert_eq!((words[0], warnings.is_empty()), (5, false));
}
