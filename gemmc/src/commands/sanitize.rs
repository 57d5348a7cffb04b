//! `gemmc selftest --sanitize`: the quick test under each tool of NVIDIA's compute-sanitizer.
//!
//! The interpreter looks for the same mistakes in the same text. This is the second opinion, on what the driver's
//! assembler has made of it.

use std::io;
use std::process::{Command, Output};
use std::time::Instant;

use ptx_gemm::DeviceKind;
use serde_json::json;

use crate::cli::Selftest;
use crate::reply::{Failure, Reply, Status};

const PROGRAM: &str = "compute-sanitizer";
/// What the program is told to answer if it finds something; no exit status of this program's own.
const FOUND: i32 = 9;
/// Lines of its output that are shown if it does.
const SHOWN: usize = 40;

pub(crate) fn run(args: &Selftest) -> Result<Reply, Failure> {
    let DeviceKind::Cuda(ordinal) = args.device.open(0)?.kind() else {
        return Err(Failure::refused("device", "compute-sanitizer watches a GPU; the interpreter watches itself"));
    };
    let mut text = format!("{:12} {:>9}  verdict\n", "tool", "seconds");
    let (mut rows, mut worst) = (Vec::new(), Status::Fine);
    for tool in &args.tool {
        let start = Instant::now();
        let output = watched(tool, ordinal)?;
        let seconds = start.elapsed().as_secs_f64();
        let log = [output.stdout, output.stderr].concat();
        let log = String::from_utf8_lossy(&log);
        let (verdict, status) = match output.status.code() {
            Some(0) => ("clean", Status::Fine),
            Some(FOUND) => ("FOUND SOMETHING", Status::Wrong),
            Some(2) => ("WRONG RESULTS", Status::Wrong),
            _ => ("did not run", Status::Refused),
        };
        text.push_str(&format!("{tool:12} {seconds:>9.1}  {verdict}\n"));
        let tail: Vec<&str> = log.lines().rev().take(SHOWN).collect::<Vec<_>>().into_iter().rev().collect();
        if status != Status::Fine {
            tail.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        rows.push(json!({ "tool": tool, "seconds": seconds, "verdict": verdict, "log": tail }));
        worst = worse(worst, status);
    }
    Ok(Reply { text, json: json!({ "ok": worst == Status::Fine, "tools": rows }), status: worst })
}

/// This very program under a tool.
fn watched(tool: &str, ordinal: usize) -> Result<Output, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::refused("file", error.to_string()))?;
    let mut command = Command::new(PROGRAM);
    command.args(["--tool", tool, "--error-exitcode", &FOUND.to_string()]);
    command.arg(own).args(["selftest", "--quick", "--device", &format!("cuda:{ordinal}")]);
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::refused("sanitize", format!("{PROGRAM} was not found; it is part of the CUDA toolkit"))
        }
        _ => Failure::refused("sanitize", format!("{PROGRAM}: {error}")),
    })
}

fn worse(x: Status, y: Status) -> Status {
    match (x, y) {
        (Status::Wrong, _) | (_, Status::Wrong) => Status::Wrong,
        (Status::Refused, _) | (_, Status::Refused) => Status::Refused,
        _ => Status::Fine,
    }
}
