//! A broken invariant of the compiler: never the user's fault.

use std::fmt;

/// What a verifier found wrong, at which level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    level: &'static str,
    message: String,
    within: Option<String>,
    text: Option<String>,
}

impl Violation {
    /// A violation of a rule of the named level.
    pub fn new(level: &'static str, message: String) -> Violation {
        Violation { level, message, within: None, text: None }
    }

    /// Names the statement; the innermost one stays.
    pub fn within(mut self, statement: fmt::Arguments<'_>) -> Violation {
        self.within.get_or_insert_with(|| statement.to_string());
        self
    }

    /// Attaches the text of the program that breaks the rule.
    pub fn with_text(mut self, text: String) -> Violation {
        self.text = Some(text);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this is a bug in the compiler, not in the schedule: the {} verifier found {}",
            self.level, self.message
        )?;
        if let Some(within) = &self.within {
            write!(f, " (in `{within}`)")?;
        }
        match &self.text {
            Some(text) => write!(f, "\n{text}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Violation {}
