//! Matrices of `ndarray` and `faer` as operands: views with leading dimensions, transposed ones, parts of larger arrays.

use faer::{Mat, MatMut, MatRef};
use ndarray::{Array2, Axis, ShapeBuilder, s};
use ptx_gemm_dsl::Layout;
use ptx_gemm_runtime::{AnyRef, ArgumentError, AsMatrix, AsMatrixMut, CompiledGemm, Device, Error, Matrix};

fn compiled(layouts: &str) -> CompiledGemm {
    let text = format!("tile(16, 16, 4); thread(2, 2); {layouts}");
    CompiledGemm::new(&text.parse().unwrap(), &Device::interpreter()).unwrap()
}

/// The product of the plain matrices with these elements.
fn expected(a: &Matrix<f32>, b: &Matrix<f32>) -> Matrix<f32> {
    compiled("").multiply(&a.to_layout(Layout::Row), &b.to_layout(Layout::Row)).unwrap()
}

#[track_caller]
fn equal(d: &Matrix<f32>, expected: &Matrix<f32>) {
    assert_eq!(d.to_layout(Layout::Row), *expected);
}

#[test]
fn arrays_and_their_views() {
    let a = Array2::from_shape_fn((5, 7), |(i, k)| (i * 7 + k) as f32);
    let b = Array2::from_shape_fn((7, 6).f(), |(k, j)| (k as f32) - (j as f32));
    let plain = expected(&Matrix::from(&a), &Matrix::from(&b));
    // An array in Fortran order is a column-major matrix.
    equal(&compiled("layout(b = col)").multiply(&a, &b).unwrap(), &plain);
    // A transposed view is the other layout of the same elements.
    let transposed = a.t().as_standard_layout().into_owned();
    equal(&compiled("layout(a = col, b = col)").multiply(&transposed.t(), &b.view()).unwrap(), &plain);
    // Part of a larger array: the distance of its rows exceeds their length.
    let mut large = Array2::from_elem((9, 12), f32::NAN);
    large.slice_mut(s![2..7, 3..10]).assign(&a);
    let part = large.slice(s![2..7, 3..10]);
    assert_eq!(part.as_any().unwrap().shape.ld, 12);
    let b = b.as_standard_layout().into_owned();
    equal(&compiled("").multiply(&part, &b).unwrap(), &plain);
}

#[test]
fn a_part_of_an_array_is_written_and_nothing_else() {
    let (a, b) = (Matrix::<f32>::random(5, 7, 1), Matrix::<f32>::random(7, 6, 2));
    let plain = expected(&a, &b);
    for split in [Layout::Row, Layout::Col] {
        let mut large = match split {
            Layout::Row => Array2::from_elem((12, 13), 7.0f32),
            Layout::Col => Array2::from_elem((12, 13).f(), 7.0f32),
        };
        // Another thread uses the other half at the same time.
        let (left, mut right) = large.view_mut().split_at(Axis(1), 6);
        let mut d = left.split_at(Axis(0), 5).0;
        compiled(&format!("layout(d = {split})")).multiply_into(&a, &b, &mut d).unwrap();
        right.fill(8.0);
        for ((row, col), &element) in large.indexed_iter() {
            let wanted = if row < 5 && col < 6 {
                plain[(row, col)]
            } else if col < 6 {
                7.0
            } else {
                8.0
            };
            assert_eq!(element, wanted, "({row}, {col}), {split}");
        }
    }
    // In place, and as C.
    let mut large = Array2::from_elem((9, 9), 1.0f32);
    let mut d = large.slice_mut(s![1..6, 2..8]);
    let gemm = compiled("epilogue(|acc, c| acc + c)");
    let apart = gemm.c(&d).multiply(&a, &b).unwrap();
    gemm.call().accumulate_into(&a, &b, &mut d).unwrap();
    assert_eq!(Matrix::from(&d), apart);
    assert_eq!(apart[(4, 5)], plain[(4, 5)] + 1.0);
}

#[test]
fn strides_without_a_leading_dimension_are_refused() {
    let (a, b) = (Array2::<f32>::zeros((6, 8)), Array2::<f32>::zeros((4, 3)));
    let every_second = a.slice(s![.., ..;2]);
    let gemm = compiled("");
    let error = gemm.multiply(&every_second, &b).unwrap_err();
    assert!(matches!(error, Error::Argument(ArgumentError::Strides { .. })), "{error:?}");
    assert_eq!(
        error.to_string(),
        "A: 6 x 4 elements with strides (8, 2) have no leading dimension: one stride is to be 1 and the other at least the \
         length of a row or column; a copy in standard layout has both"
    );
    let mut backwards = b.clone();
    backwards.invert_axis(Axis(0));
    assert!(gemm.multiply(&a.slice(s![.., ..4]), &backwards).unwrap_err().to_string().starts_with("B: 4 x 3"));
    let mut d = Array2::<f32>::zeros((6, 6));
    let error = gemm.multiply_into(&a.slice(s![.., ..4]), &b, &mut d.slice_mut(s![.., ..;2])).unwrap_err();
    assert!(error.to_string().starts_with("D: 6 x 3"), "{error}");
    assert!(Device::interpreter().upload(&every_second).unwrap_err().to_string().starts_with("6 x 4 elements"));
    // A copy has suitable strides.
    assert!(gemm.multiply(&every_second.as_standard_layout(), &b).is_ok());
}

#[test]
fn matrices_of_faer_and_their_views() {
    let (a, b) = (Matrix::<f32>::random(5, 7, 1), Matrix::<f32>::random(7, 6, 2));
    let plain = expected(&a, &b);
    let (fa, fb) = (Mat::from(&a), Mat::from(&b));
    let all_col = compiled("layout(a = col, b = col, d = col)");
    equal(&all_col.multiply(&fa, &fb).unwrap(), &plain);
    // Transposed, a matrix of faer is row major.
    let transposed = Mat::from_fn(7, 5, |k, i| a[(i, k)]);
    equal(&compiled("layout(b = col)").multiply(&transposed.transpose(), &fb.as_ref()).unwrap(), &plain);
    // A part, and a result in a part.
    let large =
        Mat::from_fn(
            9,
            9,
            |i, k| if (2..7).contains(&i) && (1..8).contains(&k) { a[(i - 2, k - 1)] } else { f32::NAN },
        );
    let part: MatRef<'_, f32> = large.as_ref().submatrix(2, 1, 5, 7);
    let mut out = Mat::from_fn(11, 8, |_, _| 7.0f32);
    let d: MatMut<'_, f32> = out.as_mut().submatrix_mut(3, 1, 5, 6);
    let mut d = d;
    all_col.multiply_into(&part, &fb, &mut d).unwrap();
    for (row, col) in (0..11).flat_map(|row| (0..8).map(move |col| (row, col))) {
        let inside = (3..8).contains(&row) && (1..7).contains(&col);
        let wanted = if inside { plain[(row - 3, col - 1)] } else { 7.0 };
        assert_eq!(out[(row, col)], wanted, "({row}, {col})");
    }
    assert_eq!(Matrix::from(&Mat::from(&a)).to_layout(Layout::Row), a);
    let reversed = fa.as_ref().reverse_rows();
    let error = all_col.multiply(&reversed, &fb).unwrap_err();
    assert!(error.to_string().starts_with("A: 5 x 7 elements with strides (-1, "), "{error}");
}

/// Vectors, and matrices without elements.
#[test]
fn extents_of_one_and_none() {
    for (m, n, k) in [(1, 6, 7), (5, 1, 7), (5, 6, 1), (1, 1, 1), (0, 6, 7), (5, 0, 7), (5, 6, 0)] {
        let (a, b) = (Matrix::<f32>::random(m, k, 1), Matrix::<f32>::random(k, n, 2));
        let plain = expected(&a, &b);
        let (na, nb) = (Array2::from(&a), Array2::from(&b));
        let mut d = Array2::<f32>::zeros((m, n));
        compiled("").multiply_into(&na, &nb, &mut d).unwrap();
        assert_eq!(Array2::from(&plain), d);
        let (fa, fb, mut fd) = (Mat::from(&a), Mat::from(&b), Mat::<f32>::zeros(m, n));
        let layout = |operand: AnyRef<'_>| operand.shape.layout;
        let (x, y) = (layout(fa.as_any().unwrap()), layout(fb.as_any().unwrap()));
        let z = fd.as_any_mut().unwrap().shape.layout;
        compiled(&format!("layout(a = {x}, b = {y}, d = {z})")).multiply_into(&fa, &fb, &mut fd).unwrap();
        assert_eq!(Mat::from(&plain), fd, "{m} {n} {k}");
    }
}
