//! `gemmc cases`: the kernels that the project started from, and those that show its own mechanisms, as schedules.

use ptx_gemm_check::cases;
use serde_json::{Value, json};

use crate::reply::{Failure, Reply};

pub(crate) fn run() -> Result<Reply, Failure> {
    let mut text = String::new();
    let mut list: Vec<Value> = Vec::new();
    for case in cases() {
        let schedule = case.schedule().map_err(|errors| errors.named(case.name))?;
        let clauses = schedule.to_string();
        let one_line: Vec<&str> = clauses.lines().collect();
        let (origin, point) = (case.origin(), case.point());
        text.push_str(&format!("{:20} {origin}\n", case.name));
        for line in [point, one_line.join(" ")].iter().filter(|line| !line.is_empty()) {
            text.push_str(&format!("{:20}   {line}\n", ""));
        }
        list.push(json!({ "name": case.name, "origin": case.origin(), "point": case.point(), "clauses": clauses }));
    }
    Ok(Reply::fine(text, json!({ "cases": list })))
}
