//! Applies fixes to a schedule, and to its source text without losing a comment.

use crate::diagnostic::{Diagnostic, Edit, Fix};
use crate::grammar::Written;
use crate::schedule::Schedule;
use crate::span::Span;
use crate::table::Key;

impl Fix {
    /// The schedule with this change; `None` for [`Edit::Spell`].
    pub fn apply(&self, schedule: &Schedule) -> Option<Schedule> {
        self.edit.apply(schedule)
    }
}

impl Edit {
    /// The schedule with this edit; `None` for [`Edit::Spell`], which changes text before it is parsed.
    pub fn apply(&self, schedule: &Schedule) -> Option<Schedule> {
        match self {
            Edit::Spell(_) => None,
            Edit::Set(text) => Some(schedule.clone().with(Schedule::parse(text).ok()?)),
            Edit::Remove(name) => {
                let mut schedule = schedule.clone();
                schedule.items.retain(|item| item.clause.name() != name);
                Some(schedule)
            }
        }
    }
}

impl Diagnostic {
    /// Applies the fix to `text`, the source of this diagnostic. `None` if there is no fix, or it does not apply to
    /// text.
    pub fn fixed(&self, text: &str) -> Option<String> {
        let fixed = match &self.fix.as_ref()?.edit {
            Edit::Spell(spelling) => spell(text, self.span?.start as usize..self.span?.end as usize, spelling)?,
            Edit::Set(clauses) => set(text, clauses)?,
            Edit::Remove(name) => remove(text, |written| written.name == *name),
        };
        (fixed != text).then_some(fixed)
    }
}

fn spell(text: &str, span: std::ops::Range<usize>, spelling: &str) -> Option<String> {
    let (before, after) = (text.get(..span.start)?, text.get(span.end..)?);
    if !spelling.starts_with("; ") {
        return Some(format!("{before}{spelling}{after}"));
    }
    // A missing semicolon belongs to the clause before it, so it goes before a comment about the next clause.
    let ends = Schedule::read(text).written.into_iter().map(|written| written.span.end as usize);
    let end = ends.filter(|end| *end <= span.start).max()?;
    let blank = if end == span.start { " " } else { "" };
    Some(format!("{};{blank}{}", &text[..end], &text[end..]))
}

/// Replaces the first clause of each kind in `clauses` and removes the others, or appends the clause. A clause that
/// already says the same stays as written.
fn set(text: &str, clauses: &str) -> Option<String> {
    let mut text = text.to_string();
    for item in Schedule::parse(clauses).ok()?.items {
        let (key, clause) = (item.clause.key(), item.clause.to_string());
        let same = |written: &Written| written.key == Some(key);
        let read = Schedule::read(&text);
        let Some(first) = read.written.iter().find(|written| same(written)).map(|written| written.span) else {
            text = appended(&text, key, &clause);
            continue;
        };
        let inside = |span: Option<Span>| span.is_some_and(|span| first.start <= span.start && span.end <= first.end);
        let is_said = read.items.iter().any(|old| old.span == Some(first) && old.clause == item.clause)
            && !read.errors.iter().any(|error| inside(error.span));
        // Later duplicates are removed first, so that the first one keeps its position.
        text = remove(&text, |written| same(written) && written.span.start > first.start);
        if !is_said {
            text.replace_range(first.start as usize..first.end as usize, &clause);
        }
    }
    Some(text)
}

/// The text with a clause appended, on its own line if the other clauses are on their own lines.
fn appended(text: &str, key: Key, clause: &str) -> String {
    let written = Schedule::read(text).written;
    let end = if key == Key::Expect { "" } else { ";" };
    let Some(last) = written.last() else {
        // The text has only comments, each on its own line.
        let (before, after) = match text.chars().last() {
            None => ("", ""),
            Some('\n') => ("", "\n"),
            Some(_) => ("\n", "\n"),
        };
        return format!("{text}{before}{clause}{end}{after}");
    };
    let (start, stop) = (last.span.start as usize, last.span.end as usize);
    let semicolon = text[stop..].trim_start().starts_with(';');
    let at = if semicolon { stop + text[stop..].find(';').unwrap_or(0) + 1 } else { stop };
    let lines = written.len() > 1 && text[..start].trim_end_matches([' ', '\t']).ends_with('\n');
    let blank = if lines || written.len() == 1 && text[at..].starts_with('\n') { '\n' } else { ' ' };
    let ended = if semicolon || last.key == Some(Key::Expect) { "" } else { ";" };
    // A comment on the line of the last clause belongs to that clause.
    let line = if blank == '\n' { at + text[at..].find('\n').unwrap_or(text.len() - at) } else { at };
    format!("{}{ended}{}{blank}{clause}{end}{}", &text[..at], &text[at..line], &text[line..])
}

/// The text without some of its clauses. A line that held nothing else is removed as well.
fn remove(text: &str, gone: impl Fn(&Written) -> bool) -> String {
    let mut text = text.to_string();
    for written in Schedule::read(&text).written.iter().rev().filter(|written| gone(written)) {
        let (start, mut end) = (written.span.start as usize, written.span.end as usize);
        let rest = &text[end..];
        if rest.trim_start().starts_with(';') {
            end += rest.find(';').unwrap_or(0) + 1;
        }
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let own = text[line..start].trim().is_empty();
        let after = text[end..].find(|c: char| c != ' ' && c != '\t').map_or(text.len(), |skip| end + skip);
        let range = match (own, text[after..].chars().next()) {
            (true, Some('\n')) => line..after + 1,
            (true, None) => line..after,
            (_, None | Some('\n')) => text[..start].trim_end_matches([' ', '\t']).len()..after,
            _ => start..after,
        };
        text.replace_range(range, "");
    }
    text
}
