//! Positions in the text of a space, of its tokens and of spans in its schedules.

use std::ops::Range;

use crate::span::Span;
use crate::token::Token;

/// The origins of a text's bytes, in ascending order.
#[derive(Debug, Default)]
pub(super) struct Places {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    /// Its start in the combination's text.
    at: usize,
    source: Range<usize>,
    /// Whether it is copied from the source byte by byte, or replaces something there.
    verbatim: bool,
}

impl Places {
    /// The bytes from `at` on are copied from `source`.
    pub fn verbatim(&mut self, at: usize, source: Range<usize>) {
        self.pieces.push(Piece { at, source, verbatim: true });
    }

    /// The bytes from `at` on replace those of `source`.
    pub fn replaced(&mut self, at: usize, source: Range<usize>) {
        self.pieces.push(Piece { at, source, verbatim: false });
    }

    /// The corresponding span in the text of the space.
    pub fn span(&self, span: Span, source: &str) -> Span {
        let start = self.source(span.start as usize).start;
        // Uses the last byte's end, so that an end at the border of two pieces belongs to the first one.
        let end = self.source((span.end.max(span.start + 1) - 1) as usize).end;
        span_of(source, start..end.max(start))
    }

    /// The source of one byte.
    fn source(&self, at: usize) -> Range<usize> {
        let after = self.pieces.partition_point(|piece| piece.at <= at);
        let Some(piece) = after.checked_sub(1).and_then(|index| self.pieces.get(index)) else { return 0..0 };
        if !piece.verbatim {
            return piece.source.clone();
        }
        let byte = (piece.source.start + at - piece.at).min(piece.source.end);
        byte..(byte + 1).min(piece.source.end)
    }
}

/// The span of some bytes of a text.
pub(super) fn span_of(text: &str, range: Range<usize>) -> Span {
    // A span that begins inside a character begins with that character.
    let start = (0..=range.start.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let before = &text[..start];
    let line = before.matches('\n').count() as u32 + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u32 + 1;
    Span { start: range.start as u32, end: range.end as u32, line, column }
}

/// The bytes from the first to the last of these tokens.
pub(super) fn bytes(tokens: &[Token]) -> Range<usize> {
    let span = enclosing(tokens);
    span.start as usize..span.end as usize
}

/// The span from the first to the last of these tokens.
pub(super) fn enclosing(tokens: &[Token]) -> Span {
    let nowhere = Span { start: 0, end: 0, line: 0, column: 0 };
    tokens.first().zip(tokens.last()).map_or(nowhere, |(first, last)| first.span.to(last.span))
}
