//! The language reference, generated from [`crate::table`]: the output of `gemmc explain`, and `docs/language.md`.

mod topics;

use std::fmt;

use crate::epilogue::Function;
use crate::implemented;
use crate::schedule::Schedule;
use crate::suggest;
use crate::table::{self, ALL, Info, Values};
use crate::types::DType;
use crate::words::Word;

pub use topics::{TOPICS, Topic};

/// How much of a clause the compiler implements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it works.
    Implemented,
    /// It works, except these words.
    Partly(Vec<&'static str>),
    /// It is part of the language, but refused.
    NotYet,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Implemented => f.write_str("implemented"),
            State::Partly(lacking) => {
                write!(f, "implemented, except {}", suggest::list(lacking.iter().copied()).replace(" or ", " and "))
            }
            State::NotYet => f.write_str("not implemented yet"),
        }
    }
}

/// The small schedule of an example, without and with the clause.
pub fn schedules(info: &Info) -> [String; 2] {
    // The rows are text; a test parses it.
    let read = |text: &str| Schedule::read(text).items.into_iter().map(|item| item.clause);
    let with = |clauses: &str| read(clauses).fold(Schedule::new(), Schedule::clause);
    let (base, clause) = (with(info.base), with(info.example));
    [base.to_string(), base.with(clause).to_string()]
}

/// How much of a clause the compiler implements.
pub fn state(info: &Info) -> State {
    if !implemented::has(info.key) {
        return State::NotYet;
    }
    let mut lacking = implemented::lacking(info.key).to_vec();
    for argument in info.arguments {
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

/// What a name in the reference refers to.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A clause.
    Clause(&'static Info),
    /// A topic.
    Topic(&'static Topic),
}

/// The clause or topic of a name. `epilogue` and `layout` are both: a name with parentheses or braces finds the clause,
/// and the topic's text begins with the clause. A word that only one clause takes, such as `cp_async`, finds that
/// clause. A function finds the epilogue.
///
/// # Errors
/// Returns the intended name, if there is one.
pub fn find(name: &str) -> Result<Entry, Option<&'static str>> {
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == name) {
        return Ok(Entry::Topic(topic));
    }
    // `tile(128, 128, 8)` asks for `tile`.
    let bare = name.split(['(', '{', ' ', ';']).next().unwrap_or(name);
    if let Some(info) = table::find(bare) {
        return Ok(Entry::Clause(info));
    }
    match ALL.iter().filter(|info| takes(info, bare)).collect::<Vec<_>>()[..] {
        [info] => return Ok(Entry::Clause(info)),
        [first, ..] => return Err(Some(first.name)),
        [] => {}
    }
    let functions = || Function::TABLE.iter().map(|(name, _)| *name);
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == "epilogue" && functions().any(|name| name == bare)) {
        return Ok(Entry::Topic(topic));
    }
    // `wgmma` and `KiB` are neither arguments nor words, but parts of a syntax.
    if let [info] = ALL.iter().filter(|info| writes(info, bare)).collect::<Vec<_>>()[..] {
        return Ok(Entry::Clause(info));
    }
    let known = ALL.iter().map(|info| info.name).chain(TOPICS.iter().map(|topic| topic.name));
    let types = DType::TABLE.iter().map(|(name, _)| *name);
    Err(suggest::nearest(bare, known.chain(functions()).chain(types)))
}

/// Whether a word is in a clause's syntax.
fn writes(info: &Info, word: &str) -> bool {
    let words = info.signature.split(|c: char| c != '_' && !c.is_alphanumeric());
    words.filter(|word| word.starts_with(char::is_alphabetic)).any(|known| known == word)
}

/// Whether a word is an argument of a clause or a value of one.
fn takes(info: &Info, word: &str) -> bool {
    info.arguments.iter().any(|argument| {
        let values = if let Values::Words(words) = argument.values { words() } else { Vec::new() };
        argument.name == word || values.iter().any(|(value, _)| *value == word)
    })
}

/// All clauses and topics, one per line.
pub fn overview() -> String {
    let mut text = String::new();
    for info in ALL {
        let state = match state(info) {
            State::NotYet => " (not implemented yet)",
            _ => "",
        };
        text.push_str(&format!("{:14} {}{state}\n", info.name, info.summary));
    }
    text.push('\n');
    TOPICS.iter().for_each(|topic| text.push_str(&format!("{:14} {}\n", topic.name, topic.summary)));
    text
}

/// The reference entry of a clause, in Markdown.
pub fn clause(info: &Info) -> String {
    let mut text = format!("`{}`\n\n{}\n\n", info.signature, paragraph(info.meaning));
    if !info.arguments.is_empty() {
        let rows = info.arguments.iter().map(|argument| [argument.name.to_string(), argument.values.to_string()]);
        text.push_str(&table_of(["argument", "legal values"], rows));
        text.push('\n');
    }
    text.push_str(&format!("- Default: {}.\n- State: {}.\n\n", code(info.default), state(info)));
    let [_, example] = schedules(info);
    text.push_str(&format!("```text\n{example}```\n"));
    text
}

/// The whole reference, in Markdown.
pub fn markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    let rows =
        ALL.iter().map(|info| [format!("[`{0}`](#{0})", info.name), info.summary.to_string(), state(info).to_string()]);
    text.push_str(&table_of(["clause", "about", "state"], rows));
    for topic in TOPICS.iter() {
        text.push_str(&format!("\n## {}\n\n{}", topic.title, (topic.text)()));
        if let Some(costs) = topic.costs {
            text.push_str(&format!("\n{}", costs()));
        }
        if let Some((shown, address)) = topic.picture {
            text.push_str(&format!("\n![{shown}]({address})\n"));
        }
    }
    text.push_str("\n## Clauses\n");
    ALL.iter().for_each(|info| text.push_str(&format!("\n### {}\n\n{}", info.name, clause(info))));
    text
}

const INTRODUCTION: &str = "\
# The schedule language

`gemmc explain --markdown` writes this page from the table that the grammar, the rules and the editor's documentation read
(`gemm-dsl/src/table/rows.rs`). `gemmc explain CLAUSE` prints the section of a clause, and what the clause changes in the PTX of
its example.

A schedule is a list of clauses. Each ends with a semicolon and occurs at most once; the order is free:

```text
schedule   = { clause \";\" }
clause     = name | name \"(\" arguments \")\" | \"expect\" \"{\" contracts \"}\"
arguments  = argument { \",\" argument }
argument   = [ name \"=\" ] value
```

`//` begins a comment, `/*` and `*/` enclose one. Numbers are whole and decimal; `_` may separate digits. In `gemm!`,
`{expression}` takes a number from the surrounding Rust code, or a word as a value of its type (`Layout::Col`, `Target::SM_90A`,
and those in `ptx_gemm::builder`, such as `FmaOrder::Snake`; not a string). `..base` takes the clauses that are not given from
another schedule. Every schedule needs a `tile`, and with `atom(fma)` a `thread`.

";

/// A table that is also readable as plain text.
fn table_of<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let escaped = |row: [String; N]| row.map(|cell| cell.replace('|', "\\|"));
    let rows: Vec<[String; N]> = std::iter::once(head.map(String::from)).chain(rows).map(escaped).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(&format!("| {cell:0$} ", width(column)));
        }
        text.push_str("|\n");
        if index == 0 {
            (0..N).for_each(|column| text.push_str(&format!("|{}", "-".repeat(width(column) + 2))));
            text.push_str("|\n");
        }
    }
    text
}

/// The text of a row's documentation, without the leading space of each line.
fn paragraph(text: &str) -> String {
    text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n").trim().to_string()
}

/// A clause as code; any other text unchanged.
fn code(text: &str) -> String {
    let clause = text.ends_with(')') && !text.contains(' ') || text.contains("(|") || text.contains(" = ");
    if clause { format!("`{text}`") } else { text.to_string() }
}
