//! All diagnostics of one schedule, and their text.

use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Severity};

/// All diagnostics of one schedule, in source order.
///
/// The text follows the layout of the Rust compiler's diagnostics, with lines of the schedule if it came from text:
///
/// ```
/// let errors = "tile(128, 128, 8);\nthread(8, 8);\nstage(2);".parse::<ptx_gemm_dsl::Schedule>().unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "\
/// error: unknown clause `stage`
///  --> schedule:3:1
///   |
/// 3 | stage(2);
///   | ^^^^^
///   |
///   = help: did you mean `stages`?
/// "
/// );
/// ```
#[derive(Clone, PartialEq, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    source: Option<Arc<str>>,
    name: Option<String>,
    written_at: Option<String>,
}

impl Diagnostics {
    /// Diagnostics of a schedule that did not come from text.
    pub fn new(list: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics { list, ..Diagnostics::default() }
    }

    /// Adds the source text, to show its lines.
    pub fn in_text(self, source: Option<Arc<str>>) -> Diagnostics {
        Diagnostics { source, ..self }
    }

    /// Adds the name of the file that the text came from.
    pub fn named(self, name: impl Into<String>) -> Diagnostics {
        Diagnostics { name: Some(name.into()), ..self }
    }

    /// Adds the place in the program where a macro assembled the text; a note under each diagnostic names it.
    pub fn written_at(self, place: impl Into<String>) -> Diagnostics {
        Diagnostics { written_at: Some(place.into()), ..self }
    }

    /// Drops the notes.
    pub(crate) fn retain_errors(&mut self) {
        self.list.retain(|diagnostic| diagnostic.severity == Severity::Error);
    }

    /// The diagnostics one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// The errors among them.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// The number of diagnostics.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The text with terminal colours.
    pub fn styled(&self) -> String {
        self.render(&Renderer::styled())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let mut text = String::new();
        for diagnostic in &self.list {
            text.push_str(&renderer.render(&[self.group(diagnostic)]));
            text.push('\n');
        }
        text
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic) -> Group<'a> {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Note => Level::NOTE,
        };
        let title = level.primary_title(diagnostic.message.as_str());
        let mut group = match self.source.as_deref().zip(diagnostic.span) {
            Some((source, span)) => {
                let range = span.start as usize..span.end as usize;
                let name = self.name.as_deref().unwrap_or("schedule");
                let snippet = Snippet::source(source).path(name).annotation(AnnotationKind::Primary.span(range));
                title.element(snippet)
            }
            None => Group::with_title(title),
        };
        if let Some(place) = &self.written_at {
            group = group.element(Level::NOTE.message(format!("the schedule is that of `gemm!` at {place}")));
        }
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        group
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Diagnostics {
        Diagnostics::new(vec![one])
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

/// The same text as `Display`: `main` may return this error, and a user reads it.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Diagnostics {}
