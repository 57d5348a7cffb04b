//! A sample of what `gemmc mutants` does in full: kernels with one fault each, all of which the checks find.

use std::collections::BTreeMap;

use ptx_gemm_check::case;
use ptx_gemm_check::mutants::{Judge, MutantKind, Verdict, mutants_of};
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::random::SplitMix64;

/// Small cases that differ in what can go wrong, and the number of faults of each.
const SAMPLES: [(&str, usize); 3] = [("two_per_thread", 30), ("lab3", 20), ("shared_8", 30)];

#[test]
fn faults_are_found() {
    for (name, count) in SAMPLES {
        let schedule = case(name).unwrap_or_else(|| panic!("{name} is not a case")).schedule().unwrap();
        let kernel = Kernel::compile(&schedule, None).unwrap();
        let judge = Judge::new(kernel.clone()).unwrap();
        let all = mutants_of(&kernel);
        let kinds: BTreeMap<MutantKind, usize> = all.iter().fold(BTreeMap::new(), |mut kinds, mutant| {
            *kinds.entry(mutant.kind).or_default() += 1;
            kinds
        });
        assert!(all.len() >= 200 && kinds.len() >= 10, "{name}: {} faults: {kinds:?}", all.len());
        let seed = 1;
        let mut random = SplitMix64::new(seed);
        let mut draw = || all[random.next_in(0, all.len() as i64 - 1) as usize].clone();
        let drawn: Vec<_> = (0..count).map(|_| draw()).collect();
        let verdicts = judge.judge_all(&drawn, |_, _, _| {});
        assert_eq!(verdicts.len(), count);
        for (mutant, verdict) in drawn.iter().zip(verdicts) {
            assert!(
                verdict != Verdict::Survived || judge.equivalent(mutant).is_some(),
                "{name}, seed {seed}: {mutant}"
            );
        }
    }
}

/// Barriers of a kernel that has no other synchronisation: removing or moving any of them breaks a rule, whatever the
/// values are.
#[test]
fn faults_of_synchronisation_break_a_rule() {
    let schedule = case("two_per_thread").unwrap().schedule().unwrap();
    let kernel = Kernel::compile(&schedule, None).unwrap();
    let judge = Judge::new(kernel.clone()).unwrap();
    let all = mutants_of(&kernel);
    let of = |kind| all.iter().filter(move |mutant| mutant.kind == kind).take(6);
    let mut judged = 0;
    for mutant in of(MutantKind::DeletedSync).chain(of(MutantKind::MovedSync)) {
        let verdict = judge.judge(mutant);
        assert!(matches!(verdict, Verdict::Violation(_)), "{mutant}: {verdict}");
        judged += 1;
    }
    assert!(judged >= 4, "{judged} faults");
}

/// A ring that TMA refills as soon as threads have signalled that they have read it, which on a GPU may happen before their
/// reads have been performed.
#[test]
fn rings_are_released_after_a_fence() {
    let ring = "load(tma); stages(2); specialize(producers = 1 warp);";
    for (text, reads) in [
        ("tile(16, 16, 8); thread(2, 2);", "fma.rn.f32"),
        ("types(bf16); tile(32, 32, 16); warp(16, 16); atom(mma(16, 8, 16));", "mma.sync"),
        ("tile(32, 32, 16); warp(16, 16); atom(mma(16, 8, 16)); emulate(bf16x3);", "mma.sync"),
    ] {
        let kernel = Kernel::compile(&format!("{text} {ring}").parse().unwrap(), None).unwrap();
        let judge = Judge::new(kernel.clone()).unwrap();
        let fences: Vec<_> = mutants_of(&kernel)
            .into_iter()
            .filter(|mutant| mutant.kind == MutantKind::DeletedSync && mutant.before.starts_with("fence.proxy.async"))
            .collect();
        assert!(kernel.ptx().contains(reads) && !fences.is_empty(), "{text}");
        for fence in &fences {
            let verdict = judge.judge(fence);
            assert!(matches!(verdict, Verdict::Violation(_)), "{text}: {fence}: {verdict}");
        }
    }
}
