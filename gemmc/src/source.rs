//! Where a schedule comes from: a file, a case, the command line, or standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ptx_gemm::Schedule;
use ptx_gemm_check::case;

use crate::cli::Source;
use crate::reply::Failure;

/// Schedule text is at most 64 KiB; reading a little more is enough for the parser to say so.
const MAX_BYTES: u64 = (64 << 10) + 1;

/// Reads and parses the schedule. Its diagnostics name the file.
pub(crate) fn schedule(source: &Source) -> Result<Schedule, Failure> {
    let (name, text) = text(source)?;
    text.parse::<Schedule>().map_err(|errors| errors.named(name).into())
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
