//! A GEMM of a warp group as hand-written PTX text. A fifth warp copies by TMA into two slots, one group of
//! multiplications stays in flight, and one thread releases a slot for the whole group. It is correct under every order
//! and landing. With a planted fault, the report names the instruction.

use half::bf16;
use ptx_gemm_interp::ViolationKind::{self, BarrierMisuse, Deadlock, Descriptor, Race, Uninitialised, Wgmma};
use ptx_gemm_interp::{
    Arg, Checks, Launch, Memory, Options, Program, Report, Swizzle, TensorElement, TensorMap, TensorMapArgs, Violation,
    launch,
};

use crate::copies::{change, runs};
use crate::wgmma::{a, b};

const M: u64 = 128;
const N: u64 = 64;
/// Six K-tiles, the last one short.
const K: u64 = 360;

pub fn text() -> String {
    include_str!("../../examples/ptx/wgmma_gemm.ptx").into()
}

fn run(text: &str, options: &Options) -> Result<(Vec<f32>, Report), Violation> {
    run_in(text, options, [1; 3])
}

fn run_in(text: &str, options: &Options, cluster: [u32; 3]) -> Result<(Vec<f32>, Report), Violation> {
    let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let memory = Memory::new();
    let map = |name: &str, lines: u64, value: &dyn Fn(u64, u64) -> f32| {
        let at = |index: u64| bf16::from_f32(value(index / K, index % K)).to_le_bytes();
        let bytes: Vec<u8> = (0..lines * K).flat_map(at).collect();
        let address = memory.alloc_from(name, &bytes, 256).expect("fits").address;
        let args = TensorMapArgs::new(TensorElement::Bf16, address, &[K, lines], &[2 * K], &[64, 64]);
        Arg::TensorMap(Box::new(TensorMap::encode(&args.swizzled(Swizzle::Bytes128)).expect("legal")))
    };
    let (ma, mb) = (map("A", M, &a), map("B", N, &|j, k| b(k, j)));
    let d = memory.alloc("D", 4 * M * N, 256).expect("fits");
    memory.set_write_once(d.id).expect("live");
    let args = [ma, mb, Arg::U64(d.address), Arg::U32(N as u32), Arg::U32(K as u32)];
    let grid = [(N / 64) as u32, (M / 64) as u32, 1];
    let what = Launch { entry: "gemm", grid, block: [160, 1, 1], args: &args, cluster, ..Launch::default() };
    let report = launch(&program, &memory, &what, options)?;
    let mut bytes = vec![0; (4 * M * N) as usize];
    memory.read(d.address, &mut bytes).expect("inside");
    Ok((bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(), report))
}

fn want() -> Vec<f32> {
    (0..M * N).map(|at| (0..K).map(|k| a(at / N, k) * b(k, at % N)).sum()).collect()
}

/// Checks that the result is right in clusters of this shape.
pub fn check_in(text: &str, options: &Options, cluster: [u32; 3]) {
    let (d, _) = run_in(text, options, cluster).unwrap_or_else(|violation| panic!("{options:?}: {violation}"));
    assert_eq!(d, want(), "{options:?}");
}

#[test]
fn right_under_every_order_and_landing() {
    for options in runs() {
        for checks in [Checks::Full, Checks::Off] {
            let options = Options { checks, ..options };
            let (d, report) = run(&text(), &options).unwrap_or_else(|violation| panic!("{options:?}: {violation}"));
            assert_eq!(d, want(), "{options:?}");
            assert!(report.warnings.is_empty(), "{options:?}: {:?}", report.warnings);
        }
    }
}

/// Checks that the kernel with a fault breaks one of the rules, at an instruction with `at`.
fn breaks(name: &str, text: &str, kinds: &[ViolationKind], at: &str, words: &[&str]) {
    for options in runs() {
        let Err(violation) = run(text, &options) else { panic!("{name} ({options:?}): nothing was found") };
        assert!(kinds.contains(&violation.kind), "{name} ({options:?}): {violation}");
        assert!(violation.site.instruction.contains(at), "{name} ({options:?}): {violation}");
        for word in words {
            assert!(violation.to_string().contains(word), "{name} ({options:?}): {violation}");
        }
    }
}

#[test]
fn planted_faults_are_named() {
    let fault = |name: &str, from: &str, to: &str, kinds: &[ViolationKind], at: &str, words: &[&str]| {
        breaks(name, &change(&text(), from, to), kinds, at, words);
    };
    fault("no fence", "wgmma.fence.sync.aligned; // fence", "", &[Wgmma], "wgmma.mma_async", &["fence"]);
    let multiplying = &["is multiplying", "wgmma.mma_async"];
    let retire = "wgmma.wait_group.sync.aligned 1; // retire";
    let two = "wgmma.wait_group.sync.aligned 2;";
    fault("released one group too early", retire, two, &[Race], "cp.async.bulk.tensor", multiplying);
    fault("never retired", retire, "", &[Race], "cp.async.bulk.tensor", multiplying);
    let late = change(&text(), "@%p5 mbarrier.arrive.shared::cta.b64 _, [%before]; // release", "");
    let early = change(&late, "// early", "@%p4 mbarrier.arrive.shared::cta.b64 _, [%empties];");
    breaks("released before it retired", &early, &[Race], "cp.async.bulk.tensor", multiplying);
    breaks("never released", &late, &[Deadlock], "mbarrier.try_wait", &[]);
    fault("no wait for data", "@!%p2 bra DATA;", "", &[Race, Uninitialised], "", &["wgmma.mma_async"]);
    fault(
        "16 bytes too few expected",
        "[%fulls], 16384;",
        "[%fulls], 16368;",
        &[BarrierMisuse],
        "expect_tx",
        &["16 bytes too few"],
    );
    let step = "add.u64 %da, %da, 2; add.u64 %db, %db, 2; // last step";
    fault(
        "A one step off",
        step,
        "add.u64 %da, %da, 4; add.u64 %db, %db, 2;",
        &[Descriptor],
        "wgmma.mma_async",
        &["of A"],
    );
    fault(
        "B one step off",
        step,
        "add.u64 %da, %da, 2; add.u64 %db, %db, 4;",
        &[Descriptor],
        "wgmma.mma_async",
        &["of B"],
    );
    fault(
        "not drained",
        "wgmma.wait_group.sync.aligned 0; // drain",
        "",
        &[Wgmma],
        "st.global.v2",
        &["%acc0, an accumulator"],
    );
    fault("not committed", "wgmma.commit_group.sync.aligned; // commit", "", &[Wgmma, Race], "", &["wgmma.mma_async"]);
    let zero = "mov.f32 %acc5, 0f00000000;";
    fault("an accumulator zeroed in flight", "// early", zero, &[Wgmma], "mov.f32", &["%acc5"]);
}

#[test]
fn reports_of_planted_faults() {
    for (name, from, to) in [
        ("no_fence", "wgmma.fence.sync.aligned; // fence", ""),
        ("early_release", "wgmma.wait_group.sync.aligned 1; // retire", "wgmma.wait_group.sync.aligned 2;"),
        ("descriptor_one_step_off", "add.u64 %db, %db, 2; // last step", "add.u64 %db, %db, 4;"),
        ("accumulator_before_the_wait", "wgmma.wait_group.sync.aligned 0; // drain", ""),
    ] {
        let report = run(&change(&text(), from, to), &Options::default()).expect_err(name);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("wgmma_{name}"), report);
        });
    }
}
