//! `gemmc ptx`: the PTX text, and how it is launched.

use ptx_gemm::Gemm;
use serde_json::json;

use crate::cli::Compile;
use crate::reply::{Failure, Reply};
use crate::source;

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let source::Loaded { schedule, plan, .. } = source::load(args)?;
    let target = plan.target;
    let gemm = Gemm::try_from(schedule)?;
    let (ptx, abi) = (gemm.ptx(target)?, gemm.abi(target)?);
    let entries: Vec<_> = abi.entries.iter().map(|e| json!({ "name": e.name, "multiples": e.multiples })).collect();
    let params: Vec<_> =
        abi.params.iter().map(|p| json!({ "name": p.name, "type": p.ty, "meaning": p.meaning })).collect();
    let launch = json!({
        "entries": entries,
        "params": params,
        "tile": [abi.tile.0, abi.tile.1],
        "grid": abi.grid,
        "threads": abi.threads,
        "dynamic_shared_bytes": abi.dynamic_shared_bytes,
        "static_shared_bytes": abi.static_shared_bytes,
        "workspace": abi.workspace,
    });
    let json = json!({ "target": target.to_string(), "ptx": ptx, "abi": launch });
    Ok(Reply::fine(ptx, json))
}
