//! A regression net under the compiler: one digest per schedule, of the instructions that it compiles to.
//!
//! Comments, the names of registers and labels, and the number of declared registers are left out; opcodes, operands,
//! their order and the directives are included. A commit that changes a line of the snapshot says which instructions
//! changed and why.

use std::fmt::Write;

use ptx_gemm_check::{cases, digest};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_ptx::normal::instructions;

pub(crate) const SNAPSHOT: &str = "net";

/// Random legal schedules, one per line, drawn once and kept: the net does not depend on the generator.
pub(crate) const RANDOM: &str = include_str!("../net/schedules.txt");

fn row(out: &mut String, name: &str, schedule: &Schedule) {
    let plan = schedule.plan(None).unwrap_or_else(|e| panic!("{name}: {e}"));
    let ptx = ptx_gemm_codegen::compile(&plan).unwrap_or_else(|e| panic!("{name}: {e}")).ptx;
    let text = instructions(&ptx);
    writeln!(out, "{:016x} {:6} {name}", digest(&text), text.lines().count()).unwrap();
}

#[test]
fn instructions_are_what_they_were() {
    let mut out = String::new();
    for case in cases() {
        row(&mut out, case.name, &case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name)));
    }
    assert!(RANDOM.lines().count() > 300);
    for text in RANDOM.lines() {
        row(&mut out, text, &text.parse().unwrap_or_else(|e| panic!("{text}: {e}")));
    }
    crate::snapshots().bind(|| insta::assert_snapshot!(SNAPSHOT, out));
}
