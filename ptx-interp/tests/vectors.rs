//! What LLVM prints for sm_100 and sm_120: pairs of f32 and accesses of 32 bytes; and what only old targets have.

use ptx_gemm_interp::{Arg, ViolationKind};

use crate::arithmetic::{check, f};
use crate::run::Device;

#[test]
fn pairs_of_singles() {
    let pair = |high: f32, low: f32| f(high) << 32 | f(low);
    let three = ["b64"; 3];
    check("add.rn.f32x2", &three, &[(&[pair(1.0, 2.0), pair(0.5, -3.0)], pair(1.5, -1.0))]);
    check("add.f32x2", &three, &[(&[pair(1e-45, 2.0), pair(1e-45, 1.0)], pair(3e-45, 3.0))]);
    check("sub.rn.f32x2", &three, &[(&[pair(1.0, 2.0), pair(0.5, -3.0)], pair(0.5, 5.0))]);
    check("mul.rn.f32x2", &three, &[(&[pair(3.0, 2.0), pair(0.5, -3.0)], pair(1.5, -6.0))]);
    check("fma.rn.f32x2", &["b64"; 4], &[(&[pair(3.0, 2.0), pair(0.5, -3.0), pair(1.0, 1.0)], pair(2.5, -5.0))]);
    // The largest number before 1, and 1, in the directions of rounding.
    let sum = [pair(1.0, 1.0), pair(1e-9, -1e-9)];
    check("add.rp.f32x2", &three, &[(&sum, 0x3f80_0001 << 32 | f(1.0))]);
    check("add.rm.f32x2", &three, &[(&sum, f(1.0) << 32 | 0x3f7f_ffff)]);
    check("add.rz.ftz.f32x2", &three, &[(&[pair(1e-40, 2.0), pair(-1e-40, 1.0)], pair(0.0, 3.0))]);
    let tiny = f32::from_bits(0x0080_0001);
    check("mul.rn.ftz.f32x2", &three, &[(&[pair(tiny, -tiny), pair(0.5, 0.5)], pair(0.0, -0.0))]);
    check(
        "fma.rn.ftz.f32x2",
        &["b64"; 4],
        &[(&[pair(1.0, 1.0), pair(1e-40, 1.0), pair(-2.0, 1e-40)], pair(-2.0, 1.0))],
    );
}

#[test]
fn selections_by_sign() {
    let subnormal = 0x8000_0001;
    check("slct.f32.f32", &["f32"; 4], &[(&[f(1.0), f(2.0), subnormal], f(2.0)), (&[f(1.0), f(2.0), f(-0.0)], f(1.0))]);
    let flushed: &[(&[u64], u64)] =
        &[(&[1, 2, subnormal], 1), (&[1, 2, f(-1.0)], 2), (&[1, 2, f(f32::NAN)], 2), (&[1, 2, f(1.0)], 1)];
    check("slct.ftz.u32.f32", &["u32", "u32", "u32", "f32"], flushed);
    // What is selected is not flushed.
    check("slct.ftz.f32.f32", &["f32"; 4], &[(&[1, f(2.0), f(1.0)], 1)]);
}

fn wide(body: &str) -> Result<Vec<u32>, ViolationKind> {
    let text = format!(
        ".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{
         .reg .b64 %in; .reg .b64 %out; .reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .b32 %t; .reg .f64 %fd<4>;
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %rd0, %t, 32;
         add.u64 %in, %in, %rd0; add.u64 %out, %out, %rd0;\n{body}\nret;\n}}\n"
    );
    let at = Device::new(&text);
    let input = at.upload("in", &(0..1024).collect::<Vec<u32>>());
    let out = at.upload("out", &[7u32; 1024]);
    at.launch([1; 3], [64, 1, 1], &[Arg::U64(input), Arg::U64(out)]).map_err(|violation| violation.kind)?;
    Ok(at.words(out, 512))
}

#[test]
fn accesses_of_32_bytes() {
    let all: Vec<u32> = (0..512).collect();
    let regs = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}";
    let copy = format!("ld.global.v8.b32 {regs}, [%in];\nst.global.v8.b32 [%out], {regs};");
    assert_eq!(wide(&copy).as_ref(), Ok(&all));
    assert_eq!(wide(&copy.replace(".global", "")).as_ref(), Ok(&all));
    assert_eq!(
        wide(&copy.replace("ld.global", "ld.global.nc").replace("st.global", "st.global.L1::no_allocate")),
        Ok(all.clone())
    );
    let doubles =
        "ld.global.v4.f64 {%fd0, %fd1, %fd2, %fd3}, [%in];\nst.global.v4.f64 [%out], {%fd0, %fd1, %fd2, %fd3};";
    assert_eq!(wide(doubles).as_ref(), Ok(&all));
    let some = "ld.global.v8.b32 {%r0, _, %r2, _, %r4, _, _, %r7}, [%in];
        st.global.v8.b32 [%out], {%r0, 1, %r2, %r7, %r4, %r0, %r0, %r7};";
    let want = |at: u32| [at, 1, at + 2, at + 7, at + 4, at, at, at + 7];
    assert_eq!(wide(some), Ok((0..64).flat_map(|t| want(8 * t)).collect()));
    // 16 bytes are not enough of an alignment, and every byte is watched.
    assert_eq!(wide(&copy.replace("[%in]", "[%in+16]")), Err(ViolationKind::Misaligned));
    assert_eq!(wide(&copy.replace("[%in]", "[%in+4096]")), Err(ViolationKind::OutOfBounds));
    let late = format!("{copy}\nsetp.eq.u32 %p, %t, 0;\n@%p st.global.u32 [%out+60], 3;");
    assert_eq!(wide(&format!(".reg .pred %p;\n{late}")), Err(ViolationKind::Race));
    let poisoned = format!("st.global.v8.b32 [%out], {};", regs.replace("%r5", "%r15"));
    assert_eq!(wide(&format!("ld.global.v8.b32 {regs}, [%in];\n{poisoned}")), Err(ViolationKind::Uninitialised));
}

/// Before sm_70, the lanes that are active take part.
#[test]
fn exchanges_of_active_lanes() {
    let run = |body: &str| {
        let text = format!(
            ".version 6.3\n.target sm_61\n.address_size 64\n.visible .entry k(.param .u64 out) {{
             .reg .b64 %out; .reg .b64 %rd0; .reg .b32 %r<4>; .reg .b32 %t; .reg .pred %p<4>;
             ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %rd0, %t, 4; add.u64 %out, %out, %rd0;
             mov.u32 %r0, 99;\n{body}\nst.global.u32 [%out], %r0;\nret;\n}}\n"
        );
        let at = Device::new(&text);
        let out = at.upload("out", &[7u32; 32]);
        at.launch([1; 3], [32, 1, 1], &[Arg::U64(out)]).unwrap_or_else(|violation| panic!("{violation}"));
        at.words(out, 32)
    };
    let map = |f: &dyn Fn(u32) -> u32| (0..32).map(f).collect::<Vec<u32>>();
    assert_eq!(run("shfl.bfly.b32 %r0, %t, 1, 31;"), map(&|t| t ^ 1));
    assert_eq!(run("shfl.up.b32 %r0|%p0, %t, 2, 0;\n@!%p0 mov.u32 %r0, 50;"), map(&|t| if t < 2 { 50 } else { t - 2 }));
    assert_eq!(run("setp.lt.u32 %p0, %t, 8;\n@%p0 shfl.idx.b32 %r0, %t, 3, 31;"), map(&|t| if t < 8 { 3 } else { 99 }));
    assert_eq!(run("setp.lt.u32 %p0, %t, 3;\nvote.ballot.b32 %r0, %p0;"), map(&|_| 7));
    assert_eq!(
        run("setp.lt.u32 %p0, %t, 3;\n@%p0 vote.all.pred %p1, %p0;\n@%p0 selp.u32 %r0, 1, 0, %p1;"),
        map(&|t| if t < 3 { 1 } else { 99 })
    );
}

#[test]
fn eight_bit_floats() {
    let three = ["b16", "f32", "f32"];
    check(
        "cvt.rn.satfinite.e4m3x2.f32",
        &three,
        &[
            (&[f(1.0), f(-2.5)], 0x38c2),
            (&[f(448.0), f(1e9)], 0x7e7e),
            (&[f(f32::NEG_INFINITY), f(f32::NAN)], 0xfe7f),
            // Halfway between 16 and 18, and between 18 and 20: to the even fraction.
            (&[f(17.0), f(19.0)], 0x585a),
            (&[f(-0.0), f(0.001953125)], 0x8001),
            (&[f(0.0009765625), f(0.0029296875)], 0x0002),
        ],
    );
    check(
        "cvt.rn.satfinite.e5m2x2.f32",
        &three,
        &[(&[f(1.0), f(-2.5)], 0x3cc1), (&[f(57344.0), f(f32::INFINITY)], 0x7b7b), (&[f(f32::NAN), f(1.125)], 0x7f3c)],
    );
    check("cvt.rn.satfinite.e4m3x2.f16x2", &["b16", "b32"], &[(&[0x3c00_c100], 0x38c2), (&[0x7c00_7e00], 0x7e7f)]);
    check("cvt.rn.satfinite.e5m2x2.f16x2", &["b16", "b32"], &[(&[0x3c00_c100], 0x3cc1)]);
    check(
        "cvt.rn.f16x2.e4m3x2",
        &["b32", "b16"],
        &[(&[0x38c2], 0x3c00_c100), (&[0x7f01], 0x7fff_1800), (&[0x7efe], 0x5f00_df00)],
    );
    check("cvt.rn.satfinite.relu.e4m3x2.f16x2", &["b16", "b32"], &[(&[0x3c00_c100], 0x3800), (&[0xfc00_fe00], 0x007f)]);
    check("cvt.rn.relu.f16x2.e4m3x2", &["b32", "b16"], &[(&[0x38c2], 0x3c00_0000)]);
    check("cvt.rn.f16x2.e5m2x2", &["b32", "b16"], &[(&[0x3cc1], 0x3c00_c100), (&[0x7cfd], 0x7c00_7fff)]);
}
