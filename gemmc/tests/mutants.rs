//! `gemmc mutants`: faults of both levels, as text, as JSON and as a table.

use std::process::{Command, Output};

use serde_json::Value;

fn gemmc(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("mutants").args(args).output().expect("gemmc starts")
}

fn json(args: &[&str]) -> (Option<i32>, Value) {
    let output = gemmc(&[args, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (output.status.code(), value)
}

#[test]
fn a_sample_of_a_kernel_is_found() {
    let (status, found) = json(&["--case", "two_per_thread", "--sample", "20", "--seed", "1"]);
    assert_eq!((status, &found["total"], &found["unexplained"]), (Some(0), &20.into(), &0.into()), "{found}");
    let survivors = found["survivors"].as_array().expect("a list");
    assert_eq!(found["killed"].as_u64(), Some(20 - survivors.len() as u64));
    for survivor in survivors {
        assert!(survivor["equivalent"].is_string() && survivor["line"].is_u64(), "{survivor}");
    }
}

/// Without a fault nothing is found, and nothing is known.
#[test]
fn no_faults_are_no_success() {
    let (status, found) = json(&["--case", "shared_2", "--sample", "0"]);
    assert_eq!((status, &found["total"], &found["ok"]), (Some(3), &0.into(), &false.into()), "{found}");
}

/// Standard error is not a terminal here, so lines are not printed above a bar.
#[test]
fn each_verdict_is_told_as_it_comes() {
    let output = gemmc(&["--case", "two_per_thread", "--sample", "6", "--all"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().filter(|line| line.contains(" s: ") && line.contains(", in ")).count(), 6, "{text}");
}

#[test]
fn edits_of_tile_programs_are_refused_or_right() {
    let arguments = ["../examples/tile/two_sums.tile", "--level", "tile", "--sample", "60"];
    let (status, found) = json(&arguments);
    assert_eq!((status, &found["total"], &found["unexplained"]), (Some(0), &60.into(), &0.into()), "{found}");
    assert!(found["killed"].as_u64() > Some(30) && found["legal"].as_u64() > Some(0), "{found}");
}

#[test]
fn a_table_has_a_row_for_each_program() {
    let path = std::env::temp_dir().join(format!("gemmc-mutants-{}.md", std::process::id()));
    let name = path.to_str().expect("a path");
    let output = gemmc(&["shared_2", "--kind", "bound", "--each", "1", "--table", name]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let table = std::fs::read_to_string(&path).expect("a table");
    std::fs::remove_file(path).expect("the file is there");
    assert!(table.contains("| shared_2 | ") && table.contains("| all | "), "{table}");
}

#[test]
fn figures_are_kept_and_only_of_the_same_faults() {
    let folder = std::env::temp_dir().join(format!("gemmc-kept-{}", std::process::id()));
    let name = folder.to_str().expect("a path");
    let of = |arguments: &[&str]| json(&[&["shared_2", "--kind", "bound", "--keep", name], arguments].concat());
    let (_, none) = of(&["--each", "1", "--kept"]);
    let (_, judged) = of(&["--each", "1"]);
    let (_, kept) = of(&["--each", "1", "--kept"]);
    let (_, other) = of(&["--each", "2", "--kept"]);
    std::fs::remove_dir_all(folder).expect("the folder is there");
    assert_eq!((&none["total"], &other["total"]), (&0.into(), &0.into()), "{none} {other}");
    assert!(judged["total"].as_u64() > Some(0), "{judged}");
    assert_eq!(kept, judged);
}

#[test]
fn what_there_is_not_is_said() {
    let output = gemmc(&["--case", "two_per_thread", "--kind", "typo"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("`typo` is not a kind of fault; there are"), "{text}");
    let output = gemmc(&["--case", "no_such_case"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("neither a file nor a case"), "{text}");
}
