//! `gemmc ladder`: every case is a rung, the counted bytes agree with the formula, and the files it writes have the
//! stated formats.

use std::collections::BTreeSet;
use std::process::Command;

use ptx_gemm_check::cases;
use ptx_gemm_check::part::Part;
use serde_json::Value;

/// The cases of this run's part.
#[test]
fn cases_are_in_the_table_and_in_the_files() {
    let climbing: Vec<&str> = Part::of_this_run().of(cases()).map(|case| case.name).chain(["warp_tiled"]).collect();
    let folder = std::env::temp_dir().join(format!("gemmc-ladder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (json, plot) = (folder.join("ladder.json"), folder.join("ladder.svg"));
    let output = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .arg("ladder")
        .args(&climbing)
        .arg("--json")
        .arg(&json)
        .arg("--plot")
        .arg(&plot)
        // Assembling the largest cases takes half a minute, and is not part of this test.
        .env("PTXAS", "")
        .env("PATH", "")
        .output()
        .expect("gemmc starts");
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    let mut printed: Value = serde_json::from_str(&stdout).expect("one object");
    let ok = printed.as_object_mut().and_then(|printed| printed.remove("ok"));
    assert_eq!(ok, Some(true.into()));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&json).expect("a file")).expect("one object");
    assert_eq!(printed, written);
    let rungs = written["rungs"].as_array().expect("a list");
    let found: BTreeSet<&str> = rungs.iter().filter_map(|rung| rung["case"].as_str()).collect();
    assert_eq!(found, climbing.into_iter().collect());
    for rung in rungs {
        assert_eq!(rung["bytes"], rung["formula_bytes"], "{}", rung["case"]);
        assert_eq!(rung["ok"], true, "{}", rung["case"]);
    }
    let splits = |rung: &Value| rung["case"].as_str().is_some_and(|name| name.starts_with("emulate_"));
    assert!(rungs.is_sorted_by_key(splits), "f32 from narrower products is last");
    let plot = std::fs::read_to_string(&plot).expect("a file");
    assert!(plot.starts_with("<svg") && plot.contains("warp_tiled"));
    std::fs::remove_dir_all(&folder).expect("it is there");

    let folder_missing = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(["ladder", "--cpu", "--sizes", "16", "--plot", "no/such/folder/ladder.svg"])
        .output()
        .expect("gemmc starts");
    assert_eq!(folder_missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&folder_missing.stderr).contains("no/such/folder/ladder.svg"));
}

#[test]
fn the_steps_on_the_cpu_are_next_to_libraries() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("cpu.svg");
    let output = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(["ladder", "--cpu", "--sizes", "16,64", "--json", "--plot"])
        .arg(&plot)
        .output()
        .expect("gemmc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let rungs: Vec<&str> =
        json["rows"].as_array().expect("a list").iter().filter_map(|row| row["rung"].as_str()).collect();
    let libraries: &[&str] = if cfg!(feature = "cpu-libraries") { &["matrixmultiply", "faer"] } else { &[] };
    for rung in ["naive", "reordered", "blocked", "simd", "threads"].iter().chain(libraries) {
        assert_eq!(rungs.iter().filter(|found| found == &rung).count(), 2, "{rung}");
    }
    let drawn = std::fs::read_to_string(&plot).expect("a file");
    assert!(drawn.contains("naive"));

    // The same from the file of results, without a measurement.
    let file = folder.path().join("cpu.json");
    std::fs::write(&file, &output.stdout).expect("written");
    let again = folder.path().join("again.svg");
    let ladder = |file: &std::path::Path| {
        let command = ["ladder", "--cpu", "--table"];
        let mut gemmc = Command::new(env!("CARGO_BIN_EXE_gemmc"));
        gemmc.args(command).arg(file).arg("--plot").arg(&again).output().expect("gemmc starts")
    };
    let table = ladder(&file);
    assert!(table.status.success(), "{}", String::from_utf8_lossy(&table.stderr));
    assert_eq!(std::fs::read_to_string(&again).expect("a file"), drawn);
    let table = String::from_utf8(table.stdout).expect("text");
    let naive = json["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["n"] == 64)).expect("a row");
    let speed = format!("{:.2}", 2.0 * 64f64.powi(3) / naive["ms"].as_f64().expect("a number") / 1e6);
    assert!(table.contains(json["host"].as_str().expect("text")) && table.contains(&speed), "{speed}\n{table}");
    let other = ladder(&plot);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("no file of results of --cpu"));
}

#[test]
fn what_takes_hours_or_has_no_memory_is_not_started() {
    let ladder = |arguments: &[&str]| {
        let command = [&["ladder", "--cpu"], arguments].concat();
        Command::new(env!("CARGO_BIN_EXE_gemmc")).args(command).output().expect("gemmc starts")
    };
    let output = ladder(&["--sizes", "1024", "--seconds", "1e-6"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    // Nothing was measured.
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("would take longer than 0.000001 s (--seconds):\n  "), "{stdout}");
    assert!(stdout.contains("\n  naive          1024: about "), "{stdout}");
    let output = ladder(&["--sizes", "16,2000000"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("three matrices of 2000000 x 2000000 f32 take 48000000000000 bytes"), "{stderr}");
    assert!(ladder(&["--sizes", "0"]).status.code() == Some(1));
}
