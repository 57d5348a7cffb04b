//! `gemmc pick` and `gemmc calibrate` without a GPU.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ptx_gemm::Schedule;
use serde_json::Value;

fn gemmc(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).args(args).output().expect("gemmc starts")
}

#[track_caller]
fn stdout(args: &[&str]) -> String {
    let output = gemmc(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What a refused command says.
#[track_caller]
fn failed(args: &[&str]) -> String {
    let output = gemmc(args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[args, &["--json"]].concat())).expect("an object")
}

#[test]
fn a_product_gets_a_schedule_at_once() {
    let begun = Instant::now();
    let picked = json(&["pick", "-m", "384", "-n", "5120", "-k", "13824", "--types", "bf16", "--layouts", "nt"]);
    // A second where it is optimised.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(picked["calibrated"], true);
    let best = picked["best"]["schedule"].as_str().expect("clauses");
    let schedule: Schedule = best.parse().unwrap_or_else(|errors| panic!("{best}: {errors}"));
    schedule.check().unwrap_or_else(|errors| panic!("{best}: {errors}"));
    assert!(best.contains("types(bf16)") && best.contains("b = col"), "{best}");
    let candidates = picked["candidates"].as_array().expect("a list");
    assert_eq!(candidates.len(), 8);
    let times: Vec<f64> = candidates.iter().map(|one| one["estimate"]["ms"].as_f64().expect("ms")).collect();
    // An H200 has 989 TFLOP/s: 0.055 ms.
    assert!(times[0] > 0.055 && times[0] < 0.15 && times[0] == picked["best"]["estimate"]["ms"], "{times:?}");
    assert!(candidates.iter().all(|one| one["family"].is_string() && one["estimate"]["bound"].is_string()));
}

#[test]
fn what_is_given_is_kept() {
    let picked =
        json(&["pick", "--types", "f32", "-e", "emulate(bf16x6)", "--epilogue", "|acc, bias| relu(acc + bias[n])"]);
    let best = picked["best"]["schedule"].as_str().expect("clauses");
    assert!(best.contains("emulate(bf16x6)") && best.contains("relu"), "{best}");
    let text = stdout(&["pick", "-m", "64", "--batch", "100", "--top", "1"]);
    assert!(text.contains("batch(strided)") && text.contains("the best, of the family"), "{text}");
    let none = gemmc(&["pick", "--types", "bf16", "-e", "emulate(bf16x6)"]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("no family computes this product"));
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn many_products_come_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (shapes, csv) = (folder.path().join("shapes"), folder.path().join("all.csv"));
    std::fs::write(&shapes, "# m x n x k\n100x200x300 f64 nt\n\n64\n").expect("written");
    let (shapes, csv) = (shapes.to_str().expect("a path"), csv.to_str().expect("a path"));
    let picked = json(&["pick", "--shapes", shapes, "--top", "2", "--csv", csv]);
    let products = picked["products"].as_array().expect("a list");
    assert_eq!(products.len(), 2);
    assert!(products[0]["given"].as_str().is_some_and(|given| given.contains("f64")) && products[1]["m"] == 64);
    let lines = std::fs::read_to_string(csv).expect("a table");
    assert_eq!(lines.lines().count(), 5, "{lines}");
    std::fs::write(shapes, "100x200 f16\n").expect("written");
    assert!(failed(&["pick", "--shapes", shapes]).contains("line 1: one of M, MxNxK"));
    std::fs::write(shapes, "100x200x300 f17\n").expect("written");
    assert!(failed(&["pick", "--shapes", shapes]).contains("line 1: `f17` is neither a type"));
}

/// Clauses that are given are not taken for a whole schedule, which would need a tile.
#[test]
fn mistakes_in_what_is_given_are_told_alone() {
    let told = failed(&["pick", "--epilogue", "|acc, bias| relu(acc + bias[i])", "-e", "cluster(2, 1)"]);
    assert!(told.contains("bias is indexed by [m] or [n]") && !told.contains("tile"), "{told}");
    let told = failed(&["pick", "-e", "cluter(2, 1); types(bf17)"]);
    assert!(told.contains("did you mean `cluster`") && told.contains("did you mean `bf16`"), "{told}");
    assert!(!told.contains("no tile") && told.contains("-e:1:1"), "{told}");
}

#[test]
fn times_need_a_gpu() {
    assert!(failed(&["pick", "--device", "interp"]).contains("cuda:N"));
    assert!(failed(&["pick", "--seconds", "3"]).contains("--device"));
}

/// A GPU is known by name, or by a file as calibrate writes it; the answer says what nobody has measured.
#[test]
fn gpus_are_files() {
    let of = |gpu: &str| json(&["pick", "--types", "bf16", "--gpu", gpu, "--top", "1"]);
    let a100 = of("a100");
    assert_eq!((&a100["calibrated"], &a100["gpu"]), (&false.into(), &"A100".into()));
    assert!(a100["best"]["schedule"].as_str().is_some_and(|best| best.contains("atom(mma(16, 8, 16))")), "{a100}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.txt");
    let name = file.to_str().expect("a path");
    let sheet = "title = Mine\ncapability = 89\nprocessors = 60\nmemory_bytes = 12000000000\nboost_mhz = 2000\nmemory_gb_s = 500\n";
    std::fs::write(&file, format!("name = Mine\n{sheet}cache_mb = 40\npeak_tflops = 60\n")).expect("written");
    let mine = of(name);
    assert_eq!(mine["gpu"], "Mine");
    let plan = stdout(&["profile", "double_buffered", "--gpu", name, "--wait", "0"]);
    assert!(plan.contains("on an Mine;") && plan.contains("not calibrated"), "{plan}");
    std::fs::write(&file, format!("{sheet}speed = 3\n")).expect("written");
    assert!(failed(&["pick", "--gpu", name]).contains("`name` is missing"));
    assert!(failed(&["pick", "--gpu", "voodoo"]).contains("one of h200, h100, a100"));
}

/// The figures that are in use rank the rows that are there.
#[test]
fn figures_are_judged() {
    let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/results/rows.json");
    let judged = json(&["calibrate", "--rows", rows, "--judge"]);
    let all = judged["quality"].as_array().expect("a list");
    let kept = all.iter().find(|one| one["products"] == "kept back" && one["multiply"] == "all").expect("a line");
    assert!(kept["regret"].as_f64().is_some_and(|regret| regret < 0.08), "{kept}");
    assert!(
        failed(&["calibrate", "--rows", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]).contains("Cargo.toml")
    );
    assert!(failed(&["calibrate"]).contains("--rows"));
}

/// An entry of a lock is what `matmul` takes; one that this compiler makes differently is told.
#[test]
fn a_lock_is_read_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gemm.lock");
    let name = path.to_str().expect("a name");
    let line = |ptx: &str, chosen: &str| {
        format!(
            "H200 | types(f16) | acc | 384x5120x13824 | {chosen} | {ptx} | 9.5 | 0.01 | 0.004 | CUDA 13.0 | 2026-11-30 | gemmc tune\n"
        )
    };
    let write = |text: String| std::fs::write(&path, text).expect("written");
    let odd = "tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2)";
    write(line("00", odd));
    // Slow, and measured: no estimate comes before it.
    let picked =
        json(&["pick", "--matmul", "--lock", name, "-m", "384", "-n", "5120", "-k", "13824", "--types", "f16"]);
    assert_eq!((&picked["best"]["family"], &picked["legal"]), (&"lock".into(), &1.into()));
    assert!(picked["best"]["schedule"].as_str().is_some_and(|schedule| schedule.contains("tile(64, 64, 64)")));
    let stale = gemmc(&["lock", "check", name]);
    let told = String::from_utf8(stale.stdout).expect("text");
    assert_eq!(stale.status.code(), Some(2));
    let now = told.split("its PTX is ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a digest");
    write(line(now, odd));
    assert!(stdout(&["lock", "check", name]).contains("0 of 1 entries are stale"));
    write(line(now, "tile(64, 60, 64); atom(wgmma(64, 64, 16)); load(tma)"));
    assert!(String::from_utf8_lossy(&gemmc(&["lock", "check", name]).stdout).contains("is not made of"));
    assert!(failed(&["tune", "--shapes", "-", "--device", "interp"]).contains("timed on a GPU"));
    write("H200 | 1\n".into());
    assert!(failed(&["lock", "check", name]).contains("line 1: it has 2 fields"));
    // The library's own.
    assert!(json(&["lock", "check"])["entries"].as_u64().is_some_and(|count| count > 0));
}

/// `check --fill` writes what is chosen where it was open, and leaves the rest of the file alone.
#[test]
fn what_is_open_is_written_into_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.gemm");
    let name = path.to_str().expect("a name");
    std::fs::write(&path, "types(f16); // halves\ntile(128, ?, 64); atom(wgmma(64, ?, 16));\nload(tma); stages(?)\n")
        .expect("written");
    assert!(stdout(&["plan", name]).starts_with("chosen\n  clauses             tile(128, "));
    let text = stdout(&["check", "--fill", name]);
    assert!(text.contains("tile(128, ") && text.contains("for 4096 x 4096 x 4096 on H200"), "{text}");
    let filled = std::fs::read_to_string(&path).expect("read");
    assert!(filled.starts_with("types(f16); // halves\ntile(128, ") && !filled.contains('?'), "{filled}");
    assert!(stdout(&["check", "--fill", name]).contains("nothing is open"));
    // The same for another GPU, without a file.
    let ampere = stdout(&["check", "--fill", "--gpu", "a100", "-e", "types(f16); schedule(?)"]);
    assert!(ampere.contains("atom(mma("), "{ampere}");
    let whole = json(&["check", "--fill", "-e", "schedule(?); shape(64, 64, 64)"]);
    assert!(whole["filled"]["size"] == "64 x 64 x 64" && whole["clauses"].is_string(), "{whole}");
    assert!(failed(&["check", "--fill", "-e", "stages(?); tile(64, 64, 8)"]).contains("thread"));
}
