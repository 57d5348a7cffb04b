//! `gemmc check`: everything that is wrong with a schedule, or worth knowing.

use serde_json::json;

use crate::cli::Compile;
use crate::reply::{Failure, Reply, diagnostic};
use crate::source;

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let loaded = source::load(args)?;
    let (target, notes) = (loaded.plan.target, loaded.notes()?);
    let mut text = notes.to_string();
    text.push_str(&format!("legal for {target}\n"));
    let notes: Vec<_> = notes.iter().map(diagnostic).collect();
    Ok(Reply::fine(text, json!({ "ok": true, "target": target.to_string(), "notes": notes })))
}
