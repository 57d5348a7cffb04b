//! What README.md and docs/*.md show of gemmc is what gemmc says: commands parse, sessions and pictures are repeated, and times quoted
//! in the text are those of the files of results.
// The sessions use GNU sed.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    let mut count = 0;
    for (path, text) in documents() {
        // A page's sessions share a folder, as they do for its reader.
        let folder = workplace();
        for session in blocks(&text, "console") {
            for step in format!("\n{session}").split("\n$ ").skip(1) {
                let (line, shown) = step.split_once('\n').unwrap_or((step, ""));
                let output = shell(line, folder.path());
                let said =
                    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
                if let Err(why) = shows(shown, &said) {
                    wrong.push(format!("{}: {line}\n{why}", path.display()));
                }
                count += 1;
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

/// The sentence that a document says about a rung, and about how it compares with another.
fn sentence(rows: &[serde_json::Value], name: &str, other: Option<&str>) -> String {
    let row =
        |name: &str| rows.iter().find(|row| row["schedule"] == name).unwrap_or_else(|| panic!("no row of {name}"));
    let figure = |name: &str, key: &str| row(name)[key].as_f64().expect("a number");
    let (ms, share) = (figure(name, "ms"), figure(name, "ratio") * 100.0);
    let gain = other.map(|o| format!("; {:.2} times as fast as `{o}`", figure(o, "ms") / ms)).unwrap_or_default();
    format!("Measured: `{name}` {ms:.3} ms, {share:.1} % of cuBLAS{gain}.")
}

#[test]
fn times_in_the_tutorial_are_the_measured_ones() {
    let file = fs::read_to_string(root().join("bench/results/h200/ladder.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    let rows = results["rows"].as_array().expect("rows");
    let text = fs::read_to_string(root().join("docs/tutorial.md")).expect("the tutorial");
    let mut count = 0;
    let lines = text.lines().map(|line| match line.strip_prefix("Measured: ") {
        None => line.to_string(),
        Some(rest) => {
            count += 1;
            let mut names = rest.split('`').skip(1).step_by(2);
            sentence(rows, names.next().expect("a schedule"), names.next())
        }
    });
    let renewed = lines.collect::<Vec<_>>().join("\n") + "\n";
    assert!(count >= 12, "{count} sentences");
    if is_writing() {
        fs::write(root().join("docs/tutorial.md"), renewed).expect("written");
    } else {
        assert!(
            text == renewed,
            "a time is not the measured one: PTX_GEMM_WRITE_DOCUMENTS=1 cargo test -p gemmc --test documents"
        );
    }
}

/// The speed and the share of cuBLAS's in `50.9 TFLOP/s at 4096, 100% of cuBLAS; 47.1 at 4095 x 4097 x 4093 (100%)`, with the
/// extents of each.
fn claims(comment: &str) -> Vec<([u64; 3], f64, f64)> {
    let text = comment.replace([',', ';', '(', ')'], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let claim = |at: usize| {
        let before = words.get(at.checked_sub(1)?)?;
        let speed = if *before == "TFLOP/s" { words.get(at.checked_sub(2)?)? } else { before };
        let extent = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
        let first = extent(at + 1)?;
        let (extents, share) = match (words.get(at + 2)?, extent(at + 3), extent(at + 5)) {
            (&"x", Some(second), Some(third)) => ([first, second, third], words.get(at + 6)?),
            (share, ..) => ([first; 3], share),
        };
        Some((extents, speed.parse().ok()?, share.trim_end_matches('.').strip_suffix('%')?.parse().ok()?))
    };
    (0..words.len()).filter(|at| words[*at] == "at").filter_map(claim).collect()
}

#[test]
fn speeds_of_tuned_schedules_are_the_measured_ones() {
    let mut rows = Vec::new();
    // The first file that has a product counts.
    for suite in ["square", "square_f64", "odd", "small", "skinny", "deep", "ladder"] {
        let file = fs::read_to_string(root().join(format!("bench/results/h200/{suite}.json"))).expect("results");
        let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        rows.extend(file["rows"].as_array().expect("rows").iter().cloned());
    }
    let mut count = 0;
    for case in ptx_gemm_check::tuned() {
        let comment: Vec<&str> = case.text.lines().map_while(|line| line.strip_prefix("//")).collect();
        for (extents, speed, share) in claims(&comment.join(" ")) {
            let f64s = case.name.starts_with("dgemm");
            let digit = if speed < 1.0 { 0.001 } else { 0.1 };
            let is_close = |figure: &serde_json::Value, claim: f64, digit: f64| {
                figure.as_f64().is_some_and(|figure| (figure - claim).abs() <= 0.501 * digit)
            };
            // Two suites may have measured the same product.
            let measured = rows.iter().filter(|row| {
                let same = ["m", "n", "k"].iter().zip(extents).all(|(name, extent)| row[name] == extent);
                same && row["schedule"] == case.name
                    && row["types"].as_str().is_some_and(|t| t.starts_with("f64") == f64s)
            });
            let measured: Vec<[&serde_json::Value; 2]> = measured.map(|row| [&row["tflops"], &row["ratio"]]).collect();
            let is_right = measured
                .iter()
                .any(|[tflops, ratio]| is_close(tflops, speed, digit) && is_close(ratio, share / 100.0, 0.01));
            assert!(is_right, "{}: {extents:?}: {speed} TFLOP/s, {share}%, but measured: {measured:?}", case.name);
            count += 1;
        }
    }
    assert!(count >= 40, "{count} speeds");
}
