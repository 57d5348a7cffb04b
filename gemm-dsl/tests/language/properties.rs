//! Properties of every schedule.

use proptest::prelude::*;
use proptest::sample::select;
use ptx_gemm_dsl::clause::Atom;
use ptx_gemm_dsl::diagnostic::Edit;
use ptx_gemm_dsl::plan::Plan;
use ptx_gemm_dsl::terms::{Fast, Load};
use ptx_gemm_dsl::{Diagnostic, Diagnostics, Schedule, Severity, Target};

use crate::generate;
use crate::wrong::WRONG;

/// Reads, checks, plans and prints; nothing may panic.
fn exercise(text: &str) {
    let said = match Schedule::parse(text) {
        Ok(schedule) => {
            for target in Target::ALL {
                if let Ok(plan) = schedule.plan(Some(target)) {
                    let _ = plan.to_string();
                }
            }
            match schedule.check() {
                Ok(said) | Err(said) => said,
            }
        }
        Err(said) => said,
    };
    let _ = (said.to_string(), said.styled());
}

fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "tile",
        "thread",
        "shared",
        "epilogue",
        "expect",
        "vector",
        "atom",
        "raster",
        "stages",
        "double_buffer",
        "acc",
        "km",
        "pad",
        "none",
        "mma",
        "f32",
        "row",
        "a",
        "m",
        "0",
        "8",
        "128",
        "1.5",
        "99999999999",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "|",
        ",",
        ";",
        "=",
        "+",
        "-",
        "*",
        "/",
        "<",
        ">",
        "..",
        ".",
        "//",
        "\n",
        "/*",
        "*/",
        "\"",
        "'",
        "é",
        "_",
        "#",
        "KiB",
        "warp",
        "relu",
        " ",
    ];
    proptest::collection::vec(select(words), 0..60).prop_map(|words| words.join(" "))
}

fn mutated() -> impl Strategy<Value = String> {
    let edit = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        select(vec!["", "(", ")", ";", "9", "é", "|", ","]),
    );
    (select(WRONG.to_vec()), proptest::collection::vec(edit, 1..5)).prop_map(|(text, edits)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (from, length, insert) in edits {
            if chars.is_empty() {
                break;
            }
            let from = from.index(chars.len());
            let to = (from + length.index(4)).min(chars.len());
            chars.splice(from..to, insert.chars());
        }
        chars.into_iter().collect()
    })
}

/// The rule and the clause of every error.
fn errors(said: &Diagnostics) -> Vec<(&'static str, String)> {
    said.errors().map(|error| (error.rule, error.clause.clone())).collect()
}

fn checked(schedule: &Schedule) -> Diagnostics {
    match schedule.check() {
        Ok(said) | Err(said) => said,
    }
}

/// Applying the fix removes one error of this rule and clause, and adds none.
fn repairs(before: &Diagnostics, error: &Diagnostic, after: &Diagnostics, text: &str) {
    let mut left = errors(before);
    let own = left.iter().position(|id| *id == (error.rule, error.clause.clone())).unwrap();
    left.swap_remove(own);
    for id in errors(after) {
        let at = left.iter().position(|known| *known == id);
        let at = at.unwrap_or_else(|| panic!("{text}\n{error}\n{:?} adds {id:?}", error.fix));
        left.swap_remove(at);
    }
}

/// Applies every fix to the schedule; returns the number of fixes.
fn fixes_repair(schedule: &Schedule) -> usize {
    let before = checked(schedule);
    let mut applied = 0;
    for error in before.errors() {
        let Some(fix) = &error.fix else { continue };
        let Some(changed) = fix.apply(schedule) else { continue };
        repairs(&before, error, &checked(&changed), &schedule.to_string());
        applied += 1;
    }
    applied
}

#[test]
fn suggested_clauses_repair_what_they_are_suggested_for() {
    let mut applied = 0;
    for text in WRONG {
        let Ok(schedule) = Schedule::parse(text) else { continue };
        applied += fixes_repair(&schedule);
    }
    assert!(applied > 60, "only {applied} fixes");
}

#[test]
fn suggested_spellings_repair_what_they_are_suggested_for() {
    let mut applied = 0;
    for text in WRONG {
        let Err(before) = Schedule::parse(text) else { continue };
        for error in before.errors() {
            let (Some(Edit::Spell(spelling)), Some(span)) = (error.fix.as_ref().map(|fix| &fix.edit), error.span)
            else {
                continue;
            };
            let mut repaired = text.to_string();
            repaired.replace_range(span.start as usize..span.end as usize, spelling);
            let after = Schedule::parse(&repaired).err().unwrap_or_default();
            let same = |said: &Diagnostics| said.errors().filter(|other| other.message == error.message).count();
            assert_eq!(same(&after) + 1, same(&before), "{repaired}\n{after}");
            applied += 1;
        }
    }
    assert!(applied > 15, "only {applied} spellings");
}

/// Most plausible schedules with one mistake get a fix.
#[test]
fn errors_about_single_clauses_come_with_a_fix() {
    let (mut bare, mut single) = (Vec::new(), 0);
    for text in WRONG {
        let Ok(schedule) = Schedule::parse(text) else { continue };
        let said = checked(&schedule);
        let errors: Vec<&Diagnostic> = said.errors().collect();
        if let [error] = errors[..] {
            single += 1;
            bare.extend(error.fix.is_none().then_some(*text));
        }
    }
    assert!(single > 60, "only {single} schedules have one error");
    // A literal of the epilogue has no obvious replacement.
    assert!(bare.iter().all(|text| text.contains("epilogue")), "{bare:?}");
}

/// The number of schedules per property: `PROPTEST_CASES`, or a default for daily use.
fn cases() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 256 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn token_soup_never_panics(text in soup()) {
        exercise(&text);
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,80}") {
        exercise(&text);
    }

    #[test]
    fn mutated_schedules_never_panic(text in mutated()) {
        exercise(&text);
    }

    #[test]
    fn what_is_printed_reads_back(schedule in generate::anything()) {
        let text = schedule.to_string();
        let again = Schedule::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        prop_assert_eq!(&again, &schedule);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn any_clauses_are_checked_without_a_panic(schedule in generate::anything()) {
        exercise(&schedule.to_string());
    }

    #[test]
    fn fixes_repair_any_clauses(schedule in generate::anything()) {
        fixes_repair(&schedule);
    }

    #[test]
    fn fixes_repair_plausible_schedules(schedule in generate::plausible()) {
        fixes_repair(&schedule);
    }

    #[test]
    fn text_and_builder_say_the_same(schedule in generate::anything()) {
        let from_text = checked(&Schedule::parse(&schedule.to_string()).unwrap());
        let strip = |said: &Diagnostics| -> Vec<Diagnostic> {
            said.iter().cloned().map(|diagnostic| Diagnostic { span: None, ..diagnostic }).collect()
        };
        prop_assert_eq!(strip(&from_text), strip(&checked(&schedule)));
    }

    #[test]
    fn plans_hold_together(schedule in generate::plausible()) {
        if let Ok(plan) = schedule.plan(None) {
            holds_together(&plan);
        }
    }
}

fn holds_together(plan: &Plan) {
    let g = plan.geometry;
    assert_eq!(g.threads, g.grid.m * g.grid.n * g.regions.m * g.regions.n);
    assert_eq!((g.region.m * g.regions.m, g.region.n * g.regions.n), (plan.block.m, plan.block.n));
    assert_eq!((g.grid.m * g.thread.m, g.grid.n * g.thread.n), (g.region.m, g.region.n));
    assert_eq!((g.stride.m * g.repeat.m, g.stride.n * g.repeat.n), (g.region.m, g.region.n));
    assert_eq!((g.fragment.m * g.repeat.m, g.fragment.n * g.repeat.n), (g.thread.m, g.thread.n));
    assert!(plan.body.unroll >= 1 && plan.body.prefetch < plan.body.unroll.max(2));
    assert!(plan.resources.shared_bytes <= plan.target.max_shared_bytes());
    let slots = if plan.ring.a.placement.is_some() { plan.ring.stages * plan.ring.stage_bytes } else { 0 };
    let widest = &plan.variants[0];
    let more = widest.staged.is_some() || plan.sums.exchange.is_some_and(|exchange| exchange.bytes > slots);
    let barriers = plan.barrier_offset(widest).map_or(0, |offset| {
        assert!(offset == slots || (offset > slots && more));
        16 * plan.ring.stages
    });
    // The tile of D reuses the slots' memory or follows it; exchanged sums may need more than the slots.
    assert!(plan.resources.shared_bytes == slots + barriers || more);
    assert!(plan.resources.shared_bytes >= slots + barriers);
    assert_eq!(plan.threads(), g.threads + 32 * plan.roles.producer_warps);
    assert!(plan.threads() <= 1024);
    if plan.roles.producer_warps > 0 {
        assert!(g.threads.is_multiple_of(32) && plan.barrier_offset(&plan.variants[0]).is_some());
        assert_eq!(plan.copying_threads(), 32 * plan.roles.producer_warps);
    } else {
        assert_eq!(plan.copying_threads(), g.threads);
    }
    for operand in [&plan.ring.a, &plan.ring.b] {
        let Some(placement) = operand.placement else { continue };
        let bytes = operand.dtype.bytes();
        // Warp groups read rows in panels as wide as the swizzle. The last panel of rows along m or n may be partly
        // filled.
        let panels = placement.panels();
        let whole = panels * placement.pitch == placement.fast_extent;
        let partly = matches!(plan.atom, Atom::Wgmma(..)) && placement.fast == Fast::Mn;
        assert!(panels == 1 || (plan.atom != Atom::Fma && (whole || partly)));
        assert!(placement.slot_bytes >= panels * placement.pitch * placement.slow_extent * bytes);
        assert!(placement.offset_bytes + placement.slot_bytes <= plan.ring.stage_bytes);
        assert!(placement.offset_bytes.is_multiple_of(16) && plan.ring.stage_bytes.is_multiple_of(16));
        assert!(placement.pitch.is_multiple_of(operand.read_width));
        if placement.fast == Fast::K {
            assert!(
                plan.body.unroll.is_multiple_of(operand.read_width) && operand.depth.is_multiple_of(plan.body.unroll)
            );
        }
    }
    let last = plan.variants.last().unwrap();
    // TMA reads packed operands, which are always aligned.
    let packed = last.load == Load::Tma && plan.ring.pack.len() == 2;
    assert!(packed || (last.a.width, last.b.width) == (1, 1));
    assert_eq!((last.c_width, last.d_width), (1, 1));
    for variant in &plan.variants {
        for (operand, copy) in [(&plan.ring.a, &variant.a), (&plan.ring.b, &variant.b)] {
            assert!(copy.width.is_power_of_two() && copy.width * operand.dtype.bytes() <= 16);
            let panels = operand.placement.map_or(1, |placement| placement.panels());
            if let (Some(placement), Load::Tma) = (operand.placement, variant.load) {
                let rows = placement.slow_extent * panels / copy.chunks;
                assert!(rows <= 256 && placement.pitch <= 256 && rows * copy.chunks == placement.slow_extent * panels);
                assert!(placement.offset_bytes.is_multiple_of(128) && plan.ring.stage_bytes.is_multiple_of(128));
                // The packing kernel transposes.
                assert!(placement.fast == operand.global_fast || plan.ring.pack.contains(&operand.side));
                assert!((panels - 1) * placement.pitch < placement.fast_extent);
                assert!(panels * placement.pitch >= placement.fast_extent);
            } else if operand.placement.is_some() {
                assert_eq!(copy.chunks * copy.width, operand.extent * operand.depth);
                assert_eq!(copy.passes, copy.chunks.div_ceil(plan.copying_threads()));
                assert!(copy.store_width <= copy.width);
            }
        }
    }
    assert!(plan.variants.iter().map(|variant| &variant.entry).is_sorted_by(|a, b| a != b));
}

/// 400 schedules, the same every time.
fn sample(strategy: impl Strategy<Value = Schedule>) -> impl Iterator<Item = Schedule> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    (0..400).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

/// The properties of plans and fixes above must apply to many schedules, not just a few.
#[test]
fn generated_schedules_have_plans_and_fixes() {
    let plans = sample(generate::plausible()).filter_map(|schedule| schedule.plan(None).ok());
    let plans = plans.inspect(holds_together).count();
    assert!(plans > 100, "only {plans} of 400 plausible schedules have a plan");
    let fixes: usize = sample(generate::anything()).map(|schedule| fixes_repair(&schedule)).sum();
    assert!(fixes > 100, "only {fixes} fixes for 400 schedules");
    let fixes: usize = sample(generate::plausible()).map(|schedule| fixes_repair(&schedule)).sum();
    assert!(fixes > 10, "only {fixes} fixes for 400 plausible schedules");
}

/// The generator is only useful if most of its schedules are legal.
#[test]
fn plausible_schedules_are_mostly_accepted() {
    let mut refused = Vec::new();
    for schedule in sample(generate::plausible()) {
        let said = checked(&schedule);
        if said.errors().any(|error| error.severity == Severity::Error && error.rule != "not-implemented") {
            refused.push(said.to_string());
        }
    }
    assert!(refused.len() < 100, "{} of 400 refused:\n{}", refused.len(), refused.join("\n"));
}
