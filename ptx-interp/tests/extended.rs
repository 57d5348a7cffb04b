//! Instructions, variables and functions that this project's compiler does not emit.

use ptx_gemm_interp::{Arg, ViolationKind};

use crate::arithmetic::{check, d, f};
use crate::run::Device;

#[test]
fn carries() {
    let carry = "$d, $s0, $s1; addc.u32 $d, 0, 0;";
    let rows: &[(&[u64], u64)] = &[(&[0xffff_ffff, 1], 1), (&[0xffff_fffe, 1], 0), (&[0x8000_0000, 0x8000_0000], 1)];
    check(&format!("add.cc.u32 {carry}"), &["u32"; 3], rows);
    check("mad.lo.cc.u32 $d, $s0, $s1, $s2; addc.u32 $d, 0, 0;", &["u32"; 4], &[(&[3, 5, 0xffff_fff1], 1)]);
    check("sub.cc.u64 $d, $s0, $s1; subc.u64 $d, 0, 0;", &["u64"; 3], &[(&[1, 2], u64::MAX), (&[2, 1], 0)]);
    check("add.cc.u64 $d, $s0, $s0; madc.hi.u64 $d, $s0, $s1, $s1;", &["u64"; 3], &[(&[1 << 63, 6], 10)]);
    check("add.cc.u32 $d, $s0, $s0; madc.hi.s32 $d, $s0, $s1, 7;", &["u32"; 3], &[(&[0xffff_ffff, 2], 7)]);
}

/// A difference leaves the carry of a + !b + 1 (the values are those of an H200), also for sums that follow it.
#[test]
fn chains_of_sums_and_differences() {
    for ty in ["u32", "s32", "u64", "s64"] {
        let types = [ty; 3];
        let carries: &[(&[u64], u64)] = &[(&[1, 2], 0), (&[2, 1], 1), (&[7, 7], 1)];
        check(&format!("sub.cc.{ty} $d, $s0, $s1; addc.{ty} $d, 0, 0;"), &types, carries);
        check(&format!("sub.cc.{ty} $d, $s0, $s1; madc.lo.{ty} $d, 3, 5, 0;"), &types, &[(&[1, 2], 15), (&[2, 1], 16)]);
        // No carry leaves a borrow.
        check(&format!("add.cc.{ty} $d, $s0, $s1; subc.{ty} $d, 5, 0;"), &types, &[(&[1, 2], 4)]);
        check(&format!("mad.lo.cc.{ty} $d, $s0, $s1, 0; subc.{ty} $d, 5, 0;"), &types, &[(&[1, 2], 4)]);
    }
    check("add.cc.u32 $d, $s0, $s1; subc.u32 $d, 5, 0;", &["u32"; 3], &[(&[0xffff_ffff, 1], 5)]);
    check("add.cc.u64 $d, $s0, $s1; subc.u64 $d, 5, 0;", &["u64"; 3], &[(&[u64::MAX, 1], 5)]);
    let three = "sub.cc.u32 $d, $s0, $s1; subc.cc.u32 $d, $s1, $s0; addc.u32 $d, $d, 0;";
    check(three, &["u32"; 3], &[(&[1, 2], 1), (&[2, 1], 0xffff_ffff)]);
}

/// The values of an H200.
#[test]
fn flushed_sources_in_place() {
    check("mov.b32 $d, $s0; cvt.rzi.ftz.s32.f32 $d, $d;", &["b32"; 2], &[(&[f(12.5)], 12), (&[1], 0)]);
    let less: &[(&[u64], u64)] = &[(&[f(1.0), f(2.0)], 0xffff_ffff), (&[1, 2], 0)];
    check("mov.b32 $d, $s0; set.lt.ftz.u32.f32 $d, $d, $s1;", &["b32"; 3], less);
    check("mov.b32 $d, $s1; set.lt.ftz.u32.f32 $d, $s0, $d;", &["b32"; 3], less);
    // Subnormals are zeros, and so not less than others.
    let both: &[(&[u64], u64)] =
        &[(&[1, 2, 1], 0), (&[1, f(1.0), 1], 1), (&[1, f(1.0), 0], 0), (&[f(1.0), f(2.0), 1], 1)];
    check("setp.lt.and.ftz.f32 $d, $s0, $s1, $s2;", &["pred", "b32", "b32", "pred"], both);
}

#[test]
fn bits_and_bytes() {
    check("bfind.u32", &["u32"; 2], &[(&[0], 0xffff_ffff), (&[1], 0), (&[0x8000_0001], 31)]);
    check("bfind.s32", &["u32"; 2], &[(&[0xffff_ffff], 0xffff_ffff), (&[0xffff_ff00], 7), (&[5], 2)]);
    check("bfind.shiftamt.u64", &["u32", "u64"], &[(&[1], 63), (&[1 << 40], 23)]);
    check("bfind.s64", &["u32", "u64"], &[(&[u64::MAX << 9], 8)]);
    let (a, b) = (0x3322_1100, 0x7766_5544);
    for (mode, results) in [
        ("f4e", [0x3322_1100, 0x4433_2211, 0x5544_3322, 0x6655_4433]),
        ("b4e", [0x5566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2233]),
        ("rc8", [0x0000_0000, 0x1111_1111, 0x2222_2222, 0x3333_3333]),
        ("ecl", [0x3322_1100, 0x3322_1111, 0x3322_2222, 0x3333_3333]),
        ("ecr", [0x0000_0000, 0x1111_1100, 0x2222_1100, 0x3322_1100]),
        ("rc16", [0x1100_1100, 0x3322_3322, 0x1100_1100, 0x3322_3322]),
    ] {
        for (at, result) in results.into_iter().enumerate() {
            check(&format!("prmt.b32.{mode}"), &["u32"; 4], &[(&[a, b, at as u64], result)]);
        }
    }
    check("sad.s32", &["u32"; 4], &[(&[(-3i32) as u32 as u64, 4, 10], 17)]);
    check("sad.u32", &["u32"; 4], &[(&[(-3i32) as u32 as u64, 4, 10], 3)]);
    check("dp4a.s32.u32", &["u32"; 4], &[(&[0xff01_7f80, 0x0203_0405, 1], 0xffff_ff7e)]);
}

#[test]
fn selections_and_positions() {
    let negative = |value: i32| u64::from(value as u32);
    check("slct.u32.s32", &["u32"; 4], &[(&[1, 2, 0], 1), (&[1, 2, negative(-1)], 2)]);
    check(
        "slct.f32.f32",
        &["f32"; 4],
        &[(&[f(1.0), f(2.0), f(-0.0)], f(1.0)), (&[f(1.0), f(2.0), f(f32::NAN)], f(2.0))],
    );
    check("set.lt.u32.s32", &["u32"; 3], &[(&[negative(-1), 0], 0xffff_ffff), (&[1, 0], 0)]);
    check("set.gt.f32.f32", &["f32"; 3], &[(&[f(2.0), f(1.0)], f(1.0)), (&[f(f32::NAN), f(1.0)], 0)]);
    // PTX ISA, `fns`: base 0 or the position itself, and counting in both directions.
    let find =
        |mask: u64, base: u64, n: i32, want: u64| check("fns.b32", &["u32"; 4], &[(&[mask, base, negative(n)], want)]);
    find(0b1011_0000, 4, 0, 4);
    find(0b1011_0000, 6, 0, 0xffff_ffff);
    find(0b1011_0000, 0, 3, 7);
    find(0b1011_0000, 5, 4, 0xffff_ffff);
    find(0b1011_0000, 31, -1, 7);
    find(0b1011_0000, 6, -2, 4);
    check("mul24.lo.u32", &["u32"; 3], &[(&[0xff00_0003, 5], 15)]);
    check("mul24.hi.s32", &["u32"; 3], &[(&[0x00ff_ffff, 1 << 16], 0xffff_ffff)]);
    check("mad24.lo.s32", &["u32"; 4], &[(&[0x00ff_ffff, 7, 10], 3)]);
    check("cvt.pack.sat.s16.s32", &["u32"; 3], &[(&[40_000, negative(-7)], 0x7fff_fff9)]);
    check("cvt.pack.sat.u8.s32.b32", &["u32"; 4], &[(&[300, negative(-1), 0xaabb], 0xaabb_ff00)]);
    let parts = "mov.b64 {%q0, %q1, %q2, %q3}, %s0; mov.b64 %d, {%q3, %q2, %q1, %q0};";
    check(
        &format!(".reg .b16 %q<4>; {parts}").replace('%', "$"),
        &["b64"; 2],
        &[(&[0x1111_2222_3333_4444], 0x4444_3333_2222_1111)],
    );
}

#[test]
fn masks_and_narrow_numbers() {
    let find = |op: &str, rows: &[(&[u64], u64)]| check(op, &["u32"; 3], rows);
    // PTX ISA, `bmsk`: positions and widths beyond 31 are clamped, or taken modulo 32.
    let same: &[(&[u64], u64)] = &[(&[4, 8], 0xff0), (&[0, 0], 0), (&[31, 1], 0x8000_0000), (&[28, 9], 0xf000_0000)];
    ["clamp", "wrap"].iter().for_each(|mode| find(&format!("bmsk.{mode}.b32"), same));
    find("bmsk.clamp.b32", &[(&[32, 4], 0), (&[4, 32], 0xffff_fff0), (&[0, 1 << 31], 0xffff_ffff)]);
    find("bmsk.wrap.b32", &[(&[32, 4], 0xf), (&[4, 32], 0), (&[36, 33], 0x10)]);
    find("szext.clamp.u32", &[(&[0xffff_fabc, 8], 0xbc), (&[7, 0], 0), (&[0xffff_fabc, 99], 0xffff_fabc)]);
    find("szext.clamp.s32", &[(&[0xabc, 8], 0xffff_ffbc), (&[0xa3c, 8], 0x3c), (&[0xffff_fabc, 32], 0xffff_fabc)]);
    find("szext.wrap.s32", &[(&[0xabc, 40], 0xffff_ffbc), (&[0xabc, 32], 0)]);
}

#[test]
fn comparisons_with_a_predicate() {
    for (with, [both, first, second, none]) in [("and", [1, 0, 0, 0]), ("or", [1, 1, 1, 0]), ("xor", [0, 1, 1, 0])] {
        let rows: &[(&[u64], u64)] =
            &[(&[1, 2, 1], both), (&[1, 2, 0], first), (&[2, 1, 1], second), (&[2, 1, 0], none)];
        check(&format!("setp.lt.{with}.s32"), &["pred", "u32", "u32", "pred"], rows);
    }
    // The second destination is the opposite comparison with the same predicate.
    let text = "setp.gt.and.f64 _|$d, $s0, $s1, !$s2;";
    let rows: &[(&[u64], u64)] = &[(&[d(1.0), d(2.0), 0], 1), (&[d(1.0), d(2.0), 1], 0), (&[d(3.0), d(2.0), 0], 0)];
    check(text, &["pred", "f64", "f64", "pred"], rows);
}

#[test]
fn negative_results_become_zero() {
    let (one, minus_two, nan) = (0x3c00, 0xc000, 0x7e01);
    check(
        "fma.rn.relu.f16",
        &["b16"; 4],
        &[(&[one, one, minus_two], 0), (&[one, one, one], 0x4000), (&[nan, one, one], 0x7fff)],
    );
    check("fma.rn.relu.bf16x2", &["b32"; 4], &[(&[0x3f80_bf80, 0x3f80_3f80, 0], 0x3f80_0000)]);
    check("cvt.rn.relu.f16x2.f32", &["b32", "f32", "f32"], &[(&[f(-1.5), f(1.0)], 0x0000_3c00)]);
    check("cvt.rn.relu.bf16.f32", &["b16", "f32"], &[(&[f(-1.5)], 0), (&[f(1.5)], 0x3fc0)]);
}

#[test]
fn signs_saturation_and_subnormals() {
    check("copysign.f32", &["f32"; 3], &[(&[f(-1.0), f(2.0)], f(-2.0)), (&[f(0.0), f(-3.0)], f(3.0))]);
    check("copysign.f64", &["f64"; 3], &[(&[d(-0.0), d(2.0)], d(-2.0))]);
    check("add.sat.s32", &["u32"; 3], &[(&[0x7fff_ffff, 1], 0x7fff_ffff), (&[0x8000_0000, 0xffff_ffff], 0x8000_0000)]);
    check("sub.sat.s32", &["u32"; 3], &[(&[5, 7], 0xffff_fffe), (&[0x8000_0000, 1], 0x8000_0000)]);
    let least = f32::from_bits(1);
    check("add.ftz.f32", &["f32"; 3], &[(&[f(least), f(least)], f(0.0)), (&[f(-least), f(-0.0)], f(-0.0))]);
    check("mul.rz.ftz.f32", &["f32"; 3], &[(&[f(1e-30), f(1e-10)], f(0.0)), (&[f(2.0), f(3.0)], f(6.0))]);
    check(
        "fma.rn.ftz.sat.f32",
        &["f32"; 4],
        &[(&[f(2.0), f(3.0), f(-5.5)], f(0.5)), (&[f(2.0), f(3.0), f(0.0)], f(1.0))],
    );
    check("add.sat.f32", &["f32"; 3], &[(&[f(-2.0), f(1.0)], f(0.0)), (&[f(f32::NAN), f(1.0)], f(0.0))]);
    check("min.ftz.f32", &["f32"; 3], &[(&[f(-least), f(1.0)], f(-0.0))]);
    check("setp.gt.ftz.f32", &["pred", "f32", "f32"], &[(&[f(least), f(0.0)], 0), (&[f(1.0), f(least)], 1)]);
    check("cvt.ftz.f64.f32", &["f64", "f32"], &[(&[f(-least)], d(-0.0))]);
    check("cvt.rn.ftz.f32.f64", &["f32", "f64"], &[(&[d(1e-40)], f(0.0)), (&[d(0.1)], f(0.1))]);
    check("add.sat.f16", &["b16"; 3], &[(&[0x3c00, 0x3c00], 0x3c00), (&[0xbc00, 0x3800], 0)]);
    // The same register three times.
    check("fma.rn.ftz.f32 $d, $s0, $s0, $s0;", &["f32"; 2], &[(&[f(least)], f(0.0)), (&[f(2.0)], f(6.0))]);
    check("mul.ftz.f32 $s0, $s0, $s0; mov.f32 $d, $s0;", &["f32"; 2], &[(&[f(1e-30)], f(0.0)), (&[f(3.0)], f(9.0))]);
}

/// Measured on an H200.
#[test]
fn approximations_of_the_upper_word() {
    let (nan, infinity) = (0x7fff_ffff << 32, d(f64::INFINITY));
    check(
        "rcp.approx.ftz.f64",
        &["f64"; 2],
        &[
            (&[d(-1.0)], d(-1.0)),
            (&[d(3.0)], 0x3fd5_5555_0000_0000),
            (&[0x7e37_e43c_8800_759c], 0x01a5_6e20_0000_0000),
            // The lower word does not count, even where it distinguishes a NaN from an infinity.
            (&[0x3ff0_0000_ffff_ffff], d(1.0)),
            (&[0x7ff0_0000_0000_0001], 0),
            (&[0x7ff1_2345_0000_abcd], nan),
            // Subnormal numbers are zero, as operands and as results.
            (&[d(-5e-324)], d(f64::NEG_INFINITY)),
            (&[d(2f64.powi(1023))], 0),
            (&[d(2f64.powi(1022))], d(2f64.powi(-1022))),
            (&[d(-0.0)], d(f64::NEG_INFINITY)),
            (&[d(f64::NEG_INFINITY)], d(-0.0)),
        ],
    );
    check(
        "rsqrt.approx.ftz.f64",
        &["f64"; 2],
        &[
            (&[d(4.0)], d(0.5)),
            (&[d(2.0)], 0x3fe6_a09e_0000_0000),
            (&[d(-1.0)], nan),
            (&[d(5e-324)], infinity),
            (&[d(-0.0)], d(f64::NEG_INFINITY)),
            (&[infinity], 0),
        ],
    );
}

#[test]
fn every_nan_of_single_precision_is_the_same() {
    let (nan, infinity) = (0xffc1_2345, f(f32::INFINITY));
    for op in ["add", "sub", "mul", "div.rn", "add.rz", "mul.rp", "div.rm"] {
        check(&format!("{op}.f32"), &["f32"; 3], &[(&[nan, f(1.0)], 0x7fff_ffff), (&[f(1.0), nan], 0x7fff_ffff)]);
    }
    check("sub.f32", &["f32"; 3], &[(&[infinity, infinity], 0x7fff_ffff)]);
    check("fma.rn.f32", &["f32"; 4], &[(&[infinity, 0, f(1.0)], 0x7fff_ffff)]);
    check("sqrt.rn.f32", &["f32"; 2], &[(&[f(-1.0)], 0x7fff_ffff)]);
}

const MODULE: &str = ".version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 100;
.global .align 8 .b8 zeros[16];
.const .align 4 .b8 table[12] = {1, 0, 0, 0, 2, 1, 0, 0, 255};
.func (.param .b32 sum) triangle(.param .b32 n, .param .b32 step)
{
    .reg .b32 %r<6>;
    .reg .pred %p<3>;
    .local .align 4 .b8 kept[8];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [step];
    mov.pred %p2, 0;
    mov.u32 %r3, 0;
    setp.eq.u32 %p1, %r1, 5;
    @%p1 bra early;
again:
    add.u32 %r3, %r3, %r1;
    st.local.u32 [kept+4], %r3;
    sub.u32 %r1, %r1, %r2;
    setp.gt.s32 %p1, %r1, 0;
    or.pred %p1, %p1, %p2;
    @%p1 bra again;
    ld.local.u32 %r3, [kept+4];
    st.param.b32 [sum], %r3;
    ret;
early:
    st.param.b32 [sum], 555;
    ret;
}
.func loop() { call.uni loop; ret; }
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .b64 %d<4>;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    {
        .param .b32 a; .param .b32 b; .param .b32 c;
        st.param.b32 [a], %r1;
        st.param.b32 [b], 2;
        call.uni (c), triangle, (a, b);
        ld.param.b32 %r2, [c];
    }
    rem.u32 %r3, %r1, 3;
    mul.wide.u32 %d1, %r3, 4;
    mov.u64 %d2, table;
    add.u64 %d1, %d1, %d2;
    ld.const.u32 %r3, [%d1];
    atom.global.add.u32 %r4, [counter], 1;
    match.any.sync.b32 %r5, %r3, -1;
    match.all.sync.b32 %r6|%p, %r3, -1;
    @%p mov.u32 %r6, 77;
    ld.param.u64 %d1, [out];
    mad.wide.u32 %d1, %r1, 16, %d1;
    st.global.v4.u32 [%d1], {%r2, %r3, %r5, %r6};
    setp.gt.u32 %p, %r4, 400;
    @%p call.uni loop;
}
";

#[test]
fn functions_tables_and_variables() {
    let mut device = Device::new(MODULE);
    let out = device.reserve("out", 32 * 16);
    let triangle = |n: u32| if n == 5 { 555 } else { (0..=n).filter(|i| i % 2 == n % 2).sum() };
    let launch = || device.launch([1; 3], [32, 1, 1], &[Arg::U64(out)]);
    for _ in 0..9 {
        launch().unwrap_or_else(|violation| panic!("{violation}"));
        let words = device.words(out, 128);
        for thread in 0..32 {
            let same = (0..32).filter(|other| other % 3 == thread % 3).fold(0u32, |mask, other| mask | 1 << other);
            let wanted = [triangle(thread), [1, 0x102, 255][thread as usize % 3], same, 0];
            assert_eq!(words[4 * thread as usize..][..4], wanted, "thread {thread}");
        }
    }
    // The variable keeps the sum of earlier launches; endless recursion is an error when it is reached.
    let violation = launch().map(|_| ()).expect_err("the tenth launch counts beyond 400");
    assert_eq!(violation.kind, ViolationKind::StackOverflow);
    assert!(violation.message.contains("`loop`"), "{violation}");
}

/// Each thread calls the function at the address that it has: `first` if the number of the thread is a multiple of 3,
/// otherwise `second`; thread 7 calls none.
const BY_ADDRESS: &str = ".version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) first(.param .b32 x);
.func (.param .b32 r) second(.param .b32 x) {
    .reg .b32 %a;
    ld.param.u32 %a, [x];
    mad.lo.u32 %a, %a, 10, 2;
    st.param.u32 [r], %a;
    ret;
}
.func (.param .b32 r) first(.param .b32 x) {
    .reg .b32 %a;
    .reg .pred %p;
    ld.param.u32 %a, [x];
    setp.lt.u32 %p, %a, 4;
    @%p bra small;
    add.u32 %a, %a, 1000;
small:
    st.param.u32 [r], %a;
    ret;
}
.visible .entry k(.param .u64 out, .param .u64 other) {
    .reg .b64 %o, %f, %g;
    .reg .b32 %t, %r, %v;
    .reg .pred %p, %called;
    ld.param.u64 %o, [out];
    ld.param.u64 %g, [other];
    mov.u32 %t, %tid.x;
    mov.u32 %v, 77;
    rem.u32 %r, %t, 3;
    setp.eq.u32 %p, %r, 0;
    mov.u64 %f, second;
    @%p mov.u64 %f, first;
    setp.ne.u64 %p, %g, 0;
    @%p mov.u64 %f, %g;
    setp.ne.u32 %called, %t, 7;
    {
        .param .b32 p0;
        .param .b32 r0;
        st.param.b32 [p0], %t;
        st.param.b32 [r0], %v;
        prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
        @%called call (r0), %f, (p0), prototype;
        targets: .calltargets first, second;
        @%called call (r0), %f, (p0), targets;
        ld.param.b32 %v, [r0];
    }
    mad.wide.u32 %o, %t, 4, %o;
    st.global.u32 [%o], %v;
    ret;
}
";

#[test]
fn functions_are_called_by_address() {
    let mut device = Device::new(BY_ADDRESS);
    let out = device.reserve("out", 32 * 4);
    let launch = |other| device.launch([1; 3], [32, 1, 1], &[Arg::U64(out), Arg::U64(other)]);
    launch(0).unwrap_or_else(|violation| panic!("{violation}"));
    let wanted = |thread: u32| match thread {
        7 => 77,
        _ if !thread.is_multiple_of(3) => 10 * thread + 2,
        0..4 => thread,
        _ => thread + 1000,
    };
    assert_eq!(device.words(out, 32), (0..32).map(wanted).collect::<Vec<_>>());
    // No function has this address.
    let violation = launch(4096).map(|_| ()).expect_err("there is nothing at 4096");
    assert_eq!(violation.kind, ViolationKind::UnknownInstruction);
}

/// Functions in tables, one of them declared before and defined after the entry. Each thread calls the one of its
/// parity, through an address in another variable, and adds a number that a third variable points to.
const TABLES: &str = ".version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) later(.param .b32 x);
.func (.param .b32 r) sooner(.param .b32 x) {
    .reg .b32 %a;
    ld.param.u32 %a, [x];
    add.u32 %a, %a, 100;
    st.param.u32 [r], %a;
    ret;
}
.global .align 8 .u64 methods[3] = {0, later, sooner};
.global .align 4 .u32 numbers[3] = {5, 6, 7};
.const .align 4 .u32 fixed[2] = {1000, 2000};
.global .align 8 .u64 object[3] = {generic(methods)+8, generic(numbers)+4, generic(fixed)+4};
.visible .entry k(.param .u64 out) {
    .reg .b64 %o, %f, %t, %n;
    .reg .b32 %i, %p, %v, %w;
    ld.param.u64 %o, [out];
    mov.u32 %i, %tid.x;
    and.b32 %p, %i, 1;
    ld.global.u64 %t, [object];
    mad.wide.u32 %t, %p, 8, %t;
    ld.u64 %f, [%t];
    {
        .param .b32 p0;
        .param .b32 r0;
        st.param.b32 [p0], %i;
        prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
        call (r0), %f, (p0), prototype;
        ld.param.b32 %v, [r0];
        mov.u64 %f, later;
        st.param.b32 [p0], %v;
        call (r0), %f, (p0), prototype;
        ld.param.b32 %v, [r0];
    }
    ld.global.u64 %n, [object+8];
    ld.u32 %w, [%n];
    add.u32 %v, %v, %w;
    ld.global.u64 %n, [object+16];
    ld.u32 %w, [%n];
    add.u32 %v, %v, %w;
    mad.wide.u32 %o, %i, 4, %o;
    st.global.u32 [%o], %v;
    ret;
}
.func (.param .b32 r) later(.param .b32 x) {
    .reg .b32 %a;
    ld.param.u32 %a, [x];
    shl.b32 %a, %a, 1;
    st.param.u32 [r], %a;
    ret;
}
";

#[test]
fn variables_contain_addresses() {
    let mut device = Device::new(TABLES);
    let out = device.reserve("out", 32 * 4);
    // The second launch finds the variables as the first left them.
    for _ in 0..2 {
        device.launch([1; 3], [32, 1, 1], &[Arg::U64(out)]).unwrap_or_else(|violation| panic!("{violation}"));
        let wanted = |thread: u32| 2 * (if thread.is_multiple_of(2) { 2 * thread } else { thread + 100 }) + 6 + 2000;
        assert_eq!(device.words(out, 32), (0..32).map(wanted).collect::<Vec<_>>());
    }
}
