//! `gemmc check`: everything that is wrong with a program, or worth knowing; with `--fix`, after the fixes were
//! applied.

mod fix;

use serde_json::json;

use crate::cli::Check;
use crate::reply::{Failure, Format, Reply, contract, diagnostic, styled};
use crate::source;

pub(crate) fn run(Check { compile, fix }: &Check, format: Format) -> Result<Reply, Failure> {
    if let Some(fixes) = fix {
        return fix::run(compile, *fixes, format);
    }
    let loaded = source::load(compile)?;
    let (target, notes) = (loaded.target(), loaded.notes()?);
    let mut text = styled(&notes);
    let contracts = loaded.kernel()?.contracts();
    contracts.iter().for_each(|contract| text.push_str(&format!("{contract}\n")));
    text.push_str(&format!("legal for {target}\n"));
    let notes: Vec<_> = notes.iter().map(diagnostic).collect();
    let contracts: Vec<_> = contracts.iter().map(contract).collect();
    let json = json!({ "ok": true, "target": target.to_string(), "notes": notes, "contracts": contracts });
    Ok(Reply::fine(text, json))
}
