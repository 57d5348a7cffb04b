//! Names that the compiler numbers, registers and labels, and the correspondence between those of two texts.

use std::collections::{HashMap, HashSet};

use super::Level;

/// The start of a line of a kernel that declares registers.
const DECLARATION: &str = "registers ";

/// The form of names in a text.
pub(super) enum Dialect {
    /// There are none.
    Plain,
    /// One of these letter sequences followed by a number, as declared in a kernel.
    Declared(HashSet<String>),
    /// Words that begin with `%`, except special registers; and labels with one of these prefixes.
    Ptx(HashSet<String>),
}

/// A name in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    text: String,
    /// Whether the line gives it a new value.
    is_written: bool,
}

impl Dialect {
    pub(super) fn of(level: Level, lines: &[String]) -> Dialect {
        match level {
            Level::Clauses | Level::Plan | Level::Tile => Dialect::Plain,
            Level::Kernel => {
                let declared = lines.iter().filter_map(|line| line.trim().strip_prefix(DECLARATION));
                Dialect::Declared(declared.map(|name| letters(name).to_string()).collect())
            }
            Level::Ptx => {
                let labels = lines.iter().filter_map(|line| line.trim().strip_suffix(':'));
                Dialect::Ptx(labels.map(str::to_string).collect())
            }
        }
    }

    /// The text of a line without its names. The number of declared registers is not part of it.
    pub(super) fn key(&self, line: &str) -> String {
        if matches!(self, Dialect::Declared(_)) && line.trim().starts_with(DECLARATION) {
            return line.split(|c: char| c.is_ascii_digit()).collect();
        }
        let said = |word| match self {
            _ if !self.is_name(word) => word,
            // The letters of a kernel's names tell their purpose; other compilers use different letters.
            Dialect::Ptx(_) => "%",
            _ => letters(word),
        };
        words(line).map(said).collect()
    }

    /// The names of a line, in order.
    pub(super) fn names(&self, line: &str) -> Vec<Name> {
        let text = line.trim();
        if matches!(self, Dialect::Plain) || text.starts_with(DECLARATION) {
            return Vec::new();
        }
        let written = self.written(text);
        let mut end = 0;
        let mut names = Vec::new();
        for word in words(text) {
            let start = end;
            end += word.len();
            if self.is_name(word) {
                names.push(Name { text: word.into(), is_written: written.contains(&start) });
            }
        }
        names
    }

    /// The part of a line in which names are assigned: left of ` = `, or the first operand unless that is an address.
    fn written(&self, line: &str) -> std::ops::Range<usize> {
        let nothing = 0..0;
        if let Dialect::Declared(_) = self {
            return line.find(" = ").map_or(nothing, |at| 0..at);
        }
        // After the guard and the opcode.
        let guard = if line.starts_with('@') { line.find(' ').map_or(0, |at| at + 1) } else { 0 };
        let Some(first) = line[guard..].find(' ').map(|at| guard + at + 1) else { return nothing };
        let operand = &line[first..];
        match operand.chars().next() {
            Some('{') => first..first + operand.find('}').unwrap_or(0),
            Some('%') => first..first + operand.find([',', ';']).unwrap_or(0),
            _ => nothing,
        }
    }

    fn is_name(&self, word: &str) -> bool {
        let numbered = |word: &str| word.ends_with(|c: char| c.is_ascii_digit());
        match self {
            Dialect::Plain => false,
            Dialect::Declared(known) => numbered(word) && known.contains(letters(word)),
            // The machine's special registers have a dot or no number.
            Dialect::Ptx(labels) => {
                labels.contains(word) || word.starts_with('%') && numbered(word) && !word.contains('.')
            }
        }
    }
}

/// A name without its number.
fn letters(name: &str) -> &str {
    let end = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    &name[..end]
}

/// Words and the text between them, in order: together the whole line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%' || c == '.';
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => rest.find(is_word).unwrap_or(rest.len()),
        };
        // A range such as `acc0..63` is a name and its end.
        let end = rest[..end].find("..").filter(|&at| at > 0).unwrap_or(end);
        let (word, after) = rest.split_at(end.max(first.len_utf8()));
        rest = after;
        Some(word)
    })
}

/// The correspondence between the names of the two texts so far.
#[derive(Default)]
pub(super) struct Correspondence {
    there: HashMap<String, String>,
    back: HashMap<String, String>,
}

impl Correspondence {
    /// Whether two aligned lines read corresponding names; the names they write correspond from now on. After a
    /// difference the names count as corresponding, so that each difference is reported once.
    pub(super) fn agree(&mut self, first: &[Name], second: &[Name]) -> bool {
        if first.len() != second.len() {
            return false;
        }
        let mut agree = true;
        let pairs = || first.iter().zip(second);
        for (one, other) in pairs().filter(|(one, _)| !one.is_written) {
            let known = (self.there.get(&one.text), self.back.get(&other.text));
            agree &= match known {
                (None, None) => true,
                (there, _) => there == Some(&other.text),
            };
            self.bind(&one.text, &other.text);
        }
        pairs().filter(|(one, _)| one.is_written).for_each(|(one, other)| self.bind(&one.text, &other.text));
        agree
    }

    fn bind(&mut self, one: &str, other: &str) {
        if let Some(old) = self.there.insert(one.into(), other.into()) {
            self.back.remove(&old);
        }
        if let Some(old) = self.back.insert(other.into(), one.into()).filter(|old| old != one) {
            self.there.remove(&old);
        }
    }
}
