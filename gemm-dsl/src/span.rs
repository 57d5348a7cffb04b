//! Places in the schedule that a user wrote.

use serde::Serialize;

/// A half-open range of a schedule's source.
///
/// For text, `start` and `end` are byte offsets, and `line` and `column` (in characters) count from 1. For tokens of a
/// macro they are numbers of tokens, and `line` is 0: the macro keeps the compiler's own spans alongside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    /// First byte (or token).
    pub start: u32,
    /// One past the last byte (or token).
    pub end: u32,
    /// Line of the start, from 1; 0 without lines.
    pub line: u32,
    /// Column of the start, from 1, in characters; 0 without lines.
    pub column: u32,
}

impl Span {
    /// The span of one macro token.
    pub fn token(index: u32) -> Span {
        Span { start: index, end: index + 1, line: 0, column: 0 }
    }

    /// The span from the start of `self` to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { end: last.end.max(self.start), ..self }
    }
}
