//! README.md and docs/*.md agree with gemmc: commands parse, sessions and pictures are repeated, and times quoted in the text are
//! those of the files of results.
// The sessions use GNU sed.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ptx_gemm_bench::rows::Rows;
use ptx_gemm_bench::suites::Size;
use ptx_gemm_check::part::Part;
use serde_json::json;

const GEMMC: &str = env!("CARGO_BIN_EXE_gemmc");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace")
}

fn is_writing() -> bool {
    std::env::var_os("PTX_GEMM_WRITE_DOCUMENTS").is_some()
}

/// The documents that people write, with their names; docs/language.md is generated.
fn documents() -> Vec<(PathBuf, String)> {
    let pages = fs::read_dir(root().join("docs")).expect("docs").map(|entry| entry.expect("an entry").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("language.md"));
    let mut paths: Vec<PathBuf> = pages.chain([root().join("README.md")]).collect();
    paths.sort();
    assert!(paths.len() >= 4, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("a document"))).collect()
}

/// The fenced blocks of a language, in order.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let fence = format!("\n```{language}\n");
    text.split(fence.as_str()).skip(1).map(|rest| rest.split("\n```").next().expect("a block")).collect()
}

/// Runs a line of shell in a folder, with this gemmc, without an assembler and without a GPU.
fn shell(line: &str, folder: &Path) -> Output {
    let bin = Path::new(GEMMC).parent().expect("a folder").display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.env("PATH", path).env_remove("PTXAS").env("CUDA_VISIBLE_DEVICES", "").env("NO_COLOR", "1");
    command.current_dir(folder).args(["-c", line]).output().expect("sh starts")
}

/// A folder for commands: what they read of the workspace is there, and what they write stays there.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["bench", "examples", "gemm-check"] {
        std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("a link");
    }
    fs::create_dir_all(folder.path().join("docs/pictures")).expect("a folder");
    folder
}

/// The commands of gemmc in a document's `sh` and `console` blocks.
fn commands(text: &str) -> Vec<String> {
    let sh = blocks(text, "sh").into_iter().flat_map(str::lines);
    let sessions = blocks(text, "console").into_iter().flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    let lines = sh.chain(sessions).map(|line| line.split(" # ").next().unwrap_or_default().trim().to_string());
    lines.filter(|line| line.starts_with("gemmc ")).collect()
}

#[test]
fn every_example_is_there() {
    let mut count = 0;
    for (path, text) in documents() {
        for line in blocks(&text, "sh").into_iter().flat_map(str::lines).filter(|line| line.starts_with("cargo ")) {
            let Some(name) = line.split("--example ").nth(1).and_then(|rest| rest.split_whitespace().next()) else {
                continue;
            };
            let is_there = |folder: &str| root().join(folder).join(format!("{name}.rs")).exists();
            assert!(is_there("examples") || is_there("codegen-ptx/examples"), "{}: {line}", path.display());
            count += 1;
        }
    }
    assert!(count >= 3, "{count} examples");
}

#[test]
fn every_command_parses() {
    let folder = workplace();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in documents() {
        for command in commands(&text) {
            count += 1;
            // With --help at the end, everything before is parsed and nothing is done.
            let (args, _) = command.split_once(" > ").unwrap_or((&command, ""));
            let output = shell(&format!("{args} --help"), folder.path());
            if !output.status.success() {
                wrong.push(format!("{}: {command}\n{}", path.display(), String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 50, "{count} commands");
    let refused = |line: &str| !shell(&format!("{line} --help"), folder.path()).status.success();
    assert!(
        refused("gemmc ptx naive --no-such-option") && refused("gemmc pfx naive") && refused("gemmc ir x --level y")
    );
}

/// Whether the lines shown are those of the output; `...` leaves out any number of them.
fn shows(shown: &str, output: &str) -> Result<(), String> {
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    let mut at = 0;
    for (number, part) in shown.split("\n...").enumerate() {
        let part = part.strip_prefix("...").unwrap_or(part);
        let part: Vec<&str> = part.strip_prefix('\n').unwrap_or(part).lines().map(str::trim_end).collect();
        if part.is_empty() {
            continue;
        }
        let free = number > 0 || shown.starts_with("...");
        let found =
            (at..=output.len().saturating_sub(part.len())).take(if free { usize::MAX } else { 1 }).find(|start| {
                output[*start..].iter().zip(&part).all(|(a, b)| a == b) && output.len() >= start + part.len()
            });
        at = found
            .ok_or_else(|| format!("not in the output:\n{}\n\nthe output:\n{}", part.join("\n"), output.join("\n")))?
            + part.len();
    }
    if at < output.len() && !shown.trim_end().ends_with("...") {
        return Err(format!("the output goes on:\n{}", output[at..].join("\n")));
    }
    Ok(())
}

#[test]
fn every_session_is_what_gemmc_says() {
    assert!(shows("a\n...\nc", "a\nb\nc").is_ok() && shows("...\nb\n...", "a\nb\nc").is_ok());
    assert!(shows("a\nc", "a\nb\nc").is_err() && shows("b\n...", "a\nb").is_err() && shows("a", "a\nb").is_err());
    assert!(shows("...\nc\n...\na", "a\nb\nc").is_err());
    let mut wrong = Vec::new();
    let (part, mut count) = (Part::of_this_run(), 0);
    for (path, text) in documents() {
        // The sessions of a page share a folder, as for its reader.
        let folder = workplace();
        for session in blocks(&text, "console") {
            for step in format!("\n{session}").split("\n$ ").skip(1) {
                let (line, shown) = step.split_once('\n').unwrap_or((step, ""));
                count += 1;
                // What a page only shows is shown again in this run's part.
                let shows_cases = ["gemmc diff ", "gemmc profile "].iter().any(|command| line.starts_with(command));
                if shows_cases && !line.contains('.') && !part.has(count) {
                    continue;
                }
                let output = shell(line, folder.path());
                let said =
                    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
                if let Err(why) = shows(shown, &said) {
                    wrong.push(format!("{}: {line}\n{why}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count >= 20, "{count} steps");
}

#[test]
fn pictures_are_made_by_the_command_next_to_them() {
    let folder = workplace();
    let mut made = std::collections::BTreeSet::new();
    for (path, text) in documents() {
        for command in commands(&text).iter().filter(|command| command.contains("docs/pictures/")) {
            let name = command.rsplit(' ').next().expect("a file");
            let output = shell(command, folder.path());
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            let new = fs::read(folder.path().join(name)).expect("a picture");
            if is_writing() {
                fs::write(root().join(name), &new).expect("written");
            }
            let advice = "PTX_GEMM_WRITE_DOCUMENTS=1 cargo test -p gemmc --test documents";
            assert!(fs::read(root().join(name)).is_ok_and(|old| old == new), "{name} is out of date: {advice}");
            let shown = text.contains(&format!("]({})", name.trim_start_matches("docs/")))
                || text.contains(&format!("]({name})"));
            assert!(shown, "{} does not show {name}", path.display());
            made.insert(root().join(name));
        }
    }
    let there =
        fs::read_dir(root().join("docs/pictures")).expect("pictures").map(|entry| entry.expect("an entry").path());
    assert_eq!(there.collect::<std::collections::BTreeSet<_>>(), made, "a picture without a command");
}

#[test]
fn every_link_leads_somewhere() {
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().expect("a part");
            let is_web = link.starts_with("https://") || file.is_empty();
            assert!(is_web || path.parent().expect("a folder").join(file).exists(), "{}: {link}", path.display());
        }
    }
}

/// The rows of runs in the file of all rows, the earlier of which count where two have the same. Of an H200's and an H100's run of
/// one name, the H200's is the earlier one; each row has the names of its GPU and of its run.
fn results(runs: &[&str]) -> Vec<serde_json::Value> {
    let all = fs::read_to_string(root().join("bench/results/rows.json")).expect("all rows");
    let all = Rows::read(&all).expect("a file of rows");
    let names = runs.iter().flat_map(|name| ["h200", "h100"].map(|gpu| format!("{gpu}/{name}")));
    // A case that has changed since it was timed has no times.
    let cases: HashMap<String, &str> =
        ptx_gemm_check::cases().map(|case| (case.schedule().expect("a schedule").one_line(), case.name)).collect();
    let of_run = |name: String| {
        let rows = all.iter().filter(move |row| row.run.name == name);
        rows.map(|row| {
            let Size { m, n, k, batch } = row.size;
            let schedule = cases.get(row.clauses.trim_end_matches(';'));
            let (types, device, run) = (row.types, &row.run.device, &row.run.name);
            let tflops = row.size.operations() / row.ms / 1e9;
            json!({"schedule": schedule, "types": types, "m": m, "n": n, "k": k, "batch": batch, "ms": row.ms,
                "ratio": row.of_cublas, "tflops": tflops, "device": device, "file": run})
        })
    };
    names.flat_map(of_run).collect()
}

/// The default cube of a sentence about a time.
const RUNG: &str = "4096 x 4096 x 4096";

/// The GPU of a time, unless it is the H200 of most of them.
const ON_H100: &str = " on an H100";

/// The tutorial's sentence about a schedule's time, and its comparison with another of the same file: `Measured: ...`, or
/// `Measured at M x N x K: ...`, with the GPU before the extents. A time that was not measured is marked so, with the
/// command.
fn sentence(rows: &[serde_json::Value], line: &str) -> Option<String> {
    let (at, rest) = line.strip_prefix("Measured")?.split_once(": ")?;
    let at = at.strip_prefix(ON_H100).unwrap_or(at);
    let extents = at.strip_prefix(" at ").unwrap_or(RUNG);
    let numbers: Vec<u64> = extents.split(" x ").filter_map(|extent| extent.parse().ok()).collect();
    let of = |name: &str| {
        let is_of = |row: &&serde_json::Value| {
            let product: Vec<u64> = ["m", "n", "k"].iter().filter_map(|extent| row[extent].as_u64()).collect();
            row["schedule"] == name && row["batch"] == 1 && product == numbers
        };
        rows.iter().filter(is_of).collect::<Vec<_>>()
    };
    let figure = |row: &serde_json::Value, key: &str| row[key].as_f64().expect("a number");
    // Commands are in backticks as well, and have spaces.
    let mut names = rest.split('`').skip(1).step_by(2).filter(|name| !name.contains(' '));
    let (name, other) = (names.next()?, names.next());
    let next_to = other.map(|other| format!(" next to `{other}`")).unwrap_or_default();
    // Times of one file, measured by one process with alternating samples.
    let beside = |own: &serde_json::Value, other| of(other).into_iter().find(|row| row["file"] == own["file"]);
    let own = of(name).into_iter().find(|own| other.is_none_or(|other| beside(own, other).is_some()));
    let Some(own) = own else {
        let command = command_that_measures(name, at.strip_prefix(" at "));
        return Some(format!("Measured{at}: `{name}`{next_to}, not yet; `{command}` does it."));
    };
    let (ms, share) = (figure(own, "ms"), figure(own, "ratio") * 100.0);
    let gain = other.and_then(|other| Some((other, figure(beside(own, other)?, "ms") / ms)));
    let gain = gain.map(|(other, gain)| format!("; {gain:.2} times as fast as `{other}`")).unwrap_or_default();
    let on = if own["device"].as_str().is_some_and(|device| device.contains("H100")) { ON_H100 } else { "" };
    Some(format!("Measured{on}{at}: `{name}` {ms:.3} ms, {share:.1} % of cuBLAS{gain}."))
}

/// The command of a rung's time, or of a product of certain extents.
fn command_that_measures(name: &str, extents: Option<&str>) -> String {
    let case = ptx_gemm_check::case(name).unwrap_or_else(|| panic!("no schedule is called {name}"));
    let of = case.schedule().expect("a schedule").problem().expect("a problem").types.a;
    let types = if of == ptx_gemm::DType::F32 { String::new() } else { format!(" --types {of}") };
    match extents {
        Some(extents) => format!("gemmc bench --size {}{types} --schedules {name}", extents.replace(" x ", "x")),
        None => format!("gemmc bench --suite ladder{types} --results bench/results/h200"),
    }
}

#[test]
fn sentences_about_times() {
    let row = |name: &str, k: u64, ms: f64| serde_json::json!({"schedule": name, "m": 4096, "n": 4096, "k": k, "batch": 1, "ms": ms, "ratio": 0.5});
    let rows = [row("wgmma", 16, 3.0), row("wgmma", 4096, 0.5), row("mma", 4096, 1.0)];
    let said = |line: &str| sentence(&rows, line).expect("a sentence");
    assert_eq!(said("Measured: `wgmma`."), "Measured: `wgmma` 0.500 ms, 50.0 % of cuBLAS.");
    let both = "Measured: `wgmma` 0.500 ms, 50.0 % of cuBLAS; 2.00 times as fast as `mma`.";
    assert_eq!(said("Measured: `wgmma` next to `mma`, not yet; `gemmc bench` does it."), both);
    assert_eq!(said(both), both);
    assert!(said("Measured at 4096 x 4096 x 16: `wgmma`.").contains("4096 x 4096 x 16: `wgmma` 3.000 ms"));
    let command = "`gemmc bench --suite ladder --types bf16 --results bench/results/h200`";
    let missing = format!("Measured: `wgmma` next to `wgmma_roles`, not yet; {command} does it.");
    assert_eq!(said("Measured: `wgmma`; `wgmma_roles`."), missing);
    assert_eq!(
        said("Measured at 1 x 8192 x 64: `bf16_rows16`."),
        "Measured at 1 x 8192 x 64: `bf16_rows16`, not yet; `gemmc bench --size 1x8192x64 --types bf16 --schedules \
         bf16_rows16` does it."
    );
    assert_eq!(sentence(&rows, "Measured differently."), None);

    // Times of two files are not compared.
    let on_h100 = |name: &str, ms: f64| {
        let mut row = row(name, 4096, ms);
        row["device"] = "NVIDIA H100 80GB HBM3".into();
        row["file"] = "h100/ladder_bf16.json".into();
        row
    };
    let rows = [&rows[..], &[on_h100("wgmma", 0.6), on_h100("wgmma_roles", 0.3)]].concat();
    let said = sentence(&rows, "Measured: `wgmma_roles`; `wgmma`.").expect("a sentence");
    let whole = "Measured on an H100: `wgmma_roles` 0.300 ms, 50.0 % of cuBLAS; 2.00 times as fast as `wgmma`.";
    assert_eq!(said, whole);
    assert_eq!(sentence(&rows, whole).as_deref(), Some(whole));
    assert_eq!(
        sentence(&rows, "Measured on an H100: `mma`.").expect("a sentence"),
        "Measured: `mma` 1.000 ms, 50.0 % of cuBLAS."
    );
}

/// The tutorial's sentence about the errors of methods: `Relative errors at K = 4096, N(0, 1): ...`.
fn errors_sentence(rows: &[serde_json::Value], line: &str) -> Option<String> {
    let (start, rest) = line.strip_prefix("Relative errors at ")?.split_once(": ")?;
    let (k, data) = start.strip_prefix("K = ")?.split_once(", ")?;
    let k: u64 = k.parse().ok()?;
    let methods = rest.split('`').skip(1).step_by(2).map(|method| {
        let row = rows.iter().find(|row| row["method"] == method && row["k"] == k && row["data"] == data);
        let error = row.unwrap_or_else(|| panic!("no error of {method}: {line}"))["norm"].as_f64().expect("a number");
        format!("`{method}` {error:.1e}")
    });
    Some(format!("Relative errors at K = {k}, {data}: {}.", methods.collect::<Vec<_>>().join(", ")))
}

#[test]
fn times_in_the_tutorial_are_the_measured_ones() {
    let rows = results(&[
        "ladder",
        "ladder_bf16",
        "square_bf16_2",
        "square_bf16",
        "skinny_bf16",
        "decode_bf16_2",
        "llm_bf16",
        "odd_bf16",
        "stream_k_bf16",
        "square",
    ]);
    let errors = fs::read_to_string(root().join("bench/results/interpreter/accuracy.json")).expect("errors");
    let errors: serde_json::Value = serde_json::from_str(&errors).expect("JSON");
    let errors = errors["rows"].as_array().expect("rows");
    let text = fs::read_to_string(root().join("docs/tutorial.md")).expect("the tutorial");
    let mut count = 0;
    let lines = text.lines().map(|line| {
        let said = sentence(&rows, line).or_else(|| errors_sentence(errors, line));
        count += usize::from(said.is_some());
        said.unwrap_or_else(|| line.to_string())
    });
    let renewed = lines.collect::<Vec<_>>().join("\n") + "\n";
    assert!(count >= 25, "{count} sentences");
    if is_writing() {
        fs::write(root().join("docs/tutorial.md"), renewed).expect("written");
    } else {
        assert!(
            text == renewed,
            "a time is not the measured one: PTX_GEMM_WRITE_DOCUMENTS=1 cargo test -p gemmc --test documents"
        );
    }
}

/// The hand-written rows of tables in the tutorial agree with the page of measurements.
#[test]
fn the_tutorial_repeats_measurements_as_they_are() {
    let [tutorial, measurements] = ["docs/tutorial.md", "docs/performance.md"]
        .map(|name| fs::read_to_string(root().join(name)).expect("a document"));
    let printed = |text: &str| {
        text.split("<!-- end -->")
            .map(|part| part.split("<!-- gemmc bench").next().expect("a part").to_string())
            .collect::<String>()
    };
    let rows: Vec<String> =
        printed(&tutorial).lines().filter(|line| line.starts_with("| `")).map(str::to_string).collect();
    assert!(rows.len() >= 4, "{rows:?}");
    for row in rows {
        assert!(measurements.lines().any(|line| line == row), "not in docs/performance.md: {row}");
    }
}
