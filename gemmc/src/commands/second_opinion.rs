//! `gemmc second-opinion`: every PTX file of a folder with its launch files, on the interpreter and on a GPU.

use std::fs;
use std::path::Path;

use ptx_gemm::{Device, DeviceKind};
use ptx_gemm_check::exec::{Element, LEVELS, LaunchFile, Opinion, launches_of, second_opinion};
use serde_json::{Value, json};

use crate::cli::SecondOpinion;
use crate::reply::{Failure, Reply, Status};

pub(crate) fn run(args: &SecondOpinion) -> Result<Reply, Failure> {
    let device: Device = args.device.open(0)?;
    let gpu = (device.kind() != DeviceKind::Interpreter).then_some(&device);
    let folder = &args.folder;
    let failed = |path: &Path, error: String| Failure::refused("file", format!("{}: {error}", path.display()));
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| failed(path, error.to_string()));
    let mut text = String::new();
    let mut pairs = Vec::new();
    let mut broken = 0;
    for (launch, paths) in launches_of(folder).map_err(|error| failed(folder, error.to_string()))? {
        let file = LaunchFile::parse(&read(&launch)?).map_err(|error| failed(&launch, error))?;
        for ptx in paths {
            let opinion = second_opinion(&read(&ptx)?, &file, gpu).map_err(|error| failed(&ptx, error.to_string()))?;
            broken += usize::from(!opinion.holds());
            let (launch, ptx) = (file_name(&launch), file_name(&ptx));
            text.push_str(&told(&launch, &ptx, &opinion));
            pairs.push(as_json(&launch, &ptx, &opinion));
        }
    }
    text.push_str(&format!("{} pairs on {device}, {broken} of them disagree\n", pairs.len()));
    let json = json!({ "ok": broken == 0, "device": device.to_string(), "pairs": pairs });
    if let Some(path) = &args.out {
        let written = fs::write(path, serde_json::to_string_pretty(&json).unwrap_or_default() + "\n");
        written.map_err(|error| failed(path, error.to_string()))?;
    }
    Ok(Reply { text, json, status: if broken == 0 { Status::Fine } else { Status::Wrong } })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn level(level: Option<u32>) -> String {
    level.map_or("default".into(), |level| format!("O{level}"))
}

fn told(launch: &str, ptx: &str, opinion: &Opinion) -> String {
    let mut line = format!("{ptx:34} {launch:24} {:7} elements", opinion.elements);
    match &opinion.interpreter {
        Ok(orders) => line.push_str(&format!("  {orders} orders agree")),
        Err(what) => line.push_str(&format!("  interpreter: {what}")),
    }
    for (name, found) in LEVELS.iter().zip(&opinion.levels) {
        let share =
            if found.share > 0.0 && found.share.is_finite() { format!(" ({:.2})", found.share) } else { String::new() };
        line.push_str(&format!("  {} {}{share}", level(*name), found.elements));
    }
    line.push('\n');
    for (name, found) in LEVELS.iter().zip(&opinion.levels) {
        if let Some(refused) = &found.refused {
            line.push_str(&format!("    {}: {refused}\n", level(*name)));
        }
        if found.broken > 0 {
            line.push_str(&format!("    {}: the rule is {}, {} break it\n", level(*name), opinion.rule, found.broken));
        }
        for Element { buffer, index, here, there } in &found.examples {
            line.push_str(&format!("        {buffer}[{index}] is {here} here and {there} there\n"));
        }
    }
    line
}

fn as_json(launch: &str, ptx: &str, opinion: &Opinion) -> Value {
    let gpu = LEVELS.iter().zip(&opinion.levels).map(|(name, found)| {
        let share = if found.share.is_finite() { json!(found.share) } else { json!("beyond") };
        let example = |found: &Element| {
            let Element { buffer, index, here, there } = found;
            json!({ "buffer": buffer, "index": index, "here": here, "there": there })
        };
        json!({
            "level": level(*name),
            "differing": found.elements,
            "share": share,
            "broken": found.broken,
            "examples": found.examples.iter().map(example).collect::<Vec<Value>>(),
            "refused": found.refused,
        })
    });
    json!({
        "ptx": ptx,
        "launch": launch,
        "ok": opinion.holds(),
        "rule": opinion.rule,
        "elements": opinion.elements,
        "orders": opinion.interpreter.as_ref().ok(),
        "violation": opinion.interpreter.as_ref().err(),
        "gpu": gpu.collect::<Vec<Value>>(),
    })
}
