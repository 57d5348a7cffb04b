//! The table of clauses: name, kind, notation and meaning of each.
//!
//! The grammar looks names up here, and suggestions, the items of [`clauses`], `gemmc explain` and the language
//! reference ([`crate::reference`]) are generated from it.

use std::fmt;
use std::ops::RangeInclusive;

use crate::implemented;
use crate::suggest;
use crate::words::Word;

pub use crate::keys::{Group, Key};

/// A clause of the language.
#[derive(Debug)]
pub struct Info {
    /// Its name.
    pub name: &'static str,
    /// The setting that it determines.
    pub key: Key,
    /// Its syntax.
    pub signature: &'static str,
    /// Its subject, in a few words.
    pub summary: &'static str,
    /// Its meaning, in Markdown.
    pub meaning: &'static str,
    /// The default without it.
    pub default: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The clause in use.
    pub example: &'static str,
    /// The other clauses of the example's small schedule.
    pub base: &'static str,
}

impl Info {
    /// The largest number that the argument of this name accepts, if it takes numbers.
    pub fn largest(&self, name: &str) -> Option<u32> {
        let argument = self.arguments.iter().find(|argument| argument.name.split(", ").any(|known| known == name));
        match &argument?.values {
            Values::Range(range) | Values::Powers(range) | Values::Multiples(_, range) => Some(*range.end()),
            Values::OneOf(all) => all.iter().max().copied(),
            Values::Words(_) | Values::Text(_) => None,
        }
    }
}

/// An argument of a clause.
#[derive(Debug)]
pub struct Argument {
    /// The name of the argument, or of several with the same values.
    pub name: &'static str,
    /// Its legal values.
    pub values: Values,
    /// A clause with `{}` in place of the value; empty for [`Values::Text`].
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
    /// Values described in prose.
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
        /// Nobody uses these items directly: the macro mentions the item of each clause in a schedule, so that an
        /// editor shows the meaning where the user wrote the clause.
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
