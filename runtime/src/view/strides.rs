//! Converts the strides of other libraries to a layout and a leading dimension.

/// Strides that no leading dimension expresses: elements of a row or a column are not adjacent, or rows overlap or run
/// backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{rows} x {cols} elements with strides ({row_stride}, {col_stride}) have no leading dimension: one stride is to be 1 and \
     the other at least the length of a row or column; a copy in standard layout has both"
)]
pub struct Strides {
    /// Rows of the matrix.
    pub rows: usize,
    /// Its columns.
    pub cols: usize,
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
}
