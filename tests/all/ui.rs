//! Compile errors of `gemm!`: every file of `ui/` fails to build with exactly the errors in its `.stderr` file.
//!
//! The compiler reads the facade that this test is linked with, so nothing is built a second time. `INSTA_UPDATE=always`
//! rewrites the expected texts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use rayon::prelude::*;

/// The compiler version of the messages in the `.stderr` files.
const COMPILER: &str = "rustc 1.95.";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ui");

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// The facade among the libraries around this test's program. Cargo keeps those of other features as well: the newest is as new
/// as the sources.
fn facade(libraries: &Path) -> PathBuf {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let all = fs::read_dir(libraries).unwrap().map(|entry| entry.unwrap().path());
    let facades = all.filter(|path| name(path).starts_with("libptx_gemm-") && name(path).ends_with(".rlib"));
    let written = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    facades.max_by_key(written).unwrap_or_else(|| panic!("no library ptx_gemm in {}", libraries.display()))
}

/// The errors of a program, or `None` if it compiles.
fn errors(program: &Path, libraries: &Path, facade: &Path) -> Option<String> {
    let output = rustc()
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "--allow=warnings"])
        .arg(format!("--extern=ptx_gemm={}", facade.display()))
        .arg(format!("-Ldependency={}", libraries.display()))
        .args(["-o".as_ref(), tempfile::tempdir().unwrap().path().join("program.rmeta").as_os_str()])
        .arg(program.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("rustc starts");
    (!output.status.success()).then(|| normal(&String::from_utf8_lossy(&output.stderr)))
}

/// The text without what depends on other sources, and without rustc's last lines, which count the errors.
fn normal(text: &str) -> String {
    let end = text.find("error: aborting due to").unwrap_or(text.len());
    let lines = text[..end].trim_end().lines().map(|line| match line.trim_start().split_once(' ') {
        Some(("and", rest)) if rest.ends_with(" others") => "          and $N others",
        Some(("-->", place)) if !place.starts_with("ui/") => line.split(':').next().unwrap(),
        _ => line.trim_end(),
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn wrong_schedules_do_not_compile() {
    let version = rustc().arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(COMPILER) {
        println!("skipped: the expected texts are those of {COMPILER}x, this is {version}");
        return;
    }
    let files = fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().path());
    let mut programs: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    programs.sort();
    assert!(programs.len() >= 40, "only {} programs were found", programs.len());
    let test = env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let facade = facade(libraries);
    let update = env::var("INSTA_UPDATE").is_ok_and(|value| value == "always");
    let wrong = programs.par_iter().filter_map(|program| {
        let expected = program.with_extension("stderr");
        let Some(errors) = errors(program, libraries, &facade) else {
            return Some(format!("{}: it compiles", program.display()));
        };
        if update {
            fs::write(&expected, &errors).unwrap();
        }
        let known = fs::read_to_string(&expected).unwrap_or_default();
        (known != errors).then(|| format!("{}:\n{errors}\ninstead of\n{known}", program.display()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
