//! One combination: legal, with an estimate, or not, with the reason.

use std::sync::{Mutex, PoisonError};

use ptx_gemm::{Diagnostics, Target};
use ptx_gemm_dsl::Combination;
use serde::{Deserialize, Serialize};

use crate::suites::Size;
use crate::sweep::cost::estimate;
use crate::sweep::keep::{Kept, Record};
use crate::sweep::{Candidate, Gpu, target};

/// Why a combination is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Illegal {
    /// The first rule that it breaks.
    pub rule: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl std::fmt::Display for Illegal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}; {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl From<Diagnostics> for Illegal {
    /// The first error: a combination is counted once.
    fn from(errors: Diagnostics) -> Illegal {
        let first = errors.errors().next().cloned();
        let (rule, message) = first.as_ref().map_or(("", ""), |first| (first.rule, first.message.as_str()));
        Illegal {
            rule: rule.into(),
            message: message.into(),
            help: first.as_ref().and_then(|first| first.help.clone()),
        }
    }
}

/// Checks a combination and estimates its time, unless `kept` knows both.
///
/// # Errors
///
/// Why it is illegal, or does not run that product on that GPU.
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
