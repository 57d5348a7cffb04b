//! The commands that read, explain, repair and print schedules: explain, check --fix, fmt, ptx; and the conventions of
//! the command line: several files, --gpu, help.

use std::path::PathBuf;
use std::process::{Command, Output};

use ptx_gemm_dsl::table::ALL;
use serde_json::Value;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
    command.args(args).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("TERM", "xterm");
    command
}

#[track_caller]
fn gemmc(args: &[&str], status: i32) -> (String, String) {
    output(command(args).output().expect("gemmc starts"), status)
}

#[track_caller]
fn output(output: Output, status: i32) -> (String, String) {
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert_eq!(output.status.code(), Some(status), "stdout: {out}\nstderr: {err}");
    (out, err)
}

#[track_caller]
fn json(args: &[&str], status: i32) -> Value {
    let (out, _) = gemmc(&[args, &["--json"]].concat(), status);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// A file with this text, in a folder that is removed when the value is dropped.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).expect("the file")
}

#[test]
fn explain_lists_all_and_says_all_of_one() {
    let (list, _) = gemmc(&["explain"], 0);
    assert!(ALL.iter().all(|info| list.contains(info.name)), "{list}");
    let (stages, _) = gemmc(&["explain", "stages"], 0);
    for words in ["stages(n)", "1 to 64", "Default: `stages(1)`", "State: implemented", "cp.async", "without"] {
        assert!(stages.contains(words), "no `{words}` in\n{stages}");
    }
    let (specialize, _) = gemmc(&["explain", "specialize"], 0);
    assert!(specialize.contains("pingpong") && !specialize.contains("not implemented"), "{specialize}");
    let (emulate, _) = gemmc(&["explain", "emulate"], 0);
    assert!(emulate.contains("implemented") && emulate.contains("cvt.rn.bf16.f32"), "{emulate}");
    for topic in ["types", "layout", "epilogue", "targets"] {
        gemmc(&["explain", topic], 0);
    }
    let (targets, _) = gemmc(&["explain", "targets"], 0);
    assert!(targets.contains("sm_90a") && targets.contains("227 KiB"), "{targets}");
    let (_, misspelt) = gemmc(&["explain", "tiel"], 1);
    assert!(misspelt.contains("did you mean `tile`?"), "{misspelt}");
}

/// Every clause that is implemented has a computed effect, and no other clause has one.
#[test]
fn explain_computes_what_each_clause_changes() {
    for info in ALL {
        let said = json(&["explain", info.name], 0);
        // `epilogue` and `layout` are topics as well.
        let clause = if said["clause"].is_object() { &said["clause"] } else { &said };
        assert_eq!(clause["syntax"], info.signature, "{said}");
        let lacks = clause["state"] == "not implemented yet";
        assert_eq!(clause["effect"].is_null(), lacks, "{}: {said}", info.name);
    }
    let vector = json(&["explain", "vector"], 0);
    let opcodes = vector["effect"]["opcodes"].as_array().expect("opcodes");
    let wide = opcodes.iter().find(|opcode| opcode[0].as_str().is_some_and(|name| name.contains(".v4")));
    assert!(wide.is_some_and(|opcode| opcode[1][0] == 0 && opcode[1][1].as_u64() > Some(0)), "{vector}");
    assert_eq!(
        json(&["explain", "tail"], 0)["arguments"][0]["words"],
        serde_json::json!(["predicate", "even", "none"])
    );
}

#[test]
fn check_fix_writes_the_file_and_keeps_its_comments() {
    let wrong = "// A start.\ntiel(128, 128, 8);\nthread(8, 7); // registers\nstrem_k;\n";
    let (_folder, path) = file("a.gemm", wrong);
    let name = path.to_str().expect("a path");
    let (out, err) = gemmc(&["check", name, "--fix"], 0);
    assert!(out.contains("legal after 3 fixes") && err.is_empty(), "{out}{err}");
    assert_eq!(read(&path), "// A start.\ntile(128, 128, 8);\nthread(8, 8); // registers\nstream_k;\n");
    let (out, _) = gemmc(&["check", name, "--fix"], 0);
    assert!(out.contains("nothing to fix"), "{out}");
}

#[test]
fn check_fix_prints_clauses_and_says_what_is_left() {
    let (out, err) = gemmc(&["check", "--fix", "-e", "tile(64, 64, 8); thread(4, 4u32); frobnicate(3)"], 1);
    assert_eq!(out, "tile(64, 64, 8); thread(4, 4); frobnicate(3)\n");
    assert!(err.contains("1 error is left after 1 fix") && err.contains("unknown clause `frobnicate`"), "{err}");
    let said = json(&["check", "--fix", "-e", "tile(64, 64, 8); tread(4, 4)"], 0);
    assert_eq!((&said["ok"], &said["text"]), (&true.into(), &"tile(64, 64, 8); thread(4, 4)".into()), "{said}");
    assert_eq!(said["changes"][0]["rule"], "unknown-clause", "{said}");
    // A fix is for the requested target.
    let (out, _) =
        gemmc(&["check", "--fix", "--target", "sm_75", "-e", "tile(64, 64, 8); thread(4, 4); load(cp_async)"], 0);
    assert!(!out.contains("cp_async"), "{out}");
}

/// What only a change of the problem, of a contract or of the target repairs stays as it is, until it is asked for.
#[test]
fn check_fix_keeps_what_is_asked_for() {
    for (clause, subject, told) in [
        ("types(f64);\nepilogue(|acc| gelu(acc));", "what is computed", "epilogue(|acc| gelu(acc)) is left out"),
        ("expect { shared <= 1024 }", "the contracts", "expect { shared <= 1024 } became expect { shared <= 8 KiB }"),
        ("target(sm_91);", "the target", "target(sm_91) became target(sm_90)"),
    ] {
        let wrong = format!("tile(128, 128, 8); // block\nthread(8, 8);\n{clause}\n");
        let (_folder, path) = file("a.gemm", &wrong);
        let name = path.to_str().expect("a path");
        let (out, err) = gemmc(&["check", "--fix", name], 1);
        assert_eq!(read(&path), wrong);
        assert!(
            out.contains("not applied") && out.contains("nothing was changed") && out.contains("--fix=all"),
            "{out}"
        );
        assert!(!out.contains("legal") && err.starts_with("error: "), "{out}{err}");
        let (out, _) = gemmc(&["check", "--fix=all", name], 0);
        assert!(out.contains(&format!("changed {subject}: {told}\n")) && out.contains("legal after 1 fix"), "{out}");
        assert!(read(&path).starts_with("tile(128, 128, 8); // block\nthread(8, 8);\n"));
        gemmc(&["check", name], 0);
    }
    let said = json(&["check", "--fix", "-e", "tile(64, 64, 8); thread(4, 4); types(u8, acc = f32)"], 1);
    assert_eq!(said["withheld"][0]["fix"]["changes"][0]["group"], "problem", "{said}");
    let said = json(&["check", "--fix=all", "-e", "tile(64, 64, 8); thread(4, 4); types(u8, acc = f32)"], 0);
    let replaced = &said["changes"][0]["replaced"][0];
    assert_eq!(
        (&replaced["before"], &replaced["after"]),
        (&"types(u8, acc = f32)".into(), &"types(u8, acc = i32)".into()),
        "{said}"
    );
}

#[test]
fn fmt_writes_the_canonical_form() {
    let (_folder, path) = file("a.gemm", "// A start.\ntile(64,64,8);thread(4,4) // registers\n");
    let name = path.to_str().expect("a path");
    let (out, _) = gemmc(&["fmt", "--check", name], 1);
    assert!(out.contains("is not in its canonical form"), "{out}");
    gemmc(&["fmt", name], 0);
    let canonical = "// A start.\ntile(64, 64, 8);\nthread(4, 4); // registers\n";
    assert_eq!(read(&path), canonical);
    gemmc(&["fmt", "--check", name], 0);
    let (out, _) = gemmc(&["fmt", "-e", "tile(64,64,8);thread(4,4)"], 0);
    assert_eq!(out, "tile(64, 64, 8);\nthread(4, 4);\n");
    let (_, err) = gemmc(&["fmt", "-e", "tile(64,64,8"], 1);
    assert!(err.contains("never closed"), "{err}");
}

/// `gemmc fmt` leaves the project's cases unchanged.
#[test]
fn cases_are_in_their_canonical_form() {
    for case in ptx_gemm_check::cases() {
        assert_eq!(ptx_gemm_dsl::format::format(case.text).expect("it can be read"), case.text, "{}", case.name);
    }
}

const SMALL: &str = "target(sm_80); tile(32, 32, 8); thread(4, 4)";

#[test]
fn ptx_goes_to_a_file_and_without_comments() {
    let (_folder, path) = file("a.ptx", "");
    let (out, _) = gemmc(&["ptx", "-e", SMALL, "-o", path.to_str().expect("a path")], 0);
    let (whole, _) = gemmc(&["ptx", "-e", SMALL], 0);
    assert_eq!((out.as_str(), read(&path)), ("", whole.clone()));
    let (bare, _) = gemmc(&["ptx", "-e", SMALL, "--no-comments"], 0);
    assert!(whole.contains("//@") && !bare.contains("//"), "{bare}");
    let instructions = ptx_gemm_ptx::normal::instructions;
    assert_eq!(instructions(&bare), instructions(&whole));
    let (_, err) = gemmc(&["ptx", "-e", SMALL, "-o", "/nowhere/a.ptx"], 1);
    assert!(err.contains("/nowhere/a.ptx"), "{err}");
}

#[test]
fn a_cubin_needs_ptxas() {
    let (_folder, path) = file("a.cubin", "");
    let args = ["ptx", "-e", SMALL, "--cubin", "-o", path.to_str().expect("a path")];
    let without = command(&args).env("PTXAS", "").env("PATH", "").output().expect("gemmc starts");
    let (_, err) = output(without, 1);
    assert!(err.contains("--cubin needs ptxas, which is neither in $PTXAS nor in the path"), "{err}");
    assert!(err.contains("set PTXAS to that of a CUDA toolkit") && read(&path).is_empty(), "{err}");
    // The same on standard output, and the schedule's own errors come first.
    let bare = ["ptx", "-e", SMALL, "--cubin"];
    let (out, err) =
        output(command(&bare).env("PTXAS", "/no/ptxas").env("PATH", "").output().expect("gemmc starts"), 1);
    assert!(out.is_empty() && err.contains("--cubin needs ptxas"), "{out:?} {err}");
    let wrong = ["ptx", "-e", "tile(0, 1, 1)", "--cubin"];
    let (_, err) = output(command(&wrong).env("PTXAS", "").env("PATH", "").output().expect("gemmc starts"), 1);
    assert!(!err.contains("ptxas") && err.contains("tile"), "{err}");
    if ptx_gemm_check::figures::Assembler::find().is_some() {
        gemmc(&args, 0);
        assert!(std::fs::read(&path).expect("the file").starts_with(b"\x7fELF"));
    }
}

#[test]
fn colors_are_asked_for_or_left_out() {
    let wrong = ["check", "-e", "tiel(1)"];
    let colored = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = command(&[&wrong, args].concat());
        let (_, err) = output(command.envs(variables.iter().copied()).output().expect("gemmc starts"), 1);
        err.contains("\x1b[")
    };
    // Standard error is not a terminal here.
    assert!(!colored(&[], &[]));
    assert!(colored(&["--color", "always"], &[]) && colored(&["--color=always"], &[]));
    assert!(!colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[], &[("NO_COLOR", "1")]) && !colored(&["--color", "auto"], &[("TERM", "dumb")]));
    let (out, _) = gemmc(&["check", "--color", "never", "-e", SMALL], 0);
    assert!(!out.contains('\x1b'), "{out}");
}

#[test]
fn completions_manual_and_help() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, _) = gemmc(&["completions", shell], 0);
        assert!(script.contains("gemmc") && script.contains("explain"), "{shell}");
    }
    let (page, _) = gemmc(&["man"], 0);
    assert!(page.contains(".TH") && page.contains("explain"), "{page}");
    let (page, _) = gemmc(&["man", "ptx"], 0);
    assert!(page.contains("cubin"), "{page}");
    let (_, err) = gemmc(&["man", "nope"], 1);
    assert!(err.contains("`nope` is not a command"), "{err}");
    let folder = tempfile::tempdir().expect("a folder");
    gemmc(&["man", "--folder", folder.path().to_str().expect("a path")], 0);
    assert!(folder.path().join("gemmc-check.1").is_file());
    let (help, _) = gemmc(&["help", "ptx"], 0);
    assert!(help.contains("--no-comments"), "{help}");
    let (help, _) = gemmc(&["help"], 0);
    assert!(help.contains("explain"), "{help}");
}

#[test]
fn cases_say_what_they_show_and_where_they_come_from() {
    let (out, _) = gemmc(&["cases"], 0);
    let all = json(&["cases"], 0);
    for case in all["cases"].as_array().expect("a list") {
        let point = case["point"].as_str().expect("a text");
        assert!(!point.is_empty() && out.contains(point), "{case}");
    }
    for number in 0..5 {
        let inside = format!("eed 00{number}");
        assert!(!out.contains(&inside), "{inside} is a name that only the project knows");
    }
}

#[test]
fn fuzz_fixes_counts_by_rule() {
    let said = json(&["fuzz", "--fixes", "--count", "60", "--seed", "7"], 0);
    assert_eq!((&said["ok"], &said["total"]["no_better"]), (&true.into(), &0.into()), "{said}");
    assert!(said["total"]["offered"].as_u64() >= Some(60), "{said}");
    let (out, _) = gemmc(&["fuzz", "--fixes", "--count", "60", "--seed", "7"], 0);
    assert!(out.contains("no better") && out.contains("unknown-clause"), "{out}");
}

/// Every command that compiles takes a GPU instead of a target.
#[test]
fn a_gpu_names_its_target() {
    for command in [&["plan"][..], &["profile", "--wait", "0"], &["check"], &["ptx"], &["ir", "--level", "tile"]] {
        let (out, _) = gemmc(&[command, &["naive", "--gpu", "A100"]].concat(), 0);
        assert!(out.contains("sm_80"), "{command:?}: {out}");
    }
    let warps = "types(bf16); atom(mma(16, 8, 16)); tile(64, 64, 32); warp(32, 32)";
    for (args, said) in [
        (&["plan", "-e", warps, "--gpu", "t4"][..], "NVIDIA T4 does not run code for sm_80"),
        (&["plan", "naive", "--gpu", "t4", "--target", "sm_90"], "--gpu takes h200, h100"),
        (&["plan", "naive", "--gpu", "h2000"], "one of h200, h100"),
    ] {
        let (_, err) = gemmc(args, 1);
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

/// One program that is wrong does not keep the others from being checked.
#[test]
fn several_programs_are_checked_at_once() {
    let (_folder, path) = file("wrong.gemm", "tile(32, 32, 8); thread(5, 4);");
    let wrong = path.to_str().expect("text");
    let (out, _) = gemmc(&["check", "naive", "vectorized"], 0);
    assert!(out.contains("naive: legal for sm_75\n") && out.contains("vectorized: legal for sm_75\n"), "{out}");
    let (out, err) = gemmc(&["check", wrong, "naive", "no_such_case"], 1);
    assert!(out.contains("naive: legal for sm_75\n"), "{out}");
    assert!(err.contains("wrong.gemm:1:18") && err.contains("neither a file nor a case"), "{err}");
    let all = json(&["check", wrong, "naive"], 1);
    let programs = all["programs"].as_array().expect("a list");
    assert_eq!((&programs[0]["ok"], &programs[0]["errors"][0]["rule"]), (&false.into(), &"divide".into()), "{all}");
    assert_eq!((&programs[1]["name"], &programs[1]["target"]), (&"naive".into(), &"sm_75".into()), "{all}");
    assert_eq!((&programs[1]["ok"], &all["ok"]), (&true.into(), &false.into()), "{all}");
}

/// What the help of a command names, the command takes.
#[test]
fn help_names_no_options_of_other_commands() {
    let commands = "check fmt explain plan ir ptx profile diff ablate draw run mutants new exec cases ladder selftest fuzz bench \
                    sweep doctor";
    for command in commands.split_whitespace() {
        let (help, _) = gemmc(&[command, "--help"], 0);
        let options = |text: &str| -> Vec<String> {
            let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
            words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_string).collect()
        };
        let own = help.lines().filter(|line| line.trim_start().starts_with('-'));
        let own: Vec<String> = own.filter_map(|line| options(line).into_iter().next()).collect();
        let foreign: Vec<String> = options(&help).into_iter().filter(|option| !own.contains(option)).collect();
        assert!(foreign.is_empty(), "{command}: {foreign:?}");
    }
}
