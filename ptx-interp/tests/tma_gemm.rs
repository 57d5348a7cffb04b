//! A GEMM as hand-written PTX text. One warp copies with TMA into three slots with mbarriers on both sides, four warps
//! multiply, and D is stored with TMA. It is correct under every order and landing. With a planted fault, the report
//! names the instruction.

use ptx_gemm_interp::ViolationKind::{
    self, BarrierMismatch, BarrierMisuse, Deadlock, OutOfBounds, Proxy, ProxyWar, Race, Uninitialised,
};
use ptx_gemm_interp::{
    Arg, Checks, Landing, Launch, Memory, MomentKind, Options, Program, Report, Swizzle, TensorElement, TensorMap,
    TensorMapArgs, Violation, WarpOrder, launch,
};

use crate::copies::{change, runs, runs_of_blocks};

/// Extents that are not multiples of the tile; leading dimensions are the next multiples of 4.
const M: u64 = 45;
const N: u64 = 52;
const K: u64 = 301;

/// Threads with `%t` below 128 multiply: row t / 4, eight columns from 8 (t % 4) on.
pub fn text() -> String {
    include_str!("../../examples/ptx/tma_gemm.ptx").into()
}

fn a(i: u64, l: u64) -> f32 {
    ((i * 7 + l * 3) % 11) as f32 - 5.0
}

fn b(l: u64, j: u64) -> f32 {
    ((l * 5 + j * 2) % 13) as f32 - 6.0
}

/// Runs it; returns D with its padding.
fn run(text: &str, options: &Options) -> Result<(Vec<f32>, Report), Violation> {
    run_in(text, options, [1; 3])
}

fn run_in(text: &str, options: &Options, cluster: [u32; 3]) -> Result<(Vec<f32>, Report), Violation> {
    let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let memory = Memory::new();
    let [lda, ldb] = [K, N].map(|extent| extent.next_multiple_of(4));
    let upload = |label: &str, rows: u64, columns: u64, value: &dyn Fn(u64, u64) -> f32| {
        let bytes: Vec<u8> =
            (0..rows * columns).flat_map(|at| value(at / columns, at % columns).to_le_bytes()).collect();
        memory.alloc_from(label, &bytes, 256).expect("fits")
    };
    // NaN in the padding, which the kernel must not read.
    let in_a = upload("A", M, lda, &|i, l| if l < K { a(i, l) } else { f32::NAN });
    let in_b = upload("B", K, ldb, &|l, j| if j < N { b(l, j) } else { f32::NAN });
    let bias = upload("bias", 1, N, &|_, j| j as f32);
    let d = upload("D", M, ldb, &|_, _| -1.0);
    memory.set_write_once(d.id).expect("live");
    let map = |address: u64, columns: u64, rows: u64, ld: u64, swizzle: Swizzle| {
        let args = TensorMapArgs::new(TensorElement::F32, address, &[columns, rows], &[4 * ld], &[32, 32]);
        Arg::TensorMap(Box::new(TensorMap::encode(&args.swizzled(swizzle)).expect("legal")))
    };
    let args = [
        map(in_a.address, K, M, lda, Swizzle::Bytes128),
        map(in_b.address, N, K, ldb, Swizzle::None),
        map(d.address, N, M, ldb, Swizzle::None),
        Arg::U64(bias.address),
        Arg::U32(N as u32),
        Arg::U32(K as u32),
    ];
    let grid = [N.div_ceil(32) as u32, M.div_ceil(32) as u32, 1];
    let what = Launch { entry: "gemm", grid, block: [160, 1, 1], args: &args, cluster, ..Launch::default() };
    let report = launch(&program, &memory, &what, options)?;
    let mut bytes = vec![0; (M * ldb * 4) as usize];
    memory.read(d.address, &mut bytes).expect("inside");
    Ok((bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(), report))
}

fn check(text: &str, options: &Options, warnings: usize) {
    let (d, report) = run(text, options).unwrap_or_else(|violation| panic!("{options:?}: {violation}"));
    compare(&d, options);
    assert_eq!(report.warnings.len(), warnings, "{options:?}: {:?}", report.warnings);
    assert!(report.warnings.iter().all(|warning| warning.kind == ProxyWar));
}

/// Checks that the result is right in clusters of this shape.
pub fn check_in(text: &str, options: &Options, cluster: [u32; 3]) {
    let (d, _) = run_in(text, options, cluster).unwrap_or_else(|violation| panic!("{options:?}: {violation}"));
    compare(&d, options);
}

fn compare(d: &[f32], options: &Options) {
    let ldd = N.next_multiple_of(4);
    for (i, j) in (0..M).flat_map(|i| (0..ldd).map(move |j| (i, j))) {
        let product: f32 = (0..K).map(|l| a(i, l) * b(l, j)).sum();
        let want = if j < N { product + j as f32 } else { -1.0 };
        assert_eq!(d[(i * ldd + j) as usize], want, "{options:?}: D({i}, {j})");
    }
}

#[test]
fn right_under_every_order_and_landing() {
    for options in runs_of_blocks() {
        check(&text(), &options, 0);
        check(&text(), &Options { checks: Checks::Off, ..options }, 0);
    }
    // Without the fence before a slot is released, as in many kernels: a warning for A, and one for each read of B.
    let unfenced = change(&text(), "fence.proxy.async.shared::cta; // war", "");
    for threads in [1, 2] {
        let options = Options { threads: Some(threads), ..Options::default() };
        let (_, report) = run(&unfenced, &options).expect("right");
        assert!(report.warnings.iter().all(|warning| warning.kind == ProxyWar), "{:?}", report.warnings);
        assert!(!report.warnings.is_empty());
    }
    for seed in 0..10 {
        let options = Options { order: WarpOrder::Seeded(seed), landing: Landing::Seeded(seed), ..Options::default() };
        check(&text(), &options, 0);
    }
}

/// Checks that the kernel with a fault breaks one of the rules, and that the report contains these words.
fn breaks(name: &str, text: &str, kinds: &[ViolationKind], words: &[&str]) {
    for options in runs() {
        let Err(violation) = run(text, &options) else { panic!("{name} ({options:?}): nothing was found") };
        assert!(kinds.contains(&violation.kind), "{name} ({options:?}): {violation}");
        for word in words {
            assert!(violation.to_string().contains(word), "{name} ({options:?}): {violation}");
        }
        if matches!(violation.kind, Race | Proxy | ProxyWar | ViolationKind::ProxyInit) {
            let kinds: Vec<MomentKind> = violation.site.timeline.iter().map(|moment| moment.kind).collect();
            assert!(kinds.contains(&MomentKind::FirstAccess), "{name} ({options:?}): {violation}");
        }
    }
}

#[test]
fn planted_faults_have_a_timeline_in_the_forward_order() {
    let parity = "mov.u32 %parity, %phase;\nsetp.ge.u32 %p3, %kt, 6;\n@%p3 xor.b32 %parity, %parity, 1;";
    let late = change(&text(), "mbarrier.arrive.shared::cta.b64 _, [%empties]; // release", "");
    let ids = "shr.u32 %r2, %t, 5;\nsetp.ge.u32 %p3, %r2, 2;\nselp.u32 %r2, 2, 1, %p3;";
    for (name, text) in [
        ("wrong_parity", change(&text(), "mov.u32 %parity, %phase; // parity", parity)),
        ("early_release", change(&late, "// early", "mbarrier.arrive.shared::cta.b64 _, [%empties];")),
        ("short_expect_tx", change(&text(), "[%fulls], 8192;", "[%fulls], 8176;")),
        ("two_barriers", change(&text(), "mov.u32 %r2, 1; // id", ids)),
        ("no_proxy_fence", change(&text(), "fence.proxy.async.shared::cta; // before the store", "")),
        ("bound", change(&text(), "setp.lt.u32 %p1, %r1, %n; // bound 4", "setp.le.u32 %p1, %r1, %n;")),
        ("count", change(&text(), "[empty+8], 128;", "[empty+8], 127;")),
    ] {
        let report = run(&text, &Options::default()).expect_err(name);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("tma_{name}"), report);
        });
    }
}

#[test]
fn planted_faults_are_named() {
    let third = "mov.u32 %parity, %phase;\nsetp.ge.u32 %p3, %kt, 6;\n@%p3 xor.b32 %parity, %parity, 1;";
    let wrong = change(&text(), "mov.u32 %parity, %phase; // parity", third);
    breaks("a parity that is wrong from the third round on", &wrong, &[Race, Uninitialised, Deadlock], &[]);
    for options in runs() {
        // Either a thread waits for a phase that never completes, or a slot is read too early.
        let report = run(&wrong, &options).expect_err("found").to_string();
        assert!(report.contains("ld.shared") || report.contains(": DATA: mbarrier.try_wait"), "{options:?}: {report}");
    }

    let early = change(&text(), "mbarrier.arrive.shared::cta.b64 _, [%empties]; // release", "");
    let early = change(&early, "// early", "mbarrier.arrive.shared::cta.b64 _, [%empties];");
    breaks("a slot refilled before its last read", &early, &[Race], &["ld.shared", "cp.async.bulk.tensor"]);

    let short = change(&text(), "[%fulls], 8192;", "[%fulls], 8176;");
    breaks("16 bytes too few expected", &short, &[BarrierMisuse], &["16 bytes too few", ": mbarrier.arrive.expect_tx"]);

    let ids = change(
        &text(),
        "mov.u32 %r2, 1; // id",
        "shr.u32 %r2, %t, 5;\nsetp.ge.u32 %p3, %r2, 2;\nselp.u32 %r2, 2, 1, %p3;",
    );
    breaks("warps on different barriers", &ids, &[Deadlock, BarrierMismatch], &["bar.sync", "barrier 1", "barrier 2"]);

    let unfenced = change(&text(), "fence.proxy.async.shared::cta; // before the store", "");
    breaks("no fence before the store", &unfenced, &[Proxy], &["st.shared", ": cp.async.bulk.tensor.2d.global"]);

    let bound = change(&text(), "setp.lt.u32 %p1, %r1, %n; // bound 4", "setp.le.u32 %p1, %r1, %n;");
    breaks("a bound that the last block shows", &bound, &[OutOfBounds], &["ld.global", "block (1,0,0)", "`bias`"]);
}

#[test]
fn each_synchronisation_matters() {
    let cases: [(&str, &str, &str, &[ViolationKind]); 12] = [
        ("no wait for room", "@!%p2 bra ROOM;", "", &[Race, BarrierMisuse]),
        ("no wait for data", "@!%p2 bra DATA;", "", &[Race, Uninitialised]),
        ("no release", "mbarrier.arrive.shared::cta.b64 _, [%empties]; // release", "", &[Deadlock]),
        ("bytes of A alone", "[%fulls], 8192;", "[%fulls], 4096;", &[BarrierMisuse, Race]),
        ("too many bytes", "[%fulls], 8192;", "[%fulls], 8208;", &[Deadlock]),
        ("no barrier before the store", "bar.sync %r2, 128;", "", &[Race, Uninitialised]),
        ("no wait for the store", "cp.async.bulk.wait_group.read 0;", "", &[Race]),
        // An mbarrier that expects one arrival too many or too few.
        ("room after 127 readers", "[empty+8], 128;", "[empty+8], 127;", &[Race, BarrierMisuse]),
        ("room after 129 readers", "[empty+8], 128;", "[empty+8], 129;", &[Deadlock]),
        ("data after two arrivals", "[full+8], 1;", "[full+8], 2;", &[Deadlock]),
        ("data after no arrival", "[full+8], 1;", "[full+8], 0;", &[BarrierMisuse]),
        ("no fence of the barriers", "@%p0 fence.mbarrier_init.release.cluster;", "", &[ViolationKind::ProxyInit]),
    ];
    for (name, from, to, kinds) in cases {
        breaks(name, &change(&text(), from, to), kinds, &[]);
    }
    // The wrong swizzle gives a wrong result without breaking a rule.
    let plain = change(&text(), "and.b32 %swizzle, %row, 7;", "and.b32 %swizzle, %row, 3;");
    let (wrong, _) = run(&plain, &Options::default()).expect("no rule is broken");
    let (right, _) = run(&text(), &Options::default()).expect("right");
    assert_ne!(wrong, right);
}
