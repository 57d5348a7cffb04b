//! `gemmc bench` without a GPU: what it rejects, and how it prints a file of results.

use std::path::Path;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("bench").args(args).output().expect("gemmc starts")
}

#[track_caller]
fn refused(args: &[&str], words: &str) {
    let output = bench(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert!(stderr.contains(words), "{args:?} does not say `{words}`: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn what_cannot_be_timed_is_refused() {
    refused(&["--suite", "square", "--device", "interp"], "nothing to time in the interpreter");
    refused(&["--suite", "squares"], "square");
    refused(&["--size", "12x34"], "MxNxK");
    refused(&["--size", "0"], "takes no time");
    refused(&["--size", "64", "--types", "f31"], "bf16");
    refused(&["--size", "64", "--layouts", "nt,nr"], "nn, nt, tn, tt");
    refused(&["--suite", "large", "--layouts", "nt"], "row-major matrices");
    refused(&["--table", "no/such/file.json"], "no/such/file.json");
    refused(&["--size", "4294901761"], "an extent is at most 4294901760");
    // clap does not require what conflicts with another argument: these would be ignored.
    for argument in [&["--best"][..], &["--beside", "x.json"], &["--table", "x.json"]] {
        for other in [["--suite", "square"], ["-e", "tile(1)"], ["--types", "bf16"], ["--seconds", "3"]] {
            refused(&[argument, &other].concat(), "cannot be used with");
        }
    }
    refused(&["--size", "64", "--only", "64"], "cannot be used with");
    refused(&["--suite", "large", "--only", "4097"], "no product of large is called 4097");
}

#[test]
fn results_become_a_table() {
    let folder = std::env::temp_dir().join(format!("gemmc-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("square.json");
    let row = |k: u32, ms: f64, cublas: &str, ratio: &str| {
        format!(
            r#"{{"suite": "square", "types": "f32", "layout": "row,row,row", "m": 4096, "n": 512, "k": {k}, "batch": 1,
                 "schedule": "nn_128x128", "ms": {ms}, "tflops": 49.9, "cublas_ms": {cublas}, "ratio": {ratio},
                 "spread": 0.004}}"#
        )
    };
    let rows =
        [row(64, 2.75, "2.673", "0.972"), row(64, 3.0, "2.673", "0.9"), row(128, 2.75, "null", "null")].join(",");
    let text = format!(r#"{{"device": "Some GPU", "command": "gemmc bench", "rows": [{rows}]}}"#);
    std::fs::write(&file, text).expect("written");
    let output = bench(&["--table", file.to_str().expect("text")]);
    let table = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{table}");
    let common = "All rows: types f32; layout (a, b, d) row, row, row.\n";
    assert!(
        table.starts_with(&format!("Some GPU: `gemmc bench`.\n{common}\n| schedule | m x n x k | ms |")),
        "{table}"
    );
    let expected = "| `nn_128x128` | 4096 x 512 x 64 | 2.750 | 49.9 | 2.673 | 97.2% | 0.4% |\n";
    assert!(table.contains(expected), "{table}");
    assert_eq!(table.matches("x 64 |").count(), 2, "{table}");
    let best = bench(&["--table", file.to_str().expect("text"), "--best"]);
    let best = String::from_utf8(best.stdout).expect("text");
    assert!(best.matches("x 64 |").count() == 1 && best.contains(expected), "{best}");
    let only = bench(&["--table", file.to_str().expect("text"), "--only", "512x128,7168"]);
    let only = String::from_utf8(only.stdout).expect("text");
    assert!(only.contains("x 128 |") && !only.contains("x 64 |"), "{only}");
    refused(&["--table", file.to_str().expect("text"), "--only", "5120"], "no product is called 5120");
    assert!(table.contains("| `nn_128x128` | 4096 x 512 x 128 | 2.750 | 49.9 | - | - | 0.4% |"));
    let picture = folder.join("square.svg");
    let drawn = bench(&["--table", file.to_str().expect("text"), "--plot", picture.to_str().expect("text")]);
    assert_eq!(drawn.status.code(), Some(0));
    let svg = std::fs::read_to_string(&picture).expect("drawn");
    assert!(svg.contains("4096 × 512 × 64") && svg.contains("Suite square") && svg.contains("Some GPU"), "{svg}");
    let named = |names: &str| ["--table", file.to_str().expect("text"), "--schedules", names].map(String::from);
    let absent = named("nn_64x64,nn_128x128,nope");
    refused(&absent.each_ref().map(String::as_str), "no results of nn_64x64, nope");
    refused(&absent.each_ref().map(String::as_str), "it has nn_128x128");
    assert_eq!(bench(&named("nn_128x128").each_ref().map(String::as_str)).stdout, table.as_bytes());
    refused(&["--table", file.to_str().expect("text"), "--plot", "x.png"], "pictures are SVG: write x.svg");

    let other = folder.join("other.json");
    let text = r#"{"device": "The same", "command": "another", "title": "theirs", "about": "By hand.", "rows":
        [{"schedule": "nn_128x128", "m": 4096, "n": 512, "k": 128, "tflops": 40.0}]}"#;
    std::fs::write(&other, text).expect("written");
    let beside = bench(&["--table", file.to_str().expect("text"), "--beside", other.to_str().expect("text")]);
    let beside = String::from_utf8(beside.stdout).expect("text");
    assert!(
        beside.contains("The same: `another`. By hand.\n") && beside.contains("| theirs | of that |\n"),
        "{beside}"
    );
    assert!(beside.contains("| 49.9 | - | - | 0.4% | 40.0 | 124.8% |\n"), "{beside}");
    assert!(beside.contains("| 97.2% | 0.4% | - | - |\n"), "{beside}");

    // A file without common rows is not compared.
    std::fs::write(&other, text.replace("128,", "256,")).expect("written");
    let nothing = bench(&["--table", file.to_str().expect("text"), "--beside", other.to_str().expect("text")]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(nothing.status.code() == Some(3) && said.contains("nothing to compare"), "{said}");

    // Names of products and a second library, which only some rows have.
    let named = row(256, 1.0, "0.5", "0.5")
        .replace("\"spread\"", r#""product": "Llama-3 8B qkv", "cublaslt_ms": 0.4, "cublaslt_ratio": 0.4, "spread""#);
    let text = format!(r#"{{"device": "Some GPU", "command": "gemmc bench", "rows": [{named}, {rows}]}}"#);
    std::fs::write(&file, text).expect("written");
    let output = bench(&["--table", file.to_str().expect("text")]);
    let table = String::from_utf8(output.stdout).expect("text");
    for line in [
        "| schedule | product | m x n x k | ms | TFLOP/s | cuBLAS ms | of cuBLAS | cuBLASLt ms | of cuBLASLt | spread |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
        "| `nn_128x128` | Llama-3 8B qkv | 4096 x 512 x 256 | 1.000 | 49.9 | 0.500 | 50.0% | 0.400 | 40.0% | 0.4% |",
        "| `nn_128x128` | - | 4096 x 512 x 64 | 2.750 | 49.9 | 2.673 | 97.2% | - | - | 0.4% |",
    ] {
        assert!(table.contains(&format!("{line}\n")), "{line}\n{table}");
    }

    // Means of two products of 4096 rows, one of which a library was not timed on; the rows shown, and all rows.
    let [text_of, copy, all] = ["file.json", "copy.json", "all.json"].map(|name| folder.join(name));
    let ok = |args: &[&str]| {
        let output = bench(&[&["--table", text_of.to_str().expect("text")], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let rows = [row(64, 2.0, "2.0", "1.0"), row(64, 3.0, "2.0", "0.6"), row(128, 8.0, "2.0", "0.25")].join(",");
    std::fs::write(&text_of, format!(r#"{{"device": "Some GPU", "command": "x", "rows": [{rows}]}}"#))
        .expect("written");
    let means = ok(&["--means"]);
    let line = "| 4096 | f32 | row, row, row | 2 | 50.0% | 25.0% | 512 x 128 | - | - |";
    assert!(
        means.contains("| products | of cuBLAS | lowest | of n x k | of cuBLASLt |") && means.contains(line),
        "{means}"
    );
    ok(&["--best", "--json", copy.to_str().expect("text"), "--rows", all.to_str().expect("text")]);
    ok(&["--rows", all.to_str().expect("text")]);
    let [copied, all] = [&copy, &all].map(|path| std::fs::read_to_string(path).expect("written"));
    assert_eq!(copied.matches("\"schedule\"").count(), 2, "{copied}");
    assert_eq!(ptx_gemm_bench::rows::Rows::read(&all).map(|rows| rows.iter().count()), Ok(3), "{all}");

    std::fs::write(&file, "{\"rows\": 1}").expect("written");
    refused(&["--table", file.to_str().expect("text")], "no file of results");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// A table in a document is between a comment with the command that makes it and the comment `end`.
const COMMAND: &str = "<!-- gemmc bench --table ";

/// The document with every table regenerated.
fn renewed(document: &str, table: impl Fn(&[&str]) -> String) -> String {
    let (mut out, mut rest) = (String::new(), document);
    while let Some((before, after)) = rest.split_once(COMMAND) {
        let (args, after) = after.split_once(" -->\n").expect("the comment ends its line");
        let (_, after) = after.split_once("<!-- end -->").expect("the table ends");
        let args: Vec<&str> = args.split_whitespace().collect();
        out.push_str(&format!("{before}{COMMAND}{} -->\n\n{}\n<!-- end -->", args.join(" "), table(&args)));
        rest = after;
    }
    out + rest
}

#[test]
fn tables_are_replaced() {
    let document = "a\n<!-- gemmc bench --table x.json --best -->\nold\n<!-- end -->\nb\n";
    let new = renewed(document, |args| format!("{args:?}\n"));
    assert_eq!(new, "a\n<!-- gemmc bench --table x.json --best -->\n\n[\"x.json\", \"--best\"]\n\n<!-- end -->\nb\n");
    assert_eq!(renewed(&new, |args| format!("{args:?}\n")), new);
}

#[test]
fn documents_show_the_newest_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
        let output = command.current_dir(&root).args(["bench", "--table"]).args(args).output().expect("gemmc starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    for (name, tables) in [("docs/performance.md", 16), ("docs/tutorial.md", 1)] {
        let path = root.join(name);
        let document = std::fs::read_to_string(&path).expect(name);
        assert_eq!(document.matches(COMMAND).count(), tables, "{name}");
        let renewed = renewed(&document, table);
        if std::env::var_os("PTX_GEMM_WRITE_DOCUMENTS").is_some() {
            std::fs::write(&path, renewed).expect("written");
        } else {
            assert!(document == renewed, "{name} is out of date: PTX_GEMM_WRITE_DOCUMENTS=1 cargo test -p gemmc");
        }
    }
}
