//! `gemmc selftest --sanitize`: the quick test under each tool of NVIDIA's compute-sanitizer.
//!
//! The interpreter looks for the same mistakes in the same text. This is a second opinion on the code that the driver's
//! assembler made of it. A tool counts as successful only if its summary reports no findings and it prints nothing
//! else: it also exits with status 0 after races that it calls warnings, and where it could not monitor anything.

use std::io;
use std::process::{Command, Output};
use std::time::Instant;

use ptx_gemm::DeviceKind;
use serde_json::json;

use crate::cli::Selftest;
use crate::commands::selftest;
use crate::reply::{Failure, Reply, Status};

const PROGRAM: &str = "compute-sanitizer";
/// Its tool that looks for reads of memory that nothing has written. It does not see what TMA writes.
const INITCHECK: &str = "initcheck";
/// The exit status that the tool uses if it finds something, different from every status of this program.
const FOUND: i32 = 9;
/// Lines of its findings that are shown in that case.
const SHOWN: usize = 40;
/// The prefix of the tool's own lines, as opposed to those of the program that it watches.
const MARK: &str = "=========";

pub(crate) fn run(args: &Selftest) -> Result<Reply, Failure> {
    let DeviceKind::Cuda(ordinal) = args.device.open(0)?.kind() else {
        return Err(Failure::refused("device", "compute-sanitizer watches a GPU; the interpreter watches itself"));
    };
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let chosen: Vec<_> = selftest::schedules().filter(|(name, _)| wanted(name)).collect();
    let schedules = chosen.len();
    let rereading: Vec<String> =
        chosen.into_iter().filter(|(_, schedule)| selftest::rereads(schedule)).map(|(name, _)| name).collect();
    let mut text = format!("{schedules} schedules under each tool, inside and at the edges\n\n");
    // Not a table of comfy-table: a tool's report is written below its row.
    text.push_str(&format!("{:12} {:>9}  verdict\n", "tool", "seconds"));
    let (mut rows, mut worst) = (Vec::new(), Status::Fine);
    for tool in &args.tool {
        let start = Instant::now();
        let output = watched(tool, args.only.as_deref(), ordinal)?;
        let seconds = start.elapsed().as_secs_f64();
        let log = [output.stdout, output.stderr].concat();
        let log = String::from_utf8_lossy(&log);
        let Verdict { words: verdict, status } = verdict(output.status.code(), &log);
        text.push_str(&format!("{tool:12} {seconds:>9.1}  {verdict}"));
        let left: &[String] = if tool == INITCHECK { &rereading } else { &[] };
        if !left.is_empty() {
            let names = left.join(", ");
            text.push_str(&format!(
                "; without {names}: the tool does not see what TMA writes, and these read it again"
            ));
        }
        text.push('\n');
        let shown = excerpt(&log);
        if status != Status::Fine {
            shown.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        rows.push(json!({ "tool": tool, "seconds": seconds, "verdict": verdict, "left_out": left, "log": shown }));
        worst = worse(worst, status);
    }
    let json = json!({ "ok": worst == Status::Fine, "schedules": schedules, "tools": rows });
    Ok(Reply { text, json, status: worst })
}

/// The part of a tool's output that is shown: its first findings, since the same one often repeats thousands of times,
/// and the end, with the program's own results and the summary.
fn excerpt(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let end = lines.len().saturating_sub(SHOWN / 2);
    let findings = lines[..end].iter().copied().filter(|line| line.starts_with(MARK)).take(SHOWN);
    findings.chain(lines[end..].iter().copied()).collect()
}

/// Runs this program under a tool.
fn watched(tool: &str, only: Option<&str>, ordinal: usize) -> Result<Output, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::refused("file", error.to_string()))?;
    let mut command = Command::new(PROGRAM);
    command.args(["--tool", tool, "--error-exitcode", &FOUND.to_string()]);
    if tool == INITCHECK {
        // It does not see what TMA writes, and would report every copy of such a D to the host. An element that is not
        // written at all is a wrong result.
        command.args(["--check-api-memory-access", "no"]);
    }
    command.arg(own).args(["selftest", "--quick", "--device", &format!("cuda:{ordinal}")]);
    if tool == INITCHECK {
        command.arg("--no-rereads");
    }
    command.args(only.iter().flat_map(|only| ["--only", only]));
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::refused("sanitize", format!("{PROGRAM} was not found; it is part of the CUDA toolkit"))
        }
        _ => Failure::refused("sanitize", format!("{PROGRAM}: {error}")),
    })
}

/// Evaluates a tool's output.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    words: &'static str,
    status: Status,
}

fn verdict(exit: Option<i32>, log: &str) -> Verdict {
    let said = |words, status| Verdict { words, status };
    let lines = || log.lines().filter_map(|line| line.strip_prefix(MARK)).map(str::trim);
    let summaries: Vec<&str> = lines().filter(|line| line.contains("SUMMARY:")).collect();
    let is_routine = |line: &&str| line.is_empty() || *line == "COMPUTE-SANITIZER" || summaries.contains(line);
    // There is more than one if it followed a second process.
    let findings: Option<u64> = summaries.iter().map(|summary| findings(summary)).sum();
    match (exit, findings) {
        (Some(FOUND), _) => said("FOUND SOMETHING", Status::Wrong),
        (_, Some(1..)) => said("FOUND SOMETHING", Status::Wrong),
        (Some(2), _) => said("WRONG RESULTS", Status::Wrong),
        _ if summaries.is_empty() => said("did not run: no summary", Status::Refused),
        (_, None) => said("a summary that cannot be read", Status::Refused),
        (Some(0), _) if lines().all(|line| is_routine(&line)) => said("clean", Status::Fine),
        (Some(0), _) => said("COMPLAINED", Status::Wrong),
        _ => said("did not run", Status::Refused),
    }
}

/// Everything that a summary counts: errors, hazards, warnings, bytes leaked. `None` if it counts nothing, not even to 0.
fn findings(summary: &str) -> Option<u64> {
    let (_, counts) = summary.split_once("SUMMARY:")?;
    let digits = counts.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let numbers = digits.map(|digits| digits.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    (!numbers.is_empty()).then(|| numbers.into_iter().fold(0, u64::saturating_add))
}

fn worse(x: Status, y: Status) -> Status {
    match (x, y) {
        (Status::Wrong, _) | (_, Status::Wrong) => Status::Wrong,
        (Status::Refused, _) | (_, Status::Refused) => Status::Refused,
        _ => Status::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::{FOUND, MARK, SHOWN, excerpt, findings, verdict};
    use crate::reply::Status;

    #[track_caller]
    fn check(exit: Option<i32>, log: &str, words: &str, status: Status) {
        let verdict = verdict(exit, log);
        assert_eq!((verdict.words, verdict.status), (words, status), "{exit:?}\n{log}");
    }

    #[test]
    fn the_first_findings_are_shown_and_the_end() {
        let finding = |i: usize| format!("{MARK} finding {i}\nthe program says {i}\n");
        let log: String = (0..1000).map(finding).collect();
        let shown = excerpt(&log);
        assert_eq!(shown[0], format!("{MARK} finding 0"));
        assert_eq!(shown[SHOWN - 1], format!("{MARK} finding {}", SHOWN - 1));
        assert_eq!(shown.last(), Some(&"the program says 999"));
        assert_eq!(shown.len(), SHOWN + SHOWN / 2);
        assert_eq!(excerpt("one\ntwo"), ["one", "two"], "what is short is shown whole, once");
    }

    #[test]
    fn only_an_empty_summary_is_clean() {
        const RACES: &str = "========= RACECHECK SUMMARY:";
        let clean = "========= COMPUTE-SANITIZER\nall right\n========= ERROR SUMMARY: 0 errors\n";
        check(Some(0), clean, "clean", Status::Fine);
        check(Some(0), &format!("{RACES} 0 hazards displayed (0 errors, 0 warnings)"), "clean", Status::Fine);
        check(Some(0), &clean.replace("0 errors", "1 error"), "FOUND SOMETHING", Status::Wrong);
        check(Some(0), &clean.replace("0 errors", "12 errors"), "FOUND SOMETHING", Status::Wrong);
        // Races reported as warnings do not change the exit status.
        check(Some(0), &format!("{RACES} 1 hazard displayed (0 errors, 1 warning)"), "FOUND SOMETHING", Status::Wrong);
        check(Some(FOUND), clean, "FOUND SOMETHING", Status::Wrong);
        check(Some(2), clean, "WRONG RESULTS", Status::Wrong);
        // Two processes, of which one found something.
        check(Some(0), &format!("{clean}========= ERROR SUMMARY: 3 errors"), "FOUND SOMETHING", Status::Wrong);
    }

    #[test]
    fn what_did_not_watch_is_not_clean() {
        let empty = "========= COMPUTE-SANITIZER\nall right\n";
        check(Some(0), empty, "did not run: no summary", Status::Refused);
        check(Some(0), "", "did not run: no summary", Status::Refused);
        check(Some(1), "========= Error: no such device", "did not run: no summary", Status::Refused);
        check(None, "========= ERROR SUMMARY: 0 errors", "did not run", Status::Refused);
        check(Some(0), "========= ERROR SUMMARY: none", "a summary that cannot be read", Status::Refused);
        // A line of the monitored program is not a summary of the tool.
        check(Some(0), "ERROR SUMMARY: 0 errors", "did not run: no summary", Status::Refused);
        let warned = "========= Warning: the device is not supported\n========= ERROR SUMMARY: 0 errors";
        check(Some(0), warned, "COMPLAINED", Status::Wrong);
    }

    #[test]
    fn summaries_are_counted() {
        for (summary, count) in [
            ("ERROR SUMMARY: 0 errors", Some(0)),
            ("LEAK SUMMARY: 4096 bytes leaked in 2 allocations", Some(4098)),
            ("RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)", Some(4)),
            ("ERROR SUMMARY:", None),
            ("ERROR SUMMARY: 99999999999999999999 errors", None),
        ] {
            assert_eq!(findings(summary), count, "{summary}");
        }
    }
}
