//! One instruction at a time: bits in, bits out, as defined by the PTX ISA.

use std::fmt::Write;

use ptx_gemm_interp::{Arg, Checks};

use crate::run::Device;

/// Runs `op d, s0, s1, …;` once per row, one thread per row, with the checks on and off. `types` are the register types
/// of the destination and the sources.
pub(crate) fn check(op: &str, types: &[&str], rows: &[(&[u64], u64)]) {
    for checks in [Checks::Off, Checks::Full] {
        let (to, from) = (types[0], &types[1..]);
        let mut text = String::from(
            ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 data) {\n\
             .reg .b64 %rd<4>;\n.reg .b32 %r;\n.reg .pred %p;\n.reg .b32 %bit;\n",
        );
        let mut line = |line: String| writeln!(text, "{line}").expect("a String takes everything");
        line(format!(".reg .{to} %d;"));
        for (index, ty) in from.iter().enumerate() {
            line(format!(".reg .{ty} %s{index};"));
        }
        line("ld.param.u64 %rd0, [data];\nmov.u32 %r, %tid.x;\nmul.wide.u32 %rd1, %r, 32;".into());
        line("add.u64 %rd2, %rd0, %rd1;".into());
        for (index, ty) in from.iter().enumerate() {
            if *ty == "pred" {
                line(format!("ld.global.u32 %bit, [%rd2+{}];\nsetp.ne.u32 %s{index}, %bit, 0;", index * 8));
            } else {
                line(format!("ld.global.{ty} %s{index}, [%rd2+{}];", index * 8));
            }
        }
        let sources: Vec<String> = (0..from.len()).map(|index| format!("%s{index}")).collect();
        line(if op.contains('$') { op.replace('$', "%") } else { format!("{op} %d, {};", sources.join(", ")) });
        match to {
            "pred" => line("selp.u32 %bit, 1, 0, %d;\nst.global.u32 [%rd2+24], %bit;".into()),
            ty => line(format!("st.global.{ty} [%rd2+24], %d;")),
        }
        line("ret;\n}".into());
        let mut device = Device::new(&text);
        device.options.checks = checks;
        let mut data: Vec<u64> = Vec::new();
        for (inputs, _) in rows {
            data.extend((0..4).map(|index| inputs.get(index).copied().unwrap_or(0)));
        }
        let at = device.upload("data", &data);
        let threads = rows.len() as u32;
        device.launch([1; 3], [threads, 1, 1], &[Arg::U64(at)]).unwrap_or_else(|v| panic!("{op}: {v}\n{text}"));
        let words = device.words(at, rows.len() * 8);
        for (row, (inputs, want)) in rows.iter().enumerate() {
            let got = u64::from(words[row * 8 + 6]) | u64::from(words[row * 8 + 7]) << 32;
            assert_eq!(got, *want, "{op} of {inputs:x?} ({checks:?}): got {got:#x}, expected {want:#x}");
        }
    }
}

pub(crate) fn f(value: f32) -> u64 {
    u64::from(value.to_bits())
}

pub(crate) fn d(value: f64) -> u64 {
    value.to_bits()
}

const NAN: u64 = 0x7fff_ffff;
const ONE_UP: u64 = 0x3f80_0001;

#[test]
fn integers_of_32_bits() {
    let u = ["u32"; 3];
    check("add.u32", &u, &[(&[u32::MAX as u64, 2], 1), (&[3, 4], 7)]);
    check("sub.s32", &u, &[(&[0, 1], 0xffff_ffff)]);
    check("mul.lo.u32", &u, &[(&[0x10001, 0x10001], 0x0002_0001)]);
    check("mul.hi.u32", &u, &[(&[0xffff_ffff, 0xffff_ffff], 0xffff_fffe)]);
    check("mul.hi.s32", &u, &[(&[0xffff_ffff, 2], 0xffff_ffff)]);
    check("mad.lo.s32", &["u32"; 4], &[(&[0xffff_ffff, 3, 10], 7)]);
    check("mad.hi.u32", &["u32"; 4], &[(&[0x8000_0000, 4, 10], 12)]);
    check("div.u32", &u, &[(&[7, 2], 3), (&[0xffff_fff9, 2], 0x7fff_fffc), (&[1, 0], 0xffff_ffff)]);
    check(
        "div.s32",
        &u,
        &[(&[0xffff_fff9, 2], 0xffff_fffd), (&[0x8000_0000, 0xffff_ffff], 0x8000_0000), (&[5, 0], 0xffff_ffff)],
    );
    check("rem.u32", &u, &[(&[7, 4], 3)]);
    check("rem.s32", &u, &[(&[0xffff_fff9, 4], 0xffff_fffd), (&[0x8000_0000, 0xffff_ffff], 0)]);
    check("min.s32", &u, &[(&[0xffff_ffff, 1], 0xffff_ffff)]);
    check("min.u32", &u, &[(&[0xffff_ffff, 1], 1)]);
    check("max.s32", &u, &[(&[0xffff_ffff, 1], 1)]);
    check("max.u32", &u, &[(&[0xffff_ffff, 1], 0xffff_ffff)]);
    check("abs.s32", &u[..2], &[(&[0xffff_fffb], 5), (&[0x8000_0000], 0x8000_0000)]);
    check("neg.s32", &u[..2], &[(&[5], 0xffff_fffb)]);
    check("not.b32", &u[..2], &[(&[0xf0f0_f0f0], 0x0f0f_0f0f)]);
    check("and.b32", &u, &[(&[0b1100, 0b1010], 0b1000)]);
    check("or.b32", &u, &[(&[0b1100, 0b1010], 0b1110)]);
    check("xor.b32", &u, &[(&[0b1100, 0b1010], 0b0110)]);
}

#[test]
fn shift_amounts_clamp() {
    check("shl.b32", &["u32"; 3], &[(&[1, 31], 0x8000_0000), (&[1, 32], 0), (&[1, 0xffff_ffff], 0)]);
    check("shr.u32", &["u32"; 3], &[(&[0x8000_0000, 31], 1), (&[0x8000_0000, 32], 0)]);
    check(
        "shr.s32",
        &["u32"; 3],
        &[(&[0x8000_0000, 31], 0xffff_ffff), (&[0x8000_0000, 99], 0xffff_ffff), (&[4, 99], 0)],
    );
    check("shl.b64", &["u64", "u64", "u32"], &[(&[1, 63], 1 << 63), (&[1, 64], 0)]);
    check("shr.u64", &["u64", "u64", "u32"], &[(&[1 << 63, 63], 1), (&[1 << 63, 64], 0)]);
    check("shr.s64", &["u64", "u64", "u32"], &[(&[1 << 63, 63], u64::MAX), (&[1 << 63, 1000], u64::MAX)]);
    check("shl.b16", &["u16", "u16", "u32"], &[(&[1, 15], 0x8000), (&[1, 16], 0), (&[1, 200], 0)]);
    check("shr.s16", &["u16", "u16", "u32"], &[(&[0x8000, 15], 0xffff), (&[0x8000, 99], 0xffff)]);
}

#[test]
fn integers_of_64_and_16_bits() {
    let u = ["u64"; 3];
    check("add.u64", &u, &[(&[u64::MAX, 2], 1)]);
    check("sub.u64", &u, &[(&[0, 1], u64::MAX)]);
    check("mul.lo.u64", &u, &[(&[1 << 40, 1 << 20], 1 << 60)]);
    check("mul.hi.u64", &u, &[(&[u64::MAX, u64::MAX], u64::MAX - 1)]);
    check("mul.hi.s64", &u, &[(&[u64::MAX, 2], u64::MAX)]);
    check("mad.lo.u64", &["u64"; 4], &[(&[1 << 40, 4, 5], (1 << 42) + 5)]);
    check("mad.hi.s64", &["u64"; 4], &[(&[1 << 63, 2, 5], 4)]);
    check(
        "div.s64",
        &u,
        &[(&[(-7i64) as u64, 2], (-3i64) as u64), (&[1 << 63, u64::MAX], 1 << 63), (&[1, 0], u64::MAX)],
    );
    check("rem.u64", &u, &[(&[100, 7], 2)]);
    check("min.s64", &u, &[(&[u64::MAX, 1], u64::MAX)]);
    check("max.u64", &u, &[(&[u64::MAX, 1], u64::MAX)]);
    check("mul.wide.u32", &["u64", "u32", "u32"], &[(&[0xffff_ffff, 2], 0x1_ffff_fffe)]);
    check("mul.wide.s32", &["u64", "u32", "u32"], &[(&[0xffff_ffff, 2], (-2i64) as u64)]);
    check("mad.wide.s32", &["u64", "u32", "u32", "u64"], &[(&[0xffff_ffff, 2, 10], 8)]);
    check("mad.wide.u32", &["u64", "u32", "u32", "u64"], &[(&[0xffff_ffff, 2, 10], 0x2_0000_0008)]);
    check("mul.wide.u16", &["u32", "u16", "u16"], &[(&[0xffff, 0xffff], 0xfffe_0001)]);
    check("mul.wide.s16", &["u32", "u16", "u16"], &[(&[0xffff, 2], 0xffff_fffe)]);
    check("add.u16", &["u16"; 3], &[(&[0xffff, 2], 1)]);
    check("mul.lo.s16", &["u16"; 3], &[(&[0xffff, 3], 0xfffd)]);
    check("not.b16", &["u16"; 2], &[(&[0x00ff], 0xff00)]);
    check("and.b64", &u, &[(&[0xff00_0000_0000_00ff, 0xf000_0000_0000_000f], 0xf000_0000_0000_000f)]);
}

#[test]
fn floats_round_once_and_keep_subnormals() {
    let t = ["f32"; 3];
    check("add.f32", &t, &[(&[f(1.0), f(2.0)], f(3.0)), (&[1, 1], 2)]);
    check("sub.rn.f32", &t, &[(&[f(1.0), f(3.0)], f(-2.0))]);
    check("mul.f32", &t, &[(&[ONE_UP, ONE_UP], 0x3f80_0002)]);
    check("div.rn.f32", &t, &[(&[f(1.0), f(3.0)], f(1.0 / 3.0)), (&[f(1.0), f(0.0)], f(f32::INFINITY))]);
    // (1 + 2^-23)^2 - (1 + 2^-22) is 2^-46, which would be lost if the product were rounded by itself.
    check("fma.rn.f32", &["f32"; 4], &[(&[ONE_UP, ONE_UP, 0xbf80_0002], f(2f32.powi(-46)))]);
    check(
        "fma.rn.f64",
        &["f64"; 4],
        &[(
            &[d(1.0 + f64::EPSILON), d(1.0 + f64::EPSILON), d(-1.0 - 2.0 * f64::EPSILON)],
            d(f64::EPSILON * f64::EPSILON),
        )],
    );
    check("neg.f32", &t[..2], &[(&[f(0.0)], f(-0.0)), (&[f(1.5)], f(-1.5))]);
    check("abs.f32", &t[..2], &[(&[f(-1.5)], f(1.5))]);
    check("add.f64", &["f64"; 3], &[(&[d(0.1), d(0.2)], d(0.1 + 0.2))]);
    check("div.rn.f64", &["f64"; 3], &[(&[d(1.0), d(3.0)], d(1.0 / 3.0))]);
    check("abs.f64", &["f64"; 2], &[(&[d(-2.0)], d(2.0))]);
}

#[test]
fn rounding_modes() {
    let tiny = f(2f32.powi(-40));
    check("add.rz.f32", &["f32"; 3], &[(&[f(1.0), tiny], f(1.0)), (&[f(-1.0), tiny], 0xbf7f_ffff)]);
    check("add.rp.f32", &["f32"; 3], &[(&[f(1.0), tiny], ONE_UP)]);
    check("sub.rm.f32", &["f32"; 3], &[(&[f(1.0), tiny], 0x3f7f_ffff)]);
    check("mul.rp.f32", &["f32"; 3], &[(&[ONE_UP, ONE_UP], 0x3f80_0003)]);
    check("fma.rz.f32", &["f32"; 4], &[(&[f(3e38), f(10.0), f(0.0)], f(f32::MAX))]);
    check("div.rz.f64", &["f64"; 3], &[(&[d(1.0), d(10.0)], d(0.1) - 1)]);
}

#[test]
fn min_and_max_prefer_numbers() {
    for (op, small, large) in [("min", true, false), ("max", false, true)] {
        let pick = |a: f32, b: f32| if small { f(a) } else { f(b) };
        assert_ne!(small, large);
        check(
            &format!("{op}.f32"),
            &["f32"; 3],
            &[
                (&[f(1.0), f(2.0)], pick(1.0, 2.0)),
                (&[f(-0.0), f(0.0)], pick(-0.0, 0.0)),
                (&[f(0.0), f(-0.0)], pick(-0.0, 0.0)),
                (&[NAN, f(2.0)], f(2.0)),
                (&[f(2.0), 0xffc0_0001], f(2.0)),
                (&[0xffc0_0001, 0x7fc0_0001], NAN),
                (&[f(f32::NEG_INFINITY), f(-3.0)], pick(f32::NEG_INFINITY, -3.0)),
            ],
        );
        check(&format!("{op}.NaN.f32"), &["f32"; 3], &[(&[NAN, f(2.0)], NAN), (&[f(1.0), f(2.0)], pick(1.0, 2.0))]);
        check(&format!("{op}.f64"), &["f64"; 3], &[(&[d(f64::NAN), d(2.0)], d(2.0))]);
    }
}

#[test]
fn comparisons_and_nan() {
    let number = [f(1.0), f(2.0)];
    let nan = [NAN, f(2.0)];
    let table = [
        ("eq", 0, 0),
        ("ne", 1, 0),
        ("lt", 1, 0),
        ("le", 1, 0),
        ("gt", 0, 0),
        ("ge", 0, 0),
        ("equ", 0, 1),
        ("neu", 1, 1),
        ("ltu", 1, 1),
        ("leu", 1, 1),
        ("gtu", 0, 1),
        ("geu", 0, 1),
        ("num", 1, 0),
        ("nan", 0, 1),
    ];
    for (cmp, of_numbers, of_nan) in table {
        check(&format!("setp.{cmp}.f32"), &["pred", "f32", "f32"], &[(&number, of_numbers), (&nan, of_nan)]);
        let wide = [d(1.0), d(2.0)];
        let wide_nan = [d(1.0), d(f64::NAN)];
        check(&format!("setp.{cmp}.f64"), &["pred", "f64", "f64"], &[(&wide, of_numbers), (&wide_nan, of_nan)]);
    }
    let minus_one = [0xffff_ffff, 1];
    for (cmp, want) in [
        ("lt.s32", 1),
        ("lt.u32", 0),
        ("gt.u32", 1),
        ("ge.s32", 0),
        ("lo.u32", 0),
        ("hi.u32", 1),
        ("ne.b32", 1),
        ("eq.b32", 0),
    ] {
        check(&format!("setp.{cmp}"), &["pred", "u32", "u32"], &[(&minus_one, want)]);
    }
    check("setp.le.s64", &["pred", "u64", "u64"], &[(&[u64::MAX, 0], 1)]);
    check("setp.lt.s16", &["pred", "u16", "u16"], &[(&[0xffff, 0], 1)]);
    check("setp.lt.f16", &["pred", "b16", "b16"], &[(&[0xbc00, 0x3c00], 1)]);
}

#[test]
fn predicates_and_selections() {
    let p = ["pred"; 3];
    let rows = |f: fn(u64, u64) -> u64| -> Vec<(Vec<u64>, u64)> {
        [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().map(|(a, b)| (vec![a, b], f(a, b))).collect()
    };
    for (op, f) in [("and", (|a, b| a & b) as fn(u64, u64) -> u64), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)] {
        let rows = rows(f);
        let rows: Vec<(&[u64], u64)> = rows.iter().map(|(inputs, want)| (inputs.as_slice(), *want)).collect();
        check(&format!("{op}.pred"), &p, &rows);
    }
    check("not.pred", &p[..2], &[(&[0], 1), (&[1], 0)]);
    check("selp.b32", &["u32", "u32", "u32", "pred"], &[(&[5, 6, 1], 5), (&[5, 6, 0], 6)]);
    check("selp.f64", &["u64", "u64", "u64", "pred"], &[(&[5, 6, 1], 5), (&[5, 6, 0], 6)]);
    check("setp.lt.u32 $p|$d, $s0, $s1;", &["pred", "u32", "u32"], &[(&[1, 2], 0), (&[2, 1], 1)]);
}

#[test]
fn integer_conversions() {
    check("cvt.u64.u32", &["u64", "u32"], &[(&[0xffff_ffff], 0xffff_ffff)]);
    check("cvt.s64.s32", &["u64", "u32"], &[(&[0xffff_ffff], u64::MAX)]);
    check("cvt.u32.u64", &["u32", "u64"], &[(&[0x0012_3456_789a], 0x3456_789a)]);
    check("cvt.s32.s16", &["u32", "u16"], &[(&[0x8000], 0xffff_8000)]);
    check("cvt.u32.u16", &["u32", "u16"], &[(&[0x8000], 0x8000)]);
    check("cvt.u16.u32", &["u16", "u32"], &[(&[0x1_8000], 0x8000)]);
    check("cvt.s8.s32", &["u32", "u32"], &[(&[0x80], 0xffff_ff80)]);
    check("cvt.sat.s8.s32", &["u32", "u32"], &[(&[0x80], 0x7f), (&[0xffff_0000], 0xffff_ff80)]);
    check("cvt.sat.u8.s32", &["u32", "u32"], &[(&[300], 0xff), (&[0xffff_0000], 0)]);
}

#[test]
fn float_conversions() {
    check("cvt.rn.f32.s32", &["f32", "u32"], &[(&[0xffff_ffff], f(-1.0)), (&[16_777_217], f(16_777_216.0))]);
    check("cvt.rz.f32.u32", &["f32", "u32"], &[(&[0xffff_ffff], 0x4f7f_ffff)]);
    check("cvt.rp.f32.u32", &["f32", "u32"], &[(&[16_777_217], f(16_777_218.0))]);
    check("cvt.rn.f64.s64", &["f64", "u64"], &[(&[u64::MAX], d(-1.0))]);
    check(
        "cvt.rzi.s32.f32",
        &["u32", "f32"],
        &[(&[f(-2.9)], (-2i32) as u32 as u64), (&[f(3e9)], 0x7fff_ffff), (&[NAN], 0)],
    );
    check("cvt.rni.s32.f32", &["u32", "f32"], &[(&[f(2.5)], 2), (&[f(3.5)], 4)]);
    check("cvt.rmi.s32.f32", &["u32", "f32"], &[(&[f(-2.1)], (-3i32) as u32 as u64)]);
    check("cvt.rpi.u32.f32", &["u32", "f32"], &[(&[f(2.1)], 3), (&[f(-5.0)], 0)]);
    check("cvt.rzi.s64.f64", &["u64", "f64"], &[(&[d(1e30)], i64::MAX as u64), (&[d(f64::NAN)], 1 << 63)]);
    check("cvt.f64.f32", &["f64", "f32"], &[(&[f(0.1)], d(f64::from(0.1f32)))]);
    check("cvt.rn.f32.f64", &["f32", "f64"], &[(&[d(0.1)], f(0.1))]);
    check("cvt.rm.f32.f64", &["f32", "f64"], &[(&[d(0.1)], f(0.1) - 1)]);
    check("cvt.rni.f32.f32", &["f32", "f32"], &[(&[f(2.5)], f(2.0))]);
    check("cvt.sat.f32.f32", &["f32", "f32"], &[(&[f(2.5)], f(1.0)), (&[f(-2.5)], f(0.0)), (&[NAN], f(0.0))]);
    check(
        "cvt.rn.f16.f32",
        &["b16", "f32"],
        &[(&[f(1.0)], 0x3c00), (&[f(65520.0)], 0x7c00), (&[f(2f32.powi(-24))], 1), (&[NAN], 0x7fff)],
    );
    check("cvt.rz.f16.f32", &["b16", "f32"], &[(&[f(65520.0)], 0x7bff)]);
    check("cvt.f32.f16", &["f32", "b16"], &[(&[0x3c00], f(1.0)), (&[1], f(2f32.powi(-24)))]);
    check("cvt.rn.bf16.f32", &["b16", "f32"], &[(&[0x3f80_8000], 0x3f80), (&[0x3f81_8000], 0x3f82)]);
    check("cvt.f32.bf16", &["f32", "b16"], &[(&[0x3f80], f(1.0))]);
    check("cvt.rna.tf32.f32", &["b32", "f32"], &[(&[0x3f80_1000], 0x3f80_2000), (&[0x3f80_0fff], f(1.0))]);
    check("cvt.rn.f16x2.f32", &["b32", "f32", "f32"], &[(&[f(1.0), f(2.0)], 0x3c00_4000)]);
    check("cvt.rn.bf16x2.f32", &["b32", "f32", "f32"], &[(&[f(1.0), f(2.0)], 0x3f80_4000)]);
}

#[test]
fn sixteen_bit_floats() {
    check("add.f16", &["b16"; 3], &[(&[0x3c00, 0x3c00], 0x4000), (&[0x7bff, 0x7bff], 0x7c00)]);
    check("mul.f16", &["b16"; 3], &[(&[0x4000, 0x4200], 0x4600)]);
    // 2048 + 1 is a tie between 2048 and 2050; an additional 2^-24 breaks it upwards.
    check("fma.rn.f16", &["b16"; 4], &[(&[0x3c00, 0x6800, 0x3c00], 0x6800), (&[0x3c01, 0x6800, 0x0001], 0x6801)]);
    check("add.bf16", &["b16"; 3], &[(&[0x3f80, 0x3f80], 0x4000)]);
    check("fma.rn.f16x2", &["b32"; 4], &[(&[0x3c00_4000, 0x4000_4000, 0x3c00_3c00], 0x4200_4500)]);
    // Just below a tie, and just above one, by less than the spacing of single precision there.
    check("fma.rn.f16", &["b16"; 4], &[(&[0x3e00, 0x3c01, 0x8001], 0x3e01)]);
    check("fma.rn.bf16", &["b16"; 4], &[(&[0x3fa0, 0x3f82, 0x2180], 0x3fa3)]);
    check("cvt.rn.f16.f64", &["b16", "f64"], &[(&[d(1.0 + 2f64.powi(-11) + 2f64.powi(-40))], 0x3c01)]);
    check("min.f16", &["b16"; 3], &[(&[0x8000, 0x0000], 0x8000), (&[0x7e00, 0x3c00], 0x3c00)]);
    check("max.NaN.f16", &["b16"; 3], &[(&[0x7e00, 0x3c00], 0x7fff)]);
    check("neg.bf16", &["b16"; 2], &[(&[0x3f80], 0xbf80)]);
}

#[test]
fn approximations() {
    check("ex2.approx.f32", &["f32"; 2], &[(&[f(3.0)], f(8.0)), (&[f(-1.0)], f(0.5))]);
    check("lg2.approx.f32", &["f32"; 2], &[(&[f(8.0)], f(3.0))]);
    check("rcp.approx.f32", &["f32"; 2], &[(&[f(4.0)], f(0.25))]);
    check("sqrt.approx.f32", &["f32"; 2], &[(&[f(9.0)], f(3.0))]);
    check("rsqrt.approx.f32", &["f32"; 2], &[(&[f(4.0)], f(0.5))]);
    check("tanh.approx.f32", &["f32"; 2], &[(&[f(0.0)], f(0.0)), (&[f(100.0)], f(1.0))]);
    check("sin.approx.f32", &["f32"; 2], &[(&[f(0.0)], f(0.0))]);
    check("cos.approx.f32", &["f32"; 2], &[(&[f(0.0)], f(1.0))]);
}

#[test]
fn bit_fields() {
    let fields = ["u32", "u32", "u32", "u32"];
    check(
        "bfe.u32",
        &fields,
        &[(&[0x1234_5678, 8, 8], 0x56), (&[0x1234_5678, 28, 8], 0x1), (&[5, 40, 4], 0), (&[5, 0, 0], 0)],
    );
    check(
        "bfe.s32",
        &fields,
        &[(&[0x80, 4, 4], 0xffff_fff8), (&[0x8000_0000, 28, 8], 0xffff_fff8), (&[0x8000_0000, 40, 4], 0xffff_ffff)],
    );
    check("bfi.b32", &["u32"; 5], &[(&[0xab, 0x1111_1111, 8, 8], 0x1111_ab11), (&[0xff, 7, 0, 0], 7)]);
    check("popc.b32", &["u32"; 2], &[(&[0xf0f0], 8)]);
    check("popc.b64", &["u32", "u64"], &[(&[u64::MAX], 64)]);
    check("clz.b32", &["u32"; 2], &[(&[1], 31), (&[0], 32)]);
    check("brev.b32", &["u32"; 2], &[(&[1], 0x8000_0000)]);
    check(
        "prmt.b32",
        &fields,
        &[(&[0x3322_1100, 0x7766_5544, 0x7410], 0x7744_1100), (&[0x80, 0, 0x0008], 0x8080_80ff)],
    );
    check("lop3.b32 $d, $s0, $s1, $s2, 0x96;", &fields, &[(&[0b1100, 0b1010, 0b1001], 0b1111)]);
    check("shf.l.wrap.b32", &fields, &[(&[0x8000_0000, 1, 1], 3), (&[5, 6, 32], 6)]);
    check("shf.r.clamp.b32", &fields, &[(&[2, 1, 1], 0x8000_0001), (&[5, 6, 40], 6)]);
    check("rcp.rn.f32", &["f32"; 2], &[(&[f(3.0)], f(1.0 / 3.0))]);
    check("sqrt.rn.f32", &["f32"; 2], &[(&[f(2.0)], f(2f32.sqrt()))]);
    check("sqrt.rz.f64", &["f64"; 2], &[(&[d(2.0)], d(2f64.sqrt()) - 1)]);
    // Also for the smallest values: the square root of 3 * 2^-1074.
    let root = |root: f64| d(root * 2f64.powi(-537));
    for (mode, root) in [("rn", root(3f64.sqrt())), ("rm", root(3f64.sqrt())), ("rp", root(3f64.sqrt().next_up()))] {
        check(&format!("sqrt.{mode}.f64"), &["f64"; 2], &[(&[3], root), (&[4], d(2f64.powi(-536)))]);
    }
    check("div.full.f32", &["f32"; 3], &[(&[f(6.0), f(3.0)], f(2.0))]);
}

#[test]
fn moves_pack_and_unpack() {
    check("mov.b64 $d, {$s0, $s1};", &["b64", "b32", "b32"], &[(&[1, 2], 0x2_0000_0001)]);
    check("mov.b32 $d, {$s0, $s1};", &["b32", "b16", "b16"], &[(&[1, 2], 0x2_0001)]);
    check("mov.b64 {$bit, $d}, $s0;", &["b32", "b64"], &[(&[0x2_0000_0001], 2)]);
    check("mov.b32 {$d, _}, $s0;", &["b16", "b32"], &[(&[0x2_0001], 1)]);
    check("mov.u32 $d, 4294967295;", &["b32"], &[(&[], 0xffff_ffff)]);
    check("mov.f32 $d, 0f3F800000;", &["f32"], &[(&[], f(1.0))]);
    check("mov.f64 $d, 0d3FF0000000000000;", &["f64"], &[(&[], d(1.0))]);
    check("mov.s64 $d, -1;", &["b64"], &[(&[], u64::MAX)]);
}
