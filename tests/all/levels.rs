//! The compiler's output at every level, for people to review.
//!
//! A few cases that show different things have their text in full: long runs of similar lines are abridged, and the
//! last line is a digest of the whole text, so that no change goes unnoticed. Every case has a row in one table per
//! level: its length, its digest and the frequency of each operation, once for all targets that give the same result.
//! Digests and tables leave out comments, so that rewording one changes only the full texts.

use std::collections::BTreeMap;
use std::fmt::Write;

use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Case, abridge, cases, digest, operation};
use ptx_gemm_codegen::{Level, compile, compile_observed};
use ptx_gemm_dsl::{Plan, Schedule, Target};
use ptx_gemm_ptx::normal::instructions;

/// The cases with full texts, and what each of them demonstrates.
const FULL: [&str; 8] = [
    "naive",           // no shared memory, alpha and beta
    "direct_4x4_i32",  // no shared memory, several results a thread, integers
    "shared_32",       // one slot of shared memory
    "double_buffered", // two slots filled through registers, wide accesses
    "warp_tiled",      // warps, fragments, a padded and transposed tile
    "tn_128x128",      // a ring filled by cp.async
    "nn_64x64_split4", // split-K with a workspace
    "vectorized_bf16", // two bytes an element, converted in registers
];

const LEVELS: [&str; 4] = ["plan", "tile", "kernel", "ptx"];

fn schedule(case: &Case) -> Schedule {
    case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

/// The texts of a plan, in the order of [`LEVELS`]; that of PTX parses back to the module that was printed.
fn texts(name: &str, plan: &Plan) -> [String; 4] {
    let mut levels = [String::new(), String::new(), String::new()];
    let mut observe = |level: Level, text: &str| levels[level as usize].push_str(text);
    let compiled = compile_observed(plan, Some(&mut observe)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let [tile, kernel, ptx] = levels;
    assert_eq!(ptx, compiled.ptx, "{name}");
    let parsed = ptx_gemm_ptx::parse::parse(&ptx).unwrap_or_else(|e| panic!("{name} for {}: {e}", plan.target));
    assert!(parsed == compiled.module, "{name} for {}: the text parses to something else", plan.target);
    [plan.to_string(), tile, kernel, ptx]
}

/// A text without comments and without the lines that name its target.
fn bare(level: &str, text: &str) -> String {
    let comments = |line: &str| {
        let code = line.split(';').next().unwrap_or("");
        // Declarations of the kernel state their purpose after a colon.
        code.split(": ").next().unwrap_or("").trim_end().to_string() + "\n"
    };
    match level {
        "plan" => text.lines().filter(|l| !l.starts_with("  target ")).map(|l| l.to_string() + "\n").collect(),
        "ptx" => {
            let of_target = |line: &&str| line.starts_with(".version") || line.starts_with(".target");
            instructions(text).lines().filter(|line| !of_target(line)).map(|l| l.to_string() + "\n").collect()
        }
        _ => text.lines().map(comments).collect(),
    }
}

/// Parts of a mnemonic that a histogram distinguishes; types, rounding and cache hints are not among them.
const MODIFIERS: [&str; 11] =
    ["global", "shared", "param", "async", "sync", "wide", "v2", "v4", "commit_group", "wait_group", "shared::cta"];

/// The name under which a line is counted, if it is an operation.
fn counted(level: &str, line: &str) -> Option<String> {
    if level != "ptx" {
        let word = if line.contains(" += ") { "+=" } else { operation(line) };
        // A register or an expression.
        let value = word.starts_with('(') || word.contains(|c: char| c.is_ascii_digit());
        return Some(if value { "value" } else { word }).filter(|word| !"{}".contains(*word)).map(str::to_string);
    }
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with('@'));
    let mut parts = words.next()?.trim_end_matches(';').split('.');
    let stem = parts.next().filter(|stem| stem.starts_with(|c: char| c.is_ascii_lowercase()))?;
    let modifiers = parts.filter(|part| MODIFIERS.contains(part)).map(|part| format!(".{part}"));
    Some(format!("{stem}{}", modifiers.collect::<String>()))
}

/// The row of one text: its length, its digest, and the frequency of each operation.
fn figures(level: &str, plan: &Plan, text: &str) -> String {
    let bare = bare(level, text);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in bare.lines().filter_map(|line| counted(level, line)) {
        *counts.entry(name).or_default() += 1;
    }
    let what = if level == "plan" {
        let (threads, variants) = (plan.threads(), plan.variants.len());
        format!(
            "{threads} threads, {} B shared, {} stages, {variants} variants",
            plan.resources.shared_bytes, plan.ring.stages
        )
    } else {
        counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(" ")
    };
    format!("{:5} lines {:016x}  {what}", bare.lines().count(), digest(&bare))
}

/// The rows of one case at one level: targets with the same figures share a row.
fn rows(out: &mut String, name: &str, figures: Vec<(Target, String)>) {
    let mut rows: Vec<(Vec<Target>, String)> = Vec::new();
    for (target, figures) in figures {
        match rows.iter_mut().find(|(_, known)| *known == figures) {
            Some((targets, _)) => targets.push(target),
            None => rows.push((vec![target], figures)),
        }
    }
    assert!(!rows.is_empty(), "{name} compiles for no target");
    for (targets, figures) in rows {
        writeln!(out, "{name:18} {:20} {figures}", range(&targets)).unwrap();
    }
}

/// Neighbours among all targets as `first..last`.
fn range(targets: &[Target]) -> String {
    match targets {
        [first, .., last] if Target::ALL.windows(targets.len()).any(|all| all == targets) => format!("{first}..{last}"),
        _ => targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// Every snapshot of this file.
pub(crate) fn snapshot_names() -> Vec<String> {
    let of = |name: &str| LEVELS.map(|level| format!("{name}__{level}"));
    FULL.iter().flat_map(|name| of(name)).chain(of("every_case")).collect()
}

#[test]
fn some_cases_in_full() {
    for name in FULL {
        let case = cases().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"));
        let plan = schedule(&case).plan(None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let [plan, tile, kernel, ptx] = texts(name, &plan);
        crate::snapshots().bind(|| {
            insta::assert_snapshot!(format!("{name}__plan"), plan);
            insta::assert_snapshot!(format!("{name}__tile"), tile);
            insta::assert_snapshot!(format!("{name}__kernel"), abridge(&kernel));
            insta::assert_snapshot!(format!("{name}__ptx"), abridge(&ptx));
        });
    }
}

/// The cases of this run's part; `net` has every case for one target.
#[test]
fn every_case_at_every_level_for_every_target() {
    let part = Part::of_this_run();
    let mut tables = LEVELS.map(|_| String::new());
    for case in part.of(cases()) {
        let schedule = schedule(&case);
        let mut found = LEVELS.map(|_| Vec::new());
        for target in Target::ALL {
            let Ok(plan) = schedule.plan(Some(target)) else { continue };
            for ((level, text), found) in LEVELS.iter().zip(texts(case.name, &plan)).zip(&mut found) {
                found.push((target, figures(level, &plan, &text)));
            }
        }
        for (table, found) in tables.iter_mut().zip(found) {
            rows(table, case.name, found);
        }
    }
    for (level, table) in LEVELS.iter().zip(tables) {
        let lines: Vec<String> = table.lines().map(str::to_string).collect();
        crate::lines_are_in(&format!("every_case__{level}"), part, &lines);
    }
}

/// The same plan gives the same bytes, for the cases of this run's part. The snapshots say what they are for every target.
#[test]
fn texts_are_stable() {
    for case in Part::of_this_run().of_cases(cases()) {
        let plan = schedule(&case).plan(None).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(compile(&plan).unwrap().ptx, compile(&plan).unwrap().ptx, "{}", case.name);
    }
}

#[test]
fn figures_see_operations_and_no_comments() {
    let ptx =
        "ld.global.L2::128B.v4.f32 {%a0, %a1}, [%rd4+16]; //@ tile: a\n@!%p1 bra.uni end_0;\nend_0:\n.reg .u32 %r<3>;";
    let names = |level, text: &str| bare(level, text).lines().filter_map(|l| counted(level, l)).collect::<Vec<_>>();
    assert_eq!(names("ptx", ptx), ["ld.global.v4", "bra"]);
    assert_eq!(
        names("kernel", "  r0 = param m   ; a note\n  } else {\n  commit_copies ; b"),
        ["param", "commit_copies"]
    );
    for (level, text) in
        [("ptx", ptx), ("kernel", "registers p0..3 Pred: a\nbarrier ; a note"), ("tile", "wait ab ; a")]
    {
        let changed = |from: char, to: &str| bare(level, &text.replace(from, to)) == bare(level, text);
        assert!(!changed('b', "c"), "{level}: `{text}`");
        let reworded = text.replace(": a", ": b").replace("; a", "; b");
        assert_eq!(bare(level, &reworded), bare(level, text), "{level}: `{text}`");
    }
}
