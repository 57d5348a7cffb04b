//! A space of schedules: schedule text with alternatives in braces, and all the schedules that it denotes.
//!
//! ```text
//! tile({64, 128}, {64, 128}, {8..=32 step *2});    // values: numbers, words, names, in any argument
//! thread({4, 8}, 8);
//! order({row, snake});
//! {double_buffer | stages(3); pace(free) | }       // whole clauses; the last alternative is none of them
//! ```
//!
//! | notation | meaning |
//! |---|---|
//! | `{a, b, c}` in the arguments of a clause | one of these values, each any text without a comma |
//! | `{8..=32}`, `{8..=32 step 8}` | 8, 9, … 32; 8, 16, 24, 32 |
//! | `{8..=32 step *2}` | 8, 16, 32: each is twice the one before it |
//! | `{8..32 step 8}` | 8, 16, 24: as in Rust, without the end |
//! | `{bm: 64, 128}`, later `{bm}` | a choice with a name; the name stands for what it chose |
//! | `{one; two \| three \| }` in the place of a clause | these clauses, or that one, or none |
//!
//! Braces are free for this: text cannot take values from Rust, and only `expect { … }` uses them otherwise. A brace
//! with a single alternative is an error, since it is more likely a value for `gemm!` than a choice. Alternatives of
//! clauses may contain alternatives of values. Each brace is chosen independently. Dependent values share a name,
//! `tile(128, {bn: 64..=256 step 8}, 64); atom(wgmma(64, {bn}, 16))`, or are written as clauses: `{tile(64, 64, 8);
//! thread(4, 4) | tile(128, 128, 8); thread(8, 8)}`. A name is valid after its brace, in the same alternative or within
//! it.
//!
//! Combinations are numbered from 0, with the last brace varying fastest, and are built one by one from their numbers:
//! a space takes no more memory than its text.

mod choices;
mod parse;
mod place;
mod search;
mod values;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::diagnostics::Diagnostics;
use crate::keys::KeySet;
use crate::opened::{Alternatives, Opened, Value};
use crate::schedule::Schedule;

use choices::{Alternative, Choice, Sequence};

/// Schedule text with alternatives, and all its combinations.
///
/// ```
/// use ptx_gemm_dsl::Space;
///
/// let space: Space = "tile({64, 128}, 64, 8); thread(8, 8); {double_buffer | }".parse()?;
/// assert_eq!(space.len(), 4);
/// assert_eq!(space.combination(3).unwrap().text(), "tile(128, 64, 8); thread(8, 8); ");
/// let legal = space.combinations().filter(|one| one.schedule().is_ok_and(|schedule| schedule.check().is_ok()));
/// assert_eq!(legal.count(), 4);
/// # Ok::<(), ptx_gemm_dsl::Diagnostics>(())
/// ```
#[derive(Clone)]
pub struct Space {
    text: Arc<str>,
    sequence: Sequence,
}

/// One combination of a space: schedule text without alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    index: u128,
    text: String,
}

impl Space {
    /// The maximum number of alternatives in one text, over all braces.
    pub const MAX_ALTERNATIVES: usize = 4096;

    /// Reads a text with alternatives. A text without alternatives denotes a single schedule.
    ///
    /// # Errors
    ///
    /// Returns all errors of the notation, and the grammar's errors in the alternatives, each of which is read once. A
    /// combination that breaks a rule is not an error of the space: [`Combination::schedule`] parses, and
    /// [`Schedule::plan`] reports what is illegal.
    pub fn parse(text: &str) -> Result<Space, Diagnostics> {
        parse::parse(text)
    }

    /// The schedules that a text with open values stands for, without `schedule(?)`.
    pub fn open(text: &str, opened: &Opened) -> Space {
        const COLUMNS: &str = "columns";
        let mut sequence = Sequence::default();
        let mut at = 0;
        for (open, alternatives) in opened.alternatives() {
            let (keys, range) = (KeySet::of(&[open.key]), open.span.start as usize..open.span.end as usize);
            sequence.push_text(at..range.start);
            at = range.end;
            let choice = |name: Option<&str>, alternatives: Vec<Alternative>| {
                let name = name.map(str::to_owned);
                Choice { name, keys, alternatives, end: "" }
            };
            match alternatives {
                Alternatives::Same => sequence.push_name(COLUMNS, range, keys),
                Alternatives::Columns(numbers) => {
                    let all = numbers.into_iter().map(|number| Alternative::Number(number, range.clone()));
                    sequence.push_choice(choice(Some(COLUMNS), all.collect()));
                }
                Alternatives::Values(values) => {
                    let all = values.into_iter().map(|value| match value {
                        Value::Number(number) => Alternative::Number(number, range.clone()),
                        Value::Word(word) => Alternative::Word(word, range.clone()),
                    });
                    sequence.push_choice(choice(None, all.collect()));
                }
            }
        }
        sequence.push_text(at..text.len());
        Space { text: text.into(), sequence }
    }

    /// The number of combinations; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a space is never empty")]
    pub fn len(&self) -> u128 {
        self.sequence.len()
    }

    /// The combination with this number, if it exists.
    pub fn combination(&self, index: u128) -> Option<Combination> {
        (index < self.len()).then(|| Combination { index, text: self.sequence.text(&self.text, index).0 })
    }

    /// All combinations, generated lazily.
    pub fn combinations(&self) -> impl Iterator<Item = Combination> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let combination = self.combination(next)?;
            next += 1;
            Some(combination)
        })
    }

    /// For each choice outside of others, from the first on: by how much its next alternative raises a combination's number, and how many
    /// alternatives it has, those of choices within it included.
    pub fn choices(&self) -> Vec<(u128, u128)> {
        let mut above = self.len();
        let each = self.sequence.digits().into_iter().map(|(weight, _)| {
            let count = above / weight.max(1);
            above = weight;
            (weight, count)
        });
        each.collect()
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Combination {
    /// Its number in the space.
    pub fn index(&self) -> u128 {
        self.index
    }

    /// The schedule's text: the space's text with one alternative in place of each brace.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The schedule.
    ///
    /// # Errors
    ///
    /// Returns the grammar's errors in this combination, such as an argument given twice.
    pub fn schedule(&self) -> Result<Schedule, Diagnostics> {
        self.text.parse()
    }
}

impl FromStr for Space {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Space, Diagnostics> {
        Space::parse(text)
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} combinations of {:?}", self.len(), self.text)
    }
}
