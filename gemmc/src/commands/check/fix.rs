//! `gemmc check --fix`: applies the fixes that work.

use ptx_gemm::Diagnostic;
use ptx_gemm_dsl::diagnostic::Change;
use ptx_gemm_dsl::repair::{Repair, Repaired, Replaced, Scope, repair};
use serde_json::{Value, json};

use crate::cli::{Compile, Fixes};
use crate::reply::{Failure, Format, Reply, Status, complain, diagnostic, styled};
use crate::source::{self, Kind, Text};

pub(super) fn run(args: &Compile, fixes: Fixes, format: Format) -> Result<Reply, Failure> {
    let Text { name, text, kind, path } = source::text(&args.source)?;
    if kind == Kind::Tile {
        return Err(Failure::refused("fix", format!("{name}: only schedules have fixes, and this is a .tile file")));
    }
    let scope = match fixes {
        Fixes::Method => Scope::Method,
        Fixes::All => Scope::All,
    };
    let repair = repair(&text, args.target, scope);
    let said = summary(&name, &repair);
    let from_file = path.is_some();
    if let Some(path) = path.filter(|_| repair.text != text) {
        source::write(&path, repair.text.as_bytes())?;
    }
    let json = json!({
        "ok": repair.is_legal(),
        "changes": repair.changes.iter().map(change).collect::<Vec<_>>(),
        "withheld": repair.withheld().map(diagnostic).collect::<Vec<_>>(),
        "text": repair.text,
        "errors": repair.left.errors().map(diagnostic).collect::<Vec<_>>(),
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

/// A repaired error, with the clauses that it changed of what the user asks for.
fn change(Repaired { error, given }: &Repaired) -> Value {
    let replaced = |Replaced { change: Change { clause, group }, before, after }: &Replaced| json!({ "clause": clause, "group": group, "before": before, "after": after });
    let mut object = diagnostic(error);
    object["replaced"] = given.iter().map(replaced).collect();
    object
}

/// The changes, one per line, each with what it changed of what the user asks for, and those that were not made.
fn summary(name: &str, repair: &Repair) -> String {
    let told = |Diagnostic { message, help, .. }: &Diagnostic| {
        format!("{message}{}", help.as_ref().map_or(String::new(), |help| format!(": {help}")))
    };
    let mut text = String::new();
    for Repaired { error, given } in &repair.changes {
        text.push_str(&format!("fixed {}\n", told(error)));
        for replaced in given {
            text.push_str(&format!("  changed {}: {replaced}\n", replaced.change.group.subject()));
        }
    }
    repair.withheld().for_each(|error| text.push_str(&format!("not applied {}\n", told(error))));
    let (fixed, left, withheld) = (repair.changes.len(), repair.left.errors().count(), repair.withheld().count());
    let verdict = match (fixed, left) {
        (0, 0) => "nothing to fix".into(),
        (0, _) if withheld > 0 => "nothing was changed".into(),
        (0, _) => "no fix is offered that leaves fewer errors".into(),
        (_, 0) => format!("legal after {}", count(fixed, "fix", "fixes")),
        _ => format!("{} left after {}", count(left, "error is", "errors are"), count(fixed, "fix", "fixes")),
    };
    text.push_str(&format!("{name}: {verdict}\n"));
    if withheld > 0 {
        let fixes = count(withheld, "fix changes", "fixes change");
        text.push_str(&format!(
            "{name}: {fixes} what is computed, the contracts or the target; `--fix=all` applies such changes, too\n"
        ));
    }
    text
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn ended(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}
