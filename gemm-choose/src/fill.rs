//! Fills in open values: `tile(?, ?, 64)`, `schedule(?)`.
//!
//! The estimate decides, and nothing is timed: a text is filled in alike on every machine.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ptx_gemm_dsl::clause::{Clause, ShapeClause};
use ptx_gemm_dsl::open::{Filled, Open};
use ptx_gemm_dsl::opened::Opened;
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::{Diagnostic, Diagnostics, Schedule, Space, Span, Target};

use crate::estimate::{Estimate, estimate};
use crate::gpu::Gpu;
use crate::pick::Pick;
use crate::search::{Legal, Search, target};
use crate::size::Size;

/// The most combinations of open values. A search looks at few of them.
pub const MOST: u128 = 1 << 20;

/// A text in which nothing is open any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// The text as it was, with values in place of the question marks.
    pub text: String,
    /// Its schedule.
    pub schedule: Schedule,
}

/// Reads a schedule, and fills in its open values for the product and the GPU of its `shape` and `gpu`. A text without open values is
/// only read.
///
/// ```
/// use ptx_gemm_choose::fill;
///
/// let text = "types(bf16); layout(b = col); tile(128, ?, 64); atom(wgmma(64, ?, 16)); load(tma); stages(?); shape(4096, 4096, 4096);";
/// let filled = fill(text)?;
/// assert_eq!(filled.schedule.filled().unwrap().clauses.len(), 3);
/// println!("{}", filled.text);
/// # Ok::<(), ptx_gemm_dsl::Diagnostics>(())
/// ```
///
/// # Errors
///
/// What is wrong with the text. If no values are legal, the rules that are in the way; if there are more than [`MOST`] combinations,
/// which value to write.
pub fn fill(text: &str) -> Result<Text, Diagnostics> {
    fill_for(text, None, None)
}

/// The same for a target that the caller compiles for, and for a GPU if the text names none.
///
/// # Errors
///
/// As those of [`fill`].
pub fn fill_for(text: &str, asked: Option<Target>, on: Option<&Gpu>) -> Result<Text, Diagnostics> {
    let told = |error: Box<Diagnostic>| Diagnostics::new(vec![*error]).in_text(Some(Arc::from(text)));
    let Some(opened) = Opened::parse(text)? else {
        let schedule = Schedule::parse_for(text, asked)?;
        gpu(&schedule, asked, on).map_err(told)?;
        return Ok(Text { text: text.into(), schedule });
    };
    let gpu = gpu(&opened.schedule, asked, on).map_err(told)?;
    let size = match opened.shape {
        Some(ShapeClause { m, n, k, batch }) => {
            let [m, n, k, batch] = [m, n, k, batch.unwrap_or(1)].map(|extent| extent as usize);
            Size { m, n, k, batch }
        }
        None => Size::cube(4096),
    };
    let (filled, chosen, estimate) = match opened.rest {
        Some(span) => whole(text, &opened.schedule, span, asked, (size, &gpu)).map_err(told)?,
        None => values(text, &opened, asked, (size, &gpu)).map_err(told)?,
    };
    let schedule = Schedule::parse_for(&filled, asked)?;
    let note = Filled {
        clauses: schedule.clauses().filter(|clause| chosen.contains(&clause.key())).cloned().collect(),
        size: size.to_string(),
        gpu: gpu.name.clone(),
        ms: estimate.ms,
        why: format!("{} limits it{}", estimate.bound, if gpu.calibrated { "" } else { " (not calibrated)" }),
    };
    Ok(Text { text: filled, schedule: schedule.with_filled(note) })
}

/// Checks that the GPU of a schedule's `gpu` is known.
///
/// # Errors
///
/// Its name is not, at its place.
pub fn names_known_gpu(schedule: &Schedule) -> Result<(), Box<Diagnostic>> {
    gpu(schedule, None, None).map(|_| ())
}

/// The GPU that a schedule names, or else that of the caller, or else the first one of the target, or else an H200.
fn gpu(schedule: &Schedule, asked: Option<Target>, on: Option<&Gpu>) -> Result<Gpu, Box<Diagnostic>> {
    for (clause, span) in schedule.spans() {
        let Clause::Gpu(name) = clause else { continue };
        return Gpu::find(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = Gpu::all().iter().map(|gpu| gpu.name.as_str()).collect();
            let error = Diagnostic::error("gpu", "gpu", format!("gpu: unknown GPU `{name}`"));
            let error = error.help(format!("write one of {}", known.join(", ")));
            Box::new(span.into_iter().fold(error, Diagnostic::at))
        });
    }
    let of_target = asked.or_else(|| schedule.target_on(None)).and_then(|target| {
        Gpu::all().iter().find(|gpu| gpu.capability == target.capability).or_else(|| Gpu::for_target(target))
    });
    Ok(on.or(of_target).unwrap_or(Gpu::h200()).clone())
}

/// The text with clauses in the place of `schedule(?)`, and which they are.
fn whole(
    text: &str,
    given: &Schedule,
    span: Span,
    asked: Option<Target>,
    (size, gpu): (Size, &Gpu),
) -> Result<(String, Vec<Key>, Estimate), Box<Diagnostic>> {
    // The caller's target restricts the search, but does not belong in the text.
    let wanted = asked.into_iter().fold(given.clone(), |given, target| given.with(Schedule::new().target(target)));
    let Some(best) = (Pick { given: &wanted, size, gpu }).best() else {
        let message = format!("`schedule(?)`: no built-in family fits these clauses on {}", gpu.name);
        let help = "leave clauses out, or write the schedule";
        return Err(Diagnostic::error("open", "schedule", message).help(help).at(span).into());
    };
    let new: Vec<&Clause> = best.schedule.clauses().filter(|clause| wanted.get(clause.key()).is_none()).collect();
    let keys = new.iter().map(|clause| clause.key()).collect();
    let (before, after) = (&text[..span.start as usize], &text[span.end as usize..]);
    let line = before.rsplit('\n').next().unwrap_or("");
    let indent = &line[..line.len() - line.trim_start().len()];
    let written = new.iter().map(|clause| clause.to_string()).collect::<Vec<_>>().join(&format!(";\n{indent}"));
    let filled = format!("{before}{written}{after}");
    Ok((filled, keys, best.estimate))
}

/// The text with the best values in the places of the question marks.
fn values(
    text: &str,
    opened: &Opened,
    asked: Option<Target>,
    (size, gpu): (Size, &Gpu),
) -> Result<(String, Vec<Key>, Estimate), Box<Diagnostic>> {
    let space = Space::open(text, opened);
    let first = &opened.open[0];
    let error = |open: &Open, message: String| Diagnostic::error("open", open.clause, message).at(open.span);
    if space.len() > MOST {
        let count = space.len();
        let most = opened.open.iter().zip(opened.counts()).max_by_key(|(_, count)| *count);
        let (widest, values) = most.unwrap_or((first, 1));
        let message = format!("{count} combinations of open values, and at most {MOST} are considered");
        let help =
            format!("write a number for `{}` of `{}`, which has {values} possible values", widest.name, widest.clause);
        return Err(error(widest, message).help(help).into());
    }
    let search = Search { space: &space, given: None, size, gpu, target: asked, in_halves: None };
    let (mut best, mut illegal) = (search.best(), Default::default());
    if best.is_none() {
        let found = search.run(&AtomicBool::new(false), &|_| ());
        (best, illegal) = (found.legal.into_iter().min_by(Legal::compare), found.illegal);
    }
    let Some((best, combination)) = best.and_then(|best| Some((space.combination(best.index)?, best))) else {
        let mut rules: Vec<_> = illegal.into_iter().collect();
        rules.sort_by_key(|(rule, out)| (Reverse(out.count), *rule));
        let reasons = rules.iter().take(3).filter_map(|(rule, out)| {
            let schedule = search.schedule(&space.combination(out.first)?).ok()?;
            let why = match schedule.plan(asked.or_else(|| target(&schedule, gpu))) {
                Ok(plan) => estimate(&plan, size, gpu).err()?.message,
                Err(errors) => errors.errors().find(|error| error.rule == *rule)?.message.clone(),
            };
            Some(format!("{rule}, {} of {}: {why}", out.count, space.len()))
        });
        let message = format!("{}: no values for what is open are legal on {}", first.clause, gpu.name);
        let reasons = reasons.collect::<Vec<_>>().join("\n      ");
        return Err(error(first, message)
            .help(format!("these rules are broken by the combinations of values\n      {reasons}"))
            .into());
    };
    Ok((best.text().to_owned(), opened.open.iter().map(|open| open.key).collect(), combination.estimate))
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Target;

    use super::{fill, fill_for};

    const WGMMA: &str = "types(bf16); layout(b = col); load(tma);";

    #[test]
    fn values_are_filled_in_where_they_are_open() {
        let text = format!("{WGMMA} // kept\ntile(?, ?, 64); atom(wgmma(64, ?, 16)); stages(?); order(?);");
        // `order` does not go with tensor cores: what is filled in has to be legal.
        let error = fill(&text).unwrap_err().to_string();
        assert!(error.contains("no values for what is open are legal") && error.contains("order"), "{error}");
        let filled = fill(&text.replace(" order(?);", "")).unwrap();
        assert!(filled.text.starts_with(&format!("{WGMMA} // kept\ntile(")) && !filled.text.contains('?'));
        filled.schedule.check().unwrap();
        let note = filled.schedule.filled().unwrap();
        assert_eq!(note.clauses.iter().map(|clause| clause.name()).collect::<Vec<_>>(), ["tile", "atom", "stages"]);
        assert_eq!((note.size.as_str(), note.gpu.as_str()), ("4096 x 4096 x 4096", "H200"));
        // The tile is as wide as its instruction.
        let columns = filled.text.split("wgmma(64, ").nth(1).unwrap().split(',').next().unwrap();
        assert!(filled.text.contains(&format!(", {columns}, 64);")), "{}", filled.text);
    }

    #[test]
    fn the_product_and_the_gpu_decide() {
        let of = |hints: &str| fill(&format!("types(f16); schedule(?); {hints}")).unwrap();
        let (large, small) = (of(""), of("shape(64, 4096, 4096)"));
        assert_ne!(large.text.replace("shape(64, 4096, 4096)", ""), small.text.replace("shape(64, 4096, 4096)", ""));
        assert!(large.text.contains("wgmma"));
        let other = of("gpu(RTX4090)");
        assert!(other.text.contains("atom(mma(") && !other.text.contains("wgmma"), "{}", other.text);
        assert!(other.schedule.filled().unwrap().to_string().contains("(not calibrated)"));
        let targeted = of("target(sm_80)");
        assert_eq!(targeted.schedule.filled().unwrap().gpu, "A100");
    }

    #[test]
    fn a_target_that_is_asked_for_counts() {
        let filled = fill_for("types(bf16); schedule(?);", Some(Target::SM_90), None).unwrap();
        filled.schedule.plan(Some(Target::SM_90)).unwrap();
        assert!(filled.text.contains("atom(mma(") && !filled.text.contains("target"), "{}", filled.text);
    }

    #[test]
    fn arguments_by_name_and_whole_shapes_can_be_open() {
        for text in [
            "tile(n = ?, m = ?, k = 8); thread(8, 4)",
            "types(f16); tile(64, 64, 32); atom(mma(?, ?, ?)); warp(?, ?); load(cp_async); stages(3)",
            "  types(f16);\n  tile(64, 64, ?); atom(wgmma(?, 64, ?)); load(tma); registers(consumer = ?, producer = ?); specialize(producers = ?)",
        ] {
            let filled = fill(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
            filled.schedule.check().unwrap_or_else(|errors| panic!("{}: {errors}", filled.text));
            assert!(!filled.text.contains('?'), "{}", filled.text);
        }
        let indented = fill("  types(f32);\n  schedule(?);\n").unwrap().text;
        assert!(indented.lines().all(|line| line.starts_with("  ")), "{indented}");
    }

    #[test]
    fn words_can_be_open() {
        let filled = fill("tile(64, 64, 16); thread(8, 4); vector(4); order(?); load(?);").unwrap();
        filled.schedule.check().unwrap();
        assert!(!filled.text.contains('?'), "{}", filled.text);
    }

    #[test]
    fn what_cannot_be_chosen_is_told() {
        for (text, told) in [
            (
                "tile(64, 64, 16); thread(8, 4); types(?)",
                "types: a type cannot be left open, because it decides what is computed",
            ),
            ("tile(64, 64, 16); thread(8, 4); persistent(?)", "persistent: n cannot be left open"),
            ("schedule(?); stages(?)", "stages: `schedule(?)` chooses this clause as well"),
            ("schedule(?); schedule(?)", "`schedule(?)` is written twice"),
            ("schedule(3)", "schedule: it takes a question mark"),
            ("schedule(?); gpu(H300)", "unknown GPU `H300`"),
            ("gpu(H300); tile(64, 64, 8); thread(8, 8)", "unknown GPU `H300`"),
            ("schedule(?); vector(3)", "vector(3)"),
            ("schedule(?); shape(0, 1, 1)", "m = 0, at least 1"),
            ("schedule(?); shape(?, 1, 1)", "because it says what to choose for"),
            ("schedule(?); ..base", "extends a schedule of Rust code"),
            ("schedule(?); target(sm_80); atom(wgmma(64, 64, 16))", "wgmma needs sm_90a, target is sm_80"),
            ("schedule(?); thread(3, 5)", "no built-in family fits"),
            (
                "tile(?, ?, ?); thread(?, ?); fragment(?, ?); warp(?, ?); stages(?)",
                "combinations of open values, and at most",
            ),
            ("tile(?, 60, 64); atom(wgmma(64, 64, 16)); load(tma); types(f16)", "no values for what is open are legal"),
        ] {
            let error = fill(text).expect_err(text).to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
