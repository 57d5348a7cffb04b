//! `gemmc ladder`: every case in one table, with what it costs.

use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ptx_gemm_check::ladder::{Assembler, Climb, Ladder, plot};
use serde_json::Value;

use crate::cli;
use crate::reply::{Failure, Format, Reply, Status};

pub(crate) fn run(args: &cli::Ladder, format: Format) -> Result<Reply, Failure> {
    let climb = Climb { target: args.target, assembler: Assembler::find(), ..Climb::default() };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    if format == Format::Json {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let ladder = climb.run(|done, all, case| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(case.to_string());
    })?;
    bar.finish_and_clear();
    reply(&ladder, args)
}

fn reply(ladder: &Ladder, args: &cli::Ladder) -> Result<Reply, Failure> {
    let json = serde_json::to_value(ladder).map_err(|error| Failure::refused("json", error.to_string()))?;
    let mut text = ladder.to_string();
    // `--json` alone means standard output, which the reply takes care of.
    if let Some(path) = args.json.as_deref().filter(|path| *path != Path::new("-")) {
        write(path, &pretty(&json))?;
    }
    if let Some(path) = &args.plot {
        write(path, &plot(ladder).map_err(|error| Failure::refused("plot", error.to_string()))?)?;
        text.push_str(&format!("\nwrote {}\n", path.display()));
    }
    let status = if ladder.rungs.iter().all(|rung| rung.ok) { Status::Fine } else { Status::Wrong };
    Ok(Reply { text, json, status })
}

fn pretty(json: &Value) -> String {
    format!("{json:#}\n")
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::refused("file", format!("{}: {error}", path.display())))
}
