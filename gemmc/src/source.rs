//! Where a schedule comes from: a file, a case, the command line, or standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ptx_gemm::{Diagnostics, Plan, Schedule};
use ptx_gemm_check::case;

use crate::cli::{Compile, Source};
use crate::reply::Failure;

/// Schedule text is at most 64 KiB; reading a little more is enough for the parser to say so.
const MAX_BYTES: u64 = (64 << 10) + 1;

/// A schedule and its plan, from the command line.
pub(crate) struct Loaded {
    pub(crate) schedule: Schedule,
    pub(crate) plan: Plan,
    name: String,
}

impl Loaded {
    /// What is worth knowing about the schedule.
    pub(crate) fn notes(&self) -> Result<Diagnostics, Failure> {
        let notes = self.schedule.check().map_err(|errors| errors.named(&self.name))?;
        Ok(notes.named(&self.name))
    }
}

/// Reads, parses and plans a schedule. What is wrong with it comes with the name of its file.
pub(crate) fn load(args: &Compile) -> Result<Loaded, Failure> {
    let (name, text) = text(&args.source)?;
    let planned = text.parse::<Schedule>().and_then(|schedule| {
        let plan = schedule.plan(args.target)?;
        Ok((schedule, plan))
    });
    let (schedule, plan) = planned.map_err(|errors| errors.named(&name))?;
    Ok(Loaded { schedule, plan, name })
}

/// The name to show in diagnostics, and the text.
fn text(source: &Source) -> Result<(String, String), Failure> {
    match (&source.clauses, &source.source) {
        (Some(text), _) => Ok(("-e".into(), text.clone())),
        (None, Some(name)) if name == "-" => Ok(("stdin".into(), read(io::stdin(), "standard input")?)),
        (None, Some(name)) => named(name),
        (None, None) => Err(Failure::refused("usage", "no schedule: name a .gemm file or a case, or use -e 'clauses'")),
    }
}

/// A file if there is one of that name or it looks like a path, else a case.
fn named(name: &OsStr) -> Result<(String, String), Failure> {
    let path = Path::new(name);
    let shown = name.to_string_lossy().into_owned();
    if path.is_file() || path.extension().is_some() || path.components().count() > 1 {
        let file = File::open(path).map_err(|error| Failure::refused("file", format!("{shown}: {error}")))?;
        let text = read(file, &shown)?;
        return Ok((shown, text));
    }
    match name.to_str().and_then(case) {
        Some(case) => Ok((format!("case {shown}"), case.text.into())),
        None => Err(Failure::Other {
            clause: "file",
            message: format!("`{shown}` is no file and no case"),
            help: Some("`gemmc cases` lists the cases; clauses by themselves go with -e".into()),
            status: crate::reply::Status::Refused,
        }),
    }
}

fn read(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| Failure::refused("file", format!("{name}: {error}")))?;
    // What is too long is refused for its length, wherever the cut falls.
    if bytes.len() as u64 == MAX_BYTES {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|_| Failure::refused("file", format!("{name} is not UTF-8 text")))
}
