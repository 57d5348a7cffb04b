//! The parts of README.md, ARCHITECTURE.md and docs/tutorial.md that the compiler writes are up to date, and docs/language.md
//! agrees with the language's own table.
//!
//! A fenced block after `<!-- live: LEVEL of SCHEDULE, from "A" to "B" -->` is compared with that part of that level's
//! text (the whole text without `from`), where SCHEDULE is clauses or the name of a case; `PTX_GEMM_WRITE_DOCUMENTS=1` rewrites
//! the blocks.

use std::path::Path;

use ptx_gemm_codegen::{Level, compile_observed};
use ptx_gemm_dsl::Schedule;

const START: &str = "<!-- live: ";

/// Number of lines after which an excerpt is abridged.
const LONGEST: usize = 24;

/// Number of registers in braces after which a list is abridged: the accumulators of a warp group's product fill ten lines.
const MOST_REGISTERS: usize = 8;

fn level_text(level: &str, schedule: &str) -> String {
    let clauses = ptx_gemm_check::case(schedule).map_or(schedule, |case| case.text);
    let schedule: Schedule = clauses.parse().unwrap_or_else(|e| panic!("`{clauses}`: {e}"));
    let plan = schedule.plan(None).unwrap_or_else(|e| panic!("`{clauses}`: {e}"));
    if level == "plan" {
        return plan.to_string();
    }
    let mut out = String::new();
    let mut observe = |seen: Level, text: &str| {
        if format!("{seen:?}").eq_ignore_ascii_case(level) && out.is_empty() {
            out = text.to_string();
        }
    };
    compile_observed(&plan, Some(&mut observe)).unwrap_or_else(|e| panic!("`{clauses}`: {e}"));
    out
}

/// A line of PTX with the middle of long lists of registers left out.
fn short_lists(line: &str) -> String {
    let mut parts = line.split('{');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (list, rest) = part.split_once('}').unwrap_or((part, ""));
        let registers: Vec<&str> = list.split(", ").collect();
        let close = if part.len() > list.len() { "}" } else { "" };
        match registers.as_slice() {
            [first, second, .., last] if registers.len() > MOST_REGISTERS && close == "}" => {
                out.push_str(&format!("{{{first}, {second}, ... {last}}}{rest}"));
            }
            _ => out.push_str(&format!("{{{list}{close}{rest}")),
        }
    }
    out
}

/// The lines from the first that contains `from` to the next that contains `to`, with the middle left out if there are
/// many.
fn excerpt(text: &str, from: &str, to: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|l| l.contains(from)).unwrap_or_else(|| panic!("no line has `{from}`"));
    let last =
        lines[first..].iter().position(|l| l.contains(to)).unwrap_or_else(|| panic!("no line has `{to}`")) + first;
    let part = &lines[first..=last];
    let trimmed = |l: &&str| short_lists(l.trim_end()) + "\n";
    if part.len() <= LONGEST {
        return part.iter().map(trimmed).collect();
    }
    let half = LONGEST / 2;
    let skipped = part.len() - 2 * half;
    let head: String = part[..half].iter().map(trimmed).collect();
    let tail: String = part[part.len() - half..].iter().map(trimmed).collect();
    format!("{head}    ... {skipped} more lines\n{tail}")
}

/// The text that a marker refers to: `LEVEL of CLAUSES, from "A" to "B"`.
fn live(marker: &str) -> String {
    let (what, range) = match marker.split_once(", from \"") {
        Some((what, range)) => (what, Some(range)),
        None => (marker, None),
    };
    let (level, clauses) = what.split_once(" of ").unwrap_or_else(|| panic!("`{marker}` names no schedule"));
    let text = level_text(level, clauses);
    match range.and_then(|r| r.trim_end_matches('"').split_once("\" to \"")) {
        Some((from, to)) => excerpt(&text, from, to),
        None if range.is_some() => panic!("`{marker}`: from \"A\" to \"B\""),
        None => text.lines().map(|l| l.trim_end().to_string() + "\n").collect(),
    }
}

fn renewed(document: &str) -> (String, usize) {
    let (mut out, mut rest, mut blocks) = (String::new(), document, 0);
    while let Some(at) = rest.find(START) {
        let marker_end = rest[at..].find(" -->").map(|e| at + e).expect("a marker ends");
        let open = rest[marker_end..].find("```").map(|e| marker_end + e).expect("a fenced block follows a marker");
        let body = rest[open..].find('\n').map(|e| open + e + 1).expect("the fence ends its line");
        let close = rest[body..].find("```").map(|e| body + e).expect("the block is closed");
        out.push_str(&rest[..body]);
        out.push_str(&live(&rest[at + START.len()..marker_end]));
        rest = &rest[close..];
        blocks += 1;
    }
    out.push_str(rest);
    (out, blocks)
}

#[test]
fn documents_show_what_the_compiler_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, least) in [("README.md", 1), ("ARCHITECTURE.md", 3), ("docs/tutorial.md", 10)] {
        let path = root.join(name);
        let document = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (renewed, blocks) = renewed(&document);
        assert!(blocks >= least, "{name} has {blocks} live blocks");
        if std::env::var_os("PTX_GEMM_WRITE_DOCUMENTS").is_some() {
            std::fs::write(&path, renewed).unwrap();
        } else {
            assert!(document == renewed, "{name} is out of date: PTX_GEMM_WRITE_DOCUMENTS=1 cargo test documents");
        }
    }
}

#[test]
fn the_reference_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/language.md");
    let text = ptx_gemm_dsl::reference::markdown();
    if std::env::var_os("PTX_GEMM_WRITE_DOCUMENTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let document = std::fs::read_to_string(&path).unwrap_or_default();
    let advice = "docs/language.md is out of date: PTX_GEMM_WRITE_DOCUMENTS=1 cargo test documents";
    assert!(document == text, "{advice}");
    // Every link target in the documents exists.
    for name in ["README.md", "src/lib.rs"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap();
        assert!(text.contains("docs/language.md"), "{name} does not name the reference");
    }
}

#[test]
fn long_lists_of_registers_are_abridged() {
    let nine = "x {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8}, {%b0, %b1};";
    assert_eq!(short_lists(nine), "x {%a0, %a1, ... %a8}, {%b0, %b1};");
    for line in ["loop {", "} while p1", "ld {%a0}, [%r0];", "a b"] {
        assert_eq!(short_lists(line), line);
    }
}
