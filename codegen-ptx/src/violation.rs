//! A broken invariant. A verifier says what is wrong, and does not know who made it: a person who wrote the program, a pass
//! outside the compiler, or the compiler. Only what called the passes in order knows that it was the last ([`Source`]).

use std::fmt;

/// The part of a tile program that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The line of the module's types.
    Types,
    /// The line of the module's epilogue.
    Epilogue,
    /// The line of the tile's extents.
    Tile,
    /// The line of the parameters.
    Params,
    /// The lines of the tile scheduler: raster, persistence and parts.
    Scheduler,
    /// An operand that is packed.
    Pack(usize),
    /// The line of the planes that are multiplied.
    Walk,
    /// A buffer.
    Buffer(usize),
    /// A ring.
    Ring(usize),
    /// The stage of D.
    Stage,
    /// The arrival of C.
    Arrival,
    /// A named barrier.
    Barrier(usize),
    /// An ordered barrier of a role's groups.
    Turn(usize),
    /// A set of accumulators.
    Accumulator(usize),
    /// A role.
    Role(usize),
    /// The cluster reduction after the roles.
    Exchange,
    /// A statement: its role, then its index in each body, outermost first. Within `steps`, the fetches come first, and
    /// the multiply after them.
    Statement(Vec<usize>),
}

/// What the compiler was given, and what is right if the compiler makes something wrong of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A plan, which follows from a schedule.
    Schedule,
    /// Tile programs, which a verifier has accepted.
    Programs,
}

/// The violation that a verifier found, and its level. Boxed, since every pass may return it and it is rare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(Box<Found>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    level: &'static str,
    message: String,
    /// What the compiler made it of; `None` if it need not be the compiler's.
    made_of: Option<Source>,
    within: Option<String>,
    text: Option<String>,
    entry: Option<usize>,
    site: Option<Site>,
}

impl Violation {
    /// A violation of a rule of the named level.
    pub fn new(level: &'static str, message: String) -> Violation {
        Violation(Box::new(Found { level, message, made_of: None, within: None, text: None, entry: None, site: None }))
    }

    /// Adds the statement, unless an inner one was added already.
    pub fn within(mut self, statement: fmt::Arguments<'_>) -> Violation {
        self.0.within.get_or_insert_with(|| statement.to_string());
        self
    }

    /// Adds the part of the program, unless an inner one was added already.
    pub fn at(mut self, site: Site) -> Violation {
        self.0.site.get_or_insert(site);
        self
    }

    /// Says that the compiler made it, of something that is right.
    pub(crate) fn made_of(mut self, source: Source) -> Violation {
        self.0.made_of = Some(source);
        self
    }

    /// Adds the entry.
    pub fn in_entry(mut self, entry: usize) -> Violation {
        self.0.entry.get_or_insert(entry);
        self
    }

    /// Adds the text of the program that breaks the rule, unless an inner one was added already.
    pub fn with_text(mut self, text: String) -> Violation {
        self.0.text.get_or_insert(text);
        self
    }

    /// The index of the entry, if it is known.
    pub fn entry(&self) -> Option<usize> {
        self.0.entry
    }

    /// The part of the program, if it is known.
    pub fn site(&self) -> Option<&Site> {
        self.0.site.as_ref()
    }

    /// That the compiler is wrong, if it is, before what it did.
    pub(crate) fn blame(&self) -> &'static str {
        match self.0.made_of {
            Some(Source::Schedule) => "this is a bug in the compiler, not in the schedule: ",
            Some(Source::Programs) => "this is a bug in the compiler, not in the tile programs: ",
            None => "",
        }
    }

    /// The rule that is broken, and the statement that breaks it.
    pub fn reason(&self) -> String {
        match &self.0.within {
            Some(within) => format!("{} (in `{within}`)", self.0.message),
            None => self.0.message.clone(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}the {} verifier found {}", self.blame(), self.0.level, self.reason())?;
        match &self.0.text {
            Some(text) => write!(f, "\n{text}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::{Source, Violation};

    #[test]
    fn the_compiler_is_named_where_it_made_the_mistake() {
        let found = || Violation::new("kernel IR", "a load out of bounds".into()).with_text("kernel gemm_v1".into());
        let own = "the kernel IR verifier found a load out of bounds\nkernel gemm_v1";
        assert_eq!(found().to_string(), own);
        let compiled = found().made_of(Source::Programs).made_of(Source::Schedule).to_string();
        assert_eq!(compiled, format!("this is a bug in the compiler, not in the schedule: {own}"));
    }
}
