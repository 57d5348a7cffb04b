//! `gemmc fmt`: the canonical text of a schedule, with its comments.
//!
//! One clause per line, each as [`Schedule`] prints it. A comment stays before, after or inside its clause, and a blank
//! line between clauses stays. A clause with a comment inside stays as written, since its parts are not on separate
//! lines.

use std::ops::Range;

use crate::clause::Clause;
use crate::diagnostics::Diagnostics;
use crate::grammar::Item;
use crate::schedule::Schedule;

/// The canonical form of a text that the grammar can read, legal or not.
///
/// ```
/// let text = "tile( 128,128,8 );thread(8,8);  // a square\n\n\n// Deep.\ndouble_buffer";
/// let canonical = "tile(128, 128, 8);\nthread(8, 8); // a square\n\n// Deep.\ndouble_buffer;\n";
/// assert_eq!(ptx_gemm_dsl::format::format(text).unwrap(), canonical);
/// assert_eq!(ptx_gemm_dsl::format::format(canonical).unwrap(), canonical);
/// ```
///
/// # Errors
/// Returns diagnostics for everything that cannot be read.
pub fn format(text: &str) -> Result<String, Diagnostics> {
    let parsed = Schedule::read(text);
    if !parsed.errors.is_empty() {
        return Err(Diagnostics::new(parsed.errors).in_text(Some(text.into())));
    }
    let mut out = String::new();
    let mut end = 0;
    for Item { clause, span } in &parsed.items {
        // Every item read from text has a span.
        let Some(span) = span else { continue };
        let place = span.start as usize..span.end as usize;
        between(&text[end..place.start], &mut out);
        clause_text(clause, &text[place.clone()], &mut out);
        end = place.end;
    }
    between(&text[end..], &mut out);
    let trimmed = out.trim_end();
    Ok(if trimmed.is_empty() { String::new() } else { format!("{trimmed}\n") })
}

fn clause_text(clause: &Clause, written: &str, out: &mut String) {
    match comments(written).is_empty() {
        true => out.push_str(&clause.to_string()),
        false => out.push_str(written),
    }
    if !matches!(clause, Clause::Expect(_)) {
        out.push(';');
    }
    out.push('\n');
}

/// Formats the text between two clauses: comments and blank lines stay.
fn between(gap: &str, out: &mut String) {
    let mut end = 0;
    for Range { start, end: stop } in comments(gap) {
        let (before, comment) = (&gap[end..start], gap[start..stop].trim_end());
        let lines = before.matches('\n').count();
        if lines == 0 && !out.is_empty() && !(end > 0 && gap[..end].ends_with('\n')) {
            // On the line of the preceding text.
            out.truncate(out.trim_end_matches('\n').len());
            out.push(' ');
        } else {
            blank(lines, out);
        }
        out.push_str(comment);
        out.push('\n');
        end = stop;
    }
    blank(gap[end..].matches('\n').count(), out);
}

/// At most one empty line.
fn blank(lines: usize, out: &mut String) {
    if lines > 1 && !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
}

/// The spans of the comments in a text without unclosed brackets.
fn comments(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(skip) = text[at..].find('/') {
        let start = at + skip;
        let rest = &text[start..];
        let length = match rest.as_bytes().get(1) {
            Some(b'/') => rest.find('\n').unwrap_or(rest.len()),
            Some(b'*') => block(rest),
            _ => {
                at = start + 1;
                continue;
            }
        };
        found.push(start..start + length);
        at = start + length;
    }
    found
}

/// The length of a block comment, which may be nested.
fn block(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let (step, change) = match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        (at, depth) = (at + step, depth + change);
        if depth == 0 {
            break;
        }
    }
    at
}
