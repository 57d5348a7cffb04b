//! Compile errors of `gemm!`: every file of `ui/` fails to build with exactly the errors in its `.stderr` file.

use std::process::Command;

/// The compiler whose messages the `.stderr` files hold.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn wrong_schedules_do_not_compile() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(COMPILER) {
        println!("skipped: the expected texts are those of {COMPILER}x, this is {version}");
        return;
    }
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/ui")).unwrap();
    let programs = folder.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "rs")).count();
    assert!(programs >= 40, "only {programs} programs were found");
    // What compiles is in `macros.rs`: with a program that passes, all of them would be built and not only checked.
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
