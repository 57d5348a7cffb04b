//! Faults of every kind in the hand-written product of a warp group: each breaks a rule of the interpreter, or gives a
//! wrong element. The faults of synchronisation are tried in each run, and a part of the others.

use std::collections::BTreeMap;

use half::bf16;
use ptx_gemm_check::mutants::{Module, Mutant, MutantKind, mutants};
use ptx_gemm_check::part::Part;
use ptx_gemm_runtime::interp::{
    Arg, Landing, Launch, Memory, Options, Program, Swizzle, TensorElement, TensorMap, TensorMapArgs, ViolationKind,
    WarpOrder, launch,
};
use ptx_gemm_runtime::ptx::parse::parse;

const M: u64 = 128;
const N: u64 = 128;
/// Five K-tiles, the last one short.
const K: u64 = 296;

fn a(i: u64, k: u64) -> f32 {
    ((i * 7 + k * 3) % 11) as f32 - 5.0
}

fn b(k: u64, j: u64) -> f32 {
    ((k * 5 + j * 2) % 13) as f32 - 6.0
}

/// How a mutant is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Refused,
    Rule,
    Wrong,
    Not,
}

fn run(text: &str, options: &Options, want: &[f32]) -> (Found, Option<ViolationKind>) {
    let Ok(program) = Program::from_text(text) else { return (Found::Refused, None) };
    let memory = Memory::new();
    let map = |name: &str, lines: u64, value: &dyn Fn(u64, u64) -> f32| {
        let at = |index: u64| bf16::from_f32(value(index / K, index % K)).to_le_bytes();
        let bytes: Vec<u8> = (0..lines * K).flat_map(at).collect();
        let address = memory.alloc_from(name, &bytes, 256).expect("fits").address;
        let args = TensorMapArgs::new(TensorElement::Bf16, address, &[K, lines], &[2 * K], &[64, 64]);
        Arg::TensorMap(Box::new(TensorMap::encode(&args.swizzled(Swizzle::Bytes128)).expect("legal")))
    };
    let (ma, mb) = (map("A", M, &a), map("B", N, &|j, k| b(k, j)));
    let d = memory.alloc_from("D", &vec![0xff; (4 * M * N) as usize], 256).expect("fits");
    memory.set_write_once(d.id).expect("live");
    let args = [ma, mb, Arg::U64(d.address), Arg::U32(N as u32), Arg::U32(K as u32)];
    let what = Launch {
        entry: "gemm",
        grid: [(N / 64) as u32, (M / 64) as u32, 1],
        block: [160, 1, 1],
        args: &args,
        ..Launch::default()
    };
    match launch(&program, &memory, &what, options) {
        Err(violation) if violation.kind == ViolationKind::Launch && violation.site.line.is_none() => {
            (Found::Refused, None)
        }
        Err(violation) => (Found::Rule, Some(violation.kind)),
        Ok(_) => {
            let mut bytes = vec![0; (4 * M * N) as usize];
            memory.read(d.address, &mut bytes).expect("inside");
            let right = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).eq(want.iter().copied());
            (if right { Found::Not } else { Found::Wrong }, None)
        }
    }
}

fn orders() -> Vec<Options> {
    let options = |order, landing| Options {
        order,
        landing,
        threads: Some(1),
        max_instructions: Some(50_000),
        ..Options::default()
    };
    let plain = [
        options(WarpOrder::RunToBarrier, Landing::Latest),
        options(WarpOrder::Backward, Landing::Earliest),
        options(WarpOrder::Seeded(5), Landing::Seeded(11)),
    ];
    let seeded = (0..5).map(|seed| options(WarpOrder::Seeded(seed), Landing::Seeded(seed)));
    plain.into_iter().chain(seeded).collect()
}

/// Equivalent mutants: their kind, the beginning of the instruction, and the reason.
const EQUIVALENT: &[(MutantKind, &str, &str)] = &[
    (
        MutantKind::Constant,
        "add.u32 %tiles, %tiles, 63",
        "K-tiles past the end are zero, and K leaves more than 1 over",
    ),
    (MutantKind::Constant, "shr.u32 %tiles, %tiles, 6", "K-tiles past the end are zero"),
    (MutantKind::Deleted, "shr.u32 %tiles, %tiles, 6", "K-tiles past the end are zero"),
    (MutantKind::Bound, "setp.eq.u32 %p0, %t, 0", "any thread may initialise"),
    (MutantKind::Bound, "setp.eq.u32 %p4, %t, 127", "any thread may release a slot for its warp group"),
    (MutantKind::SwappedOperands, "setp.eq.u32", "equality is symmetric"),
    (MutantKind::NoGuard, "@%p0 fence.mbarrier_init", "a fence of more threads than one"),
    (MutantKind::OtherBarrier, "bar.sync 0", "a barrier's number is a name"),
    (MutantKind::MovedSync, "mbarrier.arrive.expect_tx", "the phase completes no earlier: it lacks this arrival"),
    (MutantKind::Deleted, "mov.u32 %before, empty", "the first iteration releases nothing"),
    (MutantKind::Constant, "mad.lo.u32 %slot, %stage, 16384", "a descriptor has no room for the lowest four bits"),
    (
        MutantKind::Comparison,
        "setp.eq.u32 %p4, %t, 127",
        "an odd number of arrivals, all before the warp group's next multiplication can complete",
    ),
    // The lanes of one instruction arrive together here, so that nothing sees the phases between them.
    (MutantKind::OppositeGuard, "@%p5 mbarrier.arrive", "an even number of arrivals at once, then an odd number"),
    (MutantKind::WaitGroup, "wgmma.wait_group.sync.aligned 1", "a wait for more"),
];

/// The reason why a mutant that nothing finds is not a fault.
fn reason(mutant: &Mutant) -> Option<&'static str> {
    let known = EQUIVALENT.iter().find(|(kind, text, _)| *kind == mutant.kind && mutant.before.starts_with(text));
    known.map(|(_, _, reason)| *reason)
}

#[test]
fn faults_of_a_warp_groups_product_are_found() {
    let text = include_str!("../../examples/ptx/wgmma_gemm.ptx");
    let module: Module = parse(text).expect("the text is right");
    let want: Vec<f32> = (0..M * N).map(|at| (0..K).map(|k| a(at / N, k) * b(k, at % N)).sum()).collect();
    for options in orders() {
        assert_eq!(run(text, &options, &want), (Found::Not, None), "{options:?}");
    }
    let mut counts: BTreeMap<MutantKind, BTreeMap<Found, usize>> = BTreeMap::new();
    let mut left = Vec::new();
    let (part, always) = (Part::of_this_run(), [MutantKind::DeletedSync, MutantKind::WaitGroup, MutantKind::Switch]);
    for (index, mutant) in mutants(&module).into_iter().enumerate() {
        if !part.has(index) && !always.contains(&mutant.kind) {
            continue;
        }
        let text = mutant.text(&module);
        let found = orders().iter().map(|options| run(&text, options, &want).0).find(|found| *found != Found::Not);
        let found = found.unwrap_or(Found::Not);
        *counts.entry(mutant.kind).or_default().entry(found).or_default() += 1;
        if found == Found::Not && reason(&mutant).is_none() {
            left.push(format!("line {:?}: {mutant}", mutant.line(&module)));
        }
    }
    assert!(left.is_empty(), "{}\n{counts:#?}", left.join("\n"));
    let others = counts.values().flat_map(BTreeMap::values).sum::<usize>();
    assert!(always.iter().all(|kind| counts.contains_key(kind)) && counts.len() > 6 && others > 30, "{counts:#?}");
}
