//! The net below every change of the compiler: one digest per schedule of the instructions that it becomes.
//!
//! Comments, the names of registers and labels, and how many registers are declared are left out; opcodes, operands, their
//! order and the directives are not. A commit that changes a line of the snapshot says which instructions changed and why.

use std::collections::HashMap;
use std::fmt::Write;

use ptx_gemm_check::{cases, tuned};
use ptx_gemm_dsl::Schedule;

/// Random legal schedules, one a line, drawn once and kept: the net does not move when the generator does.
const RANDOM: &str = include_str!("../net/schedules.txt");

/// The instructions of a module, one a line, with registers and labels numbered by their first use in an entry.
pub(crate) fn instructions(ptx: &str) -> String {
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut out = String::new();
    for line in ptx.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with(".reg") {
            continue;
        }
        if line.starts_with(".visible") {
            names.clear();
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%' || c == '.';
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let end = rest.find(|c: char| !word(c)).unwrap_or(rest.len()).max(c.len_utf8());
            let (token, after) = rest.split_at(end);
            let special = ["%tid", "%ctaid", "%nctaid", "%ntid", "%laneid"].iter().any(|s| token.starts_with(s));
            let label = ["loop_", "end_", "else_"].iter().any(|s| token.starts_with(s));
            if token.starts_with('%') && !special || label {
                let next = names.len();
                write!(out, "<{}>", names.entry(token.to_string()).or_insert(next)).unwrap();
            } else {
                out.push_str(token);
            }
            rest = after;
        }
        out.push('\n');
    }
    out
}

/// FNV-1a.
pub(crate) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn row(out: &mut String, name: &str, schedule: &Schedule) {
    let plan = schedule.plan(None).unwrap_or_else(|e| panic!("{name}: {e}"));
    let ptx = ptx_gemm_codegen::compile(&plan).unwrap_or_else(|e| panic!("{name}: {e}")).ptx;
    let text = instructions(&ptx);
    writeln!(out, "{:016x} {:6} {name}", digest(&text), text.lines().count()).unwrap();
}

#[test]
fn instructions_are_what_they_were() {
    let mut out = String::new();
    for case in cases().chain(tuned()) {
        row(&mut out, case.name, &case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name)));
    }
    assert!(RANDOM.lines().count() > 300);
    for text in RANDOM.lines() {
        row(&mut out, text, &text.parse().unwrap_or_else(|e| panic!("{text}: {e}")));
    }
    crate::snapshots().bind(|| insta::assert_snapshot!("net", out));
}

#[test]
fn the_net_sees_instructions_and_nothing_else() {
    let one = ".visible .entry f()\n{\n    add.u32 %r1, %r2, 4; //@ tile: a\n    bra loop_1;\n}";
    let renamed = one.replace("%r1", "%x7").replace("tile: a", "b").replace("loop_1", "loop_9");
    assert_eq!(instructions(one), instructions(&renamed));
    for changed in [one.replace('4', "5"), one.replace("add", "sub"), one.replace("%r2", "%r1")] {
        assert_ne!(instructions(one), instructions(&changed));
    }
}
