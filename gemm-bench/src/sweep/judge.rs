//! Judges one combination: legal, with an estimate, or illegal, with the reason.

use std::sync::{Mutex, PoisonError};

use ptx_gemm::Target;
use ptx_gemm_dsl::Combination;

use crate::suites::Size;
use crate::sweep::keep::{Kept, Record};
use crate::sweep::{Candidate, Gpu, Illegal, estimate, target};

/// Checks a combination and estimates its time, unless both are in `kept`.
///
/// # Errors
///
/// Returns why it is illegal, or why it does not run this product on this GPU.
pub(super) fn judge(
    combination: &Combination,
    size: Size,
    gpu: &Gpu,
    wanted: Option<Target>,
    kept: &Mutex<&mut Kept>,
) -> Result<Candidate, Illegal> {
    let locked = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    let schedule = combination.schedule()?;
    let text = schedule.to_string().trim_end().replace('\n', " ");
    let key = Kept::counted(&text, size, gpu, wanted);
    let known = locked().get(&key).cloned();
    let verdict = match known {
        Some(Record::Estimate(estimate)) => Ok(estimate),
        Some(Record::Illegal(reason)) => Err(reason),
        _ => {
            let planned = schedule.plan(wanted.or_else(|| target(&schedule, gpu))).map_err(Illegal::from);
            let verdict = planned.and_then(|plan| {
                estimate(&plan, size, gpu).map_err(|unsuited| Illegal {
                    rule: unsuited.rule.into(),
                    message: unsuited.message,
                    help: None,
                })
            });
            let record = match &verdict {
                Ok(estimate) => Record::Estimate(estimate.clone()),
                Err(reason) => Record::Illegal(reason.clone()),
            };
            locked().keep(key, record);
            verdict
        }
    };
    let estimate = verdict?;
    Ok(Candidate { index: combination.index(), schedule: text, estimate, timed: None })
}
