//! `gemmc fmt`: schedules in their canonical form.

use std::ffi::OsString;

use ptx_gemm_dsl::format::format;
use serde_json::{Value, json};

use crate::cli::{Fmt, Source};
use crate::reply::{Failure, Reply, Status};
use crate::source::{self, Kind, Text};

pub(crate) fn run(args: &Fmt) -> Result<Reply, Failure> {
    let one = |source: Option<OsString>| Source { source, clauses: args.clauses.clone() };
    let sources: Vec<Source> = match args.clauses {
        Some(_) => vec![one(None)],
        None => args.files.iter().map(|file| one(Some(file.clone()))).collect(),
    };
    // Nothing is written before all can be read.
    let all = sources.iter().map(formatted).collect::<Result<Vec<_>, _>>()?;
    let (mut text, mut list, mut changes) = (String::new(), Vec::<Value>::new(), 0);
    for (Text { name, text: before, path, .. }, after) in &all {
        let changed = before != after;
        changes += usize::from(changed);
        list.push(json!({ "name": name, "changed": changed, "text": after }));
        match path {
            _ if args.check && changed => text.push_str(&format!("{name} is not in its canonical form\n")),
            _ if args.check => {}
            Some(path) if changed => {
                source::write(path, after.as_bytes())?;
                text.push_str(&format!("formatted {name}\n"));
            }
            Some(_) => {}
            None => text.push_str(after),
        }
    }
    let status = if args.check && changes > 0 { Status::Refused } else { Status::Fine };
    Ok(Reply { text, json: json!({ "changed": changes, "schedules": list }), status })
}

fn formatted(source: &Source) -> Result<(Text, String), Failure> {
    let text = source::text(source)?;
    if text.kind == Kind::Tile {
        return Err(Failure::refused(
            "fmt",
            format!("{}: a .tile file is formatted by `gemmc ir --level tile`", text.name),
        ));
    }
    let after = format(&text.text).map_err(|errors| errors.named(&text.name))?;
    Ok((text, after))
}
