//! Why a combination is left out.

use ptx_gemm::Diagnostics;
use serde::{Deserialize, Serialize};

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
