//! Names that the compiler numbers: registers and labels, and which of one text correspond to which of another.

use std::collections::{HashMap, HashSet};

use super::Level;

/// What begins the line of a kernel that declares registers.
const DECLARATION: &str = "registers ";

/// How names look in a text.
pub(super) enum Dialect {
    /// There are none.
    Plain,
    /// Words of these letters, followed by a number: what a kernel declares.
    Declared(HashSet<String>),
    /// Words that begin with `%`, special registers apart; and these labels.
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

    /// What a line says, whatever its names are. How many registers there are is not something it says.
    pub(super) fn key(&self, line: &str) -> String {
        if matches!(self, Dialect::Declared(_)) && line.trim().starts_with(DECLARATION) {
            return line.split(|c: char| c.is_ascii_digit()).collect();
        }
        let said = |word| match self {
            _ if !self.is_name(word) => word,
            // Those of a kernel say what they are for; other compilers have other letters for the same.
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

    /// Where in a line names are written: left of ` = `, or in the first operand unless that is an address.
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
            // Those of the machine have a dot or no number.
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

/// Words and what is between them, in order: together the whole line.
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

/// Which names of one text are which of the other, so far.
#[derive(Default)]
pub(super) struct Correspondence {
    there: HashMap<String, String>,
    back: HashMap<String, String>,
}

impl Correspondence {
    /// Whether two aligned lines read corresponding names; what they write corresponds from now on. After a difference the names
    /// count as corresponding, so that each difference is told once.
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
