//! Compile errors of `gemm!`: every file of `ui/` fails to build with exactly the errors in its `.stderr` file.

use std::process::Command;

use ptx_gemm_check::part::Part;

/// The compiler version of the messages in the `.stderr` files.
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
    let mut programs: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
    programs.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    programs.sort();
    assert!(programs.len() >= 40, "only {} programs were found", programs.len());
    // Programs that compile are in `macros.rs`: with one that passes, all of them would be built and not only checked.
    let tests = trybuild::TestCases::new();
    Part::of_this_run().of(programs).for_each(|path| tests.compile_fail(path));
}
