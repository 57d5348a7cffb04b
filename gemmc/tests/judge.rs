//! Batches of candidates: verdicts, what they show, and what hostile candidates cannot do.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn judge(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .current_dir(folder)
        .arg("judge")
        .args(args)
        .output()
        .expect("gemmc starts")
}

/// The verdicts of some candidates.
fn verdicts(folder: &Path, candidates: &[Value], args: &[&str]) -> Vec<Value> {
    let text: String = candidates.iter().map(|one| format!("{one}\n")).collect();
    fs::write(folder.join("all.jsonl"), text).expect("written");
    let _ = fs::remove_file(folder.join("out.jsonl"));
    let output = judge(folder, &[&["all.jsonl", "-o", "out.jsonl"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    read(&folder.join("out.jsonl"))
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("verdicts");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// A kernel of one parameter, a buffer of 32 words.
fn of_one(body: &str) -> (String, Value) {
    let ptx = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry e(.param .u64 p)\n{{\n.reg .u64 %a;\n.reg .u32 %t<4>;\n\
         ld.param.u64 %a, [p];\nmov.u32 %t0, %tid.x;\n{body}\nret;\n}}\n"
    );
    let buffers = json!({ "a": { "type": "u32", "shape": [32] } });
    (ptx, json!({ "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{ "buffer": "a" }], "buffers": buffers }))
}

fn candidate(id: &str, body: &str) -> Value {
    let (ptx, launch) = of_one(body);
    json!({ "id": id, "ptx": ptx, "launch": launch })
}

/// Each thread writes its own number to its own word.
const RIGHT: &str = "mul.wide.u32 %a1, %t0, 4;\nadd.u64 %a, %a, %a1;\nst.global.u32 [%a], %t0;";

fn right() -> String {
    format!(".reg .u64 %a1;\n{RIGHT}")
}

#[test]
fn every_kind_of_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut expected: Vec<u32> = (0..32).collect();
    let mut same = candidate("same", &right());
    same["expect"] = json!({ "a": expected });
    expected[7] = 8;
    let mut other = candidate("other", &right());
    other["expect"] = json!({ "a": expected });
    let all = [
        json!({ "id": "schedule", "schedule": "tile(16, 16, 8); thread(4, 4); double_buffer;" }),
        json!({ "id": 2, "schedule": "types(f32); tile(16, 16, 8); thread(4, 4)",
            "problem": { "types": "f32", "epilogue": "|acc| relu(acc)" } }),
        json!({ "id": "illegal", "schedule": "tile(64, 64, 8); thread(64, 64);" }),
        same,
        other,
        candidate("race", "st.global.u32 [%a], %t0;"),
        candidate("beyond", "st.global.u32 [%a+128], %t0;"),
        candidate("never written", "ld.global.u32 %t1, [%a];\nsetp.eq.u32 %p, %t1, 0;\n@%p st.global.u32 [%a], 1;")
            .map_text(),
        candidate("endless", "L:\nbra L;"),
        candidate("garbage", "this is not PTX;"),
    ];
    let found = verdicts(folder.path(), &all, &[]);
    let names: Vec<&str> = found.iter().map(|one| one["verdict"].as_str().expect("a verdict")).collect();
    let expected =
        ["right", "refused", "refused", "right", "wrong", "race", "out-of-bounds", "uninitialised", "hang", "refused"];
    assert_eq!(names, expected, "{found:#?}");
    assert_eq!(found[1]["rule"], "problem");
    assert!(found[2]["fix"].as_str().is_some_and(|fix| fix.contains("thread(")), "{}", found[2]);
    let sizes = found[0]["sizes"].as_array().expect("sizes");
    let past = [[17, 16, 8], [16, 17, 8], [16, 16, 9]];
    assert!(past.iter().all(|size| sizes.contains(&json!(size))), "{sizes:?}");
    assert_eq!(found[4]["element"], json!({ "buffer": "a", "index": 7, "got": 7, "expected": 8 }));
    assert_eq!(found[5]["witness"]["instruction"], "st.global.u32 [%a], %t0;");
    assert_eq!(found[5]["witness"]["threads"], json!([[1, 0, 0], [0, 0, 0]]));
}

/// The form of the candidate that has a predicate.
trait MapText {
    fn map_text(self) -> Value;
}

impl MapText for Value {
    fn map_text(mut self) -> Value {
        let text =
            self["ptx"].as_str().expect("a text").replace(".reg .u32 %t<4>;", ".reg .u32 %t<4>;\n.reg .pred %p;");
        self["ptx"] = text.into();
        self
    }
}

/// The result at some sizes alone is named, with the size and the first wrong element.
#[test]
fn a_wrong_tile_program_is_found_at_its_edge() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(["ir", "-e", "tile(16, 16, 8); thread(4, 4);", "--level", "tile"])
        .output()
        .expect("gemmc starts");
    let text = String::from_utf8(text.stdout).expect("text");
    let found = verdicts(
        folder.path(),
        &[
            json!({ "id": 1, "tile": text, "problem": { "sizes": [[17, 16, 9]], "data": "exact" } }),
            json!({ "id": 2, "tile": text.replace("types a f32", "types a f64") }),
        ],
        &[],
    );
    assert_eq!((&found[0]["verdict"], &found[0]["products"]), (&json!("right"), &json!(1)), "{found:#?}");
    assert_eq!(found[1]["verdict"], "refused");
}

/// A batch goes on where it was stopped, whatever is left of a line, and has the same verdicts with any number of processes.
#[test]
fn a_batch_is_resumed_and_deterministic() {
    let folder = tempfile::tempdir().expect("a folder");
    let all: Vec<Value> = (0..6)
        .map(|index| match index % 3 {
            0 => json!({ "id": index, "schedule": format!("tile({}, 16, 8); thread(4, 4);", 16 + 4 * index) }),
            1 => candidate(&format!("c{index}"), &right()),
            _ => candidate(&format!("c{index}"), "st.global.u32 [%a], %t0;"),
        })
        .collect();
    let once = verdicts(folder.path(), &all, &["--jobs", "1"]);
    let path = folder.path().join("out.jsonl");
    let text = fs::read_to_string(&path).expect("verdicts");
    let cut: usize = text.lines().take(2).map(|line| line.len() + 1).sum();
    fs::write(&path, &text[..cut + 10]).expect("written");
    let again = judge(folder.path(), &["all.jsonl", "-o", "out.jsonl", "--jobs", "3"]);
    assert!(String::from_utf8_lossy(&again.stdout).starts_with("4 of 6 candidates judged, 2 were judged before"));
    assert_eq!(fs::read_to_string(&path).expect("verdicts"), text);
    assert_eq!(read(&path), once);
}

/// Nothing outside the folder is read, nothing else is written, and the batch goes on.
#[test]
fn hostile_candidates_leave_the_batch_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("batch");
    fs::create_dir(&inside).expect("a folder");
    fs::write(folder.path().join("secret"), "tile(16, 16, 8); thread(4, 4);").expect("written");
    fs::write(inside.join("mine.gemm"), "tile(16, 16, 8); thread(4, 4);").expect("written");
    fs::write(inside.join("long"), vec![b' '; (1 << 20) + 1]).expect("written");
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret", inside.join("link")).expect("a link");
    let (ptx, launch) = of_one("");
    let mut all = Vec::new();
    for (at, file) in
        ["../secret", "/etc/passwd", "link", "long", ".", "", "no/such", "a\u{0}b", "/dev/zero"].iter().enumerate()
    {
        all.push(json!({ "id": format!("file {at}"), "schedule": { "file": file } }));
    }
    let with = |name: &str, value: Value| {
        let mut launch = launch.clone();
        launch[name] = value;
        json!({ "id": name, "ptx": ptx, "launch": launch })
    };
    all.push(with("grid", json!([2_147_483_647, 65_535, 65_535])));
    all.push(with("block", json!([4_294_967_295_u32, 1, 1])));
    all.push(with("buffers", json!({ "a": { "type": "u8", "shape": [10_000_000_000_u64] } })));
    all.push(with("shared", json!(4_294_967_295_u32)));
    all.push(json!({ "id": "deep", "schedule": format!("epilogue(|acc| {}acc{})", "(".repeat(100_000), ")".repeat(100_000)) }));
    all.push(json!({ "id": "sizes", "schedule": "tile(16, 16, 8); thread(4, 4);", "problem": { "sizes": [[1_000_000, 1_000_000, 1_000_000]] } }));
    all.push(json!({ "id": "both", "schedule": "", "tile": "" }));
    all.push(json!({ "id": [1], "schedule": "" }));
    all.push(json!({ "id": "field", "schedule": "", "more": 1 }));
    all.push(json!({ "id": "mine", "schedule": { "file": "mine.gemm" } }));
    let found = verdicts(&inside, &all, &["--seconds", "20"]);
    for one in &found[..all.len() - 1] {
        assert_eq!(one["verdict"], "refused", "{one}");
        assert_ne!(one["rule"], "internal", "{one}");
    }
    assert_eq!(found[all.len() - 1]["verdict"], "right", "{}", found[all.len() - 1]);
    let mut there: Vec<_> =
        fs::read_dir(&inside).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    there.sort();
    let expected: &[&str] = if cfg!(unix) {
        &["all.jsonl", "link", "long", "mine.gemm", "out.jsonl"]
    } else {
        &["all.jsonl", "long", "mine.gemm", "out.jsonl"]
    };
    assert_eq!(there, expected);
    // Another file is not taken for verdicts.
    let refused = judge(&inside, &["all.jsonl", "-o", "mine.gemm"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(fs::read_to_string(inside.join("mine.gemm")).expect("a text"), "tile(16, 16, 8); thread(4, 4);");
}
