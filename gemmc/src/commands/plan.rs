//! `gemmc plan`: every number that follows from a schedule.

use serde_json::Value;

use crate::cli::Compile;
use crate::reply::{Failure, Reply};
use crate::source;

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let plan = source::load(args)?.plan;
    let json = serde_json::to_value(&plan).unwrap_or(Value::Null);
    Ok(Reply::fine(plan.to_string(), json))
}
