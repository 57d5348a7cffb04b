//! Calls: registers as parameters, recursion, aliases, and CUDA's own functions.

use ptx_gemm_interp::{Arg, Report, Violation, ViolationKind};

use crate::run::Device;

/// Each of 32 threads calls with its index in `%t`, and stores `%r0`.
fn run(functions: &str, body: &str) -> Result<(Vec<u32>, Report), Violation> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{functions}\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out; .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .b32 %t; .reg .pred %p<4>;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %r0, 77;\n{body}\n\
         mul.wide.u32 %rd0, %t, 4;\nadd.u64 %rd0, %out, %rd0;\nst.global.u32 [%rd0], %r0;\nret;\n}}\n"
    );
    let at = Device::new(&text);
    let out = at.upload("out", &[0u32; 32]);
    let report = at.launch([1, 1, 1], [32, 1, 1], &[Arg::U64(out)])?;
    Ok((at.words(out, 32), report))
}

fn check(name: &str, functions: &str, body: &str, want: impl Fn(u32) -> u32) {
    let (words, _) = run(functions, body).unwrap_or_else(|violation| panic!("{name}: {violation}"));
    assert_eq!(words, (0..32).map(want).collect::<Vec<u32>>(), "{name}");
}

const ADD: &str = ".func (.reg .b32 r) f (.reg .b32 x, .reg .b32 y) { add.u32 r, x, y; ret; }";

#[test]
fn registers_as_parameters() {
    check("registers", ADD, "call (%r0), f, (%t, 5);", |t| t + 5);
    check("nothing wanted", ADD, "call (_), f, (%t, 5);", |_| 77);
    check("a guard", ADD, "setp.lt.u32 %p0, %t, 4;\n@%p0 call (%r0), f, (%t, %t);", |t| if t < 4 { 2 * t } else { 77 });
    let two = ".func (.reg .b32 q, .reg .b32 r) f (.reg .b32 x) { div.u32 q, x, 5; rem.u32 r, x, 5; ret; }";
    check("two results", two, "call (%r1, %r2), f, (%t);\nmad.lo.u32 %r0, %r1, 100, %r2;", |t| t / 5 * 100 + t % 5);
    let float = ".func (.reg .f32 r) f (.reg .f32 x) { mul.f32 r, x, 0f40000000; ret; }";
    check("a float", float, ".reg .f32 %f;\ncall (%f), f, (1.5);\nmov.b32 %r0, %f;", |_| 3f32.to_bits());
    let vector = ".func (.reg .b32 r) f (.reg .v2 .b32 v) { sub.u32 r, v.y, v.x; ret; }";
    check("a vector", vector, ".reg .v2 .b32 v;\nmov.v2.b32 v, {%t, 50};\ncall (%r0), f, (v);", |t| 50 - t);
    // A function with .param parameters takes registers and numbers as well.
    let param =
        ".func (.param .b32 r) f (.param .b32 x, .param .b64 y) { .reg .b32 a; .reg .b64 b; ld.param.b32 a, [x];
        ld.param.b64 b, [y]; cvt.u32.u64 b32_, b; add.u32 a, a, b32_; st.param.b32 [r], a; ret; }"
            .replace(".reg .b64 b;", ".reg .b64 b; .reg .b32 b32_;");
    check("in memory", &param, "call (%r0), f, (%t, 9);", |t| t + 9);
    check("mixed", &param, "{ .param .b32 q; st.param.b32 [q], %t;\ncall (%r0), f, (q, 9); }", |t| t + 9);
    check(
        "by address",
        ADD,
        "mov.u64 %rd1, f;\np: .callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .b32 _);\ncall (%r0), %rd1, (%t, 1), p;",
        |t| t + 1,
    );
}

/// The sum of 1 to x, doubled by a function that is not recursive itself.
const SUM: &str = ".func (.reg .b32 r) twice (.reg .b32 x) { add.u32 r, x, x; ret; }
.func (.reg .b32 r) f (.reg .b32 x) { .reg .b32 y; .reg .pred p; setp.eq.u32 p, x, 0; mov.u32 r, 0; @p ret;
    sub.u32 y, x, 1; call (r), f, (y); call (y), twice, (x); add.u32 r, r, y; ret; }";

#[test]
fn functions_that_call_themselves() {
    check("a sum", SUM, "call (%r0), f, (%t);", |t| t * (t + 1));
    check("after a guard", SUM, "setp.gt.u32 %p0, %t, 9;\n@%p0 call (%r0), f, (%t);", |t| {
        if t > 9 { t * (t + 1) } else { 77 }
    });
    // Two calls of each, which keep values in registers, in a predicate, and in local memory across the calls.
    let fibonacci = ".func (.param .b32 r) fib (.param .b32 n) {
        .reg .b32 a, b, c; .reg .pred small, odd; .reg .b64 at, d; .local .align 8 .b32 kept[2];
        ld.param.b32 a, [n]; setp.lt.u32 small, a, 2; @small bra LEAF;
        and.b32 b, a, 1; setp.eq.u32 odd, b, 1; mov.u64 at, kept; cvta.local.u64 at, at; st.u32 [at+4], a;
        st.local.u32 [kept], a;
        { .param .b32 x; .param .b32 y; sub.u32 b, a, 1; st.param.b32 [x], b; call.uni (y), fib, (x); ld.param.b32 b, [y]; }
        { .param .b32 x; .param .b32 y; sub.u32 c, a, 2; st.param.b32 [x], c; call.uni (y), fib, (x); ld.param.b32 c, [y]; }
        add.u32 b, b, c; ld.u32 c, [at+4]; sub.u32 c, c, a; @odd add.u32 b, b, c; ld.local.u32 c, [kept]; sub.u32 c, c, a;
        add.u32 b, b, c; st.param.b32 [r], b; ret;
        LEAF: st.param.b32 [r], a; ret; }";
    let want = |t: u32| (0..t % 12).fold((0, 1), |(a, b), _| (b, a + b)).0;
    check("Fibonacci", fibonacci, "rem.u32 %r1, %t, 12;\ncall (%r0), fib, (%r1);", want);
    // Functions that call each other, declared before they are defined.
    let parity = ".func (.reg .b32 r) odd (.reg .b32 x);
        .func (.reg .b32 r) even (.reg .b32 x) { .reg .pred p; .reg .b32 y; setp.eq.u32 p, x, 0; mov.u32 r, 1; @p ret;
            sub.u32 y, x, 1; call (r), odd, (y); ret; }
        .func (.reg .b32 r) odd (.reg .b32 x) { .reg .pred p; .reg .b32 y; setp.eq.u32 p, x, 0; mov.u32 r, 0; @p ret;
            sub.u32 y, x, 1; call (r), even, (y); ret; }";
    check("each other", parity, "call (%r0), even, (%t);", |t| u32::from(t % 2 == 0));
    check(
        "by alias",
        &format!(".func (.reg .b32 r) also (.reg .b32 x);\n{parity}\n.alias also, odd;"),
        "call (%r0), also, (%t);",
        |t| t % 2,
    );
    let ackermann = ".func (.reg .b32 r) a (.reg .b32 m, .reg .b32 n) { .reg .pred p; .reg .b32 u, v;
        setp.eq.u32 p, m, 0; @p bra ZERO; setp.eq.u32 p, n, 0; sub.u32 u, m, 1; @p bra ONE;
        sub.u32 v, n, 1; call (v), a, (m, v); call (r), a, (u, v); ret;
        ZERO: add.u32 r, n, 1; ret; ONE: call (r), a, (u, 1); ret; }";
    check("Ackermann", ackermann, "and.b32 %r1, %t, 3;\ncall (%r0), a, (2, %r1);", |t| 2 * (t % 4) + 3);
    let pointer =
        ".func (.reg .b32 r) f (.reg .b64 self, .reg .b32 x) { .reg .pred p; .reg .b32 y; setp.eq.u32 p, x, 0;
        mov.u32 r, 0; @p ret; sub.u32 y, x, 1; q: .callprototype (.reg .b32 _) _ (.reg .b64 _, .reg .b32 _);
        call (r), self, (self, y), q; add.u32 r, r, x; ret; }";
    check("by address", pointer, "mov.u64 %rd1, f;\ncall (%r0), f, (%rd1, %t);", |t| t * (t + 1) / 2);
}

#[test]
fn endless_recursion_is_reported() {
    let endless = ".func (.reg .b32 r) f (.reg .b32 x) { call (r), f, (x); ret; }";
    for (name, functions, body) in
        [("endless", endless, "call (%r0), f, (%t);"), ("too deep", SUM, "mov.u32 %r1, 100000;\ncall (%r0), f, (%r1);")]
    {
        let violation = run(functions, body).expect_err(name);
        assert_eq!(violation.kind, ViolationKind::StackOverflow, "{violation}");
        assert!(violation.message.contains("calls `f`, and the calls that are active leave no room"), "{violation}");
    }
    // 300 calls fit.
    check("300", SUM, "mov.u32 %r1, 300;\ncall (%r0), f, (%r1);", |_| 300 * 301);
}

const TEXTS: &str = ".global .align 1 .b8 format[40] = {0x25, 0x64, 0x20, 0x25, 0x35, 0x2e, 0x32, 0x66, 0x20, 0x25, 0x73, 0x20, 0x25, 0x6c, 0x6c, 0x78, 0x20, 0x25, 0x2d, 0x33, 0x63, 0x7c, 0x0a};
.global .align 1 .b8 name[4] = {0x61, 0x62, 0x63};
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s) .noreturn;";

/// `printf("%d %5.2f %s %llx %-3c|\n", t, 1.5, "abc", 48879, 'x')`, as nvcc calls it.
const PRINT: &str = ".local .align 8 .b8 args[40];
mov.u64 %rd1, args;\ncvta.local.u64 %rd2, %rd1;\nst.local.u32 [%rd1], %t;\nmov.b64 %rd3, 0d3FF8000000000000;
st.local.b64 [%rd1+8], %rd3;\nmov.u64 %rd3, name;\ncvta.global.u64 %rd3, %rd3;\nst.local.u64 [%rd1+16], %rd3;
mov.u64 %rd3, 48879;\nst.local.u64 [%rd1+24], %rd3;\nmov.u32 %r1, 120;\nst.local.u32 [%rd1+32], %r1;
mov.u64 %rd4, format;\ncvta.global.u64 %rd4, %rd4;
{ .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], %rd4; st.param.b64 [p1], %rd2;
call.uni (r), vprintf, (p0, p1); ld.param.b32 %r0, [r]; }";

#[test]
fn prints_and_assertions() {
    let (words, report) = run(TEXTS, &format!("setp.gt.u32 %p0, %t, 1;\n@%p0 bra END;\n{PRINT}\nEND:")).unwrap();
    assert_eq!(words[..3], [5, 5, 77]);
    assert_eq!(String::from_utf8_lossy(&report.printed), "0  1.50 abc beef x  |\n1  1.50 abc beef x  |\n");
    let fail = "mov.u64 %rd1, name;\ncvta.global.u64 %rd1, %rd1;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
        st.param.b64 [a], %rd1; st.param.b64 [b], %rd1; st.param.b32 [c], 42; st.param.b64 [d], %rd1; st.param.b64 [e], 1;
        call.uni __assertfail, (a, b, c, d, e); }";
    let (_, report) = run(TEXTS, &format!("bra END;\n{fail}\nEND:")).expect("not reached");
    assert!(report.printed.is_empty());
    let violation = run(TEXTS, &format!("setp.ne.u32 %p0, %t, 3;\n@%p0 bra END;\n{fail}\nEND:")).unwrap_err();
    assert_eq!((violation.kind, violation.site.threads.as_slice()), (ViolationKind::Assertion, &[[3, 0, 0]][..]));
    assert!(violation.message.ends_with("the assertion `abc` of abc failed, at abc:42"), "{violation}");
    // In a function that keeps a frame.
    let nested = format!(
        "{TEXTS}\n.func f (.reg .b32 %t) {{ .reg .pred p; .reg .b32 y, %r<4>; .reg .b64 %rd<8>; setp.eq.u32 p, %t, 0; @p bra END;
         sub.u32 y, %t, 1; call f, (y);\n{PRINT}\nEND: ret; }}"
    );
    let (_, report) = run(&nested, "setp.eq.u32 %p0, %t, 2;\n@%p0 call f, (%t);").unwrap();
    assert_eq!(String::from_utf8_lossy(&report.printed), "1  1.50 abc beef x  |\n2  1.50 abc beef x  |\n");
    let unknown = run(".extern .func f (.param .b64 x) .noreturn;", "{ .param .b64 a; call f, (a); }").unwrap_err();
    assert!(unknown.message.contains("`f` cannot be called: it has no body in this module"), "{unknown}");
    let stray = "mov.u64 %rd1, 64;\np: .callprototype (.reg .b32 _) _ (.reg .b32 _);\ncall (%r0), %rd1, (%t), p;";
    let stray = run(".func (.reg .b32 r) f (.reg .b32 x) { mov.b32 r, x; ret; }", stray).unwrap_err();
    assert!(stray.message.contains("the address of no function of this module"), "{stray}");
}

#[test]
fn formats() {
    for (format, value, want) in [
        ("%d", 0xffff_fffbu32, "-5"),
        ("%5d|", 42, "   42|"),
        ("%-5d|", 42, "42   |"),
        ("%05d", 42, "00042"),
        ("%+d", 42, "+42"),
        ("%.4d", 42, "0042"),
        ("%u", 0xffff_ffff, "4294967295"),
        ("%#x", 255, "0xff"),
        ("%X", 255, "FF"),
        ("%o", 8, "10"),
        ("%c%%", 65, "A%"),
        ("%hd", 7, "7"),
        ("%*d|", 3, "  0|"),
        ("%k", 1, "%k"),
        ("%", 1, ""),
    ] {
        let bytes: Vec<String> = format.bytes().map(|byte| byte.to_string()).collect();
        let texts = format!(
            ".global .b8 text[64] = {{{}}};\n.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);",
            bytes.join(", ")
        );
        let body = format!(
            ".local .align 8 .b64 args[4];\nmov.u32 %r1, {value};\nst.local.u32 [args], %r1;\nmov.u64 %rd1, args;
             cvta.local.u64 %rd1, %rd1;\nmov.u64 %rd2, text;\nsetp.ne.u32 %p0, %t, 0;\n@%p0 bra END;
             call (%r0), vprintf, (%rd2, %rd1);\nEND:"
        );
        let (_, report) = run(&texts, &body).unwrap_or_else(|violation| panic!("{format}: {violation}"));
        assert_eq!(String::from_utf8_lossy(&report.printed), want, "{format}");
    }
}
