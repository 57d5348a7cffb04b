//! `gemmc check --fix`: applies the fixes that work.

use ptx_gemm::Diagnostic;
use ptx_gemm_dsl::repair::{Repair, repair};
use serde_json::json;

use crate::cli::Compile;
use crate::reply::{Failure, Format, Reply, Status, complain, diagnostic, styled};
use crate::source::{self, Kind, Text};

pub(super) fn run(args: &Compile, format: Format) -> Result<Reply, Failure> {
    let Text { name, text, kind, path } = source::text(&args.source)?;
    if kind == Kind::Tile {
        return Err(Failure::refused("fix", format!("{name}: only schedules have fixes, and this is a .tile file")));
    }
    let repair = repair(&text, args.target);
    let said = summary(&name, &repair);
    let from_file = path.is_some();
    if let Some(path) = path.filter(|_| repair.text != text) {
        source::write(&path, repair.text.as_bytes())?;
    }
    let left: Vec<_> = repair.left.errors().map(diagnostic).collect();
    let json = json!({
        "ok": repair.is_legal(),
        "changes": repair.changes.iter().map(diagnostic).collect::<Vec<_>>(),
        "text": repair.text,
        "errors": left,
    });
    if format == Format::Text {
        // For a schedule that is not in a file, the text goes to standard output, and the list of changes to standard
        // error.
        if !from_file {
            complain(&said);
        }
        if !repair.is_legal() {
            complain(&styled(&repair.left.clone().named(&name)));
        }
    }
    let status = if repair.is_legal() { Status::Fine } else { Status::Refused };
    let text = if from_file { said } else { ended(repair.text) };
    Ok(Reply { text, json, status })
}

/// The changes, one per line.
fn summary(name: &str, repair: &Repair) -> String {
    let mut text = String::new();
    for Diagnostic { message, help, .. } in &repair.changes {
        let help = help.as_ref().map_or(String::new(), |help| format!(": {help}"));
        text.push_str(&format!("fixed {message}{help}\n"));
    }
    let (fixed, left) = (repair.changes.len(), repair.left.errors().count());
    let verdict = match (fixed, left) {
        (0, 0) => "nothing to fix".into(),
        (0, _) => "no fix is offered that leaves fewer errors".into(),
        (_, 0) => format!("legal after {}", count(fixed, "fix", "fixes")),
        _ => format!("{} left after {}", count(left, "error is", "errors are"), count(fixed, "fix", "fixes")),
    };
    text.push_str(&format!("{name}: {verdict}\n"));
    text
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn ended(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}
