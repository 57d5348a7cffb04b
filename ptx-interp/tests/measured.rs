//! The behaviour of an H200 in cases where the PTX ISA leaves the result undefined.

use crate::arithmetic::{check, d, f};

#[test]
fn division_by_zero_sets_every_bit() {
    for op in ["div", "rem"] {
        for (ty, ones) in [("16", 0xffff), ("32", 0xffff_ffff), ("64", u64::MAX)] {
            for sign in ["u", "s"] {
                let ty = format!("{sign}{ty}");
                check(&format!("{op}.{ty}"), &[ty.as_str(); 3], &[(&[7, 0], ones), (&[0, 0], ones)]);
            }
        }
    }
}

/// A quiet NaN, a negative one, a signaling one, and the quiet form of the signaling one.
const NANS: [u64; 4] = [0x7ff8_0000_0000_0000, 0xfff8_0000_0000_0001, 0x7ff0_0000_0000_0001, 0x7ff8_0000_0000_0001];
const INVALID: u64 = 0xfff8_0000_0000_0000;

#[test]
fn double_precision_propagates_the_second_nan() {
    let [plain, negative, signaling, quiet] = NANS;
    let infinity = f64::INFINITY;
    let rows: &[(&[u64], u64)] = &[
        (&[plain, negative], negative),
        (&[negative, plain], plain),
        (&[plain, signaling], quiet),
        (&[negative, d(1.0)], negative),
        (&[d(1.0), signaling], quiet),
    ];
    for op in ["add", "sub", "mul"] {
        for mode in ["rn", "rz", "rm", "rp"] {
            check(&format!("{op}.{mode}.f64"), &["f64"; 3], rows);
        }
    }
    let both: &[(&[u64], u64)] = &rows[..3];
    check("min.f64", &["f64"; 3], both);
    check("max.f64", &["f64"; 3], both);
    for mode in ["rn", "rz", "rm", "rp"] {
        let op = |op: &str| format!("{op}.{mode}.f64");
        check(&op("add"), &["f64"; 3], &[(&[d(infinity), d(-infinity)], INVALID)]);
        check(&op("sub"), &["f64"; 3], &[(&[d(infinity), d(infinity)], INVALID)]);
        check(&op("mul"), &["f64"; 3], &[(&[d(infinity), d(0.0)], INVALID)]);
        let first: &[(&[u64], u64)] =
            &[(&[plain, negative], plain), (&[signaling, plain], quiet), (&[d(0.0), d(0.0)], INVALID)];
        check(&op("div"), &["f64"; 3], first);
        check(
            &op("fma"),
            &["f64"; 4],
            &[
                (&[plain, negative, signaling], negative),
                (&[d(1.0), plain, signaling], plain),
                (&[plain, d(1.0), signaling], quiet),
                (&[signaling, d(1.0), d(1.0)], quiet),
                (&[d(infinity), d(0.0), plain], plain),
                (&[d(infinity), d(0.0), d(1.0)], INVALID),
            ],
        );
        check(&op("sqrt"), &["f64"; 2], &[(&[d(-1.0)], INVALID), (&[signaling], quiet), (&[negative], negative)]);
        check(&op("rcp"), &["f64"; 2], &[(&[signaling], quiet), (&[negative], negative)]);
    }
}

#[test]
fn signs_are_arithmetic() {
    let [plain, negative, signaling, quiet] = NANS;
    for op in ["abs", "neg"] {
        let double: &[(&[u64], u64)] = &[(&[plain], plain), (&[negative], negative), (&[signaling], quiet)];
        check(&format!("{op}.f64"), &["f64"; 2], double);
        let single: &[(&[u64], u64)] = &[(&[0x7fc0_0000], 0x7fff_ffff), (&[0xff80_0001], 0x7fff_ffff)];
        check(&format!("{op}.f32"), &["f32"; 2], single);
        check(&format!("{op}.ftz.f32"), &["f32"; 2], single);
        for ty in ["f16", "bf16"] {
            check(&format!("{op}.{ty}"), &["b16"; 2], &[(&[0x7fc0], 0x7fff), (&[0xffff], 0x7fff)]);
        }
    }
    check("neg.f32", &["f32"; 2], &[(&[f(0.0)], f(-0.0)), (&[f(-f32::INFINITY)], f(f32::INFINITY))]);
    check("abs.f64", &["f64"; 2], &[(&[d(-0.0)], d(0.0)), (&[d(-2.5)], d(2.5))]);
}

#[test]
fn nans_are_converted() {
    let [plain, negative, signaling, _] = NANS;
    let payload = 0xfff5_a5a5_a5a5_a5a5;
    for mode in ["rn", "rz", "rm", "rp"] {
        let single: &[(&[u64], u64)] = &[
            (&[plain], 0x7fc0_0000),
            (&[negative], 0xffc0_0000),
            (&[payload], 0xffed_2d2d),
            (&[signaling], 0x7fc0_0000),
        ];
        check(&format!("cvt.{mode}.f32.f64"), &["f32", "f64"], single);
        check(&format!("cvt.{mode}.ftz.f32.f64"), &["f32", "f64"], single);
        check(&format!("cvt.{mode}.sat.f32.f64"), &["f32", "f64"], &[(&[plain], 0), (&[payload], 0)]);
        let half: &[(&[u64], u64)] = &[(&[plain], 0x7e00), (&[negative], 0xfe00), (&[payload], 0xff69)];
        check(&format!("cvt.{mode}.f16.f64"), &["b16", "f64"], half);
        check(&format!("cvt.{mode}i.f64.f64"), &["f64"; 2], &[(&[payload], payload | 1 << 51), (&[plain], plain)]);
        let top: &[(&[u64], u64)] = &[(&[plain], 0xffff_ff80), (&[negative], 0xffff_ff80)];
        check(&format!("cvt.{mode}i.s8.f64"), &["s32", "f64"], top);
        check(&format!("cvt.{mode}i.u8.f64"), &["u32", "f64"], &[(&[plain], 0x80)]);
    }
    let wide: &[(&[u64], u64)] = &[(&[0xffc0_0000], 0xfff8_0000_0000_0000), (&[0x7f80_0001], 0x7ff8_0000_2000_0000)];
    check("cvt.f64.f32", &["f64", "f32"], wide);
    check("cvt.ftz.f64.f32", &["f64", "f32"], &[(&[0xffc0_0000], 0x7fff_ffff_e000_0000)]);
    check("cvt.f64.f16", &["f64", "b16"], &[(&[0xfe00], 0xfff8_0000_0000_0000), (&[0x7c01], 0x7ff8_0400_0000_0000)]);
    check("cvt.f32.bf16", &["f32", "b16"], &[(&[0x7fc0], 0x7fc0_0000), (&[0xff81], 0xff81_0000)]);
    check("cvt.f32.f16", &["f32", "b16"], &[(&[0xfe00], 0x7fff_ffff)]);
}

#[test]
fn tf32_has_two_kinds_of_nan() {
    let cut: &[(&[u64], u64)] = &[
        (&[0x7fff_ffff], 0x7fff_e000),
        (&[0xffc0_0000], 0xffc0_0000),
        (&[0x7f80_0001], 0x7f80_0000),
        (&[f(f32::INFINITY)], f(f32::INFINITY)),
        (&[f(f32::MAX)], f(f32::INFINITY)),
    ];
    check("cvt.rna.tf32.f32", &["b32", "f32"], cut);
    for mode in ["rn", "rz"] {
        let own: &[(&[u64], u64)] =
            &[(&[0x7fff_ffff], 0x7fff_e000), (&[0xffc0_0000], 0x7fff_e000), (&[f(-f32::INFINITY)], f(-f32::INFINITY))];
        check(&format!("cvt.{mode}.tf32.f32"), &["b32", "f32"], own);
    }
}

#[test]
fn subnormals_on_the_way_to_f16_are_not_flushed() {
    check("cvt.rm.ftz.f16.f32", &["b16", "f32"], &[(&[0x8000_0001], 0x8001), (&[1], 0)]);
    check("cvt.rp.ftz.sat.f16.f32", &["b16", "f32"], &[(&[1], 1)]);
}

#[test]
fn results_are_flushed_by_what_they_were_before_they_lost_bits() {
    const LEAST: u64 = 0x0080_0000;
    const SIGN: u64 = 0x8000_0000;
    // (1 - 2^-24) * 2^-126 has 24 bits, and only subnormal floats are between it and 2^-126.
    let below = [0x3f7f_ffff, LEAST];
    check("mul.f32", &["f32"; 3], &[(&below, LEAST)]);
    // (1 - 2^-46) * 2^-126 is 2^-126 with 24 bits, unless it is rounded towards zero.
    let close = [0x3f7f_fffe, LEAST + 1];
    for (mode, rest) in [("rn", LEAST), ("rz", 0), ("rm", 0), ("rp", LEAST)] {
        let minus = if mode == "rm" || mode == "rn" { SIGN | LEAST } else { SIGN };
        let rows: &[(&[u64], u64)] = &[(&below, 0), (&close, rest), (&[SIGN | close[0], close[1]], minus)];
        check(&format!("mul.{mode}.ftz.f32"), &["f32"; 3], rows);
        check(&format!("fma.{mode}.ftz.f32 $d, $s0, $s1, 0f00000000;"), &["f32"; 3], rows);
        check(&format!("mul.{mode}.ftz.sat.f32"), &["f32"; 3], &rows[..2]);
    }
    check("mul.rn.ftz.f32 $s0, $s0, $s1; mov.f32 $d, $s0;", &["f32"; 3], &[(&below, 0), (&close, LEAST)]);
    check("div.rp.ftz.f32", &["f32"; 3], &[(&[LEAST, 0x3f80_0001], 0), (&[LEAST, 0x3f80_0000], LEAST)]);
    check("rcp.rp.ftz.f32", &["f32"; 2], &[(&[0x7e80_0001], 0), (&[0x7e80_0000], LEAST)]);
    check("mul.ftz.f16", &["b16"; 3], &[(&[0x3bff, 0x0400], 0), (&[0x3bfe, 0x0401], 0x0400)]);
    check("mul.ftz.f16x2", &["b32"; 3], &[(&[0xbbff_3bfe, 0x0400_0401], 0x8000_0400)]);
    for (mode, tie, more) in [("rn", 0, 0), ("rp", 0, LEAST), ("rm", 0, 0), ("rz", 0, 0)] {
        let half = if mode == "rn" || mode == "rp" { LEAST } else { 0 };
        let [exact, above, middle] = [0x380f_ffff_e000_0000, 0x380f_ffff_e000_0001, 0x380f_ffff_f000_0000];
        let rows: &[(&[u64], u64)] = &[(&[exact], tie), (&[above], more), (&[middle], half)];
        check(&format!("cvt.{mode}.ftz.f32.f64"), &["f32", "f64"], rows);
        check(&format!("cvt.{mode}.ftz.sat.f32.f64"), &["f32", "f64"], rows);
    }
    check("cvt.rm.ftz.f32.f64", &["f32", "f64"], &[(&[0xb80f_ffff_e000_0001], SIGN | LEAST)]);
}
