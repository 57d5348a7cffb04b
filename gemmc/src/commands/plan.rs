//! `gemmc plan`: every number that follows from a schedule.

use serde_json::Value;

use crate::cli::Compile;
use crate::reply::{Failure, Reply, Status, contract};
use crate::source::{self, Loaded};

pub(crate) fn run(args: &Compile) -> Result<Reply, Failure> {
    let loaded = source::load(args)?;
    let Loaded::Schedule { plan, .. } = &loaded else {
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
    let (mut text, mut json) = (plan.to_string(), serde_json::to_value(plan).unwrap_or(Value::Null));
    if !plan.expect.is_empty() {
        // Some are about machine code, which is not part of the plan.
        let contracts = loaded.kernel()?.contracts();
        text.push_str("\ncontracts\n");
        contracts.iter().for_each(|contract| text.push_str(&format!("  {contract}\n")));
        json["contracts"] = contracts.iter().map(contract).collect();
    }
    Ok(Reply::fine(text, json))
}
