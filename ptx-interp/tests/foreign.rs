//! Arithmetic of other compilers, with results that were measured on an H200 unless the PTX ISA defines them.

use crate::arithmetic::{check, d, f};
use crate::ring::{STORE, check as check_body, check_found, text};
use crate::run::Device;
use ptx_gemm_interp::{Arg, ViolationKind};

const NAN: u64 = 0xffc1_2345;

#[test]
fn kinds_of_floats() {
    let kinds = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
    let test = |ty: &str, value: u64, wanted: [u64; 6]| {
        for (kind, wanted) in kinds.iter().zip(wanted) {
            check(&format!("testp.{kind}.{ty}"), &["pred", ty], &[(&[value], wanted)]);
        }
    };
    // Zero counts as normal.
    test("f32", f(-0.0), [1, 0, 1, 0, 1, 0]);
    test("f32", f(1.5), [1, 0, 1, 0, 1, 0]);
    test("f32", f(-1e-40), [1, 0, 1, 0, 0, 1]);
    test("f32", f(f32::NEG_INFINITY), [0, 1, 1, 0, 0, 0]);
    test("f32", NAN, [0, 0, 0, 1, 0, 0]);
    test("f64", d(5e-324), [1, 0, 1, 0, 0, 1]);
    test("f64", d(f64::NAN), [0, 0, 0, 1, 0, 0]);
    test("f64", d(f64::INFINITY), [0, 1, 1, 0, 0, 0]);
}

#[test]
fn integers() {
    check("cnot.b32", &["u32"; 2], &[(&[0], 1), (&[7], 0)]);
    check("cnot.b64", &["u64"; 2], &[(&[0], 1), (&[1 << 40], 0)]);
    check("dp2a.lo.s32.u32", &["u32"; 4], &[(&[0xffff_0002, 0x0403_ff05, 10], 0xffff_ff15)]);
    check("dp2a.hi.s32.s32", &["u32"; 4], &[(&[0xffff_0002, 0xfe03_0000, 10], 10 + 2 * 3 + 2)]);
    check("dp2a.hi.u32.u32", &["u32"; 4], &[(&[0xffff_0002, 0xfe03_0000, 0], 2 * 3 + 0xffff * 0xfe)]);
    check(
        "mad.hi.sat.s32",
        &["u32"; 4],
        &[
            (&[0x4000_0000, 0x4000_0000, 0x7000_0000], 0x7fff_ffff),
            (&[0xc000_0000, 0x4000_0000, 0x8000_0000], 0x8000_0000),
            (&[0x4000_0000, 4, 5], 6),
        ],
    );
    check("add.s16x2", &["u32"; 3], &[(&[0x7fff_ffff, 0x0001_0001], 0x8000_0000)]);
    check("min.s16x2", &["u32"; 3], &[(&[0x8000_0003, 0x0001_0002], 0x8000_0002)]);
    check("max.u16x2", &["u32"; 3], &[(&[0x8000_0003, 0x0001_0002], 0x8000_0003)]);
    check("max.relu.s16x2", &["u32"; 3], &[(&[0x8000_0003, 0xffff_0002], 0x0000_0003)]);
    check("min.relu.s32", &["u32"; 3], &[(&[0xffff_ffff, 5], 0), (&[7, 5], 5)]);
}

/// LLVM reads a narrow integer in a wide register, and rounds between the floats of 16 bits without saying how.
#[test]
fn conversions_from_a_part_of_a_register() {
    let wide = 0x1234_5678_ffff_fff0;
    check("cvt.s64.s8", &["u64"; 2], &[(&[wide], 0xffff_ffff_ffff_fff0)]);
    check("cvt.u64.u16", &["u64"; 2], &[(&[wide], 0xfff0)]);
    check("cvt.s32.s16", &["u32", "u64"], &[(&[wide], 0xffff_fff0)]);
    check("cvt.rn.f32.u16", &["f32", "u64"], &[(&[wide], f(65520.0))]);
    check("cvt.rn.f64.s32", &["f64", "u64"], &[(&[wide], d(-16.0))]);
    check("cvt.bf16.f16", &["u16"; 2], &[(&[0x3c01], 0x3f80), (&[0x3c07], 0x3f81)]);
}

/// The smallest and the largest f32 of a warp, as sm_100a finds them.
#[test]
fn extrema_of_a_warp() {
    let run = |mnemonic: &str, nan: bool| {
        let device = Device::new(&format!(
            ".version 8.6\n.target sm_100a\n.address_size 64
             .visible .entry k(.param .u64 out) {{
             .reg .b64 %o; .reg .b32 %t; .reg .f32 %f<4>; .reg .pred %p;
             ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
             cvt.rn.f32.u32 %f0, %t; sub.f32 %f0, %f0, 0f41C80000;
             setp.eq.u32 %p, %t, 7; @%p mov.f32 %f0, {};
             {mnemonic} %f1, %f0, 0xffffffff; setp.eq.u32 %p, %t, 9; @%p st.global.f32 [%o], %f1;
             ret; }}",
            if nan { "0f7FC00001" } else { "0f80000000" },
        ));
        let out = device.upload("out", &[0u32]);
        device.launch([1, 1, 1], [32, 1, 1], &[Arg::U64(out)]).expect("right");
        u64::from(device.words(out, 1)[0])
    };
    // -25 to 6, with -0 or a NaN in lane 7.
    for (mnemonic, of_numbers, of_nan) in [
        ("redux.sync.min.f32", f(-25.0), f(-25.0)),
        ("redux.sync.max.f32", f(6.0), f(6.0)),
        ("redux.sync.max.NaN.f32", f(6.0), 0x7fff_ffff),
        ("redux.sync.max.abs.f32", f(25.0), f(25.0)),
        ("redux.sync.min.abs.NaN.f32", f(0.0), 0x7fff_ffff),
    ] {
        assert_eq!([run(mnemonic, false), run(mnemonic, true)], [of_numbers, of_nan], "{mnemonic}");
    }
}

#[test]
fn bits_and_a_predicate() {
    let both = |with: &str| format!("lop3.{with}.b32 $s1|$p, $s0, $s1, 0xff, 0xc0, $s2; selp.u32 $d, 1, 0, $p;");
    let rows = |wanted: [u64; 4]| [(12, 4, 1), (12, 3, 1), (12, 4, 0), (12, 3, 0)].into_iter().zip(wanted);
    for (with, wanted) in [("and", [1, 0, 0, 0]), ("or", [1, 1, 1, 0])] {
        for ((a, b, q), wanted) in rows(wanted) {
            check(&both(with), &["u32", "u32", "u32", "pred"], &[(&[a, b, q], wanted)]);
        }
    }
    let value = "lop3.and.b32 $d|$p, $s0, $s1, 0xff, 0x80, !$p; ";
    check(&format!("mov.pred $p, 0; {value}"), &["u32"; 3], &[(&[0x1fc, 0xf4], 0xf4)]);
    let sink = "lop3.or.b32 _|$p, $s0, $s1, 0xff, 0x80, 0; selp.u32 $d, 1, 0, $p;";
    check(sink, &["u32"; 3], &[(&[0x100, 0x100], 0), (&[3, 1], 1)]);
    // The value does not depend on the predicate. The predicate result depends on it only if the value does not decide.
    let known = format!("lop3.and.b32 %r0|%p1, %t, 0, 0, 0x80, %p0; @%p1 add.u32 %r0, %r0, 1; {STORE}");
    check_body("decided by the value", &known, 32, &[0; 32]);
    let unknown = format!("lop3.or.b32 %r0|%p1, %t, 0, 0, 0x80, %p0; @%p1 add.u32 %r0, %r0, 1; {STORE}");
    check_found("not decided", &[ViolationKind::Uninitialised], &unknown, 32);
    let unknown = format!("lop3.and.b32 %r0|%p1, %r3, 1, 0, 0xc0, 0; {STORE}");
    check_found("the value", &[ViolationKind::Uninitialised], &unknown, 32);
}

#[test]
fn magnitudes_with_both_signs() {
    let rows: &[(&[u64], u64)] = &[
        (&[f(-3.0), f(2.0)], f(-3.0)),
        (&[f(-3.0), f(-4.0)], f(4.0)),
        (&[0, NAN], f(-0.0)),
        (&[NAN, f(-2.0)], f(2.0)),
        (&[NAN, NAN], 0x7fff_ffff),
    ];
    check("max.xorsign.abs.f32", &["f32"; 3], rows);
    check("min.xorsign.abs.f32", &["f32"; 3], &[(&[f(-3.0), f(2.0)], f(-2.0)), (&[NAN, f(2.0)], f(-2.0))]);
    check("max.NaN.xorsign.abs.f32", &["f32"; 3], &[(&[f(1.0), NAN], 0x7fff_ffff), (&[f(1.0), f(-2.0)], f(-2.0))]);
    check("max.ftz.xorsign.abs.f32", &["f32"; 3], &[(&[0, NAN], f(-0.0)), (&[f(1e-40), f(-0.0)], f(-0.0))]);
    check("min.xorsign.abs.f16x2", &["b32"; 3], &[(&[0x4000_bc00, 0xc200_c400], 0xc000_3c00)]);
    check("max.NaN.xorsign.abs.bf16x2", &["b32"; 3], &[(&[0x3f80_ffc0, 0xc000_3f80], 0xc000_7fff)]);
}

#[test]
fn conversions_that_stay_finite() {
    let (infinity, below) = (f(f32::INFINITY), f(f32::NEG_INFINITY));
    check(
        "cvt.rn.satfinite.f16.f32",
        &["b16", "f32"],
        &[
            (&[NAN], 0x7fff),
            (&[infinity], 0x7bff),
            (&[below], 0xfbff),
            (&[f(65520.0)], 0x7bff),
            (&[f(-2.0)], 0xc000),
            (&[0x8000_0001], 0x8000),
        ],
    );
    check("cvt.rz.satfinite.f16x2.f32", &["b32", "f32", "f32"], &[(&[below, f(1e10)], 0xfbff_7bff)]);
    check("cvt.rn.satfinite.relu.f16x2.f32", &["b32", "f32", "f32"], &[(&[below, infinity], 0x7bff)]);
    check("cvt.rn.satfinite.relu.bf16x2.f32", &["b32", "f32", "f32"], &[(&[NAN, f(-2.0)], 0x7fff_0000)]);
    check("cvt.rn.satfinite.bf16.f32", &["b16", "f32"], &[(&[0x7f7f_ffff], 0x7f7f), (&[f(1e10)], 0x5015)]);
    check(
        "cvt.rna.satfinite.tf32.f32",
        &["b32", "f32"],
        &[
            (&[infinity], 0x7f7f_e000),
            (&[0x7f7f_ffff], 0x7f7f_e000),
            (&[NAN], 0xffc1_0000),
            (&[0x7f80_0001], 0x7f7f_e000),
            (&[f(65519.0)], 0x477f_e000),
        ],
    );
    check("cvt.rn.relu.tf32.f32", &["b32", "f32"], &[(&[NAN], 0x7fff_e000), (&[f(-2.0)], 0), (&[infinity], infinity)]);
}

#[test]
fn exponentials_of_bf16() {
    let rows: &[(&[u64], u64)] = &[
        (&[0x3f80_4000], 0x4000_4080),
        (&[0x0001_ff80], 0x3f80_0000),
        (&[0xc300_c301], 0),
        (&[0x7fc0_c2fc], 0x7fff_0080),
    ];
    check("ex2.approx.ftz.bf16x2", &["b32"; 2], rows);
}

#[test]
fn comparisons_of_halves() {
    let (one, two, nan) = (0x3c00u64, 0x4000u64, 0x7e00u64);
    let (a, b) = (two << 16 | one, one << 16 | nan);
    check("set.gt.f16x2.f16x2", &["b32"; 3], &[(&[a, b], 0x3c00_0000), (&[one << 16 | two, a], 0x3c00)]);
    check("set.geu.f16x2.f16x2", &["b32"; 3], &[(&[a, b], 0x3c00_3c00)]);
    check("set.gt.u32.f16x2", &["b32"; 3], &[(&[a, b], 0xffff_0000)]);
    check("set.lt.bf16x2.bf16x2", &["b32"; 3], &[(&[0x3f80_4000, 0x4000_3f80], 0x3f80_0000)]);
    check("set.lt.f16.f32", &["b16", "f32", "f32"], &[(&[f(1.0), f(2.0)], 0x3c00)]);
    check("set.lt.bf16.s32", &["b16", "u32", "u32"], &[(&[0xffff_ffff, 0], 0x3f80)]);
    check("set.lt.u16.f16", &["u16", "b16", "b16"], &[(&[one, two], 0xffff), (&[two, one], 0)]);
    check("set.gt.ftz.f16x2.f16x2", &["b32"; 3], &[(&[1 << 16 | two, one], 0x3c00)]);
}

#[test]
fn halves_and_bytes() {
    check(
        "vadd2.s32.s32.s32.sat",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x7bc1_7fff),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0xde6e_e234),
        ],
    );
    check(
        "vadd4.u32.u32.u32",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x7bc1_9f45),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0xdd6e_e134),
        ],
    );
    check(
        "vadd4.s32.u32.s32.add",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x2b9c_046e),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x3313_8291),
        ],
    );
    check(
        "vsub2.u32.s32.u32.sat",
        &["u32"; 4],
        &[(&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x0), (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x0)],
    );
    check(
        "vsub4.s32.s32.s32",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x83c1_a745),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x2114_6556),
        ],
    );
    check(
        "vavrg2.s32.s32.s32",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x3de1_4fa3),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0xef37_f11a),
        ],
    );
    check(
        "vavrg4.u32.u32.u32",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0xbe61_5023),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0xefb7_719a),
        ],
    );
    check(
        "vabsdiff4.u32.u32.u32.add",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x2b9c_0330),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x3313_82ab),
        ],
    );
    check(
        "vabsdiff2.s32.s32.s32.sat",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x7c3f_58bb),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x2114_6456),
        ],
    );
    check(
        "vmin2.s32.u32.s32",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x7c00_2345),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0xdead_beef),
        ],
    );
    check(
        "vmax4.s32.s32.s32",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x7c00_7c45),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0xffc1_2345),
        ],
    );
    check(
        "vset4.u32.u32.lt",
        &["u32"; 4],
        &[(&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x100), (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x101)],
    );
    check(
        "vset2.s32.s32.ge",
        &["u32"; 4],
        &[(&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x0), (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x1_0001)],
    );
    check(
        "vset4.u32.s32.gt.add",
        &["u32"; 4],
        &[
            (&[0xffc1_2345, 0x7c00_7c00, 0x2b9c_014e], 0x2b9c_0151),
            (&[0xffc1_2345, 0xdead_beef, 0x3313_8131], 0x3313_8135),
        ],
    );
    // Half of a sum that is not negative is rounded up.
    check("vavrg2.s32.s32.s32", &["u32"; 4], &[(&[0x0001_ffff, 0x0002_fffe, 0], 0x0002_fffe)]);
}

/// Targets before sm_100 do not have it; the interpreter does not check the target.
#[test]
fn extremes_of_three() {
    check("max.f32", &["f32"; 4], &[(&[f(1.0), f(3.0), f(2.0)], f(3.0)), (&[f(1.0), NAN, f(2.0)], f(2.0))]);
    check("min.NaN.f32", &["f32"; 4], &[(&[f(1.0), f(3.0), NAN], 0x7fff_ffff), (&[f(1.0), f(3.0), f(-0.0)], f(-0.0))]);
    check("min.ftz.f32", &["f32"; 4], &[(&[f(-1e-40), f(3.0), f(1.0)], f(-0.0))]);
}

#[test]
fn a_matrix_is_transposed() {
    // The element of row r and column c is 256 r + c.
    let body = format!(
        "shr.u32 %r1, %t, 2; and.b32 %r1, %r1, 7; and.b32 %r2, %t, 3; shl.b32 %r1, %r1, 8; shl.b32 %r2, %r2, 1;
         add.u32 %r1, %r1, %r2; add.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 16; or.b32 %r1, %r1, %r2;
         movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1; {STORE}"
    );
    let element = |row: u32, column: u32| 256 * row + column;
    let want: Vec<u32> = (0..64)
        .map(|thread| {
            let (row, column) = (thread % 32 / 4, 2 * (thread % 4));
            element(column, row) | element(column + 1, row) << 16
        })
        .collect();
    check_body("transposed", &body, 64, &want);
    let apart = format!(
        "setp.eq.u32 %p0, %t, 3; @%p0 bra OUT; mov.u32 %r1, 0;
         movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1; OUT: bar.warp.sync -1; {STORE}"
    );
    check_found("a lane is missing", &[ViolationKind::BarrierMismatch], &apart, 32);
}

#[test]
fn all_components_at_once() {
    let device = Device::new(&text(
        "mov.v4.u32 {%r1, %r2, %r3, %r4}, %ntid; mul.wide.u32 %rd0, %t, 16; add.u64 %out, %out, %rd0;
         mov.u32 %r5, %tid.y; setp.eq.u32 %p0, %r5, 0; @%p0 st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};",
    ));
    let out = device.upload("out", &[7u32; 24]);
    device.launch([1; 3], [2, 3, 1], &[Arg::U64(out), Arg::U64(out)]).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(device.words(out, 8), [2, 3, 1, 0, 2, 3, 1, 0]);
}
