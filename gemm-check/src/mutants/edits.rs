//! Small edits of a printed program, each of which a verifier must reject, or which must change the lowered code.
//!
//! A program's text is lines of words, numbers and punctuation; `;` starts a note up to the end of its line, which is never
//! edited. Every edit differs from the text in its code, and the same text has the same edits in the same order. They are
//! for small programs: each edit holds a whole text.

use std::collections::BTreeSet;

/// The maximum number of replacements for each word.
const CHOICES: usize = 3;

/// What an edit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EditKind {
    /// Another number: one more, one less, twice as many, none.
    Number,
    /// A word that occurs elsewhere in the text between similar neighbours.
    Word,
    /// A line is deleted.
    DeleteLine,
    /// A line is repeated.
    DoubleLine,
    /// A line and the next one are swapped.
    SwapLines,
}

impl EditKind {
    /// Every kind.
    pub const ALL: [EditKind; 5] =
        [EditKind::Number, EditKind::Word, EditKind::DeleteLine, EditKind::DoubleLine, EditKind::SwapLines];

    /// Its name for tools.
    pub fn name(self) -> &'static str {
        match self {
            EditKind::Number => "number",
            EditKind::Word => "word",
            EditKind::DeleteLine => "deleted-line",
            EditKind::DoubleLine => "doubled-line",
            EditKind::SwapLines => "swapped-lines",
        }
    }
}

/// One edit of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What the edit does.
    pub kind: EditKind,
    /// The first line that changes, counted from 1.
    pub line: usize,
    /// The column of the change, in characters, counted from 1.
    pub column: usize,
    /// A description for messages: `4 -> 5`, `delete "wait ab"`.
    pub what: String,
    /// The whole text after the edit.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    Number,
    Word,
    Punctuation,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: TokenKind,
    text: &'a str,
    /// Where it begins in its line, in bytes.
    start: usize,
}

/// The part of a line before its note.
fn code(line: &str) -> &str {
    line.split(';').next().unwrap_or("").trim_end()
}

/// The tokens of a line's code. Digits within a word (`r12`, `f32`) belong to the word; `0..4` and `0.5` are two numbers each.
fn tokens(line: &str) -> Vec<Token<'_>> {
    let code = code(line);
    let mut out = Vec::new();
    let mut start = 0;
    while let Some(first) = code[start..].chars().next() {
        let rest = &code[start..];
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let (kind, length) = if first.is_ascii_digit() {
            (TokenKind::Number, rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()))
        } else if word(first) {
            (TokenKind::Word, rest.find(|c| !word(c)).unwrap_or(rest.len()))
        } else {
            (TokenKind::Punctuation, first.len_utf8())
        };
        if !first.is_whitespace() {
            out.push(Token { kind, text: &rest[..length], start });
        }
        start += length;
    }
    out
}

/// The position of a word: the tokens next to it, with all numbers treated alike and all words treated alike. Words in
/// the same position may replace each other.
fn position(tokens: &[Token<'_>], at: usize) -> [String; 2] {
    let near = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
        None => "line".to_string(),
        Some(Token { kind: TokenKind::Punctuation, text, .. }) => text.to_string(),
        Some(Token { kind, .. }) => format!("{kind:?}"),
    };
    [near(at.checked_sub(1)), near(Some(at + 1))]
}

/// Every word of a text with its position.
struct Words<'a>(Vec<([String; 2], &'a str)>);

impl<'a> Words<'a> {
    fn of(lines: &[&'a str]) -> Words<'a> {
        let mut words = Vec::new();
        for line in lines {
            let tokens = tokens(line);
            let places = tokens.iter().enumerate().filter(|(_, token)| token.kind == TokenKind::Word);
            words.extend(places.map(|(at, token)| (position(&tokens, at), token.text)));
        }
        Words(words)
    }

    /// Other words for this one: first those with the same neighbours, then those after the same, then those before the
    /// same; alphabetical from the word itself on, so that different words get different choices.
    fn others(&self, word: &str, [before, after]: &[String; 2]) -> Vec<&'a str> {
        let rank = |[b, a]: &[String; 2]| match (b == before, a == after) {
            (true, true) => Some(0),
            (true, false) => Some(1),
            (false, true) => Some(2),
            (false, false) => None,
        };
        let others = self.0.iter().filter(|(_, other)| *other != word);
        let mut ranked: Vec<_> =
            others.filter_map(|(place, other)| Some((rank(place)?, *other < word, *other))).collect();
        ranked.sort_unstable();
        let mut seen = BTreeSet::new();
        ranked.into_iter().map(|(_, _, other)| other).filter(|other| seen.insert(*other)).take(CHOICES).collect()
    }
}

/// Other numbers for this one: one more, twice as many, zero, one less.
fn other_numbers(text: &str) -> Vec<String> {
    let Ok(n) = text.parse::<u64>() else { return vec!["0".into()] };
    let others = [n.checked_add(1), n.checked_mul(2), Some(0), n.checked_sub(1)];
    let mut seen = BTreeSet::from([n]);
    others.into_iter().flatten().filter(|other| seen.insert(*other)).map(|other| other.to_string()).collect()
}

/// Every edit of a text: of each number, of each word, and of each line that has code.
pub fn token_edits(text: &str) -> Vec<Edit> {
    let lines: Vec<&str> = text.lines().collect();
    let words = Words::of(&lines);
    // The text with `count` lines from `at` replaced.
    let with = |at: usize, count: usize, new: &[&str]| -> String {
        let lines = lines[..at].iter().chain(new).chain(&lines[at + count..]);
        lines.flat_map(|line| [*line, "\n"]).collect()
    };
    let mut edits = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !code(line).trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let mut push = |kind, start: usize, what, text| {
            let column = line[..start].chars().count() + 1;
            edits.push(Edit { kind, line: at + 1, column, what, text });
        };
        let tokens = tokens(line);
        for (i, token) in tokens.iter().enumerate() {
            let (kind, others) = match token.kind {
                TokenKind::Number => (EditKind::Number, other_numbers(token.text)),
                TokenKind::Word => {
                    let others = words.others(token.text, &position(&tokens, i));
                    (EditKind::Word, others.into_iter().map(str::to_string).collect())
                }
                TokenKind::Punctuation => continue,
            };
            for other in others {
                let (before, after) = (&line[..token.start], &line[token.start + token.text.len()..]);
                let changed = format!("{before}{other}{after}");
                push(kind, token.start, format!("{} -> {other}", token.text), with(at, 1, &[&changed]));
            }
        }
        let short = code(line).trim();
        push(EditKind::DeleteLine, indent, format!("delete `{short}`"), with(at, 1, &[]));
        push(EditKind::DoubleLine, indent, format!("double `{short}`"), with(at, 1, &[line, line]));
        // The next line with code; notes between the two stay where they are.
        let next = lines[at + 1..].iter().position(|line| !code(line).trim().is_empty()).map(|n| at + 1 + n);
        if let Some(next) = next.filter(|next| code(lines[*next]).trim() != short) {
            let mut swapped = lines[at..=next].to_vec();
            swapped.swap(0, next - at);
            let what = format!("swap `{short}` and `{}`", code(lines[next]).trim());
            push(EditKind::SwapLines, indent, what, with(at, next - at + 1, &swapped));
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
program p {              ; 9 notes
  ring ab depth 2
  ; only a note

  steps 0..16 {
    wait ab              ; stages(2)
    copy a -> ab
  }
}
";

    /// What the edits of one line do, by kind.
    fn of(line: usize, kind: EditKind) -> Vec<String> {
        let edits = token_edits(TEXT).into_iter().filter(|edit| edit.line == line && edit.kind == kind);
        edits.map(|edit| edit.what).collect()
    }

    #[test]
    fn numbers_and_words_change() {
        assert_eq!(of(2, EditKind::Number), ["2 -> 3", "2 -> 4", "2 -> 0", "2 -> 1"]);
        assert_eq!(of(5, EditKind::Number), ["0 -> 1", "16 -> 17", "16 -> 32", "16 -> 0", "16 -> 15"]);
        assert_eq!(
            of(6, EditKind::Word),
            ["wait -> copy", "wait -> program", "wait -> ring", "ab -> depth", "ab -> p", "ab -> a"]
        );
        assert_eq!(other_numbers("1"), ["2", "0"]);
        assert_eq!(other_numbers(&u64::MAX.to_string()), ["0", "18446744073709551614"]);
    }

    #[test]
    fn lines_are_deleted_doubled_and_swapped() {
        assert_eq!(of(6, EditKind::DeleteLine), ["delete `wait ab`"]);
        assert_eq!(of(6, EditKind::DoubleLine), ["double `wait ab`"]);
        assert_eq!(of(6, EditKind::SwapLines), ["swap `wait ab` and `copy a -> ab`"]);
        // It skips the note, and does not swap with an equal line.
        assert_eq!(of(2, EditKind::SwapLines), ["swap `ring ab depth 2` and `steps 0..16 {`"]);
        assert!(of(8, EditKind::SwapLines).is_empty() && of(9, EditKind::SwapLines).is_empty());
        assert!(of(3, EditKind::DeleteLine).is_empty() && of(4, EditKind::DeleteLine).is_empty());
    }

    #[test]
    fn an_edit_is_where_it_says_and_changes_the_code() {
        let edits = token_edits(TEXT);
        assert_eq!(edits, token_edits(TEXT));
        let bare = |text: &str| text.lines().map(|line| code(line).to_string()).collect::<Vec<_>>();
        let distinct: BTreeSet<(EditKind, &String)> = edits.iter().map(|edit| (edit.kind, &edit.text)).collect();
        assert_eq!(distinct.len(), edits.len());
        for edit in &edits {
            assert_ne!(bare(&edit.text), bare(TEXT), "{edit:?}");
            assert!(edit.text.contains("; 9 notes") || edit.line == 1, "{edit:?}");
            let old = TEXT.lines().nth(edit.line - 1).unwrap();
            let named = edit.what.trim_start_matches(|c| c != '`').trim_start_matches('`');
            let named = if edit.what.contains('`') { named } else { &edit.what };
            let first = named.split([' ', '`']).next().unwrap();
            assert!(old[edit.column - 1..].starts_with(first), "{edit:?}");
        }
        let third = edits.iter().find(|edit| edit.what == "2 -> 3").unwrap();
        assert_eq!((third.line, third.column, &third.text), (2, 17, &TEXT.replace("depth 2", "depth 3")));
    }
}
