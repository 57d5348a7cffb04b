//! `gemmc check`: everything that is wrong with a program, or worth knowing.

use serde_json::json;

use crate::cli::Compile;
use crate::reply::{Failure, Reply, contract, diagnostic};
use crate::source;

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let loaded = source::load(args)?;
    let (target, notes) = (loaded.target(), loaded.notes()?);
    let mut text = notes.to_string();
    let contracts = loaded.kernel()?.contracts();
    contracts.iter().for_each(|contract| text.push_str(&format!("{contract}\n")));
    text.push_str(&format!("legal for {target}\n"));
    let notes: Vec<_> = notes.iter().map(diagnostic).collect();
    let contracts: Vec<_> = contracts.iter().map(contract).collect();
    let json = json!({ "ok": true, "target": target.to_string(), "notes": notes, "contracts": contracts });
    Ok(Reply::fine(text, json))
}
