//! `wmma`: fragments are loaded, multiplied and stored; their layout is opaque.

use half::{bf16, f16};
use ptx_gemm_interp::ViolationKind::{
    self, BarrierMismatch, InvalidOperand, Misaligned, OutOfBounds, Race, Uninitialised,
};
use ptx_gemm_interp::{Arg, Checks, Options, Violation};

use crate::copies::change;
use crate::run::Device;

/// A product of one shape, from matrices with these layouts and strides in global memory.
#[derive(Clone, Copy, Debug)]
struct Case {
    shape: [usize; 3],
    bf16: bool,
    /// Types of C and D.
    sums: [&'static str; 2],
    /// Layouts of A, B, C and D.
    layouts: [&'static str; 4],
}

const PLAIN: Case =
    Case { shape: [16, 16, 16], bf16: false, sums: ["f32", "f32"], layouts: ["row", "col", "row", "row"] };

fn a(i: usize, k: usize) -> f32 {
    ((i * 7 + k * 3) % 11) as f32 - 5.0
}

fn b(k: usize, j: usize) -> f32 {
    ((k * 5 + j * 2) % 13) as f32 - 6.0
}

fn c(i: usize, j: usize) -> f32 {
    (i * 3 + j) as f32 - 20.0
}

/// Elements between rows, or columns: more than their length.
const PITCH: usize = 48;

impl Case {
    /// A matrix in memory.
    fn bytes(
        &self,
        ty: &str,
        layout: &str,
        [rows, columns]: [usize; 2],
        value: &dyn Fn(usize, usize) -> f32,
    ) -> Vec<u8> {
        let lines = if layout == "row" { rows } else { columns };
        let length = rows * columns / lines;
        let element = |line: usize, at: usize| {
            let [row, column] = if layout == "row" { [line, at] } else { [at, line] };
            let value = if at < length { value(row, column) } else { 77.0 };
            match ty {
                "f32" => value.to_le_bytes().to_vec(),
                "bf16" => bf16::from_f32(value).to_le_bytes().to_vec(),
                _ => f16::from_f32(value).to_le_bytes().to_vec(),
            }
        };
        (0..lines).flat_map(|line| (0..PITCH).flat_map(move |at| element(line, at))).collect()
    }

    fn factor(&self) -> &'static str {
        if self.bf16 { "bf16" } else { "f16" }
    }

    fn body(&self) -> String {
        let ([m, n, k], ty) = (self.shape, self.factor());
        let [of_c, of_d] = self.sums;
        let [layout_a, layout_b, layout_c, layout_d] = self.layouts;
        let registers = |name: &str, count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("%{name}{at}")).collect();
            format!("{{{}}}", all.join(", "))
        };
        let count = |elements: usize| if self.bf16 { elements / 64 } else { 8 };
        let sums = |ty: &str| if ty == "f32" { 8 } else { 4 };
        let (a, b) = (registers("a", count(m * k)), registers("b", count(k * n)));
        let (c, d) = (registers("c", sums(of_c)), registers("d", sums(of_d)));
        let shape = format!("m{m}n{n}k{k}");
        let of_factors = if self.bf16 { ".bf16.bf16" } else { "" };
        format!(
            ".reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>; .reg .b32 %d<8>;
            mov.u32 %r1, {PITCH};
            wmma.load.a.sync.aligned.{layout_a}.{shape}.global.{ty} {a}, [%in], %r1;
            wmma.load.b.sync.aligned.{layout_b}.{shape}.global.{ty} {b}, [%in+4096], {PITCH}; // right
            wmma.load.c.sync.aligned.{layout_c}.{shape}.{of_c} {c}, [%in+8192], %r1;
            wmma.mma.sync.aligned.{layout_a}.{layout_b}.{shape}.{of_d}{of_factors}.{of_c} {d}, {a}, {b}, {c};
            wmma.store.d.sync.aligned.{layout_d}.{shape}.global.{of_d} [%out], {d}, %r1;"
        )
    }

    fn input(&self) -> Vec<u8> {
        let [m, n, k] = self.shape;
        let [layout_a, layout_b, layout_c, _] = self.layouts;
        let mut all = self.bytes(self.factor(), layout_a, [m, k], &a);
        all.resize(4096, 0);
        all.extend(self.bytes(self.factor(), layout_b, [k, n], &b));
        all.resize(8192, 0);
        all.extend(self.bytes(self.sums[0], layout_c, [m, n], &c));
        all
    }

    fn check(&self) {
        let [m, n, k] = self.shape;
        let product = |i: usize, j: usize| c(i, j) + (0..k).map(|at| a(i, at) * b(at, j)).sum::<f32>();
        let mut want = self.bytes(self.sums[1], self.layouts[3], [m, n], &product);
        let width = if self.sums[1] == "f32" { 4 } else { 2 };
        let lines = if self.layouts[3] == "row" { m } else { n };
        for (at, byte) in want.iter_mut().enumerate() {
            // The memory between the rows is unchanged.
            if at / width % PITCH >= m * n / lines {
                *byte = 9;
            }
        }
        for checks in [Checks::Full, Checks::Off] {
            let out = run(&self.body(), &self.input(), want.len(), 32, checks);
            let out = out.unwrap_or_else(|violation| panic!("{self:?}: {violation}"));
            assert!(out == want, "{self:?} ({checks:?})");
        }
    }
}

fn run(body: &str, input: &[u8], out: usize, threads: u32, checks: Checks) -> Result<Vec<u8>, Violation> {
    let mut device = Device::new(&format!(
        ".version 8.0\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out) {{
         .shared .align 128 .b8 s[2048];
         .reg .b64 %rd<8>; .reg .b64 %in; .reg .b64 %out; .reg .b32 %r<24>; .reg .b32 %t; .reg .pred %p<4>;
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
         {body}
         ret; }}"
    ));
    device.options = Options { checks, ..Options::default() };
    let (from, to) = (device.upload("in", input), device.upload("out", &vec![9u8; out]));
    device.launch([1, 1, 1], [threads, 1, 1], &[Arg::U64(from), Arg::U64(to)])?;
    let mut bytes = vec![0; out];
    device.memory.read(to, &mut bytes).expect("inside");
    Ok(bytes)
}

#[test]
fn products_of_every_shape_and_layout() {
    for shape in [[16, 16, 16], [32, 8, 16], [8, 32, 16]] {
        for layouts in 0..16 {
            let layouts = [0, 1, 2, 3].map(|at| if layouts >> at & 1 == 0 { "row" } else { "col" });
            for sums in [["f32", "f32"], ["f16", "f16"], ["f16", "f32"], ["f32", "f16"]] {
                Case { shape, bf16: false, sums, layouts }.check();
            }
            Case { shape, bf16: true, sums: ["f32", "f32"], layouts }.check();
        }
    }
}

/// Without a stride, rows follow each other. A fragment can be stored to the place it came from, in shared memory.
#[test]
fn fragments_come_back() {
    let body = |size: u32| {
        format!(
            ".reg .b32 %c<8>;
            shl.b32 %r0, %t, 5; mov.u32 %r1, s; add.u32 %r1, %r1, %r0; mov.u32 %r2, s; add.u32 %r2, %r2, 1024;
            cvt.u64.u32 %rd0, %r0; add.u64 %rd1, %in, %rd0; add.u64 %rd2, %out, %rd0;
            ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd1]; st.shared.v4.b32 [%r1], {{%r4, %r5, %r6, %r7}};
            ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd1+16]; st.shared.v4.b32 [%r1+16], {{%r4, %r5, %r6, %r7}};
            bar.warp.sync -1; // staged
            wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {{%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}}, [s]; // load
            wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r2], {{%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}}, {size};
            bar.warp.sync -1; // stored
            ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r1+1024]; st.global.v4.b32 [%rd2], {{%r4, %r5, %r6, %r7}};
            ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r1+1040]; st.global.v4.b32 [%rd2+16], {{%r4, %r5, %r6, %r7}};"
        )
    };
    let input: Vec<u8> = (0..1024).map(|at| (at % 251) as u8).collect();
    assert_eq!(run(&body(16), &input, 1024, 32, Checks::Full).expect("right"), input);
    let broken = |name: &str, from: &str, to: &str, kind: ViolationKind, words: &[&str]| {
        breaks(name, &change(&body(16), from, to), &input, 32, kind, words);
    };
    broken("read before they are written", "bar.warp.sync -1; // staged", "", Race, &["wmma.load", "st.shared"]);
    broken("read while they are stored", "bar.warp.sync -1; // stored", "", Race, &["wmma.store", "ld.shared"]);
    broken("never written", "[s]; // load", "[s+1024];", Uninitialised, &["st.global", "ld.shared"]);
    broken("past the end", "[s]; // load", "[s+1056];", OutOfBounds, &["wmma.load"]);
    breaks("rows too close", &body(12), &input, 32, Misaligned, &["multiples of 32"]);
    breaks("a part of a warp", &body(16), &input, 24, BarrierMismatch, &["needs all 32"]);
}

fn breaks(name: &str, body: &str, input: &[u8], threads: u32, kind: ViolationKind, words: &[&str]) {
    let violation = run(body, input, 4096, threads, Checks::Full).map(|_| ()).expect_err(name);
    assert_eq!(violation.kind, kind, "{name}: {violation}");
    words.iter().for_each(|word| assert!(violation.to_string().contains(word), "{name}: {violation}"));
}

#[test]
fn broken_products() {
    let broken = |name: &str, from: &str, to: &str, kind: ViolationKind, words: &[&str]| {
        breaks(name, &change(&PLAIN.body(), from, to), &PLAIN.input(), 32, kind, words);
    };
    broken("a matrix at an odd address", "[%in+4096]", "[%in+4112]", Misaligned, &["multiples of 32"]);
    broken("past the end", "[%in+4096]", "[%in+40960]", OutOfBounds, &["wmma.load.b"]);
    broken("different strides", "mov.u32 %r1, 48;", "mad.lo.u32 %r1, %t, 16, 48;", InvalidOperand, &["another matrix"]);
    broken("undefined stride", "mov.u32 %r1, 48;", "", Uninitialised, &["stride"]);
    broken("undefined fragment", "%b6, %b7}, {%c", "%b6, %r9}, {%c", Uninitialised, &["never written"]);
    // Another thread's store to a row of B is not ordered before the load.
    let store = "setp.eq.u32 %p0, %t, 0; @%p0 st.global.u32 [%in+4100], 0;\nwmma.load.b";
    broken("a store before", "wmma.load.b", store, Race, &["wmma.load.b", "st.global"]);
    // A of m8n32k16 has 128 elements, and its eight registers hold each of them four times.
    let wide = Case { shape: [8, 32, 16], ..PLAIN };
    let copies = change(&wide.body(), "%a6, %a7}, {%b", "%a6, %r9}, {%b");
    breaks("an undefined copy", &copies, &wide.input(), 32, Uninitialised, &["never written"]);
}

/// Bytes with sums in s32, of every shape: exact, and saturating at the ends of the range.
#[test]
fn products_of_bytes() {
    let bytes = |signed: bool, i: usize, j: usize| {
        let value = ((i * 37 + j * 91) % 256) as u8;
        if signed { i64::from(value as i8) } else { i64::from(value) }
    };
    for ([m, n, k], counts) in [([16, 16, 16], [2, 2]), ([32, 8, 16], [4, 1]), ([8, 32, 16], [1, 4])] {
        for (ty, of_a, of_b, satfinite) in [
            ("s8", "row", "col", ""),
            ("u8", "row", "row", ""),
            ("s8", "col", "col", ".satfinite"),
            ("u8", "col", "row", ".satfinite"),
        ] {
            let list = |name: &str, count: usize| {
                let all: Vec<String> = (0..count).map(|at| format!("%{name}{at}")).collect();
                format!("{{{}}}", all.join(", "))
            };
            let (a, b, c) = (list("a", counts[0]), list("b", counts[1]), list("c", 8));
            let shape = format!("m{m}n{n}k{k}");
            let body = format!(
                ".reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>;
                wmma.load.a.sync.aligned.{of_a}.{shape}.global.{ty} {a}, [%in];
                wmma.load.b.sync.aligned.{of_b}.{shape}.global.{ty} {b}, [%in+4096];
                wmma.load.c.sync.aligned.row.{shape}.global.s32 {c}, [%in+8192];
                wmma.mma.sync.aligned.{of_a}.{of_b}.{shape}.s32.{ty}.{ty}.s32{satfinite} {c}, {a}, {b}, {c};
                wmma.store.d.sync.aligned.row.{shape}.global.s32 [%out], {c};"
            );
            let mut input = vec![0; 12288];
            let signed = ty == "s8";
            let place = |layout: &str, [rows, columns]: [usize; 2], i: usize, j: usize| {
                if layout == "row" { i * columns + j } else { j * rows + i }
            };
            for l in 0..k {
                (0..m).for_each(|i| input[place(of_a, [m, k], i, l)] = bytes(signed, i, l) as u8);
                (0..n).for_each(|j| input[4096 + place(of_b, [k, n], l, j)] = bytes(signed, l, j) as u8);
            }
            let start = |at: usize| if at.is_multiple_of(3) { i32::MAX - 5 } else { at as i32 - 99 };
            (0..m * n).for_each(|at| input[8192 + 4 * at..8196 + 4 * at].copy_from_slice(&start(at).to_le_bytes()));
            for checks in [Checks::Off, Checks::Full] {
                let name = format!("{shape} {ty} {of_a} {of_b}{satfinite}");
                let out =
                    run(&body, &input, 4 * m * n, 32, checks).unwrap_or_else(|violation| panic!("{name}: {violation}"));
                for (at, word) in out.chunks_exact(4).enumerate() {
                    let sum: i64 = (0..k).map(|l| bytes(signed, at / n, l) * bytes(signed, l, at % n)).sum();
                    let sum = i64::from(start(at)) + sum;
                    let want = if satfinite.is_empty() {
                        sum as i32
                    } else {
                        sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32
                    };
                    assert_eq!(i32::from_le_bytes(word.try_into().unwrap()), want, "{name}, element {at}");
                }
            }
        }
    }
}

/// tf32, f64 with every rounding, and integers of four bits and of one.
#[test]
fn products_of_other_types() {
    // Elements one after the other, the first one in the lowest bits.
    let packed = |elements: &[u64], bits: usize| {
        let mut all = vec![0u8; (elements.len() * bits).div_ceil(8)];
        for (at, element) in elements.iter().enumerate() {
            for bit in (0..bits).filter(|bit| element >> bit & 1 != 0) {
                all[(at * bits + bit) / 8] |= 1 << ((at * bits + bit) % 8);
            }
        }
        all
    };
    let f64s = |value: f64| value.to_bits();
    // A shape, the types of A and of D, the bits of these, the operation, and how a value of A or B and one of D are written.
    type Row<'a> = ([usize; 3], [&'a str; 2], [usize; 2], &'a str, fn(f64) -> u64, fn(f64) -> u64);
    let s32: fn(f64) -> u64 = |value| value as i32 as u32 as u64;
    let f32s: fn(f64) -> u64 = |value| (value as f32).to_bits().into();
    let rows: [Row<'_>; 9] = [
        (
            [16, 16, 8],
            ["tf32", "f32"],
            [32, 32],
            "wmma.mma.sync.aligned.LAYOUTS.m16n16k8.f32.tf32.tf32.f32",
            f32s,
            f32s,
        ),
        ([8, 8, 4], ["f64", "f64"], [64, 64], "wmma.mma.sync.aligned.LAYOUTS.m8n8k4.f64.f64.f64.f64", f64s, f64s),
        ([8, 8, 4], ["f64", "f64"], [64, 64], "wmma.mma.sync.aligned.LAYOUTS.m8n8k4.rn.f64.f64.f64.f64", f64s, f64s),
        ([8, 8, 4], ["f64", "f64"], [64, 64], "wmma.mma.sync.aligned.LAYOUTS.m8n8k4.rm.f64.f64.f64.f64", f64s, f64s),
        (
            [8, 8, 32],
            ["s4", "s32"],
            [4, 32],
            "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32",
            |x| x as i64 as u64,
            s32,
        ),
        (
            [8, 8, 32],
            ["u4", "s32"],
            [4, 32],
            "wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32",
            |x| x as i64 as u64,
            s32,
        ),
        (
            [8, 8, 32],
            ["s4", "s32"],
            [4, 32],
            "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32.satfinite",
            |x| x as i64 as u64,
            s32,
        ),
        (
            [8, 8, 128],
            ["b1", "s32"],
            [1, 32],
            "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
            |x| x as u64,
            s32,
        ),
        (
            [8, 8, 128],
            ["b1", "s32"],
            [1, 32],
            "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
            |x| x as u64,
            s32,
        ),
    ];
    for ([m, n, k], [ty, sum], [bits, of_sum], multiply, factor, sums) in rows {
        let both = multiply.contains("LAYOUTS");
        for layouts in [["row", "col"], ["col", "row"]].iter().take(if both { 2 } else { 1 }) {
            let [of_a, of_b] = *layouts;
            let multiply = multiply.replace("LAYOUTS", &format!("{of_a}.{of_b}"));
            let width = if sum == "f64" { 64 } else { 32 };
            let list = |name: &str, elements: usize, bits: usize| {
                let all: Vec<String> = (0..elements * bits / width / 32).map(|at| format!("%{name}{at}")).collect();
                format!("{{{}}}", all.join(", "))
            };
            let (a, b, c) = (list("a", m * k, bits), list("b", k * n, bits), list("c", m * n, of_sum));
            let shape = format!("m{m}n{n}k{k}");
            let body = format!(
                ".reg .b{width} %a<8>; .reg .b{width} %b<8>; .reg .b{width} %c<8>;
                wmma.load.a.sync.aligned.{of_a}.{shape}.global.{ty} {a}, [%in];
                wmma.load.b.sync.aligned.{of_b}.{shape}.global.{ty} {b}, [%in+4096];
                wmma.load.c.sync.aligned.row.{shape}.global.{sum} {c}, [%in+8192];
                {multiply} {c}, {a}, {b}, {c};
                wmma.store.d.sync.aligned.row.{shape}.global.{sum} [%out], {c};"
            );
            // Signed if the type is; of an f64, one that is not exact when it is multiplied.
            let value = |i: usize, j: usize| {
                let whole = ((i * 7 + j * 5 + i * j) % (1 << bits.min(4))) as f64;
                match ty {
                    "f64" => whole / 3.0 - 1.7,
                    "tf32" | "s4" => whole - 8.0,
                    _ => whole,
                }
            };
            let start = |at: usize| match ty {
                "f64" => 1.0 / (at as f64 + 3.0),
                "s4" if at.is_multiple_of(3) => f64::from(i32::MAX - 5),
                _ => at as f64 - 20.0,
            };
            let matrix = |layout: &str, [rows, columns]: [usize; 2]| {
                let at =
                    |at: usize| if layout == "row" { [at / columns, at % columns] } else { [at % rows, at / rows] };
                let elements: Vec<u64> =
                    (0..rows * columns).map(|index| factor(value(at(index)[0], at(index)[1]))).collect();
                packed(&elements, bits)
            };
            let mut input = matrix(of_a, [m, k]);
            input.resize(4096, 0);
            input.extend(matrix(of_b, [k, n]));
            input.resize(8192, 0);
            input.extend(packed(&(0..m * n).map(|at| sums(start(at))).collect::<Vec<_>>(), of_sum));
            input.resize(12288, 0);
            let want: Vec<u64> = (0..m * n)
                .map(|at| {
                    let pairs = (0..k).map(|l| (value(at / n, l), value(l, at % n)));
                    let total = match ty {
                        "b1" if multiply.contains("xor") => start(at) + pairs.filter(|(x, y)| x != y).count() as f64,
                        "f64" => pairs.fold(start(at), |sum, (x, y)| match multiply.contains(".rm.") {
                            false => x.mul_add(y, sum),
                            true => below(x, y, sum),
                        }),
                        _ => start(at) + pairs.map(|(x, y)| x * y).sum::<f64>(),
                    };
                    match (ty, multiply.contains("satfinite")) {
                        ("s4", false) => total as i64 as u32 as u64,
                        _ => sums(total),
                    }
                })
                .collect();
            for checks in [Checks::Off, Checks::Full] {
                let out = run(&body, &input, m * n * of_sum / 8, 32, checks);
                let out = out.unwrap_or_else(|violation| panic!("{multiply}: {violation}"));
                assert!(out == packed(&want, of_sum), "{multiply} ({checks:?})");
            }
            let missing = change(
                &body,
                &format!("{multiply} {c}, {a}"),
                &format!("{multiply} {c}, {{{}}}", a.replace(['{', '}'], "").replace("%a0", "%b7")),
            );
            breaks(&multiply, &missing, &input, 32, Uninitialised, &["never written"]);
        }
    }
}

/// x y + sum, rounded down.
fn below(x: f64, y: f64, sum: f64) -> f64 {
    let nearest = x.mul_add(y, sum);
    // The error of the nearest number: the product and both sums as pairs, whose parts do not overlap.
    let product = x * y;
    let of_product = x.mul_add(y, -product);
    let total = product + sum;
    let part = total - product;
    let of_total = (product - (total - part)) + (sum - part);
    let error = (total - nearest) + (of_total + of_product);
    if error < 0.0 { nearest.next_down() } else { nearest }
}

/// Compared with an H200: tf32 is summed in two steps of four along k, and each aligns its terms to the largest of them.
#[test]
fn products_of_tf32_have_two_steps() {
    let small = 2f32.powi(-13);
    // What cancels in the first step leaves the second one its precision, and not the other way round.
    for (factors, want) in [
        ([1.0, -1.0, 0.0, 0.0, small, 0.0, 0.0, 0.0], small * small),
        ([small, 0.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0], 0.0),
    ] {
        let body = ".reg .b32 %a<4>; .reg .b32 %b<4>; .reg .b32 %c<8>;
            wmma.load.a.sync.aligned.row.m16n16k8.global.tf32 {%a0, %a1, %a2, %a3}, [%in];
            wmma.load.b.sync.aligned.col.m16n16k8.global.tf32 {%b0, %b1, %b2, %b3}, [%in+512];
            wmma.load.c.sync.aligned.row.m16n16k8.global.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, [%in+1024];
            wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7},
                {%a0, %a1, %a2, %a3}, {%b0, %b1, %b2, %b3}, {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7};
            wmma.store.d.sync.aligned.row.m16n16k8.global.f32 [%out], {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7};";
        let a = factors.repeat(16);
        let b = factors.map(f32::abs).repeat(16);
        let input: Vec<u8> = a.into_iter().chain(b).flat_map(f32::to_le_bytes).chain([0; 1024]).collect();
        let out = run(body, &input, 1024, 32, Checks::Full).expect("right");
        assert!(out.chunks_exact(4).all(|bytes| bytes == want.to_le_bytes()), "{factors:?}");
    }
}
