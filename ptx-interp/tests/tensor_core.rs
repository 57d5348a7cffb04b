//! Products of one warp: `mma.sync` with fragments loaded by `ldmatrix`, and `stmatrix`.

use half::{bf16, f16};
use ptx_gemm_interp::ViolationKind::{self, BarrierMismatch, Misaligned, OutOfBounds, Race, Uninitialised};
use ptx_gemm_interp::{Arg, Checks, Counting, Options, Report, Violation};

use crate::copies::change;
use crate::run::Device;

/// One warp; `%t` is its lane, `%in` and `%out` are addresses, and `s` is 4 KiB of shared memory.
fn text(body: &str) -> String {
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.shared .align 128 .b8 s[4096];
.reg .b64 %rd<8>; .reg .b64 %in; .reg .b64 %out;
.reg .b32 %r<24>; .reg .b32 %t; .reg .b32 %s; .reg .b32 %a<4>; .reg .b32 %b<2>; .reg .b32 %h<2>; .reg .f32 %d<4>;
.reg .pred %p<4>;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mov.u32 %t, %tid.x; mov.u32 %s, s;
{body}
ret;
}}
"
    )
}

fn run(
    body: &str,
    input: &[u32],
    out: &[u32],
    threads: u32,
    options: Options,
) -> Result<(Vec<u32>, Report), Violation> {
    let mut device = Device::new(&text(body));
    device.options = options;
    let (from, to) = (device.upload("in", input), device.upload("out", out));
    let report = device.launch([1, 1, 1], [threads, 1, 1], &[Arg::U64(from), Arg::U64(to)])?;
    Ok((device.words(to, out.len()), report))
}

fn gives(name: &str, body: &str, input: &[u32], out: &[u32], want: &[u32]) {
    for checks in [Checks::Full, Checks::Off] {
        let options = Options { checks, ..Options::default() };
        match run(body, input, out, 32, options) {
            Ok((words, _)) => assert_eq!(words, want, "{name} ({checks:?})"),
            Err(violation) => panic!("{name} ({checks:?}): {violation}"),
        }
    }
}

fn breaks(name: &str, body: &str, input: &[u32], threads: u32, kind: ViolationKind, words: &[&str]) {
    match run(body, input, &[0; 256], threads, Options::default()) {
        Ok(_) => panic!("{name}: nothing was found"),
        Err(violation) => {
            assert_eq!(violation.kind, kind, "{name}: {violation}");
            words.iter().for_each(|word| assert!(violation.to_string().contains(word), "{name}: {violation}"));
        }
    }
}

/// Copies `words` words of the input to shared memory.
fn staged(words: u32) -> String {
    let copy = |first: u32| {
        format!(
            "add.u32 %r0, %t, {first}; shl.b32 %r0, %r0, 2; cvt.u64.u32 %rd0, %r0; add.u64 %rd0, %in, %rd0;
             ld.global.u32 %r1, [%rd0]; add.u32 %r0, %r0, %s; st.shared.u32 [%r0], %r1;\n"
        )
    };
    let copies: String = (0..words).step_by(32).map(copy).collect();
    format!("{copies}bar.warp.sync -1; // staged\n")
}

/// `%r` = `%s` + offset + a (lane % 8) + b (lane / 8 % 2) + c (lane / 16).
fn row(register: &str, [offset, a, b, c]: [u32; 4]) -> String {
    format!(
        "and.b32 %r0, %t, 7; mad.lo.u32 {register}, %r0, {a}, %s; shr.u32 %r0, %t, 3; and.b32 %r0, %r0, 1;
         mad.lo.u32 {register}, %r0, {b}, {register}; shr.u32 %r0, %t, 4; mad.lo.u32 {register}, %r0, {c}, {register};
         add.u32 {register}, {register}, {offset};\n"
    )
}

/// `%rd1` is the address of element (lane / 4, 2 (lane % 4)) of 8 columns of `bytes` bytes.
fn own_elements(bytes: u32) -> String {
    format!("shl.b32 %r0, %t, {}; cvt.u64.u32 %rd1, %r0; add.u64 %rd1, %out, %rd1;\n", (2 * bytes).trailing_zeros())
}

/// A product of the 16-bit type, with A and B stored with or without transposition, f32 or f16 accumulators, k of 8 or
/// 16.
#[derive(Clone, Copy, Debug)]
struct Product {
    bf16: bool,
    half_sums: bool,
    k: usize,
    /// Whether A is stored by columns, and B by rows.
    trans: [bool; 2],
}

fn a(i: usize, k: usize) -> f32 {
    ((i * 7 + k * 3) % 11) as f32 - 5.0
}

fn b(k: usize, j: usize) -> f32 {
    ((k * 5 + j * 2) % 13) as f32 - 6.0
}

impl Product {
    fn bits(&self, value: f32) -> u32 {
        if self.bf16 { bf16::from_f32(value).to_bits().into() } else { f16::from_f32(value).to_bits().into() }
    }

    fn body(&self) -> String {
        let Product { bf16, half_sums, k, trans: [trans_a, trans_b] } = *self;
        let ty = if bf16 { "bf16" } else { "f16" };
        let pitch = 2 * k as u32;
        let (a_row, b_row) = match (trans_a, trans_b) {
            // A by rows: matrices follow each other along m, then along k. B by columns: along k.
            (false, false) => ([0, pitch, 8 * pitch, 16], [512, pitch, 16, 0]),
            (true, false) => ([0, 32, 16, 256], [512, pitch, 16, 0]),
            (false, true) => ([0, pitch, 8 * pitch, 16], [512, 16, 128, 0]),
            (true, true) => ([0, 32, 16, 256], [512, 16, 128, 0]),
        };
        let trans = |on: bool| if on { ".trans" } else { "" };
        let (of_a, of_b, a_regs, b_regs) = match k {
            8 => (2, 1, "{%a0, %a1}", "{%b0}"),
            _ => (4, 2, "{%a0, %a1, %a2, %a3}", "{%b0, %b1}"),
        };
        let (load, sums, store, sum) = if half_sums {
            (
                "ld.global.b32 %h0, [%rd1]; ld.global.b32 %h1, [%rd1+128];",
                "{%h0, %h1}",
                "st.global.b32 [%rd1], %h0; st.global.b32 [%rd1+128], %h1;",
                "f16",
            )
        } else {
            (
                "ld.global.v2.f32 {%d0, %d1}, [%rd1]; ld.global.v2.f32 {%d2, %d3}, [%rd1+256];",
                "{%d0, %d1, %d2, %d3}",
                "st.global.v2.f32 [%rd1], {%d0, %d1}; st.global.v2.f32 [%rd1+256], {%d2, %d3};",
                "f32",
            )
        };
        format!(
            "{}{}{}{}{load}
             ldmatrix.sync.aligned.m8n8.x{of_a}{}.shared.b16 {a_regs}, [%r2];
             ldmatrix.sync.aligned.m8n8.x{of_b}{}.shared.b16 {b_regs}, [%r3];
             mma.sync.aligned.m16n8k{k}.row.col.{sum}.{ty}.{ty}.{sum} {sums}, {a_regs}, {b_regs}, {sums}; // multiply
             {store}",
            staged(192),
            row("%r2", a_row),
            row("%r3", b_row),
            own_elements(if half_sums { 2 } else { 4 }),
            trans(trans_a),
            trans(trans_b),
        )
    }

    fn input(&self) -> Vec<u32> {
        let mut halves = vec![0; 384];
        let [trans_a, trans_b] = self.trans;
        for k in 0..self.k {
            for i in 0..16 {
                halves[if trans_a { k * 16 + i } else { i * self.k + k }] = self.bits(a(i, k));
            }
            for j in 0..8 {
                halves[256 + if trans_b { k * 8 + j } else { j * self.k + k }] = self.bits(b(k, j));
            }
        }
        halves.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect()
    }

    fn check(&self) {
        let c = |i: usize, j: usize| (i * 8 + j) as f32;
        let d = |i: usize, j: usize| c(i, j) + (0..self.k).map(|k| a(i, k) * b(k, j)).sum::<f32>();
        let words = |value: &dyn Fn(usize, usize) -> f32| -> Vec<u32> {
            let at = |index: usize| value(index / 8, index % 8);
            let half = |index: usize| u32::from(f16::from_f32(at(index)).to_bits());
            match self.half_sums {
                true => (0..128).step_by(2).map(|index| half(index) | half(index + 1) << 16).collect(),
                false => (0..128).map(|index| at(index).to_bits()).collect(),
            }
        };
        gives(&format!("{self:?}"), &self.body(), &self.input(), &words(&c), &words(&d));
    }
}

#[test]
fn products_of_all_types_and_layouts() {
    for k in [8, 16] {
        for (bf16, half_sums) in [(true, false), (false, false), (false, true)] {
            for trans in [[false, false], [true, false], [false, true], [true, true]] {
                Product { bf16, half_sums, k, trans }.check();
            }
        }
    }
}

const PLAIN: Product = Product { bf16: true, half_sums: false, k: 16, trans: [false, false] };

#[test]
fn every_lane_gets_its_elements() {
    // Element (r, c) of matrix i is 64 i + 8 r + c.
    let input: Vec<u32> = (0..128).map(|word| (2 * word) | ((2 * word + 1) << 16)).collect();
    for (count, registers) in [(1, "{%r4}"), (2, "{%r4, %r5}"), (4, "{%r4, %r5, %r6, %r7}")] {
        for trans in ["", ".trans"] {
            let stores: String =
                (0..count).map(|i| format!("st.global.u32 [%rd1+{}], %r{};\n", 4 * i, 4 + i)).collect();
            let lanes = |value: &dyn Fn(u32, u32, u32) -> u32| -> Vec<u32> {
                let pair = |i: u32, lane: u32| {
                    let element = |half: u32| match trans {
                        "" => value(i, lane / 4, lane % 4 * 2 + half),
                        _ => value(i, lane % 4 * 2 + half, lane / 4),
                    };
                    element(0) | element(1) << 16
                };
                (0..128).map(|at| if at % 4 < count { pair(at % 4, at / 4) } else { 0 }).collect()
            };
            let body = format!(
                "{}{}shl.b32 %r0, %t, 4; cvt.u64.u32 %rd1, %r0; add.u64 %rd1, %out, %rd1;
                 ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers}, [%r2];\n{stores}",
                staged(128),
                row("%r2", [0, 16, 128, 256])
            );
            let want = lanes(&|i, r, c| 64 * i + 8 * r + c);
            gives(&format!("x{count}{trans}"), &body, &input, &[0; 128], &want);
            // The way back.
            let back = format!(
                "{}{}{}stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r2], {registers};
                 bar.warp.sync -1;
                 shl.b32 %r0, %t, 2; cvt.u64.u32 %rd1, %r0; add.u64 %rd1, %out, %rd1; add.u32 %r0, %r0, %s;\n{}",
                (0..count).map(|i| format!("ld.global.u32 %r{}, [%rd1+{}];\n", 4 + i, 4 * i)).fold(
                    "shl.b32 %r0, %t, 4; cvt.u64.u32 %rd1, %r0; add.u64 %rd1, %in, %rd1;\n".to_string(),
                    |all, one| all + &one
                ),
                row("%r2", [0, 16, 128, 256]),
                "",
                (0..count)
                    .map(|i| format!("ld.shared.u32 %r1, [%r0+{}]; st.global.u32 [%rd1+{}], %r1;\n", 128 * i, 128 * i))
                    .collect::<String>()
            );
            let whole: Vec<u32> =
                (0..128).map(|word| if word < 32 * count { input[word as usize] } else { 0 }).collect();
            gives(&format!("stmatrix x{count}{trans}"), &back, &want, &[0; 128], &whole);
        }
    }
}

#[test]
fn bank_conflicts_of_rows_are_counted() {
    for (pitch, conflicts) in [(16, 0), (32, 4), (128, 28)] {
        let body = format!(
            "{}{}ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2];",
            staged(1024),
            row("%r2", [0, pitch, 8 * pitch % 1024, 16 * pitch % 1024])
        );
        let options = Options { counting: Counting::On, ..Options::default() };
        let (_, report) = run(&body, &[0; 1024], &[0], 32, options).expect("right");
        let cost = report.cost.expect("counted");
        assert_eq!(cost.shared_loads.conflicts(), conflicts, "rows {pitch} bytes apart");
        assert_eq!(cost.shared_loads.accesses, 1);
    }
}

#[test]
fn broken_rules_of_one_warp() {
    let input = PLAIN.input();
    let broken = |name: &str, from: &str, to: &str, kind, words: &[&str]| {
        breaks(name, &change(&PLAIN.body(), from, to), &input, 32, kind, words);
    };
    broken("rows read before they are written", "bar.warp.sync -1; // staged", "", Race, &["ldmatrix", "st.shared"]);
    broken(
        "a row at an odd address",
        ".x4.shared.b16 {%a0, %a1, %a2, %a3}, [%r2]",
        ".x4.shared.b16 {%a0, %a1, %a2, %a3}, [%r2+8]",
        Misaligned,
        &["multiple of 16"],
    );
    broken("rows past the end", ", [%r3]", ", [%r3+4096]", OutOfBounds, &["ldmatrix", "shared"]);
    broken(
        "a fragment of bytes that were never written",
        ", [%r3]",
        ", [%r3+2048]",
        Uninitialised,
        &["st.global", "ldmatrix"],
    );
    broken(
        "one lane has no part",
        "mma.sync",
        "setp.ne.u32 %p0, %t, 3;\n@%p0 mma.sync",
        BarrierMismatch,
        &["31 threads"],
    );
    broken(
        "a fragment that was never written",
        "{%b0, %b1}, {%d0",
        "{%b0, %r20}, {%d0",
        Uninitialised,
        &["never written"],
    );
    breaks("a part of a warp", &PLAIN.body(), &input, 24, BarrierMismatch, &["needs all 32"]);
    // Only elements that depend on the missing column are undefined: column 7 of B, in the last row of the staged
    // bytes.
    let short = change(
        &PLAIN.body(),
        "st.global.v2.f32 [%rd1], {%d0, %d1}",
        "setp.lt.u32 %p0, %t, 99;\nst.global.v2.f32 [%rd1], {%d0, %d1}",
    );
    let lanes = "and.b32 %r8, %t, 3; setp.ne.u32 %p1, %r8, 3;\n@%p1 st.global.v2.f32 [%rd1], {%d0, %d1}; @%p1 st.global.v2.f32 [%rd1+256]";
    let short = change(&short, "st.global.v2.f32 [%rd1], {%d0, %d1}; st.global.v2.f32 [%rd1+256]", lanes);
    let last = "@%p2 st.shared.u32";
    let staged_without_last = short.replacen(
        "st.shared.u32 [%r0], %r1;\nbar.warp.sync",
        &format!("setp.lt.u32 %p2, %t, 24;\n{last} [%r0], %r1;\nbar.warp.sync"),
        1,
    );
    assert!(staged_without_last.contains(last));
    run(&staged_without_last, &input, &[0; 128], 32, Options::default()).expect("no element of column 7 is stored");
}
