//! Why a combination is left out.

use ptx_gemm::Diagnostics;
use ptx_gemm_choose::{Search, estimate, target};
use ptx_gemm_dsl::Combination;

/// Why a combination is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Illegal {
    /// Why a combination breaks this rule.
    pub(super) fn of(rule: &str, combination: &Combination, search: &Search) -> Option<Illegal> {
        let explained = |errors: &Diagnostics| {
            let error = errors.errors().find(|error| error.rule == rule)?;
            Some(Illegal { rule: rule.into(), message: error.message.clone(), help: error.help.clone() })
        };
        let schedule = match search.schedule(combination) {
            Ok(schedule) => schedule,
            Err(errors) => return explained(&errors),
        };
        match schedule.plan(search.target.or_else(|| target(&schedule, search.gpu))) {
            Ok(plan) => estimate(&plan, search.size, search.gpu).err().map(|unsuited| Illegal {
                rule: unsuited.rule.into(),
                message: unsuited.message,
                help: None,
            }),
            Err(errors) => explained(&errors),
        }
    }
}
