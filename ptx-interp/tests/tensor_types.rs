//! Products of tf32, f64, 8-bit floats and bytes: `mma.sync` of every shape, and `wgmma`.

use ptx_gemm_interp::ViolationKind::{self, BarrierMismatch, Proxy, Race, Uninitialised};
use ptx_gemm_interp::{Arg, Checks, Options, Violation};

use crate::copies::change;
use crate::run::Device;

/// The types of A and B, and of C and D, with the extents of a product.
#[derive(Clone, Copy, Debug)]
struct Case {
    types: [&'static str; 2],
    sum: &'static str,
    m: usize,
    n: usize,
    k: usize,
    saturates: bool,
}

fn case(types: [&'static str; 2], sum: &'static str, [m, n, k]: [usize; 3]) -> Case {
    Case { types, sum, m, n, k, saturates: false }
}

fn bits(ty: &str) -> usize {
    match ty {
        "f64" => 64,
        "tf32" | "f32" | "s32" => 32,
        "f16" => 16,
        _ => 8,
    }
}

fn a(i: usize, k: usize) -> i32 {
    ((i * 7 + k * 3) % 7) as i32 - 2
}

fn b(k: usize, j: usize) -> i32 {
    ((k * 5 + j * 2) % 7) as i32 - 3
}

fn c(i: usize, j: usize) -> i32 {
    (i * 16 + j) as i32 % 50
}

/// The value of an 8-bit float without its sign.
fn narrow(fraction: i32, bias: i32, bits: u32) -> f64 {
    let (field, low) = ((bits >> fraction) as i32, (bits & ((1 << fraction) - 1)) as f64 * 2f64.powi(-fraction));
    if field == 0 { low * 2f64.powi(1 - bias) } else { (1.0 + low) * 2f64.powi(field - bias) }
}

/// The bits of a small integer; an unsigned one is made positive.
fn encoded(ty: &str, value: i32) -> u64 {
    let narrowed = |fraction: i32, bias: i32| {
        let found = (0..0x7c).find(|bits| narrow(fraction, bias, *bits) == f64::from(value.abs()));
        u64::from(found.expect("representable")) | u64::from(value < 0) << 7
    };
    match ty {
        "f64" => f64::from(value).to_bits(),
        "tf32" | "f32" => (value as f32).to_bits().into(),
        "f16" => half::f16::from_f32(value as f32).to_bits().into(),
        "e4m3" => narrowed(3, 7),
        "e5m2" => narrowed(2, 15),
        "s32" => value as u32 as u64,
        "s8" => value as u8 as u64,
        _ => value.unsigned_abs().into(),
    }
}

fn value(ty: &str, value: i32) -> i32 {
    if ty == "u8" { value.abs() } else { value }
}

impl Case {
    /// D as integers, which every type here holds exactly.
    fn product(&self, i: usize, j: usize) -> i32 {
        let [of_a, of_b] = self.types;
        c(i, j) + (0..self.k).map(|k| value(of_a, a(i, k)) * value(of_b, b(k, j))).sum::<i32>()
    }

    fn doubles(&self) -> bool {
        self.sum == "f64"
    }

    /// Registers of A, B, and C or D.
    fn registers(&self) -> [usize; 3] {
        let wide = if self.doubles() { 64 } else { 32 };
        let count = |elements: usize, bits: usize| elements * bits / wide / 32;
        let of = bits(self.types[0]);
        [count(self.m * self.k, of), count(self.k * 8, of), count(self.m * 8, bits(self.sum))]
    }

    /// The words of one register of each lane, from the elements that it holds.
    fn words(&self, ty: &str, elements: impl Fn(usize, usize) -> i32) -> Vec<u32> {
        let per_register = (32 / bits(ty)).max(1);
        (0..32)
            .flat_map(|lane| {
                let all = (0..per_register).map(|at| encoded(ty, elements(lane, at)) << (at * bits(ty) % 64));
                let all = all.fold(0, |all, one| all | one);
                if bits(ty) == 64 { vec![all as u32, (all >> 32) as u32] } else { vec![all as u32] }
            })
            .collect()
    }

    /// PTX ISA, the figures of the fragments: groups of four lanes hold rows of A and columns of B.
    fn fragments(&self) -> [Vec<u32>; 3] {
        let per = (32 / bits(self.types[0])).max(1);
        let halves = self.m / 8;
        let [of_a, of_b, _] = self.registers();
        let along = |lane: usize, at: usize, step: usize| lane % 4 * per + at + step * 4 * per;
        let left = (0..of_a).flat_map(|register| {
            let row = |lane: usize| lane / 4 + register % halves * 8;
            self.words(self.types[0], |lane, at| a(row(lane), along(lane, at, register / halves)))
        });
        let right =
            (0..of_b).flat_map(|register| self.words(self.types[1], |lane, at| b(along(lane, at, register), lane / 4)));
        [left.collect(), right.collect(), self.sums(&c)]
    }

    fn sums(&self, value: &dyn Fn(usize, usize) -> i32) -> Vec<u32> {
        let [.., of_c] = self.registers();
        let register = |register: usize| match self.sum {
            "f16" => self.words("f16", |lane, at| value(lane / 4 + register * 8, lane % 4 * 2 + at)),
            ty => self.words(ty, |lane, _| value(lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2)),
        };
        (0..of_c).flat_map(register).collect()
    }

    fn body(&self) -> String {
        let (counts, step) = (self.registers(), if self.doubles() { 8 } else { 4 });
        let names = |name: &str, count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("%{name}{at}")).collect();
            format!("{{{}}}", all.join(", "))
        };
        let bits = 8 * step;
        let sum = if self.sum == "f32" {
            ".f32"
        } else if step == 8 {
            ".f64"
        } else {
            ".b32"
        };
        let mut text = format!(
            ".reg .b{bits} %a<8>; .reg .b{bits} %b<4>; .reg {sum} %d<4>;
             mul.lo.u32 %r0, %t, {step}; cvt.u64.u32 %rd0, %r0; add.u64 %in, %in, %rd0; add.u64 %out, %out, %rd0;\n"
        );
        let mut at = 0;
        for (name, count) in ["a", "b", "d"].into_iter().zip(counts) {
            for register in 0..count {
                text += &format!("ld.global.b{bits} %{name}{register}, [%in+{}];\n", at * 32 * step);
                at += 1;
            }
        }
        let Case { m, n, k, sum, types: [of_a, of_b], .. } = self;
        let saturates = if self.saturates { ".satfinite" } else { "" };
        let [d, a, b] = [names("d", counts[2]), names("a", counts[0]), names("b", counts[1])];
        text += &format!(
            "mma.sync.aligned.m{m}n{n}k{k}.row.col{saturates}.{sum}.{of_a}.{of_b}.{sum} {d}, {a}, {b}, {d}; // multiply\n"
        );
        for register in 0..counts[2] {
            text += &format!("st.global.b{bits} [%out+{}], %d{register};\n", register * 32 * step);
        }
        text
    }
}

fn run(body: &str, input: &[u32], out: usize, threads: u32, checks: Checks) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&format!(
        ".version 8.7\n.target sm_90a\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out) {{
         .reg .b64 %rd<8>; .reg .b64 %in; .reg .b64 %out; .reg .b32 %r<24>; .reg .b32 %t; .reg .pred %p<4>;
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
         {body}
         ret; }}"
    ));
    device.options = Options { checks, ..Options::default() };
    let (from, to) = (device.upload("in", input), device.upload("out", &vec![0u32; out]));
    device.launch([1, 1, 1], [threads, 1, 1], &[Arg::U64(from), Arg::U64(to)])?;
    Ok(device.words(to, out))
}

fn breaks(name: &str, body: &str, input: &[u32], threads: u32, kind: ViolationKind, words: &[&str]) {
    let violation = run(body, input, 4096, threads, Checks::Full).map(|_| ()).expect_err(name);
    assert_eq!(violation.kind, kind, "{name}: {violation}");
    words.iter().for_each(|word| assert!(violation.to_string().contains(word), "{name}: {violation}"));
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        case(["tf32"; 2], "f32", [16, 8, 4]),
        case(["tf32"; 2], "f32", [16, 8, 8]),
        case(["f64"; 2], "f64", [8, 8, 4]),
        case(["f64"; 2], "f64", [16, 8, 4]),
        case(["f64"; 2], "f64", [16, 8, 8]),
        case(["f64"; 2], "f64", [16, 8, 16]),
    ];
    for of_a in ["e4m3", "e5m2"] {
        for of_b in ["e4m3", "e5m2"] {
            for (sum, k) in [("f32", 16), ("f32", 32), ("f16", 16), ("f16", 32)] {
                cases.push(case([of_a, of_b], sum, [16, 8, k]));
            }
        }
    }
    for of_a in ["s8", "u8"] {
        for of_b in ["s8", "u8"] {
            for [m, k] in [[8, 16], [16, 16], [16, 32]] {
                let plain = case([of_a, of_b], "s32", [m, 8, k]);
                cases.extend([plain, Case { saturates: true, ..plain }]);
            }
        }
    }
    cases
}

#[test]
fn products_of_one_warp() {
    for case in cases() {
        let (input, want) = (case.fragments().concat(), case.sums(&|i, j| case.product(i, j)));
        for checks in [Checks::Full, Checks::Off] {
            let words = run(&case.body(), &input, want.len(), 32, checks);
            assert_eq!(
                words.unwrap_or_else(|violation| panic!("{case:?}: {violation}")),
                want,
                "{case:?} ({checks:?})"
            );
        }
    }
}

#[test]
fn sums_of_bytes_wrap_around_or_saturate() {
    for saturates in [false, true] {
        let case = Case { saturates, ..case(["u8"; 2], "s32", [16, 8, 32]) };
        let [left, right, sums] = case.fragments();
        let sums = vec![i32::MAX as u32 - 5; sums.len()];
        let words = run(&case.body(), &[left, right, sums].concat(), 128, 32, Checks::Full).expect("right");
        let added = |i: usize, j: usize| case.product(i, j) - c(i, j);
        let want = case.sums(&|i, j| match (i32::MAX - 5).checked_add(added(i, j)) {
            Some(sum) => sum,
            None if saturates => i32::MAX,
            None => (i32::MAX - 5).wrapping_add(added(i, j)),
        });
        assert_eq!(words, want);
    }
}

/// Only elements that depend on a value that was never written are undefined.
#[test]
fn broken_rules_of_one_warp() {
    for case in cases().into_iter().step_by(3) {
        let (input, [_, of_b, of_d]) = (case.fragments().concat(), case.registers());
        let wide = if case.doubles() { 64 } else { 32 };
        let last = format!("ld.global.b{wide} %b{}, ", of_b - 1);
        // Column 7 belongs to the last four lanes.
        let body = case.body().replacen(&last, &format!("setp.lt.u32 %p0, %t, 28;\n@%p0 {last}"), 1);
        breaks(&format!("{case:?}"), &body, &input, 32, Uninitialised, &["st.global"]);
        let stores = "// multiply\n";
        let body = change(&body, stores, &format!("{stores}and.b32 %r1, %t, 3; setp.ne.u32 %p1, %r1, 3;\n"));
        let body = body.replace("st.global", "@%p1 st.global");
        run(&body, &input, 64 * of_d, 32, Checks::Full).unwrap_or_else(|violation| panic!("{case:?}: {violation}"));
        breaks(&format!("{case:?}"), &case.body(), &input, 24, BarrierMismatch, &["needs all 32"]);
    }
}

/// A multiplication of 64 x 16 by one warp group. The operands are in shared memory without a swizzle, in the order of
/// the input: 16-byte pieces of eight rows follow each other, then the other half of k, then the next eight rows.
fn group(case: Case, in_registers: bool, negates: bool) -> (String, Vec<u32>) {
    let Case { k, sum, types: [of_a, of_b], .. } = case;
    let per_piece = 128 / bits(of_a);
    let count = if sum == "f16" { 4 } else { 8 };
    let operand = |ty: &str, lines: usize, element: &dyn Fn(usize, usize) -> i32| -> Vec<u32> {
        let bytes = (0..lines / 8 * 2 * 8).flat_map(|piece| {
            let (line, half) = (piece / 16 * 8 + piece % 8, piece / 8 % 2);
            (0..per_piece)
                .flat_map(|at| encoded(ty, element(line, half * per_piece + at)).to_le_bytes()[..bits(ty) / 8].to_vec())
                .collect::<Vec<u8>>()
        });
        let bytes: Vec<u8> = bytes.collect();
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    };
    let left = operand(of_a, 64, &a);
    let right = operand(of_b, 16, &|j, k| b(k, j));
    let reg = if sum == "f32" { ".f32" } else { ".b32" };
    let d: Vec<String> = (0..count).map(|at| format!("%d{at}")).collect();
    let copies: String = (0..5)
        .map(|at| format!("ld.global.b32 %r5, [%rd0+{}]; st.shared.b32 [%r4+{}], %r5;\n", at * 512, at * 512))
        .collect();
    let loads: String = (0..count).map(|at| format!("ld.global{reg} %d{at}, [%rd0+{}];\n", 2560 + at * 512)).collect();
    let stores: String = (0..count).map(|at| format!("st.global{reg} [%out+{}], %d{at};\n", at * 512)).collect();
    // Lane l of warp w holds rows 16 w + l / 4 and 8 below, bytes 4 (l % 4) of either half.
    let words = "shr.u32 %r6, %t, 5; mul.lo.u32 %r6, %r6, 512; and.b32 %r7, %t, 31; shr.u32 %r8, %r7, 2; and.b32 %r7, %r7, 3;
        mad.lo.u32 %r6, %r8, 16, %r6; mad.lo.u32 %r6, %r7, 4, %r6; add.u32 %r6, %r6, %r3;
        ld.shared.b32 %a0, [%r6]; ld.shared.b32 %a1, [%r6+256]; ld.shared.b32 %a2, [%r6+128]; ld.shared.b32 %a3, [%r6+384];";
    let (words, of_left) = if in_registers { (words, "{%a0, %a1, %a2, %a3}") } else { ("", "%rd2") };
    let tail = match (sum, negates) {
        ("s32", _) => "",
        (_, false) => ", 1, 1",
        (_, true) => ", -1, 1",
    };
    let body = format!(
        ".shared .align 1024 .b8 s[2560]; .reg .b32 %a<4>; .reg {reg} %d<8>;
        mul.wide.u32 %rd0, %t, 4; add.u64 %out, %out, %rd0; add.u64 %rd0, %in, %rd0;
        mov.u32 %r3, s; shl.b32 %r4, %t, 2; add.u32 %r4, %r4, %r3;
        {copies}{loads}
        fence.proxy.async.shared::cta; // fence
        bar.sync 0; // staged
        {words}
        shr.u32 %r5, %r3, 4; cvt.u64.u32 %rd2, %r5; or.b64 %rd2, %rd2, {descriptor:#x};
        add.u64 %rd3, %rd2, 128;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n16k{k}.{sum}.{of_a}.{of_b} {{{d}}}, {of_left}, %rd3, 1{tail};
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        {stores}",
        descriptor = (256u64 / 16) << 32 | (128 / 16) << 16,
        d = d.join(", "),
    );
    let input = [left, right, group_sums(sum, &c)].concat();
    (body, input)
}

/// C or D of a warp group, register by register.
fn group_sums(sum: &str, value: &dyn Fn(usize, usize) -> i32) -> Vec<u32> {
    let row = |thread: usize, half: usize| thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    let word = |register: usize, thread: usize| match sum {
        "f16" => {
            let (row, column) = (row(thread, register % 2), register / 2 * 8 + thread % 4 * 2);
            [0, 1].map(|at| encoded("f16", value(row, column + at)) << (16 * at)).iter().fold(0, |all, one| all | one)
        }
        ty => {
            let column = register / 4 * 8 + thread % 4 * 2 + register % 2;
            encoded(ty, value(row(thread, register / 2 % 2), column))
        }
    };
    let count = if sum == "f16" { 4 } else { 8 };
    (0..count)
        .flat_map(|register| (0..128).map(move |thread| (register, thread)))
        .map(|(r, t)| word(r, t) as u32)
        .collect()
}

fn group_cases() -> Vec<Case> {
    let mut cases = vec![case(["tf32"; 2], "f32", [64, 16, 8])];
    for of_a in ["e4m3", "e5m2"] {
        for of_b in ["e4m3", "e5m2"] {
            cases.extend(["f32", "f16"].map(|sum| case([of_a, of_b], sum, [64, 16, 32])));
        }
    }
    for of_a in ["s8", "u8"] {
        cases.extend(["s8", "u8"].map(|of_b| case([of_a, of_b], "s32", [64, 16, 32])));
    }
    cases
}

#[test]
fn products_of_a_warp_group() {
    for case in group_cases() {
        for (in_registers, negates) in [(false, false), (true, false), (false, true), (true, true)] {
            let negates = negates && case.sum != "s32";
            let (body, input) = group(case, in_registers, negates);
            let product = |i, j| case.product(i, j) - c(i, j);
            let want = group_sums(case.sum, &|i, j| c(i, j) + if negates { -product(i, j) } else { product(i, j) });
            for checks in [Checks::Full, Checks::Off] {
                let words = run(&body, &input, want.len(), 128, checks);
                let words = words.unwrap_or_else(|violation| panic!("{case:?}: {violation}"));
                assert_eq!(words, want, "{case:?}, A in registers: {in_registers}, negated: {negates} ({checks:?})");
            }
        }
    }
}

#[test]
fn broken_rules_of_a_warp_group() {
    for case in group_cases().into_iter().step_by(4) {
        let (body, input) = group(case, false, false);
        let broken = |name: &str, from: &str, to: &str, kind, words: &[&str]| {
            breaks(&format!("{name}, {case:?}"), &change(&body, from, to), &input, 128, kind, words);
        };
        broken("no fence", "fence.proxy.async.shared::cta; // fence", "", Proxy, &["wgmma.mma_async"]);
        broken("no barrier", "bar.sync 0; // staged", "", Race, &["wgmma.mma_async"]);
        let partly = "st.shared.b32 [%r4+1536], %r5;";
        broken(
            "bytes are missing",
            partly,
            &format!("setp.ne.u32 %p0, %t, 9; @%p0 {partly}"),
            Uninitialised,
            &["st.global"],
        );
    }
}
