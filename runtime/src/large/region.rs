//! Rectangles of a matrix: the parts that are copied, multiplied and written back.

use std::fmt;
use std::ops::Range;

/// A rectangle of a matrix, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// First row.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Region {
    /// The rectangle of these rows and columns.
    pub fn new(rows: Range<usize>, cols: Range<usize>) -> Region {
        let len = |range: &Range<usize>| range.end.saturating_sub(range.start);
        Region { row: rows.start, col: cols.start, rows: len(&rows), cols: len(&cols) }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Elements.
    pub fn elements(&self) -> u64 {
        self.rows as u64 * self.cols as u64
    }

    /// Whether an element belongs to both.
    pub fn overlaps(&self, other: &Region) -> bool {
        let overlap = |a: usize, la: usize, b: usize, lb: usize| a < b + lb && b < a + la;
        !self.is_empty()
            && !other.is_empty()
            && overlap(self.row, self.rows, other.row, other.rows)
            && overlap(self.col, self.cols, other.col, other.cols)
    }

    /// Whether every element of `other` belongs to this one.
    pub fn covers(&self, other: &Region) -> bool {
        other.is_empty()
            || self.row <= other.row
                && self.col <= other.col
                && self.row + self.rows >= other.row + other.rows
                && self.col + self.cols >= other.col + other.cols
    }

    /// The same rectangle, `rows` further down and `cols` to the right.
    pub fn moved(&self, rows: usize, cols: usize) -> Region {
        Region { row: self.row + rows, col: self.col + cols, ..*self }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}..{}, {}..{}]", self.row, self.row + self.rows, self.col, self.col + self.cols)
    }
}
