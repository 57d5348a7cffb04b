//! The contract of the command line: exit status, where output goes, and what JSON holds.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The output and status of a call of `gemmc`.
pub(crate) struct Called {
    args: Vec<String>,
    status: i32,
    pub(crate) stdout: String,
    stderr: String,
}

pub(crate) fn gemmc(args: &[&str]) -> Called {
    gemmc_with(args, "")
}

fn gemmc_with(args: &[&str], stdin: &str) -> Called {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gemmc starts");
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("gemmc ends");
    Called {
        args: args.iter().map(ToString::to_string).collect(),
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// The message names only the user's arguments: quadrants have leading dimensions of their own.
#[test]
fn a_product_by_quadrants_says_how_many_launches_it_is() {
    let clauses = "tile(16, 16, 8); thread(2, 2); strassen(levels = 1); epilogue(|acc, c| acc + c);";
    let run = |size: &str, more: &[&str]| {
        let sizes = ["-m", size, "-n", size, "-k", size];
        gemmc(&[&["run", "--device", "interp", "-e", clauses], &sizes[..], more].concat()).exits(0)
    };
    let odd = run("67", &[]).stdout;
    for words in [
        "by 13 products, the last one in ",
        "\nlaunches   28, with a workspace of ",
        " of 28 launches do not run their first entry: quadrants, or sums of them, are not aligned for it",
    ] {
        assert!(odd.contains(words), "{words}: {odd}");
    }
    assert!(!odd.contains("ldc"), "{odd}");
    let json = run("64", &["--json"]).json();
    assert_eq!((&json["products"], &json["notes"]), (&7.into(), &Vec::<Value>::new().into()));
    assert!(json["launches"].as_u64() > Some(7) && json["workspace_bytes"].as_u64() > Some(0), "{json}");
    let plan = gemmc(&["plan", "-e", clauses]).exits(0).stdout;
    assert!(plan.contains("\nfor example, launches of 16384 x 16384 x 16384, with a workspace"), "{plan}");
    let one = gemmc(&["run", "naive", "--device", "interp", "-m", "8", "-n", "8", "-k", "8"]).exits(0).stdout;
    assert!(!one.contains("launches"), "{one}");
}

#[test]
fn negative_numbers_are_values() {
    let run = ["run", "naive", "-n", "1", "-k", "1", "-m", "-1"];
    gemmc(&run).exits(1).says("invalid value '-1' for '-m <M>': a whole number from 0 to");
    gemmc(&["ablate", "naive", "--wait", "-3"]).exits(1).says("invalid value '-3' for '--wait <SECONDS>'");
    gemmc(&["profile", "naive", "-k", "-8"]).exits(1).says("invalid value '-8' for '-k <K>': a whole number");
    gemmc(&["run", "naive", "-m", "2", "-n", "2", "-k", "2", "--alpha", "-1.5"]).exits(0).says("right");
}

/// $PTXAS may name several; the first that runs is used.
#[cfg(unix)]
#[test]
fn the_doctor_finds_the_assembler_that_is_used() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("gemmc-cli-ptxas-{}", std::process::id()));
    std::fs::write(&path, "#!/bin/sh\necho 'Cuda compilation tools, release 13.7, V13.7.1'\n").expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a script that runs");
    let list = std::env::join_paths([&std::path::PathBuf::from("/nowhere/ptxas"), &path]).expect("paths");
    let output =
        Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("doctor").env("PTXAS", list).output().expect("it starts");
    std::fs::remove_file(path).expect("the script is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ptxas        13.7.1 ("), "{text}");
}

#[test]
fn ptx_is_not_taken_for_a_schedule() {
    let path = std::env::temp_dir().join(format!("gemmc-cli-{}.ptx", std::process::id()));
    let name = path.to_str().expect("a path");
    std::fs::write(&path, "tile(8, 8, 8);").expect("a file");
    gemmc(&["check", name]).exits(1).says(":1:1: expected `.version`");
    gemmc(&["check", "--fix", name]).exits(1).says("--fix is for schedules");
    for command in ["profile", "ablate", "plan"] {
        gemmc(&[command, name]).exits(1).says("is PTX, and a schedule is wanted: `gemmc diff` compares PTX");
    }
    gemmc(&["diff", name, "naive"]).exits(1).says("is not PTX: it has no .version");
    std::fs::remove_file(path).expect("the file is there");
}

#[test]
fn differences_have_colours_where_they_are_asked_for() {
    let diff = ["diff", "naive", "two_per_thread", "--level", "clauses", "--color"];
    gemmc(&[&diff[..], &["always"]].concat()).exits(0).says("\u{1b}[31m- tile(32, 32);\u{1b}[0m");
    let plain = gemmc(&[&diff[..], &["auto"]].concat()).exits(0).says("- tile(32, 32);");
    assert!(!plain.stdout.contains('\u{1b}'), "{}", plain.stdout);
}

impl Called {
    #[track_caller]
    pub(crate) fn exits(self, status: i32) -> Called {
        assert_eq!(self.status, status, "{:?}\nstdout: {}\nstderr: {}", self.args, self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{:?}\n{}", self.args, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Called {
        let found = self.stdout.contains(words) || self.stderr.contains(words);
        assert!(found, "{:?} does not say `{words}`\nstdout: {}\nstderr: {}", self.args, self.stdout, self.stderr);
        self
    }

    /// Standard output as one JSON object and nothing else.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("{:?}: {error}\nstdout: {}\nstderr: {}", self.args, self.stdout, self.stderr)
        });
        assert!(value.is_object(), "{:?}: {value}", self.args);
        value
    }
}

const SMALL: &str = "tile(32, 32, 8); thread(4, 4); vector(4)";

/// Calls that the user got wrong: status 1 and an error in both formats.
#[track_caller]
fn refused(args: &[&str], clause: &str, words: &str) {
    let text = gemmc(args).exits(1);
    assert!(text.stdout.is_empty(), "{args:?} printed {}", text.stdout);
    assert!(text.stderr.contains(words), "{args:?} does not say `{words}` but\n{}", text.stderr);

    let json = gemmc(&[args, &["--json"]].concat()).exits(1).json();
    let errors = json["errors"].as_array().unwrap_or_else(|| panic!("{args:?}: {json}"));
    assert_eq!((json.as_object().map(|object| object.len()), &json["ok"]), (Some(2), &false.into()), "{json}");
    let found = errors.iter().any(|error| {
        let keys: Vec<&str> = error.as_object().map(|e| e.keys().map(String::as_str).collect()).unwrap_or_default();
        assert_eq!(keys, ["clause", "rule", "severity", "kind", "message", "help", "fix", "span"], "{args:?}");
        assert_eq!(error["severity"], "error", "{args:?}");
        let all = format!("{} {}", error["message"].as_str().unwrap_or(""), error["help"].as_str().unwrap_or(""));
        error["clause"] == clause && all.contains(words)
    });
    assert!(found, "{args:?}: no error about `{clause}` that says `{words}` in {json}");
}

#[test]
fn wrong_schedules_are_refused_with_every_error() {
    refused(&["check", "-e", "tile(32, 32, 8); stage(3)"], "stage", "did you mean `stages`?");
    refused(&["plan", "-e", "tile(256, 128, 8); thread(4, 4)"], "tile", "at most 1024");
    refused(
        &["ptx", "-e", "tile(64, 64, 8); thread(4, 4); types(f64); epilogue(|acc| tanh(acc))"],
        "epilogue",
        "not implemented yet",
    );
    refused(&["check", "-e", &"tile(1, 1, 1); ".repeat(6000)], "schedule", "longer than 65536 bytes");
    refused(&["check", "-e", &"(".repeat(3000)], "schedule", "deep");
    refused(&["ir", "naive", "--level", "tile", "--target", "sm_12"], "usage", "sm_90a");
    let errors = gemmc(&["check", "--json", "-e", "tile(32, 32, 8); thread(3, 3); stage(2)"]).exits(1).json();
    assert!(errors["errors"].as_array().is_some_and(|errors| errors.len() >= 2), "{errors}");
}

#[test]
fn wrong_usage_is_refused() {
    refused(&["run", "naive", "-m", "3", "-n", "3"], "usage", "-k <K>");
    refused(&["run", "naive", "-m", "-3", "-n", "3", "-k", "3"], "usage", "-3");
    refused(&["run", "naive", "-m", "99999999999999999999", "-n", "3", "-k", "3"], "usage", "99999999999999999999");
    refused(&["run", "naive", "-m", "3", "-n", "3", "-k", "3", "--device", "tpu"], "usage", "cuda:N");
    refused(&["run", "naive", "-m", "3", "-n", "3", "-k", "3", "--set", "alpha"], "usage", "NAME=X");
    refused(&["run", "naive", "-m", "3", "-n", "3", "-k", "3", "--alpha", "much"], "usage", "much");
    refused(&["frobnicate"], "usage", "frobnicate");
    refused(&["check"], "usage", "SOURCE");
    refused(&["check", "naive", "-e", SMALL], "usage", "cannot be used with");
    refused(&["check", "no_such_case"], "file", "neither a file nor a case");
    refused(&["check", "/no/such/file.gemm"], "file", "/no/such/file.gemm");
    refused(&["check", "."], "file", ".");
    refused(&["--frobnicate"], "usage", "Usage");
    refused(&["check", "double_bufered"], "file", "did you mean `double_buffered`?");
    refused(&["first-launch", "naiv"], "file", "did you mean `naive`?");
    refused(&["check", "tile(32, 32, 8); thread(4, 4); epilogue(|acc| 0.5 * acc / 2);"], "file", "use -e");
    refused(&["ladder", "--plot", "a.png"], "usage", "write a.svg");
    refused(&["bench", "--size", "64", "--plot", "picture"], "usage", "write picture.svg");
}

/// Numbers are not texts, and names are not those of the compiler's own types.
#[test]
fn json_has_numbers_and_words_of_the_language() {
    fn texts(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::String(text) => all.push(text.clone()),
            Value::Array(list) => list.iter().for_each(|value| texts(value, all)),
            Value::Object(object) => object.values().for_each(|value| texts(value, all)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let wide =
        "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma); stages(3); expect { occupancy >= 5 % }";
    let sweep = "tile({32, 64}, 64, 8); thread({4, 7}, 4)";
    let calls: [&[&str]; 6] = [
        &["plan", "-e", SMALL],
        &["plan", "-e", wide],
        &["check", "-e", wide],
        &["explain", "stages"],
        &["sweep", "-e", sweep, "-m", "256", "-n", "256", "-k", "256"],
        &["run", "-e", SMALL, "-m", "8", "-n", "8", "-k", "8"],
    ];
    for args in calls {
        let mut all = Vec::new();
        texts(&gemmc(&[args, &["--json"]].concat()).exits(0).json(), &mut all);
        let numbers: Vec<&String> = all.iter().filter(|text| text.parse::<f64>().is_ok()).collect();
        assert!(numbers.is_empty() && !all.is_empty(), "{args:?}: {numbers:?}");
        let variants: Vec<&String> = all
            .iter()
            .filter(|text| ["Fma", "Mma", "Wgmma", "Some", "None"].iter().any(|word| text.contains(word)))
            .collect();
        assert!(variants.is_empty(), "{args:?}: {variants:?}");
    }
}

/// A fix in JSON leads to a legal schedule when applied, and comes with the kind of its diagnostic.
#[test]
fn diagnostics_in_json_are_whole() {
    let errors = |clauses: &str| gemmc(&["check", "-e", clauses, "--json"]).exits(1).json()["errors"].clone();
    let set = &errors("tile(128, 128, 8); thread(8, 9)")[0];
    assert_eq!((&set["rule"], &set["kind"]), (&"divide".into(), &"illegal".into()), "{set}");
    let clause = set["fix"]["set"].as_str().expect("a clause");
    gemmc(&["check", "-e", &format!("tile(128, 128, 8); {clause}")]).exits(0);
    let text = "tile(128, 0b1000000, 8); thread(8, 8)";
    let spell = &errors(text)[0];
    let at = |name: &str| spell["span"][name].as_u64().expect("a place") as usize;
    let mut repaired = text.to_string();
    repaired.replace_range(at("start")..at("end"), spell["fix"]["spell"].as_str().expect("a spelling"));
    gemmc(&["check", "-e", &repaired]).exits(0);
    let remove = &errors("types(f64); tile(64, 64, 8); thread(4, 4); epilogue(|acc| tanh(acc))")[0];
    assert_eq!((&remove["fix"]["remove"], &remove["kind"]), (&"epilogue".into(), &"not_implemented".into()));
    let note = gemmc(&["check", "-e", &format!("{SMALL}; epilogue(|acc, x| acc)"), "--json"]).exits(0).json();
    let note = &note["notes"][0];
    assert_eq!((&note["severity"], &note["rule"]), (&"note".into(), &"epilogue-unused".into()), "{note}");
}

/// Every answer in JSON says whether all is well.
#[test]
fn every_object_has_ok() {
    let of_a_program = ["check", "plan", "ptx"].map(|command| vec![command, "naive"]);
    let others = [vec!["ir", "naive", "--level", "tile"], vec!["cases"], vec!["doctor"]];
    for args in of_a_program.into_iter().chain(others) {
        assert_eq!(gemmc(&[&args[..], &["--json"]].concat()).exits(0).json()["ok"], true, "{args:?}");
    }
}

/// A text that is too long is rejected for its length, without stating the length, since it was not read to the end.
#[test]
fn a_long_file_is_longer_than_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("long.gemm");
    std::fs::write(&file, "x".repeat(10 << 20)).expect("a file");
    let called = gemmc(&["check", &file.to_string_lossy()]).exits(1).says("longer than 65536 bytes");
    assert!(!called.stderr.contains("65537"), "{}", called.stderr);
}

/// Without a GPU, errors in a schedule come first, and commands that need a GPU say so.
#[test]
fn a_missing_gpu_is_named_last() {
    refused(&["bench", "-e", "tile(0)", "--suite", "square"], "tile", "tile needs n");
    refused(&["bench", "-e", "tile(32, 32, 8); thread(5, 4)", "--size", "64"], "thread", "does not divide");
    refused(&["bench", "--schedules", "double_bufered", "--size", "64"], "file", "did you mean `double_buffered`?");
    refused(&["bench", "-e", SMALL], "usage", "nothing to measure");
    let only = |text: &'static str| ["selftest", "--device", "interp", "--only", text];
    refused(&only("launch"), "usage", "`10,000 launches`, `first launch under 20 ms` can be tested on a GPU only");
    refused(
        &[&only("netlib")[..], &["--quick"]].concat(),
        "usage",
        "--quick leaves `netlib sgemm`, `netlib bf16`, `netlib f16`, `netlib tf32`, `netlib i8` out",
    );
}

/// Writing to a full device fails, so the answer was not delivered.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let run = ["run", "naive", "-m", "4", "-n", "4", "-k", "4", "--device", "interp"];
    for args in [&["ptx", "naive"][..], &["check", "naive"], &["cases"], &run, &["--help"], &[]] {
        for json in [&[][..], &["--json"]] {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
            let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
            let output = command.args(args).args(json).stdout(full).output().expect("gemmc starts");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{args:?} {json:?}: {stderr}");
            assert!(stderr.contains("standard output"), "{args:?} {json:?}: {stderr}");
        }
    }
}

#[test]
fn gemmc_by_itself_prints_help() {
    let called = gemmc(&[]).exits(0).says("Usage: gemmc [OPTIONS] <COMMAND>");
    assert!(called.stderr.is_empty(), "{}", called.stderr);
}

/// Where TMA cannot address an operand of a product, a kernel packs it; other instructions take it as it is.
#[test]
fn a_group_takes_products_of_any_alignment() {
    let run = |clauses: &str| {
        let clauses = format!("types(bf16); batch(grouped); {clauses}");
        let sizes = ["--device", "interp", "-m", "33", "-n", "35", "-k", "37", "--group", "8x8x8"];
        gemmc(&[&["run", "-e", &clauses], &sizes[..]].concat()).exits(0).says("right");
    };
    run("tile(128, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); specialize(producers = 1);");
    run("tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16));");
}

#[test]
fn wrong_arguments_of_a_run_are_refused() {
    let run = |more: &[&'static str]| [&["run", "naive", "-m", "4", "-n", "5", "-k", "6"][..], more].concat();
    refused(&run(&["--lda", "5"]), "argument", "lda is at least 6");
    refused(&run(&["--ldb", "4"]), "argument", "ldb is at least 5");
    refused(&run(&["--ldd", "0"]), "argument", "ldd is at least 5");
    refused(&run(&["--set", "gamma=1"]), "argument", "no scalar `gamma`");
    refused(&run(&["--alpha", "0.5", "--exact"]), "argument", "integer scalars");
    refused(&run(&["--alpha", "1e300"]), "argument", "not a value of type f32");
    refused(&run(&["--device", "cuda:99"]), "device", "CUDA");
    refused(&["run", "-e", SMALL, "-m", "4", "-n", "4", "-k", "4", "--alpha", "2"], "argument", "no scalar `alpha`");
    refused(&["run", "naive", "-m", "4000000", "-n", "4000000", "-k", "1"], "argument", "MiB are available");
    refused(&["run", "naive", "-m", "0", "-n", "4294967295", "-k", "0"], "usage", "from 0 to 4294901760");
    let deep = ["run", "-e", "tile(1, 1); thread(1, 1); shared(none)", "-m", "1", "-n", "1", "-k", "700000", "--exact"];
    refused(&deep, "argument", "K is at most 167772");
}

/// Arguments that would be ignored are not accepted.
#[test]
fn arguments_that_do_nothing_are_refused() {
    let clauses = "tile(8, 8, 4); thread(2, 2); epilogue(|acc, alpha| alpha * acc);";
    let run = ["run", "-e", clauses, "-m", "2", "-n", "2", "-k", "2"];
    let with = |more: &[&str]| gemmc(&[&run, more].concat());
    with(&["--alpha", "2", "--set", "alpha=3"]).exits(1).says("`alpha` is set twice, to 2 and to 3");
    with(&["--set", "alpha=3", "--set", "alpha=3"]).exits(1).says("`alpha` is set twice");
    with(&["--ldc", "7"]).exits(1).says("--ldc is about C, which the epilogue does not read");
    with(&["--in-place"]).exits(1).says("--in-place is about C, which the epilogue does not read");
    let two = "types(f16, c = f32); tile(32, 32, 8); thread(2, 2); epilogue(|acc, c| acc + c);";
    gemmc(&["run", "-e", two, "--device", "interp", "-m", "8", "-n", "8", "-k", "8", "--in-place"])
        .exits(1)
        .says("the schedule has c = f32 row, d = f16 row");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let (ptx, launch) = (format!("{root}/examples/ptx/mma_gemm.ptx"), format!("{root}/examples/ptx/mma_gemm.json"));
    gemmc(&["exec", &ptx, "--launch", &launch, "--opt", "3"]).exits(1).says("--opt is for the driver's assembler");
    gemmc(&["second-opinion", &format!("{root}/gemmc/src")]).exits(1).says("no launch file NAME.json");
    let grouped = ["large", "plan", "grouped", "-m", "64", "-n", "64", "-k", "64", "--devices", "2"];
    gemmc(&grouped).exits(1).says("batch computes many products in one launch, a large product is one");
}

#[test]
fn runs_are_right_and_say_what_ran() {
    for (more, entry) in [
        (vec![], "gemm_v4"),
        (vec!["--lda", "41"], "gemm_v1"),
        (vec!["--misalign", "1"], "gemm_v1"),
        (vec!["--exact", "--seed", "9"], "gemm_v4"),
        (vec!["--device", "interp", "--target", "sm_90"], "gemm_v4"),
    ] {
        let args = [vec!["run", "-e", SMALL, "-m", "36", "-n", "44", "-k", "40", "--json"], more].concat();
        let json = gemmc(&args).exits(0).json();
        assert_eq!(json["ok"], true, "{json}");
        assert_eq!(json["entry"], entry, "{json}");
        assert_eq!((&json["m"], &json["n"], &json["k"]), (&36.into(), &44.into(), &40.into()));
        assert_eq!(json["bound"], 1);
        let max_error = json["max_error"].as_f64().expect("a number");
        let exact = args.contains(&"--exact");
        assert!(if exact { max_error == 0.0 } else { max_error > 0.0 && max_error <= 1.0 }, "{json}");
        assert!(json["time_ms"].as_f64().is_some_and(|time| time > 0.0), "{json}");
        assert!(json["device"].is_string());
    }
}

#[test]
fn every_size_from_0_up_runs() {
    for (m, n, k) in
        [("0", "5", "5"), ("5", "0", "5"), ("5", "5", "0"), ("0", "0", "0"), ("1", "1", "1"), ("37", "3", "129")]
    {
        let json = gemmc(&["run", "-e", SMALL, "-m", m, "-n", n, "-k", k, "--json"]).exits(0).json();
        assert_eq!(json["ok"], true, "{json}");
        assert_eq!(json["entry"].is_null(), m == "0" || n == "0", "{json}");
    }
}

/// Arguments that contradict each other, or would be ignored.
#[test]
fn arguments_that_would_be_ignored_are_refused() {
    let run =
        ["run", "-e", "tile(16, 16, 8); thread(2, 2); epilogue(|acc, c| acc + c)", "-m", "9", "-n", "9", "-k", "3"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    refused(&with(&["--in-place", "--ldc", "80", "--ldd", "99"]), "argument", "cannot have --ldc 80 and --ldd 99");
    gemmc(&with(&["--in-place", "--ldc", "80", "--ldd", "80"])).exits(0).says("right");
    // Either name is that of the one matrix.
    refused(&with(&["--in-place", "--ldc", "8"]), "argument", "ldd = 8");
    refused(&with(&["--misalign", "1", "--device", "cuda:0"]), "usage", "--misalign is for the interpreter");
    refused(&["ladder", "--target", "sm_80", "--sizes", "64"], "usage", "cannot be used with");
    refused(&["ladder", "--gpu", "h200", "--table", "x.json"], "usage", "cannot be used with");
    refused(&["profile", "naive", "-m", "18446744073709551615"], "usage", "from 1 to 4294901760");
    for before in [&["sweep", "naive"][..], &["bench"], &["fuzz"]] {
        let args = [before, &["--seconds", "18446744073709551615"]].concat();
        refused(&args, "usage", "seconds from 0 to 31536000");
    }
    refused(&["ablate", "naive", "--wait", "1e19"], "usage", "seconds from 0 to 31536000");
    refused(
        &["large", "plan", "-m", "9", "-n", "9", "-k", "9", "--depth", "18446744073709551615"],
        "usage",
        "4294901760",
    );
    refused(&["run", "naive", "-m", "4294901761", "-n", "1", "-k", "0"], "usage", "from 0 to 4294901760");
    refused(&["check", "-e", "tile(4294967296, 64, 8); thread(2, 2)"], "tile", "at most 32768");
    let deep = format!("tile(64, 64, 8); thread(4, 4); epilogue(|acc| {}acc{})", "gelu(".repeat(60), ")".repeat(60));
    refused(&["ptx", "-e", &deep], "epilogue", "19200 in all, at most 16384");
}

#[test]
fn scalars_reach_the_epilogue() {
    let run = ["run", "naive", "-m", "7", "-n", "9", "-k", "11", "--exact"];
    for more in
        [&["--alpha", "-2", "--beta", "3"][..], &["--set", "alpha=-1"], &["--beta=-4", "--in-place"], &["--alpha", "0"]]
    {
        gemmc(&[&run[..], more].concat()).exits(0).says("right");
    }
}

#[test]
fn a_schedule_comes_from_four_places() {
    gemmc(&["check", "double_buffered"]).exits(0).says("legal");
    gemmc(&["check", "-e", SMALL]).exits(0).says("legal");
    gemmc_with(&["check", "-"], SMALL).exits(0).says("legal");
    gemmc_with(&["check", "-"], "tile(32, 32, 8); thread(5, 5)").exits(1).says("stdin:1:18");
    let file = std::env::temp_dir().join(format!("gemmc-cli-{}.gemm", std::process::id()));
    std::fs::write(&file, format!("// a comment\n{SMALL};\n")).expect("a file");
    gemmc(&["check", &file.to_string_lossy()]).exits(0).says("legal");
    std::fs::write(&file, [0xff, 0xfe]).expect("a file");
    gemmc(&["check", &file.to_string_lossy()]).exits(1).says("UTF-8");
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn a_tile_file_is_known_by_its_name() {
    refused(&["check", "/no/such/file.tile"], "file", "/no/such/file.tile");
    let file = std::env::temp_dir().join(format!("gemmc-cli-{}.tile", std::process::id()));
    let name = file.to_string_lossy();
    std::fs::write(&file, [0xff, 0xfe]).expect("a file");
    refused(&["run", &name, "-m", "1", "-n", "1", "-k", "1"], "file", "UTF-8");
    std::fs::write(&file, " ".repeat((1 << 20) + 1)).expect("a file");
    refused(&["ptx", &name], "file", "at most 1048576 bytes");
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn levels_and_listings_are_printed() {
    gemmc(&["plan", "double_buffered"]).exits(0).says("256");
    let plan = gemmc(&["plan", "double_buffered", "--json"]).exits(0).json();
    assert_eq!(plan["geometry"]["threads"], 256);
    for level in ["tile", "kernel", "ptx"] {
        let text = gemmc(&["ir", "double_buffered", "--level", level]).exits(0).stdout;
        let json = gemmc(&["ir", "double_buffered", "--level", level, "--json"]).exits(0).json();
        assert_eq!(json["text"], text.as_str());
        assert!(text.contains("double_buffer"), "{level} names no clause");
    }
    let ptx = gemmc(&["ptx", "double_buffered"]).exits(0).stdout;
    let json = gemmc(&["ptx", "double_buffered", "--json"]).exits(0).json();
    assert_eq!(json["ptx"], ptx.as_str());
    assert_eq!(json["abi"]["entries"][0]["launches"][0]["threads"], 256);
    let cases = gemmc(&["cases", "--json"]).exits(0).json();
    assert!(cases["cases"].as_array().is_some_and(|cases| cases.len() >= 30));
    assert!(gemmc(&["doctor", "--json"]).exits(0).json()["interpreter"].is_object());
    gemmc(&["doctor"]).exits(0).says("interpreter");
}

#[test]
fn the_selftest_passes_on_the_interpreter() {
    // The same products of every case are in the library's own tests, and those of the kinds in the command's.
    let json = gemmc(&["selftest", "--quick", "--only", "lab", "--device", "interp", "--json"]).exits(0).json();
    assert_eq!(json["ok"], true, "{json}");
    let rows = json["rows"].as_array().expect("rows");
    assert!(rows.len() > 2, "{json}");
    assert!(rows.iter().all(|row| row["products"].as_u64().is_some_and(|products| products > 2)), "{json}");
}

/// The process that the selftest starts to time a first launch succeeds, and prints the times that the selftest
/// parses.
#[test]
fn a_first_launch_is_timed() {
    for case in ["double_buffered", "nn_128x128", "lab3"] {
        let json = gemmc(&["first-launch", case, "--device", "interp", "--json"]).exits(0).json();
        assert_eq!(json["ok"], true, "{json}");
        let times = ["compile_ms", "load_ms", "run_ms"].map(|name| json[name].as_f64().expect("a number"));
        let total = json["total_ms"].as_f64().expect("a number");
        assert!(times.iter().all(|&time| time > 0.0) && (times.iter().sum::<f64>() - total).abs() < 1e-6, "{json}");
    }
    refused(&["first-launch", "no_such_case"], "file", "neither a file nor a case");
    refused(&["stray-pointer", "--device", "interp"], "device", "no streams");
    refused(&["selftest", "--sanitize", "--device", "interp"], "device", "watches itself");
    refused(&["selftest", "--device", "interp", "--only", "no such thing"], "usage", "nothing is called");
    let help = gemmc(&["--help"]).exits(0).stdout;
    assert!(!help.contains("first-launch") && !help.contains("stray-pointer"), "{help}");
}

#[test]
fn help_and_version_are_fine() {
    gemmc(&["--version"]).exits(0).says("gemmc 0.");
    gemmc(&["--help"]).exits(0).says("run");
    gemmc(&["run", "--help"]).exits(0).says("--lda");
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let garbage = OsStr::from_bytes(&[0xff, 0xfe]);
    for before in [&["check"][..], &["check", "-e"], &["run", "naive", "-m"], &[]] {
        let output = Command::new(env!("CARGO_BIN_EXE_gemmc")).args(before).arg(garbage).output().expect("gemmc runs");
        assert_eq!(output.status.code(), Some(1), "{before:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_reader_may_leave_early() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(["ptx", "direct_64x64"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gemmc starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("gemmc ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A few pairs, the same for the same seed, and a file with the findings.
#[test]
fn fuzz_draws_and_says_what_it_drew() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fuzz.json");
    let path = file.to_string_lossy();
    let called = gemmc(&["fuzz", "--seed", "3", "--count", "12", "--out", &path, "--json"]).exits(0).json();
    assert_eq!((&called["ok"], &called["first_seed"]), (&Value::from(true), &Value::from(3)), "{called}");
    assert!(called["pairs"].as_u64() >= Some(12) && called["failures"] == Value::Array(Vec::new()), "{called}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("JSON");
    assert_eq!(written, called);
    let again = gemmc(&["fuzz", "--seed", "3", "--count", "12", "--json"]).exits(0).json();
    assert_eq!((&again["pairs"], &again["last_seed"]), (&called["pairs"], &called["last_seed"]));
    gemmc(&["fuzz", "--seconds", "0"]).exits(3).says("NOT COMPARED: no draw led to a product");
    // Products without elements do not count as right.
    assert!(called["empty"].as_u64() > Some(0), "{called}");
    let with = gemmc(&["fuzz", "--count", "3", "--with", "emulate", "--json"]).exits(0).json();
    let (draws, seeds) = (with["draws"].as_u64(), with["last_seed"].as_u64());
    assert!(draws < seeds && with["command"].as_str().is_some_and(|text| text.contains("--with emulate")), "{with}");
    refused(&["fuzz", "--with", "emul"], "usage", "3000 random schedules in a row lack `emul`");
    refused(&["fuzz", "--count", "1", "--seconds", "1"], "usage", "cannot be used with");
}
