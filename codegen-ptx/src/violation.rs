//! A broken invariant: of the compiler, if the program came from a plan; of the program, if somebody wrote it.

use std::fmt;

/// The part of a tile program that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The line of the tile's extents.
    Tile,
    /// The line of the parameters.
    Params,
    /// The lines of the walk.
    Walk,
    /// A buffer.
    Buffer(usize),
    /// A ring.
    Ring(usize),
    /// A named barrier.
    Barrier(usize),
    /// A set of accumulators.
    Accumulator(usize),
    /// A role.
    Role(usize),
    /// A statement: its role, then its place in each body from the outermost on. Within `steps`, the fetches are numbered
    /// first, and the multiply after them.
    Statement(Vec<usize>),
}

/// What a verifier found wrong, at which level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    level: &'static str,
    message: String,
    within: Option<Box<str>>,
    text: Option<Box<str>>,
    entry: Option<usize>,
    site: Option<Site>,
}

impl Violation {
    /// A violation of a rule of the named level.
    pub fn new(level: &'static str, message: String) -> Violation {
        Violation { level, message, within: None, text: None, entry: None, site: None }
    }

    /// Names the statement; the innermost one stays.
    pub fn within(mut self, statement: fmt::Arguments<'_>) -> Violation {
        self.within.get_or_insert_with(|| statement.to_string().into());
        self
    }

    /// Says which part of the program it is; the innermost one stays.
    pub fn at(mut self, site: Site) -> Violation {
        self.site.get_or_insert(site);
        self
    }

    /// Says which entry it is.
    pub fn in_entry(mut self, entry: usize) -> Violation {
        self.entry.get_or_insert(entry);
        self
    }

    /// Attaches the text of the program that breaks the rule; the innermost one stays.
    pub fn with_text(mut self, text: String) -> Violation {
        self.text.get_or_insert(text.into());
        self
    }

    /// The number of the entry, if it is known.
    pub fn entry(&self) -> Option<usize> {
        self.entry
    }

    /// The part of the program, if it is known.
    pub fn site(&self) -> Option<&Site> {
        self.site.as_ref()
    }

    /// The rule that is broken, and by which statement.
    pub fn reason(&self) -> String {
        match &self.within {
            Some(within) => format!("{} (in `{within}`)", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is a bug in the compiler, not in the schedule: the {} verifier found {}", self.level, self.reason())?;
        match &self.text {
            Some(text) => write!(f, "\n{text}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Violation {}
