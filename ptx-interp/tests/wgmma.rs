//! Products of a warp group: every layout of the operands, and each rule about registers and shared memory.

use half::{bf16, f16};
use ptx_gemm_interp::ViolationKind::{
    self, BarrierMismatch, Deadlock, Descriptor, InvalidOperand, Launch as Refused, OutOfBounds, Proxy, Race,
    Uninitialised, Wgmma,
};
use ptx_gemm_interp::{
    Arg, Checks, Launch, Memory, Options, Program, Report, Severity, Swizzle, TensorElement, TensorMap, TensorMapArgs,
    Violation, launch,
};

use crate::copies::{change, runs};

const M: u64 = 64;

/// A product of 64 rows by one warp group, which thread 0 copies by TMA: one box per slab of the swizzle's span.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub bf16: bool,
    pub half_sums: bool,
    /// Whether A and B are contiguous along m and n in memory.
    pub mn_major: [bool; 2],
    pub swizzle: Swizzle,
    pub n: u64,
    pub k: u64,
    pub a_in_registers: bool,
    pub negated: [bool; 2],
}

pub const PLAIN: Product = Product {
    bf16: true,
    half_sums: false,
    mn_major: [false, false],
    swizzle: Swizzle::Bytes128,
    n: 64,
    k: 64,
    a_in_registers: false,
    negated: [false, false],
};

pub fn a(i: u64, k: u64) -> f32 {
    ((i * 7 + k * 3) % 11) as f32 - 5.0
}

pub fn b(k: u64, j: u64) -> f32 {
    ((k * 5 + j * 2) % 13) as f32 - 6.0
}

impl Product {
    /// Bytes of a row of a slab.
    fn span(&self) -> u64 {
        self.swizzle.span().max(16)
    }

    /// Bytes of a slab of an operand with `lines` rows or columns.
    fn slab(&self, mn_major: bool, lines: u64) -> u64 {
        self.span() * if mn_major { self.k } else { lines }
    }

    fn slabs(&self, mn_major: bool, lines: u64) -> u64 {
        2 * if mn_major { lines } else { self.k } / self.span()
    }

    fn bytes(&self, lines: u64) -> u64 {
        2 * lines * self.k
    }

    /// The copies of an operand's slabs.
    fn copies(&self, name: &str, map: &str, mn_major: bool, lines: u64) -> String {
        let one = |slab: u64| {
            format!(
                "mov.u32 %r0, {name}; add.u32 %r0, %r0, {}; mov.u32 %r1, {};
                 @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [{map}, {{%r1, 0}}], [bar];\n",
                slab * self.slab(mn_major, lines),
                slab * self.span() / 2
            )
        };
        (0..self.slabs(mn_major, lines)).map(one).collect()
    }

    /// Loads the descriptor of an operand, from k = 16 `step` on, into the `%rd` with this number.
    fn descriptor(&self, name: &str, register: u32, mn_major: bool, lines: u64, step: u64) -> String {
        let (span, slab) = (self.span(), self.slab(mn_major, lines));
        let (offset, leading, stride) = match (mn_major, self.swizzle) {
            (false, Swizzle::None) => (2 * step * slab, slab, 128),
            (false, _) => (32 * step / span * slab + 32 * step % span, 16, 8 * span),
            (true, Swizzle::None) => (step * 256, 128, slab),
            (true, _) => (step * 16 * span, slab, 8 * span),
        };
        let mode: u64 = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        };
        let constant = mode << 62 | (stride / 16) << 32 | (leading / 16) << 16;
        format!(
            "mov.u32 %r0, {name}; add.u32 %r0, %r0, {offset}; and.b32 %r0, %r0, 0x3ffff; shr.u32 %r0, %r0, 4;
             cvt.u64.u32 %rd{register}, %r0; or.b64 %rd{register}, %rd{register}, {constant:#x}; // {name} {step}\n"
        )
    }

    fn accumulators(&self) -> String {
        let count = self.n / if self.half_sums { 4 } else { 2 };
        let names: Vec<String> = (0..count).map(|index| format!("%d{index}")).collect();
        format!("{{{}}}", names.join(", "))
    }

    fn multiply(&self, step: u64) -> String {
        let Product { n, mn_major: [a_mn, b_mn], negated: [a_neg, b_neg], .. } = *self;
        let (sum, ty) = (if self.half_sums { "f16" } else { "f32" }, if self.bf16 { "bf16" } else { "f16" });
        let sign = |negated: bool| if negated { -1 } else { 1 };
        let (load, a, trans) = match self.a_in_registers {
            true => (
                format!(
                    "ld.global.b32 %a0, [%pa+{0}]; ld.global.b32 %a1, [%pa+{1}]; ld.global.b32 %a2, [%pa+{2}];
                     ld.global.b32 %a3, [%pa+{3}];
                     wgmma.fence.sync.aligned;\n",
                    32 * step,
                    32 * step + 16 * self.k,
                    32 * step + 16,
                    32 * step + 16 * self.k + 16
                ),
                "{%a0, %a1, %a2, %a3}".to_string(),
                format!("{}", u32::from(b_mn)),
            ),
            false => (
                self.descriptor("a", 0, a_mn, M, step),
                "%rd0".to_string(),
                format!("{}, {}", u32::from(a_mn), u32::from(b_mn)),
            ),
        };
        let wait = match self.a_in_registers {
            true => "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n",
            false => "",
        };
        format!(
            "{load}{}wgmma.mma_async.sync.aligned.m64n{n}k16.{sum}.{ty}.{ty} {}, {a}, %rd1, {}, {}, {}, {trans}; // step {step}\n{wait}",
            self.descriptor("b", 1, b_mn, n, step),
            self.accumulators(),
            if step == 0 { "%p5" } else { "1" },
            sign(a_neg),
            sign(b_neg),
        )
    }

    /// The kernel.
    pub fn text(&self) -> String {
        let Product { n, half_sums, mn_major: [a_mn, b_mn], .. } = *self;
        let bytes = self.bytes(n) + if self.a_in_registers { 0 } else { self.bytes(M) };
        let of_a = if self.a_in_registers { String::new() } else { self.copies("a", "%ma", a_mn, M) };
        let steps: String = (0..self.k / 16).map(|step| self.multiply(step)).collect();
        let store = |j: u64, half: u64| match half_sums {
            true => format!("st.global.b32 [%row+{}], %d{};\n", 16 * j + 16 * n * half, 2 * j + half),
            false => {
                let d = 4 * j + 2 * half;
                format!("st.global.v2.f32 [%row+{}], {{%d{d}, %d{}}};\n", 32 * j + 32 * n * half, d + 1)
            }
        };
        let stores: String = (0..n / 8).flat_map(|j| [store(j, 0), store(j, 1)]).collect();
        let ty = if half_sums { ".b32" } else { ".f32" };
        format!(
            ".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(
    .param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 a_param, .param .u64 d_param
) {{
.shared .align 1024 .b8 a[{}]; .shared .align 1024 .b8 b[{}]; .shared .align 8 .b64 bar[2];
.reg .b64 %rd<8>; .reg .b64 %ma; .reg .b64 %mb; .reg .b64 %pa; .reg .b64 %row;
.reg .b32 %r<8>; .reg .b32 %t; .reg .b32 %a<4>; .reg {ty} %d<128>; .reg {ty} %e<128>; .reg .pred %p<8>;
mov.b64 %ma, ma; cvta.param.u64 %ma, %ma; mov.b64 %mb, mb; cvta.param.u64 %mb, %mb;
ld.param.u64 %pa, [a_param]; ld.param.u64 %row, [d_param];
mov.u32 %t, %tid.x; setp.eq.u32 %p0, %t, 0; setp.ne.u32 %p5, %t, %t;
// Row 16 w + l / 4 and the pair of columns 2 (l % 4) of A and of D.
shr.u32 %r2, %t, 2; and.b32 %r3, %r2, 7; shr.u32 %r2, %t, 5; mad.lo.u32 %r2, %r2, 16, %r3; and.b32 %r3, %t, 3;
mul.wide.u32 %rd2, %r2, {}; add.u64 %pa, %pa, %rd2; mul.wide.u32 %rd2, %r3, 4; add.u64 %pa, %pa, %rd2;
mul.wide.u32 %rd2, %r2, {}; add.u64 %row, %row, %rd2; mul.wide.u32 %rd2, %r3, {}; add.u64 %row, %row, %rd2;
@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};
{of_a}{}WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
@!%p1 bra WAIT;
// operands
wgmma.fence.sync.aligned; // fence
// fenced
{steps}wgmma.commit_group.sync.aligned; // commit
// in flight
wgmma.wait_group.sync.aligned 0; // wait
// done
{stores}ret;
}}
",
            self.bytes(M),
            self.bytes(n),
            2 * self.k,
            if half_sums { 2 * n } else { 4 * n },
            if half_sums { 4 } else { 8 },
            self.copies("b", "%mb", b_mn, n),
        )
    }

    fn bits(&self, value: f32) -> u16 {
        if self.bf16 { bf16::from_f32(value).to_bits() } else { f16::from_f32(value).to_bits() }
    }

    /// Runs a text on the product's operands; returns the bits of D.
    pub fn run(&self, text: &str, threads: u32, options: &Options) -> Result<(Vec<u32>, Report), Violation> {
        let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let memory = Memory::new();
        let upload = |name: &str, mn_major: bool, lines: u64, value: &dyn Fn(u64, u64) -> f32| {
            let at = |index: u64| match mn_major {
                true => value(index % lines, index / lines),
                false => value(index / self.k, index % self.k),
            };
            let bytes: Vec<u8> = (0..lines * self.k).flat_map(|index| self.bits(at(index)).to_le_bytes()).collect();
            memory.alloc_from(name, &bytes, 256).expect("fits").address
        };
        let in_a = upload("A", self.mn_major[0], M, &a);
        let in_b = upload("B", self.mn_major[1], self.n, &|j, k| b(k, j));
        let element: u64 = if self.half_sums { 2 } else { 4 };
        let d = memory.alloc("D", M * self.n * element, 256).expect("fits").address;
        let map = |address: u64, mn_major: bool, lines: u64| {
            let (inner, outer) = if mn_major { (lines, self.k) } else { (self.k, lines) };
            let ty = if self.bf16 { TensorElement::Bf16 } else { TensorElement::F16 };
            let extents = [self.span() as u32 / 2, outer as u32];
            let args = TensorMapArgs::new(ty, address, &[inner, outer], &[2 * inner], &extents);
            Arg::TensorMap(Box::new(TensorMap::encode(&args.swizzled(self.swizzle)).expect("legal")))
        };
        let (ma, mb) = (map(in_a, self.mn_major[0], M), map(in_b, self.mn_major[1], self.n));
        let args = [ma, mb, Arg::U64(in_a), Arg::U64(d)];
        let what = Launch { entry: "k", grid: [1; 3], block: [threads, 1, 1], args: &args, ..Launch::default() };
        let report = launch(&program, &memory, &what, options)?;
        let mut bytes = vec![0; (M * self.n * element) as usize];
        memory.read(d, &mut bytes).expect("inside");
        let bits = |chunk: &[u8]| chunk.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        Ok((bytes.chunks(element as usize).map(bits).collect(), report))
    }

    pub fn want(&self) -> Vec<u32> {
        let sign = if self.negated[0] == self.negated[1] { 1.0 } else { -1.0 };
        let sum = |i, j| sign * (0..self.k).map(|k| a(i, k) * b(k, j)).sum::<f32>();
        let bits = |value: f32| if self.half_sums { f16::from_f32(value).to_bits().into() } else { value.to_bits() };
        (0..M * self.n).map(|at| bits(sum(at / self.n, at % self.n))).collect()
    }

    fn check(&self, options: &[Options]) {
        for options in options {
            match self.run(&self.text(), 128, options) {
                Ok((d, report)) => {
                    let want = self.want();
                    let wrong = (0..want.len()).find(|at| d[*at] != want[*at]);
                    assert_eq!(wrong, None, "{self:?} ({options:?})");
                    assert!(report.warnings.is_empty(), "{self:?}: {:?}", report.warnings);
                    assert_eq!(report.fma, M * self.n * self.k);
                }
                Err(violation) => panic!("{self:?} ({options:?}): {violation}"),
            }
        }
    }
}

fn off() -> Options {
    Options { checks: Checks::Off, ..Options::default() }
}

#[test]
fn every_layout_and_swizzle() {
    for swizzle in [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128] {
        for mn_major in [[false, false], [true, false], [false, true], [true, true]] {
            for bf16 in [true, false] {
                Product { bf16, mn_major, swizzle, k: 128, ..PLAIN }.check(&[Options::default(), off()]);
            }
        }
    }
}

#[test]
fn every_width_and_type() {
    for n in [8, 16, 24, 64, 128, 192, 256] {
        let swizzle = if n % 16 == 0 { Swizzle::Bytes32 } else { Swizzle::None };
        Product { n, swizzle, mn_major: [true, true], ..PLAIN }.check(&[Options::default()]);
        Product { n, bf16: false, half_sums: true, k: 32, swizzle, ..PLAIN }.check(&[Options::default()]);
    }
    for negated in [[true, false], [false, true], [true, true]] {
        Product { negated, ..PLAIN }.check(&[Options::default()]);
    }
}

#[test]
fn a_in_registers() {
    for mn_major in [[false, false], [false, true]] {
        for negated in [[false, false], [true, false]] {
            Product { a_in_registers: true, mn_major, negated, ..PLAIN }.check(&[Options::default(), off()]);
        }
    }
}

#[test]
fn right_under_every_order_and_landing() {
    PLAIN.check(&runs());
    Product { a_in_registers: true, ..PLAIN }.check(&runs());
}

/// Checks that a changed kernel breaks one of these rules under every order and landing, at an instruction with `at`.
fn breaks_with(name: &str, text: &str, threads: u32, kinds: &[ViolationKind], at: &str, words: &[&str]) {
    for options in runs() {
        match PLAIN.run(text, threads, &options) {
            Ok(_) => panic!("{name} ({options:?}): nothing was found"),
            Err(violation) => {
                assert!(kinds.contains(&violation.kind), "{name} ({options:?}): {violation}");
                assert!(violation.site.instruction.contains(at), "{name} ({options:?}): {violation}");
                for word in words {
                    assert!(violation.to_string().contains(word), "{name} ({options:?}): {violation}");
                }
            }
        }
    }
}

fn breaks(name: &str, from: &str, to: &str, kinds: &[ViolationKind], at: &str, words: &[&str]) {
    breaks_with(name, &change(&PLAIN.text(), from, to), 128, kinds, at, words);
}

const FENCE: &str = "wgmma.fence.sync.aligned; // fence";
const COMMIT: &str = "wgmma.commit_group.sync.aligned; // commit";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0; // wait";

#[test]
fn registers_are_fenced_before() {
    breaks("no fence at all", FENCE, "", &[Wgmma], "wgmma.mma_async", &["fence"]);
    let zero = "mov.f32 %d7, 0f00000000;";
    breaks("an accumulator written after it", "// fenced", zero, &[Wgmma], "wgmma.mma_async", &["%d7", "mov.f32"]);
    let read = "mov.f32 %e0, %d7;";
    breaks("an accumulator read after it", "// fenced", read, &[Wgmma, Uninitialised], "wgmma.mma_async", &["%d7"]);
    let again = format!("// done\n{}{COMMIT}\n{WAIT}\n", PLAIN.multiply(1).replace("// step 1", "// again"));
    // Accumulators that no other instruction has used need no second fence.
    let twice = change(&PLAIN.text(), "// done", &again);
    PLAIN.run(&twice, 128, &Options::default()).expect("right");
    let used = change(&twice, "// done", "add.f32 %d3, %d3, %d3;");
    breaks_with("used in between", &used, 128, &[Wgmma], "wgmma.mma_async", &["%d3", "add.f32"]);
    let fenced = change(&used, "add.f32 %d3, %d3, %d3;", "add.f32 %d3, %d3, %d3;\nwgmma.fence.sync.aligned;");
    PLAIN.run(&fenced, 128, &Options::default()).expect("right");
}

#[test]
fn registers_in_flight_are_untouched() {
    for (name, line) in [
        ("read", "mov.f32 %e0, %d31;"),
        ("written", "mov.f32 %d31, 0f00000000;"),
        ("in a run of multiply-adds", "fma.rn.f32 %e0, %e1, %e1, %e1;\nfma.rn.f32 %e2, %d31, %e1, %e1;"),
        ("stored", "st.global.f32 [%row], %d31;"),
    ] {
        breaks(
            name,
            "// in flight",
            line,
            &[Wgmma],
            "%d31",
            &["%d31, an accumulator of the multiplication at line 49"],
        );
    }
    breaks("no wait", WAIT, "", &[Wgmma], "st.global.v2", &["%d0, an accumulator"]);
    breaks("no commit", COMMIT, "", &[Wgmma], "st.global.v2", &["%d0, an accumulator"]);
    breaks("one group left", WAIT, "wgmma.wait_group.sync.aligned 1;", &[Wgmma], "st.global.v2", &["%d0"]);
    let text = PLAIN.text();
    let stores = text.find("// done").expect("there");
    let nothing = format!("{}ret;\n}}\n", text[..stores].replace(WAIT, ""));
    breaks_with("never waited for", &nothing, 128, &[Wgmma], "wgmma.mma_async", &["has not waited"]);
    // A multiplication of another shape does not follow without a fence.
    let narrow = Product { n: 8, ..PLAIN };
    let other = narrow.multiply(0).replace("%p5", "1");
    breaks("another shape", COMMIT, &format!("{other}{COMMIT}"), &[Wgmma], "m64n8k16", &["%d0"]);
}

#[test]
fn fragments_of_a_in_flight_are_untouched() {
    let product = Product { a_in_registers: true, k: 16, n: 64, swizzle: Swizzle::Bytes32, ..PLAIN };
    let text = product.text();
    let wait = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
    for (name, line, found) in [("written", "mov.u32 %a2, 0;", true), ("not used", "mov.u32 %r7, 0;", false)] {
        let changed = change(&text, wait, &format!("wgmma.commit_group.sync.aligned;\n{line}\n"));
        match product.run(&changed, 128, &Options::default()) {
            Ok(_) => assert!(!found, "{name}"),
            Err(violation) => {
                assert!(found, "{name}: {violation}");
                assert_eq!(violation.kind, Wgmma);
                assert!(violation.to_string().contains("%a2, a fragment of A"), "{violation}");
            }
        }
    }
}

#[test]
fn operands_are_complete_and_visible() {
    breaks("no wait for the copies", "@!%p1 bra WAIT;", "", &[Race], "", &["cp.async.bulk", "wgmma.mma_async"]);
    let store = "mov.u32 %r0, b; mad.lo.u32 %r0, %t, 4, %r0; st.shared.u32 [%r0], 0;";
    let stored =
        |fence: &str, barrier: &str| change(&PLAIN.text(), "// operands", &format!("{store}\n{fence}\n{barrier}\n"));
    let text = PLAIN.text();
    let copy = text.lines().find(|line| line.contains("[%mb, ")).expect("there");
    let half = change(&change(&text, copy, ""), "_, [bar], 16384;", "_, [bar], 8192;");
    let loaded = &["%d0 is stored", "loaded at line", "wgmma.mma_async"];
    breaks_with("never written", &half, 128, &[Uninitialised], "st.global.v2", loaded);
    let (fence, barrier) = ("fence.proxy.async.shared::cta;", "bar.sync 0;");
    PLAIN.run(&stored(fence, barrier), 128, &Options::default()).expect("right");
    breaks_with(
        "no proxy fence",
        &stored("", barrier),
        128,
        &[Proxy],
        "wgmma.mma_async",
        &["st.shared", "multiplication of"],
    );
    breaks_with("no barrier", &stored(fence, ""), 128, &[Race], "", &["st.shared", "wgmma.mma_async"]);
    let after = stored(barrier, fence);
    for options in runs() {
        let (_, report) = PLAIN.run(&after, 128, &options).expect("a fence by the reader alone");
        assert!(report.warnings.iter().all(|warning| warning.kind == Proxy), "{options:?}: {:?}", report.warnings);
        assert!(!report.warnings.is_empty(), "{options:?}");
        let denied = PLAIN.run(&after, 128, &Options { fenced_late: Severity::Deny, ..options });
        assert_eq!(denied.expect_err("denied").kind, Proxy, "{options:?}");
    }
    breaks("overwritten in flight", "// in flight", store, &[Race], "st.shared", &["is multiplying"]);
    // After the wait, only threads that have synchronised with the waiting thread may write.
    let text = change(&PLAIN.text(), "// done", &store.replace("st.shared", "bar.sync 0;\nst.shared"));
    PLAIN.run(&text, 128, &Options::default()).expect("right");
}

#[test]
fn descriptors_describe_operands() {
    let step = |from: &str, to: &str, kinds: &[ViolationKind], words: &[&str]| {
        breaks(to, from, to, kinds, "", words);
    };
    // One step too far in the last step of a row: the pieces would be in the next row of the atom.
    step(
        "mov.u32 %r0, a; add.u32 %r0, %r0, 96;",
        "mov.u32 %r0, a; add.u32 %r0, %r0, 128;",
        &[Descriptor],
        &["of A", "beyond the first row"],
    );
    step("mov.u32 %r0, b; add.u32 %r0, %r0, 96;", "mov.u32 %r0, b; add.u32 %r0, %r0, 112;", &[Descriptor], &["of B"]);
    step(
        "mov.u32 %r0, b; add.u32 %r0, %r0, 96;",
        "mov.u32 %r0, b; add.u32 %r0, %r0, 8192;",
        &[OutOfBounds],
        &["shared"],
    );
    step(
        "or.b64 %rd1, %rd1, 0x4000004000010000; // b 2",
        "or.b64 %rd1, %rd1, 0x4002004000010000;",
        &[Descriptor],
        &["base offset 1"],
    );
    step(
        "or.b64 %rd1, %rd1, 0x4000004000010000; // b 2",
        "or.b64 %rd1, %rd1, 0x4000004000014000;",
        &[Descriptor],
        &["no meaning"],
    );
    step(
        "or.b64 %rd1, %rd1, 0x4000004000010000; // b 2",
        "add.u64 %rd1, %rd7, %rd1;",
        &[Uninitialised],
        &["is a matrix descriptor"],
    );
    let lanes = "shr.u32 %r0, %t, 4; and.b32 %r0, %r0, 1; cvt.u64.u32 %rd2, %r0; or.b64 %rd1, %rd1, 0x4000004000010000; add.u64 %rd1, %rd1, %rd2;";
    step("or.b64 %rd1, %rd1, 0x4000004000010000; // b 2", lanes, &[InvalidOperand], &["another thread of its warp"]);
    // One step off within the row breaks no rule, and gives a wrong result.
    let off_by_one =
        change(&PLAIN.text(), "mov.u32 %r0, b; add.u32 %r0, %r0, 32;", "mov.u32 %r0, b; add.u32 %r0, %r0, 64;");
    let (d, _) = PLAIN.run(&off_by_one, 128, &Options::default()).expect("no rule is broken");
    assert_ne!(d, PLAIN.want());
}

#[test]
fn the_four_warps_do_the_same() {
    let text = PLAIN.text();
    let descriptor = "shr.u32 %r0, %t, 6; cvt.u64.u32 %rd2, %r0; add.u64 %rd2, %rd2, %rd2; sub.u64 %rd1, %rd1, %rd2;";
    let differ = change(&text, "// b 1", &format!("// b 1\n{descriptor}"));
    breaks_with("descriptors", &differ, 128, &[Wgmma], "wgmma.mma_async", &["another descriptor of B"]);
    let differ = change(&text, "setp.ne.u32 %p5, %t, %t;", "setp.lt.u32 %p5, %t, 64;");
    breaks_with("predicates", &differ, 128, &[Wgmma, Uninitialised], "", &[]);
    let skips = change(&text, "// fenced", "setp.ge.u32 %p6, %t, 96;\n@%p6 bra END;");
    let skips = skips.replace("ret;\n}", "END: ret;\n}");
    breaks_with(
        "a warp without multiplications",
        &skips,
        128,
        &[Deadlock],
        "wgmma.wait_group",
        &["warp 3", "0 of them"],
    );
    let lanes = change(&text, "// fenced", "setp.eq.u32 %p6, %t, 7;\n@%p6 bra END;");
    let lanes = lanes.replace("ret;\n}", "END: ret;\n}");
    breaks_with("a lane without multiplications", &lanes, 128, &[BarrierMismatch], "", &[]);
    breaks_with("three warps", &text, 96, &[Refused], "wgmma.mma_async", &["3 warps"]);
}
