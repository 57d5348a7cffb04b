//! Errors of a `.tile` text, with positions.

use std::collections::HashMap;
use std::fmt;

use crate::Violation;
use crate::violation::Site;

/// An error in a `.tile` text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// All errors in a `.tile` text; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextErrors(pub Vec<TextError>);

impl fmt::Display for TextErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for TextErrors {}

/// The positions of a program's parts in its text.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// Line and column, by entry and part.
    pub(super) of: HashMap<(usize, Site), (usize, usize)>,
    /// Line and column of the entries.
    pub(super) entries: Vec<(usize, usize)>,
}

impl Positions {
    /// Adds the position of the part that broke a rule.
    pub fn locate(&self, violation: Violation) -> TextErrors {
        let entry = violation.entry().unwrap_or(0);
        let found = violation.site().and_then(|site| self.of.get(&(entry, site.clone())));
        let (line, column) = found.or(self.entries.get(entry)).copied().unwrap_or((1, 1));
        TextErrors(vec![TextError { line, column, message: format!("{}{}", violation.blame(), violation.reason()) }])
    }
}
