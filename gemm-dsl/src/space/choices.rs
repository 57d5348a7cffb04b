//! The tree of alternatives: the number of its combinations, and the text of each.

use std::ops::Range;

use super::place::Places;
use crate::keys::KeySet;

/// Text with choices; each choice takes one alternative.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    /// Bytes of the source, copied unchanged.
    Text(Range<usize>),
    Choice(Choice),
    /// A reference to the choice of this name, in place of these bytes, and the kind of clause that these are in.
    Name(String, Range<usize>, KeySet),
}

/// One brace.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The name by which later text refers to the chosen alternative.
    pub name: Option<String>,
    /// The kinds of clauses that it is in, or chooses from.
    pub keys: KeySet,
    pub alternatives: Vec<Alternative>,
    /// Text to add after the alternative if the source lacks it: a clause needs a semicolon.
    pub end: &'static str,
}

#[derive(Clone, Debug)]
pub(super) enum Alternative {
    /// Copied as written.
    Written(Sequence),
    /// A number of a range, with the range's bytes.
    Number(u32, Range<usize>),
    /// A word in the place of an open value.
    Word(&'static str, Range<usize>),
}

impl Sequence {
    pub fn push_text(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.parts.push(Part::Text(range));
        }
    }

    /// `keys` are those of the clause that it is in.
    pub fn push_name(&mut self, name: &str, range: Range<usize>, keys: KeySet) {
        self.parts.push(Part::Name(name.into(), range, keys));
    }

    pub fn push_choice(&mut self, choice: Choice) {
        self.parts.push(Part::Choice(choice));
    }

    /// The number of combinations: at most `u128::MAX`.
    pub fn len(&self) -> u128 {
        self.choices().map(Choice::len).fold(1, u128::saturating_mul)
    }

    fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.parts.iter().filter_map(|part| match part {
            Part::Choice(choice) => Some(choice),
            Part::Text(_) | Part::Name(..) => None,
        })
    }

    /// The text of a combination, and the origins of its bytes in the source.
    pub fn text(&self, source: &str, index: u128) -> (String, Places) {
        let mut out = (String::new(), Places::default());
        self.write(source, index, &mut out, &mut Vec::new());
        out
    }

    /// `chosen` maps each name so far to its chosen bytes.
    fn write(
        &self,
        source: &str,
        mut index: u128,
        out: &mut (String, Places),
        chosen: &mut Vec<(String, Range<usize>)>,
    ) {
        let mut weight = self.len();
        for part in &self.parts {
            match part {
                Part::Text(range) => {
                    out.1.verbatim(out.0.len(), range.clone());
                    out.0.push_str(&source[range.clone()]);
                }
                Part::Choice(choice) => {
                    weight /= choice.len();
                    let before = out.0.len();
                    choice.write(source, index / weight, out, chosen);
                    if let Some(name) = &choice.name {
                        chosen.push((name.clone(), before..out.0.len()));
                    }
                    index %= weight;
                }
                Part::Name(name, range, _) => {
                    let value = chosen.iter().rev().find(|(chosen, _)| chosen == name);
                    let value = value.map(|(_, at)| out.0[at.clone()].to_owned()).unwrap_or_default();
                    out.1.replaced(out.0.len(), range.clone());
                    out.0.push_str(&value);
                }
            }
        }
    }

    /// The weight of each choice in the number of a combination, and the kinds of clauses that it affects: where it is, where its
    /// name is used, and the same for the choices within it.
    pub fn digits(&self) -> Vec<(u128, KeySet)> {
        let mut uses = Vec::new();
        self.uses(&mut uses);
        let mut weight = self.len();
        let digit = |choice: &Choice| {
            weight /= choice.len();
            (weight, choice.affects(&uses))
        };
        self.choices().map(digit).collect()
    }

    /// The names that are used, each with the kind of clause.
    fn uses<'s>(&'s self, found: &mut Vec<(&'s str, KeySet)>) {
        for part in &self.parts {
            match part {
                Part::Text(_) => {}
                Part::Name(name, _, keys) => found.push((name, *keys)),
                Part::Choice(choice) => choice.sequences().for_each(|sequence| sequence.uses(found)),
            }
        }
    }

    /// Combinations that together take every alternative at least once; all other choices take their first alternative.
    pub fn probes(&self) -> Vec<u128> {
        let mut weight = self.len();
        let mut probes = vec![0];
        for choice in self.choices() {
            weight /= choice.len();
            probes.extend(choice.probes().into_iter().skip(1).map(|probe| probe * weight));
        }
        probes
    }
}

impl Choice {
    fn len(&self) -> u128 {
        self.alternatives.iter().map(Alternative::len).fold(0, u128::saturating_add)
    }

    fn sequences(&self) -> impl Iterator<Item = &Sequence> {
        self.alternatives.iter().filter_map(|alternative| match alternative {
            Alternative::Written(sequence) => Some(sequence),
            Alternative::Number(..) | Alternative::Word(..) => None,
        })
    }

    fn affects(&self, uses: &[(&str, KeySet)]) -> KeySet {
        let named = uses.iter().filter(|(name, _)| self.name.as_deref() == Some(*name)).map(|(_, keys)| *keys);
        let within = self.sequences().flat_map(Sequence::choices).map(|choice| choice.affects(uses));
        named.chain(within).fold(self.keys, KeySet::union)
    }

    fn write(
        &self,
        source: &str,
        mut index: u128,
        out: &mut (String, Places),
        chosen: &mut Vec<(String, Range<usize>)>,
    ) {
        for alternative in &self.alternatives {
            if index < alternative.len() {
                let before = out.0.len();
                alternative.write(source, index, out, chosen);
                if out.0.len() > before {
                    out.0.push_str(self.end);
                }
                return;
            }
            index -= alternative.len();
        }
    }

    fn probes(&self) -> Vec<u128> {
        let mut probes = Vec::new();
        let mut start = 0;
        let mut probed = None;
        for alternative in &self.alternatives {
            match alternative {
                Alternative::Written(sequence) => {
                    probes.extend(sequence.probes().into_iter().map(|probe| start + probe));
                }
                // The grammar treats all numbers of a range alike.
                Alternative::Word(..) => probes.push(start),
                Alternative::Number(_, range) if probed.as_ref() == Some(range) => {}
                Alternative::Number(_, range) => {
                    probed = Some(range.clone());
                    probes.push(start);
                }
            }
            start += alternative.len();
        }
        probes
    }
}

impl Alternative {
    fn len(&self) -> u128 {
        match self {
            Alternative::Written(sequence) => sequence.len(),
            Alternative::Number(..) | Alternative::Word(..) => 1,
        }
    }

    fn write(&self, source: &str, index: u128, out: &mut (String, Places), chosen: &mut Vec<(String, Range<usize>)>) {
        match self {
            Alternative::Written(sequence) => {
                let outer = chosen.len();
                sequence.write(source, index, out, chosen);
                chosen.truncate(outer);
            }
            Alternative::Number(number, range) => {
                out.1.replaced(out.0.len(), range.clone());
                out.0.push_str(&number.to_string());
            }
            Alternative::Word(word, range) => {
                out.1.replaced(out.0.len(), range.clone());
                out.0.push_str(word);
            }
        }
    }
}
