//! `gemmc ptx`: the PTX text, and how it is launched.

use ptx_gemm::{Abi, AbiEntry, AbiLaunch, Contract};
use serde_json::{Value, json};

use crate::cli::Compile;
use crate::reply::{Failure, Format, Reply, complain, contract};
use crate::source;

pub(crate) fn run(args: &Compile, format: Format) -> Result<Reply, Failure> {
    let kernel = source::load(args)?.kernel()?;
    let abi = Abi::of(&kernel);
    let entries: Vec<_> = abi.entries.iter().map(entry).collect();
    let contracts = kernel.contracts();
    // Standard output is the PTX and nothing else.
    contracts.iter().filter(|contract| format == Format::Text && is_unchecked(contract)).for_each(|contract| {
        complain(&format!("note: {contract}\n"));
    });
    let mut json = json!({ "target": abi.target.to_string(), "ptx": kernel.ptx(), "abi": { "entries": entries } });
    if !contracts.is_empty() {
        json["contracts"] = contracts.iter().map(contract).collect();
    }
    Ok(Reply::fine(kernel.ptx().into(), json))
}

fn is_unchecked(contract: &Contract) -> bool {
    matches!(contract, Contract::Unchecked { .. })
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
