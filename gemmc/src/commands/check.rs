//! `gemmc check`: everything that is wrong with a program, or worth knowing; with `--fix`, after the fixes were
//! applied.

mod fix;

use std::path::Path;

use ptx_gemm::TextError;
use ptx_gemm_check::exec::{legal, unsupported};
use ptx_gemm_choose::fill_for;
use ptx_gemm_dsl::open::Filled;
use serde_json::json;

use super::exec;
use crate::cli::{Check, Compile};
use crate::reply::{Failure, Format, Reply, Status, complain, contract, diagnostic, styled};
use crate::source::{self, Kind, Text};

pub(crate) fn run(args: &Check, format: Format) -> Result<Reply, Failure> {
    let programs = args.programs();
    let each = |compile: &Compile| match args.fix {
        Some(_) if ptx_file(compile).is_some() => {
            Err(Failure::refused("usage", "--fix is for schedules, and PTX has no fixes"))
        }
        None if ptx_file(compile).is_some() => ptx(compile),
        Some(fixes) => fix::run(compile, fixes, format),
        None if args.fill => fill(compile),
        None => checked(compile),
    };
    match programs.as_slice() {
        [one] => each(one),
        several => Ok(all(several, each, format)),
    }
}

/// Several programs, each with its own answer, whatever is wrong with the others.
fn all(programs: &[Compile], each: impl Fn(&Compile) -> Result<Reply, Failure>, format: Format) -> Reply {
    let (mut text, mut list, mut status) = (String::new(), Vec::new(), Status::Fine);
    for compile in programs {
        let name = compile.source.source.as_ref().map_or("-e".into(), |name| name.to_string_lossy());
        let (mut json, one) = match each(compile) {
            Ok(reply) => {
                reply.text.lines().for_each(|line| text.push_str(&format!("{name}: {line}\n")));
                (reply.json, reply.status)
            }
            Err(failure) => {
                if format == Format::Text {
                    complain(&failure.text());
                }
                (json!({ "ok": false, "errors": failure.errors() }), failure.status())
            }
        };
        json["name"] = name.into();
        list.push(json);
        status = status.worse(one);
    }
    Reply { text, json: json!({ "programs": list }), status }
}

/// The PTX file that is to be checked, if it is one.
fn ptx_file(compile: &Compile) -> Option<&Path> {
    let path = Path::new(compile.source.source.as_ref()?);
    path.extension().is_some_and(|extension| extension == "ptx").then_some(path)
}

/// What an assembler would refuse, and what the interpreter does not execute.
fn ptx(compile: &Compile) -> Result<Reply, Failure> {
    let path = ptx_file(compile).unwrap_or(Path::new(""));
    let text = exec::text(path)?;
    let target = legal(&text).map_err(|errors| exec::broken(path, &text, errors))?;
    let mut told = String::new();
    let unsupported = unsupported(&text);
    for TextError { line, column, message } in &unsupported {
        told.push_str(&format!("{}:{line}:{column}: not executed here: {message}\n", path.display()));
    }
    let but = if unsupported.is_empty() { "" } else { ", but for what is not known here" };
    told.push_str(&format!("legal for {target}{but}\n"));
    let list: Vec<_> = unsupported
        .iter()
        .map(|TextError { line, column, message }| json!({ "line": line, "column": column, "message": message }))
        .collect();
    Ok(Reply::fine(told, json!({ "ok": true, "target": target, "unsupported": list })))
}

/// The text with chosen values in the place of open ones.
fn fill(compile: &Compile) -> Result<Reply, Failure> {
    let Text { name, text, kind, path } = source::text(&compile.source)?;
    if kind == Kind::Tile {
        return Err(Failure::refused("fill", format!("{name}: nothing is open in tile programs")));
    }
    let filled = fill_for(&text, compile.target, compile.gpu).map_err(|errors| errors.named(&name))?;
    let note = filled.schedule.filled();
    let said = match note {
        Some(note) => format!("{name}: {note}\n"),
        None => format!("{name}: nothing is open\n"),
    };
    let json = json!({ "ok": true, "filled": note, "clauses": note.map(Filled::text), "text": filled.text });
    match path {
        Some(path) if filled.text != text => source::write(&path, &filled.text)?,
        Some(_) => {}
        None => return Ok(Reply::fine(filled.text.trim_end().to_owned() + "\n", json)),
    }
    Ok(Reply::fine(said, json))
}

fn checked(compile: &Compile) -> Result<Reply, Failure> {
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
