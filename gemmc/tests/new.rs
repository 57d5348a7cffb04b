//! `gemmc new`: the crate that it makes builds, its tests pass, and they fail when the schedule changes.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use ptx_gemm_check::part::Part;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn gemmc(folder: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("new").arg(folder).args(more).output().expect("gemmc starts")
}

/// Runs cargo in the crate. Dependencies are built once, for all runs of this test, and without optimisation: ten seconds of
/// the interpreter are less than five minutes of the compiler. The manifest's own optimisation is checked below.
fn cargo(folder: &Path, args: &[&str]) -> (bool, String) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args).args([
        "--config",
        "profile.dev.package.\"*\".opt-level=0",
        "--config",
        "profile.dev.package.\"*\".debug=false",
    ]);
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("new"));
    said(&mut cargo)
}

/// Runs a command; returns whether it succeeded, and what it printed.
fn said(command: &mut Command) -> (bool, String) {
    command.envs([("INSTA_UPDATE", "no"), ("CARGO_TERM_COLOR", "never"), ("RUST_BACKTRACE", "0")]);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// What one does with a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Build,
    Run,
    Test,
}

/// Who builds the crate: cargo, as its user does, which builds every dependency once more; or rustc, from the libraries that
/// this test was built with.
enum Builder {
    Cargo,
    Rustc { libraries: PathBuf, facade: PathBuf },
}

impl Builder {
    /// Cargo where everything runs.
    fn of_this_run() -> Builder {
        if Part::of_this_run() == Part::All {
            return Builder::Cargo;
        }
        let test = env::current_exe().unwrap();
        let libraries = test.parent().unwrap();
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let all = fs::read_dir(libraries).unwrap().map(|entry| entry.unwrap().path());
        let mut facades: Vec<PathBuf> =
            all.filter(|path| name(path).starts_with("libptx_gemm-") && name(path).ends_with(".rlib")).collect();
        // The newest is as new as the sources, but may lack the feature `testing`.
        facades.sort_by_key(|path| Reverse(path.metadata().unwrap().modified().unwrap()));
        let home = tempfile::tempdir().unwrap();
        let probe = home.path().join("probe.rs");
        fs::write(&probe, "pub use ptx_gemm::testing::assert_correct;").unwrap();
        let of = |facade| Builder::Rustc { libraries: libraries.into(), facade };
        let mut builders = facades.into_iter().map(of);
        let has_testing = |builder: &Builder| builder.rustc(&probe, home.path(), &["--crate-type=rlib"]).0;
        builders.find(has_testing).expect("this test was built with the facade's feature `testing`")
    }

    fn rustc(&self, source: &Path, folder: &Path, args: &[&str]) -> (bool, String) {
        let Builder::Rustc { libraries, facade } = self else { panic!("cargo calls rustc") };
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "--color=never"]).args(args).arg(source);
        rustc.arg(format!("--extern=ptx_gemm={}", facade.display()));
        rustc.arg(format!("-Ldependency={}", libraries.display())).arg("--out-dir").arg(folder.join("out"));
        rustc.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("CARGO_PKG_NAME", "my-kernels");
        said(&mut rustc)
    }

    fn does(&self, step: Step, folder: &Path) -> (bool, String) {
        if let Builder::Cargo = self {
            return match step {
                Step::Build => cargo(folder, &["build", "--offline"]),
                Step::Run => cargo(folder, &["run", "--offline"]),
                Step::Test => cargo(folder, &["test", "--offline", "--no-fail-fast"]),
            };
        }
        // The manifest's dependencies and their features exist.
        let (known, text) = cargo(folder, &["tree", "--offline", "--depth", "1"]);
        assert!(known, "{text}");
        let own = format!("--extern=my_kernels={}", folder.join("out/libmy_kernels.rlib").display());
        let library = self.rustc(Path::new("src/lib.rs"), folder, &["--crate-type=rlib", "--crate-name=my_kernels"]);
        let (program, args) = match step {
            Step::Build => return library,
            Step::Run => ("src/main.rs", vec![own.as_str()]),
            Step::Test => ("tests/kernels.rs", vec![own.as_str(), "--test"]),
        };
        assert!(library.0, "{}", library.1);
        let (built, text) = self.rustc(Path::new(program), folder, &args);
        assert!(built, "{text}");
        let name = Path::new(program).file_stem().unwrap();
        said(Command::new(folder.join("out").join(name)).current_dir(folder).env("CARGO_MANIFEST_DIR", folder))
    }
}

#[test]
fn the_crate_works_and_its_tests_see_changes() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("my-kernels");
    // As in the README: without arguments, it finds the checkout that gemmc was built from, and copies its Cargo.lock.
    let made = gemmc(&folder, &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    let own = fs::canonicalize(checkout()).unwrap();
    assert!(
        said.contains(&format!("the checkout of ptx-gemm in {}", own.display())) && said.contains("cargo run"),
        "{said}"
    );
    let builder = Builder::of_this_run();
    let (passed, text) = builder.does(Step::Test, &folder);
    assert!(passed && text.contains("4 passed"), "{text}");
    let (ran, text) = builder.does(Step::Run, &folder);
    assert!(ran && text.contains("Matrix<f32>(100 x 70, row major)"), "{text}");

    // Another schedule: other instructions, and more loads for each multiply-add.
    let library = folder.join("src/lib.rs");
    let source = fs::read_to_string(&library).unwrap();
    let changed = source.replace("loads_per_fma <= 0.6; ", "").replace("vector(4)", "vector(2)");
    fs::write(&library, changed.replace("relu(acc)", "2 * acc")).unwrap();
    let tests = folder.join("tests/kernels.rs");
    let kernels = fs::read_to_string(&tests).unwrap();
    fs::write(&tests, kernels.replace("bank_conflicts <= 4", "loads_per_fma <= 0.1")).unwrap();
    let (passed, text) = builder.does(Step::Test, &folder);
    assert!(!passed && text.contains("2 passed; 2 failed"), "{text}");
    assert!(text.contains("the_ptx_is_as_it_was") && text.contains("loads_per_fma <= 0.1 is broken"), "{text}");

    // A schedule in a file is checked like the macro's text, and the crate is rebuilt when the file changes.
    let body = source.find("gemm! {").unwrap();
    let from_file = format!("{}gemm!(file \"kernel.gemm\")\n}}\n", &source[..body]);
    fs::write(&library, from_file).unwrap();
    let file = folder.join("src/kernel.gemm");
    fs::write(&file, "tile(64, 64, 8);\nthread(4, 4);\n").unwrap();
    let (built, text) = builder.does(Step::Build, &folder);
    assert!(built, "{text}");
    fs::write(&file, "tile(64, 64, 8);\nthread(5, 4);\n").unwrap();
    let (built, text) = builder.does(Step::Build, &folder);
    assert!(!built && text.contains("thread(5, 4) does not divide") && text.contains("src/kernel.gemm:2:1"), "{text}");

    // A schedule that breaks its own contract does not build.
    fs::write(&library, source.replace("loads_per_fma <= 0.6", "loads_per_fma <= 0.1")).unwrap();
    let (built, text) = builder.does(Step::Build, &folder);
    assert!(!built && text.contains("expect loads_per_fma <= 0.1 is broken"), "{text}");
}

/// A crate inside a workspace that does not have it as a member is one of its own, or cargo would refuse it.
#[test]
fn a_crate_in_another_project_is_its_own_workspace() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("Cargo.toml"), "[workspace]\nmembers = []\n").unwrap();
    let folder = home.path().join("inside");
    let made = gemmc(&folder, &["--path", checkout().to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (known, text) = cargo(&folder, &["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    assert!(known && text.contains("\"name\":\"inside\""), "{text}");
}

#[test]
fn it_depends_on_the_release_if_asked_to() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("kernels");
    let made = gemmc(&folder, &["--registry", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((made.status.code(), &answer["ok"], &answer["name"]), (Some(0), &true.into(), &"kernels".into()));
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let mut parts = env!("CARGO_PKG_VERSION").split('.');
    let release = format!("{}.{}", parts.next().unwrap(), parts.next().unwrap());
    assert!(manifest.contains(&format!("\n[dependencies]\nptx-gemm = {{ version = \"{release}\" }}\n")), "{manifest}");
    assert!(manifest.contains("[profile.dev.package.\"*\"]\nopt-level = 2"), "{manifest}");
    for file in answer["files"].as_array().unwrap() {
        let text = fs::read_to_string(folder.join(file.as_str().unwrap())).unwrap();
        assert!(!text.contains("{{"), "{file}: {text}");
    }
    // Existing files are not overwritten.
    let again = gemmc(&folder, &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is there already"));
}

#[test]
fn names_and_checkouts_that_cannot_be_are_refused() {
    let home = tempfile::tempdir().unwrap();
    for (name, said) in [("3d", "not a name"), ("a b", "not a name"), ("match", "is taken"), ("ptx-gemm", "is taken")] {
        let refused = gemmc(&home.path().join(name), &[]);
        assert_eq!(refused.status.code(), Some(1), "{name}");
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(words.contains(said), "{name}: {words}");
        assert!(!home.path().join(name).exists());
    }
    let refused = gemmc(&home.path().join("kernels"), &["--path", home.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not a checkout of ptx-gemm"));
}
