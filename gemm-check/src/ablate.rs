//! What each clause of a schedule contributes: the schedule with one clause dropped or changed at a time, and the cost
//! of each variant.
//!
//! Numbers are changed to the nearest legal ones below and above, words to each of their alternatives. The problem
//! (types, layouts, epilogue, batch) and the target stay as they are.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ptx_gemm_dsl::clause::Clause;
use ptx_gemm_dsl::plan::Promotion;
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::{Schedule, Target};
use ptx_gemm_runtime::interp::Checks;
use ptx_gemm_runtime::{Error, Kernel, ptx};
use rayon::prelude::*;

use crate::error::CheckError;
use crate::figures::{Assembler, Figures, How};
use crate::profile::{DEPTH, sample_size, tiles};
use crate::size::Size;

/// The default time limit of an ablation with ptxas. Counting is finished in any case.
pub const PATIENCE: Duration = Duration::from_millis(3500);

/// Steps towards a legal number before the nearest one is reported as illegal.
const STEPS: u32 = 3;

/// Elements of a tile from which on one tile is counted instead of several.
const LARGE: usize = 128 * 256;

/// Words that are interchangeable.
const WORDS: [&[&str]; 14] = [
    &["emulate(bf16x3)", "emulate(bf16x6)", "emulate(bf16x9)", "emulate(f16x3)"],
    &["along = n", "along = m", "along = z"],
    &["load(registers)", "load(cp_async)", "load(tma)"],
    &["operands(registers)", "operands(shared)"],
    &["order(row)", "order(snake)", "order(column)", "order(column_snake)", "order(diagonal)", "order(blocks)"],
    &["movable", "volatile"],
    &["pace(tile)", "pace(free)"],
    &["tail(predicate)", "tail(none)"],
    &["reduce = serial", "reduce = workspace"],
    &["a = mk", "a = km"],
    &["b = kn", "b = nk"],
    &["swizzle(32)", "swizzle(64)", "swizzle(128)"],
    &["1 warp", "2 warps"],
    &["spills(allow)", "spills(refuse)"],
];

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The original clause.
    pub clause: String,
    /// The changed clause; `None` if it is dropped.
    pub changed: Option<String>,
    /// The schedule with that change.
    pub schedule: Schedule,
}

impl Variant {
    /// The change in words.
    pub fn name(&self) -> String {
        match &self.changed {
            Some(changed) => changed.clone(),
            None => format!("without {}", self.clause),
        }
    }
}

/// A variant and its result.
#[derive(Clone, Debug)]
pub struct Ablated {
    /// What was changed.
    pub variant: Variant,
    /// Its cost, or why it is illegal.
    pub figures: Result<Figures, String>,
}

/// A schedule that was compiled and counted.
type Counted = Result<(Arc<Kernel>, Figures), CheckError>;

/// Every change of one clause of a schedule, in the order of its clauses, legal or not.
pub fn variants(schedule: &Schedule, target: Option<Target>) -> Vec<Variant> {
    let mut all: Vec<Variant> = Vec::new();
    for clause in schedule.clauses().filter(|clause| !clause.key().group().is_given()) {
        let written = clause.to_string();
        let mut changed = vec![None];
        changed.extend(numbers(schedule, clause, target).into_iter().chain(words(&written)).map(Some));
        for changed in changed {
            let schedule = match &changed {
                None => schedule.clone().without(clause.key()),
                Some(text) => replaced(schedule, clause.key(), text),
            };
            add(&mut all, &written, changed, schedule);
        }
        if let Clause::Emulate(_) = clause {
            for changed in promotions(schedule, target) {
                let schedule = Schedule::new().text(&format!("{}{changed};", schedule.clone().without(Key::Promote)));
                add(&mut all, "promote", Some(changed), schedule);
            }
        }
    }
    all
}

fn add(all: &mut Vec<Variant>, clause: &str, changed: Option<String>, schedule: Schedule) {
    if !all.iter().any(|known| known.schedule == schedule) {
        all.push(Variant { clause: clause.into(), changed, schedule });
    }
}

/// Other ways to promote sums, also where the schedule does not say how: half as often and twice, and with the other rounding.
fn promotions(schedule: &Schedule, target: Option<Target>) -> Vec<String> {
    let Some(Promotion { every, compensated }) = schedule.plan(target).ok().and_then(|plan| plan.sums.promote) else {
        return Vec::new();
    };
    let written =
        |every, compensated| format!("promote(every = {every}{})", if compensated { ", compensated" } else { "" });
    vec![written(every / 2, compensated), written(2 * every, compensated), written(every, !compensated)]
}

fn replaced(schedule: &Schedule, key: Key, clause: &str) -> Schedule {
    let mut text = String::new();
    for old in schedule.clauses() {
        let written = old.to_string();
        text.push_str(if old.key() == key { clause } else { &written });
        text.push_str(";\n");
    }
    Schedule::new().text(&text)
}

/// The clause with each of its numbers replaced by its nearest legal neighbours, or by the nearest illegal one where
/// there is none.
fn numbers(schedule: &Schedule, clause: &Clause, target: Option<Target>) -> Vec<String> {
    let written = match clause {
        // The clause with a number replaced.
        Clause::DoubleBuffer => "stages(2)".to_string(),
        clause => clause.to_string(),
    };
    // Tiles change by powers of two, stages by single steps.
    let single = matches!(clause.key(), Key::Stages | Key::Prefetch | Key::BlocksPerSm);
    let legal = |text: &str| replaced(schedule, clause.key(), text).plan(target).is_ok();
    let mut all = Vec::new();
    for (start, number) in places(&written) {
        let end = start + number.to_string().len();
        let with = |value: u64| format!("{}{value}{}", &written[..start], &written[end..]);
        for up in [false, true] {
            let step = |value: u64| match (up, single) {
                (false, true) => value.checked_sub(1),
                (true, true) => Some(value + 1),
                (false, false) => (value > 1 && value.is_multiple_of(2)).then_some(value / 2),
                (true, false) => value.checked_mul(2),
            };
            let tried = std::iter::successors(step(number), |value| step(*value)).take(STEPS as usize);
            let tried: Vec<String> = tried.map(with).collect();
            all.extend(tried.iter().find(|text| legal(text)).or(tried.first()).cloned());
        }
    }
    all
}

/// The numbers of a clause, each with its position; those inside words, such as `x16`, and spans of a swizzle count as
/// words.
fn places(written: &str) -> Vec<(usize, u64)> {
    let mut all = Vec::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut start = 0;
    while let Some(at) = written[start..].find(is_word).map(|at| start + at) {
        let end = written[at..].find(|c| !is_word(c)).map_or(written.len(), |end| at + end);
        let in_words = written[..at].ends_with("swizzle(") || written[end..].starts_with(" warp");
        if let (Ok(number), false) = (written[at..end].parse(), in_words) {
            all.push((at, number));
        }
        start = end;
    }
    all
}

/// The clause with each of its words replaced by each alternative.
fn words(written: &str) -> Vec<String> {
    let mut all = Vec::new();
    for group in WORDS {
        let Some(found) = group.iter().find(|word| written.contains(**word)) else { continue };
        all.extend(group.iter().filter(|word| word != &found).map(|word| written.replace(found, word)));
    }
    all
}

/// Counts a schedule and its variants in parallel, and assembles the schedule, then as many variants as `patience` allows.
/// The assembler runs from the start, so that its time does not add to a long count.
///
/// # Errors
///
/// Returns what is wrong with the schedule itself.
pub fn ablate(
    schedule: &Schedule,
    target: Option<Target>,
    assembler: Option<&Assembler>,
    patience: Duration,
) -> Result<(Figures, Vec<Ablated>), CheckError> {
    let end = Instant::now() + patience;
    // Contracts are about the schedule as it is.
    let bare = schedule.clone().without(Key::Expect);
    // All for one target: that of the schedule.
    let target = Some(schedule.plan(target).map_err(Error::from)?.target);
    let own = Variant { clause: String::new(), changed: None, schedule: bare.clone() };
    let all: Vec<Variant> = std::iter::once(own).chain(variants(&bare, target)).collect();
    // Only the schedule itself runs under the checks: the cost of a variant does not depend on them.
    let how = |index, kernel: &Kernel| {
        let size = Some(sampled(kernel));
        match index {
            0 => How { size, assembler, patience, ..How::default() },
            _ => How { size, checks: Checks::Off, ..How::default() },
        }
    };
    let compiled = all.into_par_iter().map(|variant| {
        let kernel = Kernel::compile(&variant.schedule, target).map_err(CheckError::from);
        (variant, kernel)
    });
    let mut compiled: Vec<(Variant, Result<Arc<Kernel>, CheckError>)> = compiled.collect();
    drop_repeated(&mut compiled);
    let count = |(index, (variant, kernel)): (usize, (Variant, Result<Arc<Kernel>, CheckError>))| {
        let counted = kernel.and_then(|kernel| Ok((kernel.clone(), Figures::of(&kernel, &how(index, &kernel))?)));
        (variant, counted)
    };
    let mut counted: Vec<(Variant, Counted)> = compiled.into_par_iter().enumerate().map(count).collect();
    if let Some(assembler) = assembler {
        assemble(&mut counted[1..], assembler, end);
    }
    let figures = counted.into_iter().map(|(variant, counted)| (variant, counted.map(|(_, figures)| figures)));
    let mut figures: Vec<(Variant, Result<Figures, CheckError>)> = figures.collect();
    let own = figures.remove(0).1?;
    let ablated = |(variant, figures): (Variant, Result<Figures, CheckError>)| {
        let figures = figures.map_err(|error| reason(&error));
        Ablated { variant, figures }
    };
    Ok((own, figures.into_iter().map(ablated).collect()))
}

/// The product that is counted: as for a profile, but a single tile if it is large. All figures of the table are relative to the
/// work.
fn sampled(kernel: &Kernel) -> Size {
    let one = tiles(kernel, 1, DEPTH);
    if one.m * one.n >= LARGE { one } else { sample_size(kernel) }
}

/// Leaves out changes that result in the same instructions as an earlier one, such as a default that is written out. A
/// change without any effect on the instructions of the schedule is kept, since that is worth knowing.
fn drop_repeated(compiled: &mut Vec<(Variant, Result<Arc<Kernel>, CheckError>)>) {
    let mut known = HashSet::new();
    let mut is_own = true;
    compiled.retain(|(_, compiled)| {
        let own = std::mem::take(&mut is_own);
        let Ok(kernel) = compiled else { return true };
        own || known.insert(ptx::normal::instructions(kernel.ptx()))
    });
}

/// Assembles as many variants as there is time for, those with a clause dropped first.
fn assemble(counted: &mut [(Variant, Counted)], assembler: &Assembler, end: Instant) {
    let mut order: Vec<_> = counted.iter_mut().collect();
    order.sort_by_key(|(variant, _)| variant.changed.is_some());
    // The workers take them from the list one by one.
    order.into_iter().par_bridge().for_each(|(_, counted)| {
        let left = end.saturating_duration_since(Instant::now());
        if let (Ok((kernel, figures)), false) = (counted, left.is_zero()) {
            figures.assemble(kernel, assembler, left);
        }
    });
}

/// The first thing that is wrong, in one line.
fn reason(error: &CheckError) -> String {
    match error {
        CheckError::Runtime(Error::Schedule(errors)) => {
            errors.errors().next().map_or_else(|| error.to_string(), |first| first.message.clone())
        }
        error => error.to_string().lines().next().unwrap_or_default().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ptx_gemm_dsl::Schedule;

    use super::{Variant, ablate, places, variants};

    fn schedule(clauses: &str) -> Schedule {
        clauses.parse().unwrap()
    }

    #[test]
    fn numbers_of_a_clause() {
        assert_eq!(places("tile(128, 64, 8)"), [(5, 128), (10, 64), (14, 8)]);
        assert_eq!(places("shared(a = km + pad(4), b = kn + swizzle(64))"), [(20, 4)]);
        assert_eq!(places("specialize(producers = 1 warp)"), []);
    }

    #[test]
    fn one_clause_at_a_time() {
        let own = schedule("types(f32); tile(64, 64, 8); thread(4, 4); vector(4); double_buffer; lanes(along = n);");
        let names: Vec<String> = variants(&own, None).iter().map(Variant::name).collect();
        for expected in [
            "without vector(4)",
            "vector(2)",
            "tile(32, 64, 8)",
            "tile(64, 64, 16)",
            "thread(8, 4)",
            "without double_buffer",
            "stages(3)",
            "lanes(along = m)",
            "lanes(along = z)",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
        assert!(names.iter().all(|name| !name.contains("types")), "what is computed stays: {names:?}");
        // Each differs from the schedule, and from each other.
        let all = variants(&own, None);
        assert!(
            all.iter().enumerate().all(|(i, v)| v.schedule != own && all[..i].iter().all(|o| o.schedule != v.schedule))
        );
    }

    #[test]
    fn planes_and_promotion_are_varied_and_cost_error() {
        let own = schedule("emulate(bf16x6); tile(64, 64, 64); atom(mma(16, 8, 16)); warp(32, 32);");
        let (figures, ablated) = ablate(&own, None, None, Duration::ZERO).unwrap();
        let error = |name: &str| {
            let one = ablated.iter().find(|one| one.variant.name() == name);
            one.unwrap_or_else(|| panic!("{name}")).figures.as_ref().unwrap().relative_error.unwrap()
        };
        let own = figures.relative_error.unwrap();
        assert!(error("emulate(bf16x3)") > 5.0 * own, "{own:e}");
        let of = ["emulate(bf16x9)", "emulate(f16x3)", "promote(every = 64)", "promote(every = 256)"].map(error);
        assert!(of[0] < 1.1 * own && of[1] > 1.1 * own, "{own:e}, {of:?}");
        assert!(of[2] < own && own < of[3], "{own:e}, {of:?}");
        error("promote(every = 128, compensated)");
    }

    #[test]
    fn what_a_clause_buys_and_why_a_change_is_illegal() {
        let own = schedule("tile(64, 64, 8); thread(4, 4); vector(4); shared(a = km + pad(4));");
        let (figures, ablated) = ablate(&own, None, None, Duration::ZERO).unwrap();
        let of = |name: &str| ablated.iter().find(|one| one.variant.name() == name).unwrap();
        let scalar = of("without vector(4)").figures.as_ref().unwrap();
        assert!(scalar.main_loop.loads_per_fma > 1.5 * figures.main_loop.loads_per_fma);
        let unpadded = of("without shared(a = km + pad(4))").figures.as_ref().unwrap();
        assert_eq!(unpadded.target, figures.target);
        // A default that is written out is not reported twice.
        let double = schedule("tile(32, 32, 8); thread(2, 2); double_buffer;");
        let (_, ablated_double) = ablate(&double, None, None, Duration::ZERO).unwrap();
        let names: Vec<String> = ablated_double.iter().map(|one| one.variant.name()).collect();
        assert!(names.iter().any(|name| name == "without double_buffer"), "{names:?}");
        assert!(names.iter().all(|name| name != "stages(1)"), "{names:?}");
        let illegal = of("without thread(4, 4)").figures.as_ref().unwrap_err();
        assert!(!illegal.is_empty() && !illegal.contains('\n'), "{illegal}");
    }
}
