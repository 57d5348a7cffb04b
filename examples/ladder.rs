//! Every kernel of the reports that this project started from, in one table: each idea and its cost.
//!
//! ```text
//! cargo run --release --example ladder [-- [--json FILE] [--plot FILE.svg] [--target sm_90a]]
//! ```
//!
//! Without a GPU the figures are counted by the interpreter; registers, spills and SASS need NVIDIA's `ptxas` (and
//! `nvdisasm` next to it) in `$PTXAS` or the path.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use lexopt::Arg::Long;
use lexopt::ValueExt;
use ptx_gemm::Target;
use ptx_gemm_check::cases;
use ptx_gemm_check::figures::Assembler;
use ptx_gemm_check::ladder::Climb;

/// The files to write, and the target to compile for.
#[derive(Default)]
struct Args {
    json: Option<PathBuf>,
    plot: Option<PathBuf>,
    target: Option<Target>,
}

impl Args {
    fn parse() -> Result<Args, Box<dyn Error>> {
        let mut args = Args::default();
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next()? {
            match arg {
                Long("json") => args.json = Some(parser.value()?.into()),
                Long("plot") => args.plot = Some(parser.value()?.into()),
                Long("target") => args.target = Some(parser.value()?.parse()?),
                other => return Err(format!("{}; there are --json, --plot and --target", other.unexpected()).into()),
            }
        }
        Ok(args)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse()?;
    let climb = Climb { target: args.target, assembler: Assembler::find(), ..Climb::default() };
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {pos}/{len} {msg}")?;
    let bar = ProgressBar::no_length().with_style(style);
    let all: Vec<_> = cases().collect();
    let ladder = climb.run(&all, |done, all, case| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(case.to_string());
    })?;
    bar.finish_and_clear();
    // It is not an error if the reader closes the pipe, as `head` does.
    _ = write!(std::io::stdout(), "{ladder}");
    if let Some(path) = args.json {
        std::fs::write(&path, serde_json::to_string_pretty(&ladder)? + "\n")?;
        eprintln!("wrote {}", path.display());
    }
    if let Some(path) = args.plot {
        std::fs::write(&path, ptx_gemm_draw::ladder(&ladder, None, ptx_gemm_draw::Scheme::Auto))?;
        eprintln!("wrote {}", path.display());
    }
    match ladder.rungs.iter().find(|rung| !rung.figures.ok) {
        Some(rung) => Err(format!("{} is wrong", rung.case).into()),
        None => Ok(()),
    }
}
