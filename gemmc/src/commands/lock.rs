//! `gemmc lock check`: which entries this compiler would no longer make.

use ptx_gemm_choose::{Entry, Gpu, Lock};
use serde_json::{Value, json};

use super::pick::lock;
use super::tune::ptx;
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
    let (mut text, mut stale, mut others) = (String::new(), Vec::new(), 0);
    for entry in lock.entries() {
        let Some(gpu) = Gpu::find(&entry.gpu) else {
            others += 1;
            continue;
        };
        if let Some(why) = wrong(entry, gpu) {
            let (size, problem) = (entry.size.to_string(), entry.problem.one_line());
            text.push_str(&format!("{} {size} {problem}: {why}\n", entry.gpu));
            stale.push(json!({ "gpu": entry.gpu, "size": size, "problem": problem, "why": why }));
        }
    }
    let (all, count) = (lock.entries().len(), stale.len());
    text.push_str(&format!("{name}: {count} of {all} entries are stale\n"));
    if others > 0 {
        text.push_str(&format!("not checked: {others}, of GPUs that are not known by name\n"));
    }
    if count > 0 {
        text.push_str("gemmc tune measures products again, and replaces their entries\n");
    }
    let status = if count == 0 { Status::Fine } else { Status::Wrong };
    let json = json!({ "ok": count == 0, "entries": all, "unchecked": others, "stale": Value::from(stale) });
    Ok(Reply { text, json, status })
}

/// What is wrong with an entry.
fn wrong(entry: &Entry, gpu: &Gpu) -> Option<String> {
    match ptx(&entry.schedule(), gpu) {
        Ok(ptx) if ptx == entry.ptx => None,
        Ok(ptx) => Some(format!("its PTX is {ptx:016x} now, not {:016x}", entry.ptx)),
        Err(error) => Some(error.to_string().trim_end().replace('\n', "; ")),
    }
}
