//! Snapshots of every case and every tuned schedule at every level. Long runs of like lines are abridged, and a digest of the whole text stands
//! at the end, so that no change goes unseen.

use std::fmt::Write;

use ptx_gemm_check::{cases, tuned};
use ptx_gemm_codegen::{Level, compile_observed};

/// The longest cycle of unlike lines that is looked for, and the fewest rounds of a cycle that are abridged to one.
const CYCLE: usize = 5;
const ROUNDS: usize = 3;

/// What makes two lines alike: the first word, and what stands behind the text.
fn kind(line: &str) -> (String, &str) {
    let text = line.trim_start();
    let word = text.split_whitespace().next().unwrap_or("");
    // Kernel IR begins with the destination: its operation tells more.
    let word = text.split_once(" = ").map_or(word, |(_, value)| value.split_whitespace().next().unwrap_or(""));
    let note = line.split_once("//@ ").or_else(|| line.split_once("; ")).map_or("", |(_, note)| note);
    (word.chars().filter(|c| !c.is_ascii_digit()).collect(), note)
}

/// Rounds of the best cycle that begins at the first line: (lines of a round, rounds).
fn cycle(kinds: &[(String, &str)]) -> (usize, usize) {
    let rounds =
        |length: usize| 1 + kinds[length..].chunks(length).take_while(|round| *round == &kinds[..length]).count();
    let all = (1..=CYCLE.min(kinds.len())).map(|length| (length, rounds(length)));
    all.filter(|(_, rounds)| *rounds >= ROUNDS)
        .max_by_key(|(length, rounds)| (length * (rounds - 1), usize::MAX - length))
        .unwrap_or((1, 1))
}

/// The text with its long runs shortened, and its digest.
fn abridge(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let kinds: Vec<(String, &str)> = lines.iter().map(|line| kind(line)).collect();
    let mut out = String::new();
    let mut i = 0;
    while i < lines.len() {
        // A line without a note is structure.
        let (length, rounds) = if kinds[i].1.is_empty() { (1, 1) } else { cycle(&kinds[i..]) };
        for line in &lines[i..i + length] {
            writeln!(out, "{}", line.trim_end()).unwrap();
        }
        if rounds > 1 {
            let indent = lines[i].len() - lines[i].trim_start().len();
            writeln!(out, "{:indent$}... {} more lines like these", "", (rounds - 1) * length).unwrap();
        }
        i += length * rounds;
    }
    writeln!(out, "{} lines, digest {:016x}", lines.len(), digest(text)).unwrap();
    out
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn every_case_at_every_level() {
    crate::snapshots().bind(|| {
        for case in cases().chain(tuned()) {
            let plan = case.schedule().and_then(|s| s.plan(None)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            let mut levels = [String::new(), String::new(), String::new()];
            let mut observe = |level: Level, text: &str| levels[level as usize].push_str(text);
            let compiled = compile_observed(&plan, Some(&mut observe)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            let [tile, kernel, ptx] = levels;
            assert_eq!(ptx, compiled.ptx);
            insta::assert_snapshot!(format!("{}__plan", case.name), plan.to_string());
            insta::assert_snapshot!(format!("{}__tile", case.name), tile);
            insta::assert_snapshot!(format!("{}__kernel", case.name), abridge(&kernel));
            insta::assert_snapshot!(format!("{}__ptx", case.name), abridge(&ptx));
        }
    });
}

/// The same plan gives the same bytes, and what is printed parses to what was printed.
#[test]
fn texts_are_stable_and_parse_back() {
    for case in cases().chain(tuned()) {
        let plan = case.schedule().and_then(|s| s.plan(None)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let first = ptx_gemm_codegen::compile(&plan).unwrap();
        assert_eq!(first.ptx, ptx_gemm_codegen::compile(&plan).unwrap().ptx, "{}", case.name);
        let parsed = ptx_gemm_ptx::parse::parse(&first.ptx).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert!(parsed == first.module, "{}: the text parses to something else", case.name);
    }
}
