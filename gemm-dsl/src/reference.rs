//! The language reference: what `gemmc explain` prints, and `docs/language.md`, all of it from [`crate::table`].

mod topics;

use crate::suggest;
use crate::table::{self, ALL, Info};

pub use topics::{TOPICS, Topic};

/// What a name of the reference stands for.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A clause.
    Clause(&'static Info),
    /// A topic.
    Topic(&'static Topic),
}

/// The clause or topic of a name. `epilogue` and `layout` are both; the clause is found by its name in parentheses or braces,
/// and what is said of the topic begins with the clause.
///
/// # Errors
/// The name that was probably meant, if there is one.
pub fn find(name: &str) -> Result<Entry, Option<&'static str>> {
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == name) {
        return Ok(Entry::Topic(topic));
    }
    // `tile(128, 128, 8)` asks for `tile`.
    let bare = name.split(['(', '{', ' ', ';']).next().unwrap_or(name);
    if let Some(info) = table::find(bare) {
        return Ok(Entry::Clause(info));
    }
    let known = ALL.iter().map(|info| info.name).chain(TOPICS.iter().map(|topic| topic.name));
    Err(suggest::nearest(bare, known))
}

/// Every clause and every topic in one line each.
pub fn overview() -> String {
    let mut text = String::new();
    for info in ALL {
        let state = match info.state() {
            table::State::NotYet => " (not implemented yet)",
            _ => "",
        };
        text.push_str(&format!("{:14} {}{state}\n", info.name, info.summary));
    }
    text.push('\n');
    TOPICS.iter().for_each(|topic| text.push_str(&format!("{:14} {}\n", topic.name, topic.summary)));
    text
}

/// All that the reference says of a clause, in Markdown.
pub fn clause(info: &Info) -> String {
    let mut text = format!("`{}`\n\n{}\n\n", info.signature, paragraph(info.meaning));
    if !info.arguments.is_empty() {
        let rows = info.arguments.iter().map(|argument| [argument.name.to_string(), argument.values.to_string()]);
        text.push_str(&table_of(["argument", "legal values"], rows));
        text.push('\n');
    }
    text.push_str(&format!("- Default: {}.\n- State: {}.\n\n", code(info.default), info.state()));
    let [_, example] = info.schedules();
    text.push_str(&format!("```text\n{example}```\n"));
    text
}

/// The whole reference, in Markdown.
pub fn markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    let rows = ALL
        .iter()
        .map(|info| [format!("[`{0}`](#{0})", info.name), info.summary.to_string(), info.state().to_string()]);
    text.push_str(&table_of(["clause", "about", "state"], rows));
    for topic in TOPICS.iter() {
        text.push_str(&format!("\n## {}\n\n{}", topic.title, (topic.text)()));
    }
    text.push_str("\n## Clauses\n");
    ALL.iter().for_each(|info| text.push_str(&format!("\n### {}\n\n{}", info.name, clause(info))));
    text
}

const INTRODUCTION: &str = "\
# The schedule language

Written by `gemmc explain --markdown` from the table that the grammar, the rules and the editor's documentation read
(`gemm-dsl/src/table/rows.rs`). `gemmc explain CLAUSE` prints a section of it, and what the clause changes in the PTX of the
example.

A schedule is a list of clauses, each ended by a semicolon, in any order, each at most once:

```text
schedule   = { clause \";\" }
clause     = name | name \"(\" arguments \")\" | \"expect\" \"{\" contracts \"}\"
arguments  = argument { \",\" argument }
argument   = [ name \"=\" ] value
```

`//` begins a comment, `/*` and `*/` enclose one. Numbers are whole and decimal; `_` may separate digits. In `gemm!` `{expression}`
takes a number or a word from the surrounding Rust code, and `..base` the clauses of another schedule that are not given. Every
schedule has a `tile`, and with `atom(fma)` a `thread`.

";

/// A table that reads well as text, too.
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

/// One paragraph of what a row says over several lines.
fn paragraph(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_string()
}

/// A clause as code; anything else as it is.
fn code(text: &str) -> String {
    let clause = text.ends_with(')') && !text.contains(' ') || text.contains("(|") || text.contains(" = ");
    if clause { format!("`{text}`") } else { text.to_string() }
}
