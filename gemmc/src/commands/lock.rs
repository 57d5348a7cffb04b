//! `gemmc lock check`: which entries this compiler would no longer make.

use ptx_gemm_choose::{Entry, Gpu, Lock};
use serde_json::{Value, json};

use super::pick::lock;
use super::tune::{flat, ptx};
use crate::cli::{self, LockCommand};
use crate::reply::{Failure, Reply, Status};

pub(crate) fn run(args: &cli::Lock) -> Result<Reply, Failure> {
    let LockCommand::Check(args) = &args.command;
    let read;
    let (name, lock) = match &args.lock {
        Some(path) => {
            read = lock(path)?;
            (path.display().to_string(), &read)
        }
        None => ("the library's entries".into(), Lock::shipped()),
    };
    let (mut text, mut stale) = (String::new(), Vec::new());
    for entry in lock.entries() {
        if let Some(why) = wrong(entry) {
            let (size, problem) = (entry.size.to_string(), flat(&entry.problem));
            text.push_str(&format!("{} {size} {problem}: {why}\n", entry.gpu));
            stale.push(json!({ "gpu": entry.gpu, "size": size, "problem": problem, "why": why }));
        }
    }
    let (all, count) = (lock.entries().len(), stale.len());
    text.push_str(&format!("{name}: {} of {all} entries are what this compiler makes\n", all - count));
    if count > 0 {
        text.push_str("gemmc tune times the others again\n");
    }
    let status = if count == 0 { Status::Fine } else { Status::Wrong };
    Ok(Reply { text, json: json!({ "ok": count == 0, "entries": all, "stale": Value::from(stale) }), status })
}

/// What is wrong with an entry.
fn wrong(entry: &Entry) -> Option<String> {
    let Some(gpu) = Gpu::find(&entry.gpu) else { return Some("its GPU is not known".into()) };
    match ptx(&entry.schedule(), gpu) {
        Ok(ptx) if ptx == entry.ptx => None,
        Ok(ptx) => Some(format!("its PTX is {ptx:016x} now, not {:016x}", entry.ptx)),
        Err(error) => Some(error.to_string().trim_end().replace('\n', "; ")),
    }
}
