//! Claims of the selftest other than correct products, and their results.

use std::fmt::Write;
use std::time::{Duration, Instant};

use ptx_gemm::Error;
use serde_json::{Value, json};

/// A claim that was tested.
pub(crate) struct Claim {
    name: &'static str,
    time: Duration,
    answer: Answer,
}

/// A description of the observation, or why the claim failed.
pub(crate) type Answer = Result<String, Trouble>;

/// The result of a claim that did not succeed.
pub(crate) enum Trouble {
    Wrong(String),
    /// This machine cannot show it.
    Skipped(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Wrong(error.to_string())
    }
}

/// An unexpected failure of the driver or the system.
pub(crate) fn failed(doing: &str) -> impl Fn(&dyn std::fmt::Debug) -> Trouble + '_ {
    move |error| Trouble::Wrong(format!("{doing}: {error:?}"))
}

/// `Ok` if a condition holds.
pub(crate) fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Trouble> {
    if holds { Ok(()) } else { Err(Trouble::Wrong(otherwise())) }
}

impl Claim {
    pub(crate) fn test(name: &'static str, test: impl FnOnce() -> Answer) -> Claim {
        let start = Instant::now();
        let answer = test();
        Claim { name, time: start.elapsed(), answer }
    }

    pub(crate) fn holds(&self) -> bool {
        !matches!(self.answer, Err(Trouble::Wrong(_)))
    }

    /// Whether this machine cannot show it, so that nothing was tested.
    pub(crate) fn is_skipped(&self) -> bool {
        matches!(self.answer, Err(Trouble::Skipped(_)))
    }

    fn words(&self) -> (&'static str, &str) {
        match &self.answer {
            Ok(words) => ("right", words),
            Err(Trouble::Wrong(words)) => ("WRONG", words),
            Err(Trouble::Skipped(words)) => ("skipped", words),
        }
    }

    pub(crate) fn line(&self, text: &mut String) {
        let (verdict, words) = self.words();
        let _ = writeln!(text, "{:28} {:>9.2} {verdict:8} {words}", self.name, self.time.as_secs_f64());
    }

    pub(crate) fn json(&self) -> Value {
        let (verdict, words) = self.words();
        json!({ "name": self.name, "seconds": self.time.as_secs_f64(), "verdict": verdict, "words": words })
    }
}
