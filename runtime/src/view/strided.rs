//! The shape of a matrix of another library, from its extents and strides.

use ptx_gemm_dsl::Layout;

use super::strides::Strides;
use crate::shape::Shape;

/// Row major if both layouts fit, as for a single row or column, unless the strides say otherwise. The stride along an
/// extent of 1 or 0 is never used, and may have any value.
pub(super) fn shape(strides: Strides) -> Result<Shape, Strides> {
    let Strides { rows, cols, row_stride, col_stride } = strides;
    let of = |layout| {
        let packed = Shape::packed(rows, cols, layout);
        let (along, between) = match layout {
            Layout::Row => (col_stride, row_stride),
            Layout::Col => (row_stride, col_stride),
        };
        let contiguous = packed.run() <= 1 || along == 1;
        // The distance of the runs matters only if there are at least two of them.
        let ld = if packed.runs() <= 1 || packed.is_empty() { Some(packed.ld) } else { usize::try_from(between).ok() };
        let ld = ld.filter(|&ld| (contiguous || packed.is_empty()) && ld >= packed.min_ld());
        ld.map(|ld| Shape { ld, ..packed })
    };
    let (first, second) =
        if row_stride == 1 && col_stride != 1 { (Layout::Col, Layout::Row) } else { (Layout::Row, Layout::Col) };
    of(first).or_else(|| of(second)).ok_or(strides)
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Layout::{self, Col, Row};

    use super::{Strides, shape};

    #[track_caller]
    fn check(
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (isize, isize),
        expected: Option<(Layout, usize)>,
    ) {
        let found = shape(Strides { rows, cols, row_stride, col_stride }).ok().map(|shape| (shape.layout, shape.ld));
        assert_eq!(found, expected, "{rows} x {cols}, strides ({row_stride}, {col_stride})");
    }

    #[test]
    fn a_stride_of_one_and_one_that_spans_a_run() {
        check((3, 4), (4, 1), Some((Row, 4)));
        check((3, 4), (9, 1), Some((Row, 9)));
        check((3, 4), (1, 3), Some((Col, 3)));
        check((3, 4), (1, 7), Some((Col, 7)));
        // Every second element, a reversed matrix, overlapping rows, a broadcast row.
        check((3, 4), (8, 2), None);
        check((3, 4), (-4, 1), None);
        check((3, 4), (3, 1), None);
        check((3, 4), (0, 1), None);
    }

    #[test]
    fn strides_along_extents_of_one_do_not_count() {
        check((1, 4), (77, 1), Some((Row, 4)));
        check((4, 1), (6, 77), Some((Row, 6)));
        check((4, 1), (1, 77), Some((Col, 4)));
        check((1, 4), (1, 6), Some((Col, 6)));
        check((1, 1), (-5, 0), Some((Row, 1)));
        check((0, 4), (0, 0), Some((Row, 4)));
    }
}
