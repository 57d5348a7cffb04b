//! `gemmc sweep` without a GPU: what it prints, writes, stores and rejects.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

const SPACE: &str = "tile({64, 96, 128}, {64, 128}, {8, 16}); thread({4, 7}, 8); vector({1, 4}); {double_buffer | }";

fn sweep(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("sweep").args(args).output().expect("gemmc starts")
}

#[track_caller]
fn answers(args: &[&str]) -> String {
    let output = sweep(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no bar without a terminal: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let output = sweep(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    for words in words {
        assert!(stderr.contains(words), "{args:?} does not say `{words}`: {stderr}");
    }
}

#[test]
fn the_best_is_printed_as_clauses_that_compile() {
    let text = answers(&[SPACE, "-m", "2048", "-n", "2048", "-k", "2048", "--top", "3"]);
    assert!(
        text.starts_with("96 combinations, ") && text.contains("2048 x 2048 x 2048, estimated for an H200"),
        "{text}"
    );
    assert!(text.contains("\n   3 ") && !text.contains("\n   4 ") && text.contains(" more\n"), "{text}");
    assert!(text.contains("\nillegal\n") && text.contains("such as tile("), "{text}");
    let (_, best) = text.split_once("the best, as clauses\n\n").expect("the best");
    let checked = Command::new(env!("CARGO_BIN_EXE_gemmc")).args(["check", "-e", best]).output().expect("gemmc starts");
    assert_eq!(checked.status.code(), Some(0), "{best}");
    let json: Value = serde_json::from_str(&answers(&[SPACE, "--json"])).expect("one object");
    assert_eq!((&json["ok"], &json["combinations"]), (&true.into(), &96.into()));
    assert!(json["candidates"][0]["index"].is_u64(), "{json}");
    assert_eq!(json["judged"], 96);
    let legal = json["legal"].as_u64().expect("a count");
    let illegal: u64 =
        json["illegal"].as_array().expect("a list").iter().filter_map(|group| group["count"].as_u64()).sum();
    assert_eq!(legal + illegal, 96);
    assert_eq!(json["candidates"].as_array().map(Vec::len), Some(legal as usize));
    assert_eq!(json["best"], json["candidates"][0]["schedule"]);
}

#[test]
fn what_was_kept_gives_the_same_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let (kept, once, again) = (path("kept.jsonl"), path("once.csv"), path("again.csv"));
    let first = answers(&[SPACE, "--keep", &kept, "--csv", &once]);
    assert_eq!(
        first.replace(&once, ""),
        answers(&[SPACE, "--csv", &once]).replace(&once, ""),
        "keeping changes nothing"
    );
    // Cut off: a few lines, and half of another.
    let text = std::fs::read_to_string(&kept).expect("a file");
    std::fs::write(&kept, &text[..text.len() / 3]).expect("written");
    let resumed = answers(&[SPACE, "--keep", &kept, "--csv", &again]);
    assert_eq!(resumed.replace(&again, ""), first.replace(&once, ""));
    let csv = std::fs::read_to_string(&again).expect("a file");
    assert_eq!(csv, std::fs::read_to_string(&once).expect("a file"));
    assert!(csv.starts_with("rank,schedule,m,n,k,batch,estimated_ms,bound,"), "{csv}");
    assert!(
        csv.lines().nth(1).is_some_and(|line| line.starts_with("1,\"tile(") && line.contains(",4096,4096,4096,1,")),
        "{csv}"
    );
    std::fs::write(&kept, "no sweep\n").expect("written");
    refused(&[SPACE, "--keep", &kept], &["kept.jsonl: line 1: "]);
}

#[test]
fn texts_come_from_files_and_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("space.gemm");
    std::fs::write(&path, "tile({64, 128}, 64, 8);\nthread(8, 8);\n").expect("written");
    assert!(answers(&[path.to_str().expect("text")]).starts_with("2 combinations, 2 of them legal\n"));
    assert!(answers(&["conflict_free"]).starts_with("1 combination, 1 of them legal\n"));
    assert!(answers(&["-e", "tile({64, 128}, 64, 8); thread(8, 8)"]).starts_with("2 combinations"));
    std::fs::write(&path, "tile({64, 128}, 64, 8);\nthread({8}, 8);\n").expect("written");
    refused(&[path.to_str().expect("text")], &["space.gemm:2:8", "{8} has one alternative", "write `8`"]);
}

#[test]
fn what_cannot_be_swept_is_refused() {
    refused(&["tile({BM}, 64, 8); thread(8, 8)"], &["{BM} has one alternative", "only gemm! takes such values"]);
    refused(&["tile({64, 128}, 64, 8); thred(8, 8)"], &["sweep:1:25", "did you mean `thread`?"]);
    let huge = "tile({8..=512 step 8}, {8..=512 step 8}, {1..=64}); thread({1..=16}, {1..=16})";
    let begun = Instant::now();
    refused(&[huge], &["there are 67108864 combinations", "--sample 10000"]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(answers(&[huge, "--sample", "50", "--seed", "2"]).starts_with("50 of 67108864 combinations"));
    assert_eq!(answers(&[huge, "--sample", "50"]), answers(&[huge, "--sample", "50"]));
    refused(&[SPACE, "--device", "interp"], &["timed on a GPU"]);
    refused(&[SPACE, "-k", "0"], &["an extent of 0 costs nothing and takes no time"]);
    refused(&[SPACE, "-k", "18446744073709551615"], &["a whole number from 1 to 4294901760"]);
    let output = sweep(&[SPACE, "-m", "4294901760", "-n", "4294901760", "-k", "4294901760", "--batch", "4294901760"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("96 combinations, 0 of them legal") && text.contains("and an H200 has 141 GB"), "{text}");
    refused(&[SPACE, "--gpu", "H2000"], &["H200"]);
    refused(&["nowhere"], &["`nowhere` is neither a file nor a case"]);
    refused(&[], &["required"]);
    // If nothing is legal, that is reported and not a success.
    let output = sweep(&["tile({64, 128}, 64, 8); thread(7, 5)"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("2 combinations, 0 of them legal\n") && text.contains("thread(7, 5)"), "{text}");
}

#[test]
fn a_thousand_combinations_take_seconds() {
    let text = "tile({32, 64, 96, 128}, {32, 64, 96, 128}, {8, 16, 32}); thread({4, 8}, {4, 8}); vector({1, 4}); \
                {double_buffer | load(cp_async); stages(3) | }";
    let begun = Instant::now();
    let table = answers(&[text]);
    assert!(table.starts_with("1152 combinations"), "{table}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn the_model_is_held_against_measurements() {
    let results = |suite: &str| format!("{}/../bench/results/h200/{suite}.json", env!("CARGO_MANIFEST_DIR"));
    let files = format!("{},{}", results("ladder"), results("square"));
    let text = answers(&["--against", &files]);
    assert!(text.contains("\nladder ") && text.contains("\nsquare ") && text.contains(" 11 "), "{text}");
    let json: Value = serde_json::from_str(&answers(&["--against", &files, "--json"])).expect("one object");
    assert!(json["files"][0]["all_rows"].as_f64().is_some_and(|figure| figure > 0.95), "{json}");
    refused(&["--against", "Cargo.toml"], &["Cargo.toml"]);
    refused(&["--against", &files, "--sample", "3"], &["cannot be used with"]);
}

/// Files name types of 16 bits in two ways, and both mean the same. Where no row can be ranked, nothing was compared.
#[test]
fn results_of_16_bits_are_ranked() {
    let folder = format!("{}/../bench/results/h200", env!("CARGO_MANIFEST_DIR"));
    let names = ["square_bf16", "odd_bf16", "llm_bf16"];
    let files = names.map(|name| format!("{folder}/{name}.json"));
    let json: Value = serde_json::from_str(&answers(&["--against", &files.join(","), "--json"])).expect("one object");
    for (file, name) in json["files"].as_array().expect("a list").iter().zip(names) {
        let (rows, all) = (file["rows"].as_u64(), file["all_rows"].as_f64());
        assert!(rows > Some(5) && all.is_some_and(|figure| figure > 0.5), "{name}: {file}");
    }
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("short.json");
    let text = std::fs::read_to_string(&files[0]).expect("results");
    std::fs::write(&path, text.replace("bf16,bf16,f32,bf16", "bf16")).expect("written");
    let with = |file: &str| {
        let all: Value = serde_json::from_str(&answers(&["--against", file, "--json"])).expect("one object");
        all["files"][0]["all_rows"].as_f64()
    };
    assert_eq!(with(path.to_str().expect("text")), with(&files[0]), "`bf16` is `bf16,bf16,f32,bf16`");
    std::fs::write(&path, text.replace("\"schedule\":\"", "\"schedule\":\"my_")).expect("written");
    let nothing = sweep(&["--against", path.to_str().expect("text")]);
    let said = String::from_utf8_lossy(&nothing.stdout).into_owned();
    assert_eq!(nothing.status.code(), Some(3), "{said}");
    assert!(said.contains("NOT COMPARED") && said.contains("is neither a case nor clauses"), "{said}");
}

/// Ctrl-C ends a sweep with what it has so far.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_was_found() {
    let huge = "tile({8..=512 step 8}, {8..=512 step 8}, {1..=64}); thread({1..=16}, {1..=16})";
    let mut child = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(["sweep", huge, "--sample", "400000"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("gemmc starts");
    std::thread::sleep(Duration::from_secs(3));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(interrupt.success() && child.try_wait().expect("it runs").is_none());
    let output = child.wait_with_output().expect("gemmc ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(" of 67108864 combinations, ") && text.contains(" not judged: interrupted\n"), "{text}");
    assert!(text.contains("the best, as clauses"), "{text}");
}

#[test]
fn a_gpu_that_is_not_there_leaves_the_estimates() {
    let output = sweep(&["tile({64, 128}, 64, 8); thread(8, 8)", "--device", "cuda:63"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("2 not timed: ") && text.contains("the best, as clauses"), "{text}");
}
