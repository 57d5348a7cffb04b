//! One entry per clause: its name, its kind, how it is written, and what it means.
//!
//! The grammar looks names up here, suggestions come from here, and so do the items of [`clauses`], `gemmc explain` and the
//! language reference ([`crate::reference`]).

use std::fmt;
use std::ops::RangeInclusive;

use crate::implemented;
use crate::schedule::Schedule;
use crate::suggest;
use crate::words::Word;

/// What a clause settles. A schedule settles a thing at most once; `double_buffer` and `stages` settle the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum Key {
    Types, Layout, Epilogue, Batch, Target, Tile, Warp, Thread, Fragment, Lanes, Atom, Vector, Shared, Operands, Load,
    Stages, Unroll, Order, Prefetch, Pace, BlocksPerSm, Spills, Raster, Persistent, SplitK, StreamK, Cluster, Multicast,
    Specialize, Registers, Store, Promote, Emulate, Tail, Expect,
}

/// A clause of the language.
#[derive(Debug)]
pub struct Info {
    /// Its name.
    pub name: &'static str,
    /// What it settles.
    pub key: Key,
    /// How it is written.
    pub signature: &'static str,
    /// What it is about, in a few words.
    pub summary: &'static str,
    /// What it means, in Markdown.
    pub meaning: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What may be written in it.
    pub arguments: &'static [Argument],
    /// The clause in use.
    pub example: &'static str,
    /// The other clauses of a small schedule that it is used in.
    pub base: &'static str,
}

/// What may be written in a place of a clause.
#[derive(Debug)]
pub struct Argument {
    /// The name of the place, or of several with the same values.
    pub name: &'static str,
    /// What may be written there.
    pub values: Values,
    /// A clause with `{}` in the place; empty for [`Values::Text`].
    pub template: &'static str,
}

/// The legal values of an argument.
#[derive(Clone, Debug)]
pub enum Values {
    /// Whole numbers.
    Range(RangeInclusive<u32>),
    /// Powers of two.
    Powers(RangeInclusive<u32>),
    /// Multiples of a number.
    Multiples(u32, RangeInclusive<u32>),
    /// These numbers.
    OneOf(&'static [u32]),
    /// Words, and whether the compiler knows them.
    Words(fn() -> Vec<(&'static str, bool)>),
    /// What words say better.
    Text(&'static str),
}

/// The words of a list, and whether the compiler knows them.
fn words<W: Word>() -> Vec<(&'static str, bool)> {
    W::TABLE.iter().map(|(word, value)| (*word, implemented::works(value))).collect()
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Range(range) => write!(f, "{} to {}", range.start(), range.end()),
            Values::Powers(range) => write!(f, "powers of two from {} to {}", range.start(), range.end()),
            Values::Multiples(of, range) => write!(f, "multiples of {of} from {} to {}", range.start(), range.end()),
            Values::OneOf(all) => {
                let all: Vec<String> = all.iter().map(u32::to_string).collect();
                f.write_str(&suggest::list(all.iter().map(String::as_str)))
            }
            Values::Words(words) => {
                let (known, lacking): (Vec<_>, Vec<_>) = words().into_iter().partition(|(_, works)| *works);
                let listed = |words: Vec<(&'static str, bool)>| suggest::list(words.into_iter().map(|(word, _)| word));
                match (known.is_empty(), lacking.is_empty()) {
                    (_, true) => f.write_str(&listed(known)),
                    (true, false) => f.write_str(&listed(lacking)),
                    (false, false) => write!(f, "{}; not implemented yet: {}", listed(known), listed(lacking)),
                }
            }
            Values::Text(text) => f.write_str(text),
        }
    }
}

/// What the compiler makes of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it works.
    Implemented,
    /// It works but for these words.
    Partly(Vec<&'static str>),
    /// It is part of the language, and refused.
    NotYet,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Implemented => f.write_str("implemented"),
            State::Partly(lacking) => {
                write!(f, "implemented, but for {}", suggest::list(lacking.iter().copied()).replace(" or ", " and "))
            }
            State::NotYet => f.write_str("not implemented yet"),
        }
    }
}

impl Info {
    /// The small schedule, without the clause and with it.
    pub fn schedules(&self) -> [String; 2] {
        // The rows are text that a test parses.
        let read = |text: &str| Schedule::read(text).items.into_iter().map(|item| item.clause);
        let with = |clauses: &str| read(clauses).fold(Schedule::new(), Schedule::clause);
        let (base, clause) = (with(self.base), with(self.example));
        [base.to_string(), base.with(clause).to_string()]
    }

    /// What the compiler makes of it.
    pub fn state(&self) -> State {
        if !implemented::has(self.key) {
            return State::NotYet;
        }
        let mut lacking = implemented::lacking(self.key).to_vec();
        for argument in self.arguments {
            if let Values::Words(words) = &argument.values {
                lacking.extend(words().into_iter().filter(|(_, works)| !works).map(|(word, _)| word));
            }
        }
        let mut seen = Vec::new();
        lacking.retain(|word| {
            !seen.contains(word) && {
                seen.push(*word);
                true
            }
        });
        if lacking.is_empty() { State::Implemented } else { State::Partly(lacking) }
    }
}

/// The clause of this name.
pub fn find(name: &str) -> Option<&'static Info> {
    ALL.iter().find(|info| info.name == name)
}

/// The clause that settles `key` (for stages, `stages`).
pub fn of(key: Key) -> &'static Info {
    ALL.iter().find(|info| info.key == key).unwrap_or(&ALL[0])
}

macro_rules! clauses {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident $key:ident {
            syntax: $syntax:literal,
            summary: $summary:literal,
            default: $default:literal,
            arguments: [$($argument:literal in $template:literal => $values:expr),* $(,)?],
            example: $example:literal in $base:literal,
        }
    )+) => {
        /// Every clause, in the order of the documentation.
        pub static ALL: &[Info] = &[$(Info {
            name: stringify!($name),
            key: Key::$key,
            signature: $syntax,
            summary: $summary,
            meaning: concat!($($doc, "\n"),*),
            default: $default,
            arguments: &[$(Argument { name: $argument, values: $values, template: $template }),*],
            example: $example,
            base: $base,
        }),+];

        /// The clauses of the language, one documented item each.
        ///
        /// Nobody needs these items: the macro mentions the item of each clause that a schedule uses, so that an editor
        /// shows what the clause means where the user wrote it.
        #[allow(non_camel_case_types)]
        pub mod clauses {
            $(
                #[doc = concat!("`", $syntax, "`\n\n")]
                $(#[doc = $doc])*
                #[doc = concat!("\n\nDefault: ", $default, ".\n\n```text\n", $base, "; ", $example, "\n```")]
                pub struct $name;
            )+
        }
    };
}

mod rows;

pub use rows::{ALL, clauses};
