//! `gemmc ir`: the text of one level.

use serde_json::json;

use crate::cli::{Ir, Level};
use crate::reply::{Failure, Reply};
use crate::source;

pub(crate) fn run(args: &Ir) -> Result<Reply, Failure> {
    let loaded = source::load(&args.compile)?;
    let target = loaded.target().to_string();
    let (name, level) = match args.level {
        Level::Tile => ("tile", ptx_gemm::Level::Tile),
        Level::Kernel => ("kernel", ptx_gemm::Level::Kernel),
        Level::Ptx => ("ptx", ptx_gemm::Level::Ptx),
    };
    let text = loaded.ir(level)?;
    let json = json!({ "level": name, "target": target, "text": text });
    Ok(Reply::fine(text, json))
}
