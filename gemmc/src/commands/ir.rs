//! `gemmc ir`: the text of one level.

use ptx_gemm::Gemm;
use serde_json::json;

use crate::cli::{Ir, Level};
use crate::reply::{Failure, Reply};
use crate::source;

pub(crate) fn run(args: &Ir) -> Result<Reply, Failure> {
    let schedule = source::schedule(&args.compile.source)?;
    let (name, level) = match args.level {
        Level::Tile => ("tile", ptx_gemm::Level::Tile),
        Level::Kernel => ("kernel", ptx_gemm::Level::Kernel),
        Level::Ptx => ("ptx", ptx_gemm::Level::Ptx),
    };
    let target = schedule.plan(args.compile.target)?.target;
    let text = Gemm::try_from(schedule)?.ir(level, target)?;
    let json = json!({ "level": name, "target": target.to_string(), "text": text });
    Ok(Reply::fine(text, json))
}
