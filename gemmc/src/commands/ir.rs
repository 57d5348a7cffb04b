//! `gemmc ir`: the text of one level.

use ptx_gemm::Gemm;
use serde_json::json;

use crate::cli::{Ir, Level};
use crate::reply::{Failure, Reply};
use crate::source;

pub(crate) fn run(args: &Ir) -> Result<Reply, Failure> {
    let source::Loaded { schedule, plan, .. } = source::load(&args.compile)?;
    let (name, level) = match args.level {
        Level::Tile => ("tile", ptx_gemm::Level::Tile),
        Level::Kernel => ("kernel", ptx_gemm::Level::Kernel),
        Level::Ptx => ("ptx", ptx_gemm::Level::Ptx),
    };
    let text = Gemm::try_from(schedule)?.ir(level, plan.target)?;
    let json = json!({ "level": name, "target": plan.target.to_string(), "text": text });
    Ok(Reply::fine(text, json))
}
