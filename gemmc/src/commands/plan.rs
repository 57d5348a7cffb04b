//! `gemmc plan`: every number that follows from a schedule.

use ptx_gemm::Kernel;
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
    if !plan.resources.expect.is_empty() {
        // Some contracts are about machine code, which is not part of the plan.
        let contracts = loaded.kernel()?.contracts();
        text.push_str("\ncontracts\n");
        contracts.iter().for_each(|contract| text.push_str(&format!("  {contract}\n")));
        json["contracts"] = contracts.iter().map(contract).collect();
    }
    if plan.sums.strassen.is_some() {
        let kernel = loaded.kernel()?;
        let (launches, bytes) = strassen(&kernel);
        text.push_str(&format!(
            "\nfor example, launches of {SIZE} x {SIZE} x {SIZE}, with a workspace of {bytes} bytes; `gemmc run` says that of any size\n"
        ));
        launches.iter().for_each(|launch| text.push_str(&format!("  {launch}\n")));
        json["launches"] = launches.into();
        json["workspace_bytes"] = bytes.into();
        // The workspace depends on the size.
        json["launches_of"] = [SIZE; 3].into_iter().collect();
    }
    Ok(Reply::fine(text, json))
}

/// The extents for the launches that are shown, and the blocks that a device holds at once: an H200's multiprocessors.
const SIZE: usize = 16384;
const BLOCKS: u32 = 132;

/// The launches of `strassen`, and the bytes of their workspace.
fn strassen(kernel: &Kernel) -> (Vec<String>, u64) {
    let launches = kernel.launches(SIZE, SIZE, SIZE).map(|plan| plan.to_string()).unwrap_or_default();
    (launches.lines().map(str::to_string).collect(), kernel.workspace_on(SIZE, SIZE, SIZE, BLOCKS))
}
