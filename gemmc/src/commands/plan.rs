//! `gemmc plan`: every number that follows from a schedule.

use serde_json::Value;

use crate::cli::Compile;
use crate::reply::{Failure, Reply, Status};
use crate::source::{self, Loaded};

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let Loaded::Schedule { plan, .. } = source::load(args)? else {
        return Err(Failure::Other {
            clause: "plan",
            message: "a plan is what follows from a schedule, and a .tile file has none: its text says every number"
                .into(),
            help: Some(
                "`gemmc ptx --json` shows how it is launched, `gemmc ir --level kernel` what it is lowered to".into(),
            ),
            status: Status::Refused,
        });
    };
    let json = serde_json::to_value(&plan).unwrap_or(Value::Null);
    Ok(Reply::fine(plan.to_string(), json))
}
