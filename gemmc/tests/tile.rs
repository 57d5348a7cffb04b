//! A `.tile` file can be used wherever a schedule can: the README's first experiment, step by step.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn gemmc(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).args(args).output().expect("gemmc starts")
}

#[track_caller]
fn told(args: &[&str], status: i32, words: &str) -> String {
    let output = gemmc(args);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    assert!(text.contains(words), "{args:?} does not say `{words}`: {text}");
    text
}

/// A separate file for each test.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("gemmc-{name}-{}.tile", std::process::id()));
    fs::write(&path, text).expect("a temporary file");
    path
}

fn printed() -> String {
    String::from_utf8(gemmc(&["ir", "double_buffered", "--level", "tile"]).stdout).expect("text")
}

#[test]
fn the_first_experiment() {
    let path = file("first", &printed().replace("order row", "order snake"));
    let name = path.to_str().expect("a path");
    let sizes = ["-m", "100", "-n", "70", "-k", "50"];
    told(&["check", name], 0, "legal");
    told(&["run", name, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], "--exact"], 0, "right");
    assert_ne!(
        told(&["ptx", name], 0, ".entry gemm_v4"),
        told(&["ptx", "double_buffered", "--target", "sm_75"], 0, "")
    );
    let again = told(&["ir", name, "--level", "tile"], 0, "");
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(words(&again), words(&printed().replace("order row", "order snake")));
    told(&["ir", name, "--level", "kernel"], 0, "kernel gemm_v4");
    told(&["plan", name], 1, "schedule");
    told(&["ptx", name, "--target", "sm_90"], 1, "sm_75");
    fs::remove_file(path).expect("the file is there");
}

#[test]
fn what_is_wrong_has_a_line() {
    let text = printed();
    let without = |statement: &str| -> String {
        text.lines().filter(|line| !line.contains(statement)).map(|line| format!("{line}\n")).collect()
    };
    let rows = [("acquire", "acquired"), ("commit", "committed"), ("release", "released"), ("wait", "waited for")];
    for (statement, done) in rows {
        let path = file("wrong", &without(&format!(" {statement} ab")));
        let name = path.to_str().expect("a path");
        let expected = format!(":14:5: ab is never {done}: there is no `{statement} ab`");
        for arguments in [&["check", name][..], &["ptx", name], &["ir", name, "--level", "kernel"]] {
            told(arguments, 1, &expected);
        }
    }
    let path = file("wrong", &without(" wait ab"));
    let name = path.to_str().expect("a path");
    let json = told(&["check", name, "--json"], 1, "errors");
    let value: serde_json::Value = serde_json::from_str(json.trim()).expect("one object");
    assert_eq!(value["errors"][0]["clause"], "tile");
    assert_eq!(value["errors"][0]["span"]["line"], 14);
    fs::remove_file(path).expect("the file is there");
}

#[test]
fn the_program_by_hand_runs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/tile/two_sums.tile");
    told(&["run", path, "-m", "100", "-n", "70", "-k", "50", "--alpha", "-2"], 0, "right");
}
