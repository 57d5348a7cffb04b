//! `gemmc ptx`: the PTX text, and how it is launched.

use ptx_gemm::{Abi, AbiEntry, AbiLaunch};
use serde_json::{Value, json};

use crate::cli::Compile;
use crate::reply::{Failure, Reply};
use crate::source;

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let kernel = source::load(args)?.kernel()?;
    let abi = Abi::of(&kernel);
    let entries: Vec<_> = abi.entries.iter().map(entry).collect();
    let json = json!({ "target": abi.target.to_string(), "ptx": kernel.ptx(), "abi": { "entries": entries } });
    Ok(Reply::fine(kernel.ptx().into(), json))
}

fn entry(entry: &AbiEntry) -> Value {
    json!({
        "name": entry.name,
        "multiples": entry.multiples,
        "tile": entry.tile,
        "whole_tiles": entry.whole_tiles,
        "workspace": entry.workspace,
        "launches": entry.launches.iter().map(launch).collect::<Vec<_>>(),
    })
}

fn launch(launch: &AbiLaunch) -> Value {
    let params = launch.params.iter().map(|p| json!({ "name": p.name, "type": p.ty, "meaning": p.meaning }));
    json!({
        "kernel": launch.kernel,
        "grid": launch.grid,
        "threads": launch.threads,
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "static_shared_bytes": launch.static_shared_bytes,
        "params": params.collect::<Vec<_>>(),
    })
}
