//! `atom` and `red` on vectors: one atomic for each element of the vector.

use half::{bf16, f16};
use ptx_gemm_interp::ViolationKind::{self, Misaligned, OutOfBounds, Race, Uninitialised};
use ptx_gemm_interp::{Arg, Checks, Options, Violation};

use crate::run::Device;

/// `%o` is the address of 16 bytes that hold `initial`, `%p` the rest of 64 bytes after it, `%t` the thread, and `%x`
/// the numbers 1 to 8 in f32.
fn run(body: &str, initial: [u32; 4], threads: u32, checks: Checks) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&format!(
        ".version 8.4\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 out) {{
         .reg .b64 %o; .reg .b64 %rd<4>; .reg .b32 %t; .reg .b32 %r<8>; .reg .b16 %h<8>; .reg .f32 %x<9>; .reg .pred %p<4>;
         .reg .f32 %f<8>;
         ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
         mov.f32 %x1, 1.0; mov.f32 %x2, 2.0; mov.f32 %x3, 3.0; mov.f32 %x4, 4.0; mov.f32 %x5, 5.0; mov.f32 %x6, 6.0;
         mov.f32 %x7, 7.0; mov.f32 %x8, 8.0;
         {body}
         ret; }}"
    ));
    device.options = Options { checks, ..Options::default() };
    let mut all = vec![0u32; 16];
    all[..4].copy_from_slice(&initial);
    let out = device.upload("out", &all);
    device.launch([1, 1, 1], [threads, 1, 1], &[Arg::U64(out)])?;
    Ok(device.words(out, 16))
}

fn gives(body: &str, initial: [u32; 4], want: &[u32]) {
    for checks in [Checks::Full, Checks::Off] {
        let words = run(body, initial, 64, checks).unwrap_or_else(|violation| panic!("{body}: {violation}"));
        assert_eq!(&words[..want.len()], want, "{body} ({checks:?})");
    }
}

fn breaks(body: &str, kind: ViolationKind, words: &[&str]) {
    let violation = run(body, [0; 4], 64, Checks::Full).map(|_| ()).expect_err(body);
    assert_eq!(violation.kind, kind, "{body}: {violation}");
    words.iter().for_each(|word| assert!(violation.to_string().contains(word), "{body}: {violation}"));
}

fn singles(values: [f32; 4]) -> [u32; 4] {
    values.map(f32::to_bits)
}

#[test]
fn sums_of_single_precision() {
    let start = singles([0.5, 1.0, -1.0, 0.0]);
    gives("red.global.add.v4.f32 [%o], {%x1, %x2, %x3, 0f3F000000};", start, &singles([64.5, 129.0, 191.0, 32.0]));
    gives("red.relaxed.gpu.global.v2.f32.add [%o+8], {%x1, %x2};", start, &singles([0.5, 1.0, 63.0, 128.0]));
    gives("red.release.sys.add.v2.f32 [%o], {%x1, %x1};", start, &singles([64.5, 65.0, -1.0, 0.0]));
    gives(
        "createpolicy.fractional.L2::evict_last.b64 %rd0; red.global.add.L2::cache_hint.v2.f32 [%o], {%x1, %x2}, %rd0;",
        start,
        &singles([64.5, 129.0, -1.0, 0.0]),
    );
}

/// The destination may overlap the operand.
#[test]
fn old_values() {
    let old = "setp.eq.u32 %p0, %t, 7;
        @%p0 atom.acq_rel.gpu.global.add.v4.f32 {%x2, %x1, _, %x4}, [%o], {%x1, %x2, %x3, %x4};
        @%p0 st.global.v4.f32 [%o+16], {%x2, %x1, %x3, %x4};";
    let start = [0.5, 1.0, -1.0, 0.0];
    let want = [singles([1.5, 3.0, 2.0, 4.0]), singles([0.5, 1.0, 3.0, 0.0])].concat();
    gives(old, singles(start), &want);
    gives("atom.global.add.v2.f32 _, [%o], {%x1, %x2};", singles(start), &singles([64.5, 129.0, -1.0, 0.0]));
}

#[test]
fn sums_and_extrema_of_half_precision() {
    let convert = |ty: &str| -> String {
        (0..8).map(|i| format!("cvt.rn.{ty}.f32 %h{i}, %x{}; mov.b32 %r{i}, {{%h{i}, %h{i}}};\n", i + 1)).collect()
    };
    let halves = |values: [f32; 8]| -> [u32; 4] {
        std::array::from_fn(|i| {
            let [low, high] = [0, 1].map(|half| u32::from(f16::from_f32(values[2 * i + half]).to_bits()));
            low | high << 16
        })
    };
    let brains = |values: [f32; 8]| -> [u32; 4] {
        std::array::from_fn(|i| {
            let [low, high] = [0, 1].map(|half| u32::from(bf16::from_f32(values[2 * i + half]).to_bits()));
            low | high << 16
        })
    };
    let all = "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}";
    let sums = [64.0, 128.0, 192.0, 256.0, 320.0, 384.0, 448.0, 512.0];
    gives(&format!("{}red.global.add.noftz.v8.f16 [%o], {all};", convert("f16")), [0; 4], &halves(sums));
    gives(
        &format!("{}red.global.max.noftz.v8.bf16 [%o], {all};", convert("bf16")),
        brains([4.5; 8]),
        &brains([4.5, 4.5, 4.5, 4.5, 5.0, 6.0, 7.0, 8.0]),
    );
    gives(
        &format!("{}red.global.min.noftz.v4.f16x2 [%o], {{%r2, %r3, %r4, %r5}};", convert("f16")),
        halves([4.5, 1.0, 4.5, 1.0, 4.5, 1.0, 4.5, 1.0]),
        &halves([3.0, 1.0, 4.0, 1.0, 4.5, 1.0, 4.5, 1.0]),
    );
    gives(
        &format!("{}atom.global.add.noftz.v2.bf16x2 {{%r0, _}}, [%o+8], {{%r0, %r1}};", convert("bf16")),
        [0; 4],
        &brains([0.0, 0.0, 0.0, 0.0, 64.0, 64.0, 128.0, 128.0]),
    );
}

#[test]
fn faults() {
    let add = "red.global.add.v4.f32 [%o], {%x1, %x2, %x3, %x4};";
    breaks("red.global.add.v4.f32 [%o+8], {%x1, %x2, %x3, %x4};", Misaligned, &["16 bytes"]);
    breaks("red.global.add.v4.f32 [%o+64], {%x1, %x2, %x3, %x4};", OutOfBounds, &["16 bytes"]);
    breaks("red.global.add.v2.f32 [%o], {%x1, %f0};", Uninitialised, &["%f0"]);
    // Atomics do not race with each other, but with other accesses; each element counts.
    let one = format!("setp.eq.u32 %p0, %t, 40; {add} @%p0 ");
    breaks(&format!("{one} st.global.f32 [%o+12], %x1;"), Race, &["st.global.f32"]);
    breaks(&format!("{one} ld.global.f32 %x1, [%o+4];"), Race, &["ld.global.f32"]);
    let shared = ".shared .align 16 .b8 s[16]; cvta.shared.u64 %rd0, s; red.add.v2.f32 [%rd0], {%x1, %x1};";
    breaks(shared, OutOfBounds, &["global memory only"]);
}

#[test]
fn memory_that_was_never_written() {
    let mut device = Device::new(
        ".version 8.4\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 out) {
         .reg .b64 %o; .reg .f32 %x;
         ld.param.u64 %o, [out]; mov.f32 %x, 0f3F800000;
         st.global.f32 [%o], %x;
         red.global.add.v2.f32 [%o], {%x, %x};
         ret; }",
    );
    let out = device.reserve("out", 16);
    let violation = device.launch([1, 1, 1], [1, 1, 1], &[Arg::U64(out)]).map(|_| ()).expect_err("half is missing");
    assert_eq!(violation.kind, Uninitialised);
    assert!(violation.to_string().contains(&format!("4 bytes at {:#x}", out + 4)), "{violation}");
}

/// 128 bits are exchanged at once, and compared as a whole; they are loaded, stored and moved in the same way.
#[test]
fn numbers_of_128_bits() {
    let wide = |body: &str| {
        format!(
            ".reg .b128 %q<4>; .shared .align 16 .b8 s[16];
             mov.b64 %rd0, 0x0000000200000001; mov.b64 %rd1, 0x0000000400000003; mov.b128 %q0, {{%rd0, %rd1}};
             mov.b64 %rd2, 0x0000000600000005; mov.b64 %rd3, 0x0000000800000007; mov.b128 %q1, {{%rd2, %rd3}};
             {body}"
        )
    };
    // The first thread finds what it compares with, and all others find what that one wrote.
    let swaps =
        wide("atom.global.cas.b128 %q2, [%o], %q0, %q1; setp.eq.u32 %p0, %t, 1; @%p0 st.global.b128 [%o+16], %q2;");
    gives(&swaps, [1, 2, 3, 4], &[5, 6, 7, 8, 5, 6, 7, 8]);
    // One half differs.
    let differs = swaps.replace("mov.b64 %rd1, 0x0000000400000003;", "mov.b64 %rd1, 0x0000000400000009;");
    gives(&differs, [1, 2, 3, 4], &[1, 2, 3, 4, 1, 2, 3, 4]);
    let shared = wide(
        "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.b128 [s], %q0; bar.sync 0; @%p0 atom.shared.exch.b128 %q2, [s], %q1;
         @%p0 ld.shared.b128 %q3, [s]; @%p0 mov.b128 {%rd0, _}, %q2; @%p0 mov.b128 {_, %rd1}, %q3;
         @%p0 st.global.b64 [%o], %rd0; @%p0 st.global.b64 [%o+8], %rd1;",
    );
    gives(&shared, [0; 4], &[1, 2, 7, 8]);
    let odd = wide("atom.global.exch.b128 %q2, [%o+8], %q1;");
    breaks(&odd, Misaligned, &["atom"]);
    breaks(&wide("atom.global.cas.b128 %q2, [%o], %q3, %q1;"), Uninitialised, &["%q3 (low)"]);
}
