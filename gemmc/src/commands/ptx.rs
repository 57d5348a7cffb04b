//! `gemmc ptx`: the PTX text, and how it is launched; or the machine code that ptxas makes of it.

use std::io::{self, IsTerminal, Write};

use ptx_gemm::{Abi, AbiEntry, AbiLaunch, Contract, Kernel};
use ptx_gemm_check::exec::launch_of;
use ptx_gemm_check::figures::Assembler;
use ptx_gemm_ptx::normal::without_comments;
use serde_json::{Value, json};

use crate::cli::Ptx;
use crate::reply::{Failure, Format, Reply, Status, complain, contract};
use crate::source;

pub(crate) fn run(args: &Ptx, format: Format) -> Result<Reply, Failure> {
    let kernel = source::load(&args.compile)?.kernel()?;
    if args.cubin {
        return cubin(args, &kernel);
    }
    if let (true, Some(m), Some(n), Some(k)) = (args.launch_file, args.m, args.n, args.k) {
        return launch_file(args, &kernel, (m, n, k));
    }
    let abi = Abi::of(&kernel);
    let entries: Vec<_> = abi.entries.iter().map(entry).collect();
    let contracts = kernel.contracts();
    // Standard output holds only the PTX.
    contracts.iter().filter(|contract| format == Format::Text && is_unchecked(contract)).for_each(|contract| {
        complain(&format!("note: {contract}\n"));
    });
    let ptx = if args.no_comments { without_comments(kernel.ptx()) } else { kernel.ptx().to_string() };
    let mut json =
        json!({ "target": abi.target.to_string(), "ptx": ptx, "abi": { "entries": entries, "plan": abi.plan } });
    if !contracts.is_empty() {
        json["contracts"] = contracts.iter().map(contract).collect();
    }
    let Some(path) = &args.output else { return Ok(Reply::fine(ptx, json)) };
    source::write(path, &ptx)?;
    Ok(Reply::fine(String::new(), json))
}

/// Writes a launch file for a product.
fn launch_file(args: &Ptx, kernel: &Kernel, (m, n, k): (usize, usize, usize)) -> Result<Reply, Failure> {
    let file = launch_of(kernel, m, n, k).map_err(|why| Failure::refused("launch", why))?;
    let text = serde_json::to_string_pretty(&file).unwrap_or_default() + "\n";
    let Some(path) = &args.output else { return Ok(Reply::fine(text, file)) };
    source::write(path, &text)?;
    Ok(Reply::fine(String::new(), file))
}

/// Assembles the kernel and writes the result.
fn cubin(args: &Ptx, kernel: &Kernel) -> Result<Reply, Failure> {
    let terminal = args.output.is_none() && io::stdout().is_terminal();
    if terminal {
        return Err(refused(
            "a cubin is not text for a terminal",
            "name a file with -o FILE, or redirect standard output",
        ));
    }
    let Some(assembler) = Assembler::find() else {
        return Err(refused(
            "--cubin needs ptxas, which is neither in $PTXAS nor in the path",
            "set PTXAS to that of a CUDA toolkit; without it, `gemmc ptx` prints what the driver assembles",
        ));
    };
    let cubin = assembler.cubin(kernel.ptx(), kernel.target()).map_err(|said| {
        let message = format!("ptxas {} does not take it for {}: {said}", assembler.version(), kernel.target());
        Failure::refused("ptxas", message)
    })?;
    match &args.output {
        Some(path) => source::write(path, &cubin)?,
        None => io::stdout()
            .lock()
            .write_all(&cubin)
            .map_err(|error| Failure::refused("file", format!("standard output: {error}")))?,
    }
    Ok(Reply::fine(String::new(), json!({ "bytes": cubin.len() })))
}

fn refused(message: &str, help: &str) -> Failure {
    Failure::Other { clause: "cubin", message: message.into(), help: Some(help.into()), status: Status::Refused }
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
